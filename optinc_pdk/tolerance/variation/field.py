r"""Variation over the wafer as a Gaussian random field, drawn at any points of a chip.

The autocorrelation exp(-(d / l)²) of two points is a product over x and y, and along each of them::

    exp(-(x - x')²/l²) = Σ_k f_k(x) f_k(x'),    f_k(x) = exp(-x²/l²) (√2 x/l)^k / √(k!)

so that Σ z_km f_k(x) f_m(y) with independent standard normal z is the field itself, at a cost that is linear in the
points. f_k(x)² are the probabilities of a Poisson distribution of mean 2 x²/l²: k runs until next to nothing of it is
left. A Cholesky factor of the points' covariance would be cubic in them, and fails: points that are near are equal.

Source:
    Autocorrelation and lengths as in SiEPIC's Monte-Carlo file, whose virtual wafer is white noise behind a Gaussian
    filter. The expansion is the power series of exp(2 x x'/l²).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LEFT_OUT = 1e-12
"""Variance that the terms left out may have, of 1."""


def wafer_field(position_um: Floats, correlation_um: float, generator: np.random.Generator) -> Floats:
    """A Gaussian field of variance 1 and autocorrelation exp(-(distance / correlation)²).

    Args:
        position_um: (n, 2) points.
        correlation_um: Correlation length.
        generator: Random numbers; how many are taken depends on the points' extent alone.

    Returns:
        (n,) values.
    """
    if not len(position_um):
        return np.zeros(0)
    middle = (position_um.max(axis=0) + position_um.min(axis=0)) / 2.0
    along, across = (_terms((position_um[:, i] - middle[i]) / correlation_um) for i in (0, 1))
    weights = generator.standard_normal((along.shape[1], across.shape[1]))
    field: Floats = np.einsum("nk,nk->n", along @ weights, across)
    return field


def path_length_um(length_um: Floats, correlation_um: float) -> Floats:
    """What a guide's length counts for where its index varies along it by itself.

    The square is ∫∫ exp(-((s - t)/l)²) ds dt over the guide: L² while it is short, √π l L where it is long.

    Args:
        length_um: Lengths, any shape.
        correlation_um: Correlation length along the guide.
    """
    from scipy.special import erf

    ratio = np.asarray(length_um, dtype=np.float64) / correlation_um
    square = np.sqrt(np.pi) * ratio * erf(ratio) - (1.0 - np.exp(-(ratio**2)))
    # rounding of a short guide's square may be below 0
    counted: Floats = correlation_um * np.sqrt(np.maximum(square, 0.0))
    return counted


def _terms(x: Floats) -> Floats:
    """(n, terms) f_k at coordinates (n,) in correlation lengths."""
    mean = 2.0 * float(np.max(x**2))
    terms, left = 1, -np.expm1(-mean)
    share = np.exp(-mean)
    while left > _LEFT_OUT:
        share *= mean / terms
        left -= share
        terms += 1
    values = np.empty((x.size, terms))
    values[:, 0] = np.exp(-(x**2))
    for k in range(1, terms):
        values[:, k] = values[:, k - 1] * x * np.sqrt(2.0 / k)
    return values
