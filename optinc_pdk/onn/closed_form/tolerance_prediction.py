"""Prediction of the errors that a network of comparators tolerates, to compare variants without simulating errors.

Until a bit is wrong, errors spread linearly, and through analogue units only: a comparator removes them. The error of
every row of every layer is then a sum of independent normal terms, one for each row of this and of earlier layers, and
a word is wrong if the error of a row exceeds the distance to the nearest threshold of a comparator, or to a decision
threshold of an output. The sum of these probabilities bounds the word-error rate from above.

Matrix errors ε and field noise σ are defined as in `optinc_pdk.onn.error_tolerance`: a row's error has the standard
deviation ε |x| / √n for the n signals x of the layer below, or σ, in units of the matrix with the 2-norm 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from optinc_pdk.averaging import Averaging
from optinc_pdk.onn.closed_form.stage import ClosedForm
from optinc_pdk.onn.network import Layer, shared_rows

Floats = NDArray[np.float64]

MATRIX_ERROR_WORDS = 1e-3
"""Fraction of wrong words at the largest tolerated matrix error."""
NOISE_WORDS = 1e-6
"""Word-error rate at the largest tolerated field noise."""
TINY = 1e-30
"""Smallest standard deviation, so that words without signals can be divided by it."""
RANGE = (1e-7, 1.0)
"""Smallest and largest error that is considered."""


@dataclass(frozen=True)
class PredictedTolerance:
    """Predicted largest errors.

    Attributes:
        epsilon: Matrix error at which 99.9 % of the words are exact.
        sigma: Field noise at which one word in 10^6 is wrong.
    """

    epsilon: float
    sigma: float


@dataclass(frozen=True, eq=False)
class OpticalLayer:
    """One layer as distinct rows of the 2-norm 1, and electronics.

    Attributes:
        matrix: (rows, in) optical matrix, divided by its 2-norm.
        row: (out,) row that each unit reads.
        gain: (out,) factor of each unit.
        bias: (out,) offset of each unit.
    """

    matrix: Floats
    row: NDArray[np.int64]
    gain: Floats
    bias: Floats


def optical_layers(layers: tuple[Layer, ...], scale: Floats) -> tuple[OpticalLayer, ...]:
    """Returns the optical matrices of layers whose units all have weights.

    Args:
        layers: The layers; every unit of them has a weight other than 0.
        scale: (K,) maxima of the inputs; the first matrix then reads inputs of 0 to 1.
    """
    result = []
    for index, layer in enumerate(layers):
        weight = layer.weight * scale if index == 0 else layer.weight
        norm = np.linalg.norm(weight, axis=1)
        row = np.arange(len(weight)) if index == len(layers) - 1 else shared_rows(weight)
        matrix = np.empty((int(row.max()) + 1, layer.inputs))
        matrix[row[::-1]] = (weight / norm[:, None])[::-1]
        largest = float(np.linalg.norm(matrix, 2))
        result.append(OpticalLayer(matrix / largest, row, norm * largest, layer.bias))
    return tuple(result)


def predict_tolerance(closed: ClosedForm, task: Averaging, points: int = 200, seed: int = 0) -> PredictedTolerance:
    """Predicts the largest matrix error and field noise that a network of comparators tolerates.

    Args:
        closed: The network.
        task: Its averaging task.
        points: Number of random lattice points.
        seed: Seed of these points.
    """
    signals = task.sample(points, np.random.default_rng(seed)) / task.input_maxima
    layers = optical_layers(closed.layers, task.input_maxima)
    power: list[Floats] = []
    # For each layer so far, the effect (rows of it, inputs of this layer) of its rows' errors.
    effects: list[Floats] = []
    events: list[tuple[Floats, Floats]] = []
    for index, layer in enumerate(layers):
        power.append((signals**2).sum(axis=1) / layer.matrix.shape[1])
        effects = [effect @ layer.matrix.T for effect in effects] + [np.eye(len(layer.matrix))]
        before = (signals @ layer.matrix.T)[:, layer.row] * layer.gain + layer.bias
        if index < len(closed.stages):
            comparators = closed.stages[index].comparators
            if comparators is None:
                raise ValueError("the network has stages without comparators; predict comparator networks only")
            distance = np.where(comparators, np.abs(before - 0.5), np.inf) / layer.gain
        else:
            comparators = np.zeros(layer.row.size, dtype=np.bool_)
            distance = np.broadcast_to(0.5 / task.output_resolution, before.shape) / layer.gain
        nearest = np.full((points, len(layer.matrix)), np.inf)
        for unit, row in enumerate(layer.row.tolist()):
            np.minimum(nearest[:, row], distance[:, unit], out=nearest[:, row])
        events.append((nearest, np.array([(effect**2).sum(axis=0) for effect in effects])))
        effects = [effect[:, layer.row] * (layer.gain * ~comparators) for effect in effects]
        signals = np.clip(before, 0.0, 1.0)
    variance = np.array(power)

    def wrong(epsilon: float, sigma: float) -> float:
        total = np.zeros(points)
        for nearest, squares in events:
            spread = np.sqrt((epsilon**2 * variance[: len(squares)] + sigma**2).T @ squares) + TINY
            total += ndtr(-nearest / spread).sum(axis=1)
        return float(np.minimum(total, 1.0).mean())

    return PredictedTolerance(
        _largest(lambda error: wrong(error, 0.0), MATRIX_ERROR_WORDS),
        _largest(lambda error: wrong(0.0, error), NOISE_WORDS),
    )


def _largest(wrong: Callable[[float], float], limit: float) -> float:
    """Largest error with at most this fraction of wrong words, by bisection of its logarithm."""
    low, high = np.log(RANGE[0]), np.log(RANGE[1])
    for _ in range(16):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if wrong(float(np.exp(middle))) <= limit else (low, middle)
    return float(np.exp(low))
