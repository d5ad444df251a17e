"""Noise of the fields that a network's margin leaves room for.

Every detector adds noise to the field that it sees: those of the hidden layers, whose signals a modulator launches
afresh, and those of the servers. In the gauge, where signals have the maximum 1, a layer's light is W x / ‖W‖₂ times
what its mesh lets through; so a noise σ, relative to full scale at the detector, is ‖W‖₂ σ before the activation. Its
way on to the outputs is the network's derivative at each point of the lattice.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.onn.gauge import gauge
from optinc_pdk.onn.network import Layer, Onn

Floats = NDArray[np.float64]

PIECE = 4096


def tolerated_field_noise(onn: Onn, sigmas: float) -> float:
    """Field noise at every detector that leaves each decision its margin at so many standard deviations.

    To first order in the noise: a hidden unit passes noise where it is on, or so near to its threshold that its own
    detector's noise, at the first estimate of σ, may turn it on.

    Args:
        onn: The network.
        sigmas: Standard deviations of an output that its distance from the threshold has to hold.

    Returns:
        σ relative to full scale, the same and independent at all detectors; 0 where a symbol is wrong without noise.

    Raises:
        ValueError: ``sigmas`` is not above 0.
    """
    if not 0.0 < sigmas < np.inf:
        raise ValueError(f"sigmas = {sigmas} must be a finite number above 0")
    gauged = gauge(onn)
    norms = [float(np.linalg.norm(layer.weight, 2)) for layer in gauged.layers]
    estimate = 0.0
    # the first estimate says which units are near to their thresholds, the second counts them
    for _ in range(2):
        reach = [sigmas * estimate * norm for norm in norms]
        estimate = np.inf
        for points in onn.task.pieces(PIECE):
            outputs, on = _propagate(gauged.layers, points / gauged.scales[0], reach)
            room = 0.5 / onn.task.output_resolution - np.abs(outputs - onn.task.targets(points))
            noise = _output_noise(gauged.layers, norms, on, outputs.shape)
            estimate = min(estimate, float(np.min(room / noise)) / sigmas)
        if estimate <= 0.0:
            return 0.0
    return estimate


def _propagate(layers: tuple[Layer, ...], points: Floats, reach: list[float]) -> tuple[Floats, list[NDArray[np.bool_]]]:
    """Outputs (P, M), and per hidden layer which units pass noise, (P, units)."""
    signal, on = points, []
    for layer, near in zip(layers[:-1], reach, strict=False):
        before = signal @ layer.weight.T + layer.bias
        on.append(before >= -near)
        signal = np.maximum(before, 0.0)
    return signal @ layers[-1].weight.T + layers[-1].bias, on


def _output_noise(
    layers: tuple[Layer, ...], norms: list[float], on: list[NDArray[np.bool_]], shape: tuple[int, ...]
) -> Floats:
    """Standard deviation of every output for σ = 1 at every detector, (P, M)."""
    noise = np.empty(shape)
    for output in range(shape[1]):
        variance = np.full(shape[0], norms[-1] ** 2)
        slope = np.broadcast_to(layers[-1].weight[output], on[-1].shape) if on else np.empty((shape[0], 0))
        for index in range(len(on) - 1, -1, -1):
            slope = slope * on[index]
            variance += norms[index] ** 2 * np.sum(slope**2, axis=1)
            slope = slope @ layers[index].weight
        noise[:, output] = np.sqrt(variance)
    return noise
