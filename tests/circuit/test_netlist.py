"""Builder, circuit, connected components and flattening; circuits with open or doubly used optical ports."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from optinc_pdk.circuit import (
    UNCONNECTED,
    Circuit,
    CircuitBuilder,
    ComponentType,
    NetlistError,
    check_complete,
    flatten,
    named_nets,
)
from optinc_pdk.circuit.netlist import component_labels
from optinc_pdk.circuit.netlist_files import composite_type

COUPLER = ComponentType("coupler", ("o1", "o2", "o3", "o4"))
HEATER = ComponentType("heater", ("o1", "o2"), ("e1", "e2"))
PAD = ComponentType("pad", (), ("e1",))
LIBRARY = {kind.name: kind for kind in (COUPLER, HEATER, PAD)}


def pair() -> CircuitBuilder:
    """Two heaters in a row, their grounds connected, one pad."""
    b = CircuitBuilder("pair", LIBRARY)
    b.add("p", "pad")
    b.add("h0", "heater", ("main", 0, 0), length_um=100.0)
    b.add("h1", "heater", ("main", 1, 0))
    b.connect("h0,o2", "h1,o1")
    b.connect("h0,e2", "h1,e2")
    b.connect("p,e1", "h0,e1")
    b.ports = {"in": "h0,o1", "out": "h1,o2", "signal": "p,e1", "ground": "h1,e2", "spare": "h1,e1"}
    return b


def test_arrays_of_a_small_circuit() -> None:
    c = pair().build()
    assert c.instances == ("p", "h0", "h1")
    assert [c.kinds[k].name for k in c.kind] == ["pad", "heater", "heater"]
    assert c.offset.tolist() == [0, 1, 5, 9]
    assert [c.port_name(i) for i in range(9)] == [
        "p,e1", "h0,o1", "h0,o2", "h0,e1", "h0,e2", "h1,o1", "h1,o2", "h1,e1", "h1,e2",
    ]  # fmt: skip
    assert c.nets.tolist() == [[2, 5]]
    # pad and h0,e1; the connected grounds; a labelled port alone is a net; optical ports are in none
    assert c.electrical.tolist() == [0, -1, -1, 0, 1, -1, -1, 2, 1]
    assert c.ports == {"in": 1, "out": 6, "signal": 0, "ground": 8, "spare": 7}
    assert c.partners().tolist() == [-1, -1, 5, -1, -1, 2, -1, -1, -1]
    assert c.optical_mask().tolist() == [False, True, True, False, False, True, True, False, False]
    assert c.electrical_labels() == {0: ("signal",), 1: ("ground",), 2: ("spare",)}
    assert c.instances_of("heater").tolist() == [1, 2]
    assert c.instances_of("laser").tolist() == []
    np.testing.assert_array_equal(c.settings["length_um"], [np.nan, 100.0, np.nan])
    assert c.sections == ("main",)
    assert c.grid.tolist() == [[UNCONNECTED] * 3, [0, 0, 0], [0, 1, 0]]


def test_an_empty_circuit_is_valid() -> None:
    c = CircuitBuilder("empty", LIBRARY).build()
    assert c.instances == ()
    assert c.partners().shape == (0,)
    assert named_nets(c) == []
    assert flatten(c).instances == ()


def test_nets_by_name_give_the_same_circuit() -> None:
    c = pair().build()
    again = pair()
    again.nets = named_nets(c)[::-1]
    twin = again.build()
    assert twin.nets.tolist() == c.nets.tolist()
    assert twin.electrical.tolist() == c.electrical.tolist()


def test_metal_of_many_ports_is_one_net() -> None:
    b = CircuitBuilder("star", LIBRARY)
    for i in range(5):
        b.add(f"p{i}", "pad")
    for a, c in ((3, 4), (0, 1), (1, 3)):
        b.connect(f"p{a},e1", f"p{c},e1")
    assert b.build().electrical.tolist() == [0, 0, UNCONNECTED, 0, 0]


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        ("h0,o2", "h1,o2", "optical port used twice, by h0,o2 - h1,o2 and h0,o2 - h1,o1"),
        ("h0,o1", "h0,o1", "net h0,o1 - h0,o1 joins a port to itself"),
        ("p,e1", "p,e1", "joins a port to itself"),
        ("h0,o1", "h9,o1", "no port 'h9,o1'; write 'instance,port'"),
        ("h0,o1", "h1,o9", "no port 'h1,o9'"),
        ("h0,o1", "h1", "no port 'h1'"),
        ("h0,o1", "", "no port ''"),
        ("h0,o1", "h1,e1", "net h0,o1 - h1,e1 joins an optical to an electrical port"),
        ("p,e1", "h1,o2", "joins an optical to an electrical port"),
        ("h0,o1", "h1,o2", "optical port h0,o1 is used twice, as port 'in'"),
    ],
)
def test_invalid_nets_are_refused(a: str, b: str, reason: str) -> None:
    builder = pair()
    builder.connect(a, b)
    with pytest.raises(NetlistError, match=f"pair: .*{reason}"):
        builder.build()


def test_invalid_labels_are_refused() -> None:
    builder = pair()
    builder.ports["other"] = "h7,o1"
    with pytest.raises(NetlistError, match="no port 'h7,o1'"):
        builder.build()
    builder = pair()
    builder.ports["other"] = "h0,o1"
    with pytest.raises(NetlistError, match="optical port h0,o1 is used twice, as port 'other'"):
        builder.build()


def test_invalid_instances_are_refused() -> None:
    builder = pair()
    with pytest.raises(NetlistError, match="'h0' "):
        builder.add("h0", "coupler")
    with pytest.raises(NetlistError, match=r"'x': unknown component 'laser'.* coupler, heater, pad"):
        builder.add("x", "laser")
    with pytest.raises(NetlistError, match=r"'twin' .* o1, o1"):
        ComponentType("twin", ("o1",), ("o1",))


def holder(name: str, inside: Circuit) -> Circuit:
    """Two of a circuit in a row, with its ports."""
    b = CircuitBuilder(name, LIBRARY | {inside.name: composite_type(inside)}, {inside.name: inside})
    b.add("a", inside.name, ("left", 0, 0))
    b.add("b", inside.name, ("right", 0, 1))
    b.add("c", "coupler")
    b.connect("a,out", "b,in")
    b.connect("c,o1", "b,out")
    b.connect("a,ground", "b,ground")
    b.ports = {"in": "a,in", "out": "c,o3", "signal": "a,signal", "ground": "a,ground", "spare": "b,spare"}
    return b.build()


def test_a_composite_has_its_ports_optical_first() -> None:
    kind = composite_type(pair().build())
    assert kind == ComponentType("pair", ("in", "out"), ("signal", "ground", "spare"))


def test_flattening_two_levels_keeps_devices_nets_and_ports() -> None:
    inner = pair().build()
    flat = flatten(holder("outer", holder("middle", inner)))
    assert not flat.cells
    assert sorted({kind.name for kind in flat.kinds}) == ["coupler", "heater", "pad"]
    names = [f"{m}.{i}.{d}" for m in "ab" for i in "ab" for d in ("p", "h0", "h1")] + ["a.c", "b.c", "c"]
    assert sorted(flat.instances) == sorted(names)
    lengths = dict(zip(flat.instances, flat.settings["length_um"], strict=True))
    assert all(lengths[n] == 100.0 if n.endswith("h0") else np.isnan(lengths[n]) for n in flat.instances)
    # instances get the grid position of their outermost composite
    position = dict(zip(flat.instances, flat.grid.tolist(), strict=True))
    assert [flat.sections[position[n][0]] for n in ("a.b.h0", "b.a.p")] == ["left", "right"]
    assert position["c"] == [UNCONNECTED] * 3

    light = {frozenset((flat.port_name(a), flat.port_name(b))) for a, b in flat.nets}
    expected = {frozenset((f"{m}.{i}.h0,o2", f"{m}.{i}.h1,o1")) for m in "ab" for i in "ab"}
    expected |= {frozenset((f"{m}.a.h1,o2", f"{m}.b.h0,o1")) for m in "ab"}
    expected |= {frozenset((f"{m}.c,o1", f"{m}.b.h1,o2")) for m in "ab"}
    expected |= {frozenset(("a.c,o3", "b.a.h0,o1")), frozenset(("c,o1", "b.c,o3"))}
    assert light == expected

    number = {flat.port_name(i): int(net) for i, net in enumerate(flat.electrical)}
    grounds = [number[f"{m}.{i}.{h},e2"] for m in "ab" for i in "ab" for h in ("h0", "h1")]
    assert len(set(grounds)) == 1
    signals = [number[f"{m}.{i}.p,e1"] for m in "ab" for i in "ab"]
    assert len({*signals, grounds[0]}) == 5
    assert {label: flat.port_name(port) for label, port in flat.ports.items()} == {
        "in": "a.a.h0,o1", "out": "c,o3", "signal": "a.a.p,e1", "ground": "a.a.h1,e2", "spare": "b.b.h1,e1",
    }  # fmt: skip


def test_flattening_a_flat_circuit_changes_nothing() -> None:
    c = pair().build()
    flat = flatten(c)
    assert flat.instances == c.instances
    assert flat.nets.tolist() == c.nets.tolist()


def test_cells_that_contain_each_other_are_refused() -> None:
    inner = pair().build()
    middle = holder("middle", inner)
    outer = CircuitBuilder("pair", LIBRARY | {"middle": composite_type(middle)}, {"middle": middle})
    outer.add("m", "middle")
    with pytest.raises(NetlistError, match="pair > middle > pair"):
        flatten(outer.build())


def test_too_many_nested_instances_are_refused() -> None:
    """Ten instances a level, eight levels: a small file, a hundred million couplers."""
    cell, kind = None, ComponentType("mmi2x2", ("o1", "o2", "o3", "o4"))
    for level in range(8):
        name = f"level{level}"
        b = CircuitBuilder(name, {kind.name: kind}, {} if cell is None else {cell.name: cell})
        for i in range(10):
            b.add(f"i{i}", kind.name)
        cell = b.build()
        kind = ComponentType(name, ())
    with pytest.raises(NetlistError, match=r"100000000 .* 5000000"):
        flatten(cell)


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


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.floats(0.0, 2.0))
def test_components_are_those_of_scipy(seed: int, size: int, density: float) -> None:
    a, b = np.random.default_rng(seed).integers(0, size, (2, int(density * size)))
    label = connected_components(coo_array((np.ones(a.size), (a, b)), shape=(size, size)), directed=False)[1]
    least = np.array([np.flatnonzero(label == each)[0] for each in label])
    assert np.array_equal(component_labels(size, a, b), least)


def test_a_long_chain_is_one_component_in_any_order() -> None:
    order = np.random.default_rng(0).permutation(5000)
    assert not component_labels(5000, order[:-1], order[1:]).any()
