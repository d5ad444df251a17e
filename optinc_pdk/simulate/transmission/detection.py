"""Layers of a chip on its board: detection matrices from sources to detectors, and the electronics between layers.

Arrays of B words by n signals are calculated in column-major order: inner loops run over the words, of which there are
many, and not over the signals, of which there are few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.circuit import Bias, Board, NetlistError, Neuron, detector_groups, label_tuple
from optinc_pdk.simulate.modulator_drive import IDEAL, Modulator
from optinc_pdk.simulate.s_parameters.scattering import Scattering
from optinc_pdk.simulate.transmission.noise import DetectionSources, LightPath, Noise, NoiseDraw
from optinc_pdk.simulate.transmission.symbol_shape import SAMPLES, SymbolShape


@dataclass(frozen=True, eq=False)
class DetectionMatrix:
    """Fields at D detectors of one layer as linear functions of the amplitudes of all F sources of a chip.

    Source 0 is the carrier; the others are modulators. A modulator is an interferometer of finite extinction: at the
    amplitude a it also sends leak · √(1 - a²) in quadrature.

    Attributes:
        reaching: (L,) indices of the sources that reach a detector; the carrier, the first, is always among them.
        field: (L, 2 D) real parts, then imaginary parts, of the fields at the detectors for each source at amplitude 1.
        feed: The layer's own sources and its number of detectors, for noise.
        modulator: What the modulators send.
        phase: (D,) phases of the local oscillators of coherent receivers in rad; None for photodiodes.
        neurons: Index of the first neuron among the chip's sources.
    """

    reaching: Ints
    field: Floats
    feed: DetectionSources
    modulator: Modulator = IDEAL
    phase: Floats | None = None
    neurons: int = 0

    def fields(self, light: Floats | Complexes) -> Floats:
        """Return the (B, 2 D) fields at the detectors, real parts first, for (B, F) source amplitudes without noise.

        Complex amplitudes of the inputs are those of other chips, whose modulators already leak.
        """
        return self._fields(self._with_leak(self._seen(light)))

    def _seen(self, light: Floats | Complexes) -> Floats | Complexes:
        """(B, L) amplitudes of the sources that reach a detector."""
        # column by column; rows, and take, are several times slower
        seen: Any = light.T[self.reaching].T
        return cast("Floats | Complexes", seen)

    def _fields(self, seen: Floats | Complexes) -> Floats:
        """Fields for the (B, L) amplitudes of the sources that reach a detector."""
        # products of strided parts are many times slower than copies
        fields: Floats = (self.field.T @ np.ascontiguousarray(seen.real.T)).T
        if np.iscomplexobj(seen):
            fields += (self._turned.T @ np.ascontiguousarray(seen.imag.T)).T
        return fields

    def _with_leak(self, seen: Floats | Complexes) -> Floats | Complexes:
        """(B, L) amplitudes of the sources that reach a detector, with what leaks through modulators."""
        if not self.modulator.leak:
            return seen
        leaking = self.modulator.leak * np.sqrt(np.maximum(1.0 - seen.real**2, 0.0))
        leaking[:, : np.searchsorted(self.reaching, self.neurons) if np.iscomplexobj(seen) else 1] = 0.0
        return np.asarray(seen + 1j * leaking)

    @property
    def _turned(self) -> Floats:
        """(L, 2 D) ``field`` for sources of amplitude i."""
        count = self.feed.detectors
        return np.hstack([-self.field[:, count:], self.field[:, :count]])

    def power(self, fields: Floats) -> Floats:
        """Return the (B, D) optical powers of (B, 2 D) fields, without noise."""
        squares = np.square(fields)
        power = squares[:, : self.feed.detectors]
        power += squares[:, self.feed.detectors :]
        return power

    def readings(self, light: Floats | Complexes, noise: Noise | None, drawn: NoiseDraw | None) -> Floats:
        """Return the (B, D) readings of the detectors for (B, F) source amplitudes of consecutive symbols.

        The unit of a reading is the power of a field of amplitude 1, or its amplitude for coherent receivers. Without a
        noise model, symbols are slow; without random numbers, there is no noise.
        """
        shape = None if noise is None or noise.shape.negligible else noise.shape
        seen, factors = self._seen(light), None if drawn is None else self._factors(drawn)
        if shape is None:
            found = self.detected(self._fields(_scaled(self._with_leak(seen), factors)))
        else:
            found = self._reading_of_symbols(seen, factors, shape)
        if noise is None or drawn is None:
            return found
        return np.asarray(found + np.sqrt(self.variance(found, noise)) * drawn.readings)

    def _reading_of_symbols(self, seen: Floats | Complexes, factors: Complexes | None, shape: SymbolShape) -> Floats:
        """Return the (B, D) readings of consecutive symbols without detector noise, for (B, L) amplitudes and factors.

        What leaks through a modulator goes from that of the amplitude at the start of the symbol to that of the driven
        one with the time constant of the amplitude.
        """
        settled = self._with_leak(seen)
        driven = self._fields(_scaled(settled, factors))
        if shape.transmitter == math.inf:
            return shape.readings_of_powers([self.detected(driven)])
        rest = shape.missing(seen)
        if self.modulator.leak:
            rest = self._with_leak(seen + rest) - settled
        missing = self._fields(_scaled(rest, factors))
        if self.phase is not None:
            return shape.readings_of_powers([self.detected(driven), self.detected(missing)])
        count = self.feed.detectors
        product = 2.0 * driven * missing
        both = product[:, :count] + product[:, count:]
        return shape.readings_of_powers([self.power(driven), both, self.power(missing)])

    def instants(self, light: Floats, noise: Noise, drawn: NoiseDraw | None) -> Floats:
        """Return the (B · SAMPLES, D) light at the detectors at all instants of B symbols, (B, F).

        Noise of laser and fibres is that of ``drawn``, the same for all instants of a symbol; None for no noise.
        """
        sent = self._with_leak(noise.shape.transmitted(self._seen(light)))
        factors = None if drawn is None else np.repeat(self._factors(drawn), SAMPLES, axis=0)
        return self.detected(self._fields(_scaled(sent, factors)))

    def detected(self, fields: Floats) -> Floats:
        """Return the (B, D) readings for (B, 2 D) fields, without noise: powers, or fields of coherent receivers."""
        if self.phase is None:
            return self.power(fields)
        real, imaginary = np.split(fields, 2, axis=1)
        return np.asarray(real * np.cos(self.phase) + imaginary * np.sin(self.phase))

    def variance(self, readings: Floats, noise: Noise) -> Floats:
        """Return the variances of (B, D) readings from shot and amplifier noise."""
        return noise.variance(readings) if self.phase is None else noise.field_variance(readings)

    def _factors(self, drawn: NoiseDraw) -> Complexes:
        """(B, L) factors of the laser's and fibres' noise on the amplitudes of the sources that reach a detector."""
        factors = np.ones((len(drawn.carrier), len(self.reaching)), dtype=np.complex128)
        factors[:, 0] = drawn.carrier
        first, last = np.searchsorted(self.reaching, (self.feed.sources.start, self.feed.sources.stop))
        factors[:, first:last] = drawn.fields[:, self.reaching[first:last] - self.feed.sources.start]
        return factors


def _scaled(amplitudes: Floats | Complexes, factors: Complexes | None) -> Floats | Complexes:
    """Return amplitudes with the factors of the noise on them, if there is any."""
    return amplitudes if factors is None else np.asarray(amplitudes * factors)


@dataclass(frozen=True, eq=False)
class HiddenLayer:
    """One hidden layer of n neurons that read r rows of d pairs of detectors in total; pairs of a row are adjacent.

    A neuron drives its modulators with gain · max(Σ plus - balance · Σ minus + offset, 0), limited to 1, where the sums
    are over the pairs of its row. Several neurons may read one row; a neuron without detectors drives them with
    gain · offset.

    Attributes:
        detection: Detection matrix of the d positive detectors, followed by the d negative ones.
        starts: (r,) index of each row's first pair.
        row: (n,) row of each neuron; -1 for a neuron without detectors.
        gain: (n,) gains.
        offset: (n,) offsets.
        balance: (n,) weights of the negative detectors; neurons of one row have the same.
        source: Indices of the layer's neurons among the sources of the chip.
    """

    detection: DetectionMatrix
    starts: Ints
    row: Ints
    gain: Floats
    offset: Floats
    balance: Floats
    source: slice

    def difference(self, power: Floats) -> Floats:
        """Return the (B, n) detected differences, offsets included, for (B, 2 d) readings."""
        pairs = power.shape[1] // 2
        plus, minus = self._by_row(power[:, :pairs]), self._by_row(power[:, pairs:])
        # in place: for thousands of words, new arrays take as long as the arithmetic
        rows = minus * -self.row_balance
        rows += plus
        difference = self._of_rows(rows)
        difference += self.offset
        return difference

    @cached_property
    def row_balance(self) -> Floats:
        """(r,) weight of the negative detectors of each row: that of its neurons, which have the same."""
        first = np.array([np.argmax(self.row == row) for row in range(self.starts.size)], dtype=np.int64)
        return self.balance[first]

    @property
    def row_of_pair(self) -> Ints:
        """(d,) row of each pair of detectors."""
        return np.repeat(np.arange(self.starts.size), np.diff(self.starts, append=self.detection.feed.detectors // 2))

    def _by_row(self, values: Floats) -> Floats:
        """(B, r) sums over each row's pairs of (B, d) values per pair."""
        return np.add.reduceat(values, self.starts, axis=1) if self.starts.size < values.shape[1] else values

    def _of_rows(self, rows: Floats) -> Floats:
        """(B, n) values of the neurons' rows of (B, r) values; 0 for neurons without detectors."""
        signals = rows.T[self.row].T
        return np.asarray(signals if np.all(self.row >= 0) else np.where(self.row >= 0, signals, 0.0))

    def drive(self, difference: Floats) -> Floats:
        """Return the (B, n) drives of the modulators, before they are limited to 1, for (B, n) detected differences."""
        drive = np.maximum(difference, 0.0)
        drive *= self.gain
        return drive

    def amplitude(self, difference: Floats) -> Floats:
        """Return the (B, n) amplitudes of the modulators for (B, n) detected differences."""
        return self.detection.modulator.field(self.drive(difference))


