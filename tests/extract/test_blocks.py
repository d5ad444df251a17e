"""Blocks are extracted once for all their placements; the result does not depend on cells and their nesting."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.assemble import DiePlan, assemble, mesh_chip
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process, load_process
from optinc_pdk.cells import bend_circular, grating_coupler, mmi2x2, mzi_dummy, mzi_unit
from optinc_pdk.cells.interferometers import mzi_positions
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.extract._blocks import find_blocks
from optinc_pdk.extract._extractor import _strip_rule
from optinc_pdk.extract.golden_devices import read_golden
from optinc_pdk.extract.mask_layout import read_mask_layout
from optinc_pdk.extract.metal_nets import MetalNets
from optinc_pdk.extract.phase_shifters import find_heaters
from optinc_pdk.layout import ChipLayout, floorplan, lay_out_network, to_layout
from optinc_pdk.layout import _flipchip as flipchip
from optinc_pdk.layout._gds_writer import _copy
from optinc_pdk.networks import AveragingNetwork, Layer, bundled_weights
from optinc_pdk.pdk import get_pdk

PROCESS = load_process()
LAYERS = PROCESS.gds_layers
PITCH = round(float(PROCESS.floorplan.mode_pitch_um) * 1000)
COLUMN = round(mzi_positions(PROCESS).end * 1000)
GUIDE = 225
COLUMNS = 4


def mesh() -> kdb.Layout:
    """Draw four columns of MZIs of four modes as arrays, with dummies, gratings, couplers and two bends."""
    get_pdk().activate()
    layout = kdb.Layout()
    layout.dbu = 0.001
    top = layout.create_cell("MESH")
    full, dummy, fibre, coupler, turn = (
        _copy(layout, c.kcl.layout.cell(c.name))
        for c in (mzi_unit(), mzi_dummy(), grating_coupler(), mmi2x2(), bend_circular())
    )
    down, right = kdb.Vector(0, -2 * PITCH), kdb.Vector(2 * COLUMN, 0)
    top.insert(kdb.CellInstArray(full, kdb.Trans(0, 0), down, right, 2, 2))
    top.insert(kdb.CellInstArray(full, kdb.Trans(COLUMN, -PITCH), down, right, 1, 2))
    for mode, mirrored in ((0, False), (3, True)):
        at = kdb.Trans(0, mirrored, COLUMN, -mode * PITCH)
        top.insert(kdb.CellInstArray(dummy, at, down, right, 1, 2))
    for mode in range(4):
        out = 30_000 if mode % 2 else 190_000
        box(top, "core", -out, -mode * PITCH - GUIDE, 0, -mode * PITCH + GUIDE)
        top.insert(kdb.CellInstArray(fibre, kdb.Trans(2, False, -out, -mode * PITCH)))
        label = kdb.Text(f"in{mode}", kdb.Trans(-out - 15_000, -mode * PITCH))
        top.shapes(layout.layer(*LAYERS["label"])).insert(label)
    # couplers joined port to port, and bends, which are guides from border to border
    step = kdb.Vector(round(mzi_positions(PROCESS).coupler * 1000), 0)
    top.insert(kdb.CellInstArray(coupler, kdb.Trans(0, 300_000), step, kdb.Vector(0, 60_000), 2, 2))
    end = COLUMNS * COLUMN
    top.insert(kdb.CellInstArray(turn, kdb.Trans(end, 0)))
    top.insert(kdb.CellInstArray(turn, kdb.Trans(1, False, end + 10_000, 10_000)))
    box(top, "core", COLUMNS * COLUMN, -PITCH - GUIDE, end + 50_000, -PITCH + GUIDE)
    return layout


def box(cell: kdb.Cell, layer: str, left: int, bottom: int, right: int, top: int) -> None:
    cell.shapes(cell.layout().layer(*LAYERS[layer])).insert(kdb.Box(left, bottom, right, top))


def member(layout: kdb.Layout, move: kdb.Trans) -> kdb.Instance:
    """Take one MZI in the middle out of its array and move it."""
    for instance in list(layout.top_cell().each_inst()):
        instance.explode()
    found = [i for i in layout.top_cell().each_inst() if i.trans.disp == kdb.Vector(COLUMN, -PITCH)]
    (single,) = found
    single.trans = move * single.trans
    return single


def mzi_cell(layout: kdb.Layout) -> kdb.Cell:
    """Return the cell of the MZIs."""
    return next(cell for cell in layout.each_cell() if cell.name.startswith("mzi") and "dummy" not in cell.name)


def variant(layout: kdb.Layout) -> None:
    """Replace one MZI by a copy with a step in an arm."""
    single = member(layout, kdb.Trans())
    copy = single.cell.dup()
    single.cell_index = copy.cell_index()
    box(copy, "core", 20_000, -PITCH + GUIDE, 40_000, -PITCH + GUIDE + 100)


# Changes to the layout, each with a kind of fault that it causes, empty if it causes none.
DAMAGE: dict[str, tuple[Callable[[kdb.Layout], object], str]] = {
    "nothing": (lambda layout: None, ""),
    "silicon in every MZI": (lambda layout: box(mzi_cell(layout), "core", 20_000, -20_000, 25_000, -19_550), "stray"),
    "a wide arm in every MZI": (
        lambda layout: box(mzi_cell(layout), "core", 20_000, -52_300, 25_000, -51_700),
        "width",
    ),
    "another cell for one MZI": (variant, "width"),
    "one MZI moved": (lambda layout: member(layout, kdb.Trans(0, 1)), "width"),
    "one MZI rotated by 270°": (lambda layout: member(layout, kdb.Trans(3, 0)), "dangling"),
    "one MZI removed": (lambda layout: member(layout, kdb.Trans()).delete(), "dangling"),
    "one MZI twice": (lambda layout: layout.top_cell().insert(member(layout, kdb.Trans()).cell_inst), ""),
    "one MZI rotated by 180°": (
        lambda layout: member(layout, kdb.Trans(2, False, 2 * COLUMN + 493_000, 0)),
        "dangling",
    ),
    "silicon along a guide": (lambda layout: box(layout.top_cell(), "core", 50_000, 225, 60_000, 675), "width"),
    "silicon on a joint": (
        lambda layout: box(layout.top_cell(), "core", COLUMN - 100, -PITCH - 300, COLUMN + 100, -PITCH + 225),
        "width",
    ),
    "silicon in a coupler's box": (
        lambda layout: box(layout.top_cell(), "core", 150_000, -23_700, 151_000, -23_500),
        "foreign",
    ),
    "silicon beside a coupler": (
        lambda layout: box(layout.top_cell(), "core", 150_000, -21_900, 190_000, -21_400),
        "foreign",
    ),
    "silicon beside the cell of a coupler": (
        lambda layout: box(layout.top_cell(), "core", 20_000, 306_500, 60_000, 307_000),
        "foreign",
    ),
    "a hole": (lambda layout: box(layout.top_cell(), "holes", 20_000, -100, 20_200, 100), "heater"),
    "a slab": (lambda layout: box(layout.top_cell(), "slab", 20_000, -10_000, 30_000, 10_000), "slab"),
}


def read(layout: kdb.Layout, path: Path) -> Extraction:
    layout.write(str(path))
    return extract(path, PROCESS)


def same(one: Extraction, other: Extraction) -> bool:
    a, b = one.circuit, other.circuit
    arrays = ("kind", "nets", "electrical", "net_length_um", "position_um")
    return (
        (a.kinds, a.instances, dict(a.ports)) == (b.kinds, b.instances, dict(b.ports))
        and all(np.array_equal(getattr(a, name), getattr(b, name)) for name in arrays)
        and all(np.array_equal(a.settings[key], b.settings[key], equal_nan=True) for key in a.settings | b.settings)
        and one.faults == other.faults
        and one.silicon == other.silicon
    )


@pytest.mark.full(every=5)
@pytest.mark.parametrize("name", DAMAGE)
def test_a_flat_layout_gives_the_same_circuit(name: str, tmp_path: Path) -> None:
    damage, kind = DAMAGE[name]
    layout = mesh()
    damage(layout)
    hierarchical = read(layout, tmp_path / "chip.gds")
    layout.flatten(layout.top_cell().cell_index(), -1, True)
    flat = read(layout, tmp_path / "chip.gds")
    assert same(hierarchical, flat)
    assert not kind or kind in {fault.kind for fault in hierarchical.faults}


def test_cells_without_faults_are_blocks(tmp_path: Path) -> None:
    mesh().write(str(tmp_path / "chip.gds"))
    mask = read_mask_layout(tmp_path / "chip.gds", LAYERS)
    rule, metal = _strip_rule(PROCESS), MetalNets(mask, PROCESS)
    heaters, _ = find_heaters(mask, metal.contacts, rule.width)
    placed, others, core = find_blocks(mask, heaters, read_golden(PROCESS), rule)
    # 6 MZIs and 2 pairs of dummies; gratings and couplers, which are placed twice or more in one orientation
    assert np.bincount(placed.block).tolist().count(6) == 1
    assert len(placed.block) == 6 + 4 + 4 + 4
    assert len(placed.blocks) == 5
    assert others == []
    # guides inside MZIs and dummies, and guides that leave them
    assert len(placed.inner_guides().strip) == 6 * 4 + 4 * 3
    assert len(placed.outgoing_guides().strip) == 6 * 4 + 4 * 2
    # only shapes outside blocks
    assert core.count() < 10


def test_regular_heaters_equal_those_found_one_by_one(tmp_path: Path) -> None:
    def heaters(layout: kdb.Layout) -> tuple[list[object], int]:
        layout.write(str(tmp_path / "chip.gds"))
        mask = read_mask_layout(tmp_path / "chip.gds", LAYERS)
        found, faults = find_heaters(mask, MetalNets(mask, PROCESS).contacts, _strip_rule(PROCESS).width)
        return [(h.active, h.guide, h.contacts, h.edges.tolist()) for h in found], len(faults)

    layout = mesh()
    regular, faults = heaters(layout)
    assert (len(regular), faults) == (12, 0)
    # if the layout has a heater that is not a rectangle, all heaters are checked one by one
    box(layout.top_cell(), "heater", -900_000, 0, -880_000, 5_000)
    box(layout.top_cell(), "heater", -900_000, 0, -895_000, 20_000)
    assert heaters(layout) == (regular, 1)


def test_cell_names_and_properties_are_not_used(tmp_path: Path) -> None:
    layout = mesh()
    one = read(layout, tmp_path / "chip.gds")
    for number, cell in enumerate(layout.each_cell()):
        cell.name = f"mmi2x2_{number}" if cell.name != "MESH" else "MESH"
    for instance in list(layout.top_cell().each_inst()):
        instance.set_property(1, "one of a kind")
    for number, shape in enumerate(list(layout.top_cell().shapes(layout.layer(*LAYERS["core"])).each())):
        shape.set_property(1, str(number))
    assert same(one, read(layout, tmp_path / "chip.gds"))


def network(process: Process) -> ChipLayout:
    return lay_out_network(AveragingNetwork.load(bundled_weights()), process, "chip")[1]


def mesh_die(process: Process, modes: int) -> ChipLayout:
    return floorplan(mesh_chip(modes, process, "chip"), process)


def hidden(process: Process, units: int) -> ChipLayout:
    # rows that are no multiples of each other, so that every unit has a detector of its own
    layers = tuple(Layer(1.0 + np.outer(np.arange(b), np.arange(a)), np.zeros(b)) for a, b in pairwise((2, units, 2)))
    return lay_out_network(AveragingNetwork(layers, Averaging(4, 2, 2)), process, "chip")[1]


def dies(process: Process) -> ChipLayout:
    """A network on two dies."""
    sections = {"l0": "first", "l1": "first", "l2": "second"}
    return floorplan(
        assemble(
            AveragingNetwork.load(bundled_weights()),
            process,
            "chip",
            DiePlan(carrier_tree=False, ground_groups=sections),
        ),
        process,
    )


CHIPS: dict[str, tuple[str, Callable[[Process], ChipLayout], int]] = {
    **{f"network, {name}": (name, network, 0) for name in ("soi220", "soi220_onchip", "soi220_two_metal")},
    **{f"network, {name}": (name, network, 0) for name in ("soi220_flipchip", "soi220_flipchip_onchip")},
    **{
        f"mesh of {modes}, {name}": (name, partial(mesh_die, modes=modes), 0)
        for modes in (4, 5, 8, 9, 16)
        for name in ("soi220", "soi220_flipchip")
    },
    "mesh of 9, folded": ("soi220_flipchip", partial(mesh_die, modes=9), 3),
    "9 hidden units, folded": ("soi220_flipchip", partial(hidden, units=9), 3),
    "two dies": ("soi220", dies, 0),
}


def flatten(layout: kdb.Layout) -> None:
    layout.flatten(layout.top_cell().cell_index(), -1, True)


def rearrange(layout: kdb.Layout) -> None:
    """Flatten every third instance, move every fourth into a cell two levels deep, and rename all cells."""
    top = layout.top_cell()
    for instance in list(top.each_inst()):
        instance.explode()
    inner = layout.create_cell("inner")
    outer = layout.create_cell("outer")
    outer.insert(kdb.CellInstArray(inner, kdb.Trans(3, True, 700, -300)))
    for number, instance in enumerate(list(top.each_inst())):
        if number % 3 == 1:
            instance.flatten()
        elif number % 4 == 2:
            moved = kdb.Trans(3, True, 700, -300).inverted() * instance.trans
            inner.insert(kdb.CellInstArray(instance.cell, moved))
            instance.delete()
    top.insert(kdb.CellInstArray(outer, kdb.Trans()))
    names = [f"cell{number}" for number in range(layout.cells())]
    for cell, name in zip(layout.each_cell(), reversed(names), strict=True):
        cell.name = name


def difference(one: Extraction, other: Extraction) -> str:
    """Name the first attribute in which two extractions differ, to the last bit; empty if they are equal."""
    a, b = one.circuit, other.circuit
    if (a.kinds, a.instances, dict(a.ports)) != (b.kinds, b.instances, dict(b.ports)):
        return "devices or labels"
    for name in ("kind", "nets", "electrical", "net_length_um", "position_um"):
        if not np.array_equal(getattr(a, name), getattr(b, name)):
            return name
    for key in a.settings | b.settings:
        if not np.array_equal(a.settings[key], b.settings[key], equal_nan=True):
            return key
    return "" if (one.faults, one.silicon) == (other.faults, other.silicon) else "faults or silicon"


@pytest.mark.full(every=18)
@pytest.mark.parametrize("name", CHIPS)
def test_extraction_does_not_depend_on_the_hierarchy(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card, make, folds = CHIPS[name]
    process = load_process(card)
    get_pdk(card).activate()
    if folds:
        monkeypatch.setattr(flipchip, "FOLDS", (folds,))
    path = tmp_path / "chip.gds"
    to_layout(make(process), process, "chip").write(str(path))
    whole = extract(path, process)
    assert whole.faults == () and len(whole.circuit.instances) > 50
    # chips of few devices are rearranged as well, which is quick
    changes = (flatten, rearrange) if len(whole.circuit.instances) < 400 else (flatten,)
    for change in changes:
        layout = kdb.Layout()
        layout.read(str(path))
        change(layout)
        layout.write(str(path))
        assert difference(whole, extract(path, process)) == ""
