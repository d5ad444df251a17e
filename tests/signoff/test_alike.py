"""Parts that look alike, against the whole layer: nothing is lost, nothing is moved."""

import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.signoff.alike import found_in, isolated, parts_alike, same_boxes
from optinc_pdk.signoff.gds import Design

LAYERS = {"heater": (1, 0), "metal": (2, 0)}


def drawn(seed: int) -> Design:
    """Boxes and triangles in the top cell, and in cells that are placed in arrays, turned and mirrored."""
    random = np.random.default_rng(seed)
    layout = kdb.Layout()
    top, cell = layout.create_cell("TOP"), layout.create_cell("CELL")
    for name, layer in LAYERS.items():
        index = layout.layer(*layer)
        for target, extent, count in ((top, 4000, 30), (cell, 60, 3)):
            for x, y in random.integers(0, extent, (count, 2)).tolist():
                width, height = random.integers(1, 40, 2).tolist()
                target.shapes(index).insert(kdb.Box(x, y, x + width, y + height))
        if name == "metal":
            corners = [kdb.Point(x, y) for x, y in random.integers(1000, 1200, (3, 2)).tolist()]
            top.shapes(index).insert(kdb.Polygon(corners))
    for code, mirrored in ((0, False), (1, False), (2, True)):
        move = kdb.Trans(code, mirrored, 1000 * code, 500)
        top.insert(kdb.CellInstArray(cell.cell_index(), move, kdb.Vector(150, 0), kdb.Vector(0, 170), 5, 6))
    return Design(layout, top, LAYERS, 1)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_found_once_of_each_kind_is_what_is_found_everywhere(seed: int) -> None:
    design = drawn(seed)
    parts = parts_alike(design, "heater", 1, ("metal",))
    assert len(parts) < sum(len(part.moves) for part in parts)
    found = found_in(parts, lambda box: design.touching("heater", box) - design.touching("metal", box))
    whole = kdb.Region(design.shapes("heater")) - kdb.Region(design.shapes("metal"))
    assert (found ^ whole).is_empty()
    boxes = np.concatenate([part.boxes(design.touching("heater", part.box)) for part in parts]).tolist()
    merged = [polygon.bbox() for polygon in kdb.Region(design.shapes("heater")).merged().each()]
    assert sorted(boxes) == sorted([box.left, box.bottom, box.right, box.top] for box in merged)


@pytest.mark.parametrize("gap", [1, 7])
def test_isolated_boxes_are_apart_and_hold_all(gap: int) -> None:
    corners = np.random.default_rng(gap).integers(0, 900, (120, 2))
    boxes = np.concatenate([corners, corners + np.array([20, 15])], axis=1)
    found = isolated(boxes, gap)
    assert 1 < len(found) < len(boxes)
    inside = (boxes[:, None, :2] >= found[:, :2]).all(axis=2) & (boxes[:, None, 2:] <= found[:, 2:]).all(axis=2)
    assert (inside.sum(axis=1) == 1).all()
    apart = np.maximum(found[:, None, :2], found[:, :2]) - np.minimum(found[:, None, 2:], found[:, 2:])
    assert (apart.max(axis=2)[~np.eye(len(found), dtype=bool)] >= gap).all()


def test_groups_of_boxes_are_told_apart_by_their_boxes_alone() -> None:
    one = np.array([[0, 0, 5, 5], [5, 0, 9, 2]])
    boxes = np.concatenate([one, one + 100, one[:1] + 300, (one + 200)[::-1]])
    found = same_boxes(boxes, np.array([0, 0, 4, 4, 7, 2, 2]))
    assert [(shapes.merged().area(), where.moves.tolist()) for shapes, where in found] == [
        (33, [[0, 0], [200, 200], [100, 100]]),
        (25, [[0, 0]]),
    ]
    assert same_boxes(np.zeros((0, 4), dtype=np.int64), np.zeros(0, dtype=np.int64)) == []
