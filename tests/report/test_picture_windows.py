"""Windows on meshes that are drawn here from rectangles."""

import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.report.picture_windows import find_windows, heater_boxes


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
