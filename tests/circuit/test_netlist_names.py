"""Netlists of other PDKs: cells, settings, ports and lengths under the names that the cards of a process state."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from optinc_pdk.cards import DeviceCard, Process, load_process
from optinc_pdk.cards.device import DeviceNames, LengthName, NetlistNames
from optinc_pdk.cards.quantity import Quantity
from optinc_pdk.circuit import NetlistError, PlacedCircuit
from optinc_pdk.circuit.gdsfactory_netlists import placed_circuit

BASE = load_process()


def named(device: str, **names: Any) -> DeviceCard:
    return BASE.devices[device].model_copy(update={"netlist": DeviceNames(**names)})


def process(*cards: DeviceCard, guides: tuple[str, ...] = ()) -> Process:
    devices = {**BASE.devices, **{card.name: card for card in cards}}
    return BASE.model_copy(update={"devices": devices, "netlist": NetlistNames(guides=guides)})


HEATER = named(
    "phase_shifter",
    cells=("heated",),
    settings={"undercut": False, "width": 2.5, "section": "strip"},
    ports={"l_e1": "e1", "l_e2": "e1", "r_e1": "e2", "r_e2": "e2"},
    length=LengthName(argument="length", end_um=Quantity(0.1, "default")),
)
PAD = named("pad", ports={"e2": "e1", "pad": "e1"})
SHORT = named("directional_coupler", cells=("coupler_of_two",), settings={"length": 10.0})
LONG = named("monitor_tap", cells=("coupler_of_two",), settings={"length": 20.0})


def link(**settings: Any) -> dict[str, Any]:
    """A heater between two gratings, wired to two pads through tapers."""
    return {
        "instances": {
            "west": {"component": "grating_coupler", "info": {}},
            "east": {"component": "grating_coupler", "info": {}},
            "mid": {"component": "heated", "settings": settings, "info": {}},
            "p": {"component": "pad", "info": {}},
            "q": {"component": "pad", "info": {}},
            "wide": {"component": "taper_wire", "settings": {"length": 10.0}},
        },
        "nets": [
            {"p1": "west,o1", "p2": "mid,o1"},
            {"p1": "mid,o2", "p2": "east,o1"},
            {"p1": "mid,l_e2", "p2": "wide,e1"},
            {"p1": "wide,e2", "p2": "p,e2"},
            {"p1": "mid,r_e1", "p2": "q,pad"},
            {"p1": "mid,r_e1", "p2": "mid,r_e2"},
        ],
        "ports": {"in": "west,o2", "drive": "p,pad", "GND": "q,e1"},
    }


def read(data: dict[str, Any], *cards: DeviceCard) -> PlacedCircuit:
    return placed_circuit(data, process(*cards, guides=("taper_wire",)), "link")


def test_cells_ports_and_lengths_have_the_names_of_the_card() -> None:
    circuit = read(link(length=100, undercut=False, width=2.5), HEATER, PAD).circuit
    (heater,) = circuit.instances_of("phase_shifter").tolist()
    assert circuit.instances[heater] == "mid"
    assert circuit.settings["length_um"][heater] == 99.8
    # 0.1 µm of each guide lie in the cell of the heater
    assert sorted(circuit.net_length_um.tolist()) == [0.1, 0.1]
    first = int(circuit.offset[heater])
    ends = circuit.electrical[first + 2 : first + 4].tolist()
    assert ends == [int(circuit.electrical[circuit.ports[label]]) for label in ("drive", "GND")]
    assert ends[0] != ends[1]


def test_a_length_that_is_not_stated_is_that_of_the_card() -> None:
    circuit = read(link(), HEATER, PAD).circuit
    assert "length_um" not in circuit.settings


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"undercut": True}, ("undercut is True", "False")),
        ({"width": 3}, ("width is 3", "2.5")),
        ({"section": None}, ("section",)),
    ],
)
def test_a_cell_of_other_dimensions_is_refused_by_its_instance(
    settings: dict[str, Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(NetlistError) as refused:
        read(link(**settings), HEATER, PAD)
    assert all(word in str(refused.value) for word in ("'mid'", "heated", "phase_shifter", *words))


def coupler(**settings: Any) -> dict[str, Any]:
    return {"instances": {"dc": {"component": "coupler_of_two", "settings": settings}}}


def test_settings_choose_among_devices_of_one_cell() -> None:
    for length, device in ((10, "directional_coupler"), (20.0000001, "monitor_tap")):
        circuit = read(coupler(length=length), SHORT, LONG).circuit
        assert circuit.instances_of(device).size == 1
    with pytest.raises(NetlistError, match=r"'dc'.*directional_coupler, monitor_tap.*length"):
        read(coupler(), SHORT, LONG)
    with pytest.raises(NetlistError, match=r"'dc'.*length is 15 instead of 10.*instead of 20"):
        read(coupler(length=15), SHORT, LONG)


def test_a_device_may_be_called_by_its_own_name_too() -> None:
    data = {"instances": {"dc": {"component": "directional_coupler", "settings": {"length": 15}}}}
    assert read(data, SHORT).circuit.instances_of("directional_coupler").size == 1


def test_unknown_ports_and_components_are_named_with_what_there_is() -> None:
    data = link()
    data["nets"][2]["p1"] = "mid,t_e1"
    with pytest.raises(NetlistError, match=r"mid has no port 't_e1'.*l_e1"):
        read(data, HEATER, PAD)
    with pytest.raises(NetlistError, match=r"'mid'.*'heated'.*taper_wire"):
        read(link(), PAD)
    data = link()
    data["nets"].append({"p1": "mid,l_e1", "p2": "mid,l_e1"})
    with pytest.raises(NetlistError, match="to itself"):
        read(data, HEATER, PAD)


def test_names_of_ports_are_checked_when_the_card_is_read() -> None:
    data = BASE.devices["pad"].model_dump()
    for names, word in (({"e2": "e7"}, "e7"), ({"e1": "e1"}, "itself")):
        with pytest.raises(ValidationError, match=word):
            DeviceCard.model_validate({**data, "netlist": {"ports": names}})
