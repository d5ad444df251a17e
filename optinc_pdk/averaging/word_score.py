"""Score of the words that the servers decode: exact inputs, wrong words, margin and counts of errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.averaging.score import error_counts
from optinc_pdk.averaging.task import Averaging


@dataclass(frozen=True)
class WordScore:
    """Result of a comparison of the words that all servers decode with the ideal words.

    Attributes:
        inputs: Number of inputs (lattice points).
        exact: Number of inputs for which every server decodes the ideal word under every assignment of symbols to
            servers.
        words: Number of decoded words: inputs × assignments × servers.
        wrong: Number of decoded words that differ from the ideal word.
        margin: Minimum of 0.5 - |output - ideal level| in levels, or in steps for an output that carries a remainder.
            It is negative if a symbol is wrong, and also if an output is more than half a level above the highest
            level, although its symbol is right.
        errors: Error (decoded minus ideal) to the number of words with this error, ascending; without correct words.
    """

    inputs: int
    exact: int
    words: int
    wrong: int
    margin: float
    errors: Mapping[int, int]

    @property
    def accuracy(self) -> float:
        """Fraction of inputs that are exact, 0 … 1."""
        return accuracy(self.exact, self.inputs)

    @property
    def word_error_rate(self) -> float:
        """Fraction of decoded words that are wrong, 0 … 1."""
        return word_error_rate(self.wrong, self.words)


def accuracy(exact: int, inputs: int) -> float:
    """Return the fraction of inputs that are exact, 0 … 1; 0 if there are no inputs."""
    return exact / inputs if inputs else 0.0


def word_error_rate(wrong: int, words: int) -> float:
    """Return the fraction of decoded words that are wrong, 0 … 1."""
    return wrong / words


def score_outputs(
    outputs: Iterable[tuple[slice | Ints, Floats]], task: Averaging, ideal: Ints, levels: Ints | Floats
) -> WordScore:
    """Compare the outputs that S servers receive for I inputs with the ideal words.

    Args:
        outputs: Batches: their inputs, and (B, S, M) output levels before decision. Each assignment of symbols to
            servers is a sequence of batches that contains every input.
        task: Task of the chip, for decision and decoding.
        ideal: (I,) ideal words.
        levels: (I, M) ideal output levels.

    Returns:
        The score over all inputs, servers and assignments.

    Raises:
        ValueError: An output is not a number.
    """
    exact, resolution = np.ones(len(ideal), dtype=bool), task.output_resolution
    words, margin, errors = 0, np.inf, Counter[int]()
    for inputs, output in outputs:
        words += output[..., 0].size
        least = least_margin(output, levels[inputs], resolution)
        if np.isnan(least):
            raise ValueError("an output is not a number")
        margin = min(margin, least)
        if least > 0.0:
            # every output is decided correctly
            continue
        differences = word_errors(output, task, ideal[inputs])
        exact[inputs] &= ~np.any(differences, axis=0)
        errors.update(error_counts(differences))
    return WordScore(len(ideal), int(exact.sum()), words, errors.total(), margin, dict(sorted(errors.items())))


def least_margin(outputs: Floats, levels: Ints | Floats, resolution: Ints) -> float:
    """Return the least of :func:`output_margins`, or NaN if an output is not a number.

    Args:
        outputs: (B, S, M) output levels before the decision of S servers for B inputs.
        levels: (B, M) ideal output levels.
        resolution: (M,) decision steps per level.
    """
    from optinc_pdk.averaging.score_kernel import largest_deviation

    received = np.ascontiguousarray(np.moveaxis(outputs, 0, -1))
    ideal = np.ascontiguousarray(levels.T, dtype=np.float64)
    return 0.5 - float(largest_deviation(received, ideal, resolution))


def word_errors(outputs: Floats, task: Averaging, ideal: Ints) -> Ints:
    """Decode the words that S servers receive for B inputs, and compare them with the ideal words.

    Args:
        outputs: (B, S, M) output levels before decision, without NaN.
        task: Task of the chip, for decision and decoding.
        ideal: (B,) ideal words.

    Returns:
        (S, B) decoded minus ideal words.
    """
    from optinc_pdk.averaging.score_kernel import word_errors as compare

    errors = np.empty((outputs.shape[1], len(ideal)), dtype=np.int64)
    levels = np.ascontiguousarray(np.moveaxis(outputs, 0, -1))
    compare(levels, task.output_resolution, task.step_places, np.ascontiguousarray(ideal), errors)
    return errors


def output_margins(outputs: Floats, levels: Ints | Floats, resolution: Ints | int = 1) -> Floats:
    """Return the margin 0.5 - |output - ideal level| of every output, in decision steps.

    Args:
        outputs: Output levels before the decision, shape (..., M).
        levels: Ideal output levels, broadcast against the outputs.
        resolution: Decision steps per level, (M,) or one for all outputs.
    """
    margins: Floats = np.abs(outputs - levels)
    margins *= resolution
    return np.subtract(0.5, margins, out=margins)
