"""Light through the network: the chip by its S-matrix between fibres, the board by its activations.

All sources are phase-locked, with phase 0 at their fibre: the carrier with amplitude 1, every modulator with
its own amplitude of at most 1. A modulator on the chip lets out its drive times the carrier that reaches it.
What a modulator of a later layer sends back into an earlier one is part of the sum too. Noise, where it is asked for,
is that of :mod:`optinc_pdk.simulate.noise`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.circuit import Bias, Board, NetlistError, labels
from optinc_pdk.simulate.noise import Draw, Feed, Noise, draw
from optinc_pdk.simulate.scatter import Scattering

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
class _Sight:
    """What D detectors see of F sources.

    Attributes:
        lit: (L,) the sources that reach them.
        field: (L, 2 D) real parts, then imaginary parts, at each detector of a source at an amplitude of 1.
        feed: Their sources and number, for noise.
    """

    lit: Ints
    field: Floats
    feed: Feed

    def powers(self, light: Floats, noise: Noise | None, drawn: Draw | None) -> Floats:
        """(B, D) readings of the detectors, in units of a field of amplitude 1 squared, for (B, F) amplitudes."""
        count = self.feed.detectors
        if noise is None or drawn is None:
            field = light[:, self.lit] @ self.field
            return np.asarray(field[:, :count] ** 2 + field[:, count:] ** 2)
        mine = self.feed.sources
        real, imaginary = light.copy(), np.zeros_like(light)
        real[:, 0] *= drawn.carrier
        real[:, mine] = light[:, mine] * drawn.fields.real
        imaginary[:, mine] = light[:, mine] * drawn.fields.imag
        turned = np.hstack([-self.field[:, count:], self.field[:, :count]])
        field = real[:, self.lit] @ self.field + imaginary[:, self.lit] @ turned
        power = field[:, :count] ** 2 + field[:, count:] ** 2
        return np.asarray(power + np.sqrt(noise.variance(power)) * drawn.readings)


@dataclass(frozen=True, eq=False)
class _Layer:
    """One hidden layer: electronics of n neurons with d pairs of detectors, those of a neuron side by side.

    ``sight`` is of d positive and then d negative detectors; ``starts`` (n,) each neuron's first pair.
    """

    sight: _Sight
    starts: Ints
    gain: Floats
    offset: Floats
    balance: Floats
    source: slice


def transmit(
    symbols: ArrayLike,
    scattering: Scattering,
    board: Board,
    bias: Bias,
    wavelength: int = 0,
    *,
    noise: Noise | None = None,
    seed: int = 0,
) -> Reception:
    """Send symbols through chip and board.

    Args:
        symbols: (B, servers, M) levels 0 … 3, most significant first; sent with amplitude symbol/3.
        scattering: S-parameters of the whole chip.
        board: What joins its fibres outside.
        bias: Electronics of the neurons and scales of the receivers.
        wavelength: Which of the scattering's wavelengths carries the light.
        noise: Noise of lasers, fibres and receivers; none where left out.
        seed: Equal seeds give the i-th word equal noise, whatever goes with it.

    Raises:
        NetlistError: The bias lacks a neuron or a receiver.
        ValueError: A wrong shape, or light that does not settle because layers feed each other.
    """
    sent = np.asarray(symbols, dtype=np.float64)
    servers, count = len(board.inputs), len(board.inputs[0])
    if sent.ndim != 3 or sent.shape[1:] != (servers, count):
        raise ValueError(f"symbols has shape {sent.shape}; give (words, {servers} servers, {count} symbols)")
    network = _network(scattering, board, bias, wavelength)
    outputs = np.empty((sent.shape[0], network.scale.size))
    peaks = [np.zeros(layer.gain.size) for layer in network.layers]
    saturated = 0
    for start in range(0, sent.shape[0], CHUNK):
        inputs = sent[start : start + CHUNK].reshape(-1, servers * count) / TOP_LEVEL
        drawn = None if noise is None else draw(noise, network.feeds, start, inputs.shape[0], seed)
        light, raw = _settle(inputs, network, noise, drawn)
        saturated += sum(int((amplitude > 1.0).sum()) for amplitude in raw)
        peaks = [np.maximum(peak, amplitude.max(axis=0)) for peak, amplitude in zip(peaks, raw, strict=True)]
        power = network.receivers.powers(light, noise, None if drawn is None else drawn[-1])
        outputs[start : start + CHUNK] = network.scale * np.sqrt(np.maximum(power, 0.0))
    received = outputs.reshape(-1, len(board.outputs), len(board.outputs[0]))
    levels = np.clip(np.floor(received + 0.5), 0, TOP_LEVEL).astype(np.int64)
    return Reception(received, levels, tuple(peaks), saturated)


@dataclass(frozen=True, eq=False)
class _Network:
    """All layers; ``sources`` counts the carrier, inputs and neurons, ``scale`` is (receivers,)."""

    layers: list[_Layer]
    receivers: _Sight
    scale: Floats
    sources: int

    @property
    def feeds(self) -> list[Feed]:
        return [*(layer.sight.feed for layer in self.layers), self.receivers.feed]

    @property
    def forward(self) -> bool:
        """Whether no modulator reaches detectors of its own or of an earlier layer."""
        return all(layer.sight.lit.max(initial=0) < layer.source.start for layer in self.layers)


class _Optics:
    """S from the sources' amplitudes: the carrier in all its fibres, the inputs, the neurons."""

    def __init__(self, scattering: Scattering, board: Board, wavelength: int) -> None:
        self.scattering = scattering
        self.wavelength = wavelength
        groups = [board.steady, *((label,) for row in board.inputs for label in row)]
        groups += [
            labels(neuron.to) for layer in range(board.layers) for neuron in board.neurons if neuron.layer == layer
        ]
        self.sources = [label for group in groups for label in group]
        self.starts = np.cumsum([0, *map(len, groups[:-1])])
        driven = set(scattering.modulators)
        self.fibre = [not driven.intersection(group) for group in groups]
        self.strength = scattering.strength(self.sources, board.steady)[wavelength]

    def to(self, detectors: list[str], source: slice) -> _Sight:
        """What some detectors see, whose layer has these sources."""
        s = self.scattering.between(detectors, self.sources)[self.wavelength] * self.strength
        seen = np.add.reduceat(s, self.starts, axis=1).T
        # the carrier stays, so that there is something to multiply in the dark
        lit = np.flatnonzero(np.append(True, np.any(seen[1:] != 0.0, axis=1)))
        feed = Feed(source, self.fibre[source.start], len(detectors))
        return _Sight(lit, np.hstack([seen.real, seen.imag])[lit], feed)


