"""Arguments, cross-sections, widths and routing strategies that netlists state."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.cards.device import GUIDE_CELLS
from optinc_pdk.circuit import NetlistError, PlacedCircuit
from optinc_pdk.circuit._cell_settings import (
    ARGUMENTS,
    CROSS_SECTIONS,
    DEFAULTS,
    LENGTH_ARGUMENTS,
    ROUTING_STRATEGIES,
    complete_instance,
)
from optinc_pdk.circuit.gdsfactory_netlists import ALIASES, placed_circuit
from optinc_pdk.circuit.schematic_cells import SchematicInstance
from optinc_pdk.pdk import get_pdk

PROCESS = load_process()


def test_the_arguments_are_those_of_the_cells() -> None:
    cells = get_pdk("soi220_flipchip").cells
    devices = set(load_process("soi220_flipchip").devices) | set(ALIASES)
    assert set(ARGUMENTS) == (devices | GUIDE_CELLS) & set(cells)
    for name, known in ARGUMENTS.items():
        signature = inspect.signature(cells[name]).parameters
        assert set(known) == set(signature), name
        for key, value in DEFAULTS.get(name, {}).items():
            assert signature[key].default == value, (name, key)


def test_every_length_that_is_compared_has_the_default_of_its_cell() -> None:
    compared = {name: set(keys) for name, keys in LENGTH_ARGUMENTS.items() if name != "wire_straight"}
    assert {name: set(values) for name, values in DEFAULTS.items()} == compared


def test_default_values_stand_for_what_is_not_stated() -> None:
    assert complete_instance("a", SchematicInstance("coupler", {"gap": None, "dx": 15})).settings == {
        "gap": 0.236,
        "dx": 15,
    }
    assert complete_instance("a", SchematicInstance("coupler", {"gap": 0.3})).settings == {"gap": 0.3}
    assert complete_instance("a", SchematicInstance("cell_of_mine", {"gap": 0.3})).settings == {"gap": 0.3}


@pytest.mark.parametrize(
    ("component", "settings", "words"),
    [
        ("straight", {"leng": 10}, ("'part'", "straight", "'leng'", "cross_section, length, npoints")),
        ("coupler", {"gap": 0.2, "gap_top": 0.3}, ("'part'", "'gap_top'", "gap_um", "length")),
        ("crossing", {"size": 3}, ("'part'", "'size'", "none")),
    ],
)
def test_unknown_settings_of_schematics_are_refused(
    component: str, settings: dict[str, Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(NetlistError) as fault:
        placed_circuit({"instances": {"part": {"component": component, "settings": settings}}}, PROCESS, "top")
    for word in words:
        assert word in str(fault.value)


def test_settings_of_a_drawn_instance_are_those_of_the_pdk_that_drew_it() -> None:
    part = {"component": "straight", "settings": {"length": 10, "colour": "red"}, "info": {"length": 10}}
    pad = {"component": "pad", "info": {}}
    assert placed_circuit({"instances": {"a": part, "b": pad}}, PROCESS, "top").circuit.instances == ("b",)


def schematic(**guide: Any) -> dict[str, Any]:
    """Two couplers, and a straight with some settings between them."""
    return {
        "instances": {
            "west": {"component": "grating_coupler"},
            "east": {"component": "grating_coupler"},
            "guide": {"component": "straight", "settings": guide},
        },
        "placements": {"guide": {"x": 5.0, "y": 7.0}},
        "routes": {"r": {"routing_strategy": "route_bundle", "links": {"west,o1": "guide,o1", "guide,o2": "east,o1"}}},
        "ports": {"in": "west,o2", "out": "east,o2"},
    }


def read(data: dict[str, Any]) -> PlacedCircuit:
    return placed_circuit(data, PROCESS, "link")


def faults(data: dict[str, Any]) -> list[tuple[str, str, tuple[float, float] | None]]:
    return [(each.kind, each.instance, each.position_um) for each in read(data).guide_faults]


def test_the_names_are_those_of_the_pdk() -> None:
    pdk = get_pdk(PROCESS.name)
    assert set(CROSS_SECTIONS) == set(pdk.cross_sections)
    assert set(ROUTING_STRATEGIES) == set(pdk.routing_strategies or {})


@pytest.mark.parametrize("section", [*CROSS_SECTIONS, "xs_e5da4f22", {"cross_section": "strip", "settings": {}}])
def test_cross_sections_of_the_pdk_and_derived_ones_are_accepted(section: object) -> None:
    assert not faults(schematic(cross_section=section))


@pytest.mark.parametrize(
    ("instance", "settings"),
    [("guide", {"cross_section": "rib"}), ("west", {"cross_section": {"cross_section": "rib", "settings": {}}})],
)
def test_an_unknown_cross_section_is_refused(instance: str, settings: dict[str, Any]) -> None:
    data = schematic()
    data["instances"][instance]["settings"] = settings
    with pytest.raises(NetlistError, match=rf"instance '{instance}': .*'rib'.*metal_routing, strip, wire"):
        read(data)


@pytest.mark.parametrize(
    ("route", "value"),
    [
        ({"routing_strategy": "route_bundel"}, "'route_bundel'"),
        ({"settings": {"cross_section": "rib"}}, "'rib'"),
        ({"linkz": {"west,o1": "guide,o1"}}, "'linkz'"),
        ({"routing_strategy": 5}, "5"),
    ],
)
def test_a_route_that_cannot_be_drawn_is_refused(route: dict[str, Any], value: str) -> None:
    data = schematic()
    data["routes"]["r"] |= route
    with pytest.raises(NetlistError, match=rf"route 'r'.*{value}"):
        read(data)


def test_a_layout_may_have_a_cross_section_of_its_author() -> None:
    data = schematic(cross_section="of_mine")
    data["instances"]["guide"]["info"] = {"width": float(PROCESS.guide.width_um)}
    assert not faults(data)


def test_other_pdks_have_cross_sections_of_their_own() -> None:
    guides = PROCESS.netlist.model_copy(update={"guides": ("straight_rib",)})
    process = PROCESS.model_copy(update={"netlist": guides})
    data = schematic(cross_section="rib")
    data["routes"]["r"]["routing_strategy"] = "route_all"
    assert not placed_circuit(data, process, "link").guide_faults


def test_a_guide_of_another_width_is_a_fault_with_its_place() -> None:
    width = float(PROCESS.guide.width_um)
    assert not faults(schematic(width=width))
    assert not faults(schematic(width=width + 0.0009))
    found = [("guide_width", "guide", (5.0, 7.0))]
    assert faults(schematic(width=width + 0.002)) == found
    assert faults(schematic(cross_section={"cross_section": "strip", "settings": {"width": 0.8}})) == found
    drawn = schematic()
    drawn["instances"]["guide"]["info"] = {"width": 0.8}
    assert faults(drawn) == found


def test_a_guide_that_is_not_connected_is_a_fault() -> None:
    data = schematic()
    data["instances"]["spare"] = {"component": "straight"}
    assert faults(data) == [("open_guide", "spare", None)]
    del data["routes"]["r"]["links"]["guide,o2"]
    assert faults(data) == [("open_guide", "guide", (5.0, 7.0)), ("open_guide", "spare", None)]


@pytest.mark.parametrize(
    "part",
    [
        {"component": "wire_straight", "settings": {"width": 8.0}},
        {"component": "straight", "settings": {"cross_section": "metal_routing", "width": 8.0}},
    ],
)
def test_wires_have_any_width(part: dict[str, Any]) -> None:
    data = schematic()
    data["instances"]["wire"] = part
    assert not faults(data)
