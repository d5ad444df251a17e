"""Power iteration: close to the best low-rank approximation, effective rank, and the product is never computed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from optinc_collective.schemes.dad import low_rank_factors


def factors_of(singular: list[float], rows: int, inputs: int, outputs: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Activations and deltas whose product has these singular values."""
    torch.manual_seed(len(singular))
    k = len(singular)
    mixing = torch.linalg.qr(torch.randn(rows, rows, dtype=torch.float64)).Q[:, :k]
    left = torch.linalg.qr(torch.randn(inputs, k, dtype=torch.float64)).Q
    right = torch.linalg.qr(torch.randn(outputs, k, dtype=torch.float64)).Q
    return mixing @ (left * torch.tensor(singular, dtype=torch.float64)).T, mixing @ right.T


def test_a_gradient_of_low_rank_is_exact_and_its_rank_is_detected() -> None:
    activations, deltas = factors_of([3.0, 1.0, 0.5], rows=12, inputs=20, outputs=15)
    factors = low_rank_factors(activations, deltas, rank=8, iterations=30)
    assert factors.left.shape == (3, 20)
    assert factors.right.shape == (3, 15)
    gradient = activations.T @ deltas
    assert (factors.left.T @ factors.right - gradient).norm() < 1e-6 * gradient.norm()


def test_exact_at_full_rank_after_one_iteration() -> None:
    """Deflation by projection loses nothing between directions that have not converged."""
    activations, deltas = factors_of([3.0, 2.9, 2.8, 2.7], rows=6, inputs=9, outputs=8)
    factors = low_rank_factors(activations, deltas, rank=4, iterations=1, tolerance=0.0)
    gradient = activations.T @ deltas
    assert torch.allclose(factors.left.T @ factors.right, gradient, atol=1e-10)


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_close_to_the_best_approximation_of_that_rank(rank: int) -> None:
    singular = [8.0, 4.0, 2.0, 1.0, 0.5, 0.25]
    activations, deltas = factors_of(singular, rows=30, inputs=16, outputs=24)
    factors = low_rank_factors(activations, deltas, rank=rank)
    gradient = activations.T @ deltas
    best = sum(s * s for s in singular[rank:]) ** 0.5
    error = float((factors.left.T @ factors.right - gradient).norm())
    assert best * (1 - 1e-9) <= error <= 1.001 * best
    assert torch.allclose(factors.right @ factors.right.T, torch.eye(rank, dtype=torch.float64), atol=1e-9)


def test_a_gradient_of_zeros_has_no_direction() -> None:
    factors = low_rank_factors(torch.zeros(5, 4), torch.randn(5, 3), rank=2)
    assert factors.left.shape == (0, 4)
    assert factors.right.shape == (0, 3)


class Largest(TorchDispatchMode):
    """Records the size of the largest tensor created."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.elements = max(self.elements, result.numel())
        return result


def test_the_product_is_never_computed() -> None:
    activations, deltas = torch.randn(8, 300), torch.randn(8, 200)
    with Largest() as largest:
        low_rank_factors(activations, deltas, rank=4)
    assert 0 < largest.elements < 300 * 200 / 10
