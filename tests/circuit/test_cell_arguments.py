"""Arguments of cells in schematics: those of the PDK's cells, default values, and names that no cell has."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from optinc_pdk import get_pdk
from optinc_pdk.cards import load_process
from optinc_pdk.cards.device import GUIDE_CELLS
from optinc_pdk.circuit import NetlistError
from optinc_pdk.circuit.cell_settings import ARGUMENTS, DEFAULTS, LENGTH_ARGUMENTS, complete_instance
from optinc_pdk.circuit.gdsfactory_netlists import ALIASES, placed_circuit
from optinc_pdk.circuit.schematic_cells import SchematicInstance

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
