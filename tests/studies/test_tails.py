"""Tails of Gaussians and squares against numerical integration and the chi-square distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, norm

from optinc_pdk.studies._tails import probability_beyond


@pytest.mark.parametrize("weight", [-1.0, -0.3, 0.02, 0.3, 1.0])
@pytest.mark.parametrize("linear", [0.0, 0.7])
@pytest.mark.parametrize("limit", [1.5, 3.0, 6.0, 12.0])
def test_a_gaussian_and_one_square_have_the_integral_of_their_tail(weight: float, linear: float, limit: float) -> None:
    """G + b g + w (g² - 1) with independent standard Gaussians G and g: the tail of G, integrated over g."""
    g, step = np.linspace(-14.0, 14.0, 200_001, retstep=True)
    exact = float(np.sum(norm.sf(limit - linear * g - weight * (g**2 - 1.0)) * norm.pdf(g)) * step)
    second, third = linear**2 + 2.0 * weight**2, 6.0 * linear**2 * weight + 8.0 * weight**3
    found = probability_beyond(*(np.array(each) for each in (limit, 1.0, second, third)))
    # three cumulants stand for the sum of b g and w g², which is exact for one of them alone
    assert np.log10(found) == pytest.approx(np.log10(exact), abs=0.5 if linear else 0.05)


@pytest.mark.parametrize("freedom", [2, 3, 10])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_equal_squares_alone_have_the_tail_of_chi_square(freedom: int, sign: float) -> None:
    limits = np.array([0.3, 0.6]) if sign < 0.0 else np.array([1.0, 3.0, 6.0, 20.0])
    limits = limits * np.sqrt(2.0 * freedom)
    exact = chi2.sf(freedom + limits, freedom) if sign > 0.0 else chi2.cdf(freedom - limits, freedom)
    none, second, third = (np.full_like(limits, each) for each in (0.0, 2.0 * freedom, sign * 8.0 * freedom))
    found = probability_beyond(limits, none, second, third)
    assert found == pytest.approx(exact, rel=0.05, abs=1e-9)


def test_without_squares_the_tail_is_gaussian_and_infinite_limits_are_never_reached() -> None:
    limits = np.array([-2.0, 0.0, 1e-6, 3.0, 30.0, np.inf])
    found = probability_beyond(limits, np.ones(6), np.zeros(6), np.zeros(6))
    assert found == pytest.approx(norm.sf(limits), rel=1e-12)


def test_the_tail_is_continuous_at_the_mean_and_falls() -> None:
    limits = np.linspace(-3.0, 3.0, 4001)
    found = probability_beyond(limits, *(np.full_like(limits, each) for each in (1.0, 0.5, 0.6)))
    assert np.all(np.diff(found) <= 0.0)
    assert np.max(np.abs(np.diff(found))) < 1.2 * norm.pdf(0.0) * (limits[1] - limits[0])


def test_sums_that_are_tiny_or_nothing_reach_no_limit() -> None:
    second = np.array([0.0, 1e-300, 1e-200, 1e-30])
    found = probability_beyond(np.full(4, 0.1), np.zeros(4), second, np.sqrt(8.0) * second**1.5)
    assert np.all(found == 0.0)
