"""Distributed auto-differentiation: ranks share activations and deltas, and each forms the whole gradient itself.

Source: arXiv 2102.09631.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn

from optinc_pdk.collective.capture import LinearRows, fault, split, watch
from optinc_pdk.collective.gather import average_exactly, gather_rows
from optinc_pdk.collective.scheme import Scheme, communicating, same_parameters, together
from optinc_pdk.errors import InputError


class Dad(Scheme):
    """dAD: every rank gets all activations A and deltas Δ of every linear layer, and forms ΔᵀA and Δ's sum.

    The gradient is the mean over ranks exactly, up to the order of the floating-point sum. A rank sends
    (N − 1) Σ T (inputs + outputs) numbers in a step, T its rows, less than a ring where T (inputs + outputs) is less
    than 2 inputs · outputs / N. Ranks may have different numbers of rows; as in torch's own data parallelism each
    rank's loss counts as much as any other's.

    What is trained outside linear layers (`capture.split`) is averaged by an exact all-reduce, and so counted. The
    exchange happens at the end of `backward`, so that gradients can be clipped between it and `step`. Buffers, such
    as running statistics, are a rank's own until `finish`, which takes the first rank's, as torch's own does.
    """

    name = "dAD"

    def __init__(self) -> None:
        super().__init__()
        self._model: nn.Module | None = None
        self._layers: list[LinearRows] = []
        self._rest: dict[str, nn.Parameter] = {}

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model itself, with hooks; its parameters and buffers are the first rank's afterwards.

        Raises:
            InputError: No trained linear layer of its own, layers of differing types of number, or ranks with
                different parameters; a second model.
        """
        same_parameters(model)
        with together():
            if self._model is not None:
                raise InputError(f"{self.name} has a model already: make another {type(self).__name__} for this one")
            self._layers, self._rest = split(model)
            self._prepare(model)
        self._model = model
        with communicating("the first rank's parameters"), torch.no_grad():
            for tensor in [*model.parameters(), *model.buffers()]:
                dist.broadcast(tensor, 0)
        watch(self._layers, list(self._rest.values()), self._exchange)
        return model

    def finish(self) -> None:
        """Take the first rank's buffers."""
        if self._model is not None:
            with communicating("the first rank's buffers"):
                for buffer in self._model.buffers():
                    dist.broadcast(buffer, 0)

    @torch.no_grad()
    def _exchange(self) -> None:
        """Add the mean over ranks of this backward pass to the gradients."""
        try:
            fault = self._fault()
            gathered = gather_rows(self._shared(), fault, self.traffic)
            for found, (activations, deltas) in zip(self._layers, self._rows(gathered), strict=True):
                _accumulate(found, activations, deltas)
            average_exactly(list(self._rest.values()), self.traffic)
        finally:
            for found in self._layers:
                found.clear()

    def _prepare(self, model: nn.Module) -> None:
        """What a scheme asks of a model beyond linear layers.

        Raises:
            InputError: The model does not suit the scheme.
        """

    def _fault(self) -> str:
        """What makes this rank's backward pass unusable; empty where nothing does."""
        return fault(self._layers, self._rest)

    def _shared(self) -> list[torch.Tensor]:
        """What this rank sends, tensors of rows."""
        return [rows for found in self._layers for rows in found.rows()]

    def _rows(self, gathered: Sequence[torch.Tensor]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """A and Δ of all ranks, of every layer, from what was gathered of all ranks."""
        return list(zip(gathered[::2], gathered[1::2], strict=True))


def _accumulate(found: LinearRows, activations: torch.Tensor, deltas: torch.Tensor) -> None:
    """Add a layer's mean gradient of all ranks' rows."""
    if len(deltas) == 0:
        return  # no rank used the layer: its gradient stays as it was
    _add(found.layer.weight, deltas.T @ activations / dist.get_world_size())
    if found.bias is not None:
        _add(found.bias, deltas.sum(0) / dist.get_world_size())


def _add(parameter: torch.Tensor, gradient: torch.Tensor) -> None:
    """Accumulate a gradient as autograd does."""
    if parameter.grad is None:
        parameter.grad = gradient
    else:
        parameter.grad += gradient
