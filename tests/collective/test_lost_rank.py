"""In every scheme, a rank that is killed during a step ends the job: no hang, no wrong gradient."""

import os
import signal

import pytest
import torch
import torch.distributed as dist
from torch import nn

from optinc_collective.schemes import (
    AllReduce,
    CommunicationError,
    Dad,
    Daso,
    DasoPlan,
    Edad,
    Optinc,
    RankDad,
    Ring,
    Scheme,
    Wrht,
    ideal_cascade,
    ideal_chip,
    ring_all_reduce,
)

ENGINE_SECONDS = 60.0
LIMIT_SECONDS = 30.0
"""Below the timeout for a rank that does not answer: a rank that died is detected at once."""

STEPS = 12
LOST, LAST = 1, 3
"""The rank that is killed, and the step in which it is killed."""

SCHEMES = {
    "OptINC": lambda: Optinc(ideal_chip(8, 4)),
    "OptINC, cascade": lambda: Optinc(ideal_cascade(8, 2)),
    "ring": Ring,
    "torch": AllReduce,
    "WRHT": lambda: Wrht(1),
    "DASO, all wait": lambda: Daso(DasoPlan(2, 2, warm_up=STEPS, cycling=0, window=1)),
    "DASO, cycling": lambda: Daso(DasoPlan(2, 2, warm_up=1, cycling=STEPS, window=100, skip=4)),
    "dAD": Dad,
    "edAD": Edad,
    "rank-dAD": lambda: RankDad(2),
}
FURTHER_STEPS = {"DASO, cycling": 3}
"""Steps that other ranks may still complete: the other node sends after step 5 and merges after step 6, from 0."""


def trained(name: str, killed: bool) -> list[list[float]]:
    """Parameters after every step; if a step is aborted, the error carries those of the steps before."""
    scheme: Scheme = SCHEMES[name]()
    rank = dist.get_rank()
    torch.manual_seed(0)
    wrapped = scheme.wrap(nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)))
    parameters = list(wrapped.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    torch.manual_seed(rank)
    states: list[list[float]] = []
    try:
        for step in range(STEPS):
            optimizer.zero_grad()
            loss = wrapped(torch.randn(4, 6)).square().mean()
            if killed and rank == LOST and step == LAST:
                loss.register_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))
            loss.backward()
            scheme.step(optimizer, loss.item())
            states.append(torch.cat([parameter.detach().flatten() for parameter in parameters]).tolist())
        scheme.finish()
    except CommunicationError as fault:
        raise CommunicationError(str(fault), states) from fault
    return states


@pytest.mark.parametrize("name", SCHEMES)
def test_a_rank_killed_in_a_step_ends_the_job(ranks, own_ranks, name):
    whole = ranks.run(trained, name, False)
    ends = own_ranks(4, ENGINE_SECONDS).ends(trained, name, True, seconds=LIMIT_SECONDS)
    assert [end.code for end in ends] == [-signal.SIGKILL if rank == LOST else 1 for rank in range(4)]
    for rank, end in enumerate(ends):
        if rank == LOST:
            continue
        assert isinstance(end.fault, CommunicationError)
        message, states = end.fault.args
        assert message.startswith(f"rank {rank} of 4: ") or name.startswith("DASO")
        assert LAST <= len(states) <= LAST + FURTHER_STEPS.get(name, 0)
        assert states == whole[rank][: len(states)]  # no step was taken with wrong gradients


def killed_in_ring() -> None:
    values = torch.ones(1000)
    ring_all_reduce(values)
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    ring_all_reduce(values)


def test_a_rank_killed_during_a_ring_all_reduce_ends_it(own_ranks):
    with pytest.raises(AssertionError, match=r"rank 0 ---\n(?s:.*)CommunicationError: (?s:.*)rank 1 ---\n.*code -9"):
        own_ranks(2, ENGINE_SECONDS).run(killed_in_ring)
