"""Shape of symbols: what limited bandwidth leaves of one symbol, and adds of the symbols before it, in a reading.

Neurons are clocked. A modulator holds its drive for one symbol; with a bandwidth f its amplitude follows exponentially,
with the time constant 1 / 2πf. Detectors see the power of the sum of all fields at every instant. Photodiode and
amplifier are one low-pass filter, and a reading is the mean of its output over a window at the end of the symbol: a
short window avoids the transition from the symbol before, a long one averages noise. The filters of electronics and
modulator in series, and those of photodiode and amplifier, are each replaced by one of equal sum of 1 / f².

A symbol is represented by ``SAMPLES`` instants. Between them, power is taken as linear. All amplitudes approach what
is driven with one time constant, so that power is a polynomial of second order in the share that is missing; a reading
is a sum of its three coefficients, of the symbol itself and of those before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from optinc_pdk.arrays import Complexes, Floats

SAMPLES = 16
"""Instants of a symbol at which light is evaluated; the last one is its end."""
WINDOWS = tuple(count / 8 for count in range(7, 0, -1))
"""Lengths of windows to choose from, over the length of a symbol; an eighth is left to reset the integrator."""
POWERS = 3
"""Powers 0 … 2 of the share of the amplitude that is missing, of which the power of light is a sum."""
LEVELS = 16
"""Number of levels of a signal by which filters are chosen: a sum of symbols of four servers, with a carry, has 16."""
SMALLEST = 1e-17
"""Share of an earlier output that is lost in the rounding of a later one."""
NEGLIGIBLE = 1e-9
"""Largest share of the symbol before in a reading at which it is neglected."""


@dataclass(frozen=True)
class SymbolShape:
    """Filters of one symbol rate.

    Attributes:
        transmitter: Length of a symbol in time constants of the modulator with its electronics; infinite for none.
        receiver: Length of a symbol in time constants of photodiode and amplifier; infinite for none.
        window: Length of the window over that of a symbol, a multiple of 1/8.
    """

    transmitter: float
    receiver: float
    window: float

    def transmitted(self, amplitudes: Floats | Complexes) -> Floats | Complexes:
        """Return the (B · SAMPLES, F) amplitudes at all instants of B symbols that are driven with (B, F) amplitudes.

        The symbols follow each other and repeat: the last one precedes the first.
        """
        if self.transmitter == math.inf:
            held: Floats | Complexes = amplitudes.repeat(SAMPLES, axis=0)
            return held
        shape: Any = amplitudes[:, np.newaxis] + self.missing(amplitudes)[:, np.newaxis] * self._decay[:, np.newaxis]
        found: Floats | Complexes = shape.reshape(-1, amplitudes.shape[1])
        return found

    def missing(self, amplitudes: Floats | Complexes) -> Floats | Complexes:
        """Return the (B, F) differences between the amplitudes at the start of B symbols and those that are driven.

        They decay with the time constant of the modulator. The symbols repeat: the last one precedes the first.
        """
        left = math.exp(-self.transmitter)
        # amplitude at the end of every symbol
        end = _low_pass((1.0 - left, 0.0), left, amplitudes)
        found: Floats | Complexes = _preceding(end) - amplitudes
        return found

    @property
    def _decay(self) -> Floats:
        """(SAMPLES,) share of the missing amplitude that is left at every instant of a symbol."""
        return np.asarray(np.exp(-self.transmitter * np.arange(1, SAMPLES + 1) / SAMPLES))

    def readings_of_powers(self, parts: Sequence[Floats]) -> Floats:
        """Return the (B, D) readings for power that is a polynomial in the share of the amplitude that is missing.

        The result is that of :meth:`readings` for the power at all instants, which need not be calculated: filter and
        window are linear.

        Args:
            parts: (B, D) coefficients of the powers 0, 1 … of this share.
        """
        weights = self._weights
        if self.transmitter == math.inf:
            # nothing is missing at any instant
            parts = parts[:1]
        reading, end, last = (
            sum((weight * part for weight, part in zip(each, parts, strict=False)), np.zeros_like(parts[0]))
            for each in (weights.reading, weights.end, weights.last)
        )
        before = _preceding(last)
        output = _low_pass((1.0, 0.0), weights.left, end + weights.end_before * before)
        return np.asarray(reading + weights.reading_before * before + weights.reading_output * _preceding(output))

    @cached_property
    def _weights(self) -> _ReadingWeights:
        step = self.receiver / SAMPLES
        left = math.exp(-step)
        mean = -math.expm1(-step) / step if step < math.inf else 0.0
        first, second = 1.0 - mean, mean - left
        kept = round(self.window * SAMPLES)
        reading, end, last = [], [], []
        for power in range(POWERS):
            values = self._decay**power if self.transmitter < math.inf or not power else np.zeros(SAMPLES)
            output, outputs = 0.0, []
            for now, before in zip(values.tolist(), [0.0, *values[:-1].tolist()], strict=True):
                output = first * now + second * before + left * output
                outputs.append(output)
            reading.append(float(np.mean(outputs[-kept:])))
            end.append(output)
            last.append(float(values[-1]))
        # what is left at every instant of the filter's output at the end of the symbol before
        decay = left ** np.arange(1, SAMPLES + 1)
        before = second * left ** np.arange(SAMPLES)
        return _ReadingWeights(
            reading=tuple(reading),
            end=tuple(end),
            last=tuple(last),
            reading_before=float(before[-kept:].mean()),
            end_before=float(before[-1]),
            reading_output=float(decay[-kept:].mean()),
            left=float(decay[-1]),
        )

    def filtered(self, power: Floats) -> Floats:
        """Return the (B · SAMPLES, D) output of photodiodes and amplifiers for the power at all instants."""
        if self.receiver == math.inf:
            return power
        step = self.receiver / SAMPLES
        left = math.exp(-step)
        # response to power that is linear between instants
        mean = -math.expm1(-step) / step
        return np.asarray(_low_pass((1.0 - mean, mean - left), left, power))

    def readings(self, power: Floats) -> Floats:
        """Return the (B, D) readings for the power at all instants."""
        return self.windowed(self.filtered(power))

    def windowed(self, output: Floats) -> Floats:
        """Return the (B, D) means over the window of the (B · SAMPLES, D) output of the filters."""
        kept = round(self.window * SAMPLES)
        return np.asarray(output.reshape(-1, SAMPLES, output.shape[1])[:, -kept:].mean(axis=1))

    @property
    def memory(self) -> Floats:
        """(8,) share of a symbol and of each of the seven before it in a reading, where power follows amplitude."""
        return _memory(self)

    @property
    def opening(self) -> float:
        """Smallest distance of two adjacent of ``LEVELS`` readings, whatever came before, over that of slow symbols."""
        before = np.abs(self.memory[1:]).sum() + abs(1.0 - self.memory.sum())
        return float(self.memory[0] - (LEVELS - 1) * before)

    @property
    def negligible(self) -> bool:
        """Whether the symbols before a symbol have no part in its reading."""
        return abs(1.0 - float(self.memory[0])) <= NEGLIGIBLE

    def noise_bandwidth_hz(self, symbol_rate_bd: float) -> float:
        """Return the bandwidth of white noise that enters the filter of photodiode and amplifier.

        The mean of white noise over a window w has the bandwidth 1 / 2w, and less behind a filter of time constant τ:
        1 / 2w · (1 - τ / w · (1 - exp(-w / τ))). For a short window it becomes the filter's, 1 / 4τ.
        """
        constants = self.receiver * self.window
        correction = 1.0 if constants == math.inf else 1.0 + math.expm1(-constants) / constants
        return 0.5 * symbol_rate_bd / self.window * correction


@dataclass(frozen=True)
class _ReadingWeights:
    """Weights of the readings of power that is a polynomial in the share of the amplitude that is missing.

    Attributes:
        reading: Weights of the coefficients of the powers 0 … 2 of this share in the reading of their symbol.
        end: Their weights in the output of the filter at the end of the symbol.
        last: Their weights in the power at the end of the symbol.
        reading_before: Weight of the power at the end of the symbol before in the reading.
        end_before: Its weight in the output at the end of the symbol.
        reading_output: Weight of the output at the end of the symbol before in the reading.
        left: Its weight in the output at the end of the symbol.
    """

    reading: tuple[float, ...]
    end: tuple[float, ...]
    last: tuple[float, ...]
    reading_before: float
    end_before: float
    reading_output: float
    left: float


@lru_cache(maxsize=1024)
def _memory(shape: SymbolShape) -> Floats:
    """See :attr:`SymbolShape.memory`; the same few shapes are asked for again for every rate and chip."""
    pulse = np.zeros((64, 1))
    pulse[0] = 1.0
    shares = shape.readings(np.asarray(shape.transmitted(pulse)).real)[:8, 0]
    shares.setflags(write=False)
    return shares


def _preceding(values: Any) -> Any:
    """Return, for each of B values that repeat, the one before."""
    return np.concatenate([values[-1:], values[:-1]])


def _low_pass(weights: tuple[float, float], left: float, values: Any) -> Any:
    """Filter consecutive values that repeat: y[k] = weights[0] x[k] + weights[1] x[k - 1] + left y[k - 1].

    Args:
        weights: Weights of a value and of the one before.
        left: Share of the output before, below 1.
        values: (n, F) values x; the last one precedes the first.
    """
    found = weights[0] * values
    if weights[1]:
        found += weights[1] * _preceding(values)
    # after step m, each output contains the 2^m values up to its own
    back, share = 1, left
    while share > SMALLEST:
        split = len(found) - back % len(found)
        found = found + share * np.concatenate([found[split:], found[:split]])
        back, share = 2 * back, share * share
    return found


def time_constants(bandwidths_hz: tuple[float, ...], symbol_rate_bd: float) -> float:
    """Return the length of a symbol in time constants of filters in series, given by their bandwidths at -3 dB."""
    square = sum(bandwidth**-2 for bandwidth in bandwidths_hz)
    return math.inf if square == 0.0 else 2.0 * math.pi / math.sqrt(square) / symbol_rate_bd
