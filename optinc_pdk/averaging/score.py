"""Decision of receivers between output levels, and comparison of outputs and words with the ideal ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.averaging.task import Averaging


@dataclass(frozen=True)
class Score:
    """Result of a comparison of network outputs with the ideal levels.

    Attributes:
        inputs: Number of words compared.
        exact: Number of words with all symbols decided correctly.
        accuracy: exact / inputs, 0 ... 1.
        margin: Minimum over words and outputs of 0.5 - |output - level|, in levels, or in steps for an output that
            carries a remainder. The best value is 0.5; it is negative if an output deviates by more than half a level
            or step.
    """

    inputs: int
    exact: int
    accuracy: float
    margin: float


def decide(outputs: ArrayLike, resolution: ArrayLike = 1) -> Floats:
    """Return the level nearest to |output| for each output; a receiver detects |field|².

    ``resolution`` is the number of decision steps per level, 1 for the four levels 0 ... 3; an array is broadcast
    against the outputs, which are real fields in levels. Levels are multiples of 1/resolution within 0 ... 4 -
    1/resolution. NaN stays NaN and equals no level.
    """
    steps = np.asarray(resolution)
    levels = np.abs(np.asarray(outputs, dtype=np.float64)) * steps
    nearest: Floats = np.clip(np.floor(levels + 0.5), 0.0, 4 * steps - 1) / steps
    return nearest


def decide_steps(outputs: ArrayLike, resolution: ArrayLike = 1) -> Ints:
    """Return the levels of :func:`decide` as integers, in steps of 1/resolution; the outputs have no NaN."""
    steps = np.asarray(resolution)
    levels = np.abs(np.asarray(outputs, dtype=np.float64)) * steps
    # truncation is the floor, as levels are not negative
    nearest: Ints = np.minimum(levels + 0.5, 4 * steps - 1).astype(np.int64)
    return nearest


def score(outputs: ArrayLike, levels: ArrayLike, resolution: ArrayLike = 1) -> Score:
    """Compare network outputs with the ideal levels, both of shape (..., M).

    ``resolution`` is the number of decision steps per level of each output, see `Averaging.output_resolution`. Accuracy
    and margin are NaN if there are no words.

    Raises:
        ValueError: The shapes differ.
    """
    fields, ideal = np.asarray(outputs, dtype=np.float64), np.asarray(levels, dtype=np.float64)
    if fields.shape != ideal.shape or fields.ndim < 1:
        raise ValueError(f"outputs of shape {fields.shape} must have the shape of levels, {ideal.shape}")
    steps = np.asarray(resolution)
    correct = (np.rint(decide(fields, steps) * steps) == np.rint(ideal * steps)).all(axis=-1)
    if correct.size == 0:
        return Score(0, 0, float("nan"), float("nan"))
    exact = int(correct.sum())
    margin = float(np.min(0.5 - np.abs(fields - ideal) * steps))
    return Score(correct.size, exact, exact / correct.size, margin)


def error_counts(errors: Ints) -> dict[int, int]:
    """Count wrong words by their error (decoded minus ideal), ascending, as in Table II of arXiv 2603.28290."""
    if not errors.size:
        return {}
    least, most = int(errors.min()), int(errors.max())
    if most - least > errors.size:
        values, counts = np.unique(errors, return_counts=True)
        found = dict(zip(values.tolist(), counts.tolist(), strict=True))
    else:
        # errors of words of few bits are counted without sorting them
        counts = np.bincount((errors - least).ravel())
        found = {least + place: int(counts[place]) for place in np.flatnonzero(counts).tolist()}
    found.pop(0, None)
    return found


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
    """Return the least of :func:`output_margins` for outputs (B, S, M) and levels (B, M); NaN if an output is not a
    number.
    """
    from optinc_pdk.averaging._score_kernel import largest_deviation

    received = np.ascontiguousarray(np.moveaxis(outputs, 0, -1))
    ideal = np.ascontiguousarray(levels.T, dtype=np.float64)
    return 0.5 - float(largest_deviation(received, ideal, resolution))


def word_errors(outputs: Floats, task: Averaging, ideal: Ints) -> Ints:
    """Return the (S, B) decoded minus ideal words for (B, S, M) output levels without NaN and (B,) ideal words."""
    from optinc_pdk.averaging._score_kernel import word_errors as compare

    errors = np.empty((outputs.shape[1], len(ideal)), dtype=np.int64)
    levels = np.ascontiguousarray(np.moveaxis(outputs, 0, -1))
    compare(levels, task.output_resolution, task.step_places, np.ascontiguousarray(ideal), errors)
    return errors


def output_margins(outputs: Floats, levels: Ints | Floats, resolution: Ints | int = 1) -> Floats:
    """Return the margin 0.5 - |output - ideal level| of every output (..., M) before the decision, in decision steps.

    ``resolution`` is the number of decision steps per level, (M,) or one for all outputs.
    """
    margins: Floats = np.abs(outputs - levels)
    margins *= resolution
    return np.subtract(0.5, margins, out=margins)
