"""Decisions of the receivers, and their comparison with the ideal levels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.averaging.array_checks import Floats, Integers


@dataclass(frozen=True)
class Score:
    """Result of comparing outputs with the ideal levels.

    Attributes:
        inputs: Number of words compared.
        exact: Words whose symbols are all decided correctly.
        accuracy: exact / inputs, 0 ... 1.
        margin: min over words and outputs of 0.5 - |output - level|, in levels, or in steps for an output that
            carries a remainder; 0.5 is perfect, below 0 is wrong.
    """

    inputs: int
    exact: int
    accuracy: float
    margin: float


def decide(outputs: ArrayLike, resolution: ArrayLike = 1) -> Floats:
    """Decide on the nearest level to |output|; a detector measures |field|².

    Args:
        outputs: Fields in levels, real, any shape.
        resolution: Steps per level, 1 for the four levels 0 ... 3; an array fits the outputs' last axes.

    Returns:
        Multiples of 1/resolution, 0 ... 4 - 1/resolution, of the same shape; NaN stays NaN, which equals no
        level.
    """
    steps = np.asarray(resolution)
    levels = np.abs(np.asarray(outputs, dtype=np.float64)) * steps
    nearest: Floats = np.clip(np.floor(levels + 0.5), 0.0, 4 * steps - 1) / steps
    return nearest


def score(outputs: ArrayLike, levels: ArrayLike, resolution: ArrayLike = 1) -> Score:
    """Compare outputs with the ideal levels.

    Args:
        outputs: Real fields in levels, shape (..., M).
        levels: The ideal symbols, shape (..., M).
        resolution: Steps per level of every output, `Averaging.output_resolution`.

    Returns:
        The score; accuracy and margin of an empty array are NaN.

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


def error_counts(words: Integers, ideal: Integers) -> dict[int, int]:
    """Count word errors by their value, as in Table II of arXiv 2603.28290.

    Args:
        words: Words as read, any shape.
        ideal: The ideal averages, broadcast against the words.

    Returns:
        Error, read minus ideal, to the number of words with this error; ascending, without zero.
    """
    errors = words - ideal
    values, counts = np.unique(errors[errors != 0], return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))
