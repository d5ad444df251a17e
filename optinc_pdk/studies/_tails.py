"""Probability that a Gaussian and the squares of Gaussians together exceed a limit far from their mean.

A phase φ of a source turns its field by exp(iφ). What a mixer reads of it changes by b φ + c φ² / 2; where the light is
in phase with the local oscillator, b is 0 and only the square is left. Such a sum has a tail of its own: at 5 standard
deviations it may be more probable than a Gaussian by many orders of magnitude.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from optinc_pdk.arrays import Floats

NOTHING = 1e-60
"""Variance below which there is no noise."""
GAUSSIAN = 1e6
"""Degrees of freedom from which the squares together count as a Gaussian."""
LEAST = 1e-9
"""Least variance of the Gaussian, and least third cumulant, in units of the standard deviation of the sum."""
FAR = 1e5
"""Distance from the mean, in standard deviations, which nothing reaches."""
NEAR = 1e-3
"""Distance from the mean, in standard deviations, below which the saddle point is too close to 0."""


def probability_beyond(limit: Floats, variance: Floats, second: Floats, third: Floats) -> Floats:
    """Return the probability that a Gaussian and a sum of squares together exceed a limit, by a saddle-point
    approximation.

    The sum of squares is replaced by one scaled chi-square distribution with the same second and third cumulant. The
    tail is that of Lugannani and Rice, Adv. Appl. Probab. 12, 475 (1980).

    Args:
        limit: (...) limits, from the mean; an infinite one gives 0.
        variance: (...) variances of the Gaussian.
        second: (...) second cumulants of the sum of squares: its variances.
        third: (...) third cumulants.
    """
    finite = np.isfinite(limit)
    # in units of the standard deviation, no number leaves the range of floats
    unit = np.sqrt(np.maximum(variance + second, NOTHING))
    limit = np.clip(np.where(finite, limit, 0.0) / unit, -FAR, FAR)
    variance, second, third = variance / unit**2, second / unit**2, third / unit**3
    curved = (np.abs(third) > LEAST) & (8.0 * second**3 <= GAUSSIAN * third**2)
    scale = np.divide(third, 4.0 * second, out=np.zeros_like(second), where=curved)
    freedom = np.divide(8.0 * second**3, third**2, out=np.zeros_like(second), where=curved)
    spread = np.maximum(variance + np.where(curved, 0.0, second), LEAST)
    # K(t) = spread t² / 2 - freedom (scale t + ln(1 - 2 scale t) / 2); u = 1 - 2 scale t where K'(t) is the limit
    shifted = limit + scale * freedom
    linear, rest = spread - 2.0 * scale * shifted, 2.0 * freedom * scale**2
    root = np.sqrt(linear**2 + 4.0 * spread * rest)
    positive = np.divide(2.0 * rest, root - linear, out=np.ones_like(root), where=(linear < 0.0) & curved)
    u = np.where(curved, np.where(linear < 0.0, positive, 0.5 * (linear + root) / spread), 1.0)
    # both forms are exact; each loses digits where the other is good
    direct = np.divide(1.0 - u, 2.0 * scale, out=np.zeros_like(u), where=curved & (np.abs(1.0 - u) > NEAR))
    t = np.where(direct != 0.0, direct, (shifted - np.divide(scale * freedom, u)) / spread)
    cumulant = 0.5 * spread * t**2 - freedom * (scale * t + 0.5 * np.log(u))
    bend = spread + np.divide(rest, u**2)
    away = np.sign(t) * np.sqrt(np.maximum(2.0 * (t * limit - cumulant), 0.0))
    slope = t * np.sqrt(bend)
    far = np.abs(away) > NEAR
    correction = np.divide(1.0, slope, out=np.zeros_like(t), where=far) - np.divide(
        1.0, away, out=np.zeros_like(t), where=far
    )
    density = np.exp(-0.5 * away**2) / np.sqrt(2.0 * np.pi)
    skewed = -8.0 * freedom * scale**3 / (6.0 * np.sqrt(2.0 * np.pi) * (spread + rest) ** 1.5)
    found = ndtr(-away) + np.where(far, density * correction, skewed)
    return np.where(finite, np.clip(found, 0.0, 1.0), 0.0)