@dataclass(frozen=True, eq=False)
class ChipNetwork:
    """All layers of a chip on its board.

    Attributes:
        layers: The hidden layers.
        receivers: Detection matrix of the receivers.
        scale: (receivers,) output level per field amplitude.
        dark: (receivers,) power that the receivers subtract.
        sources: Number of sources: the carrier, then the inputs, then the neurons.
    """

    layers: list[HiddenLayer]
    receivers: DetectionMatrix
    scale: Floats
    dark: Floats
    sources: int

    def levels(self, readings: Floats) -> Floats:
        """Return the (B, receivers) output levels: scale · √(power - dark), or scale · field."""
        # in place: for thousands of words, new arrays take as long as the arithmetic
        levels: Floats = np.maximum(readings if self.receivers.phase is not None else readings - self.dark, 0.0)
        if self.receivers.phase is None:
            np.sqrt(levels, out=levels)
        levels *= self.scale
        return levels

    def levels_of_fields(self, fields: Floats) -> Floats:
        """Return the (B, receivers) output levels for (B, 2 receivers) fields, real parts first, without noise."""
        if self.receivers.phase is not None:
            return self.levels(self.receivers.detected(fields))
        from optinc_pdk.simulate.transmission._light_kernels import photodiode_levels

        levels = np.empty((self.scale.size, len(fields)))
        photodiode_levels(np.ascontiguousarray(fields.T), self.dark, self.scale, levels)
        return levels.T

    def signed_levels(self, fields: Floats) -> Floats:
        """Return the (B, receivers) output values scale · field, of either sign, for (B, 2 receivers) fields.

        Raises:
            NetlistError: The receivers are photodiodes, which see no sign.
        """
        if self.receivers.phase is None:
            raise NetlistError(
                "the outputs end in photodiodes (info.board.receivers), which see no sign; give the netlist of a "
                "general network's chip"
            )
        return self.receivers.detected(fields) * self.scale

    def thresholds(self, levels: Floats) -> Floats:
        """Return the (B, receivers) readings at output levels; the inverse of :meth:`levels`."""
        found = np.maximum(levels, 0.0) / self.scale
        return np.asarray(found if self.receivers.phase is not None else found**2 + self.dark)

    @property
    def detection_sources(self) -> list[DetectionSources]:
        """Sources and detectors of each hidden layer and of the receivers, for noise."""
        return [*(layer.detection.feed for layer in self.layers), self.receivers.feed]

    @property
    def forward(self) -> bool:
        """Whether no modulator's light reaches detectors of its own layer or of an earlier one."""
        return all(layer.detection.reaching.max(initial=0) < layer.source.start for layer in self.layers)


