"""Nets of pieces against KLayout's merged shapes, and heaters between nets against checks of whole wires."""

from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.signoff.drc.design import Design
from optinc_pdk.signoff.drc.design_rule_check import run_drc
from optinc_pdk.signoff.drc.layer_connectivity import layer_pieces, regions_for_squares

LAYERS = {"heater": (1, 0), "metal": (2, 0)}
RULES = [rule for rule in load_process().rules if rule.kind == "contacts"]


def drawn(seed: int, slanted: bool) -> Design:
    """Boxes, triangles if slanted, in the top cell, in a cell placed rotated and in arrays, and in a wide cell."""
    random = np.random.default_rng(seed)
    layout = kdb.Layout()
    top, cell, large = (layout.create_cell(name) for name in ("TOP", "CELL", "LARGE"))
    for layer, count in (("heater", 8), ("metal", 14)):
        index = layout.layer(*LAYERS[layer])
        for target, extent in ((top, 400), (cell, 60)):
            for x, y in random.integers(0, extent, (count, 2)).tolist():
                width, height = random.integers(1, 60, 2).tolist()
                if not slanted or random.integers(3):
                    target.shapes(index).insert(kdb.Box(x, y, x + width, y + height))
                else:
                    corners = [kdb.Point(x, y), kdb.Point(x + width, y + height), kdb.Point(x + height, y - width)]
                    target.shapes(index).insert(kdb.Polygon(corners))
        large.shapes(index).insert(kdb.Path([kdb.Point(0, 0), kdb.Point(0, 300), kdb.Point(2_000_000, 300)], 20))
    top.insert(kdb.CellInstArray(cell.cell_index(), kdb.Trans(5, True, 500, 50)))
    top.insert(kdb.CellInstArray(cell.cell_index(), kdb.Trans(10, 450), kdb.Vector(110, 0), kdb.Vector(0, 90), 3, 2))
    top.insert(kdb.CellInstArray(large.cell_index(), kdb.Trans(1, False, 420, 90)))
    return Design(layout, top, LAYERS, 1)


@pytest.mark.parametrize("seed", range(6))
def test_nets_are_the_merged_shapes(seed: int) -> None:
    design = drawn(seed, slanted=True)
    parts_of_layer = layer_pieces(design, "metal")
    parts: dict[int, kdb.Region] = {}
    for number, net in enumerate(parts_of_layer.nets().tolist()):
        parts.setdefault(net, kdb.Region()).insert(parts_of_layer.shape(number))
    merged = kdb.Region(design.shapes("metal")).merged()
    # merging rounds the points where slanted edges cross
    boxes = [
        sorted((b.left, b.bottom, b.right, b.top) for b in extents)
        for extents in ((part.bbox() for part in parts.values()), (polygon.bbox() for polygon in merged.each()))
    ]
    np.testing.assert_allclose(boxes[0], boxes[1], atol=1)
    assert 1 < len(parts) < len(parts_of_layer.boxes)


@pytest.mark.parametrize("seed", range(6))
def test_heaters_between_two_nets_equal_a_check_of_whole_wires(seed: int, tmp_path: Path) -> None:
    design = drawn(seed, slanted=False)
    heater, metal = (kdb.Region(design.shapes(layer)).merged() for layer in LAYERS)
    correct = heater.interacting(heater & metal, 2, 2).interacting(heater - metal, 1, 1)
    correct = correct.interacting(metal.overlapping(heater), 2, 2)
    design.layout.write(str(tmp_path / "drawn.gds"))
    (result,) = run_drc(tmp_path / "drawn.gds", RULES, LAYERS).rules
    expected = [polygon.to_dtype(0.001) for polygon in sorted((heater - correct).merged().each())]
    assert list(result.markers) == expected
    assert expected


@pytest.mark.parametrize("seed", range(6))
def test_squares_within_a_layer_lie_in_the_part_that_holds_squares(seed: int) -> None:
    design = drawn(seed, slanted=False)
    whole = kdb.Region(design.shapes("metal"))
    result = regions_for_squares(design, "metal", 24)
    assert result is not None
    held = kdb.Region([kdb.Polygon(kdb.Box(*box)) for box in result[0].tolist()])
    assert held.area() < whole.area()
    assert (held - whole).is_empty()
    wide = whole.sized(-12).sized(12)
    assert not wide.is_empty()
    assert (held.sized(-12).sized(12) ^ wide).is_empty()
