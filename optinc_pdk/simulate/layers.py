"""Chip and board as a network of layers: what every detector sees of every source, and the electronics between."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.circuit import Bias, Board, NetlistError, labels
from optinc_pdk.simulate.noise import Draw, Feed, Noise
from optinc_pdk.simulate.scatter import Scattering

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Sight:
    """What D detectors see of F sources.

    Attributes:
        lit: (L,) the sources that reach them.
        field: (L, 2 D) real parts, then imaginary parts, at each detector of a source at an amplitude of 1.
        feed: Their sources and number, for noise.
    """

    lit: Ints
    field: Floats
    feed: Feed

    def fields(self, light: Floats) -> Floats:
        """(B, 2 D) real and imaginary parts at the detectors for (B, F) amplitudes."""
        return np.asarray(light[:, self.lit] @ self.field)

    def power(self, fields: Floats) -> Floats:
        """(B, D) power of (B, 2 D) fields."""
        count = self.feed.detectors
        return np.asarray(fields[:, :count] ** 2 + fields[:, count:] ** 2)

    def powers(self, light: Floats, noise: Noise | None, drawn: Draw | None) -> Floats:
        """(B, D) readings of the detectors, in units of a field of amplitude 1 squared, for (B, F) amplitudes."""
        if noise is None or drawn is None:
            return self.power(self.fields(light))
        count = self.feed.detectors
        mine = self.feed.sources
        real, imaginary = light.copy(), np.zeros_like(light)
        real[:, 0] *= drawn.carrier
        real[:, mine] = light[:, mine] * drawn.fields.real
        imaginary[:, mine] = light[:, mine] * drawn.fields.imag
        turned = np.hstack([-self.field[:, count:], self.field[:, :count]])
        power = self.power(self.fields(real) + imaginary[:, self.lit] @ turned)
        return np.asarray(power + np.sqrt(noise.variance(power)) * drawn.readings)


@dataclass(frozen=True, eq=False)
class Layer:
    """One hidden layer: electronics of n neurons with d pairs of detectors, those of a neuron side by side.

    ``sight`` is of d positive and then d negative detectors; ``starts`` (n,) each neuron's first pair.
    """

    sight: Sight
    starts: Ints
    gain: Floats
    offset: Floats
    balance: Floats
    source: slice

    def difference(self, power: Floats) -> Floats:
        """(B, n) detected differences with their offsets, from (B, 2 d) readings."""
        plus, minus = np.split(power, 2, axis=1)
        if self.starts.size < plus.shape[1]:
            plus, minus = (np.add.reduceat(each, self.starts, axis=1) for each in (plus, minus))
        return np.asarray(plus - self.balance * minus + self.offset)

    def drive(self, power: Floats) -> Floats:
        """(B, n) modulator amplitudes before saturation."""
        return np.asarray(self.gain * np.maximum(self.difference(power), 0.0))


@dataclass(frozen=True, eq=False)
class Network:
    """All layers; ``sources`` counts the carrier, inputs and neurons, ``scale`` is (receivers,)."""

    layers: list[Layer]
    receivers: Sight
    scale: Floats
    sources: int

    @property
    def feeds(self) -> list[Feed]:
        """What the detectors of each layer and the receivers see."""
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

    def to(self, detectors: list[str], source: slice) -> Sight:
        """What some detectors see, whose layer has these sources."""
        s = self.scattering.between(detectors, self.sources)[self.wavelength] * self.strength
        seen = np.add.reduceat(s, self.starts, axis=1).T
        # the carrier stays, so that there is something to multiply in the dark
        lit = np.flatnonzero(np.append(True, np.any(seen[1:] != 0.0, axis=1)))
        feed = Feed(source, self.fibre[source.start], len(detectors))
        return Sight(lit, np.hstack([seen.real, seen.imag])[lit], feed)


def network_of(scattering: Scattering, board: Board, bias: Bias, wavelength: int) -> Network:
    """The layers of a chip on its board.

    Raises:
        NetlistError: The bias lacks a neuron or a receiver.
    """
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
            Layer(
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
    return Network(layers, optics.to(receivers, source), scale, source.stop)
