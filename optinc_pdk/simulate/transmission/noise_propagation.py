"""Noise of the readings, to first order: what detectors add, and what layers before pass on.

A neuron in its linear range passes the noise of its detectors on; one that is off, or whose modulator transmits
everything, does not. Near these two thresholds, the noise is weighted by the probability that it leaves the neuron in
the linear range.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.simulate.transmission.detection import ChipNetwork, DetectionMatrix, HiddenLayer
from optinc_pdk.simulate.transmission.noise import Noise

TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class ReadingSpread:
    """Standard deviations of what neurons and receivers of a chip read for B words.

    Attributes:
        rows: For each hidden layer, (B, rows) of the detected differences.
        receivers: (B, receivers) of the received powers, or fields of coherent receivers.
        detectors: (B, receivers) the part of it that the receivers' own detectors add.
    """

    rows: tuple[Floats, ...]
    receivers: Floats
    detectors: Floats


@dataclass(frozen=True, eq=False)
class LayerSensitivity:
    """What R sums of readings of a layer change by, for B words, if a source or the laser does.

    It does not depend on the amount of noise, so it is calculated once for a search among many noise models.

    Attributes:
        sight: Detection matrix of D detectors.
        signs: (R, D) weights of the detectors in the sums.
        readings: (B, D) readings of the detectors without noise.
        own: Positions of the sources that reach a detector among the layer's own sources.
        passed: (B, R, n) derivatives by the amplitudes of these sources.
        carrier: (B, R) change per relative change of the carrier's amplitude.
        together: (B, R) the same for all of the layer's own sources together.
        apart: (B, R, R) covariance if their relative amplitudes vary independently of each other, with variance 1.
        turned: (B, R, R) the same for their phases, in rad.
    """

    sight: DetectionMatrix
    signs: Floats
    readings: Floats
    own: Ints
    passed: Floats
    carrier: Floats
    together: Floats
    apart: Floats
    turned: Floats


@dataclass(frozen=True, eq=False)
class NoiseSensitivity:
    """What readings of a chip change by for B words, and (B, neurons) differences of hidden layers without noise."""

    network: ChipNetwork
    layers: tuple[LayerSensitivity, ...]
    differences: tuple[Floats, ...]
    receivers: LayerSensitivity


def noise_sensitivity(network: ChipNetwork, light: Floats) -> NoiseSensitivity:
    """Calculate how a chip's readings change, to first order, with amplitudes and phases of its sources and carrier.

    The result does not depend on the amount of noise: calculate it once, then call :func:`reading_spread` for each
    noise model.

    Args:
        network: All layers of the chip on its board.
        light: (B, sources) amplitudes of the sources for B words, settled and without noise.
    """
    layers = [_sensitivity(layer.detection, _row_signs(layer), light) for layer in network.layers]
    differences = [layer.difference(layer.detection.power(layer.detection.fields(light))) for layer in network.layers]
    receivers = _sensitivity(network.receivers, np.eye(network.scale.size), light)
    return NoiseSensitivity(network, tuple(layers), tuple(differences), receivers)


def reading_spread(sensitivity: NoiseSensitivity, noise: Noise) -> ReadingSpread:
    """Calculate the standard deviations of all readings due to noise, to first order.

    Reflections into earlier layers are neglected, and so is the shift of the mean by noise.
    """
    rows: list[Floats] = []
    network = sensitivity.network
    # servers send without noise
    covariance: Floats | None = None
    for layer, each, difference in zip(network.layers, sensitivity.layers, sensitivity.differences, strict=True):
        found = _covariance(each, noise, covariance)
        rows.append(np.sqrt(np.maximum(np.diagonal(found, axis1=1, axis2=2), 0.0)))
        slope = _slopes(layer, difference, rows[-1])
        reading = layer.row >= 0
        chosen = found[:, layer.row][:, :, layer.row] * (reading[:, np.newaxis] & reading)
        covariance = slope[:, :, np.newaxis] * chosen * slope[:, np.newaxis]
    last = _covariance(sensitivity.receivers, noise, covariance)
    own = network.receivers.variance(sensitivity.receivers.readings, noise)
    return ReadingSpread(tuple(rows), np.sqrt(np.maximum(np.diagonal(last, axis1=1, axis2=2), 0.0)), np.sqrt(own))


def _row_signs(layer: HiddenLayer) -> Floats:
    """(rows, D) weights of the detectors in each row's difference."""
    plus = (np.arange(layer.starts.size)[:, np.newaxis] == layer.row_of_pair).astype(np.float64)
    return np.hstack([plus, -layer.row_balance[:, np.newaxis] * plus])


