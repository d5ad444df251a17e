"""Estimate of word-error rates far below what can be counted: how far noise must carry one reading to spoil a word.

For every word and every reading (the difference that a pair of detectors gives to its neurons, or the power of a
receiver) the smallest change is found that makes any server read a wrong word while everything else is free of noise.
These changes are found once for a chip. At a symbol rate, the noise of each reading is a Gaussian of known deviation,
from its own detectors and from what layers before pass on in their linear range, and symbols before shift the reading;
the power at a photodiode is the square of a Gaussian field, plus the noise of its detector. Where light is in phase
with a local oscillator, its phase acts by its square, whose tail is counted, see :mod:`optinc_pdk.studies._tails`. The
estimate is the probability that any reading exceeds its change, as if they were independent.

Noise that several layers pass on is counted once. Errors are left out that need noise in several readings at once which
none of them sees in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.averaging import decide_steps
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.signoff.function import FunctionInputs, symbol_assignments
from optinc_pdk.simulate import Scattering
from optinc_pdk.simulate.transmission.detection import ChipNetwork, network_of
from optinc_pdk.simulate.transmission.noise import Noise
from optinc_pdk.simulate.transmission.noise_propagation import (
    TINY,
    NoiseSensitivity,
    PhaseNoise,
    ReadingSpread,
    noise_sensitivity,
    reading_spread,
)
from optinc_pdk.simulate.transmission.reception import TOP_LEVEL, server_amplitudes, settled_amplitudes
from optinc_pdk.studies._tails import probability_beyond

WORDS = 2048
"""Largest number of words, drawn at random, that represent all words."""
WORK = 1 << 25
"""Largest number of words times readings times sources; large networks are represented by fewer words."""
SCANNED, BISECTIONS = 12, 7
"""Changes of a reading that are tried between none and that which drives all its neurons to an end, and bisections."""
LEAST_FIELD = 1e-9
"""Field at a photodiode, relative to that of full scale, below which it is dark."""
DESIGN_STEPS = 8
"""Iterations of the most probable noise that reaches a threshold."""
SEED = 2603


@dataclass(frozen=True, eq=False)
class ErrorMargins:
    """Smallest changes of the readings of a chip that spoil B words.

    Attributes:
        network: The chip on its board.
        light: (B, sources) amplitudes of all sources without noise.
        readings: For each hidden layer, (B, rows) detected differences without noise, offsets left out.
        power: (B, receivers) readings of the receivers without noise: powers, or fields of coherent receivers.
        up: For each hidden layer, (B, rows) smallest increase that spoils a word; infinite if none does.
        down: For each hidden layer, (B, rows) smallest decrease.
        receiver_up: (B, receivers) increase of a reading at which its symbol is wrong; infinite for the highest level.
        receiver_down: (B, receivers) decrease at which it is wrong; infinite for level 0.
        wrong: (B,) words that are wrong without noise.
        servers: Number of servers, each with an equal share of the receivers.
    """

    network: ChipNetwork
    light: Floats
    readings: tuple[Floats, ...]
    power: Floats
    up: tuple[Floats, ...]
    down: tuple[Floats, ...]
    receiver_up: Floats
    receiver_down: Floats
    wrong: Bools
    servers: int

    @cached_property
    def sensitivity(self) -> NoiseSensitivity:
        """What the readings change by, for all noise models."""
        return noise_sensitivity(self.network, self.light)

    def first(self, count: int) -> ErrorMargins:
        """Return the margins of the first words only."""
        return ErrorMargins(
            network=self.network,
            light=self.light[:count],
            readings=tuple(each[:count] for each in self.readings),
            power=self.power[:count],
            up=tuple(each[:count] for each in self.up),
            down=tuple(each[:count] for each in self.down),
            receiver_up=self.receiver_up[:count],
            receiver_down=self.receiver_down[:count],
            wrong=self.wrong[:count],
            servers=self.servers,
        )


@dataclass(frozen=True)
class ErrorEstimate:
    """Estimated word-error rate at one symbol rate.

    Attributes:
        rate: Mean probability, over words and servers, that a word is wrong.
        layers: Share that arises in each hidden layer.
        receivers: Share that arises in the receivers.
    """

    rate: float
    layers: tuple[float, ...]
    receivers: float


def error_margins(s: Scattering, inputs: FunctionInputs, board: Board, bias: Bias, most: int = WORDS) -> ErrorMargins:
    """Find how far noise must carry each reading of a chip to spoil a word, for at most ``most`` inputs in random
    order.

    Raises:
        UnsettledError: Amplitudes do not converge, because reflections couple the layers.
    """
    network = network_of(s, board, bias, 0)
    symbols = symbol_assignments(inputs, s, board, bias)
    rows = sum(layer.starts.size for layer in network.layers) + network.scale.size
    count = int(np.clip(WORK // (rows * network.sources), 1, most))
    tried = len(symbols) * symbols.shape[1]
    chosen = np.random.default_rng(SEED).permutation(tried)[:count]
    words = symbols.reshape(tried, *symbols.shape[2:])[chosen]
    levels = np.tile(inputs.levels[chosen % symbols.shape[1]], (1, len(board.outputs)))
    resolution = np.tile(inputs.task.output_resolution, len(board.outputs))
    light, differences = settled_amplitudes(server_amplitudes(words, board, bias), network, None, None)
    search = _Search(network, light, differences, np.rint(levels * resolution).astype(np.int64), resolution)
    sides = [[search.smallest(index, sign) for index in range(len(network.layers))] for sign in (1.0, -1.0)]
    power = network.receivers.detected(network.receivers.fields(light))
    half = 0.5 / resolution
    above, below = (network.thresholds(levels + step) for step in (half, -half))
    return ErrorMargins(
        network=network,
        light=light,
        readings=tuple(_readings(network, differences)),
        power=power,
        up=tuple(sides[0]),
        down=tuple(sides[1]),
        receiver_up=np.where(levels + half < TOP_LEVEL + 1 - half, above - power, np.inf),
        receiver_down=np.where(levels > 0.0, power - below, np.inf),
        wrong=search.wrong(len(network.layers), light),
        servers=len(board.outputs),
    )


def estimate_errors(margins: ErrorMargins, noise: Noise) -> ErrorEstimate:
    """Estimate the word-error rate of a chip at the laser power and symbol rate of a noise model."""
    spread = reading_spread(margins.sensitivity, noise)
    moved, received = _moved(margins, noise, spread.phases)
    limits = zip(margins.up, margins.down, moved, strict=True)
    noises = zip(spread.rows, spread.passed[:-1], spread.phases[:-1], strict=True)
    layers = []
    for (up, down, shift), (deviation, passed, phases) in zip(limits, noises, strict=True):
        found = _beyond(up - shift, deviation, phases, 1.0) + _beyond(down + shift, deviation, phases, -1.0)
        before = _beyond(up - shift, passed) + _beyond(down + shift, passed)
        layers.append((_any_of(found, 1), _any_of(before, 1)))
    last, before = (
        _any_of(errors.reshape(len(received), margins.servers, -1), 2)
        for errors in (
            _receiver_side(margins, spread, received, 1.0) + _receiver_side(margins, spread, received, -1.0),
            _passed_side(margins, spread, received, 1.0) + _passed_side(margins, spread, received, -1.0),
        )
    )
    # noise that a layer passes on spoils the same words again: subtract what was counted before
    words = np.zeros(len(received))
    for found, passed in layers:
        words = np.minimum(words + np.maximum(found - np.minimum(passed, words), 0.0), 1.0)
    counted = words[:, np.newaxis]
    at_servers = np.minimum(counted + np.maximum(last - np.minimum(before, counted), 0.0), 1.0)
    at_servers[margins.wrong] = 1.0
    return ErrorEstimate(
        rate=float(at_servers.mean()),
        layers=tuple(float(found.mean()) for found, _ in layers),
        receivers=float(last.mean()),
    )


def _passed_side(margins: ErrorMargins, spread: ReadingSpread, received: Floats, sign: float) -> Floats:
    """The same as :func:`_receiver_side` for what layers before pass on alone, which is a Gaussian field."""
    change = margins.receiver_up - received if sign > 0.0 else margins.receiver_down + received
    if margins.network.receivers.phase is not None:
        return _beyond(change, spread.passed[-1])
    power = np.maximum(margins.power + received, 0.0)
    target = np.maximum(power + sign * np.where(np.isfinite(change), change, 0.0), 0.0)
    light = np.maximum(np.sqrt(margins.power), LEAST_FIELD)
    deviation = np.maximum(spread.passed[-1] / (2.0 * light), TINY)
    return np.where(np.isfinite(change), ndtr(-sign * (np.sqrt(target) - np.sqrt(power)) / deviation), 0.0)


def _receiver_side(margins: ErrorMargins, spread: ReadingSpread, received: Floats, sign: float) -> Floats:
    """(B, receivers) probabilities that noise carries a reading beyond its upper or, if sign is -1, lower threshold.

    A photodiode reads the power of a field, and the detector adds noise n: f² + n. What layers before and the laser add
    to the field is Gaussian, so that power is not: it is f² at the threshold. The most probable f and n that reach the
    threshold are found by iteration; their distance from the mean, in standard deviations, is that of a Gaussian with
    the same probability to first order (Hasofer and Lind, J. Eng. Mech. Div. 100, 111 (1974)). ``spread`` has the
    standard deviations of readings, ``received`` the (B, receivers) changes because of the symbols before.
    """
    change = margins.receiver_up - received if sign > 0.0 else -margins.receiver_down - received
    if margins.network.receivers.phase is not None:
        return _beyond(sign * change, spread.receivers, spread.phases[-1], sign)
    mean = np.sqrt(np.maximum(margins.power + received, 0.0))
    target = np.where(np.isfinite(change), mean**2 + change, mean**2)
    threshold = np.sqrt(np.maximum(target, 0.0))
    # without light, nothing is passed on to first order
    light = np.maximum(np.sqrt(margins.power), LEAST_FIELD)
    field_variance = np.maximum(spread.receivers**2 - spread.detectors**2, 0.0) / (4.0 * light**2)
    lowest, highest = np.minimum(mean, threshold), np.maximum(mean, threshold)
    field = 0.5 * (mean + threshold)
    distance = change
    for _ in range(DESIGN_STEPS):
        deviation = np.sqrt(np.maximum(4.0 * field**2 * field_variance + spread.detectors**2, TINY))
        distance = (target - field * (2.0 * mean - field)) / deviation
        field = np.clip(mean + distance * 2.0 * field * field_variance / deviation, lowest, highest)
    return np.where(np.isfinite(change), ndtr(-sign * distance), 0.0)


def _any_of(wrong: Floats, axis: int) -> Floats:
    """Probability that any of several readings is wrong; it keeps the precision of small probabilities."""
    return np.asarray(-np.expm1(np.log1p(-np.minimum(wrong, 1.0 - 1e-15)).sum(axis=axis)))


def _beyond(change: Floats, deviation: Floats, phases: PhaseNoise | None = None, sign: float = 1.0) -> Floats:
    """Probability that the noise of a reading exceeds a change in the direction of ``sign``; phases may be none."""
    if phases is None or not phases.third.any():
        return np.asarray(ndtr(-change / np.maximum(deviation, TINY)))
    rest = np.maximum(np.square(deviation) - phases.second, 0.0)
    return probability_beyond(change, rest, phases.second, sign * phases.third)


def _moved(margins: ErrorMargins, noise: Noise, phases: Sequence[PhaseNoise]) -> tuple[list[Floats], Floats]:
    """Changes of all readings because of the symbols before, with the words in their random order, and of the means by
    noise of phases.
    """
    network = margins.network
    turned = any(each.mean.any() for each in phases)
    if noise.shape.negligible and not turned:
        return [np.zeros_like(rows) for rows in margins.readings], np.zeros_like(margins.power)
    # one pass from settled light: what reflections make of these changes is of second order
    light, differences = margins.light.copy(), []
    for layer, each in zip(network.layers, phases[:-1], strict=True):
        difference = layer.difference(layer.detection.readings(light, noise, None))
        differences.append(difference + np.where(layer.row >= 0, each.mean[:, layer.row], 0.0))
        light[:, layer.source] = layer.amplitude(differences[-1])
    moved = [new - old for new, old in zip(_readings(network, differences), margins.readings, strict=True)]
    return moved, network.receivers.readings(light, noise, None) + phases[-1].mean - margins.power


def _readings(network: ChipNetwork, differences: list[Floats]) -> list[Floats]:
    """For each hidden layer, (B, rows) detected differences without offsets, from those of the neurons with offsets."""
    found = []
    for layer, difference in zip(network.layers, differences, strict=True):
        reader = np.array([np.argmax(layer.row == row) for row in range(layer.starts.size)])
        found.append(difference[:, reader] - layer.offset[reader])
    return found


@dataclass(frozen=True, eq=False)
class _Search:
    """Search for the smallest change of a reading that spoils a word, for B words at a time."""

    network: ChipNetwork
    light: Floats
    differences: list[Floats]
    steps: Ints
    resolution: Ints

    def wrong(self, following: int, light: Floats, words: Ints | None = None) -> Bools:
        """Whether any server reads a word wrongly, if light passes the layers from ``following`` on."""
        for layer in self.network.layers[following:]:
            difference = layer.difference(layer.detection.power(layer.detection.fields(light)))
            light[:, layer.source] = layer.amplitude(difference)
        levels = self.network.levels(self.network.receivers.detected(self.network.receivers.fields(light)))
        expected = self.steps if words is None else self.steps[words]
        return np.asarray((decide_steps(levels, self.resolution) != expected).any(axis=1))

    def smallest(self, index: int, sign: float) -> Floats:
        """(B, rows) smallest change, in the direction of ``sign``, of each row of a hidden layer."""
        layer = self.network.layers[index]
        return np.stack([self._smallest(index, row, sign) for row in range(layer.starts.size)], axis=1)

    def _smallest(self, index: int, row: int, sign: float) -> Floats:
        layer = self.network.layers[index]
        readers = np.flatnonzero(layer.row == row)
        difference, gain = self.differences[index][:, readers], layer.gain[readers]
        full = np.divide(1.0, gain, out=np.zeros_like(gain), where=gain > 0.0)
        # beyond this change, every neuron of the row is at its end
        most = np.maximum((full - difference if sign > 0.0 else difference).max(axis=1), 0.0)

        def spoils(words: Ints, change: Floats) -> Bools:
            light = self.light[words]
            driven = gain * np.maximum(difference[words] + sign * change[:, np.newaxis], 0.0)
            light[:, layer.source.start + readers] = layer.detection.modulator.field(driven)
            return self.wrong(index + 1, light, words)

        everything = np.arange(len(difference))
        low, high = np.zeros(len(difference)), np.full(len(difference), np.inf)
        for number in range(1, SCANNED + 1):
            open_words = everything[np.isinf(high)]
            change = most[open_words] * number / SCANNED
            found = spoils(open_words, change)
            high[open_words[found]], low[open_words[~found]] = change[found], change[~found]
        words = everything[np.isfinite(high)]
        for _ in range(BISECTIONS):
            middle = 0.5 * (low[words] + high[words])
            found = spoils(words, middle)
            high[words[found]], low[words[~found]] = middle[found], middle[~found]
        return high
