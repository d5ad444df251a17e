"""A rank that is killed in the middle of a step ends the job: no hang, no wrong gradient."""

import os
import signal

import pytest
import torch
import torch.distributed as dist
from torch import nn

from optinc_pdk.collective import CommunicationError, Optinc, ideal_chip, ring_all_reduce

SECONDS = 30.0


def killed_in_backward() -> tuple[str, bool, int]:
    """Trains; rank 1 dies in the second step's backward pass. Returns the error, and whether the step was left."""
    torch.manual_seed(0)
    scheme = Optinc(ideal_chip(8, 3))
    layer = nn.Linear(4, 4)
    model = scheme.wrap(nn.Sequential(layer, nn.Linear(4, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        before = layer.weight.detach().clone()
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).sum()
        if step == 1 and dist.get_rank() == 1:
            loss.register_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))
        try:
            loss.backward()
        except CommunicationError as fault:
            return str(fault), torch.equal(layer.weight, before), scheme.traffic.steps
        scheme.step(optimizer, loss.item())
    raise AssertionError("the lost rank was not missed")


def test_a_rank_killed_in_a_step_over_the_chip_ends_the_job(own_ranks):
    found = own_ranks(3, SECONDS).outcomes(killed_in_backward)
    assert str(found[1]) == f"{-signal.SIGKILL}"
    for said, unchanged, steps in (found[0], found[2]):
        assert "of bucket 0 did not arrive: a rank was lost" in said
        assert "start again from the last checkpoint" in said
        assert unchanged
        assert steps == 1


def killed_in_ring() -> None:
    values = torch.ones(1000)
    ring_all_reduce(values)
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    ring_all_reduce(values)


def test_a_rank_killed_in_the_ring_ends_it(own_ranks):
    with pytest.raises(AssertionError, match=r"rank 0 ---\n(?s:.*)CommunicationError: (?s:.*)rank 1 ---\n.*code -9"):
        own_ranks(2, SECONDS).run(killed_in_ring)
