"""Word statistics of a chip against the function check's inputs and against words counted one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.signoff.function import function_inputs
from optinc_pdk.simulate import transmit
from optinc_pdk.simulate.transmission.noise import noise_of
from optinc_pdk.studies import draw_sample, sample_scattering
from optinc_pdk.studies.chip_checks import read_words, unusable_outcome
from optinc_pdk.studies.outcomes import WordOutcome


@pytest.fixture(scope="module")
def s(work):
    return sample_scattering(work.chip, draw_sample(work.chip, work.imperfections.only(), 0), work.chip.voltage_v)


def test_the_nominal_chip_reads_every_word(work, s):
    tried = function_inputs(work.check.task)
    outcome = read_words(s, tried, work.chip.board, work.chip.bias)
    assert (outcome.inputs, outcome.exact, outcome.words, outcome.wrong) == (256, 256, 4 * 256, 0)
    assert outcome.margin > 0.45 and outcome.errors == {}
    assert outcome.accuracy == 1.0 and outcome.word_error_rate == 0.0


def test_wrong_words_are_counted_as_servers_read_them(work, s):
    """One receiver's scale is doubled, so its server reads too large words and the input is inexact."""
    bias = work.chip.bias
    outputs = dict(bias.outputs)
    outputs[work.chip.board.outputs[2][0]] *= 2.0
    damaged = replace(bias, outputs=outputs)
    tried = function_inputs(work.check.task)
    outcome = read_words(s, tried, work.chip.board, damaged)
    levels = transmit(tried.symbols, s, work.chip.board, damaged).levels
    wrong: dict[int, int] = {}
    lost = 0
    for symbols, read in zip(tried.symbols, levels, strict=True):
        ideal = int(symbols.sum()) // 4
        errors = [int(server[0]) - ideal for server in read]
        lost += any(errors)
        for error in errors:
            if error:
                wrong[error] = wrong.get(error, 0) + 1
    assert outcome.errors == wrong and outcome.wrong == sum(wrong.values()) > 0
    assert outcome.exact == 256 - lost
    # levels 1 and 2 are read as 2 and 3; 3 is the highest level
    assert set(wrong) == {1} and outcome.margin == pytest.approx(0.5 - 3.0, abs=0.01)
    assert WordOutcome.from_json(outcome.to_json()) == outcome


def test_noise_depends_on_the_seed_only(work, s, process):
    tried = function_inputs(work.check.task)
    noise = noise_of(process, laser_w=1e-6, symbol_rate_bd=1e9)
    one, same, other = (read_words(s, tried, work.chip.board, work.chip.bias, noise, seed) for seed in (1, 1, 2))
    assert one == same != other
    assert one.wrong > 0 and np.isfinite(one.margin)


def test_an_unusable_chip_reads_zeros(work):
    tried = function_inputs(work.check.task)
    outcome = unusable_outcome(tried, work.chip.board, "no gain")
    # 35 combinations of four symbols have a sum below 4, so an ideal average of 0
    assert outcome.exact == 35 and outcome.words == 4 * 256 and outcome.wrong == 4 * (256 - 35)
    assert set(outcome.errors) == {-1, -2, -3} and sum(outcome.errors.values()) == outcome.wrong
    assert outcome.margin == -2.5 and WordOutcome.from_json(outcome.to_json()).fault == "no gain"


@pytest.mark.parametrize("rate", [-0.1, 1.5, float("nan"), "0.1", True])
def test_an_estimate_that_is_no_probability_is_refused(work, rate):
    data = unusable_outcome(function_inputs(work.check.task), work.chip.board, "no gain").to_json()
    assert data["estimated_word_error_rate"] is None
    with pytest.raises(ValueError, match="estimated word-error rate"):
        WordOutcome.from_json({**data, "estimated_word_error_rate": rate})
