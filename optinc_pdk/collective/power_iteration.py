"""The leading directions of a gradient Aᵀ Δ by structured power iterations, without forming the product."""

from __future__ import annotations

from dataclasses import dataclass

import torch

ITERATIONS = 10
"""Power iterations a direction, an engineering default: the authors' code takes 1 to 20."""
TOLERANCE = 1e-3
"""Of a direction's change and of the singular values that are dropped: the authors' code's value."""


@dataclass(frozen=True)
class Factors:
    """A gradient of low rank, ``leftᵀ right``: what rank-dAD sends instead of activations and deltas.

    Attributes:
        left: σ_j u_j, (k, inputs); k, the effective rank, is at most the rank asked for.
        right: v_j, orthonormal, (k, outputs).
    """

    left: torch.Tensor
    right: torch.Tensor


def leading_directions(
    activations: torch.Tensor,
    deltas: torch.Tensor,
    rank: int,
    iterations: int = ITERATIONS,
    tolerance: float = TOLERANCE,
) -> Factors:
    """The leading directions of G = AᵀΔ, one after another, each by power iterations on GᵀG = Δᵀ A Aᵀ Δ.

    A direction is deflated by projection, so what is left after k of them is G(1 − VVᵀ), and the factors are
    (G V, V): the approximation is G V Vᵀ exactly, converged or not, and exact once k reaches G's rank. It ends early,
    at the *effective rank*, where the next singular value is at most the tolerance of the first one. (The authors'
    code ends where a direction repeats the one before, which is what rounding makes of a remainder of nothing.)

    Args:
        activations: A, (T, inputs).
        deltas: Δ, (T, outputs).
        rank: The most directions, r.
        iterations: Power iterations a direction, at most.
        tolerance: Relative: a direction has converged when it changes by less; singular values below it are dropped.

    Source: rank-dAD, arXiv 2102.09631.
    """
    inputs, outputs = activations.shape[1], deltas.shape[1]
    left = activations.new_zeros((rank, inputs))
    right = activations.new_zeros((rank, outputs))
    # a fixed start, the same at every step: a run can be repeated to the bit
    starts = torch.randn((rank, outputs), generator=torch.Generator().manual_seed(0)).to(right)
    for k in range(rank):
        direction = _iterate(activations, deltas, right[:k], starts[k], iterations, tolerance)
        if direction is None:
            return Factors(left[:k], right[:k])
        left[k] = _product(activations, deltas, direction)
        if k > 0 and left[k].norm() <= tolerance * left[0].norm():
            return Factors(left[:k], right[:k])
        right[k] = direction
    return Factors(left, right)


def _iterate(
    activations: torch.Tensor,
    deltas: torch.Tensor,
    found: torch.Tensor,
    start: torch.Tensor,
    iterations: int,
    tolerance: float,
) -> torch.Tensor | None:
    """The next right direction, (outputs,), orthogonal to those found; None where nothing is left."""
    direction = _project(start, found)
    direction = direction / direction.norm()
    for _ in range(iterations):
        image = deltas.T @ (activations @ _product(activations, deltas, direction))
        image = _project(image, found)
        norm = image.norm()
        if norm == 0:
            return None
        image = image / norm
        change = (image - direction).norm()
        direction = image
        if change < tolerance:
            break
    # near the end of the spectrum the image is small and its rounding is not orthogonal: once more
    direction = _project(direction, found)
    unit: torch.Tensor = direction / direction.norm()
    return unit


def _product(activations: torch.Tensor, deltas: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
    """G v = Aᵀ (Δ v), (inputs,)."""
    return activations.T @ (deltas @ direction)


def _project(vector: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    """What of a vector is orthogonal to the directions found, (k, outputs)."""
    return vector - found.T @ (found @ vector)
