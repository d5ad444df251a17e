"""Rules checked on condensed layouts: violations must not depend on the hierarchy in which a chip is drawn."""

from collections.abc import Callable
from pathlib import Path

import klayout.db as kdb
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.cells.interferometers import mzi_positions
from optinc_pdk.layout._gds_writer import _copy
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.drc._condensed_checks import prepare_condensed
from optinc_pdk.signoff.drc._violations import merged_markers
from optinc_pdk.signoff.drc.design import read_design
from optinc_pdk.signoff.drc.design_rule_check import CHECKS, DrcResult, RuleResult, _violations, run_drc

PROCESS = load_process()
LAYERS = PROCESS.gds_layers
RULES = PROCESS.rules
PITCH = round(float(PROCESS.floorplan.mode_pitch_um) * 1000)
GUIDE = 225


def mesh() -> kdb.Layout:
    """Three columns of MZIs on four modes: an array of two by two, a single one between, dummies beside it."""
    get_pdk().activate()
    from optinc_pdk.cells import mzi_dummy, mzi_unit

    layout = kdb.Layout()
    layout.dbu = 0.001
    top = layout.create_cell("MESH")
    cells = {cell.name: _copy(layout, cell.kcl.layout.cell(cell.name)) for cell in (mzi_unit(), mzi_dummy())}
    whole, dummy = cells.values()
    column = round(mzi_positions(PROCESS).end * 1000)
    down, right = kdb.Vector(0, -2 * PITCH), kdb.Vector(2 * column, 0)
    top.insert(kdb.CellInstArray(whole, kdb.Trans(0, 0), down, right, 2, 2))
    top.insert(kdb.CellInstArray(whole, kdb.Trans(column, -PITCH)))
    top.insert(kdb.CellInstArray(dummy, kdb.Trans(column, 0)))
    top.insert(kdb.CellInstArray(dummy, kdb.Trans(0, True, column, -3 * PITCH)))
    for mode in range(4):
        for x in (-40_000, 3 * column):
            box = kdb.Box(x, -mode * PITCH - GUIDE, x + 40_000, -mode * PITCH + GUIDE)
            top.shapes(layout.layer(*LAYERS["core"])).insert(box)
    return layout


def variant(layout: kdb.Layout) -> kdb.Cell:
    """One MZI of the array with a cell of its own."""
    top = layout.top_cell()
    next(i for i in top.each_inst() if i.is_regular_array()).explode()
    single = next(i for i in top.each_inst() if i.cell.name.startswith("mzi"))
    copy = single.cell.dup()
    single.cell_index = copy.cell_index()
    return copy


def box(cell: kdb.Cell, layer: str, left: int, bottom: int, right: int, top: int) -> None:
    cell.shapes(cell.layout().layer(*LAYERS[layer])).insert(kdb.Box(left, bottom, right, top))


def child(layout: kdb.Layout) -> None:
    """Silicon beside an arm of every MZI."""
    cell = next(c for c in layout.each_cell() if c.name.startswith("mzi") and "dummy" not in c.name)
    box(cell, "core", 20_000, -56_000, 60_000, -55_550)
    box(cell, "core", 20_000, 15_000, 60_000, 15_450)
    box(cell, "etch70", 20_000, -20_000, 20_400, -19_000)


def member(layout: kdb.Layout) -> None:
    """A thin guide close to an arm of one MZI."""
    box(variant(layout), "core", 20_000, 3_000, 60_000, 3_300)


def border(layout: kdb.Layout) -> None:
    """Where two cells meet: a notch in the joint, and a guide between two rows."""
    column = round(mzi_positions(PROCESS).end * 1000)
    box(layout.top_cell(), "core", column - 3_000, GUIDE + 100, column + 3_000, GUIDE + 600)
    box(layout.top_cell(), "core", column - 30_000, -2 * PITCH + 4_000, column + 30_000, -2 * PITCH + 4_450)


def gap(layout: kdb.Layout) -> None:
    """One MZI moved by 20 nm, which opens its joints on one side and overlaps on the other."""
    variant(layout)
    single = next(i for i in layout.top_cell().each_inst() if i.cell.name.endswith("$1"))
    single.trans = kdb.Trans(20, 0) * single.trans


def slab(layout: kdb.Layout) -> None:
    """A slab that ends within guides of two cells, and a hole on their border."""
    column = round(mzi_positions(PROCESS).end * 1000)
    box(layout.top_cell(), "slab", column - 20_000, -8_000, column + 20_000, 3_000)
    box(layout.top_cell(), "holes", column - 200, -100, column + 200, 100)


CASES: dict[Callable[[kdb.Layout], None], set[str]] = {
    child: {"core.guide_space", "etch70.core_overlap", "heater.foreign_guide_recommended"},
    member: {"core.guide_space", "core.width"},
    border: {"core.space", "core.guide_space"},
    gap: {"core.space"},
    slab: {"slab.core_enclosure", "holes.core_enclosure"},
}


def check(layout: kdb.Layout, path: Path) -> DrcResult:
    layout.write(str(path))
    return run_drc(path, RULES, LAYERS)


