"""Pictures of a small layout: proportions, colours, windows and unusable files."""

import io
from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest
from matplotlib.image import imread
from numpy.typing import NDArray

from optinc_pdk.report.layout_pictures import COLORS, detail_window, layout_png

LAYERS = {"core": (3, 0), "heater": (39, 0), "metal": (41, 0), "label": (100, 0), "outline": (99, 0)}


def pixels(png: bytes) -> NDArray[np.uint8]:
    return np.rint(255 * imread(io.BytesIO(png))[..., :3]).astype(np.uint8)


def count(png: bytes, color: str) -> int:
    """Number of pixels of exactly this colour."""
    rgb = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
    return int((pixels(png) == rgb).all(axis=-1).sum())


def test_layout_has_its_proportions_and_every_level(gds: Path) -> None:
    picture = layout_png(gds, LAYERS)
    height, width, _ = pixels(picture).shape
    assert width == 1800
    assert height == pytest.approx(1800 * (200 + 8) / (400 + 8), abs=1)
    scale = (width / 408) ** 2
    # a pad of 80 × 80 µm, and two heaters of 80 × 8 µm two levels down in the hierarchy
    assert count(picture, COLORS["metal"]) == pytest.approx(80 * 80 * scale, rel=0.03)
    assert count(picture, COLORS["heater"]) == pytest.approx(2 * 80 * 8 * scale, rel=0.05)
    assert count(picture, COLORS["core"]) > 0


def test_layer_without_a_name_is_not_drawn(gds: Path) -> None:
    picture = layout_png(gds, {"core": LAYERS["core"]})
    assert count(picture, COLORS["metal"]) == count(picture, COLORS["heater"]) == 0


def test_a_window_is_drawn_with_its_labels(gds: Path) -> None:
    pad = layout_png(gds, LAYERS, window_um=(20, 20, 100, 100))
    assert pixels(pad).shape[:2] == (1800, 1800)
    assert count(pad, COLORS["metal"]) > 0.98 * 1800**2
    bright = (pixels(pad) > 150).all(axis=-1)
    assert bright.any()
    assert not (pixels(layout_png(gds, LAYERS)) > 150).all(axis=-1).any()
    assert count(pad, COLORS["heater"]) == 0


def test_layout_is_reproducible(gds: Path) -> None:
    assert layout_png(gds, LAYERS) == layout_png(gds, LAYERS)


def test_detail_window_is_on_the_heater_nearest_to_the_middle(gds: Path) -> None:
    # the middle of the die is (200, 100); the heaters are centred at (200, 75) and (200, 125)
    assert detail_window(gds, LAYERS["heater"], 120, 60) == (140, 45, 260, 105)


def test_faulty_layouts_are_refused(gds: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.gds"
    text.write_text("not a layout")
    with pytest.raises(ValueError, match=r"text\.gds"):
        layout_png(text, LAYERS)
    empty = tmp_path / "empty.gds"
    layout = kdb.Layout()
    layout.create_cell("empty")
    layout.write(str(empty))
    with pytest.raises(ValueError, match="gds_path"):
        layout_png(empty, LAYERS)
    with pytest.raises(ValueError, match="window_um"):
        layout_png(gds, LAYERS, window_um=(10, 10, 10, 20))
    with pytest.raises(ValueError, match="7/0"):
        detail_window(gds, (7, 0), 100, 100)
