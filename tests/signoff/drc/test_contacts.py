"""Heaters between two nets, against checks of whole wires."""

from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.signoff.drc.design import Design
from optinc_pdk.signoff.drc.design_rule_check import run_drc

LAYERS = {"heater": (1, 0), "metal": (2, 0)}
RULES = [rule for rule in load_process().rules if rule.kind == "contacts"]


def drawn(seed: int) -> Design:
    """Boxes in the top cell, in a cell placed rotated and in arrays, and in a wide cell."""
    random = np.random.default_rng(seed)
    layout = kdb.Layout()
    top, cell, large = (layout.create_cell(name) for name in ("TOP", "CELL", "LARGE"))
    for layer, count in (("heater", 8), ("metal", 14)):
        index = layout.layer(*LAYERS[layer])
        for target, extent in ((top, 400), (cell, 60)):
            for x, y in random.integers(0, extent, (count, 2)).tolist():
                width, height = random.integers(1, 60, 2).tolist()
                target.shapes(index).insert(kdb.Box(x, y, x + width, y + height))
        large.shapes(index).insert(kdb.Path([kdb.Point(0, 0), kdb.Point(0, 300), kdb.Point(2_000_000, 300)], 20))
    top.insert(kdb.CellInstArray(cell.cell_index(), kdb.Trans(5, True, 500, 50)))
    top.insert(kdb.CellInstArray(cell.cell_index(), kdb.Trans(10, 450), kdb.Vector(110, 0), kdb.Vector(0, 90), 3, 2))
    top.insert(kdb.CellInstArray(large.cell_index(), kdb.Trans(1, False, 420, 90)))
    return Design(layout, top, LAYERS, 1)


@pytest.mark.parametrize("seed", range(6))
def test_heaters_between_two_nets_equal_a_check_of_whole_wires(seed: int, tmp_path: Path) -> None:
    design = drawn(seed)
    heater, metal = (kdb.Region(design.shapes(layer)).merged() for layer in LAYERS)
    correct = heater.interacting(heater & metal, 2, 2).interacting(heater - metal, 1, 1)
    correct = correct.interacting(metal.overlapping(heater), 2, 2)
    design.layout.write(str(tmp_path / "drawn.gds"))
    (result,) = run_drc(tmp_path / "drawn.gds", RULES, LAYERS).rules
    expected = [polygon.to_dtype(0.001) for polygon in sorted((heater - correct).merged().each())]
    assert list(result.markers) == expected
    assert expected
