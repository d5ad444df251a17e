"""Schematics with cells of the PDK whose netlists they do not contain: the cells are drawn."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import gdsfactory as gf
import pytest
import yaml

import optinc_pdk as op
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import NetlistError, PlacedCircuit
from optinc_pdk.circuit.gdsfactory_netlists import placed_circuit
from optinc_pdk.pdk import active_pdk, cell_drawing
from optinc_pdk.signoff.extracted_chip import read_drawn_circuit

PROCESS = load_process("soi220")
SCHEMATIC = """
name: sample
instances:
  split: {component: mmi1x2}
  heater: {component: straight_heater_metal, settings: {length: 150}}
  ring: {component: ring_single, settings: {gap: 0.25, radius: 10}}
  in: {component: grating_coupler}
  up: {component: grating_coupler}
  low: {component: grating_coupler}
placements:
  split: {x: 0, y: 0}
  in: {x: -60, y: 0, rotation: 180}
  heater: {x: 150, y: 130}
  ring: {x: 150, y: -60}
  up: {x: 500, y: 130}
  low: {x: 500, y: -60}
routes:
  r1: {links: {"in,o1": "split,o1"}, settings: {cross_section: strip}}
  r2: {links: {"split,o2": "heater,o1"}, settings: {cross_section: strip}}
  r3: {links: {"heater,o2": "up,o1"}, settings: {cross_section: strip}}
  r4: {links: {"split,o3": "ring,o1"}, settings: {cross_section: strip}}
  r5: {links: {"ring,o2": "low,o1"}, settings: {cross_section: strip}}
ports: {in: "in,o2", up: "up,o2", low: "low,o2"}
"""


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("schematic") / "sample.gds"
    with active_pdk(PROCESS):
        gf.read.from_yaml(SCHEMATIC).write_gds(path)
    return path


def circuit(data: dict[str, Any]) -> PlacedCircuit:
    return placed_circuit(data, PROCESS, "sample", draw=cell_drawing(PROCESS))


def changed(instance: str, **settings: Any) -> dict[str, Any]:
    data = copy.deepcopy(yaml.safe_load(SCHEMATIC))
    data["instances"][instance].setdefault("settings", {}).update(settings)
    return dict(data)


def test_a_layout_matches_the_schematic_that_it_is_drawn_from(layout: Path) -> None:
    placed = circuit(yaml.safe_load(SCHEMATIC))
    assert {"heater.phase_shifter", "ring.coupler_ring"} <= set(placed.circuit.instances)
    drawn = read_drawn_circuit(layout, placed, PROCESS)
    assert drawn.lvs is not None and drawn.lvs.match, drawn.lvs


@pytest.mark.parametrize(
    ("instance", "settings", "where", "kinds"),
    [
        ("ring", {"gap": 0.3}, "ring.coupler_ring", {"gap", "coupled_length"}),
        ("heater", {"length": 160}, "heater.phase_shifter", {"parameter"}),
    ],
)
def test_a_difference_within_such_a_cell_names_its_instance(
    layout: Path, instance: str, settings: dict[str, Any], where: str, kinds: set[str]
) -> None:
    lvs = read_drawn_circuit(layout, circuit(changed(instance, **settings)), PROCESS).lvs
    assert lvs is not None
    assert {fault.kind for fault in lvs.differences} == kinds
    assert all(where in fault.reference for fault in lvs.differences)


COUPLERS = """
name: couplers
instances:
  c1: {component: coupler, settings: {gap: 0.25, length: 12}}
  c2: {component: coupler_ring, settings: {gap: 0.25, radius: 10}}
  a: {component: grating_coupler}
  b: {component: grating_coupler}
  t1: {component: terminator}
  t2: {component: terminator}
  t3: {component: terminator}
  t4: {component: terminator}
placements:
  c1: {x: 0, y: 0}
  c2: {x: 200, y: 100}
  a: {x: -200, y: 0, rotation: 180}
  b: {x: 400, y: 0}
connections: {"t1,o1": "c1,o1", "t2,o1": "c2,o2", "t3,o1": "c2,o3", "t4,o1": "c2,o4"}
routes:
  r1: {links: {"a,o1": "c1,o2"}, settings: {cross_section: strip}}
  r2: {links: {"c1,o4": "b,o1"}, settings: {cross_section: strip}}
  r3: {links: {"c1,o3": "c2,o1"}, settings: {cross_section: strip}}
