"""Estimated word-error rates against counts, and against the probability of a single comparator's error."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from comparator_toy import BOARD, FIELD, PROCESS, SLOW, TASK, comparators, noise_at
from scipy.special import ndtr

from optinc_pdk.signoff.function import function_inputs
from optinc_pdk.simulate import noise_of
from optinc_pdk.simulate.transmission.noise import Noise, noise_choices
from optinc_pdk.simulate.transmission.noise_propagation import ReadingSpread
from optinc_pdk.simulate.transmission.symbol_shape import SymbolShape
from optinc_pdk.studies.chip_checks import read_words
from optinc_pdk.studies.error_estimate import ErrorMargins, _receiver_side, error_margins, estimate_errors
from optinc_pdk.studies.highest_rates import (
    IDEALISED,
    RateLimits,
    _RateSearch,
    best_noise,
    find_rate_limits,
    highest_rate,
    rates_without_limits,
)
from optinc_pdk.studies.noise_curves import confirmed_limits


def margins() -> ErrorMargins:
    s, bias = comparators()
    return error_margins(s, function_inputs(TASK), BOARD, bias)


def test_a_comparators_error_needs_noise_of_its_distance_and_half_its_slope() -> None:
    found = margins()
    step = FIELD**2 * 0.12 / 3
    level = np.rint(found.readings[0][:, 0] / step)
    assert sorted(level) == [0, 1, 2, 3]
    # from the level to the threshold half a level above, and beyond it until half of the comparator's light is on
    expected = np.where(level < 3, 0.5 * step, np.inf)
    assert found.up[0][:, 0] == pytest.approx(expected, rel=0.01)
    assert found.down[0][:, 0] == pytest.approx(np.where(level > 0, 0.5 * step, np.inf), rel=0.01)
    assert not found.wrong.any()
    noise = noise_at(1e6, receiver_a_per_sqrt_hz=1e-10)
    sigma = np.sqrt(2.0 * noise.variance(np.zeros(1))[0])
    expected_rate = 1.5 * ndtr(-0.5 * step / sigma)
    assert 1e-4 < expected_rate < 1e-2
    assert estimate_errors(found, noise).rate == pytest.approx(expected_rate, rel=0.05)


@pytest.mark.parametrize(
    ("shape", "density"), [(SLOW, 1.4e-10), (SymbolShape(6.0, 9.0, 0.25), 8e-11), (SymbolShape(3.5, 4.5, 0.25), 3e-11)]
)
def test_estimates_agree_with_counts(shape: SymbolShape, density: float) -> None:
    """Without and with symbols that run into each other, the more the less noise is added."""
    s, bias = comparators()
    noise = replace(noise_at(1e6, receiver_a_per_sqrt_hz=density), shape=shape)
    inputs = function_inputs(TASK)
    many = replace(
        inputs,
        **{key: np.tile(getattr(inputs, key).T, 20_000).T for key in ("symbols", "steps", "ideal", "levels", "worst")},
    )
    read = read_words(s, many, BOARD, bias, noise, 0)
    counted = read.wrong / read.words
    estimate = estimate_errors(error_margins(s, many, BOARD, bias), noise).rate
    assert 1e-3 < counted < 0.1
    assert estimate == pytest.approx(counted, rel=0.15)


@pytest.mark.parametrize(("passed", "own"), [(1.0, 0.0), (0.0, 1.0), (0.8, 0.6), (0.3, 0.95)])
@pytest.mark.parametrize("up", [True, False])
@pytest.mark.parametrize("shift", [0.0, 0.1])
def test_noise_of_the_field_reaches_a_photodiodes_threshold_as_a_field(
    passed: float, own: float, up: bool, shift: float
) -> None:
    """A photodiode that reads (y + δ)² + n, with δ and n at the standard deviations of a spread to first order."""
    found = margins()
    word = int(np.flatnonzero(np.rint(found.network.levels(found.power)[:, 0]) == 1)[0])
    power = found.power[word, 0]
    change = found.receiver_up[word, 0] if up else -found.receiver_down[word, 0]
    size, moved = abs(change) / 2.5, shift * change
    deviations = (np.full_like(found.power, size * one) for one in (np.hypot(passed, own), own))
    estimated = _receiver_side(
        found, ReadingSpread((), *deviations, (), ()), np.full_like(found.power, moved), 1.0 if up else -1.0
    )[word, 0]
    rng = np.random.default_rng(1)
    field = np.sqrt(power + moved) + size * passed / (2.0 * np.sqrt(power)) * rng.standard_normal(1_000_000)
    read = field**2 + size * own * rng.standard_normal(1_000_000)
    counted = np.mean(read > power + change if up else read < power + change)
    assert counted > 3e-4
    assert estimated == pytest.approx(counted, rel=0.25)
    first_order = ndtr(-(1.0 - shift) * 2.5)
    assert passed < 0.5 or (first_order < 0.8 * counted if up else first_order > 1.5 * counted)


def test_the_best_receiver_has_the_lowest_estimate() -> None:
    found = margins()
    for rate in (3e7, 3e8, 1e9):
        choices = [each.only("receiver", "shot") for each in noise_choices(PROCESS, None, rate)]
        rates = [estimate_errors(found, each).rate for each in choices]
        chosen = estimate_errors(found, best_noise(found, choices)).rate
        assert chosen == min(rates)


def test_the_highest_rate_is_found_with_its_limits() -> None:
    found = margins()
    limits = find_rate_limits(found, PROCESS)
    rate = limits.symbol_rate_bd
    assert rate is not None and 1e6 < rate < 1e9
    without = rates_without_limits(found, PROCESS, limits)
    assert all(each is not None and each >= rate for each in without.values())
    assert set(without) == set(IDEALISED)
    highest = max(each for each in without.values() if each is not None)
    assert limits.main_limit is not None and without[limits.main_limit] == pytest.approx(highest, rel=0.1)
    assert sum(limits.layers) + limits.receivers == pytest.approx(1e-9, rel=0.9)
    accepting = highest_rate(found, PROCESS, 1e-3)
    assert accepting is not None and accepting >= rate
    assert highest_rate(found, PROCESS, 1e-9, laser_w=1e-9) is None


def test_estimates_of_the_best_receivers_rise_with_the_rate() -> None:
    found = margins()
    rates = [
        estimate_errors(found, best_noise(found, noise_choices(PROCESS, None, float(rate)))).rate
        for rate in np.geomspace(1e7, 1e9, 30)
    ]
    assert rates[0] < 1e-12 < 1e-3 < rates[-1]
    assert all(before <= after * (1.0 + 1e-9) for before, after in itertools.pairwise(rates))


def test_the_highest_rate_is_below_every_rate_that_is_not_acceptable() -> None:
    class Gap(_RateSearch):
        def accepts(self, rate: float) -> bool:
            return rate <= 3e8 or 4e8 <= rate <= 9e8

    found = margins()
    search = Gap(found, found, 1e-9, lambda rate: noise_choices(PROCESS, None, rate), lambda noise: noise)
    assert search.bisected(6e8, 1e9, 1.01) == pytest.approx(9e8, rel=0.01)
    assert search.gapless(1e6, 9e8, 1.01) == pytest.approx(3e8, rel=0.01)
    assert search.gapless(1e6, 3e8, 1.01) == 3e8
    # rates that are not tried are not below
    assert search.gapless(5e8, 9e8, 1.01) == 9e8


def test_an_ideal_noise_leaves_out_what_its_name_says() -> None:
    noise = noise_of(PROCESS, None, 1e9)
    gone: dict[str, Callable[[Noise], bool]] = {
        "amplifiers": lambda n: n.receiver_a_per_sqrt_hz == 0.0,
        "shot noise": lambda n: not n.shot,
        "laser": lambda n: n.intensity_per_hz == n.linewidth_hz == 0.0,
        "fibre phases": lambda n: n.fibre_phase_rad == 0.0,
        "bandwidths": lambda n: n.shape.negligible,
    }
    for name, ideal in IDEALISED.items():
        assert [other for other, test in gone.items() if test(ideal(noise))] == [name]


@pytest.mark.parametrize(("density", "right"), [(1e-15, True), (1.4e-10, False)])
def test_a_rate_at_which_a_counted_word_is_wrong_is_not_stated(density: float, right: bool) -> None:
    s, bias = comparators()
    noise = noise_at(1e6, receiver_a_per_sqrt_hz=density)
    estimated = RateLimits(1e-9, 1e6, 1e9, None, (0.0,), 0.0, noise)
    found = confirmed_limits(estimated, s, function_inputs(TASK), BOARD, bias, 20_000)
    assert found.counted is not None and found.counted.words >= 20_000 and found.counted.symbol_rate_bd == 1e6
    assert (found.counted.wrong == 0) is right and found.symbol_rate_bd == (1e6 if right else None)
    none = replace(estimated, symbol_rate_bd=None)
    assert confirmed_limits(none, s, function_inputs(TASK), BOARD, bias, 20_000) is none