@pytest.mark.full
@pytest.mark.parametrize("damage", CASES, ids=[case.__name__ for case in CASES])
def test_a_flat_layout_has_the_same_violations(damage: Callable[[kdb.Layout], None], tmp_path: Path) -> None:
    layout = mesh()
    damage(layout)
    deep = check(layout, tmp_path / "deep.gds")
    layout.flatten(layout.top_cell().cell_index(), -1, True)
    flat = check(layout, tmp_path / "flat.gds")
    assert {found.id for found in deep.rules if found.violations} >= CASES[damage]
    for one, other in zip(deep.rules, flat.rules, strict=True):
        assert one.violations == other.violations, one.id
        difference = in_nm(one) ^ in_nm(other)
        # crossings of slanted edges are rounded to the grid in the coordinates of the cell that contains them
        assert difference.sized(-1).is_empty(), one.id


def in_nm(result: RuleResult) -> kdb.Region:
    return kdb.Region([marker.to_itype(0.001) for marker in result.markers])


def test_a_clean_mesh_is_checked_on_small_condensed_layouts(tmp_path: Path) -> None:
    mesh().write(str(tmp_path / "mesh.gds"))
    design = read_design(tmp_path / "mesh.gds", LAYERS, 2)
    condensed = prepare_condensed(design, RULES)
    assert condensed is not None
    proved = [rule for rule in RULES if condensed.condensed(rule) is not None]
    assert len(proved) >= 20
    for rule in proved:
        assert condensed.suspects(rule, CHECKS[rule.kind]).is_empty(), rule.id
    # two kinds of cells in three orientations, boxes, joints, ends: less than what the mesh has
    assert condensed.guides is not None
    assert condensed.others is not None
    assert condensed.guides.design.top.child_instances() < 30
    assert condensed.others.design.top.child_instances() < 30


def irregular() -> kdb.Layout:
    """The mesh with shapes that do not repeat: nested wires, bent guides, a slanted wire, boxes as cells."""
    layout = mesh()
    top = layout.top_cell()
    metal = layout.layer(*LAYERS["metal"])
    for number in range(6):
        corner = kdb.Point(-300_000 - 15_000 * number, 300_000 + 15_000 * number)
        ends = kdb.Point(corner.x, -900_000), kdb.Point(1_800_000 + 40_000 * number, corner.y)
        top.shapes(metal).insert(kdb.Path([ends[0], corner, ends[1]], 5_000))
    top.shapes(metal).insert(kdb.Path([kdb.Point(0, 500_000), kdb.Point(200_000, 620_000)], 5_000))
    from optinc_pdk.cells import bend_circular

    turn = bend_circular().kcl.layout.cell(bend_circular().name)
    copy = _copy(layout, turn)
    for number in range(4):
        leg = layout.create_cell(f"leg_{number}")
        length = 30_000 + 1_357 * number
        box(leg, "core", 0, 0, length, 2 * GUIDE)
        # up and down, 20 µm from leg to leg
        y = 800_000 + 20_000 * number
        top.insert(kdb.CellInstArray(leg.cell_index(), kdb.Trans(-length, y - GUIDE)))
        if number % 2 == 0:
            top.insert(kdb.CellInstArray(copy, kdb.Trans(0, y)))
            top.insert(kdb.CellInstArray(copy, kdb.Trans(0, True, 0, y + 20_000)))
    return layout


def wire_too_near(layout: kdb.Layout) -> None:
    """A wire 1 nm too close to a nested one, on one leg."""
    box(layout.top_cell(), "metal", -300_000 + 2_500 + 9_999, 0, -300_000 + 20_000, 100_000)


def notch(layout: kdb.Layout) -> None:
    """A notch of 9.999 µm in the side of a wire."""
    for x in (0, 19_999):
        box(layout.top_cell(), "metal", 400_000 + x, 290_000, 410_000 + x, 300_000)


def leg_too_near(layout: kdb.Layout) -> None:
    """A guide 1 nm too close to a leg of a meander."""
    box(layout.top_cell(), "core", -30_000, 800_000 + GUIDE + 4_999, -5_000, 800_000 + 3 * GUIDE + 4_999)


def metal_near_a_cell(layout: kdb.Layout) -> None:
    """A loose wire 1 nm too close to the metal of an MZI, and a slanted one."""
    shapes = kdb.Region(layout.top_cell().begin_shapes_rec(layout.layer(*LAYERS["metal"]))).merged()
    contact = next(shape.bbox() for shape in shapes.each() if shape.is_box() and shape.bbox().left > 0)
    box(layout.top_cell(), "metal", contact.left, contact.top + 9_999, contact.left + 900_000, contact.top + 13_000)
    shape = kdb.Path(
        [kdb.Point(contact.left - 14_000, contact.bottom), kdb.Point(contact.left - 9_000, -60_000)], 4_000
    )
    layout.top_cell().shapes(layout.layer(*LAYERS["metal"])).insert(shape)


