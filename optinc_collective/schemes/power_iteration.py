"""Low-rank approximation of a gradient AᵀΔ by power iteration, without computing the product AᵀΔ.

Source: rank-dAD, arXiv 2102.09631.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

ITERATIONS = 10
"""Default number of power iterations per direction; the authors' code uses 1 to 20."""
TOLERANCE = 1e-3
"""Relative tolerance for the change of a direction and for dropped singular values; the value of the authors' code."""


@dataclass(frozen=True)
class LowRankFactors:
    """Factors of a low-rank gradient ``leftᵀ right``, shape (inputs, outputs), of rank k.

    rank-dAD sends them instead of activations and deltas. The number k of vectors is the effective rank, at most the
    requested rank.

    Attributes:
        left: Vectors G v_j, shape (k, inputs): left singular vectors times singular values, σ_j u_j, up to the
            convergence of the iteration.
        right: Right singular vectors v_j, orthonormal, shape (k, outputs).
    """

    left: torch.Tensor
    right: torch.Tensor


def low_rank_factors(
    activations: torch.Tensor,
    deltas: torch.Tensor,
    rank: int,
    iterations: int = ITERATIONS,
    tolerance: float = TOLERANCE,
) -> LowRankFactors:
    """Compute a low-rank approximation of the gradient G = AᵀΔ from its leading right singular vectors.

    The vectors V, here called directions, are found one after another by power iteration on GᵀG = ΔᵀAAᵀΔ. Each is kept
    orthogonal to the previous ones by projection: after k directions the remainder is G(1 − VVᵀ). The factors are G V
    and V, so the approximation equals G V Vᵀ even if the iteration has not converged, and it is exact once k reaches
    the rank of G. The search stops early, at the *effective rank*, when the next singular value is at most `tolerance`
    times the first. (The authors' code stops when a direction repeats the previous one, which happens when only
    rounding errors remain.)

    Args:
        activations: Activations A, shape (T, inputs).
        deltas: Deltas Δ, shape (T, outputs).
        rank: Maximum number r of directions.
        iterations: Maximum number of power iterations per direction.
        tolerance: Relative tolerance. A direction has converged when it changes by less in one iteration, and singular
            values up to `tolerance` times the first are dropped.

    Returns:
        The factors (G V)ᵀ and Vᵀ, of k ≤ r directions.
    """
    inputs, outputs = activations.shape[1], deltas.shape[1]
    left = activations.new_zeros((rank, inputs))
    right = activations.new_zeros((rank, outputs))
    # fixed start vectors, the same at every step, make runs reproducible
    starts = torch.randn((rank, outputs), generator=torch.Generator().manual_seed(0)).to(right)
    for k in range(rank):
        direction = _iterate(activations, deltas, right[:k], starts[k], iterations, tolerance)
        if direction is None:
            return LowRankFactors(left[:k], right[:k])
        left[k] = _product(activations, deltas, direction)
        if k > 0 and left[k].norm() <= tolerance * left[0].norm():
            return LowRankFactors(left[:k], right[:k])
        right[k] = direction
    return LowRankFactors(left, right)


def _iterate(
    activations: torch.Tensor,
    deltas: torch.Tensor,
    previous: torch.Tensor,
    start: torch.Tensor,
    iterations: int,
    tolerance: float,
) -> torch.Tensor | None:
    """Next right direction, (outputs,), orthogonal to those in `previous`; None if the remainder is zero."""
    direction = _project(start, previous)
    direction = direction / direction.norm()
    for _ in range(iterations):
        image = deltas.T @ (activations @ _product(activations, deltas, direction))
        image = _project(image, previous)
        norm = image.norm()
        if norm == 0:
            return None
        image = image / norm
        change = (image - direction).norm()
        direction = image
        if change < tolerance:
            break
    # near the end of the spectrum the rounding errors of a small image are not orthogonal: project again
    direction = _project(direction, previous)
    unit: torch.Tensor = direction / direction.norm()
    return unit


def _product(activations: torch.Tensor, deltas: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
    """G v = Aᵀ (Δ v), (inputs,)."""
    return activations.T @ (deltas @ direction)


def _project(vector: torch.Tensor, previous: torch.Tensor) -> torch.Tensor:
    """Component of a vector that is orthogonal to the directions `previous`, (k, outputs)."""
    return vector - previous.T @ (previous @ vector)
