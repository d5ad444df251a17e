"""Extraction of hierarchical and flattened chips gives the same circuit, whatever the cells and their nesting."""

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
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.layout import ChipLayout, flipchip_floorplan, floorplan, lay_out_network, to_layout
from optinc_pdk.networks import AveragingNetwork, Layer, bundled_weights
from optinc_pdk.pdk import get_pdk


def network(process: Process) -> ChipLayout:
    return lay_out_network(AveragingNetwork.load(bundled_weights()), process, "chip")[1]


def mesh(process: Process, modes: int) -> ChipLayout:
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
        f"mesh of {modes}, {name}": (name, partial(mesh, modes=modes), 0)
        for modes in (4, 5, 8, 9, 16)
        for name in ("soi220", "soi220_flipchip")
    },
    "mesh of 9, folded": ("soi220_flipchip", partial(mesh, modes=9), 3),
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
        monkeypatch.setattr(flipchip_floorplan, "FOLDS", (folds,))
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
