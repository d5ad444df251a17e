"""Calibration of a sampled chip on a bench: exact after, honest about what cannot work."""

from __future__ import annotations

import numpy as np
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.drive import RangeError
from optinc_pdk.files import InputError
from optinc_pdk.onn import carry_chain
from optinc_pdk.signoff.function import inputs_of
from optinc_pdk.tolerance import draw, light
from optinc_pdk.tolerance.calibration.bench import Bench
from optinc_pdk.tolerance.calibration.calibrate import calibrate
from optinc_pdk.tolerance.montecarlo.words import read_words

BITS = 16.0


class Lying(Bench):
    """Shows the same whatever it is asked."""

    def read(self, voltage_v, amplitude):
        return np.full_like(super().read(voltage_v, amplitude), 0.25)


class Open(Bench):
    """One heater's wire is open."""

    cut = 3

    def read(self, voltage_v, amplitude):
        voltage = np.array(voltage_v, dtype=float)
        voltage[:, self.cut] = 0.0
        return super().read(voltage, amplitude)


@pytest.fixture(scope="module")
def network(work):
    return carry_chain(work.task)


@pytest.fixture(scope="module")
def sample(work, every):
    return draw(work.chip, every, 5)


def words(work, sample, voltage_v, bias):
    return read_words(light(work.chip, sample, voltage_v, BITS), inputs_of(work.task), work.chip.board, bias)


def test_cards_of_another_process_are_refused(work, network, sample):
    with pytest.raises(InputError, match="the chip is of process 'soi220', not 'soi220_two_metal'"):
        calibrate(Bench(work.chip, sample, BITS), work.chip, network, load_process("soi220_two_metal"))


def test_all_words_are_exact_after_calibration_and_not_before(work, network, sample, process):
    found = calibrate(Bench(work.chip, sample, BITS), work.chip, network, process)
    assert found.broken == ()
    before = words(work, sample, work.chip.voltage_v, work.chip.bias)
    after = words(work, sample, found.tuned.voltage_v, found.tuned.bias)
    assert before.exact < before.inputs
    assert after.exact == after.inputs
    assert after.margin > 0.2
    assert np.all(found.tuned.error <= found.fitted.error)
    assert found.tuned.error.max() < 1e-2
    assert found.settings > work.chip.structure.heater.size


def test_fitted_efficiencies_are_those_of_the_sample(work, network, every, process):
    sample = draw(work.chip, every.only("heater"), 2)
    found = calibrate(Bench(work.chip, sample, BITS), work.chip, network, process)
    chip = work.chip
    resistance = chip.resistance_ohm * sample.resistance_scale
    nominal = (chip.resistance_ohm + chip.wire_ohm) ** 2 / chip.resistance_ohm
    real = resistance / (resistance + chip.wire_ohm) ** 2 * nominal / sample.power_scale
    # crosstalk is the card's, which the design expects and makes good
    assert np.std(real) > 0.01
    assert np.median(np.abs(found.efficiency / real - 1.0)) < 1e-2


def test_constant_readings_are_refused(work, network, sample, process):
    with pytest.raises(RangeError, match="no heater changes"):
        calibrate(Lying(work.chip, sample, BITS), work.chip, network, process)


def test_a_heater_without_effect_is_named(work, network, every, process):
    sample = draw(work.chip, every.only("coupler", "phase"), 1)
    found = calibrate(Open(work.chip, sample, BITS), work.chip, network, process)
    assert found.broken == (work.chip.structure.channel[Open.cut],)
    assert np.isnan(found.efficiency[Open.cut])
