"""Plots: colours, reproducibility, dependence on what they show, and unusable values."""

from __future__ import annotations

import io

import numpy as np
import pytest
from matplotlib.image import imread
from numpy.typing import NDArray

from optinc_pdk.arrays import Floats
from optinc_pdk.matrices import MatrixTarget, compare_matrices
from optinc_pdk.networks import NetworkComparison, NetworkData, NetworkLimits
from optinc_pdk.report import plots
from optinc_pdk.report.matrix_pictures import matrix_png
from optinc_pdk.report.plots import network_png, outputs_png


def pixels(png: bytes) -> NDArray[np.uint8]:
    return np.rint(255 * imread(io.BytesIO(png))[..., :3]).astype(np.uint8)


def count(png: bytes, color: str) -> int:
    """Number of pixels of exactly this colour."""
    rgb = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
    return int((pixels(png) == rgb).all(axis=-1).sum())


def levels_and_outputs() -> tuple[Floats, Floats]:
    """Made-up outputs: levels with a ripple of at most 0.2."""
    levels = np.stack([np.repeat(np.arange(4.0), 4), np.tile(np.arange(4.0), 4)], axis=1)
    return levels, levels + 0.2 * np.cos(np.arange(32)).reshape(16, 2)


def test_wrong_outputs_are_red() -> None:
    levels, outputs = levels_and_outputs()
    clean = outputs_png(outputs, levels)
    assert count(clean, "#d3302f") == 0
    outputs[15, 1] += 0.9  # above the top level: far from it, but decided correctly
    assert count(outputs_png(outputs, levels), "#d3302f") == 0
    outputs[0, 1] += 0.9
    missed = outputs_png(outputs, levels)
    assert count(missed, "#d3302f") > 0


def test_outputs_plot_is_reproducible_for_any_number_of_outputs() -> None:
    levels, outputs = levels_and_outputs()
    assert outputs_png(outputs, levels) == outputs_png(outputs, levels)
    for repeats in (1, 2, 4):
        wide = outputs_png(np.tile(outputs, repeats)[:, 1:], np.tile(levels, repeats)[:, 1:])
        assert pixels(wide).shape[1] > 900


def test_of_many_points_the_worst_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    levels, outputs = levels_and_outputs()
    levels, outputs = np.tile(levels, (40, 1)), np.tile(outputs, (40, 1))
    outputs[333, 1] += 0.9
    whole = outputs_png(outputs, levels)
    monkeypatch.setattr(plots, "MAX_POINTS", 100)
    few = outputs_png(outputs, levels)
    assert count(few, "#d3302f") > 0
    assert (pixels(few) == 255).sum() > (pixels(whole) == 255).sum()


def test_faulty_outputs_are_refused() -> None:
    levels, outputs = levels_and_outputs()
    with pytest.raises(ValueError, match=r"\(16, 2\), \(15, 2\)"):
        outputs_png(outputs, levels[1:])
    with pytest.raises(ValueError, match=r"\(16,\)"):
        outputs_png(outputs[:, 0], levels[:, 0])
    outputs[0, 0] = np.nan
    with pytest.raises(ValueError, match="finite"):
        outputs_png(outputs, levels)


@pytest.mark.full(every=3)
@pytest.mark.parametrize("shape", [(1, 4), (6, 2), (5, 5), (40, 3)])
def test_pictures_show_the_difference(shape: tuple[int, int]) -> None:
    target = MatrixTarget(np.random.default_rng(0).normal(size=shape))
    wrong = target.matrix.copy()
    wrong[0, 0] += 0.2
    exact, other = (matrix_png(compare_matrices(matrix, target)) for matrix in (target.matrix, wrong))
    assert exact.startswith(b"\x89PNG") and other.startswith(b"\x89PNG")
    assert exact != other
    assert exact == matrix_png(compare_matrices(target.matrix, target))


LIMITS = NetworkLimits(0.999, 0.01, None)


def size(png: bytes) -> tuple[int, int]:
    """Width and height in the header of a PNG file."""
    assert png.startswith(b"\x89PNG")
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


@pytest.mark.parametrize(("samples", "outputs"), [(1, 1), (40, 3), (30_000, 25)])
def test_pictures_show_outputs_and_with_labels_the_confusion_matrix(samples: int, outputs: int) -> None:
    rng = np.random.default_rng(0)
    x, expected = rng.normal(size=(samples, 2)), rng.normal(size=(samples, outputs))
    labels = NetworkData(x, labels=rng.integers(0, max(outputs, 2), samples))
    plain, named = (
        network_png(NetworkComparison(data, LIMITS, expected, expected)) for data in (NetworkData(x), labels)
    )
    assert size(named)[0] == 2 * size(plain)[0] and size(named)[1] == size(plain)[1]
    assert plain == network_png(NetworkComparison(NetworkData(x), LIMITS, expected, expected))
    assert plain != network_png(NetworkComparison(NetworkData(x), LIMITS, expected, expected + 0.1))
