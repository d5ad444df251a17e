"""Gradients that are NaN or infinite, refused by every scheme that averages buckets, with the parameters' names."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from optinc_pdk.collective import AllReduce, Ring, Wrht, WrhtState, wrht_hook
from optinc_pdk.errors import InputError

SCHEMES = {"ring": Ring, "torch": AllReduce, "WRHT": lambda: Wrht(1)}


class Factors(nn.Module):
    """Its parameters' gradients are what it is called with."""

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


def sent(**wrong: float) -> list[list[float]]:
    """Gradients by rank, 1 but for those given by rank and place."""
    values = [[1.0] * 7 for _ in range(4)]
    for place, value in wrong.items():
        values[int(place[1])][int(place[3])] = value
    return values


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("wrong", [float("nan"), float("-inf")])
def test_gradients_that_are_not_finite_are_reported_with_their_parameter(ranks, name, wrong):
    found = ranks.outcomes(averaged, name, sent(r1p0=wrong, r1p2=wrong, r3p5=wrong, r3p6=-wrong))
    assert all(isinstance(fault, InputError) for fault in found), found
    for fault in found:
        assert "NaN or infinite, rank 1: first (2 of 3); rank 3: second (2 of 4); no rank takes" in str(fault)


def test_the_bare_hook_tells_the_shape(ranks):
    for fault in ranks.outcomes(averaged, "hook", sent(r2p3=float("inf"))):
        assert "rank 2: a parameter of shape (4,) (1 of 4)" in str(fault)


def test_a_sum_beyond_float32_is_reported(ranks):
    for fault in ranks.outcomes(averaged, "ring", sent(r0p4=3e38, r2p4=3e38)):
        assert "added up over the ranks: second (1 of 4)" in str(fault)


@pytest.mark.parametrize("name", SCHEMES)
def test_large_gradients_whose_check_overflows_pass(ranks, name):
    """A bucket's own sum is infinite here, none of its gradients is."""
    values = sent(r0p0=3e38, r0p4=3e38)
    wanted = (torch.tensor(values, dtype=torch.float64).mean(0)).float().tolist()
    for got in ranks.run(averaged, name, values):
        assert got == pytest.approx(wanted)
