"""Thermal crosstalk between heaters as placed: phases of codes, and codes that compensate it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.circuit import Bias
from optinc_pdk.networks import AveragingNetwork, Layer
from optinc_pdk.simulate import analyse, heater_phases, program
from optinc_pdk.simulate.heater_drive import nominal_crosstalk

from .conftest import chip, two_heaters, with_geometry


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
