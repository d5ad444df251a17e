"""Transmission of words through the whole chip on the bench, and end-to-end tuning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.simulate import transmit
from optinc_pdk.simulate.modulator_drive import IDEAL
from optinc_pdk.studies import sample_scattering
from optinc_pdk.studies.calibration._heater_model import design_heater_model
from optinc_pdk.studies.calibration._measurement import bench_layers
from optinc_pdk.studies.calibration._procedure import calibrate
from optinc_pdk.studies.calibration._virtual_bench import VirtualBench
from optinc_pdk.studies.calibration._word_transmission import (
    ElectronicsSettings,
    WordSample,
    WordTransmission,
    electronics_of,
    sample_words,
    transmit_words,
    with_electronics,
)
from optinc_pdk.studies.calibration._word_tuning import (
    EvaluatedSetting,
    TuningContext,
    linearise,
    measure_sensitivities,
    tune_to_words,
)

BITS = 16.0


class WrongBatches(VirtualBench):
    """Reads single settings correctly but returns random numbers for batches, so sensitivities are wrong."""

    def read(self, voltage_v, amplitude):
        read = super().read(voltage_v, amplitude)
        return read if len(read) == 1 else np.random.default_rng(0).uniform(size=read.shape)


@pytest.fixture(scope="module")
def tuned(work, sample, network):
    return calibrate(VirtualBench(work.chip, sample, BITS), work.chip, network).tuned


@pytest.fixture(scope="module")
def context(work, sample, problem):
    return context_of(work, VirtualBench(work.chip, sample, BITS), problem)


def context_of(work, bench, problem):
    layers = bench_layers(problem, bench)
    words = sample_words(work.check.task, layers, IDEAL)
    return TuningContext(bench, design_heater_model(work.chip, bench), layers, problem.process, words)


def test_words_on_the_bench_agree_with_the_simulator(work, sample, tuned, context):
    electronics = electronics_of(tuned.bias, work.chip.board, context.layers)
    seen = transmit_words(context.laboratory, context.layers, electronics, tuned.voltage_v, context.words)
    symbols = (
        np.rint(3.0 * context.words.amplitude)
        .astype(np.int64)
        .reshape(len(context.words.amplitude), *np.shape(work.chip.board.inputs))
    )
    bias = with_electronics(tuned.bias, work.chip.board, context.layers, electronics)
    received = transmit(symbols, sample_scattering(work.chip, sample, tuned.voltage_v, BITS), work.chip.board, bias)
    assert np.allclose(seen.output, received.outputs, rtol=0.0, atol=1e-6)
    assert np.array_equal(
        context.words.ideal_level, work.check.task.encode(work.check.task.ideal(work.check.task.decode(symbols)))
    )


def test_sensitivities_predict_the_effect_of_changes(work, tuned, context):
    electronics = electronics_of(tuned.bias, work.chip.board, context.layers)
    now = context.evaluate(tuned.voltage_v, electronics)
    effects = measure_sensitivities(context.laboratory, context.layers, context.heaters, tuned.voltage_v, electronics)
    error, jacobian = linearise(now.passage, electronics, effects)

    def relative_misfit(voltage_v, changed, predicted):
        """Relative error of the prediction, for words that move no neuron across its threshold."""
        passage = context.evaluate(voltage_v, changed).passage
        pairs = zip(now.passage.source, passage.source, strict=True)
        same_neurons = np.all([np.all((one > 0.0) == (other > 0.0), axis=1) for one, other in pairs], axis=0)
        assert same_neurons.mean() > 0.2
        change = linearise(passage, changed, effects)[0] - error
        return np.linalg.norm((change - predicted)[same_neurons]) / np.linalg.norm(predicted[same_neurons])

    strongest = np.argsort(np.linalg.norm(jacobian[:, : tuned.voltage_v.size], axis=0))[-4:]
    for heater in strongest.tolist():
        voltage = tuned.voltage_v.copy()
        voltage[heater] += 5.0 * context.heaters.step_v
        assert relative_misfit(voltage, electronics, 5.0 * jacobian[:, heater]) < 0.15
    amplified = replace(electronics, gain=(1.001 * electronics.gain[0], *electronics.gain[1:]))
    predicted = 0.001 * jacobian[:, tuned.voltage_v.size :][:, : electronics.gain[0].size].sum(axis=1)
    assert relative_misfit(tuned.voltage_v, amplified, predicted) < 0.05


def test_wrong_gains_and_scales_are_corrected(work, tuned, context):
    correct = electronics_of(tuned.bias, work.chip.board, context.layers)
    rng = np.random.default_rng(2)
    gain = tuple(one * rng.uniform(0.85, 1.15, one.size) for one in correct.gain)
    wrong = replace(correct, gain=gain, scale=1.1 * correct.scale)
    before = context.evaluate(tuned.voltage_v, wrong).passage
    after = tune_to_words(context, tuned.voltage_v, wrong).passage
    assert before.wrong_symbols > 0
    assert after.wrong_symbols == 0
    assert after.margin > before.margin + 0.2


def test_steps_that_do_not_help_are_rejected(work, sample, problem, tuned):
    context = context_of(work, WrongBatches(work.chip, sample, BITS), problem)
    electronics = electronics_of(tuned.bias, work.chip.board, context.layers)
    detuned = replace(electronics, scale=1.05 * electronics.scale)
    before = context.evaluate(tuned.voltage_v, detuned)
    assert tune_to_words(context, tuned.voltage_v, detuned).rank <= before.rank


def test_comparators_near_their_threshold_lower_the_rank():
    """Outputs have their margin while comparators decide correctly; the second neuron is linear and does not count."""
    ideal = np.array([[0.0, 0.3], [-1.0, 0.6], [1.0, 0.9], [2.0, 0.0]])
    level = np.array([[0], [1], [2], [3]])
    words = WordSample(np.zeros((4, 1)), level, (ideal,), level.astype(float))
    output = level[:, np.newaxis] + np.array([0.05, 0.1, -0.1, 0.0])[:, np.newaxis, np.newaxis]

    def setting(offset):
        electronics = ElectronicsSettings(
            (np.array([2.0, 1.0]),), (np.array([offset, 0.0]),), (), np.ones(1), np.ones(1)
        )
        # the comparator's signal is 2 (detected + offset)
        passage = WordTransmission((), (ideal / np.array([2.0, 1.0]),), output, words)
        return EvaluatedSetting(np.zeros(0), electronics, passage)

    assert setting(0.0).threshold_share == pytest.approx(1.0) and setting(0.0).rank == (0, pytest.approx(-0.4))
    # 0.2 of 0.5 away from the threshold on one side
    assert setting(0.15).threshold_share == pytest.approx(0.4) == setting(-0.15).threshold_share
    assert setting(0.15).rank == (0, pytest.approx(-0.2))
    assert setting(0.3).threshold_share == pytest.approx(-0.2)