def source_labels(board: Board) -> list[tuple[str, ...]]:
    """Return the labels of each source of a chip: the carrier in all its fibres, the inputs, the neurons by layer."""
    neurons = [neuron for layer in range(board.layers) for neuron in board.neurons if neuron.layer == layer]
    inputs = ((label,) for row in board.inputs for label in row)
    return [board.unmodulated, *inputs, *(label_tuple(neuron.to) for neuron in neurons)]


class _Optics:
    """Fields per amplitude of the sources: the carrier in all its fibres, the inputs, the neurons."""

    def __init__(self, scattering: Scattering, board: Board, wavelength: int) -> None:
        self.scattering = scattering
        self.wavelength = wavelength
        groups = source_labels(board)
        self.sources = [label for group in groups for label in group]
        self.neurons = 1 + sum(map(len, board.inputs))
        self.starts = np.cumsum([0, *map(len, groups[:-1])])
        driven = set(scattering.modulators)
        paths: list[LightPath] = ["chip" if driven.intersection(group) else "board" for group in groups]
        paths[1 : self.neurons] = ["server"] * (self.neurons - 1)
        self.path = paths
        self.strength = scattering.strength(self.sources, board.launched)[wavelength]

    def fields(self, detectors: list[str]) -> Complexes:
        """(D, F) fields at some detectors for each source at amplitude 1."""
        s = self.scattering.between(detectors, self.sources)[self.wavelength] * self.strength
        return np.asarray(np.add.reduceat(s, self.starts, axis=1))

    def to(self, detectors: list[str], source: slice, phase: Floats | None = None) -> DetectionMatrix:
        """Detection matrix of some detectors; ``source`` are their layer's sources."""
        fields = self.fields(detectors).T
        # the carrier stays, so that the matrix is never empty
        reaching = np.flatnonzero(np.append(True, np.any(fields[1:] != 0.0, axis=1)))
        # the oscillator of a coherent receiver comes to its server in a fibre of its own, beside that of the light
        path: LightPath = self.path[source.start] if phase is None else "board"
        feed = DetectionSources(source, path, len(detectors))
        stacked = np.hstack([fields.real, fields.imag])[reaching]
        return DetectionMatrix(reaching, stacked, feed, self.scattering.modulator, phase, self.neurons)


