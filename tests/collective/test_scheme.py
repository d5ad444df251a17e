"""What all schemes share: the wrapped model, and errors that reach every rank."""

import re
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from torch import nn

from optinc_pdk.collective import (
    AllReduce,
    Daso,
    DasoPlan,
    Optinc,
    OptincState,
    Ring,
    Wrht,
    WrhtState,
    ideal_chip,
    ring_all_reduce,
)
from optinc_pdk.collective.average import average_by
from optinc_pdk.collective.scheme import gather_text, same_parameters, together
from optinc_pdk.files import InputError


def texts() -> list[str]:
    return gather_text("ü" * dist.get_rank())


def test_every_rank_has_every_text(ranks):
    assert ranks.run(texts) == [["", "ü", "üü", "üüü"]] * 4


def bad_on_two() -> None:
    with together():
        if dist.get_rank() == 2:
            raise InputError("no such file")


def test_bad_input_of_one_rank_stops_all(ranks):
    faults = ranks.outcomes(bad_on_two)
    assert all(isinstance(fault, InputError) for fault in faults)
    assert str(faults[0]) == "rank 2: no such file"
    assert str(faults[2]) == "no such file"


def models(widths: list[int]) -> None:
    same_parameters(nn.Linear(3, widths[dist.get_rank()]))


def test_ranks_of_different_parameters_are_refused(ranks):
    ranks.run(models, [5, 5, 5, 5])
    for fault in ranks.outcomes(models, [5, 5, 5, 6]):
        assert isinstance(fault, InputError)
        assert "rank 0 has weight (5, 3)" in str(fault)
        assert "rank 3 has weight (6, 3)" in str(fault)


WRONG = {
    "chip": (lambda: Optinc(5).wrap(nn.Linear(2, 2)), "chip = 5: give a Chip or text or a path"),
    "model": (lambda: Ring().wrap("ResNet"), "model = 'ResNet': give a Module"),
    "DASO's model": (lambda: Daso(DasoPlan(2, 2, 1, 0, 1)).wrap(nn.Linear), "model = .*Linear.*: give a Module"),
    "group": (lambda: AllReduce([0, 1, 2, 3]).wrap(nn.Linear(2, 2)), "group = .*: give a ProcessGroup or None"),
    "wavelengths": (lambda: Wrht("64").wrap(nn.Linear(2, 2)), "wrht: wavelengths = '64': give a whole number"),
    "hook's model": (lambda: OptincState(nn.Linear(2, 2), "x"), "wrap it in DistributedDataParallel first"),
    "traffic": (lambda: WrhtState(1, 0), "traffic = 0: give a Traffic or None"),
    "values": (lambda: ring_all_reduce([1.0]), r"ring_all_reduce: values = \[1.0\]: give a Tensor"),
}


def wrong(name: str, everywhere: bool) -> None:
    if everywhere or dist.get_rank() == 2:
        WRONG[name][0]()
    else:
        Optinc(ideal_chip(8, 4)).wrap(nn.Linear(2, 2))


@pytest.mark.parametrize("name", WRONG)
def test_other_types_are_refused_on_every_rank(ranks, name):
    for fault in ranks.outcomes(wrong, name, True):
        assert isinstance(fault, InputError), fault
        assert re.search(WRONG[name][1], str(fault))


@pytest.mark.parametrize("name", ["chip", "model"])
def test_other_types_on_one_rank_are_refused_on_all(ranks, name):
    faults = ranks.outcomes(wrong, name, False)
    assert all(isinstance(fault, InputError) for fault in faults), faults
    assert str(faults[0]).startswith("rank 2: ")
    assert all(re.search(WRONG[name][1], str(fault)) for fault in faults)


def doubled() -> list[float]:
    torch.manual_seed(0)
    model = nn.Linear(2, 1, bias=False)

    def average(gradients: torch.Tensor) -> None:
        dist.all_reduce(gradients)

    wrapped = average_by(model, average)
    wrapped(torch.full((1, 2), float(dist.get_rank()))).sum().backward()
    return model.weight.grad.flatten().tolist()


def test_gradients_are_what_the_function_leaves(ranks):
    assert ranks.run(doubled) == [[6.0, 6.0]] * 4


def test_without_torch_the_extra_is_named():
    code = "import sys; sys.modules['torch'] = None; import optinc_pdk as op; op.collective"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith("ModuleNotFoundError: collectives need PyTorch: pip install 'optinc-pdk[train]'\n")
