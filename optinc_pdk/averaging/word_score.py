"""Score of the words that all servers read: exact inputs, wrong words, margin and errors by value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from optinc_pdk.averaging.array_checks import Floats, Integers
from optinc_pdk.averaging.score import error_counts


@dataclass(frozen=True)
class WordScore:
    """Comparison of the words that all servers read with the ideal words.

    Attributes:
        inputs: Number of inputs.
        exact: Inputs for which every server reads the ideal word under every assignment of symbols to servers.
        words: Words read by all servers for all inputs and assignments.
        wrong: Words that differ from the ideal word.
        margin: Least 0.5 - |output - ideal level| in levels. It is negative if a symbol is wrong, or if an output is
            more than half a level above the highest level.
        errors: Number of words by their error, read minus ideal; ascending, without zero.
    """

    inputs: int
    exact: int
    words: int
    wrong: int
    margin: float
    errors: Mapping[int, int]

    @property
    def accuracy(self) -> float:
        """Share of exact inputs, 0 … 1."""
        return accuracy(self.exact, self.inputs)

    @property
    def word_error_rate(self) -> float:
        """Share of wrong words, 0 … 1."""
        return word_error_rate(self.wrong, self.words)


def accuracy(exact: int, inputs: int) -> float:
    """Return the share of exact inputs, 0 … 1; 0 if no input could be tried."""
    return exact / inputs if inputs else 0.0


def word_error_rate(wrong: int, words: int) -> float:
    """Return the share of wrong words, 0 … 1."""
    return wrong / words


def score_words(readings: Iterable[tuple[Integers, Floats]], ideal: Integers, levels: Integers) -> WordScore:
    """Compare the words that S servers read for I inputs with the ideal words.

    Args:
        readings: For each assignment of symbols to servers, (I, S) words and (I, S, M) output levels before decision.
        ideal: (I,) ideal words.
        levels: (I, M) symbols of the ideal words.
    """
    exact = np.ones(len(ideal), dtype=bool)
    words, margin, errors = 0, np.inf, Counter[int]()
    for read, outputs in readings:
        exact &= (read == ideal[:, np.newaxis]).all(axis=1)
        errors.update(error_counts(read, ideal[:, np.newaxis]))
        words += read.size
        margin = min(margin, float(np.min(0.5 - np.abs(outputs - levels[:, np.newaxis]))))
    return WordScore(len(ideal), int(exact.sum()), words, errors.total(), margin, dict(sorted(errors.items())))