ports: {a: "a,o2", b: "b,o2"}
"""


@pytest.mark.parametrize(
    ("instance", "settings", "kinds"),
    [
        ("c1", {}, set()),
        ("c1", {"length": 12.5}, {"coupled_length", "guide_length"}),
        ("c1", {"gap": 0.26}, {"gap"}),
        ("c1", {"dx": 15}, {"guide_length"}),
        ("c2", {"radius": 11}, {"coupled_length", "guide_length"}),
    ],
)
def test_couplers_of_a_schematic_are_drawn_to_compare_their_lengths(
    tmp_path: Path, instance: str, settings: dict[str, Any], kinds: set[str]
) -> None:
    data = yaml.safe_load(COUPLERS)
    with active_pdk(PROCESS):
        gf.read.from_yaml(COUPLERS).write_gds(tmp_path / "couplers.gds")
    data["instances"][instance]["settings"].update(settings)
    placed = placed_circuit(data, PROCESS, "couplers", draw=cell_drawing(PROCESS))
    lvs = read_drawn_circuit(tmp_path / "couplers.gds", placed, PROCESS).lvs
    assert lvs is not None
    assert kinds <= {fault.kind for fault in lvs.differences}, lvs
    assert {fault.kind for fault in lvs.differences} - kinds <= ({"guide_length", "coupled_length"} if kinds else set())
    assert all(fault.reference == instance for fault in lvs.differences)


def test_settings_that_a_schematic_states_itself_are_taken() -> None:
    part = {"component": "coupler", "settings": {"gap_um": 0.21, "coupled_length_um": 9.0}}
    settings = placed_circuit({"instances": {"c": part}}, PROCESS, "c", draw=cell_drawing(PROCESS)).circuit.settings
    assert settings["coupled_length_um"][0] == 9.0


def test_cells_with_equal_settings_are_drawn_once() -> None:
    drawn: list[str] = []

    def draw(name: str, settings: Any) -> Any:
        drawn.append(name)
        return cell_drawing(PROCESS)(name, settings)

    rings = {f"r{i}": {"component": "ring_single", "settings": {"gap": 0.25 if i else 0.3}} for i in range(4)}
    placed = placed_circuit({"instances": rings}, PROCESS, "rings", draw=draw)
    assert drawn == ["ring_single", "ring_single"]
    assert sum(name.endswith("coupler_ring") for name in placed.circuit.instances) == 4


def test_the_netlist_of_one_cell_of_a_layout_needs_no_recursion() -> None:
    with active_pdk(PROCESS):
        c = gf.Component("shallow")
        c.add_ref(gf.get_component("mzi", delta_length=40.0), name="filter")
        shallow, deep = (c.get_netlist(recursive=deep, on_dangling_port="ignore") for deep in (False, True))
    few, many = (placed_circuit(data, PROCESS, "shallow", draw=cell_drawing(PROCESS)) for data in (shallow, deep))
    assert few.circuit.instances == many.circuit.instances
    assert sorted(few.circuit.net_length_um) == pytest.approx(sorted(many.circuit.net_length_um))


@pytest.mark.parametrize(
    ("instance", "settings", "message"),
    [
        (
            "ring",
            {"gapp": 1},
            r"instance 'ring': ring_single has no setting 'gapp', it has gap, .*; correct or remove it",
        ),
        ("ring", {"gap": float("nan")}, r"instance 'ring': coupler_ring: gap is nan µm, outside .*; give a length"),
        ("ring", {"bend": [1]}, r"instance 'ring': coupler_ring: bend is \[1\]; give 'bend_euler'"),
        ("heater", {"length": "long"}, r"instance 'heater': straight_heater_metal: length is 'long'.*; give a number"),
        ("heater", {"cross_section": [1]}, r"instance 'heater': get_cross_section expects a CrossSectionSpec"),
    ],
)
def test_settings_that_a_cell_cannot_have_are_refused(instance: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(NetlistError, match=message):
        circuit(changed(instance, **settings))


def test_what_a_function_of_gdsfactory_cannot_draw_is_refused() -> None:
    data = {"instances": {"filter": {"component": "mzi", "settings": {"delta_length": "a"}}}}
    with pytest.raises(NetlistError, match=r"instance 'filter': mzi cannot be drawn: .*'str'; correct the settings"):
        circuit(data)


def test_a_cell_that_the_process_does_not_have_is_refused() -> None:
    generic = load_process(Path(__file__).parents[2] / "examples/processes/generic")
    data = {"instances": {"r": {"component": "ring_single"}}}
    with pytest.raises(NetlistError, match="instance 'r': ring_single is a cell that consists of several devices"):
        placed_circuit(data, generic, "rings", draw=cell_drawing(generic))


def test_without_a_drawing_such_cells_are_refused() -> None:
    with pytest.raises(NetlistError, match=r"no netlist 'straight_heater_metal'; write .*\(recursive=True\)"):
        placed_circuit(yaml.safe_load(SCHEMATIC), PROCESS, "sample")


def test_the_pdk_of_before_is_active_again() -> None:
    with active_pdk("soi220_flipchip") as before:
        circuit(yaml.safe_load(SCHEMATIC))
        assert gf.get_active_pdk() is before
    assert op.PDK is not None
