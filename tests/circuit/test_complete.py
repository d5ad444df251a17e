"""Circuits with open or doubly used optical ports."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optinc_pdk.circuit import CircuitBuilder, ComponentType, NetlistError, check_complete
from optinc_pdk.circuit.netlist_files import composite_type

COUPLER = ComponentType("coupler", ("o1", "o2", "o3", "o4"))
LIBRARY = {kind.name: kind for kind in (COUPLER, ComponentType("heater", ("o1", "o2"), ("e1", "e2")))}


def ring() -> CircuitBuilder:
    """A coupler, a heater from one of its ports to another, two labels; electrical ports may stay open."""
    b = CircuitBuilder("ring", LIBRARY)
    b.add("c", "coupler")
    b.add("h", "heater")
    b.connect("c,o3", "h,o1")
    b.connect("h,o2", "c,o1")
    b.ports = {"in": "c,o2", "out": "c,o4"}
    return b


def test_a_complete_circuit_passes() -> None:
    check_complete(ring().build())


def test_an_open_port_is_named() -> None:
    b = ring()
    b.add("loose", "heater")
    b.nets[1] = ("h,o2", "loose,o2")
    with pytest.raises(NetlistError, match=r"^ring: optical port c,o1 .*\(2 "):
        check_complete(b.build())


def test_an_open_port_within_a_cell_is_named() -> None:
    b = ring()
    del b.ports["out"]
    cell = b.build()
    outer = CircuitBuilder("outer", {"ring": composite_type(cell)}, {"ring": cell})
    outer.add("r", "ring")
    outer.ports = {"in": "r,in"}
    with pytest.raises(NetlistError, match=r"^ring: optical port c,o4 "):
        check_complete(outer.build())


def test_a_port_used_twice_is_named() -> None:
    circuit = ring().build()
    twice = replace(circuit, ports={**circuit.ports, "again": circuit.ports["in"]})
    with pytest.raises(NetlistError, match=r"^ring: optical port c,o2 .* twice"):
        check_complete(twice)
    both = replace(circuit, ports={**circuit.ports, "middle": int(circuit.nets[0, 0])})
    with pytest.raises(NetlistError, match=r"^ring: c,o3 .*'middle'"):
        check_complete(both)
