"""Largest field noise at the detectors that a network tolerates because of its margin.

Every detector adds noise to the field that it receives: those of the hidden layers, whose signals modulators
transmit again, and those of the servers. With signals normalised to the maximum 1, the field of a layer is W x / ‖W‖₂
times the transmission of its mesh. A noise σ relative to full scale at the detector is therefore ‖W‖₂ σ before the
activation. It propagates to the outputs with the network's derivative at each point of the lattice.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.onn.network import Layer, Onn
from optinc_pdk.onn.normalisation import normalise

Floats = NDArray[np.float64]

PIECE = 4096
"""Lattice points evaluated at a time."""


def tolerated_field_noise(onn: Onn, sigmas: float) -> float:
    """Computes the largest field noise for which every output stays a number of standard deviations from its threshold.

    The estimate is of first order in the noise. A hidden unit passes noise on where it is active, or where it is so
    close to its threshold that the noise of its own detector, with the first estimate of σ, may activate it.

    Args:
        onn: The network.
        sigmas: Required distance of every output from its decision threshold, in standard deviations of the output.

    Returns:
        Standard deviation σ of the field noise relative to full scale, equal and independent at all detectors. 0 if any
        symbol is wrong without noise.

    Raises:
        ValueError: ``sigmas`` is not a finite number above 0.
    """
    if not 0.0 < sigmas < np.inf:
        raise ValueError(f"sigmas = {sigmas} must be a finite number above 0")
    normalised = normalise(onn)
    norms = [float(np.linalg.norm(layer.weight, 2)) for layer in normalised.layers]
    estimate = 0.0
    # The first estimate determines which units are close to their thresholds, the second includes them.
    for _ in range(2):
        reach = [sigmas * estimate * norm for norm in norms]
        estimate = np.inf
        for points in onn.task.batches(PIECE):
            outputs, active = _propagate(normalised.layers, points / normalised.scales[0], reach)
            distance = 0.5 / onn.task.output_resolution - np.abs(outputs - onn.task.targets(points))
            noise = _output_noise(normalised.layers, norms, active, outputs.shape)
            estimate = min(estimate, float(np.min(distance / noise)) / sigmas)
        if estimate <= 0.0:
            return 0.0
    return estimate


def _propagate(layers: tuple[Layer, ...], points: Floats, reach: list[float]) -> tuple[Floats, list[NDArray[np.bool_]]]:
    """Outputs (P, M), and per hidden layer the mask (P, units) of units that pass noise."""
    signal, active = points, []
    for layer, distance in zip(layers[:-1], reach, strict=False):
        before = signal @ layer.weight.T + layer.bias
        active.append(before >= -distance)
        signal = np.maximum(before, 0.0)
    return signal @ layers[-1].weight.T + layers[-1].bias, active


def _output_noise(
    layers: tuple[Layer, ...], norms: list[float], active: list[NDArray[np.bool_]], shape: tuple[int, ...]
) -> Floats:
    """Standard deviation of every output for σ = 1 at every detector, (P, M)."""
    noise = np.empty(shape)
    for output in range(shape[1]):
        variance = np.full(shape[0], norms[-1] ** 2)
        slope = np.broadcast_to(layers[-1].weight[output], active[-1].shape) if active else np.empty((shape[0], 0))
        for index in range(len(active) - 1, -1, -1):
            slope = slope * active[index]
            variance += norms[index] ** 2 * np.sum(slope**2, axis=1)
            slope = slope @ layers[index].weight
        noise[:, output] = np.sqrt(variance)
    return noise
