"""The trainings of examples/training on four ranks: every scheme with every network that it supports."""

import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from optinc_pdk.averaging import Averaging
from optinc_pdk.errors import InputError

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "examples" / "training"))

from data import Data, generated_images
from loop import TASKS, Run, start, train
from plots import read_losses
from schemes import ENTRIES, chip_file

STEPS = 2
LETTERS = b"the light of four servers meets in the chip and leaves it as an average. " * 20


def data_of(model: str) -> Data:
    """Small data for tests."""
    if model != "llama":
        return generated_images(pixels=8, classes=10, train=64, test=32, noise=0.5)
    tokens = torch.tensor(list(LETTERS))
    return Data("letters", tokens, tokens, tokens[:200], tokens[:200], classes=256, context=16)


def trainings(model: str, names: list[str], steps: int, folder: Path) -> dict[str, dict]:
    """Results of the trainings of a network, by scheme."""
    data = data_of(model)
    return {name: train(Run("small", model, name, steps, 7), data, folder, lambda *_: None) for name in names}


@pytest.fixture
def folder(tmp_path, write_table):
    """Folder with the tables of two 8-bit chips, one of them with errors."""
    task = Averaging(8, 4, 4)
    write_table(chip_file("extracted", tmp_path), task, {})
    wrong = {(0, 50 * point, server): 1 for point in range(500) for server in range(4)}
    write_table(chip_file("imperfect", tmp_path), task, wrong)
    return tmp_path


@pytest.mark.parametrize("model", ["chain", "resnet", "llama"])
def test_every_scheme_trains_to_finite_losses_and_equal_parameters(ranks, folder, model):
    names = [name for name in ENTRIES if name != "edad" or model == "chain"]
    of_ranks = ranks.run(trainings, model, names, STEPS, folder)
    exact = of_ranks[0]["torch"]
    for name in names:
        result = of_ranks[0][name]
        assert all(each[name] == {**result, "wall_s": each[name]["wall_s"]} for each in of_ranks), name
        assert math.isfinite(result["loss"])
        assert result["apart"] == 0.0, name  # for DASO only after `finish`
        assert result["start"] == exact["start"], name
        assert result["loss"] == pytest.approx(exact["loss"], abs=0.05), name
        assert len(read_losses(folder / f"small.{model}.{name}.7.csv")) == STEPS
    # bytes: a ring sends 2 (N - 1)/N of 32-bit gradients, OptINC sends 8-bit words once
    assert of_ranks[0]["ring"]["payload"] == pytest.approx(1.5 * exact["parameters"], abs=64)
    assert of_ranks[0]["optinc-8"]["payload"] == exact["parameters"] / 4


def test_losses_with_the_ring_equal_those_with_torch(ranks, tmp_path):
    ranks.run(trainings, "llama", ["torch", "ring"], 10, tmp_path)
    by_ring, by_torch = (read_losses(tmp_path / f"small.llama.{name}.7.csv") for name in ("ring", "torch"))
    assert by_ring == pytest.approx(by_torch, abs=1e-6)
    assert by_torch[-1] < by_torch[0] - 0.1


def train_with_nan(folder: Path) -> None:
    data = data_of("chain")
    data.inputs[:, 0, 0, 0] = math.nan
    train(Run("small", "chain", "ring", STEPS, 7), data, folder, lambda *_: None)


def test_nan_gradients_are_reported_with_the_parameters_name(ranks, tmp_path):
    for fault in ranks.outcomes(train_with_nan, tmp_path):
        assert isinstance(fault, InputError)
        assert "rank 0: 1.weight (24576 of 24576)" in str(fault)


def test_edad_refuses_a_resnet(ranks, tmp_path):
    for fault in ranks.outcomes(trainings, "resnet", ["edad"], 1, tmp_path):
        assert isinstance(fault, InputError)
        assert "Conv2d" in str(fault)


def test_initial_parameters_depend_on_the_seed():
    run, data = Run("small", "chain", "ring", 1, 3), data_of("chain")
    one, same, other = (start(each, data)[1].weight for each in (run, run, replace(run, seed=4)))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert set(TASKS["full"]) == {"resnet", "llama"}


def test_an_earlier_result_is_deleted_before_its_log_is_overwritten(ranks, tmp_path):
    earlier = tmp_path / "small.chain.ring.7.json"
    earlier.write_text("{}")
    ranks.run(trainings, "chain", ["ring"], 1, tmp_path)
    assert not earlier.exists()  # otherwise an interruption would leave it next to the log of another training
