"""Distributed auto-differentiation, arXiv 2102.09631: dAD, edAD and rank-dAD.

Ranks exchange activations and deltas, all activations and the top layer's deltas, or low-rank factors of gradients, and
each computes the whole gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn

from optinc_collective.schemes.linear_rows import (
    GRADIENT_TOLERANCE,
    LinearRows,
    average_exactly,
    gather_rows,
    gradient_fault,
    record_rows,
    split_parameters,
)
from optinc_collective.schemes.scheme import Scheme, broadcast_from_first, raise_on_all_ranks, require_equal_parameters
from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_arguments

OutputDerivative = Callable[[torch.Tensor], torch.Tensor]
"""Derivative of an activation function as a function of its output."""
ITERATIONS = 10
"""Default number of power iterations per direction; the authors' code uses 1 to 20."""
TOLERANCE = 1e-3
"""Relative tolerance for the change of a direction and for dropped singular values; the value of the authors' code."""


class Dad(Scheme):
    """Training scheme dAD (arXiv 2102.09631): ranks exchange activations and deltas of linear layers, not gradients.

    Every rank receives the activations A (T, inputs) and the deltas Δ (T, outputs) of all ranks, T rows per rank. From
    them it computes the gradients of the weight, ΔᵀA, and of the bias, the sum of Δ over rows, divided by the number N
    of ranks. The result is the exact mean over ranks, up to the order of the floating-point sum.

    A rank sends (N − 1) Σ T (inputs + outputs) numbers per step, summed over the layers. A ring all-reduce sends more
    if T (inputs + outputs) is below 2 inputs · outputs / N. Ranks may have different numbers of rows. As in
    `DistributedDataParallel`, the losses of all ranks have equal weight.

    All other trained parameters (see `linear_rows.split_parameters`) are averaged by an exact all-reduce, and their
    traffic is counted as that of a ring all-reduce. The exchange takes place at the end of `backward`, so gradients can
    be clipped before `step`. Buffers, such as running statistics, differ between ranks until `finish` broadcasts those
    of the first rank.
    """

    name = "dAD"

    def __init__(self) -> None:
        super().__init__()
        self._model: nn.Module | None = None
        self._layers: list[LinearRows] = []
        self._rest: dict[str, nn.Parameter] = {}

    def wrap(self, model: nn.Module) -> nn.Module:
        """Register hooks on a model, and broadcast the first rank's parameters and buffers; the model is returned.

        Raises:
            InputError: The model has no trained `nn.Linear` with parameters of its own, its linear layers have
                different data types, the ranks' parameters differ in name, shape or type, or this scheme has a model
                already.
        """
        require_equal_parameters(model)
        with raise_on_all_ranks():
            if self._model is not None:
                raise InputError(f"{self.name} has a model already: create another {type(self).__name__} for this one")
            self._layers, self._rest = split_parameters(model)
            self._prepare(model)
        self._model = model
        broadcast_from_first("parameters", [*model.parameters(), *model.buffers()])
        record_rows(self._layers, list(self._rest.values()), self._exchange)
        return model

    def finish(self) -> None:
        """Replace the model's buffers, such as running statistics, by those of the first rank."""
        if self._model is not None:
            broadcast_from_first("buffers", self._model.buffers())

    @torch.no_grad()
    def _exchange(self) -> None:
        """Add the mean over ranks of this backward pass's gradients to the parameters' gradients."""
        try:
            gathered = gather_rows(self._shared(), self._fault(), self.traffic)
            for layer, (activations, deltas) in zip(self._layers, self._rows(gathered), strict=True):
                _accumulate(layer, activations, deltas)
            average_exactly(list(self._rest.values()), self.traffic)
        finally:
            for layer in self._layers:
                layer.clear()

    def _prepare(self, model: nn.Module) -> None:
        """Check and prepare a model for a derived scheme; raise InputError if it is not supported."""

    def _fault(self) -> str:
        """Describe why this rank's backward pass cannot be used; empty if it can."""
        return gradient_fault(self._layers, self._rest)

    def _shared(self) -> list[torch.Tensor]:
        """Tensors of rows (rows, width) that this rank sends."""
        return [rows for layer in self._layers for rows in layer.rows()]

    def _rows(self, gathered: Sequence[torch.Tensor]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """A and Δ of all ranks for every layer, from the tensors gathered."""
        return list(zip(gathered[::2], gathered[1::2], strict=True))


def _accumulate(rows: LinearRows, activations: torch.Tensor, deltas: torch.Tensor) -> None:
    """Add the mean gradient of a layer, computed from all ranks' rows."""
    if len(deltas) == 0:
        return  # no rank used the layer: its gradient stays unchanged
    _add(rows.layer.weight, deltas.T @ activations / dist.get_world_size())
    if rows.bias is not None:
        _add(rows.bias, deltas.sum(0) / dist.get_world_size())


def _add(parameter: torch.Tensor, gradient: torch.Tensor) -> None:
    """Add to a parameter's gradient, as autograd does."""
    if parameter.grad is None:
        parameter.grad = gradient
    else:
        parameter.grad += gradient


def output_derivative(activation: nn.Module) -> OutputDerivative | None:
    """Return the derivative φ′ of an activation function φ as a function of its output.

    It is None if the outputs do not determine φ′, or if the module is not ReLU, LeakyReLU with a positive slope, tanh
    or sigmoid.
    """
    if type(activation) is nn.ReLU:
        return lambda a: (a > 0).to(a.dtype)
    if type(activation) is nn.Tanh:
        return lambda a: 1 - a * a
    if type(activation) is nn.Sigmoid:
        return lambda a: a * (1 - a)
    if type(activation) is nn.LeakyReLU and activation.negative_slope > 0:
        below = activation.negative_slope
        return lambda a: torch.where(a > 0, 1.0, below).to(a.dtype)
    return None


class Edad(Dad):
    """Training scheme edAD (arXiv 2102.09631): like `Dad`, but ranks exchange the deltas of the top layer only.

    The model must be a chain of linear layers with ReLU, LeakyReLU, tanh or sigmoid between them. Ranks exchange the
    inputs A_i of every layer and the deltas Δ_L of the top layer. The inputs of a layer are the outputs of the
    activation function φ below it and determine its derivative, so every rank computes ``Δ_{i-1} = (Δ_i W_i) ⊙
    φ′(A_i)`` for the rows of all ranks, down to the first layer. The result is exact, as with dAD. A rank with T rows
    sends (N − 1) T (Σ inputs + top outputs) numbers per step.
    """

    name = "edAD"

    def __init__(self) -> None:
        super().__init__()
        self._slopes: list[list[OutputDerivative]] = []

    def _prepare(self, model: nn.Module) -> None:
        order, self._slopes = linear_chain(model)
        if [rows.layer for rows in self._layers] != order:
            raise InputError("edAD computes deltas through every linear layer; train all of them, and use each once")

    def _shared(self) -> list[torch.Tensor]:
        rows = [layer.rows() for layer in self._layers]
        return [*(activations for activations, _ in rows), rows[-1][1]]

    def _rows(self, gathered: Sequence[torch.Tensor]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        activations = gathered[:-1]
        return list(zip(activations, self._descend(activations, gathered[-1]), strict=True))

    def _fault(self) -> str:
        description = super()._fault()
        rows = [layer.rows() for layer in self._layers]
        if description or len({len(deltas) for _, deltas in rows}) > 1:
            return description or "edAD: the layers of the chain have different rows; call the chain as a whole"
        bottom = self._descend([activations for activations, _ in rows], rows[-1][1])[0]
        if (bottom - rows[0][1]).norm() > GRADIENT_TOLERANCE * rows[0][1].norm():
            return (
                "edAD: the loss does not only use the output of the chain, so deltas do not follow from those of the "
                "top layer; use dAD"
            )
        return ""

    def _descend(self, activations: Sequence[torch.Tensor], top: torch.Tensor) -> list[torch.Tensor]:
        """Deltas of all layers, lowest first, from those of the top layer by the chain rule."""
        deltas = [top]
        for above in range(len(self._layers) - 1, 0, -1):
            below = deltas[-1] @ self._layers[above].layer.weight
            for derivative in self._slopes[above]:
                below = below * derivative(activations[above])
            deltas.append(below)
        return deltas[::-1]


def linear_chain(model: nn.Module) -> tuple[list[nn.Linear], list[list[OutputDerivative]]]:
    """Split a model that is a chain into its linear layers and activation functions.

    Args:
        model: `nn.Sequential`, possibly nested, of Linear with at most one supported activation function between two of
            them, and Flatten before the first; or a single Linear.

    Returns:
        The linear layers in order; and for every layer a list with the derivative of the activation function directly
        before it, or an empty list if there is none.

    Raises:
        InputError: The model is not such a chain. The message names the module.
    """
    layers: list[nn.Linear] = []
    slopes: list[list[OutputDerivative]] = []
    below: list[OutputDerivative] = []
    for name, module in _modules(model, ""):
        derivative = output_derivative(module)
        if type(module) is nn.Linear:
            layers.append(module)
            slopes.append(below)
            below = []
        elif derivative is not None and not below:
            below = [derivative]
        elif derivative is not None:
            raise InputError(f"edAD: {name} follows another activation; one may stand between two linear layers")
        elif not (type(module) is nn.Flatten and not layers):
            raise InputError(
                f"edAD: {name or 'the model'} is a {type(module).__name__}; edAD supports only chains "
                "(nn.Sequential) of Linear with ReLU, LeakyReLU, Tanh or Sigmoid between them and Flatten before the "
                "first; use dAD for other models"
            )
    return layers, slopes


def _modules(model: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
    """Modules of a chain with their names, in the order of the chain."""
    if type(model) is nn.Sequential:
        for key, module in model.named_children():
            yield from _modules(module, f"{name}.{key}".lstrip("."))
    else:
        yield name, model


@dataclass(frozen=True)
class LowRankFactors:
    """Factors of a low-rank gradient ``leftᵀ right``, shape (inputs, outputs), of effective rank k.

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
        rank: Maximum number of directions.
        iterations: Maximum number of power iterations per direction.
        tolerance: Change in one iteration, and singular value over the first, below which they count as zero.
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
