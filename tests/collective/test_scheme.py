"""What all schemes share: the wrapped model, and errors that reach every rank."""

import subprocess
import sys

import torch
import torch.distributed as dist
from torch import nn

from optinc_pdk.collective.scheme import average_by, gather_text, same_parameters, together
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
