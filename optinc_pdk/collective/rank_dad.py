"""rank-dAD: of every layer's gradient only the leading directions are shared, found without forming it."""

from __future__ import annotations

import torch
from torch import nn

from optinc_pdk.collective.dad import Dad
from optinc_pdk.collective.power_iteration import ITERATIONS, TOLERANCE, leading_directions
from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_arguments


class RankDad(Dad):
    """rank-dAD: a rank shares k ≤ r vectors of either side, P = G V and V, of its own gradient G = AᵀΔ of a layer.

    The result is the mean over ranks of G_n V_n V_nᵀ: each rank's gradient on its r leading directions, exact where r
    reaches the gradients' rank, else off by what was left out. A rank sends (N − 1) Σ k (inputs + outputs) numbers a
    step, k the *effective rank*, where the iteration stopped. Biases go by the exact all-reduce, with all that is
    trained outside linear layers: the reduced vectors do not tell a bias's gradient.

    Attributes:
        effective: This rank's k in the last step, by layer.
    """

    name = "rank-dAD"

    @validate_arguments
    def __init__(self, rank: int, iterations: int = ITERATIONS, tolerance: float = TOLERANCE) -> None:
        """Choose the accuracy.

        Args:
            rank: The most vectors of either side, r.
            iterations: Power iterations a vector, at most.
            tolerance: Of a vector's change, and of the singular values left out, relative to the first.

        Raises:
            InputError: A number that is no rank, count or tolerance.
        """
        super().__init__()
        if rank < 1 or iterations < 1 or not 0 <= tolerance < 1:
            raise InputError(
                f"rank-dAD: rank {rank}, {iterations} iterations, tolerance {tolerance}; "
                "give a rank and iterations from 1 and a tolerance from 0 to below 1"
            )
        self._rank, self._iterations, self._tolerance = rank, iterations, tolerance
        self.effective: dict[str, int] = {}

    def _prepare(self, model: nn.Module) -> None:
        for found in self._layers:
            most = min(found.layer.in_features, found.layer.out_features)
            if self._rank > most:
                raise InputError(
                    f"rank-dAD: rank {self._rank} is larger than {found.name}, "
                    f"{found.layer.in_features} × {found.layer.out_features}; give at most {most}"
                )
            if found.bias is not None:
                self._rest[f"{found.name}.bias"], found.bias = found.bias, None

    def _shared(self) -> list[torch.Tensor]:
        shared = []
        for found in self._layers:
            factors = leading_directions(*found.rows(), self._rank, self._iterations, self._tolerance)
            self.effective[found.name] = len(factors.left)
            shared += [factors.left, factors.right]
        return shared
