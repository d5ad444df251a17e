"""Checks of repeated regions against checks of the whole layer: no region is missing or displaced."""

import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.signoff.drc._placed_shapes import check_repeated, merge_close_boxes, repeated_regions
from optinc_pdk.signoff.drc.design import Design

LAYERS = {"heater": (1, 0), "metal": (2, 0)}


def drawn(seed: int) -> Design:
    """Boxes and triangles in the top cell and in a cell that is placed in rotated and mirrored arrays."""
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
def test_check_of_repeated_regions_equals_check_of_whole_layer(seed: int) -> None:
    design = drawn(seed)
    parts = repeated_regions(design, "heater", 1, ("metal",))
    assert len(parts) < sum(len(part.moves) for part in parts)
    violations = check_repeated(parts, lambda box: design.touching("heater", box) - design.touching("metal", box))
    whole = kdb.Region(design.shapes("heater")) - kdb.Region(design.shapes("metal"))
    assert (violations ^ whole).is_empty()
    boxes = np.concatenate([part.boxes(design.touching("heater", part.box)) for part in parts]).tolist()
    merged = [polygon.bbox() for polygon in kdb.Region(design.shapes("heater")).merged().each()]
    assert sorted(boxes) == sorted([box.left, box.bottom, box.right, box.top] for box in merged)


@pytest.mark.parametrize("gap", [1, 7])
def test_merged_boxes_are_apart_and_contain_all_boxes(gap: int) -> None:
    corners = np.random.default_rng(gap).integers(0, 900, (120, 2))
    boxes = np.concatenate([corners, corners + np.array([20, 15])], axis=1)
    merged = merge_close_boxes(boxes, gap)
    assert 1 < len(merged) < len(boxes)
    inside = (boxes[:, None, :2] >= merged[:, :2]).all(axis=2) & (boxes[:, None, 2:] <= merged[:, 2:]).all(axis=2)
    assert (inside.sum(axis=1) == 1).all()
    apart = np.maximum(merged[:, None, :2], merged[:, :2]) - np.minimum(merged[:, None, 2:], merged[:, 2:])
    assert (apart.max(axis=2)[~np.eye(len(merged), dtype=bool)] >= gap).all()
