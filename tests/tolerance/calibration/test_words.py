"""Words through the whole chip on the bench, and tuning against them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.onn import carry_chain
from optinc_pdk.simulate import transmit
from optinc_pdk.simulate.fit import Problem
from optinc_pdk.simulate.target import targets
from optinc_pdk.tolerance import draw, light
from optinc_pdk.tolerance.calibration.bench import Bench
from optinc_pdk.tolerance.calibration.calibrate import calibrate
from optinc_pdk.tolerance.calibration.effects import linearised, measured
from optinc_pdk.tolerance.calibration.measure import layers_of
from optinc_pdk.tolerance.calibration.model import heaters_of
from optinc_pdk.tolerance.calibration.through import electronics_of, play, sample_words, with_electronics
from optinc_pdk.tolerance.calibration.words import Place, finish

BITS = 16.0


class Blind(Bench):
    """Shows what whole words do, and next to nothing of what single heaters do."""

    def read(self, voltage_v, amplitude):
        read = super().read(voltage_v, amplitude)
        return read if len(read) == 1 else np.random.default_rng(0).uniform(size=read.shape)


@pytest.fixture(scope="module")
def sample(work, every):
    return draw(work.chip, every, 5)


@pytest.fixture(scope="module")
def tuned(work, sample, process):
    return calibrate(Bench(work.chip, sample, BITS), work.chip, carry_chain(work.task), process).tuned


@pytest.fixture(scope="module")
def place(work, sample, process):
    return place_of(work, Bench(work.chip, sample, BITS), process)


def place_of(work, bench, process):
    found = targets(carry_chain(work.task), work.chip.board)
    wavelength = float(process.guide.wavelength_nm)
    layers = layers_of(Problem(work.chip.structure, work.chip.board, found, wavelength, process), bench)
    return Place(bench, heaters_of(work.chip, bench), layers, process, sample_words(work.task, layers))


def test_words_on_the_bench_are_those_of_the_simulator(work, sample, tuned, place):
    electronics = electronics_of(tuned.bias, work.chip.board, place.layers)
    seen = play(place.laboratory, place.layers, electronics, tuned.voltage_v, place.words)
    symbols = (
        np.rint(3.0 * place.words.amplitude)
        .astype(np.int64)
        .reshape(len(place.words.amplitude), *np.shape(work.chip.board.inputs))
    )
    bias = with_electronics(tuned.bias, work.chip.board, place.layers, electronics)
    received = transmit(symbols, light(work.chip, sample, tuned.voltage_v, BITS), work.chip.board, bias)
    assert np.allclose(seen.output, received.outputs, rtol=0.0, atol=1e-6)
    assert np.array_equal(place.words.level, work.task.encode(work.task.ideal(work.task.decode(symbols))))


def test_effects_of_heaters_and_electronics_are_what_a_change_does(work, tuned, place):
    electronics = electronics_of(tuned.bias, work.chip.board, place.layers)
    now = place.driven(tuned.voltage_v, electronics)
    effects = measured(place.laboratory, place.layers, place.heaters, tuned.voltage_v, electronics)
    error, jacobian = linearised(now.passage, electronics, effects)

    def off(voltage_v, changed, foretold):
        """How far what is foretold is off, for words that take no neuron across its threshold."""
        passage = place.driven(voltage_v, changed).passage
        pairs = zip(now.passage.source, passage.source, strict=True)
        alike = np.all([np.all((one > 0.0) == (other > 0.0), axis=1) for one, other in pairs], axis=0)
        assert alike.mean() > 0.2
        change = linearised(passage, changed, effects)[0] - error
        return np.linalg.norm((change - foretold)[alike]) / np.linalg.norm(foretold[alike])

    strongest = np.argsort(np.linalg.norm(jacobian[:, : tuned.voltage_v.size], axis=0))[-4:]
    for heater in strongest.tolist():
        voltage = tuned.voltage_v.copy()
        voltage[heater] += 5.0 * place.heaters.step_v
        assert off(voltage, electronics, 5.0 * jacobian[:, heater]) < 0.15
    louder = replace(electronics, gain=(1.001 * electronics.gain[0], *electronics.gain[1:]))
    foretold = 0.001 * jacobian[:, tuned.voltage_v.size :][:, : electronics.gain[0].size].sum(axis=1)
    assert off(tuned.voltage_v, louder, foretold) < 0.05


def test_wrong_gains_and_offsets_are_put_right(work, tuned, place):
    right = electronics_of(tuned.bias, work.chip.board, place.layers)
    rng = np.random.default_rng(2)
    gain = tuple(one * rng.uniform(0.85, 1.15, one.size) for one in right.gain)
    wrong = replace(right, gain=gain, scale=1.1 * right.scale)
    before = place.driven(tuned.voltage_v, wrong).passage
    after = finish(place, tuned.voltage_v, wrong).passage
    assert before.wrong > 0
    assert after.wrong == 0
    assert after.margin > before.margin + 0.2


def test_what_does_not_help_is_not_kept(work, sample, process, tuned):
    place = place_of(work, Blind(work.chip, sample, BITS), process)
    electronics = electronics_of(tuned.bias, work.chip.board, place.layers)
    detuned = replace(electronics, scale=1.05 * electronics.scale)
    before = place.driven(tuned.voltage_v, detuned)
    assert finish(place, tuned.voltage_v, detuned).rank <= before.rank