def receiver_fields(scattering: Scattering, board: Board, wavelength: int = 0) -> Complexes:
    """Return the (receivers, J) fields at the receivers from every source of the last layer at amplitude 1.

    The J sources are the neurons of the last hidden layer, or the inputs if there is none.
    """
    receivers = [label for row in board.outputs for label in row]
    optics = _Optics(scattering, board, wavelength)
    last = [neuron for neuron in board.neurons if neuron.layer == board.layers - 2]
    count = len(last) if last else sum(map(len, board.inputs))
    return optics.fields(receivers)[:, -count:]


def network_of(scattering: Scattering, board: Board, bias: Bias, wavelength: int) -> ChipNetwork:
    """Build the detection matrices and electronics of a chip on its board.

    Args:
        scattering: S-parameters of the whole chip.
        board: Board netlist that joins the chip's fibres.
        bias: Electronics of the neurons and scales of the receivers.
        wavelength: Index of the wavelength in ``scattering``.

    Raises:
        NetlistError: The bias lacks a neuron or a receiver, or neurons that share detectors differ in balance.
    """
    receivers = [label for row in board.outputs for label in row]
    optics = _Optics(scattering, board, wavelength)
    layers = []
    source = slice(1, 1 + sum(map(len, board.inputs)))
    for index in range(board.layers - 1):
        neurons = [neuron for neuron in board.neurons if neuron.layer == index]
        missing = [neuron.label for neuron in neurons if neuron.label not in bias.activations]
        if missing:
            raise NetlistError(f"the bias has no activation for neuron {missing[0]!r}")
        electronics = [bias.activations[neuron.label] for neuron in neurons]
        rows, row = detector_groups(neurons)
        _check_balances(neurons, row, bias)
        following = slice(source.stop, source.stop + len(neurons))
        layers.append(
            HiddenLayer(
                detection=optics.to(
                    [label for side in ("plus", "minus") for n in rows for label in label_tuple(getattr(n, side))],
                    source,
                ),
                starts=np.cumsum([0, *(len(label_tuple(n.plus)) for n in rows[:-1])]),
                row=np.array(row, dtype=np.int64),
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
    unlocked = [label for label in receivers if board.coherent and label not in bias.phases]
    if unlocked:
        raise NetlistError(
            f"the bias has no phase_rad for the coherent receiver of fibre {unlocked[0]!r}; give netlist and bias of "
            "one chip"
        )
    key, odd, kind = (
        ("dark", bias.dark, "coherent receiver") if board.coherent else ("phase_rad", bias.phases, "photodiode")
    )
    if odd:
        raise NetlistError(
            f"the bias has a {key} for fibre {next(iter(odd))!r}, which ends in a {kind}; give netlist and bias of one "
            "chip"
        )
    scale = np.array([bias.outputs[label] for label in receivers])
    dark = np.array([bias.dark.get(label, 0.0) for label in receivers])
    phase = np.array([bias.phases[label] for label in receivers]) if board.coherent else None
    return ChipNetwork(layers, optics.to(receivers, source, phase), scale, dark, source.stop)


def _check_balances(neurons: Sequence[Neuron], row: Sequence[int], bias: Bias) -> None:
    """Check that neurons that share detectors have the same balance, which is a property of the detectors."""
    first: dict[int, Neuron] = {}
    for neuron, number in zip(neurons, row, strict=True):
        other = first.setdefault(number, neuron)
        balances = [bias.activations[each.label].balance for each in (other, neuron)]
        if number >= 0 and balances[0] != balances[1]:
            raise NetlistError(
                f"neurons {other.label!r} and {neuron.label!r} share detectors, but the bias has balances "
                f"{balances[0]:g} and {balances[1]:g}; give them one"
            )
