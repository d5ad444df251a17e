"""Score of words against counts by hand."""

from __future__ import annotations

import numpy as np
import pytest

from optinc_pdk.averaging.word_score import WordScore, accuracy, score_words, word_error_rate

IDEAL = np.array([1, 6])
LEVELS = np.array([[0, 1], [1, 2]])


def test_words_of_two_servers_and_two_assignments_are_counted() -> None:
    outputs = np.broadcast_to(LEVELS[:, np.newaxis].astype(float), (2, 2, 2)).copy()
    first = np.array([[1, 1], [6, 6]]), outputs + 0.1
    second = np.array([[1, 1], [7, 2]]), outputs - 0.8
    score = score_words([first, second], IDEAL, LEVELS)
    assert (score.inputs, score.exact, score.words, score.wrong) == (2, 1, 8, 2)
    assert score.errors == {-4: 1, 1: 1} and list(score.errors) == [-4, 1]
    assert score.margin == pytest.approx(0.5 - 0.8)
    assert (score.accuracy, score.word_error_rate) == (0.5, 0.25)


def test_an_input_is_exact_only_under_every_assignment() -> None:
    outputs = np.broadcast_to(LEVELS[:, np.newaxis].astype(float), (2, 1, 2))
    readings = [(np.array([[1], [5]]), outputs), (np.array([[2], [6]]), outputs)]
    assert score_words(readings, IDEAL, LEVELS) == WordScore(2, 0, 4, 2, 0.5, {-1: 1, 1: 1})


def test_shares_are_ratios_and_no_inputs_have_accuracy_0() -> None:
    assert accuracy(3, 4) == 0.75 and accuracy(0, 0) == 0.0
    assert word_error_rate(1, 8) == 0.125
