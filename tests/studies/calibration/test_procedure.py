"""Calibration of a sampled chip on a bench: exact words afterwards, and errors for chips that cannot be calibrated."""

from __future__ import annotations

import numpy as np
import pytest

from optinc_pdk.drive import RangeError
from optinc_pdk.signoff.function import function_inputs
from optinc_pdk.studies import draw_sample, sample_scattering
from optinc_pdk.studies.calibration._procedure import calibrate
from optinc_pdk.studies.calibration._virtual_bench import VirtualBench
from optinc_pdk.studies.chip_checks import read_words

BITS = 16.0


class ConstantReadings(VirtualBench):
    """Returns the same reading for every setting."""

    def read(self, voltage_v, amplitude):
        return np.full_like(super().read(voltage_v, amplitude), 0.25)


def words(work, sample, voltage_v, bias):
    return read_words(
        sample_scattering(work.chip, sample, voltage_v, BITS), function_inputs(work.check.task), work.chip.board, bias
    )


def test_all_words_are_exact_after_calibration_and_not_before(work, network, sample):
    bench = VirtualBench(work.chip, sample, BITS)
    result = calibrate(bench, work.chip, network)
    assert result.broken == ()
    before = words(work, sample, work.chip.voltage_v, work.chip.bias)
    after = words(work, sample, result.tuned.voltage_v, result.tuned.bias)
    assert before.exact < before.inputs
    assert after.exact == after.inputs
    assert after.margin > 0.2
    assert np.all(result.tuned.error <= result.fitted.error)
    assert result.tuned.error.max() < 1e-2
    assert bench.settings > work.chip.structure.heater.size


def test_fitted_efficiencies_are_those_of_the_sample(work, network, every, efficiencies):
    sample = draw_sample(work.chip, every.only("heater"), 2)
    result = calibrate(VirtualBench(work.chip, sample, BITS), work.chip, network)
    real = efficiencies(sample)
    # crosstalk is as on the card, so the design compensates for it
    assert np.std(real) > 0.01
    assert np.median(np.abs(result.efficiency / real - 1.0)) < 1e-2


def test_constant_readings_are_refused(work, network, sample):
    with pytest.raises(RangeError, match="no heater"):
        calibrate(ConstantReadings(work.chip, sample, BITS), work.chip, network)


def test_a_heater_without_effect_is_named(work, network, every, open_heater):
    sample = draw_sample(work.chip, every.only("coupler", "phase"), 1)
    result = calibrate(open_heater(sample, 3), work.chip, network)
    assert result.broken == (work.chip.structure.channel[3],)
    assert np.isnan(result.efficiency[3])
