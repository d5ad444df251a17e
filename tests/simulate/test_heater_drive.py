"""Heater phases from labels and DAC codes, thermal crosstalk, and codes that compensate it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.circuit import Activation, Bias, NetlistError, write_bias
from optinc_pdk.networks import AveragingNetwork, Layer
from optinc_pdk.simulate import analyse, heater_phases, program
from optinc_pdk.simulate.heater_drive import nominal_crosstalk, read_drive

from .conftest import chip, two_heaters, with_geometry


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


def largest_error(phase, target):
    """Largest difference in rad, up to whole turns."""
    return np.abs(np.angle(np.exp(1j * (phase - target)))).max(initial=0.0)


@pytest.fixture(scope="module")
def placed(process):
    """A small network, its board and its circuit as from a layout, with positions."""
    v = np.random.default_rng(5).uniform(0.5, 1.0, (4, 1))
    onn = AveragingNetwork((Layer(v, -0.25 * v[:, 0]), Layer(v.T / np.sum(v**2), np.zeros(1))), Averaging(2, 2, 1))
    circuit, board = chip(onn, process)
    position = np.random.default_rng(2).uniform(0.0, 1500.0, (len(circuit.instances), 2))
    return onn, board, replace(circuit, position_um=position)


def target_phases(bias, structure):
    target = dict(zip(bias.labels, bias.phase_rad.tolist(), strict=True))
    return np.array([target[label] for label in structure.channel])


def test_programmed_codes_compensate_the_cards_crosstalk(placed, process):
    onn, board, circuit = placed
    structure = analyse(circuit)
    driven = program(circuit, board, onn, process)
    assert largest_error(heater_phases(structure, driven.bias, process), target_phases(driven.bias, structure)) < 1e-3
    assert driven.driven_error.max() < 2e-4
    blind = program(circuit, board, onn, process, crosstalk=np.eye(structure.heater.size))
    assert np.array_equal(blind.bias.phase_rad, driven.bias.phase_rad)
    assert largest_error(heater_phases(structure, blind.bias, process), target_phases(blind.bias, structure)) > 0.05


def test_the_cards_crosstalk_given_as_a_matrix_gives_the_same_codes(placed, process):
    onn, board, circuit = placed
    matrix = nominal_crosstalk(analyse(circuit), process).matrix
    given = program(circuit, board, onn, process, crosstalk=matrix)
    assert np.abs(given.bias.code - program(circuit, board, onn, process).bias.code).max() <= 1


def test_without_crosstalk_in_the_card_nothing_is_compensated(placed, process):
    onn, board, circuit = placed
    without = process.model_copy(update={"imperfections": None})
    assert nominal_crosstalk(analyse(circuit), without) is None
    alone = program(circuit, board, onn, without).bias
    assert alone.power_w == pytest.approx(0.025 * alone.phase_rad / np.pi)
    assert largest_error(heater_phases(analyse(circuit), alone, without), target_phases(alone, analyse(circuit))) < 1e-3


def test_phases_by_label_are_phases_of_the_guides(placed, process):
    _, _, circuit = placed
    structure = analyse(circuit)
    target = {label: 1.0 + i for i, label in enumerate(structure.channel)}
    assert heater_phases(structure, target, process).tolist() == list(target.values())


def test_heaters_that_are_not_driven_heat_no_others(process):
    circuit = with_geometry(two_heaters(), 0)
    circuit = replace(circuit, position_um=25.0 * np.arange(2 * len(circuit.instances)).reshape(-1, 2))
    structure = analyse(circuit)
    codes = {"pad_of_first": 30000, "pad_of_second": 10000}

    def phases(*driven):
        zeros = np.zeros(len(driven))
        bias = Bias("soi220", "small", 16, driven, zeros, zeros, zeros, np.array([codes[label] for label in driven]))
        return heater_phases(structure, bias, process, unbiased=0.3)

    (x, y), share = np.diff(circuit.position_um[structure.heater], axis=0)[0], 0.029 * 25.0
    share /= np.hypot(x, y)
    first, second = phases("pad_of_first"), phases("pad_of_second")
    assert first[1] == second[0] == 0.3
    expected = [first[0] + share * second[1], second[1] + share * first[0]]
    assert phases("pad_of_first", "pad_of_second") == pytest.approx(expected)
