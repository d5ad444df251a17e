"""Shape of symbols: what limited bandwidth leaves of one symbol, and adds of the symbols before it, in a reading.

Neurons are clocked. A modulator holds its drive for one symbol; with a bandwidth f its amplitude follows exponentially,
with the time constant 1 / 2πf. Detectors see the power of the sum of all fields at every instant. Photodiode and
amplifier are one low-pass filter, and a reading is the mean of its output over a window at the end of the symbol: a
short window avoids the transition from the symbol before, a long one averages noise. The filters of electronics and
modulator in series, and those of photodiode and amplifier, are each replaced by one of equal sum of 1 / f².

A symbol is represented by ``SAMPLES`` instants. Between them, power is taken as linear.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

SAMPLES = 16
"""Instants of a symbol at which light is evaluated; the last one is its end."""
WINDOWS = tuple(count / 8 for count in range(7, 0, -1))
"""Lengths of windows to choose from, over the length of a symbol; an eighth is left to reset the integrator."""
LEVELS = 16
"""Number of levels of a signal by which filters are chosen: a sum of symbols of four servers, with a carry, has 16."""
FORGOTTEN = 1e-17
"""Share of an earlier value in a filter's output at which it is neglected."""
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
        """Return the (B · SAMPLES, F) amplitudes at all instants of B symbols that F sources send one after the other.

        The symbols repeat: the last one precedes the first.

        Args:
            amplitudes: (B, F) amplitudes that are driven.
        """
        if self.transmitter == math.inf:
            held: Floats | Complexes = amplitudes.repeat(SAMPLES, axis=0)
            return held
        left = math.exp(-self.transmitter)
        # columns are contiguous, as detection needs them
        driven = np.ascontiguousarray(amplitudes.T)
        end = _low_pass((1.0 - left) * driven, left)
        decay = np.exp(-self.transmitter * np.arange(1, SAMPLES + 1) / SAMPLES)
        shape: Any = (np.roll(end, 1, axis=1) - driven)[:, :, np.newaxis] * decay
        shape += driven[:, :, np.newaxis]
        found: Floats | Complexes = shape.reshape(len(driven), -1).T
        return found

    def filtered(self, power: Floats) -> Floats:
        """Return the (B · SAMPLES, D) output of photodiodes and amplifiers for the power at all instants."""
        if self.receiver == math.inf:
            return power
        step = self.receiver / SAMPLES
        left = math.exp(-step)
        # response to power that is linear between instants
        mean = -math.expm1(-step) / step
        values = np.ascontiguousarray(power.T)
        entering = (1.0 - mean) * values
        entering += (mean - left) * np.roll(values, 1, axis=1)
        return np.asarray(_low_pass(entering, left).T)

    def readings(self, power: Floats) -> Floats:
        """Return the (B, D) readings for the power at all instants."""
        return self.windowed(self.filtered(power))

    def windowed(self, output: Floats) -> Floats:
        """Return the (B, D) means over the window of the (B · SAMPLES, D) output of the filters."""
        kept = round(self.window * SAMPLES)
        return np.asarray(output.T.reshape(output.shape[1], -1, SAMPLES)[:, :, -kept:].mean(axis=2).T)

    @cached_property
    def memory(self) -> Floats:
        """(8,) share of a symbol and of each of the seven before it in a reading, where power follows amplitude."""
        pulse = np.zeros((64, 1))
        pulse[0] = 1.0
        return self.readings(np.asarray(self.transmitted(pulse)).real)[:8, 0]

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

        Args:
            symbol_rate_bd: Symbols per second.
        """
        constants = self.receiver * self.window
        correction = 1.0 if constants == math.inf else 1.0 + math.expm1(-constants) / constants
        return 0.5 * symbol_rate_bd / self.window * correction


def _low_pass(values: Any, left: float) -> Any:
    """Filter (F, n) consecutive values that repeat: y[k] = values[k] + left y[k - 1].

    The sum of all left^j values[k - j] is doubled in length until the rest is below the precision of floats.
    """
    step = 1
    while left > FORGOTTEN:
        values = values + left * np.roll(values, step, axis=1)
        left, step = left * left, 2 * step
    return values


def time_constants(bandwidths_hz: tuple[float, ...], symbol_rate_bd: float) -> float:
    """Return the length of a symbol in time constants of several filters in series.

    Args:
        bandwidths_hz: Bandwidths of the filters at -3 dB; infinite ones do not count.
        symbol_rate_bd: Symbols per second.
    """
    square = sum(bandwidth**-2 for bandwidth in bandwidths_hz)
    return math.inf if square == 0.0 else 2.0 * math.pi / math.sqrt(square) / symbol_rate_bd
