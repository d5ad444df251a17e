"""The whole chip on the bench: servers' words in, every layer's readings through the electronics, levels out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.averaging import Averaging, assign_random
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.circuit.bias import Activation
from optinc_pdk.simulate.network import MAX_PASSES, SETTLED, TOP_LEVEL
from optinc_pdk.tolerance.calibration.measure import Laboratory, Layer

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WORDS = 4096
"""Inputs of the lattice that are tried."""
SEED = 7
NEARER = 0.5
"""Reflections die away faster than by this factor a pass."""


@dataclass(frozen=True, eq=False)
class Words:
    """N inputs of a chip.

    Attributes:
        amplitude: (N, J) of the servers' modulators, 1 at full scale.
        level: (N, M) ideal levels at the outputs.
        wanted: (N, M) levels that the network makes of them.
    """

    amplitude: Floats
    level: Ints
    wanted: Floats


@dataclass(frozen=True, eq=False)
class Electronics:
    """What a board's electronics are set to, as arrays.

    Attributes:
        gain: Per hidden layer, (neurons,).
        offset: Per hidden layer, (neurons,).
        balance: Per hidden layer, (neurons,).
        scale: (receivers,) level over the root of a reading.
        sent: (J,) amplitude of the servers' modulators at full scale.
    """

    gain: tuple[Floats, ...]
    offset: tuple[Floats, ...]
    balance: tuple[Floats, ...]
    scale: Floats
    sent: Floats


@dataclass(frozen=True, eq=False)
class Passage:
    """N inputs on their way through a chip.

    Attributes:
        source: Per layer, (N, J) amplitudes of its sources.
        output: (N, servers, M) levels before the decision.
        words: What was sent.
    """

    source: tuple[Floats, ...]
    output: Floats
    words: Words

    @property
    def error(self) -> Floats:
        """(N, servers, M) what outputs are off the ideal levels."""
        return self.output - self.words.level[:, np.newaxis]

    @property
    def off(self) -> float:
        """Rms of what outputs are off those of the network."""
        return float(np.sqrt(np.mean((self.output - self.words.wanted[:, np.newaxis]) ** 2)))

    @property
    def wrong(self) -> int:
        """Symbols that are missed."""
        return int(np.count_nonzero(np.abs(self.error) >= 0.5))

    @property
    def margin(self) -> float:
        """min of 0.5 - |error|; below 0 where a symbol is missed."""
        return float(0.5 - np.abs(self.error).max())


def sample_words(task: Averaging, layers: Sequence[Layer]) -> Words:
    """Inputs from all over the lattice, each with some assignment of symbols to servers."""
    steps = task.sample_steps(WORDS, np.random.default_rng(SEED))
    symbols = assign_random(task, steps, SEED)
    ideal = task.ideal(task.decode(symbols))
    amplitude = symbols.reshape(len(symbols), -1) / TOP_LEVEL
    signal = amplitude
    for layer in layers[:-1]:
        signal = np.maximum(signal @ layer.target.weight.T + layer.target.bias, 0.0)
    wanted = np.abs(signal @ layers[-1].target.weight.T)
    return Words(amplitude, np.asarray(task.encode(ideal), dtype=np.int64), wanted)


def electronics_of(bias: Bias, board: Board, layers: Sequence[Layer]) -> Electronics:
    """A bias's electronics as arrays."""
    sets = [
        [bias.activations[n.label] for n in board.neurons if n.layer == layer.target.index] for layer in layers[:-1]
    ]
    gain, offset, balance = (
        tuple(np.array([getattr(one, name) for one in row]) for row in sets) for name in ("gain", "offset", "balance")
    )
    scale = np.array([bias.outputs[label] for label in layers[-1].target.plus])
    sent = np.array([bias.inputs.get(labels[0], 1.0) for labels in layers[0].target.inputs])
    return Electronics(gain, offset, balance, scale, sent)


def with_electronics(bias: Bias, board: Board, layers: Sequence[Layer], electronics: Electronics) -> Bias:
    """A bias with other electronics."""
    activations = dict(bias.activations)
    for i, layer in enumerate(layers[:-1]):
        labels = [neuron.label for neuron in board.neurons if neuron.layer == layer.target.index]
        columns = (electronics.gain[i].tolist(), electronics.offset[i].tolist(), electronics.balance[i].tolist())
        activations |= {label: Activation(*row) for label, *row in zip(labels, *columns, strict=True)}
    outputs = dict(zip(layers[-1].target.plus, electronics.scale.tolist(), strict=True))
    inputs = {labels[0]: sent for labels, sent in zip(layers[0].target.inputs, electronics.sent.tolist(), strict=True)}
    return replace(bias, activations=activations, outputs=outputs, inputs=inputs)


def play(
    laboratory: Laboratory, layers: Sequence[Layer], electronics: Electronics, voltage_v: Floats, words: Words
) -> Passage:
    """Send words through a chip: read, drive the modulators by what was read, until nothing changes.

    Args:
        laboratory: The bench.
        layers: The layers.
        electronics: What stands between detectors and modulators.
        voltage_v: (H,) voltages of the heaters.
        words: What the servers send.
    """
    amplitude = np.zeros((len(words.amplitude), len(laboratory.sources)))
    amplitude[:, layers[0].sources] = words.amplitude * electronics.sent
    before = np.inf
    for number in range(MAX_PASSES):
        read = laboratory.read(voltage_v[np.newaxis], amplitude)[0]
        driven = amplitude.copy()
        for i, layer in enumerate(layers[:-1]):
            driven[:, layers[i + 1].sources] = np.minimum(_drive(layer, electronics, i, read), 1.0)
        change = float(np.abs(driven - amplitude).max(initial=0.0))
        amplitude = driven
        # once light has passed all layers, what comes no nearer is the readings' noise
        if change <= SETTLED or (number > len(layers) and change > NEARER * before):
            break
        before = change
    last = layers[-1]
    output = electronics.scale * np.sqrt(np.maximum(read[:, last.plus], 0.0))
    output = output.reshape(len(output), -1, words.level.shape[1])
    source = tuple(amplitude[:, layer.sources] for layer in layers)
    return Passage(source, output, words)


def _drive(layer: Layer, electronics: Electronics, index: int, read: Floats) -> Floats:
    """(N, neurons) amplitudes of a layer's modulators before saturation, from (N, all detectors) readings."""
    plus, minus = (layer.target.by_row(read[:, mine], axis=1) for mine in (layer.plus, layer.minus))
    seen = plus - electronics.balance[index] * minus + electronics.offset[index]
    return np.asarray(electronics.gain[index] * np.maximum(seen, 0.0))