def leg_narrow(layout: kdb.Layout) -> None:
    """A leg of a meander 349 nm wide, and one whose end leaves a step of the bend beside it."""
    for number, (low, high) in ((1, (-174, 175)), (2, (-125, 325))):
        cell = layout.cell(f"leg_{number}")
        cell.shapes(layout.layer(*LAYERS["core"])).clear()
        box(cell, "core", 0, GUIDE + low, 30_000 + 1_357 * number, GUIDE + high)


def bumps(layout: kdb.Layout) -> None:
    """A small box of metal against a wire's end, and one alone."""
    box(layout.top_cell(), "metal", 1_800_000, 300_000, 1_801_000, 303_000)
    box(layout.top_cell(), "metal", 1_700_000, 600_000, 1_704_000, 604_000)


IRREGULAR: dict[Callable[[kdb.Layout], None], set[str]] = {
    wire_too_near: {"metal.space"},
    notch: {"metal.space"},
    leg_too_near: {"core.guide_space"},
    metal_near_a_cell: {"metal.space"},
    leg_narrow: {"core.width", "core.bend_radius"},
    bumps: {"metal.width", "metal.area", "metal.space"},
}


@pytest.mark.full(every=7)
@pytest.mark.parametrize("damage", [None, *IRREGULAR], ids=["none", *(case.__name__ for case in IRREGULAR)])
def test_violations_among_irregular_shapes_equal_those_of_checks_of_the_whole(
    damage: Callable[[kdb.Layout], None] | None, tmp_path: Path
) -> None:
    layout = irregular()
    if damage is not None:
        damage(layout)
    layout.write(str(tmp_path / "irregular.gds"))
    design = read_design(tmp_path / "irregular.gds", LAYERS, 1)
    condensed = prepare_condensed(design, RULES)
    assert condensed is not None
    assert condensed.guides is not None
    assert condensed.others is not None
    violated = set()
    for rule in RULES:
        if condensed.condensed(rule) is not None:
            proved = merged_markers(_violations(design, rule, condensed))
            assert proved == merged_markers(_violations(design, rule, None)), rule.id
            violated |= {rule.id} if proved else set()
    assert violated >= (set() if damage is None else IRREGULAR[damage])
    assert (damage is None) == (not violated)


@pytest.mark.full
@pytest.mark.parametrize("shift", [0, 1])
def test_wires_closer_than_another_layers_rule_are_condensed(shift: int, tmp_path: Path) -> None:
    """Nested wires of as many lengths as wires, 10 µm apart, where heaters keep 25 µm; one may be 1 nm too close."""
    layout = mesh()
    for number in range(40):
        x = -300_000 - 15_000 * number
        bottom, top = -1_357 * number, 500_000 + 2_461 * number
        box(layout.top_cell(), "metal", x, bottom, x + 5_000 + shift * (number == 20), top)
    layout.write(str(tmp_path / "dense.gds"))
    rules = [rule.model_copy(update={"value_um": 25.0}) if rule.id == "heater.space" else rule for rule in RULES]
    design = read_design(tmp_path / "dense.gds", LAYERS, 1)
    condensed = prepare_condensed(design, rules)
    assert condensed is not None
    assert condensed.others is not None
    assert condensed.others.design.region("metal").count() < 40
    proved = {
        rule.id: merged_markers(_violations(design, rule, condensed))
        for rule in rules
        if condensed.condensed(rule) is not None
    }
    assert proved == {rule.id: merged_markers(_violations(design, rule, None)) for rule in rules if rule.id in proved}
    assert bool(proved["metal.space"]) == bool(shift)


@pytest.mark.parametrize("layer", ["core", "metal"])
def test_slivers_thinner_than_the_grid_are_reported(layer: str, tmp_path: Path) -> None:
    """KLayout drops the part of a triangle 100 µm long and 1 nm high that lies in a marker around its tip."""
    layout = mesh()
    sliver = kdb.Polygon([kdb.Point(0, 0), kdb.Point(100_000, 1), kdb.Point(100_000, 0)]).moved(2_000_000, 4_000_000)
    layout.top_cell().shapes(layout.layer(*LAYERS[layer])).insert(sliver)
    layout.write(str(tmp_path / "sliver.gds"))
    result = run_drc(tmp_path / "sliver.gds", RULES, LAYERS)
    assert {"chip.angle", f"{layer}.width", f"{layer}.area"} <= {rule.id for rule in result.rules if rule.violations}


def test_cells_with_texts_only_have_no_shapes(tmp_path: Path) -> None:
    layout = mesh()
    empty = layout.create_cell("TEXTS")
    empty.shapes(layout.layer(*LAYERS["core"])).insert(kdb.Text("here", kdb.Trans()))
    for x in (0, 100_000):
        layout.cell("MESH").insert(kdb.CellInstArray(empty, kdb.Trans(x, 0)))
    layout.write(str(tmp_path / "texts.gds"))
    mesh().write(str(tmp_path / "plain.gds"))
    found, plain = (run_drc(tmp_path / name, RULES, LAYERS) for name in ("texts.gds", "plain.gds"))
    assert [rule.violations for rule in found.rules] == [rule.violations for rule in plain.rules]
