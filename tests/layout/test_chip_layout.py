"""View of a circuit by names: signal pads, ground pads and connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from optinc_pdk.assemble._component_library import component_types, composite_circuits
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit, CircuitBuilder
from optinc_pdk.layout.chip_layout import PlacementView


@pytest.fixture
def process(process_of: Callable[..., Any]) -> Any:
    return process_of("soi220_onchip")


def circuit_of(process: Process) -> Circuit:
    """An MZI with its pads, a photodiode, twelve ground pads; the photodiode's ground is a net of its own."""
    cells = composite_circuits(process)
    b = CircuitBuilder("chip", component_types(process, cells), cells)
    for name, kind, at in (
        ("m", "mzi_unit", ("l0", 0, 1)),
        ("d", "photodiode", ("l0", 1, 0)),
        ("b", "mzi_unit", ("l0", 0, 0)),
    ):
        b.add(name, kind, at)
    for label in ("phi", "theta", "diode", "other", *(f"GND{i}" for i in range(12)), "GND_d"):
        b.add(f"pad_{label}", "pad")
        b.ports[label] = f"pad_{label},e1"
    b.connect("m,o3", "d,o1")
    b.connect("m,o4", "b,o2")
    for label, end in (("phi", "m,e1"), ("theta", "m,e4"), ("diode", "d,e1"), ("other", "b,e2")):
        b.connect(f"pad_{label},e1", end)
    for end in ("m,e2", "m,e3", "b,e1", *(f"pad_GND{i},e1" for i in range(1, 12))):
        b.connect("pad_GND0,e1", end)
    b.connect("pad_GND_d,e1", "d,e2")
    return b.build()


def test_every_heater_has_a_signal_end_and_a_ground_end(process: Process) -> None:
    netlist = PlacementView(circuit_of(process))
    assert {name: set(heaters) for name, heaters in netlist.heaters.items()} == {
        "m": {("phi", "e1", "e2"), ("theta", "e4", "e3")},
        "d": {("diode", "e1", "e2")},
        "b": {("other", "e2", "e1")},
    }


def test_ground_pads_of_instances_are_in_order_of_number(process: Process) -> None:
    netlist = PlacementView(circuit_of(process))
    numbered = tuple(f"GND{i}" for i in range(12))
    assert netlist.grounds(["m"]) == netlist.grounds(["b", "m"]) == numbered
    assert netlist.grounds(["d"]) == ("GND_d",)
    assert set(netlist.grounds(["d", "m"])) == {*numbered, "GND_d"}
    assert netlist.grounds([]) == netlist.grounds(["pad_GND0"]) == ()


def test_partners_are_mutual_and_sections_are_ordered_by_column_and_row(process: Process) -> None:
    netlist = PlacementView(circuit_of(process))
    assert netlist.partner == {"m,o3": "d,o1", "d,o1": "m,o3", "m,o4": "b,o2", "b,o2": "m,o4"}
    assert netlist.section("l0") == ["b", "m", "d"]
    assert netlist.section("l7") == []
    assert netlist.component["pad_phi"] == "pad"
    assert netlist.label["pad_phi,e1"] == "phi"
