"""Repeated wires are written as arrays, and the arrays are the wires that were drawn."""

import klayout.db as kdb
import pytest

from optinc_pdk.assemble import mesh_chip
from optinc_pdk.cards import load_process
from optinc_pdk.layout import ChipLayout, floorplan, to_layout
from optinc_pdk.pdk import get_pdk

PROCESS = load_process("soi220")
MODES = 16
METAL = PROCESS.layers[PROCESS.metal.layer].gds


@pytest.fixture(scope="module")
def chip() -> ChipLayout:
    get_pdk("soi220").activate()
    return floorplan(mesh_chip(MODES, PROCESS, "a_mesh"), PROCESS)


def test_wires_that_columns_repeat_are_in_arrays(chip: ChipLayout) -> None:
    layout = to_layout(chip, PROCESS, "a_mesh")
    arrays = [i for i in layout.top_cell().each_inst() if i.cell.name.startswith("metal_wires")]
    inside = sum(i.na * i.cell.shapes(layout.layer(*METAL)).size() for i in arrays)
    # phi and theta of every MZI; the columns at the ends may differ because they have one neighbour only
    assert inside >= 2 * (MODES - 4) * (MODES - 1) / 2
    assert all(i.na >= 4 for i in arrays)


def test_arrays_of_wires_are_the_wires_that_were_drawn(chip: ChipLayout) -> None:
    get_pdk("soi220").activate()
    layout = to_layout(chip, PROCESS, "a_mesh")
    top, index = layout.top_cell(), layout.layer(*METAL)
    for instance in list(top.each_inst()):
        if not instance.cell.name.startswith("metal_wires"):
            instance.delete()
    # paths only: neither pads nor metal of cells
    wires = kdb.RecursiveShapeIterator(layout, top, index)
    wires.shape_flags = kdb.Shapes.SPaths
    written = kdb.Region(wires).merged()
    drawn = kdb.Region()
    for wire in chip.canvas.wires:
        points = [kdb.DPoint(x, y) for x, y in wire.points]
        drawn.insert(kdb.DPath(points, wire.width, wire.width / 2, wire.width / 2).to_itype(layout.dbu).polygon())
    assert (written ^ drawn.merged()).is_empty()
    assert written.count() == 2 * MODES * (MODES - 1) / 2
