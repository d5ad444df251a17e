"""Settings at pads: parsing, phases from voltages and from radians, and S-parameters without a bias."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
from drawn_link import PROCESS, draw, netlist

from optinc_pdk.circuit import Circuit, NetlistError
from optinc_pdk.circuit.gdsfactory_netlists import placed_circuit
from optinc_pdk.errors import InputError
from optinc_pdk.signoff.extracted_chip import read_drawn_circuit
from optinc_pdk.signoff.lvs.label_binding import named_circuit
from optinc_pdk.simulate.heater_drive import PadSetting, parse_settings
from optinc_pdk.simulate.s_parameters.scattering import set_scattering

# light that both couplers reflect once more
REFLECTED = 2e-3
NM = float(PROCESS.guide.wavelength_nm)


@pytest.fixture(scope="module")
def circuit(tmp_path_factory: pytest.TempPathFactory) -> Circuit:
    gds = draw(tmp_path_factory.mktemp("link"))
    return read_drawn_circuit(gds, placed_circuit(netlist(), PROCESS, "link"), PROCESS).circuit


def through(circuit: Circuit, **settings: PadSetting) -> complex:
    found = set_scattering(circuit, settings, NM, PROCESS)
    return complex(found.between(("out",), ("in",))[0, 0, 0])


@pytest.mark.parametrize(
    ("text", "label", "setting"),
    [
        ("a=2.5", "a", PadSetting(2.5, "V")),
        ("a=2.5V", "a", PadSetting(2.5, "V")),
        ("a = -1e-3 rad", "a", PadSetting(-1e-3, "rad")),
        ("a=b=3", "a=b", PadSetting(3.0, "V")),
    ],
)
def test_settings_are_volts_or_radians(text: str, label: str, setting: PadSetting) -> None:
    assert parse_settings([text]) == {label: setting}


@pytest.mark.parametrize("texts", [["a"], ["a="], ["=3"], ["a=x"], ["a=nan"], ["a=1e4"], ["a=3W"], ["a=1", "a=2"]])
def test_other_settings_are_refused(texts: list[str]) -> None:
    with pytest.raises(InputError, match=r"--set"):
        parse_settings(texts)


def test_a_phase_turns_the_transmitted_field(circuit: Circuit) -> None:
    ratio = through(circuit, pad1=PadSetting(0.7, "rad")) / through(circuit)
    assert ratio == pytest.approx(np.exp(0.7j), abs=REFLECTED)
    # either end drives the heater
    assert through(circuit, pad2=PadSetting(0.7, "rad")) / through(circuit) == pytest.approx(ratio, abs=1e-12)


def test_a_voltage_heats_by_its_power_in_the_heater(circuit: Circuit) -> None:
    instance = int(circuit.instances_of("phase_shifter")[0])
    heater, wire = (float(circuit.settings[key][instance]) for key in ("resistance_ohm", "wire_ohm"))
    power = (3.0 / (heater + wire)) ** 2 * heater
    expected = math.pi * power / PROCESS.device("phase_shifter").parameter("power_pi_w")
    assert expected > 0.5
    ratio = through(circuit, pad1=PadSetting(3.0, "V")) / through(circuit)
    assert ratio == pytest.approx(np.exp(1j * expected), abs=REFLECTED)


def test_a_netlist_and_its_layout_transmit_the_same(circuit: Circuit) -> None:
    named = named_circuit(placed_circuit(netlist(), PROCESS, "link"), PROCESS)
    assert through(named) == pytest.approx(through(circuit), abs=1e-12)


@pytest.mark.parametrize(
    ("label", "setting", "text"),
    [("pad3", PadSetting(1.0, "V"), "pad1"), ("in", PadSetting(1.0, "V"), "in")],
)
def test_a_setting_that_drives_no_heater_is_refused(
    circuit: Circuit, label: str, setting: PadSetting, text: str
) -> None:
    with pytest.raises(InputError, match=text):
        set_scattering(circuit, {label: setting}, NM, PROCESS)


LARGEST_RAD = float(PROCESS.device("phase_shifter").limits["phase_max_rad"])


@pytest.mark.parametrize("unit", ["V", "rad"])
def test_a_drive_beyond_the_range_of_the_heater_is_refused_with_the_largest_one(
    circuit: Circuit, unit: Literal["V", "rad"]
) -> None:
    instance = int(circuit.instances_of("phase_shifter")[0])
    heater, wire = (float(circuit.settings[key][instance]) for key in ("resistance_ohm", "wire_ohm"))
    power_w = LARGEST_RAD / math.pi * PROCESS.device("phase_shifter").parameter("power_pi_w")
    largest = math.sqrt(power_w / heater) * (heater + wire) if unit == "V" else LARGEST_RAD
    assert abs(through(circuit, pad1=PadSetting(largest, unit))) > 0.0
    with pytest.raises(InputError, match=rf"pad1.* {power_w * 1e3:.4g} mW .*{largest:.4g} {unit}$"):
        set_scattering(circuit, {"pad1": PadSetting(1.02 * largest, unit)}, NM, PROCESS)


@pytest.mark.parametrize("unit", ["V", "rad"])
def test_a_heater_that_is_set_at_both_pads_is_refused(circuit: Circuit, unit: Literal["V", "rad"]) -> None:
    heater = circuit.instances[int(circuit.instances_of("phase_shifter")[0])]
    with pytest.raises(InputError, match=rf"'{heater}'.*'pad1'.*'pad2'"):
        set_scattering(circuit, {"pad1": PadSetting(2.0, unit), "pad2": PadSetting(1.0, unit)}, NM, PROCESS)


def test_a_netlist_has_no_voltages(circuit: Circuit) -> None:
    named = named_circuit(placed_circuit(netlist(), PROCESS, "link"), PROCESS)
    with pytest.raises(InputError, match="rad"):
        set_scattering(named, {"pad1": PadSetting(1.0, "V")}, NM, PROCESS)


def test_a_guide_of_unknown_length_is_refused() -> None:
    named = named_circuit(placed_circuit(netlist(None), PROCESS, "link"), PROCESS)
    with pytest.raises(NetlistError, match=r"heater,o2|east,o1"):
        set_scattering(named, {}, NM, PROCESS)


@pytest.mark.parametrize("wavelength_nm", [NM, NM + 7.0])
def test_a_heater_of_another_length_is_as_long_as_it_is_drawn(wavelength_nm: float) -> None:
    standard = PROCESS.device("phase_shifter").size("length_um")

    def field(heater_um: float, guide_um: float) -> complex:
        data = netlist(guide_um)
        data["instances"]["heater"]["settings"] = {"length_um": heater_um}
        found = set_scattering(
            named_circuit(placed_circuit(data, PROCESS, "link"), PROCESS), {}, wavelength_nm, PROCESS
        )
        return complex(found.between(("out",), ("in",))[0, 0, 0])

    assert field(standard + 26.0, 60.0) == pytest.approx(field(standard, 86.0), abs=1e-12)
    assert abs(field(standard + 26.0, 60.0) - field(standard, 60.0)) > 1e-3


def test_a_phase_adds_to_that_of_the_drawn_length() -> None:
    card_um = float(PROCESS.device("phase_shifter").size("length_um"))

    def drawn(length_um: float) -> Circuit:
        data = netlist()
        data["instances"]["heater"]["settings"] = {"length_um": length_um}
        return named_circuit(placed_circuit(data, PROCESS, "link"), PROCESS)

    longer, as_card = drawn(card_um + 37.0), drawn(card_um)
    ratio = through(longer, pad1=PadSetting(0.7, "rad")) / through(longer)
    assert ratio == pytest.approx(np.exp(0.7j), abs=REFLECTED)
    turn = 2 * np.pi * float(PROCESS.guide.index) * 37.0 / (NM * 1e-3)
    loss = 10.0 ** (-float(PROCESS.guide.loss_db_per_cm) * 37.0e-4 / 20.0)
    expected = loss * np.exp(1j * turn)
    for settings in ({}, {"pad1": PadSetting(0.7, "rad")}):
        assert through(longer, **settings) / through(as_card, **settings) == pytest.approx(expected, abs=REFLECTED)
