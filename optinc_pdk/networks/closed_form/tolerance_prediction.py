"""Prediction of the errors that a network of comparators tolerates, to compare variants without simulating errors.

Until a bit is wrong, errors spread linearly, and through analogue units only: a comparator removes them. The error of
every row of every layer is then a sum of independent normal terms, one for each row of this and of earlier layers, and
a word is wrong if the error of a row exceeds the distance to the nearest threshold of a comparator, or to a decision
threshold of an output. The sum of these probabilities bounds the word-error rate from above.

Matrix errors ε and field noise σ are defined as in `optinc_pdk.networks.error_tolerance`: a row's error has the
standard deviation ε |x| / √n for the n signals x of the layer below, or σ, times the 2-norm of the layer's matrix,
whose rows have norm 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.averaging import Averaging
from optinc_pdk.networks.closed_form.stage import ClosedForm
from optinc_pdk.networks.network import Layer
from optinc_pdk.networks.normalisation import NormalisedNetwork, OpticalLayer, optical_layers

MATRIX_ERROR_WORDS = 1e-3
"""Fraction of wrong words at the largest tolerated matrix error."""
NOISE_WORDS = 1e-6
"""Word-error rate at the largest tolerated field noise."""
TINY = 1e-30
"""Smallest variance, so that the distances of words without signals can be divided by it."""
BISECTIONS = 14
"""Halvings of the logarithmic range: the result is within 0.1 %."""
RANGE = (1e-7, 1.0)
"""Smallest and largest error that is considered."""


@dataclass(frozen=True)
class PredictedTolerance:
    """Predicted largest errors.

    Attributes:
        epsilon: Matrix error at which 99.9 % of the words are exact.
        sigma: Field noise at which one word in 10^6 is wrong.
        margin: Smallest distance of a detected field from a threshold without errors, in the units of the field noise.
    """

    epsilon: float
    sigma: float
    margin: float


def comparator_optics(closed: ClosedForm, task: Averaging) -> tuple[OpticalLayer, ...]:
    """Returns the layers of a network of comparators as optics and electronics, for inputs and signals of 0 to 1."""
    first, *others = closed.layers
    layers = (Layer(first.weight * task.input_maxima, first.bias), *others)
    return optical_layers(NormalisedNetwork(layers, (task.input_maxima,), (), task, "clipped_relu"))


def predict_tolerance(closed: ClosedForm, task: Averaging, points: int = 200, seed: int = 0) -> PredictedTolerance:
    """Predicts the largest matrix error and field noise that a network of comparators tolerates.

    Args:
        closed: The network.
        task: Its averaging task.
        points: Number of random lattice points.
        seed: Seed of these points.
    """
    signals = task.sample(points, np.random.default_rng(seed)) / task.input_maxima
    layers = comparator_optics(closed, task)
    power: list[Floats] = []
    # For each layer so far, the effect (rows of it, inputs of this layer) of its rows' errors.
    effects: list[Floats] = []
    events: list[tuple[Floats, Floats]] = []
    margin = np.inf
    for index, layer in enumerate(layers):
        power.append((signals**2).sum(axis=1) / layer.matrix.shape[1])
        effects = [effect @ layer.matrix.T for effect in effects] + [layer.norm * np.eye(len(layer.matrix))]
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
        margin = min(margin, float(nearest.min()) / layer.norm)
        events.append((nearest, np.array([(effect**2).sum(axis=0) for effect in effects])))
        effects = [effect[:, layer.row] * (layer.gain * ~comparators) for effect in effects]
        signals = np.clip(before, 0.0, 1.0)
    variance = np.array(power)
    # Distance to the nearest threshold in standard deviations, at an error of 1.
    matrix = [nearest / np.sqrt(variance[: len(squares)].T @ squares + TINY) for nearest, squares in events]
    noise = [nearest / np.sqrt(squares.sum(axis=0)) for nearest, squares in events]
    return PredictedTolerance(
        _largest(np.concatenate(matrix, axis=1), MATRIX_ERROR_WORDS),
        _largest(np.concatenate(noise, axis=1), NOISE_WORDS),
        margin,
    )


def _largest(distances: Floats, limit: float) -> float:
    """Largest error with at most this fraction of wrong words, by bisection of its logarithm.

    Args:
        distances: (points, rows) distances to the nearest thresholds in standard deviations, at an error of 1.
        limit: Fraction of wrong words.
    """
    from scipy.special import ndtr

    relevant = distances[:, np.isfinite(distances).any(axis=0)]
    low, high = np.log(RANGE[0]), np.log(RANGE[1])
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        wrong = np.minimum(ndtr(-relevant / np.exp(middle)).sum(axis=1), 1.0).mean()
        low, high = (middle, high) if wrong <= limit else (low, middle)
    return float(np.exp(low))
