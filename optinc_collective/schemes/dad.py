"""Distributed auto-differentiation (dAD): ranks exchange activations and deltas, and each computes the whole gradient.

Source: arXiv 2102.09631.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn

from optinc_collective.schemes.exact_exchange import average_exactly, gather_rows
from optinc_collective.schemes.linear_rows import LinearRows, gradient_fault, record_rows, split_parameters
from optinc_collective.schemes.scheme import Scheme, raise_on_all_ranks, report_lost_rank, require_equal_parameters
from optinc_pdk.errors import InputError


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
        """Register hooks on a model, and broadcast the first rank's parameters and buffers.

        Args:
            model: The user's model.

        Returns:
            The same model.

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
        with report_lost_rank("the first rank's parameters"), torch.no_grad():
            for tensor in [*model.parameters(), *model.buffers()]:
                dist.broadcast(tensor, 0)
        record_rows(self._layers, list(self._rest.values()), self._exchange)
        return model

    def finish(self) -> None:
        """Replace the model's buffers, such as running statistics, by those of the first rank."""
        if self._model is not None:
            with report_lost_rank("the first rank's buffers"):
                for buffer in self._model.buffers():
                    dist.broadcast(buffer, 0)

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
        """Check and prepare a model for a derived scheme.

        Raises:
            InputError: The scheme does not support the model.
        """

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
