"""Pictures of layouts: proportions, colours, windows on meshes, and unusable files."""

from __future__ import annotations

import io
from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest
from matplotlib.image import imread
from numpy.typing import NDArray

from optinc_pdk.cards import load_process
from optinc_pdk.errors import InputError
from optinc_pdk.report.layout_pictures import (
    COLORS,
    detail_window,
    find_windows,
    heater_boxes,
    layout_png,
    write_pictures,
)

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


def test_four_pictures_are_written_and_show_something(small_mesh: Path, tmp_path: Path) -> None:
    seen: list[str] = []
    written = write_pictures(small_mesh, load_process(), tmp_path / "out", seen.append)
    assert [path.name for path in written] == [f"mesh.{name}.png" for name in ("chip", "layer", "mesh", "mzi")]
    assert seen == ["chip", "layer", "mesh", "mzi"]
    for path in written:
        pixels = np.rint(255 * imread(path)[..., :3]).astype(np.int64) @ [65536, 256, 1]
        colors, counts = np.unique(pixels, return_counts=True)
        shown = dict(zip(colors.tolist(), counts.tolist(), strict=True))
        assert shown[0x0E1318] > 1000 and shown[0x63B3F5] > 200 and shown[0xFF5148] > 200, path.name


def test_only_the_whole_of_a_layout_without_heaters_is_drawn(tmp_path: Path) -> None:
    layout = kdb.Layout()
    layout.create_cell("bare").shapes(layout.layer(3, 0)).insert(kdb.DBox(0, 0, 100, 100))
    layout.write(str(tmp_path / "bare.gds"))
    assert [path.name for path in write_pictures(tmp_path / "bare.gds", load_process(), tmp_path)] == ["bare.chip.png"]


def test_unusable_layouts_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "text.gds").write_text("no layout")
    empty = kdb.Layout()
    empty.create_cell("empty")
    empty.write(str(tmp_path / "empty.gds"))
    for name in ("text.gds", "missing.gds", "empty.gds"):
        with pytest.raises(InputError, match=name):
            write_pictures(tmp_path / name, load_process(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def mesh(modes: int, x: float, y: float, period: float = 500.0) -> list[tuple[float, float, float, float]]:
    """Heaters of a rectangular mesh: two an MZI, 100 µm long, 246 µm apart, modes 52 µm apart."""
    boxes = []
    for column in range(modes):
        for row in range(column % 2, modes - 1, 2):
            for shift in (0.0, 246.0):
                left, low = x + column * period + shift, y - 52.0 * row
                boxes.append((left, low, left + 100.0, low + 1.0))
    return boxes


def chip(*parts: list[tuple[float, float, float, float]]) -> np.ndarray:
    return np.array(sorted(box for part in parts for box in part))


def inside(window: tuple[float, float, float, float], boxes: np.ndarray) -> int:
    left, low, right, high = window
    return int(((boxes[:, 0] >= left) & (boxes[:, 2] <= right) & (boxes[:, 1] >= low) & (boxes[:, 3] <= high)).sum())


@pytest.mark.parametrize("modes", [3, 4, 7, 16])
def test_mesh_layer_and_mzi_contain_their_heaters(modes: int) -> None:
    large, small = mesh(modes, 0.0, 0.0), mesh(modes - 1, modes * 500.0 + 250.0, 0.0)
    attenuators = [(modes * 500.0 + 60.0, -52.0 * row, modes * 500.0 + 160.0, 1 - 52.0 * row) for row in range(modes)]
    elsewhere = mesh(2, 0.0, 3000.0) + mesh(2, 0.0, -52.0 * modes - 900.0)
    boxes = chip(large, attenuators, small, elsewhere)
    windows = find_windows(boxes)
    assert windows is not None
    assert inside(windows.mesh, np.array(large)) == len(large) == modes * (modes - 1)
    assert inside(windows.mesh, np.array(small)) == inside(windows.mesh, np.array(elsewhere)) == 0
    assert inside(windows.layer, boxes) == len(boxes) - len(elsewhere)
    within = boxes[[inside(windows.mzi, box[np.newaxis]) == 1 for box in boxes]]
    levels, counts = np.unique(within[:, 1], return_counts=True)
    middle = np.argmin(np.abs(levels - (windows.mzi[1] + windows.mzi[3]) / 2))
    assert counts[middle] == 2


def test_a_mesh_of_two_modes_is_found() -> None:
    windows = find_windows(chip(mesh(2, 0.0, 0.0)))
    assert windows is not None and inside(windows.mzi, chip(mesh(2, 0.0, 0.0))) == 2


def test_too_few_heaters_have_no_windows() -> None:
    assert find_windows(np.zeros((0, 4))) is None
    assert find_windows(np.array([[0.0, 0.0, 100.0, 1.0]])) is None
    assert find_windows(np.array([[0.0, 0.0, 100.0, 1.0], [0.0, 5000.0, 100.0, 5001.0]])) is None


def test_touching_shapes_are_one_heater_across_the_hierarchy() -> None:
    layout = kdb.Layout()
    top, arm = layout.create_cell("top"), layout.create_cell("arm")
    for left, right in ((0, 60), (50, 100)):
        arm.shapes(layout.layer(39, 0)).insert(kdb.DBox(left, 0, right, 1))
    for y in (0.0, 104.0):
        top.insert(kdb.DCellInstArray(arm.cell_index(), kdb.DTrans(kdb.DVector(10, y))))
    boxes = heater_boxes(layout, (39, 0))
    np.testing.assert_allclose(boxes, [[10, 0, 110, 1], [10, 104, 110, 105]])
