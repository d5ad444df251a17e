"""Process variation over the wafer as a Gaussian random field, sampled at arbitrary points of a chip.

The autocorrelation exp(-(d / l)²) of two points separates into factors of x and of y. Along each axis::

    exp(-(x - x')²/l²) = Σ_k f_k(x) f_k(x'),    f_k(x) = exp(-x²/l²) (√2 x/l)^k / √(k!)

The field is Σ z_km f_k(x) f_m(y) with independent standard normal z; the cost is linear in the number of points.
f_k(x)² are the probabilities of a Poisson distribution of mean 2 x²/l²; the sum over k is truncated where the remaining
probability is negligible. A Cholesky factor of the covariance matrix would cost cubic time and is numerically singular
for close points.

Source:
    Autocorrelation and lengths as in SiEPIC's Monte-Carlo file, whose virtual wafer is white noise behind a Gaussian
    filter. The expansion is the power series of exp(2 x x'/l²).
"""

from __future__ import annotations

import numpy as np

from optinc_pdk.arrays import Floats

_TRUNCATED_VARIANCE = 1e-12
"""Largest variance of the truncated terms; the field has variance 1."""


def wafer_field(position_um: Floats, correlation_um: float, generator: np.random.Generator) -> Floats:
    """Sample a Gaussian random field of variance 1 and autocorrelation exp(-(distance / correlation)²).

    Args:
        position_um: (n, 2) points.
        correlation_um: Correlation length.
        generator: Random number generator. The number of draws depends only on the extent of the points.

    Returns:
        (n,) values of the field.
    """
    if not len(position_um):
        return np.zeros(0)
    centre = (position_um.max(axis=0) + position_um.min(axis=0)) / 2.0
    x_terms, y_terms = (_terms((position_um[:, i] - centre[i]) / correlation_um) for i in (0, 1))
    weights = generator.standard_normal((x_terms.shape[1], y_terms.shape[1]))
    field: Floats = np.einsum("nk,nk->n", x_terms @ weights, y_terms)
    return field


def effective_length_um(length_um: Floats, correlation_um: float) -> Floats:
    """Return the effective length of waveguides for phase errors from local index variation along them.

    Its square is ∫∫ exp(-((s - t)/l)²) ds dt over the waveguide of length L: L² for L ≪ l, √π l L for L ≫ l.

    Args:
        length_um: Lengths, any shape.
        correlation_um: Correlation length l along the waveguide.

    Returns:
        Effective lengths in µm, same shape.
    """
    from scipy.special import erf

    ratio = np.asarray(length_um, dtype=np.float64) / correlation_um
    square = np.sqrt(np.pi) * ratio * erf(ratio) - (1.0 - np.exp(-(ratio**2)))
    # for short guides, rounding can make the square negative
    effective: Floats = correlation_um * np.sqrt(np.maximum(square, 0.0))
    return effective


def _terms(x: Floats) -> Floats:
    """Return (n, terms) values f_k at coordinates (n,) in correlation lengths."""
    mean = 2.0 * float(np.max(x**2))
    terms, remaining = 1, -np.expm1(-mean)
    probability = np.exp(-mean)
    while remaining > _TRUNCATED_VARIANCE:
        probability *= mean / terms
        remaining -= probability
        terms += 1
    values = np.empty((x.size, terms))
    values[:, 0] = np.exp(-(x**2))
    for k in range(1, terms):
        values[:, k] = values[:, k - 1] * x * np.sqrt(2.0 / k)
    return values
