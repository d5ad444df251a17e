"""Common behaviour of all schemes: the wrapped model, averaged buckets, and errors on every rank."""

import re
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from optinc_collective.schemes import (
    AllReduce,
    Dad,
    Daso,
    DasoPlan,
    Edad,
    Optinc,
    OptincState,
    RankDad,
    Ring,
    Scheme,
    Wrht,
    WrhtState,
    ideal_chip,
    ring_all_reduce,
    wrht_hook,
)
from optinc_collective.schemes.scheme import (
    gather_text,
    raise_on_all_ranks,
    require_equal_parameters,
    wrap_with_bucket_average,
)
from optinc_pdk.errors import InputError


def texts() -> list[str]:
    return gather_text("ü" * dist.get_rank())


def test_every_rank_has_every_text(ranks):
    assert ranks.run(texts) == [["", "ü", "üü", "üüü"]] * 4


def bad_on_two() -> None:
    with raise_on_all_ranks():
        if dist.get_rank() == 2:
            raise InputError("no such file")


def test_bad_input_of_one_rank_stops_all(ranks):
    faults = ranks.outcomes(bad_on_two)
    assert all(isinstance(fault, InputError) for fault in faults)
    assert str(faults[0]) == "rank 2: no such file"
    assert str(faults[2]) == "no such file"


def models(widths: list[int]) -> None:
    require_equal_parameters(nn.Linear(3, widths[dist.get_rank()]))


def test_ranks_of_different_parameters_are_refused(ranks):
    ranks.run(models, [5, 5, 5, 5])
    for fault in ranks.outcomes(models, [5, 5, 5, 6]):
        assert isinstance(fault, InputError)
        assert "rank 0 has weight (5, 3)" in str(fault)
        assert "rank 3 has weight (6, 3)" in str(fault)


WRONG = {
    "chip": (lambda: Optinc(5).wrap(nn.Linear(2, 2)), "chip = 5"),
    "model": (lambda: Ring().wrap("ResNet"), "model = 'ResNet'"),
    "DASO's model": (lambda: Daso(DasoPlan(2, 2, 1, 0, 1)).wrap(nn.Linear), "model = .*Linear"),
    "group": (lambda: AllReduce([0, 1, 2, 3]).wrap(nn.Linear(2, 2)), "group = .*ProcessGroup"),
    "wavelengths": (lambda: Wrht("64").wrap(nn.Linear(2, 2)), "wrht: wavelengths = '64'"),
    "hook's model": (lambda: OptincState(nn.Linear(2, 2), "x"), "Linear: .*DistributedDataParallel"),
    "traffic": (lambda: WrhtState(1, 0), "traffic = 0"),
    "values": (lambda: ring_all_reduce([1.0]), r"ring_all_reduce: values = \[1.0\]"),
}


def wrong(name: str, everywhere: bool) -> None:
    if everywhere or dist.get_rank() == 2:
        WRONG[name][0]()
    else:
        Optinc(ideal_chip(8, 4)).wrap(nn.Linear(2, 2))


@pytest.mark.parametrize("name", WRONG)
def test_values_of_wrong_types_are_refused_on_every_rank(ranks, name):
    for fault in ranks.outcomes(wrong, name, True):
        assert isinstance(fault, InputError), fault
        assert re.search(WRONG[name][1], str(fault))


@pytest.mark.parametrize("name", ["chip", "model"])
def test_values_of_wrong_types_on_one_rank_are_refused_on_all(ranks, name):
    faults = ranks.outcomes(wrong, name, False)
    assert all(isinstance(fault, InputError) for fault in faults), faults
    assert str(faults[0]).startswith("rank 2: ")
    assert all(re.search(WRONG[name][1], str(fault)) for fault in faults)


def doubled() -> list[float]:
    torch.manual_seed(0)
    model = nn.Linear(2, 1, bias=False)

    def average(gradients: torch.Tensor) -> None:
        dist.all_reduce(gradients)

    wrapped = wrap_with_bucket_average(model, average)
    wrapped(torch.full((1, 2), float(dist.get_rank()))).sum().backward()
    return model.weight.grad.flatten().tolist()


def test_gradients_are_replaced_by_the_averaging_function(ranks):
    assert ranks.run(doubled) == [[6.0, 6.0]] * 4


def test_without_torch_the_extra_is_named():
    code = "import sys; sys.modules['torch'] = None; import optinc_collective.schemes"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.search(r"ModuleNotFoundError: .*optinc-pdk\[train\]", done.stderr)


def scheme(name: str) -> Scheme:
    makers = {
        "ring": Ring,
        "optinc": lambda: Optinc(ideal_chip(8, 4)),
        "wrht": lambda: Wrht(1),
        "dad": Dad,
        "edad": Edad,
        "rank-dad": lambda: RankDad(1),
        "daso": lambda: Daso(DasoPlan(2, 2, 1, 1, 1)),
    }
    return makers[name]()


def wrapped_already(name: str) -> None:
    scheme(name).wrap(nn.Sequential(DistributedDataParallel(nn.Linear(3, 2))))


@pytest.mark.parametrize("name", ["ring", "optinc", "wrht", "dad", "daso"])
def test_a_model_that_torch_averages_already_is_refused(ranks, name):
    # dAD would train with gradients of zero, OptINC with averages of averages
    for fault in ranks.outcomes(wrapped_already, name):
        assert isinstance(fault, InputError)
        assert "DistributedDataParallel" in str(fault)


def second_model(name: str) -> None:
    one = scheme(name)
    one.wrap(nn.Linear(3, 2))
    one.wrap(nn.Linear(3, 2))


@pytest.mark.parametrize("name", ["dad", "edad", "rank-dad", "daso"])
def test_a_second_model_is_refused_by_schemes_that_keep_the_model(ranks, name):
    for fault in ranks.outcomes(second_model, name):
        assert isinstance(fault, InputError)
        assert "has a model already" in str(fault)


def sparse(name: str) -> None:
    model = nn.Sequential(nn.Embedding(4, 3, sparse=True), nn.Linear(3, 2))
    wrapped = scheme(name).wrap(model)
    wrapped(torch.tensor([1, 3])).sum().backward()


@pytest.mark.parametrize("name", ["ring", "optinc", "wrht", "dad"])
def test_sparse_gradients_are_refused_by_name(ranks, name):
    for fault in ranks.outcomes(sparse, name):
        assert isinstance(fault, InputError)
        assert "0.weight is sparse" in str(fault)


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
