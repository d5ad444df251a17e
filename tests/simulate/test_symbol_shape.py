"""Shape of symbols against the differential equations of their filters, and the limits of fast and slow filters."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from optinc_pdk.simulate.transmission.symbol_shape import (
    LEVELS,
    SAMPLES,
    WINDOWS,
    SymbolShape,
    time_constants,
)

RNG = np.random.default_rng(7)
SYMBOLS = RNG.random((24, 2))


def integrated(shape: SymbolShape) -> np.ndarray:
    """(B, SAMPLES, F) output of both filters at all instants, by an ODE solver, in the periodic state."""
    count = len(SYMBOLS)
    state = np.concatenate([SYMBOLS[-1], SYMBOLS[-1] ** 2])
    found = np.empty((count, SAMPLES, 4))
    for _ in range(2):  # the second period starts from the state that the first one ends with
        for k in range(count):

            def slope(_: float, y: np.ndarray, drive: np.ndarray = SYMBOLS[k]) -> np.ndarray:
                amplitude, output = y[:2], y[2:]
                return np.concatenate(
                    [shape.transmitter * (drive - amplitude), shape.receiver * (amplitude**2 - output)]
                )

            at = np.arange(1, SAMPLES + 1) / SAMPLES
            done = solve_ivp(slope, (0.0, 1.0), state, t_eval=at, rtol=1e-9, atol=1e-11)
            found[k], state = done.y.T, done.y[:, -1]
    return found


@pytest.mark.parametrize(("transmitter", "receiver"), [(4.0, 6.0), (12.0, 3.0), (2.0, 20.0)])
def test_filters_follow_their_differential_equations(transmitter: float, receiver: float) -> None:
    shape = SymbolShape(transmitter, receiver, 0.5)
    expected = integrated(shape)
    amplitude = shape.transmitted(SYMBOLS)
    assert amplitude.reshape(-1, SAMPLES, 2) == pytest.approx(expected[..., :2], abs=1e-6)
    output = shape.filtered(np.asarray(amplitude) ** 2).reshape(-1, SAMPLES, 2)
    # power is taken as linear between instants
    assert np.abs(output - expected[..., 2:]).max() < 0.02
    readings = shape.readings(np.asarray(amplitude) ** 2)
    assert readings == pytest.approx(output[:, SAMPLES // 2 :].mean(axis=1))


def test_instant_filters_leave_symbols_as_they_are() -> None:
    shape = SymbolShape(math.inf, math.inf, 0.25)
    assert np.array_equal(shape.transmitted(SYMBOLS), np.repeat(SYMBOLS, SAMPLES, axis=0))
    assert shape.readings(np.repeat(SYMBOLS, SAMPLES, axis=0)) == pytest.approx(SYMBOLS)
    assert shape.opening == 1.0 and shape.negligible
    assert shape.noise_bandwidth_hz(1e9) == pytest.approx(2e9)


def test_slow_filters_close_the_eye_and_short_windows_open_it() -> None:
    memory = [SymbolShape(math.inf, receiver, 0.5).memory[0] for receiver in (2.0, 4.0, 8.0, 16.0)]
    assert np.all(np.diff(memory) > 0.0) and memory[-1] > 0.999
    opening = [SymbolShape(20.0, 20.0, window).opening for window in WINDOWS]
    assert np.all(np.diff(opening) >= -1e-12) and opening[0] < opening[-1] <= 1.0
    slow = SymbolShape(3.0, 3.0, 0.125)
    # what symbols before leave is worth more than a level
    assert slow.opening < 0.0 and (LEVELS - 1) * slow.memory[1] > slow.memory[0]


@pytest.mark.parametrize(("receiver", "window"), [(5.0, 0.875), (40.0, 0.125), (0.8, 0.5)])
def test_noise_behind_the_filter_has_the_bandwidth_of_the_formula(receiver: float, window: float) -> None:
    """White noise through the filter, averaged over the window, in units of the symbol's length."""
    rng = np.random.default_rng(3)
    fine, runs = 400, 4000
    shape = SymbolShape(math.inf, receiver, window)
    # a one-sided density of 2 has a variance of one per unit of time
    white = rng.standard_normal((runs, 8 * fine)) * math.sqrt(fine)
    left, output = math.exp(-receiver / fine), np.zeros((runs, 8 * fine))
    state = np.zeros(runs)
    for step in range(8 * fine):
        state = left * state + (1.0 - left) * white[:, step]
        output[:, step] = state
    found = output[:, -round(window * fine) :].mean(axis=1).var()
    assert found == pytest.approx(2.0 * shape.noise_bandwidth_hz(1.0), rel=0.1)


def test_bandwidths_in_series_add_as_inverse_squares() -> None:
    assert time_constants((), 1e9) == math.inf == time_constants((math.inf,), 1e9)
    assert time_constants((1e9,), 1e9) == pytest.approx(2.0 * math.pi)
    assert time_constants((3e9, 4e9), 1e9) == pytest.approx(2.0 * math.pi * 2.4)


@pytest.mark.parametrize(("transmitter", "receiver"), [(4.0, 6.0), (1.5, 2.0), (math.inf, 3.0), (5.0, math.inf)])
@pytest.mark.parametrize("window", [0.125, 0.5, 0.875])
def test_readings_of_powers_are_those_of_all_instants(transmitter: float, receiver: float, window: float) -> None:
    """A field is driven + share · missing, so its power has three coefficients."""
    shape = SymbolShape(transmitter, receiver, window)
    field = np.asarray(shape.transmitted(SYMBOLS)) - 0.4
    driven = SYMBOLS - 0.4
    missing = np.asarray(shape.missing(SYMBOLS)) if transmitter < math.inf else np.zeros_like(SYMBOLS)
    parts = [driven**2, 2.0 * driven * missing, missing**2]
    assert shape.readings_of_powers(parts) == pytest.approx(shape.readings(field**2), rel=1e-12, abs=1e-13)


def test_the_memory_of_a_shape_is_computed_once_and_cannot_be_changed() -> None:
    one, same = (SymbolShape(3.0, 5.0, 0.25).memory for _ in range(2))
    assert one is same
    with pytest.raises(ValueError, match="read-only"):
        one[0] = 0.0
