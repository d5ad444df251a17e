"""Noise of the readings: what detectors add, and what layers before pass on.

Amplitudes count to first order. Phases count to second order, because a phase of light that is in phase with its local
oscillator has no effect of first order. Its effect of second order is not passed on to the tails of later layers.

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
        passed: For each hidden layer and for the receivers, the part of it that layers before pass on.
        phases: For each hidden layer and for the receivers, what phases add.
    """

    rows: tuple[Floats, ...]
    receivers: Floats
    detectors: Floats
    passed: tuple[Floats, ...]
    phases: tuple[PhaseNoise, ...]


@dataclass(frozen=True, eq=False)
class PhaseTerms:
    """What independent phases g of sources add to R readings for B words: Σ b g + w g², with a variance of g in rad².

    Attributes:
        mean: (B, R) sums of w.
        linear: (B, R) sums of b².
        square: (B, R) sums of w².
        cube: (B, R) sums of w³.
        mixed: (B, R) sums of b² w.
    """

    mean: Floats
    linear: Floats
    square: Floats
    cube: Floats
    mixed: Floats

    @classmethod
    def of(cls, linear: Floats, half: Floats) -> PhaseTerms:
        """Sum up (B, R, n) terms b and w of n sources whose phases have variance 1."""
        sums = (half, linear**2, half**2, half**3, linear**2 * half)
        return cls(*(each.sum(axis=2) for each in sums))

    def cumulants(self, variance: float) -> tuple[Floats, Floats, Floats]:
        """Return (B, R) first to third cumulants for phases of a variance."""
        second = variance * self.linear + 2.0 * variance**2 * self.square
        third = variance**2 * (6.0 * self.mixed + 8.0 * variance * self.cube)
        return variance * self.mean, second, third


@dataclass(frozen=True, eq=False)
class PhaseNoise:
    """What phases add to R readings for B words: (B, R) change of the mean, and second and third cumulants."""

    mean: Floats
    second: Floats
    third: Floats


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
        phases: What their phases add.
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
    phases: PhaseTerms


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
    """Calculate the standard deviations of all readings due to noise, and what squares of phases add.

    Reflections into earlier layers are neglected. Layers pass squares of phases on as if they were Gaussian.
    """
    rows: list[Floats] = []
    passed: list[Floats] = []
    phases: list[PhaseNoise] = []
    network = sensitivity.network
    # servers send without noise
    covariance: Floats | None = None
    for layer, each, difference in zip(network.layers, sensitivity.layers, sensitivity.differences, strict=True):
        before = _passed_on(each, covariance)
        found, phase = _own_covariance(each, noise)
        found += before
        phases.append(phase)
        rows.append(_deviations(found))
        passed.append(_deviations(before))
        slope = _slopes(layer, difference, rows[-1])
        reading = layer.row >= 0
        chosen = found[:, layer.row][:, :, layer.row] * (reading[:, np.newaxis] & reading)
        covariance = slope[:, :, np.newaxis] * chosen * slope[:, np.newaxis]
    before = _passed_on(sensitivity.receivers, covariance)
    last, phase = _own_covariance(sensitivity.receivers, noise)
    last += before
    own = network.receivers.variance(sensitivity.receivers.readings, noise)
    return ReadingSpread(
        rows=tuple(rows),
        receivers=_deviations(last),
        detectors=np.sqrt(own),
        passed=(*passed, _deviations(before)),
        phases=(*phases, phase),
    )


def _deviations(covariance: Floats) -> Floats:
    """(B, R) standard deviations of (B, R, R) covariances."""
    return np.sqrt(np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0.0))


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
    # half of the second derivative by the phase: the field turns back, and a source beats with itself
    half = -0.5 * independent
    if sight.phase is None:
        real, imaginary = np.split(sight.field[first:last], 2, axis=1)
        half += seen[:, np.newaxis, first:last] ** 2 * (signs @ (real**2 + imaginary**2).T)
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
        phases=PhaseTerms.of(rotated, half),
    )


def _passed_on(layer: LayerSensitivity, sources: Floats | None) -> Floats:
    """(B, R, R) covariance of R sums of readings of a layer by the (B, n, n) one of its sources; None without noise."""
    if sources is None:
        return np.zeros_like(layer.apart)
    return np.asarray(layer.passed @ sources[:, layer.own][:, :, layer.own] @ layer.passed.swapaxes(1, 2))


def _own_covariance(layer: LayerSensitivity, noise: Noise) -> tuple[Floats, PhaseNoise]:
    """(B, R, R) covariance of R sums of readings of a layer by the noise that arises in it, and what phases add."""
    feed, signs = layer.sight.feed, layer.signs
    common = layer.carrier + noise.correlation(feed.path) * layer.together
    # half of the relative power is the relative amplitude
    total = 0.25 * noise.intensity**2 * common[:, :, np.newaxis] * common[:, np.newaxis]
    total += noise.apart(feed.path) ** 2 * layer.apart
    variance = noise.phase(feed.path) ** 2
    phases = PhaseNoise(*layer.phases.cumulants(variance))
    total += variance * layer.turned
    readings = np.arange(len(signs))
    # the squares of phases, as if they were independent between readings
    total[:, readings, readings] += phases.second - variance * layer.phases.linear
    detectors = layer.sight.variance(layer.readings, noise)
    total += (signs * detectors[:, np.newaxis]) @ signs.T
    return total, phases
