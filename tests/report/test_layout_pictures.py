import io
from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest
from matplotlib.image import imread
from numpy.typing import NDArray

from optinc_pdk.report.plots import COLORS, detail_window, layout_png, outputs_plot

LAYERS = {"core": (3, 0), "heater": (39, 0), "metal": (41, 0), "label": (100, 0), "outline": (99, 0)}


def pixels(png: bytes) -> NDArray[np.uint8]:
    return np.rint(255 * imread(io.BytesIO(png))[..., :3]).astype(np.uint8)


def count(png: bytes, color: str) -> int:
    """How many pixels have exactly this color."""
    wanted = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
    return int((pixels(png) == wanted).all(axis=-1).sum())


def test_layout_has_its_proportions_and_every_level(gds: Path) -> None:
    picture = layout_png(gds, LAYERS)
    height, width, _ = pixels(picture).shape
    assert width == 1800
    assert height == pytest.approx(1800 * (200 + 8) / (400 + 8), abs=1)
    scale = (width / 408) ** 2
    # A pad of 80 × 80 µm, and two heaters of 80 × 8 µm that lie two levels down with a guide under them.
    assert count(picture, COLORS["metal"]) == pytest.approx(80 * 80 * scale, rel=0.03)
    assert count(picture, COLORS["heater"]) == pytest.approx(2 * 80 * 8 * scale, rel=0.05)
    assert count(picture, COLORS["core"]) > 0


def test_layer_without_a_name_is_not_drawn(gds: Path) -> None:
    picture = layout_png(gds, {"core": LAYERS["core"]})
    assert count(picture, COLORS["metal"]) == count(picture, COLORS["heater"]) == 0


def test_window_is_what_is_drawn_with_its_labels(gds: Path) -> None:
    pad = layout_png(gds, LAYERS, window_um=(20, 20, 100, 100))
    assert pixels(pad).shape[:2] == (1800, 1800)
    assert count(pad, COLORS["metal"]) > 0.98 * 1800**2
    bright = (pixels(pad) > 150).all(axis=-1)
    assert bright.any()
    assert not (pixels(layout_png(gds, LAYERS)) > 150).all(axis=-1).any()
    assert count(pad, COLORS["heater"]) == 0


def test_layout_is_the_same_every_time(gds: Path) -> None:
    assert layout_png(gds, LAYERS) == layout_png(gds, LAYERS)


def test_detail_window_is_on_the_heater_nearest_to_the_middle(gds: Path) -> None:
    # The middle of the die is (200, 100); heaters are centered at (200, 75) and (200, 125).
    assert detail_window(gds, LAYERS["heater"], 120, 60) == (140, 45, 260, 105)


def test_faulty_layouts_are_refused(gds: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.gds"
    text.write_text("not a layout")
    with pytest.raises(ValueError, match=r"text\.gds can't be read"):
        layout_png(text, LAYERS)
    empty = tmp_path / "empty.gds"
    layout = kdb.Layout()
    layout.create_cell("empty")
    layout.write(str(empty))
    with pytest.raises(ValueError, match="layout is empty"):
        layout_png(empty, LAYERS)
    with pytest.raises(ValueError, match="window_um"):
        layout_png(gds, LAYERS, window_um=(10, 10, 10, 20))
    with pytest.raises(ValueError, match="nothing on 7/0"):
        detail_window(gds, (7, 0), 100, 100)


def levels_and_outputs() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Made-up outputs: levels with a ripple of at most 0.2."""
    levels = np.stack([np.repeat(np.arange(4.0), 4), np.tile(np.arange(4.0), 4)], axis=1)
    return levels, levels + 0.2 * np.cos(np.arange(32)).reshape(16, 2)


def test_outputs_are_blue_until_one_misses() -> None:
    levels, outputs = levels_and_outputs()
    clean = outputs_plot(outputs, levels)
    assert count(clean, "#d3302f") == 0
    outputs[15, 1] += 0.9  # above the top level: far from it, but decided right
    assert count(outputs_plot(outputs, levels), "#d3302f") == 0
    outputs[0, 1] += 0.9
    missed = outputs_plot(outputs, levels)
    assert count(missed, "#d3302f") > 0


def test_outputs_plot_is_the_same_every_time_and_takes_any_number_of_outputs() -> None:
    levels, outputs = levels_and_outputs()
    assert outputs_plot(outputs, levels) == outputs_plot(outputs, levels)
    for repeats in (1, 2, 4):
        wide = outputs_plot(np.tile(outputs, repeats)[:, 1:], np.tile(levels, repeats)[:, 1:])
        assert pixels(wide).shape[1] > 900


def test_faulty_outputs_are_refused() -> None:
    levels, outputs = levels_and_outputs()
    with pytest.raises(ValueError, match=r"\(16, 2\), \(15, 2\)"):
        outputs_plot(outputs, levels[1:])
    with pytest.raises(ValueError, match=r"\(16,\)"):
        outputs_plot(outputs[:, 0], levels[:, 0])
    outputs[0, 0] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        outputs_plot(outputs, levels)
