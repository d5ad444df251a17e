"""Decision of receivers between output levels, and comparison of outputs with the ideal levels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Floats, Ints


@dataclass(frozen=True)
class Score:
    """Result of a comparison of network outputs with the ideal levels.

    Attributes:
        inputs: Number of words compared.
        exact: Number of words with all symbols decided correctly.
        accuracy: exact / inputs, 0 ... 1.
        margin: Minimum over words and outputs of 0.5 - |output - level|. The unit is one level, or one step for an
            output that carries a remainder. The best value is 0.5; a negative value means that an output deviates by
            more than half a level or step.
    """

    inputs: int
    exact: int
    accuracy: float
    margin: float


def decide(outputs: ArrayLike, resolution: ArrayLike = 1) -> Floats:
    """Return the level nearest to |output| for each output; a receiver detects |field|².

    Args:
        outputs: Real fields in levels, any shape.
        resolution: Decision steps per level: 1 for the four levels 0 ... 3. An array is broadcast against the outputs.

    Returns:
        Decided levels, multiples of 1/resolution within 0 ... 4 - 1/resolution, of the same shape. NaN stays NaN and
        equals no level.
    """
    steps = np.asarray(resolution)
    levels = np.abs(np.asarray(outputs, dtype=np.float64)) * steps
    nearest: Floats = np.clip(np.floor(levels + 0.5), 0.0, 4 * steps - 1) / steps
    return nearest


def decide_steps(outputs: ArrayLike, resolution: ArrayLike = 1) -> Ints:
    """Return the decided level of each output as an integer number of steps of 1/resolution.

    Args:
        outputs: Real fields in levels, any shape, without NaN.
        resolution: Decision steps per level, as for `decide`.

    Returns:
        Steps 0 ... 4 resolution - 1, of the same shape.
    """
    steps = np.asarray(resolution)
    levels = np.abs(np.asarray(outputs, dtype=np.float64)) * steps
    # truncation is the floor, as levels are not negative
    nearest: Ints = np.minimum(levels + 0.5, 4 * steps - 1).astype(np.int64)
    return nearest


def score(outputs: ArrayLike, levels: ArrayLike, resolution: ArrayLike = 1) -> Score:
    """Compare network outputs with the ideal levels.

    Args:
        outputs: Real fields in levels, shape (..., M).
        levels: Ideal levels, shape (..., M).
        resolution: Decision steps per level of each output, see `Averaging.output_resolution`.

    Returns:
        The score; its accuracy and margin are NaN if there are no words.

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
    """Count wrong words by their error, as in Table II of arXiv 2603.28290.

    Args:
        errors: Decoded words minus ideal averages, any shape.

    Returns:
        Error (decoded minus ideal) to the number of words with this error, in ascending order of error; correct words
        are not counted.
    """
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
