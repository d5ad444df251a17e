"""The ``.pic.yml`` file: round trip, and errors for invalid files."""

import random
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optinc_pdk.assemble import mesh_chip
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import (
    Board,
    Circuit,
    CircuitBuilder,
    ComponentType,
    NetlistError,
    Neuron,
    flatten,
    read_netlist,
    write_netlist,
)
from optinc_pdk.circuit.netlist_files import composite_type, netlist_dict, netlist_text
from optinc_pdk.io.yaml_files import yaml_text

from .conftest import drop, put

NAMES = st.text("abcxyz_019éß'\"#:-", min_size=1, max_size=6)
NUMBERS = st.floats(-1e30, 1e30)


@st.composite
def kinds(draw: st.DrawFn) -> dict[str, ComponentType]:
    """A library of one to four components."""
    library = {}
    for name in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)):
        ports = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
        optical = draw(st.integers(0, len(ports)))
        library[name] = ComponentType(name, tuple(ports[:optical]), tuple(ports[optical:]))
    return library


@st.composite
def circuits(draw: st.DrawFn, depth: int = 1) -> Circuit:
    """A circuit with random instances, nets, labels, settings, grid and, to a depth, sub-circuits."""
    library, cells = draw(kinds()), {}
    if depth:
        cell = draw(circuits(depth - 1))
        cells[cell.name] = cell
        library[cell.name] = composite_type(cell)
    b = CircuitBuilder(draw(NAMES), library, cells)
    for name in draw(st.lists(NAMES, max_size=6, unique=True)):
        at = draw(st.none() | st.tuples(NAMES, st.integers(0, 99), st.integers(0, 99)))
        values = draw(st.dictionaries(st.sampled_from(("length_um", "loss_db")), NUMBERS, max_size=2))
        b.add(name, draw(st.sampled_from(sorted(library))), at, **values)
    rng = random.Random(draw(st.integers(0, 2**32)))
    light = [f"{n},{p}" for n, c in b.instances.items() for p in library[c].optical]
    metal = [f"{n},{p}" for n, c in b.instances.items() for p in library[c].electrical]
    rng.shuffle(light)
    for _ in range(rng.randint(0, len(light) // 2)):
        b.connect(light.pop(), light.pop())
    for _ in range(rng.randint(0, len(metal)) if len(metal) > 1 else 0):
        b.connect(*rng.sample(metal, 2))
    labels = draw(st.lists(NAMES, max_size=4, unique=True))
    free = light + metal
    rng.shuffle(free)
    b.ports = dict(zip(labels, free, strict=False))
    return b.build()


def assert_same(a: Circuit, b: Circuit) -> None:
    assert list(a.ports) == list(b.ports)
    for f in fields(Circuit):
        one, other = getattr(a, f.name), getattr(b, f.name)
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other, err_msg=f.name)
        elif f.name == "cells":
            assert list(one) == list(other)
            for name in one:
                assert_same(one[name], other[name])
        elif f.name == "settings":
            assert list(one) == list(other)
            for key in one:
                np.testing.assert_array_equal(one[key], other[key])
        else:
            assert one == other, f.name


@given(circuit=circuits(depth=2))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_a_circuit_is_read_as_written(circuit: Circuit, tmp_path: Path) -> None:
    path = tmp_path / "c.pic.yml"
    write_netlist(circuit, path)
    first = path.read_bytes()
    back = read_netlist(path)
    assert_same(back, circuit)
    write_netlist(back, path)
    assert path.read_bytes() == first


KINDS = {k.name: k for k in (ComponentType("fibre", ("o1", "o2")), ComponentType("heater", ("o1", "o2"), ("e1",)))}


def board(labels: list[str]) -> Board:
    """A board over eight fibres."""
    a, b, c, d, e, f, g, h = labels
    return Board(a, (b,), (c,), ((d,),), (Neuron("n", 0, e, f, g),), ((h,),))


def small() -> Circuit:
    """Eight fibres in pairs around a composite, with a board."""
    inside = CircuitBuilder("cell", KINDS)
    inside.add("x", "heater", length_um=3.5)
    inside.ports = {"o1": "x,o1", "o2": "x,o2", "e1": "x,e1"}
    cell = inside.build()
    b = CircuitBuilder("small", KINDS | {"cell": composite_type(cell)}, {"cell": cell})
    for i in range(8):
        b.add(f"f{i}", "fibre", ("s", i, 0))
        b.ports[f"l{i}"] = f"f{i},o2"
    b.add("c", "cell")
    b.connect("f0,o1", "c,o1")
    b.connect("c,o2", "f1,o1")
    b.ports["pad"] = "c,e1"
    return replace(b.build(), board=board([f"l{i}" for i in range(8)]))


def test_the_board_is_read_as_written(tmp_path: Path) -> None:
    write_netlist(small(), tmp_path / "c.pic.yml")
    back = read_netlist(tmp_path / "c.pic.yml")
    assert back.board == small().board
    assert back.board is not None
    assert back.board.layers == 2
    assert_same(back, small())


def written(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "c.pic.yml"
    write_netlist(small(), path)
    return dict(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (put("extra", 1), "unknown key 'extra'; remove it, known are"),
        (put("info", "schema", 2), "schema 2, this version reads 1"),
        (drop("info", "schema"), "schema None, this version reads 1"),
        (put("channels", {}), r"is a bias.*\.pic\.yml"),
        (drop("info"), "info is missing"),
        (drop("name"), "name is missing"),
        (put("instances", [1]), r"instances is \[1\], expected key: value pairs"),
        (put("instances", "f0", "component", "laser"), "'f0': unknown component 'laser'.* cell, fibre"),
        (put("instances", "f0", "settings", {"a": float("nan")}), "'f0': setting a is nan, .* finite"),
        (put("instances", "f0", "settings", {"a": float("inf")}), "'f0': setting a is inf, .* finite"),
        (put("instances", "f0", "settings", {"a": "1"}), "'f0': setting a is '1', .* finite"),
        (put("instances", "f0", "settings", {"a": True}), "'f0': setting a is True, .* finite"),
        (put("instances", "f0", "settings", {"a": 10**40}), "'f0': setting a is 10+.* finite"),
        (put("instances", "f0", "settings", {"a": 10**400}), "expected a finite number"),
        (put("nets", 0, "p1", "f9,o1"), "no port 'f9,o1'"),
        (put("nets", 0, "p1", "c,o2"), "optical port used twice"),
        (put("nets", 0, "p2", "c,e1"), "joins an optical to an electrical port"),
        (drop("nets", 0, "p1"), "a net: p1 is missing"),
        (put("ports", "l0", "f1,o1"), "optical port f1,o1 is used twice"),
        (put("ports", "l0", "f0,o9"), "no port 'f0,o9'"),
        (put("info", "components", "fibre", "optical", ["o1", "o1"]), "ports o1, o1"),
        (put("info", "cells", "cell", "name", "other"), "cell 'cell' .*'other'"),
        (put("info", "cells", "cell", "instances", "x", "component", "nothing"), "unknown component 'nothing'"),
        (put("info", "grid", "f0", ["s", 1]), "info.grid: 'f0' has 2 values"),
        (put("info", "grid", "f0", ["s", 10**30, 0]), "'f0': column is 10+, expected an integer in 0…"),
        (put("info", "board", "carrier", "l9"), "the board names fibre 'l9'"),
        (put("info", "board", "carrier", "l1"), "the board uses fibres twice: l1"),
        (put("info", "board", "neurons", 0, "to", "l8"), "the board names fibre 'l8'"),
        (put("info", "board", "neurons", 0, "colour", "red"), "neuron 0: unknown key 'colour'"),
        (drop("info", "board", "neurons", 0, "to"), "neuron 0: to is missing"),
        (drop("info", "board", "carrier"), "info.board: carrier is missing"),
        (put("info", "schema", True), "schema True, this version reads 1"),
        (put("info", "extra", 1), "info: unknown key 'extra'"),
        (put("name", float("nan")), "name: the name nan is not text"),
        (put("name", 12), "name: the name 12 is not text"),
        (put("name", "a\x1b[31m"), r"name: the name 'a\\x1b\[31m' of 6 characters .* printable"),
        (put("instances", "x" * 10_000, {"component": "fibre"}), "of 10000 characters must have 1 to 256"),
        (put("instances", "f0", "component", None), "instance 'f0': component: the name None is not text"),
        (put("instances", "f0", "colour", 1), "instance 'f0': unknown key 'colour'"),
        (put("nets", 0, "p1", float("nan")), "a net: the port nan is not text"),
        (put("nets", {}), "nets is {}, expected a list"),
        (put("ports", "l0", None), "'l0': the port None is not text"),
        (put("info", "components", "fibre", "optical", "o1"), "optical is 'o1', expected a list"),
        (put("info", "components", "fibre", "optical", [1]), "optical: the name 1 is not text"),
        (put("info", "grid", "f0", ["s", 1.0, 0]), r"column is 1\.0, expected an integer"),
        (put("info", "grid", "f0", [None, 1, 0]), "info.grid: 'f0': the name None is not text"),
        (put("info", "grid", "nobody", ["s", 1, 0]), "places 'nobody', which is no instance"),
        (put("info", "board", "supplies", "abc"), "supplies is 'abc', expected a list"),
        (put("info", "board", "neurons", 0, "layer", 10**9), "layer is 1000000000, expected an integer in 0…0"),
        (put("info", "board", "neurons", 0, "label", float("nan")), "label: the name nan is not text"),
    ],
)
def test_invalid_files_are_refused_with_file_and_fault(
    change: Callable[[dict[str, Any]], None], reason: str, tmp_path: Path
) -> None:
    data = written(tmp_path)
    change(data)
    path = tmp_path / "damaged.pic.yml"
    path.write_text(yaml.dump(data, sort_keys=False))
    with pytest.raises(NetlistError, match=reason) as caught:
        read_netlist(path)
    assert str(caught.value).startswith(str(path))


def test_text_other_than_a_netlist_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.pic.yml"
    for text in ("name: a\nname: b\n", "a: &x []\nb: *x\n", "- 1\n", "name: [", "name: a\n"):
        path.write_text(text)
        with pytest.raises(NetlistError, match=r"c\.pic\.yml"):
            read_netlist(path)
    with pytest.raises(NetlistError, match=r"missing\.pic\.yml"):
        read_netlist(tmp_path / "missing.pic.yml")


def paths(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of keys to every value of plain data."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    result = [path] if path else []
    for key, value in items:
        result += paths(value, (*path, key))
    return result


@given(seed=st.integers(0, 10**9))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_replaced_gives_a_circuit_or_a_netlist_error(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    data = written(tmp_path)
    where = rng.choice(paths(data))
    junk = rng.choice([None, 1, -1, 1.5, "", "x", [], {}, [[]], {"a": None}, True, 10**400, float("nan")])
    put(*where, junk)(data)
    path = tmp_path / "damaged.pic.yml"
    path.write_text(yaml.dump(data, sort_keys=False))
    try:
        circuit = read_netlist(path)
    except NetlistError as error:
        assert str(error).startswith(str(path))
    else:
        write_netlist(circuit, tmp_path / "again.pic.yml")
        assert_same(read_netlist(tmp_path / "again.pic.yml"), circuit)


def test_text_is_the_same_as_pyyamls() -> None:
    process = load_process()
    plain = mesh_chip(12, process, "mesh")
    odd = replace(plain, instances=("no", *plain.instances[1:]))
    for circuit in (plain, flatten(plain), odd, replace(plain, ports={})):
        data = netlist_dict(circuit)
        assert netlist_text(data) == yaml_text(data)


def test_neurons_of_several_detectors_and_modulators_are_read_as_written(tmp_path: Path) -> None:
    board = Board(
        carrier="c",
        supplies=(),
        monitors=(),
        inputs=(("i",),),
        neurons=(Neuron("n", 0, ("p0", "p1"), ("m0", "m1"), ("t",)),),
        outputs=(("o",),),
        oscillators=("lo_l0",),
    )
    data = board.to_dict()
    assert data["neurons"] == [{"label": "n", "layer": 0, "plus": ["p0", "p1"], "minus": ["m0", "m1"], "to": "t"}]
    assert "carriers" not in data
    assert Board.from_dict(data) == board
    assert Board.from_dict({k: v for k, v in data.items() if k != "oscillators"}).oscillators == ()


def test_the_power_of_oscillators_is_written_where_it_differs_and_sets_the_amplitude_of_their_fibres() -> None:
    plain = Board("c", (), (), (("i",),), (Neuron("n", 0, "p", "m", "t"),), (("o",),), carriers=("m0",))
    assert plain.launched == {"c": 1.0, "m0": 1.0} and "oscillator_power" not in plain.to_dict()
    split = replace(plain, oscillator_power=2.25)
    assert split.launched == {"c": 1.5, "m0": 1.0}
    apart = replace(split, oscillators=("lo_l0", "lo_l1"))
    assert apart.launched == {"c": 1.0, "lo_l0": 1.5, "lo_l1": 1.5, "m0": 1.0}
    assert Board.from_dict(apart.to_dict()) == apart
    for power in (0.0, -1.0, 1e7, True, "1"):
        with pytest.raises(NetlistError, match="oscillator_power"):
            Board.from_dict(plain.to_dict() | {"oscillator_power": power})


@pytest.mark.parametrize(
    ("plus", "minus", "to", "reason"),
    [((), (), (), "'n': to"), (("p", "q"), "m", "t", "has 2 positive and 1 negative"), ("p", (), "t", "1 .* 0")],
)
def test_neurons_without_modulators_or_with_half_pairs_are_refused(plus: Any, minus: Any, to: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Neuron("n", 0, plus, minus, to)
