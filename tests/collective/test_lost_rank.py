"""A rank that is killed in the middle of a step ends the job, in every scheme: no hang, no wrong gradient."""

import os
import signal

import pytest
import torch
import torch.distributed as dist
from torch import nn

from optinc_pdk.collective import (
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
MOST_SECONDS = 30.0
"""Less than the engine waits for a rank that does not answer: lost ones are missed at once."""

STEPS = 12
LOST, LAST = 1, 3
"""The rank that is killed, and the step in which it is."""

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
GOES_ON = {"DASO, cycling": 3}
"""Steps that others may still end: the other node sends after step 5 and merges after step 6, counted from 0."""


def trained(name: str, killed: bool) -> list[list[float]]:
    """Parameters after every step; of a step that broke off, those before it come with the error."""
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
    ends = own_ranks(4, ENGINE_SECONDS).ends(trained, name, True, seconds=MOST_SECONDS)
    assert [end.code for end in ends] == [-signal.SIGKILL if rank == LOST else 1 for rank in range(4)]
    for rank, end in enumerate(ends):
        if rank == LOST:
            continue
        said, states = end.fault.args
        assert said.startswith(f"rank {rank} of 4: ") or name.startswith("DASO")
        assert "did not arrive: a rank was lost" in said
        assert "start again from the last checkpoint" in said
        assert LAST <= len(states) <= LAST + GOES_ON.get(name, 0)
        assert states == whole[rank][: len(states)]  # no step was taken with what is no average


def killed_in_ring() -> None:
    values = torch.ones(1000)
    ring_all_reduce(values)
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    ring_all_reduce(values)


def test_a_rank_killed_in_the_ring_ends_it(own_ranks):
    with pytest.raises(AssertionError, match=r"rank 0 ---\n(?s:.*)CommunicationError: (?s:.*)rank 1 ---\n.*code -9"):
        own_ranks(2, ENGINE_SECONDS).run(killed_in_ring)
