"""Noise of the readings, to first order: what detectors add, and what layers before pass on.

A neuron in its linear range passes the noise of its detectors on; one that is off, or whose modulator transmits
everything, does not. Near these two thresholds, the noise is weighted by the probability that it leaves the neuron in
the linear range.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from optinc_pdk.simulate.transmission.detection import ChipNetwork, DetectionMatrix, HiddenLayer
from optinc_pdk.simulate.transmission.noise import Noise

Floats = NDArray[np.float64]

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


def reading_spread(network: ChipNetwork, light: Floats, noise: Noise) -> ReadingSpread:
    """Calculate the standard deviations of all readings due to noise, to first order.

    Reflections into earlier layers are neglected, and so is the shift of the mean by noise.

    Args:
        network: The chip on its board.
        light: (B, sources) amplitudes of all sources, settled, without noise.
        noise: Noise model.
    """
    rows = []
    first = network.detection_sources[0].sources
    # servers send without noise
    covariance = np.zeros((len(light), first.stop - first.start, first.stop - first.start))
    for layer in network.layers:
        power = layer.detection.power(layer.detection.fields(light))
        found = _covariance(layer.detection, _row_signs(layer), light, noise, covariance)
        rows.append(np.sqrt(np.maximum(np.diagonal(found, axis1=1, axis2=2), 0.0)))
        slope = _slopes(layer, power, rows[-1])
        reading = layer.row >= 0
        chosen = found[:, layer.row][:, :, layer.row] * (reading[:, np.newaxis] & reading)
        covariance = slope[:, :, np.newaxis] * chosen * slope[:, np.newaxis]
    last = _covariance(network.receivers, np.eye(network.scale.size), light, noise, covariance)
    own = network.receivers.variance(network.receivers.detected(network.receivers.fields(light)), noise)
    return ReadingSpread(tuple(rows), np.sqrt(np.maximum(np.diagonal(last, axis1=1, axis2=2), 0.0)), np.sqrt(own))


def _row_signs(layer: HiddenLayer) -> Floats:
    """(rows, D) weights of the detectors in each row's difference."""
    pairs = layer.detection.feed.detectors // 2
    owner = np.repeat(np.arange(layer.starts.size), np.diff(np.append(layer.starts, pairs)))
    plus = (np.arange(layer.starts.size)[:, np.newaxis] == owner).astype(np.float64)
    balance = np.array([layer.balance[np.argmax(layer.row == row)] for row in range(layer.starts.size)])
    return np.hstack([plus, -balance[:, np.newaxis] * plus])


def _slopes(layer: HiddenLayer, power: Floats, spread: Floats) -> Floats:
    """(B, n) derivatives of amplitudes by differences, weighted by the probability that noise leaves them linear."""
    difference = layer.difference(power)
    deviation = np.maximum(spread[:, layer.row], TINY)
    full = np.divide(1.0, layer.gain, out=np.full_like(layer.gain, np.inf), where=layer.gain > 0.0)
    return np.asarray(layer.gain * (ndtr(difference / deviation) - ndtr((difference - full) / deviation)))


def _covariance(sight: DetectionMatrix, signs: Floats, light: Floats, noise: Noise, sources: Floats) -> Floats:
    """(B, R, R) covariance of R sums of readings of a layer.

    Args:
        sight: Detection matrix of D detectors.
        signs: (R, D) weights of the detectors in the sums.
        light: (B, F) amplitudes of all sources.
        noise: Noise model.
        sources: (B, n, n) covariance of the amplitudes of the layer's own sources.
    """
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
    own = sight.reaching[first:last] - feed.sources.start
    passed = along[:, :, first:last]
    total = passed @ sources[:, own][:, :, own] @ passed.swapaxes(1, 2)
    share = along * seen[:, np.newaxis]
    same = noise.correlation(feed.fibre)
    common = share[:, :, 0] + same * share[:, :, first:last].sum(axis=2)
    independent = share[:, :, first:last]
    # half of the relative power is the relative amplitude
    total += 0.25 * noise.intensity**2 * common[:, :, np.newaxis] * common[:, np.newaxis]
    total += 0.25 * noise.intensity**2 * (1.0 - same**2) * (independent @ independent.swapaxes(1, 2))
    rotated = (across * seen[:, np.newaxis])[:, :, first:last]
    total += noise.phase(feed.fibre) ** 2 * (rotated @ rotated.swapaxes(1, 2))
    detectors = sight.variance(sight.detected(fields), noise)
    return np.asarray(total + (signs * detectors[:, np.newaxis]) @ signs.T)
