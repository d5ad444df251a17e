"""Largest field noise at the detectors that a network tolerates because of its margin.

Every detector adds noise to the field that it receives: those of the hidden layers, whose signals modulators
transmit again, and those of the servers. With signals normalised to the maximum 1, the field of a layer is Q x / ‖Q‖₂
times the transmission of its mesh, with rows of Q of norm 1. A noise σ relative to full scale at the detector is
therefore gain · ‖Q‖₂ σ before the activation; units that read the same detector receive the same noise. It propagates
to the outputs with the network's derivative at each point of the lattice.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from optinc_pdk.arrays import Bools, Floats
from optinc_pdk.averaging import Averaging
from optinc_pdk.networks.network import AveragingNetwork, activate
from optinc_pdk.networks.normalisation import OpticalLayer, normalise, optical_layers
from optinc_pdk.options import Activation

SAMPLE = 1 << 18
"""Largest number of lattice points that are evaluated; larger lattices are represented by as many random points."""
PRECISION = 1.1
"""Largest ratio of the bounds of σ at the end of the bisection."""
PIECE = 4096
"""Lattice points evaluated at a time."""


def tolerated_field_noise(onn: AveragingNetwork, sigmas: float) -> float:
    """Computes the largest field noise for which every output stays a number of standard deviations from its threshold.

    The estimate is of first order in the noise. A hidden unit passes noise on where it is active, that is, neither at 0
    nor, in a clipped network, at 1; or where it is so close to such a threshold that the noise of its own detector may
    carry it there. How many units pass noise depends on σ itself, which is therefore found by bisection.

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
    parts = optical_layers(normalised)

    def tolerated(sigma: float) -> float:
        """Largest noise if the units that pass noise are those of a noise ``sigma``; it falls with ``sigma``."""
        reach = [sigmas * sigma * part.norm * part.gain for part in parts]
        least = np.inf
        for points in _points(onn.task):
            outputs, active = _propagate(parts, points / normalised.scales[0], reach, onn.activation)
            distance = 0.5 / onn.task.output_resolution - np.abs(outputs - onn.task.targets(points))
            noise = _output_noise(parts, active, outputs.shape)
            least = min(least, float(np.min(distance / noise)) / sigmas)
        return least

    high = tolerated(0.0)
    if high <= 0.0:
        return 0.0
    low = tolerated(high)
    while high > PRECISION * low:
        middle = float(np.sqrt(low * high))
        found = tolerated(middle)
        low, high = (max(low, middle), min(high, found)) if found >= middle else (max(low, found), middle)
    return low


def _points(task: Averaging) -> Iterator[Floats]:
    """Lattice points in pieces: all of them, or a sample of a lattice above `SAMPLE` points."""
    if task.lattice_size <= SAMPLE:
        yield from task.batches(PIECE)
        return
    rng = np.random.default_rng(0)
    for _ in range(SAMPLE // PIECE):
        yield task.sample(PIECE, rng)


def _propagate(
    parts: tuple[OpticalLayer, ...], points: Floats, reach: list[Floats], activation: Activation
) -> tuple[Floats, list[Bools]]:
    """Outputs (P, M), and per hidden layer the mask (P, units) of units that pass noise."""
    signal, active = points, []
    layers = [part.layer() for part in parts]
    for layer, distance in zip(layers[:-1], reach, strict=False):
        before = signal @ layer.weight.T + layer.bias
        passes = before >= -distance
        if activation == "clipped_relu":
            passes &= before <= 1.0 + distance
        active.append(passes)
        signal = activate(before, activation)
    return signal @ layers[-1].weight.T + layers[-1].bias, active


def _output_noise(parts: tuple[OpticalLayer, ...], active: list[Bools], shape: tuple[int, ...]) -> Floats:
    """Standard deviation of every output for σ = 1 at every detector, (P, M)."""
    noise = np.empty(shape)
    readers = [_readers(part) for part in parts]
    for output in range(shape[1]):
        # by the rows of the last layer, then of the layers below
        slope = np.broadcast_to(readers[-1][output], (shape[0], readers[-1].shape[1]))
        variance = parts[-1].norm ** 2 * np.sum(slope**2, axis=1)
        for index in range(len(active) - 1, -1, -1):
            slope = ((slope @ parts[index + 1].matrix) * active[index]) @ readers[index]
            variance += parts[index].norm ** 2 * np.sum(slope**2, axis=1)
        noise[:, output] = np.sqrt(variance)
    return noise


def _readers(part: OpticalLayer) -> Floats:
    """(out, rows) gains with which the units of a layer read its rows."""
    readers = np.zeros((part.row.size, len(part.matrix)))
    units = np.flatnonzero(part.row >= 0)
    readers[units, part.row[units]] = part.gain[units]
    return readers
