"""Score of words against counts by hand."""

from __future__ import annotations

import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.averaging.word_score import (
    WordScore,
    accuracy,
    least_margin,
    output_margins,
    score_outputs,
    word_error_rate,
)

TASK = Averaging(4, 2, 2)
IDEAL = np.array([1, 6])
LEVELS = np.array([[0, 1], [1, 2]])


def outputs_of(words) -> np.ndarray:
    """(I, S, M) output levels for (I, S) words."""
    return TASK.encode(np.array(words)).astype(float)


def test_words_of_two_servers_and_two_assignments_are_counted() -> None:
    first, second = outputs_of([[1, 1], [6, 6]]) + 0.1, outputs_of([[1, 1], [7, 2]]) - 0.3
    score = score_outputs([(slice(0, 2), first), (slice(0, 2), second)], TASK, IDEAL, LEVELS)
    assert (score.inputs, score.exact, score.words, score.wrong) == (2, 1, 8, 2)
    assert score.errors == {-4: 1, 1: 1} and list(score.errors) == [-4, 1]
    # word 2 has levels 0 and 2, one below the first level of word 6
    assert score.margin == pytest.approx(0.5 - 1.3)
    assert (score.accuracy, score.word_error_rate) == (0.5, 0.25)


def test_an_input_is_exact_only_under_every_assignment() -> None:
    batches = [(slice(0, 1), outputs_of([[1]])), (slice(1, 2), outputs_of([[5]]))]
    batches += [(slice(0, 1), outputs_of([[2]])), (slice(1, 2), outputs_of([[6]]))]
    assert score_outputs(batches, TASK, IDEAL, LEVELS) == WordScore(2, 0, 4, 2, -0.5, {-1: 1, 1: 1})


def test_outputs_above_the_highest_level_are_decided_as_the_highest() -> None:
    high = np.array([15]), np.array([[3, 3]])
    score = score_outputs([(slice(0, 1), np.full((1, 1, 2), 3.7))], TASK, *high)
    assert (score.exact, score.wrong) == (1, 0) and score.margin == pytest.approx(-0.2)


def test_shares_are_ratios_and_no_inputs_have_accuracy_0() -> None:
    assert accuracy(3, 4) == 0.75 and accuracy(0, 0) == 0.0
    assert word_error_rate(1, 8) == 0.125


def test_outputs_that_are_not_numbers_are_refused() -> None:
    outputs = np.array([[[1.0, np.nan]]])
    with pytest.raises(ValueError, match="an output is not a number"):
        score_outputs([(slice(0, 1), outputs)], TASK, IDEAL[:1], LEVELS[:1])


@pytest.mark.parametrize("words", [1, 127, 128, 300])
def test_the_least_margin_is_that_of_every_single_output(words: int) -> None:
    rng = np.random.default_rng(words)
    outputs, levels = rng.uniform(0.0, 3.0, (words, 3, 2)), rng.integers(0, 4, (words, 2))
    resolution = np.array([1, 4])
    expected = output_margins(outputs, levels[:, np.newaxis], resolution).min()
    assert least_margin(outputs, levels, resolution) == expected
    # the worst output may be any
    outputs[-1, -1, -1] = 9.0
    assert least_margin(outputs, levels, resolution) == 0.5 - 4 * (9.0 - levels[-1, -1])


def test_one_output_that_is_not_a_number_makes_the_least_margin_none() -> None:
    outputs = np.zeros((300, 3, 2))
    outputs[5, 1, 0] = np.nan
    assert np.isnan(least_margin(outputs, np.zeros((300, 2)), np.array([1, 1])))
