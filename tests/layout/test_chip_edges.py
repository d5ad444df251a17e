"""Edge couplers: their tips are at the left and right edge of a die, in arrays; everything else is as with gratings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from optinc_pdk.arrays import Floats
from optinc_pdk.assemble import mesh_chip
from optinc_pdk.cards import Process
from optinc_pdk.circuit import flatten
from optinc_pdk.layout import ChipLayout, floorplan, lay_out_network

EDGES = "soi220_fast"
CHIPS: dict[str, dict[str, Any]] = {
    "one block": {"widths": (1, 4, 1)},
    "blocks": {"widths": (2, 4, 2), "blocks": (2, 2)},
    "several dies": {"widths": (2, 3, 4, 2), "die": (9_000.0, 1_600.0)},
    "one server": {"widths": (1, 2, 1), "servers": 1},
}


def tips(chip: ChipLayout, process: Process) -> Floats:
    """(n, 4) die, side (-1 left, +1 right), distance from that side and y of the tips of all fibres, in µm."""
    found = []
    for name, placed in chip.canvas.placed.items():
        if placed.component == process.fibres.coupler:
            at = chip.canvas.port(f"{name},o2")
            die = next(i for i, (left, _, right, _) in enumerate(chip.dies) if left <= at.x <= right)
            left, _, right, _ = chip.dies[die]
            side = {180: -1, 0: 1}[at.angle]
            found.append((die, side, at.x - left if side < 0 else right - at.x, at.y))
    return np.array(found)


@pytest.mark.full(every=3)
@pytest.mark.parametrize("chip", CHIPS.values(), ids=CHIPS)
def test_tips_are_at_the_edges_at_the_fibre_pitch_and_the_chip_passes(
    chip: dict[str, Any], built: Callable[..., Any]
) -> None:
    made = built(EDGES, **chip)
    found = tips(made.chip, made.process)
    assert len(found) == len(flatten(made.circuit).instances_of("edge_coupler")) > 0
    assert len(flatten(made.circuit).instances_of("grating_coupler")) == 0
    assert np.abs(found[:, 2] - float(made.process.fibres.facet_um)).max() < 1e-6
    arrays = defaultdict(list)
    for die, side, _, y in found.tolist():
        arrays[die, side].append(y)
    pitch = float(made.process.floorplan.fibre_pitch_um)
    assert all(np.diff(sorted(ys)).min(initial=pitch) >= pitch - 1e-6 for ys in arrays.values())
    # dies of a size that is not offered are only a warning
    assert made.rules_broken().keys() <= {"chip.size"}
    assert made.differences() == []


def test_chips_of_several_dies_have_tips_on_every_die(built: Callable[..., Any]) -> None:
    made = built(EDGES, **CHIPS["several dies"])
    assert len(made.chip.dies) > 1
    assert set(tips(made.chip, made.process)[:, 0].tolist()) == set(range(len(made.chip.dies)))


def test_only_the_couplers_differ_from_a_chip_with_gratings(
    network: Callable[..., Any], process_of: Callable[..., Any]
) -> None:
    edges = process_of(EDGES)
    fibres = edges.fibres.model_copy(update={"coupler": "grating_coupler"})
    gratings = edges.model_copy(update={"fibres": fibres})
    one, two = (lay_out_network(network((2, 3, 2)), process, "chip")[0] for process in (edges, gratings))
    assert (one.instances, one.ports, one.nets.tolist()) == (two.instances, two.ports, two.nets.tolist())
    flat = [flatten(circuit) for circuit in (one, two)]
    kinds = [
        circuit.instances_of(name) for circuit, name in zip(flat, ("edge_coupler", "grating_coupler"), strict=True)
    ]
    assert kinds[0].tolist() == kinds[1].tolist() != []


def test_a_mesh_has_edge_couplers_too(process_of: Callable[..., Any], written: Callable[..., Any]) -> None:
    process = process_of(EDGES)
    circuit = mesh_chip(5, process, "mesh")
    made = written(process, circuit, floorplan(circuit, process))
    found = tips(made.chip, process)
    assert sorted(found[:, 1].tolist()) == [-1] * 5 + [1] * 5
    assert made.rules_broken() == {}
    assert made.differences() == []
