"""The networks of the package have the properties of their cards, and their recipes run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import network_recipes
import numpy as np
import pytest

from optinc_pdk.averaging import Averaging, score
from optinc_pdk.networks import AveragingNetwork, bundled_weights, lattice_score, matrix_error_accuracy, normalise
from optinc_pdk.networks.network import Cascade
from optinc_pdk.networks.training.schedule import TrainingSchedule
from optinc_pdk.networks.weight_files import NETWORKS

NAMES = sorted(path.stem for path in NETWORKS.glob("*.npz"))


def test_every_network_of_the_package_has_a_recipe() -> None:
    assert sorted(recipe.name for recipe in network_recipes.recipes()) == NAMES
    assert [bundled_weights().stem, bundled_weights(8, 4).stem] == ["average_4bit_4servers", "average_8bit_4servers"]
    assert bundled_weights(8, 8).stem == "average_8bit_8servers"
    with pytest.raises(ValueError, match=r"bits = 6, servers = 4.*average_4bit"):
        bundled_weights(6, 4)


@pytest.mark.full(every=2)
@pytest.mark.parametrize("name", NAMES)
def test_exact_over_the_lattice_with_margin_also_when_normalised(name: str) -> None:
    onn = AveragingNetwork.load(NETWORKS / f"{name}.npz")
    assert onn.factor == ("svd",) * len(onn.layers)
    result = lattice_score(onn)
    assert result.inputs == onn.task.lattice_size
    assert result.exact == result.inputs
    assert result.margin >= 0.15
    points = onn.task.lattice()
    normalised = score(normalise(onn).forward(points), onn.task.targets(points), onn.task.output_resolution)
    assert normalised.exact == result.inputs
    assert normalised.margin == pytest.approx(result.margin, abs=1e-9)


@pytest.mark.parametrize(("bits", "widths", "mzis"), [(4, (4, 4), 18), (8, (6,) * 4, 52)])
def test_structures_are_within_their_limits(bits: int, widths: tuple[int, ...], mzis: int) -> None:
    onn = AveragingNetwork.load(bundled_weights(bits))
    assert onn.task == Averaging(bits, 4, bits // 2)
    assert onn.activation == "clipped_relu"
    assert onn.mzis <= mzis
    hidden = onn.structure[1:-1]
    assert len(hidden) == len(widths)
    assert all(width <= limit for width, limit in zip(hidden, widths, strict=True))


@pytest.mark.full(every=10)
@pytest.mark.parametrize("name", NAMES)
def test_cards_contain_the_recipe_and_the_measured_values(name: str) -> None:
    onn = AveragingNetwork.load(NETWORKS / f"{name}.npz")
    (recipe,) = (recipe for recipe in network_recipes.recipes() if recipe.name == name)
    if recipe.schedule is None:
        closed = recipe.closed(recipe.task)
        assert {key: onn.card[key] for key in closed.card} == closed.card
        for ours, theirs in zip(onn.layers, closed.layers, strict=True):
            np.testing.assert_allclose(ours.weight, theirs.weight, atol=1e-12)
            np.testing.assert_allclose(ours.bias, theirs.bias, atol=1e-12)
    else:
        assert onn.card["recipe"] == name
        assert onn.card["seed"] == recipe.seed
        assert TrainingSchedule(**onn.card["schedule"]) == recipe.schedule
    measured = network_recipes.measure(onn)
    assert onn.card["structure"] == measured["structure"] == list(onn.structure)
    assert onn.card["accuracy"] == measured["accuracy"] == 1.0
    assert onn.card["margin"] == pytest.approx(measured["margin"], abs=1e-4)
    # Another machine rounds differently, which may change a word at a threshold.
    for table in ("tolerance", "input_tolerance"):
        assert onn.card[table] == pytest.approx(measured[table], abs=1e-4)


TOLERATED_ERRORS = {
    "average_4bit_4servers": 6e-3,
    "average_4bit_4servers_relu": 3e-4,
    "average_8bit_4servers": 6e-3,
    "average_8bit_4servers_relu": 3e-4,
    "average_8bit_4servers_robust": 1e-3,
    "average_8bit_4servers_unary": 3e-3,
    "average_8bit_4servers_wide": 3e-3,
    "average_8bit_8servers": 1e-4,
    "cascade_8bit_4servers_level1": 3e-4,
    "cascade_8bit_4servers_level2": 3e-4,
}
"""Matrix errors under which 99.9 % of the words are exact."""


@pytest.mark.parametrize("name", NAMES)
def test_tolerance_to_matrix_errors(name: str) -> None:
    onn = AveragingNetwork.load(NETWORKS / f"{name}.npz")
    sample = 2000 if onn.task.lattice_size > 2000 else None
    assert matrix_error_accuracy(onn, TOLERATED_ERRORS[name], draws=50, seed=123, sample=sample) >= 0.999


def test_the_cascade_of_the_package_averages_sixteen_servers() -> None:
    chip = Cascade(*(AveragingNetwork.load(NETWORKS / f"cascade_8bit_4servers_level{level}.npz") for level in (1, 2)))
    words = np.random.default_rng(0).integers(0, 256, (20_000, 4, 4))
    np.testing.assert_array_equal(chip.average(words), words.sum(axis=(1, 2)) // 16)


@pytest.mark.parametrize("name", NAMES)
def test_saving_again_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    path = NETWORKS / f"{name}.npz"
    AveragingNetwork.load(path).save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == path.read_bytes()


def test_recipes_run_from_the_command_line_and_are_reproducible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = next(recipe for recipe in network_recipes.recipes() if recipe.schedule is not None)
    assert first.schedule is not None
    short = replace(first, schedule=replace(first.schedule, steps=4, evaluations=1))
    monkeypatch.setattr(network_recipes, "recipes", lambda: (short,))
    for folder in ("a", "b"):
        network_recipes.main(["--out", str(tmp_path / folder), first.name])
    files = [tmp_path / folder / f"{first.name}.npz" for folder in ("a", "b")]
    assert files[0].read_bytes() == files[1].read_bytes()
    trained = AveragingNetwork.load(files[0])
    assert trained.task == first.task
    assert trained.card["schedule"]["steps"] == 4
    assert np.isfinite(trained.card["margin"])
    output = capsys.readouterr()
    assert first.name in output.out
    assert "4/4 loss" in output.err


def test_an_unknown_recipe_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        network_recipes.main(["average_5bit_4servers"])
    message = capsys.readouterr().err
    assert "'average_5bit_4servers'" in message
    assert "average_4bit_4servers" in message