def _network(scattering: Scattering, board: Board, bias: Bias, wavelength: int) -> _Network:
    receivers = [label for row in board.outputs for label in row]
    optics = _Optics(scattering, board, wavelength)
    layers = []
    source = slice(1, 1 + sum(map(len, board.inputs)))
    for index in range(board.layers - 1):
        mine = [neuron for neuron in board.neurons if neuron.layer == index]
        missing = [neuron.label for neuron in mine if neuron.label not in bias.activations]
        if missing:
            raise NetlistError(f"the bias has no activation for neuron {missing[0]!r}")
        electronics = [bias.activations[neuron.label] for neuron in mine]
        following = slice(source.stop, source.stop + len(mine))
        layers.append(
            _Layer(
                sight=optics.to(
                    [label for side in ("plus", "minus") for n in mine for label in labels(getattr(n, side))], source
                ),
                starts=np.cumsum([0, *(len(labels(n.plus)) for n in mine[:-1])]),
                gain=np.array([e.gain for e in electronics]),
                offset=np.array([e.offset for e in electronics]),
                balance=np.array([e.balance for e in electronics]),
                source=following,
            )
        )
        source = following
    missing = [label for label in receivers if label not in bias.outputs]
    if missing:
        raise NetlistError(f"the bias has no receiver scale for fibre {missing[0]!r}")
    scale = np.array([bias.outputs[label] for label in receivers])
    return _Network(layers, optics.to(receivers, source), scale, source.stop)


def _settle(
    inputs: Floats, network: _Network, noise: Noise | None, drawn: list[Draw] | None
) -> tuple[Floats, list[Floats]]:
    """Amplitudes of all sources, (B, sources), and each layer's modulators before saturation.

    One pass is the network itself; reflections let later modulators reach earlier detectors, so passes go on
    until nothing changes.
    """
    light = np.zeros((inputs.shape[0], network.sources))
    light[:, 0] = 1.0
    light[:, 1 : 1 + inputs.shape[1]] = inputs
    raw: list[Floats] = [np.zeros(0)] * len(network.layers)
    for _ in range(MAX_PASSES):
        change = 0.0
        for index, layer in enumerate(network.layers):
            power = layer.sight.powers(light, noise, None if drawn is None else drawn[index])
            raw[index] = _activate(layer, power)
            amplitude = np.minimum(raw[index], 1.0)
            change = max(change, float(np.max(np.abs(amplitude - light[:, layer.source]), initial=0.0)))
            light[:, layer.source] = amplitude
        if network.forward or change <= SETTLED:
            return light, raw
    raise ValueError(
        f"light does not settle within {MAX_PASSES} passes, its last change is {change:.3g}: the layers' "
        "reflections feed each other; lower the gains or the reflections"
    )


def _activate(layer: _Layer, power: Floats) -> Floats:
    plus, minus = np.split(power, 2, axis=1)
    if layer.starts.size < plus.shape[1]:
        plus, minus = (np.add.reduceat(each, layer.starts, axis=1) for each in (plus, minus))
    driven: Floats = layer.gain * np.maximum(plus - layer.balance * minus + layer.offset, 0.0)
    return driven
