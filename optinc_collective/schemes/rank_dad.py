"""rank-dAD: ranks exchange low-rank approximations of the layers' gradients.

Source: arXiv 2102.09631.
"""

from __future__ import annotations

import torch
from torch import nn

from optinc_collective.schemes.dad import Dad
from optinc_collective.schemes.power_iteration import ITERATIONS, TOLERANCE, low_rank_factors
from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_arguments


class RankDad(Dad):
    """Training scheme rank-dAD (arXiv 2102.09631): ranks exchange low-rank factors of the linear layers' gradients.

    For every layer a rank computes k leading right singular vectors V of its local gradient G = AᵀΔ, and sends G V and
    V; see `power_iteration.low_rank_factors`. The result is the mean over ranks n of G_n V_n V_nᵀ: every rank's
    gradient projected on its k leading directions. It is exact if the maximum r of k is at least the rank of the
    gradients. A rank sends (N − 1) Σ k (inputs + outputs) numbers per step, where k ≤ r is the *effective rank*, at
    which the power iteration stopped. Biases are averaged by an exact all-reduce, like all parameters outside linear
    layers, because the factors do not determine their gradients.

    Attributes:
        effective_ranks: Effective rank k of every layer on this rank in the last step, by layer name.
    """

    name = "rank-dAD"

    @validate_arguments
    def __init__(self, rank: int, iterations: int = ITERATIONS, tolerance: float = TOLERANCE) -> None:
        """Create the scheme.

        Args:
            rank: Maximum number of directions, r.
            iterations: Maximum number of power iterations per direction.
            tolerance: Relative tolerance for the change of a direction and for dropped singular values.

        Raises:
            InputError: A value is out of range or of the wrong type.
        """
        super().__init__()
        if rank < 1 or iterations < 1 or not 0 <= tolerance < 1:
            raise InputError(
                f"rank-dAD: rank {rank}, {iterations} iterations, tolerance {tolerance}; "
                "give a rank and iterations from 1 and a tolerance from 0 to below 1"
            )
        self._rank, self._iterations, self._tolerance = rank, iterations, tolerance
        self.effective_ranks: dict[str, int] = {}

    def _prepare(self, model: nn.Module) -> None:
        for rows in self._layers:
            largest = min(rows.layer.in_features, rows.layer.out_features)
            if self._rank > largest:
                raise InputError(
                    f"rank-dAD: rank {self._rank} is larger than {rows.name}, "
                    f"{rows.layer.in_features} × {rows.layer.out_features}; give at most {largest}"
                )
            if rows.bias is not None:
                self._rest[f"{rows.name}.bias"], rows.bias = rows.bias, None

    def _shared(self) -> list[torch.Tensor]:
        shared = []
        for layer in self._layers:
            factors = low_rank_factors(*layer.rows(), self._rank, self._iterations, self._tolerance)
            self.effective_ranks[layer.name] = len(factors.left)
            shared += [factors.left, factors.right]
        return shared
