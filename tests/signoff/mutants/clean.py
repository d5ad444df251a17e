"""Clean chips of random size, process and orientation, drawn in other ways; no check may flag them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import klayout.db as kdb
import numpy as np

from optinc_pdk.assemble import mesh_chip
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process, load_process
from optinc_pdk.circuit import Circuit
from optinc_pdk.extract import extract
from optinc_pdk.layout import ChipLayout, floorplan, lay_out_network, to_layout
from optinc_pdk.networks import AveragingNetwork, Layer
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.drc.design_rule_check import run_drc
from optinc_pdk.signoff.lvs.comparison import compare

Rng = np.random.Generator
PROCESSES = ("soi220", "soi220_flipchip", "soi220_onchip", "soi220_flipchip_onchip", "soi220_two_metal")
# Least number of modes, and one more than the largest.
MODES = (2, 8)


@dataclass(frozen=True)
class Clean:
    """Result of the checks of one clean chip.

    Attributes:
        number: Its number and seed.
        process: Its process.
        description: Contents of the chip, and how it was redrawn.
        drc: Violated rules of any severity, except for the size of the die and for the density of wide grounds.
        lvs: Kinds of differences.
    """

    number: int
    process: str
    description: str
    drc: tuple[str, ...]
    lvs: tuple[str, ...]


def chip(rng: Rng, process: Process) -> tuple[Circuit, ChipLayout, str]:
    """A mesh between fibres, or a network with a hidden layer, in blocks or not."""
    modes = int(rng.integers(*MODES))
    what = int(rng.integers(3))
    if what == 0:
        circuit = mesh_chip(modes, process, "chip")
        return circuit, floorplan(circuit, process), f"mesh of {modes}"
    symbols, servers = int(rng.integers(1, 3)), int(rng.integers(1, 4))
    hidden = min(modes, 5)
    # with one symbol, units share two detectors; with more, every unit has its own
    unit, symbol = np.ogrid[:hidden, :symbols]
    layers = (
        Layer((-1.0) ** unit * (1.0 + unit * symbol), np.zeros(hidden)),
        Layer(np.ones((symbols, hidden)), np.zeros(symbols)),
    )
    blocks = (("approx", symbols),) * 2 if what == 2 else ("svd", "svd")
    onn = AveragingNetwork(layers, Averaging(2 * symbols, servers, symbols), blocks)
    name = f"{symbols}-{hidden}-{symbols}, {servers} servers{', blocks' if what == 2 else ''}"
    return *lay_out_network(onn, process, "chip"), name


def redrawn(layout: kdb.Layout, process: Process, rng: Rng) -> str:
    """Redraw a layout: rotate, move, rename, flatten, regroup and cut it into pieces at random."""
    ways: list[str] = []
    for name, way, share in (
        ("flattened", _flatten, 0.15),
        ("partly flattened", _flatten_some, 0.3),
        ("arrays dissolved", _dissolve, 0.3),
        ("regrouped", _regroup, 0.4),
        ("in pieces", _cut, 0.3),
        ("renamed", _rename, 0.4),
    ):
        if rng.random() < share:
            way(layout, process, rng)
            ways.append(name)
    turn, mirror = int(rng.integers(4)), bool(rng.integers(2))
    x, y = rng.integers(-3_000_000, 3_000_000, 2).tolist() if rng.random() < 0.6 else (0, 0)
    move = kdb.Trans(turn, mirror, int(x), int(y))
    layout.top_cell().transform(move)
    ways.append(f"{move}")
    return ", ".join(ways)


def _flatten(layout: kdb.Layout, process: Process, rng: Rng) -> None:
    layout.top_cell().flatten(-1, True)


def _flatten_some(layout: kdb.Layout, process: Process, rng: Rng) -> None:
    layout.top_cell().flatten(1, True)


def _dissolve(layout: kdb.Layout, process: Process, rng: Rng) -> None:
    top = layout.top_cell()
    single = [
        kdb.CellInstArray(instance.cell_index, move)
        for instance in top.each_inst()
        for move in instance.cell_inst.each_trans()
    ]
    top.clear_insts()
    for place in single:
        top.insert(place)


def _regroup(layout: kdb.Layout, process: Process, rng: Rng) -> None:
    """Move some of the instances and shapes into a new cell that is placed with a rotation."""
    top, turn = layout.top_cell(), kdb.Trans(int(rng.integers(4)), bool(rng.integers(2)), 1234, -567)
    group = layout.create_cell("GROUP")
    arrays = [instance.cell_inst.dup() for instance in top.each_inst()]
    top.clear_insts()
    for array in arrays:
        if rng.random() < 0.5:
            array.transform(turn)
            group.insert(array)
        else:
            top.insert(array)
    for index in layout.layer_indexes():
        kept = kdb.Shapes()
        for shape in top.shapes(index).each():
            if shape.is_text() or rng.random() < 0.5:
                kept.insert(shape)
            else:
                group.shapes(index).insert(shape, turn)
        top.shapes(index).assign(kept)
    top.insert(kdb.CellInstArray(group.cell_index(), turn.inverted()))


def _cut(layout: kdb.Layout, process: Process, rng: Rng) -> None:
    """Cut some boxes of every cell in two, but no outline: two outlines that touch are a violation."""
    for index in layout.layer_indexes():
        info = layout.get_info(index)
        if (info.layer, info.datatype) == process.gds_layers["outline"]:
            continue
        for cell in layout.each_cell():
            kept = kdb.Shapes()
            for shape in cell.shapes(index).each():
                box = shape.bbox()
                if shape.is_text() or not shape.polygon.is_box() or box.width() < 2 or rng.random() < 0.5:
                    kept.insert(shape)
                else:
                    x = int(rng.integers(box.left + 1, box.right))
                    kept.insert(kdb.Box(box.left, box.bottom, x, box.top))
                    kept.insert(kdb.Box(x, box.bottom, box.right, box.top))
            cell.shapes(index).assign(kept)


def _rename(layout: kdb.Layout, process: Process, rng: Rng) -> None:
    names = [cell.name for cell in layout.each_cell()]
    order = rng.permutation(len(names))
    for number, cell in enumerate(layout.each_cell()):
        layout.rename_cell(cell.cell_index(), f"TMP{number}")
    # every cell gets the name of another cell: checks must not rely on names
    for number, cell in enumerate(layout.each_cell()):
        layout.rename_cell(cell.cell_index(), names[int(order[number])])


def check_clean(number: int, folder: Path) -> Clean:
    """Lay a random chip out, redraw it and check it."""
    rng = np.random.default_rng([number, 2603])
    name = PROCESSES[int(rng.integers(len(PROCESSES)))]
    process = load_process(name)
    get_pdk(name).activate()
    circuit, plan, what = chip(rng, process)
    layout = to_layout(plan, process, "chip")
    how = redrawn(layout, process, rng)
    path = folder / "clean.gds"
    layout.write(str(path))
    rules = run_drc(path, process.rules, process.gds_layers, threads=1)
    known = {r.id for r in process.rules if r.kind == "density" and r.severity == "warning"}
    known |= {"chip.size"} if plan.fit != "fits one die" else set()
    broken = tuple(r.id for r in rules.rules if r.violations and r.id not in known)
    lvs = compare(circuit, extract(path, process), process)
    return Clean(number, name, f"{what}; {how}", broken, tuple(sorted({d.kind for d in lvs.differences})))
