"""Every scheme that averages buckets refuses NaN and infinite gradients and names their parameters."""

import re

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from optinc_collective.schemes import AllReduce, Ring, Wrht, WrhtState, wrht_hook
from optinc_pdk.errors import InputError

SCHEMES = {"ring": Ring, "torch": AllReduce, "WRHT": lambda: Wrht(1)}


class Factors(nn.Module):
    """Model whose parameters' gradients are its input."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(4))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.first, self.second]) @ values


def averaged(name: str, sent: list[list[float]]) -> list[float]:
    if name == "hook":
        model: nn.Module = DistributedDataParallel(Factors())
        model.register_comm_hook(WrhtState(1), wrht_hook)
    else:
        model = SCHEMES[name]().wrap(Factors())
    model(torch.tensor(sent[dist.get_rank()])).backward()
    return torch.cat([parameter.grad for parameter in model.parameters()]).tolist()


def sent(**exceptions: float) -> list[list[float]]:
    """Gradients by rank: 1, except those given by keys r<rank>p<position>."""
    values = [[1.0] * 7 for _ in range(4)]
    for key, value in exceptions.items():
        values[int(key[1])][int(key[3])] = value
    return values


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("wrong", [float("nan"), float("-inf")])
def test_gradients_that_are_not_finite_are_reported_with_their_parameter(ranks, name, wrong):
    faults = ranks.outcomes(averaged, name, sent(r1p0=wrong, r1p2=wrong, r3p5=wrong, r3p6=-wrong))
    assert all(isinstance(fault, InputError) for fault in faults), faults
    for fault in faults:
        assert "rank 1: first (2 of 3); rank 3: second (2 of 4)" in str(fault)


def test_the_hook_without_names_reports_the_shape(ranks):
    for fault in ranks.outcomes(averaged, "hook", sent(r2p3=float("inf"))):
        assert isinstance(fault, InputError)
        assert re.search(r"rank 2: .*\(4,\) \(1 of 4\)", str(fault))


def test_a_sum_beyond_float32_is_reported(ranks):
    for fault in ranks.outcomes(averaged, "ring", sent(r0p4=3e38, r2p4=3e38)):
        assert isinstance(fault, InputError)
        assert "second (1 of 4)" in str(fault)
        assert not re.search(r"rank \d", str(fault))  # the gradients of every single rank are finite


@pytest.mark.parametrize("name", SCHEMES)
def test_large_gradients_whose_check_overflows_pass(ranks, name):
    """The sum of a bucket is infinite, but none of its gradients is."""
    values = sent(r0p0=3e38, r0p4=3e38)
    expected = (torch.tensor(values, dtype=torch.float64).mean(0)).float().tolist()
    for got in ranks.run(averaged, name, values):
        assert got == pytest.approx(expected)
