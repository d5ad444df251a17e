"""Words on the bench: transmission through the whole chip, and trimming of the electronics to what the words show.

What remains of a layer's matrix errors is partly an error of a constant or of a factor, which trimming removes. A
*comparator* is a neuron whose ideal pre-activation is never between 0 and 1; its threshold is set to the middle of the
gap between the detected signals for which it must be off and those for which it must be on. Gains and offsets of the
other neurons, which pass values on, are fitted by least squares. Heaters stay at rest meanwhile: with 10,000 symbols of
1 MBd for each of 4096 words, this takes 41 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.averaging import Averaging, assign_random
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.circuit.bias import Activation
from optinc_pdk.simulate.modulator_drive import IDEAL, Modulator
from optinc_pdk.simulate.programming.electronics import round_significant, small_signals
from optinc_pdk.simulate.transmission.reception import TOP_LEVEL
from optinc_pdk.simulate.transmission.settling import MAX_PASSES, SETTLED_CHANGE
from optinc_pdk.studies.calibration._measurement import BenchLayer, BenchProtocol

SAMPLED_INPUTS = 4096
"""Number of inputs sampled from the lattice."""
SEED = 7
CONVERGENCE = 0.5
"""Convergence factor per pass; reflections decay faster than this, so a slower decay is noise."""
MAX_SOURCE_ERROR = 0.25
"""Words for which a source of a layer is further from its ideal amplitude do not count for the layer."""
MIN_WORDS = 16
"""Least number of words from which a neuron is trimmed."""


@dataclass(frozen=True, eq=False)
class WordSample:
    """Sample of N inputs of a chip with J servers' modulators and M output symbols.

    Attributes:
        amplitude: (N, J) amplitudes of the servers' modulators, 1 at full scale.
        ideal_level: (N, M) levels 0 … 3 of the ideal average.
        network_signal: For each hidden layer, (N, neurons) drives of the modulators, before they are limited, of the
            network with its target matrices: pre-activations times the drive per field.
        network_level: (N, M) real-valued output levels of the network with its target matrices.
        modulator: What the modulators send.
    """

    amplitude: Floats
    ideal_level: Ints
    network_signal: tuple[Floats, ...]
    network_level: Floats
    modulator: Modulator = IDEAL


@dataclass(frozen=True, eq=False)
class ElectronicsSettings:
    """Settings of a board's electronics as arrays.

    Attributes:
        gain: For each hidden layer, (neurons,) gains.
        offset: For each hidden layer, (neurons,) offsets.
        balance: For each hidden layer, (neurons,) weights of the negative detectors.
        scale: (receivers,) output level per square root of a reading.
        sent: (J,) amplitudes of the servers' modulators at full scale.
    """

    gain: tuple[Floats, ...]
    offset: tuple[Floats, ...]
    balance: tuple[Floats, ...]
    scale: Floats
    sent: Floats


@dataclass(frozen=True, eq=False)
class WordTransmission:
    """Result of sending N inputs through a chip.

    Attributes:
        source: For each layer, (N, J) amplitudes of its J sources while its detectors were read.
        detected: For each hidden layer, (N, neurons) detected signals: sum of the positive detectors minus balance
            times sum of the negative ones.
        output: (N, servers, M) output levels before the decision.
        words: The inputs.
    """

    source: tuple[Floats, ...]
    detected: tuple[Floats, ...]
    output: Floats
    words: WordSample

    @property
    def error(self) -> Floats:
        """(N, servers, M) output levels minus ideal levels."""
        return self.output - self.words.ideal_level[:, np.newaxis]

    @property
    def rms_error(self) -> float:
        """Rms difference between the output levels and those of the network, in levels."""
        return float(np.sqrt(np.mean((self.output - self.words.network_level[:, np.newaxis]) ** 2)))

    @property
    def wrong_symbols(self) -> int:
        """Number of outputs whose error is at least half a level."""
        return int(np.count_nonzero(np.abs(self.error) >= 0.5))

    @property
    def margin(self) -> float:
        """Least 0.5 - |error| in levels; negative if a symbol is wrong."""
        return float(0.5 - np.abs(self.error).max())


def sample_words(task: Averaging, layers: Sequence[BenchLayer], modulator: Modulator) -> WordSample:
    """Draw a sample of inputs from the whole lattice, each with a random assignment of symbols to servers.

    The seed is fixed, so equal arguments give equal samples.
    """
    steps = task.sample_steps(SAMPLED_INPUTS, np.random.default_rng(SEED))
    symbols = assign_random(task, steps, SEED)
    ideal = task.ideal(task.decode(symbols))
    amplitude = symbols.reshape(len(symbols), -1) / TOP_LEVEL
    signal, network_signal = amplitude, list[Floats]()
    for layer in layers[:-1]:
        before = signal @ layer.target.unit_weight.T + layer.target.bias
        network_signal.append(before * small_signals(layer.target.factor, modulator))
        # modulators transmit at most everything, which networks with clipped activations use
        signal = np.clip(before, 0.0, 1.0)
    network_level = np.abs(signal @ layers[-1].target.unit_weight.T)
    level = np.asarray(task.encode(ideal), dtype=np.int64)
    return WordSample(amplitude, level, tuple(network_signal), network_level, modulator)


def electronics_of(bias: Bias, board: Board, layers: Sequence[BenchLayer]) -> ElectronicsSettings:
    """Return the electronics settings of a bias as arrays, for all layers of the network in order."""
    sets = [
        [bias.activations[n.label] for n in board.neurons if n.layer == layer.target.index] for layer in layers[:-1]
    ]
    gain, offset, balance = (
        tuple(np.array([getattr(one, name) for one in row]) for row in sets) for name in ("gain", "offset", "balance")
    )
    scale = np.array([bias.outputs[label] for label in layers[-1].target.plus])
    sent = np.array([bias.inputs.get(labels[0], 1.0) for labels in layers[0].target.inputs])
    return ElectronicsSettings(gain, offset, balance, scale, sent)


def with_electronics(bias: Bias, board: Board, layers: Sequence[BenchLayer], electronics: ElectronicsSettings) -> Bias:
    """Return a copy of a bias with the given electronics settings."""
    activations = dict(bias.activations)
    for i, layer in enumerate(layers[:-1]):
        labels = [neuron.label for neuron in board.neurons if neuron.layer == layer.target.index]
        columns = (electronics.gain[i].tolist(), electronics.offset[i].tolist(), electronics.balance[i].tolist())
        activations |= {label: Activation(*row) for label, *row in zip(labels, *columns, strict=True)}
    outputs = dict(zip(layers[-1].target.plus, electronics.scale.tolist(), strict=True))
    inputs = {labels[0]: sent for labels, sent in zip(layers[0].target.inputs, electronics.sent.tolist(), strict=True)}
    return replace(bias, activations=activations, outputs=outputs, inputs=inputs)


def transmit_words(
    laboratory: BenchProtocol,
    layers: Sequence[BenchLayer],
    electronics: ElectronicsSettings,
    voltage_v: Floats,
    words: WordSample,
) -> WordTransmission:
    """Send words through a chip at (H,) voltages: read detectors and update modulators until amplitudes converge."""
    amplitude = np.zeros((len(words.amplitude), len(laboratory.sources)))
    amplitude[:, layers[0].sources] = words.amplitude * electronics.sent
    before = np.inf
    for number in range(MAX_PASSES):
        read = laboratory.read(voltage_v[np.newaxis], amplitude)[0]
        driven, detected = amplitude.copy(), []
        for i, layer in enumerate(layers[:-1]):
            detected.append(detected_signals(layer, electronics.balance[i], read))
            drive = electronics.gain[i] * (detected[i] + electronics.offset[i])
            driven[:, layers[i + 1].sources] = words.modulator.field(drive)
        change = float(np.abs(driven - amplitude).max(initial=0.0))
        sent, amplitude = amplitude, driven
        # once the light has passed all layers, changes that do not decay are noise of the readings
        if change <= SETTLED_CHANGE or (number > len(layers) and change > CONVERGENCE * before):
            break
        before = change
    last = layers[-1]
    output = electronics.scale * np.sqrt(np.maximum(read[:, last.plus], 0.0))
    output = output.reshape(len(output), -1, words.ideal_level.shape[1])
    # with noise, what these readings drive next differs from what they were taken of
    source = tuple(sent[:, layer.sources] for layer in layers)
    return WordTransmission(source, tuple(detected), output, words)


def detected_signals(layer: BenchLayer, balance: Floats, read: Floats) -> Floats:
    """Return (N, neurons) detected signals of a layer without offsets, from (N, all detectors) readings."""
    target = layer.target
    plus, minus = (
        target.by_unit(target.by_row(read[:, detectors], axis=1).T).T for detectors in (layer.plus, layer.minus)
    )
    return np.asarray(plus - balance * minus)


def trim_electronics(
    electronics: ElectronicsSettings, passage: WordTransmission, process: Process
) -> ElectronicsSettings:
    """Trim thresholds, gains and scales to the signals that words cause when they are sent with some settings.

    A neuron whose words do not suffice, or that would leave the card's range, keeps its settings.
    """
    card, bits = process.activation, int(process.activation.resolution_bits)
    words, gains, offsets = passage.words, list[Floats](), list[Floats]()
    source = words.amplitude
    for i, ideal in enumerate(words.network_signal):
        right = _right_words(passage.source[i] if i else source, source)
        gain, offset = electronics.gain[i].copy(), electronics.offset[i].copy()
        for n in range(gain.size):
            found = _trimmed(passage.detected[i][right, n], ideal[right, n])
            if found is None:
                continue
            new_gain, new_offset = (float(round_significant(np.array(value), bits)) for value in found)
            if 0.0 < new_gain <= float(card.gain_max) and abs(new_offset) <= float(card.offset_max):
                gain[n], offset[n] = new_gain, new_offset
        gains.append(gain)
        offsets.append(offset)
        source = words.modulator.field(ideal)
    right = _right_words(passage.source[-1], source)
    output, level = passage.output[right], words.network_level[right, np.newaxis]
    power = (output**2).sum(axis=0)
    factor = np.divide((output * level).sum(axis=0), power, out=np.ones_like(power), where=power > 0.0)
    scale = round_significant(electronics.scale * factor.reshape(-1), bits)
    return replace(electronics, gain=tuple(gains), offset=tuple(offsets), scale=scale)


def _right_words(source: Floats, ideal: Floats) -> Bools:
    """(N,) whether all sources of a layer are near their ideal amplitudes."""
    return np.asarray((np.abs(source - ideal) < MAX_SOURCE_ERROR).all(axis=1))


def _trimmed(detected: Floats, ideal: Floats) -> tuple[float, float] | None:
    """Return gain and offset of a neuron; None if the words do not determine them.

    Both arguments are (n,): detected signals without offset, and ideal pre-activations, gain · (detected + offset).
    """
    centred = np.abs(ideal - 0.5)
    # far from the threshold, a neuron saturates whatever its gain and offset are
    near = centred <= max(1.0, 1.5 * float(centred.min(initial=np.inf)))
    signal, value = detected[near], ideal[near]
    if signal.size < MIN_WORDS:
        return None
    spread = signal - signal.mean()
    power = float(spread @ spread)
    gain = float(spread @ (value - value.mean())) / power if power > 0.0 else 0.0
    if gain <= 0.0:
        return None
    off, on = signal[value <= 0.0], signal[value >= 1.0]
    if off.size + on.size == signal.size and off.size and on.size:
        return gain, 0.5 / gain - 0.5 * float(off.max() + on.min())
    return gain, float(value.mean()) / gain - float(signal.mean())
