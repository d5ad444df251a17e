"""Light through the network: the chip by its S-matrix between fibres, the board by its activations.

All sources are phase-locked, with phase 0 at their fibre: the carrier with amplitude 1, every modulator with
its own amplitude of at most 1. A modulator on the chip lets out its drive times the carrier that reaches it.
What a modulator of a later layer sends back into an earlier one is part of the sum too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.circuit import Bias, Board, NetlistError, labels
from optinc_pdk.simulate.scatter import Scattering

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TOP_LEVEL = 3
"""The highest PAM4 level, which servers send with amplitude 1."""
CHUNK = 8192
SETTLED = 1e-9
MAX_PASSES = 20


@dataclass(frozen=True, eq=False)
class Reception:
    """What the servers receive; B words in.

    Attributes:
        outputs: (B, servers, M) levels before the decision, scale · |field|.
        levels: (B, servers, M) decided levels, 0 … 3.
        hidden: Per hidden layer, (neurons,) largest modulator amplitude over the batch, before saturation.
        saturated: Number of modulator amplitudes above 1, which were cut to 1.
    """

    outputs: Floats
    levels: Ints
    hidden: tuple[Floats, ...]
    saturated: int


@dataclass(frozen=True, eq=False)
class _Layer:
    """One hidden layer: electronics of n neurons with d pairs of detectors, those of a neuron side by side.

    ``detect`` is (F, 4 d), S from F sources: plus re, im, minus re, im; ``starts`` (n,) each neuron's first pair.
    """

    detect: Floats
    starts: Ints
    gain: Floats
    offset: Floats
    balance: Floats
    source: slice


def transmit(symbols: ArrayLike, scattering: Scattering, board: Board, bias: Bias, wavelength: int = 0) -> Reception:
    """Send symbols through chip and board.

    Args:
        symbols: (B, servers, M) levels 0 … 3, most significant first; sent with amplitude symbol/3.
        scattering: S-parameters of the whole chip.
        board: What joins its fibres outside.
        bias: Electronics of the neurons and scales of the receivers.
        wavelength: Which of the scattering's wavelengths carries the light.

    Raises:
        NetlistError: The bias lacks a neuron or a receiver.
        ValueError: A wrong shape, or light that does not settle because layers feed each other.
    """
    sent = np.asarray(symbols, dtype=np.float64)
    servers, count = len(board.inputs), len(board.inputs[0])
    if sent.ndim != 3 or sent.shape[1:] != (servers, count):
        raise ValueError(f"symbols has shape {sent.shape}; give (words, {servers} servers, {count} symbols)")
    inputs = [label for row in board.inputs for label in row]
    optics = _Optics(scattering, board, wavelength)
    layers = _layers(optics, board, bias)
    receivers = [label for row in board.outputs for label in row]
    missing = [label for label in receivers if label not in bias.outputs]
    if missing:
        raise NetlistError(f"the bias has no receiver scale for fibre {missing[0]!r}")
    out = optics.to(receivers)
    scale = np.array([bias.outputs[label] for label in receivers])
    outputs = np.empty((sent.shape[0], len(receivers)))
    peaks = [np.zeros(layer.gain.size) for layer in layers]
    saturated = 0
    for start in range(0, sent.shape[0], CHUNK):
        piece = slice(start, start + CHUNK)
        light, raw = _settle(sent[piece].reshape(-1, len(inputs)) / TOP_LEVEL, layers, out.shape[0])
        saturated += sum(int((amplitude > 1.0).sum()) for amplitude in raw)
        peaks = [np.maximum(peak, amplitude.max(axis=0)) for peak, amplitude in zip(peaks, raw, strict=True)]
        outputs[piece] = scale * np.abs(light @ out)
    received = outputs.reshape(-1, len(board.outputs), len(board.outputs[0]))
    levels = np.clip(np.floor(received + 0.5), 0, TOP_LEVEL).astype(np.int64)
    return Reception(received, levels, tuple(peaks), saturated)


class _Optics:
    """S from the sources' amplitudes: the carrier in all its fibres, the inputs, the neurons."""

    def __init__(self, scattering: Scattering, board: Board, wavelength: int) -> None:
        self.scattering = scattering
        self.wavelength = wavelength
        groups = [board.steady, *((label,) for row in board.inputs for label in row)]
        groups += [labels(neuron.to) for neuron in board.neurons]
        self.sources = [label for group in groups for label in group]
        self.starts = np.cumsum([0, *map(len, groups[:-1])])
        self.strength = scattering.strength(self.sources, board.steady)[wavelength]

    def to(self, detectors: list[str]) -> Complexes:
        """(F, detectors) fields at some labels from each source at an amplitude of 1."""
        s = self.scattering.between(detectors, self.sources)[self.wavelength] * self.strength
        return np.asarray(np.add.reduceat(s, self.starts, axis=1).T)


def _layers(optics: _Optics, board: Board, bias: Bias) -> list[_Layer]:
    layers = []
    first = 1 + sum(map(len, board.inputs))
    for index in range(board.layers - 1):
        mine = [neuron for neuron in board.neurons if neuron.layer == index]
        missing = [neuron.label for neuron in mine if neuron.label not in bias.activations]
        if missing:
            raise NetlistError(f"the bias has no activation for neuron {missing[0]!r}")
        plus = optics.to([label for n in mine for label in labels(n.plus)])
        minus = optics.to([label for n in mine for label in labels(n.minus)])
        electronics = [bias.activations[neuron.label] for neuron in mine]
        layers.append(
            _Layer(
                detect=np.hstack([plus.real, plus.imag, minus.real, minus.imag]),
                starts=np.cumsum([0, *(len(labels(n.plus)) for n in mine[:-1])]),
                gain=np.array([e.gain for e in electronics]),
                offset=np.array([e.offset for e in electronics]),
                balance=np.array([e.balance for e in electronics]),
                source=slice(first, first + len(mine)),
            )
        )
        first += len(mine)
    return layers


def _settle(inputs: Floats, layers: list[_Layer], sources: int) -> tuple[Floats, list[Floats]]:
    """Amplitudes of all sources, (B, sources), and each layer's modulators before saturation.

    One pass is the network itself; reflections let later modulators reach earlier detectors, so passes go on
    until nothing changes.
    """
    light = np.zeros((inputs.shape[0], sources))
    light[:, 0] = 1.0
    light[:, 1 : 1 + inputs.shape[1]] = inputs
    raw: list[Floats] = [np.zeros(0)] * len(layers)
    for _ in range(MAX_PASSES):
        change = 0.0
        for index, layer in enumerate(layers):
            raw[index] = _activate(layer, light)
            amplitude = np.minimum(raw[index], 1.0)
            change = max(change, float(np.max(np.abs(amplitude - light[:, layer.source]), initial=0.0)))
            light[:, layer.source] = amplitude
        if change <= SETTLED:
            return light, raw
    raise ValueError(
        f"light does not settle within {MAX_PASSES} passes, its last change is {change:.3g}: the layers' "
        "reflections feed each other; lower the gains or the reflections"
    )


def _activate(layer: _Layer, light: Floats) -> Floats:
    power = (light @ layer.detect) ** 2
    real_plus, imag_plus, real_minus, imag_minus = np.split(power, 4, axis=1)
    plus, minus = real_plus + imag_plus, real_minus + imag_minus
    if layer.starts.size < plus.shape[1]:
        plus, minus = (np.add.reduceat(each, layer.starts, axis=1) for each in (plus, minus))
    driven: Floats = layer.gain * np.maximum(plus - layer.balance * minus + layer.offset, 0.0)
    return driven
