"""Heater phases from labels and from DAC codes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.circuit import Activation, Bias, NetlistError, write_bias
from optinc_pdk.simulate import analyse, heater_phases
from optinc_pdk.simulate.heater_drive import read_drive

from .conftest import two_heaters, with_geometry


@pytest.fixture
def circuit():
    return two_heaters()


def bias(codes, phases=(1.0, 2.0)):
    labels = ("pad_of_second", "pad_of_first")
    zeros = np.zeros(2)
    return Bias("soi220", "small", 16, labels, np.array(phases), zeros, zeros, np.array(codes))


def test_phases_are_assigned_by_label(circuit, process):
    structure = analyse(circuit)
    phases = heater_phases(structure, {"pad_of_first": 1.0, "pad_of_second": 2.0}, process)
    assert phases.tolist() == [1.0, 2.0]
    assert heater_phases(structure, bias([0, 0]), process).tolist() == [2.0, 1.0]


def test_codes_are_used_where_resistances_are_known(circuit, process):
    laid_out = with_geometry(circuit, 0)
    phases = heater_phases(analyse(laid_out), bias([30000, 10000]), process)
    heated = laid_out.instances_of("phase_shifter")
    resistance = laid_out.settings["resistance_ohm"][heated]
    wire = laid_out.settings["wire_ohm"][heated]
    volts = np.array([10000, 30000]) * 12.0 / 65535
    power = (volts / (resistance + wire)) ** 2 * resistance
    assert phases == pytest.approx(np.pi * power / 0.025)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"voltage_v": np.array([0.9, 2.0]) * 12.0 * 30000 / 65535}, "'pad_of_second'.* 4.943"),
        (
            {"voltage_v": np.array([1.0, 2.0]) * 12.0 * 30000 / 65535 + 1.01 * 12.0 / 65535},
            "0.000183 V",
        ),
        (
            {"power_w": np.array([0.05, 0.04])},
            "'pad_of_second': voltage_v is 5.49.*, but power_w 0.05 needs at least 7.45",
        ),
        ({"dac_bits": 17}, "17 .*'soi220'.* 16"),
        ({"process": "other"}, "'other'"),
    ],
)
def test_a_bias_file_that_contradicts_itself_or_the_drive_is_refused(change, fault, process, tmp_path):
    volts = np.array([1.0, 2.0]) * 12.0 * 30000 / 65535
    # voltages of a calibrated drive lie between codes
    good = replace(bias([30000, 60000]), voltage_v=volts + 0.9 * 12.0 / 65535, power_w=np.array([0.01, 0.04]))
    write_bias(good, tmp_path / "good.bias.yml")
    assert read_drive(tmp_path / "good.bias.yml", process).code.tolist() == [30000, 60000]
    write_bias(replace(good, **change), tmp_path / "bad.bias.yml")
    with pytest.raises(NetlistError, match=fault):
        read_drive(tmp_path / "bad.bias.yml", process)


@pytest.mark.parametrize(
    ("electronics", "fault"),
    [
        ({"activations": {"n0": Activation(-1.0, 0.0, 1.0)}}, r"'n0': gain -1 .* 0 … 1e\+06"),
        ({"activations": {"n0": Activation(1.1e6, 0.0, 1.0)}}, r"'n0': gain 1\.1e\+06 .* 0 … 1e\+06"),
        ({"activations": {"n0": Activation(1.0, -10.5, 1.0)}}, r"'n0': offset -10\.5 .* -10 … 10"),
        ({"activations": {"n0": Activation(1.0, 0.0, 0.0)}}, "'n0': balance 0 must be above 0"),
        ({"activations": {"n0": Activation(1.0, 0.0, -1.0)}}, "'n0': balance -1 must be above 0"),
        ({"outputs": {"out": 0.0}}, "'out': scale 0 .* 0"),
        ({"outputs": {"out": -2.0}}, "'out': scale -2 .* 0"),
    ],
)
def test_electronics_outside_the_cards_range_are_refused(electronics, fault, process, tmp_path):
    good = replace(bias([0, 0]), activations={"n0": Activation(1e6, 10.0, 1.0)}, outputs={"out": 1e-3})
    write_bias(good, tmp_path / "good.bias.yml")
    assert read_drive(tmp_path / "good.bias.yml", process).activations == good.activations
    write_bias(replace(good, **electronics), tmp_path / "bad.bias.yml")
    with pytest.raises(NetlistError, match=rf"bad\.bias\.yml: .*{fault}.*; "):
        read_drive(tmp_path / "bad.bias.yml", process)


def test_missing_channel_is_an_error_unless_asked(circuit, process):
    structure = analyse(circuit)
    with pytest.raises(NetlistError, match=r"'second'.*'pad_of_second'.*; .*bias"):
        heater_phases(structure, {"pad_of_first": 1.0}, process)
    assert heater_phases(structure, {"pad_of_first": 1.0}, process, unbiased=0.0).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("phase", [np.nan, np.inf])
def test_phases_that_are_not_finite_are_refused(circuit, process, phase):
    with pytest.raises(NetlistError, match=f"'pad_of_first' is {phase}"):
        heater_phases(analyse(circuit), {"pad_of_first": phase, "pad_of_second": 1.0}, process, unbiased=0.0)


def test_unknown_channel_is_an_error(circuit, process):
    with pytest.raises(NetlistError, match="'elsewhere'"):
        heater_phases(analyse(circuit), {"elsewhere": 1.0}, process, unbiased=0.0)