def _slopes(layer: HiddenLayer, difference: Floats, spread: Floats) -> Floats:
    """(B, n) derivatives of amplitudes by differences, weighted by the probability that noise leaves them linear."""
    deviation = np.maximum(spread[:, layer.row], TINY)
    full = np.divide(1.0, layer.gain, out=np.full_like(layer.gain, np.inf), where=layer.gain > 0.0)
    linear = layer.gain * (ndtr(difference / deviation) - ndtr((difference - full) / deviation))
    modulator = layer.detection.modulator
    return linear if modulator.linear else np.asarray(linear * modulator.slope(layer.drive(difference)))


def _sensitivity(sight: DetectionMatrix, signs: Floats, light: Floats) -> LayerSensitivity:
    """What (R, D) sums of readings change by, for (B, F) amplitudes of all sources."""
    feed, seen = sight.feed, light[:, sight.reaching]
    fields = sight.fields(light)
    # |z|² of a field z = x exp(iφ) S + …: 2 Re(conj(z) S) by x, 2 x Re(i conj(z) S) by φ; a coherent receiver, whose
    # local oscillator takes the place of z, reads half of that
    if sight.phase is None:
        real, imaginary = np.split(fields, 2, axis=1)
    else:
        ones = np.ones((len(light), 1))
        real, imaginary = 0.5 * ones * np.cos(sight.phase), 0.5 * ones * np.sin(sight.phase)
    weighted = np.concatenate([real[:, np.newaxis] * signs, imaginary[:, np.newaxis] * signs], axis=2)
    turned = np.concatenate([imaginary[:, np.newaxis] * signs, -real[:, np.newaxis] * signs], axis=2)
    along, across = 2.0 * weighted @ sight.field.T, 2.0 * turned @ sight.field.T
    first, last = np.searchsorted(sight.reaching, (feed.sources.start, feed.sources.stop))
    share = along * seen[:, np.newaxis]
    independent = share[:, :, first:last]
    rotated = (across * seen[:, np.newaxis])[:, :, first:last]
    return LayerSensitivity(
        sight=sight,
        signs=signs,
        readings=sight.detected(fields),
        own=sight.reaching[first:last] - feed.sources.start,
        passed=along[:, :, first:last],
        carrier=share[:, :, 0],
        together=independent.sum(axis=2),
        apart=independent @ independent.swapaxes(1, 2),
        turned=rotated @ rotated.swapaxes(1, 2),
    )


def _covariance(layer: LayerSensitivity, noise: Noise, sources: Floats | None) -> Floats:
    """(B, R, R) covariance of R sums of readings of a layer.

    Args:
        layer: The layer.
        noise: Noise model.
        sources: (B, n, n) covariance of the amplitudes of the layer's own sources; None without noise.
    """
    feed, signs = layer.sight.feed, layer.signs
    same = noise.correlation(feed.fibre)
    common = layer.carrier + same * layer.together
    # half of the relative power is the relative amplitude
    total = 0.25 * noise.intensity**2 * common[:, :, np.newaxis] * common[:, np.newaxis]
    total += 0.25 * noise.intensity**2 * (1.0 - same**2) * layer.apart
    total += noise.phase(feed.fibre) ** 2 * layer.turned
    if sources is not None:
        total += layer.passed @ sources[:, layer.own][:, :, layer.own] @ layer.passed.swapaxes(1, 2)
    detectors = layer.sight.variance(layer.readings, noise)
    return np.asarray(total + (signs * detectors[:, np.newaxis]) @ signs.T)
