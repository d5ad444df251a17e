"""Record and exchange the activations and deltas of linear layers, for distributed auto-differentiation.

The gradient of a linear layer's weight is ΔᵀA. A (T, inputs) are its inputs, Δ (T, outputs), the deltas, are the
derivatives of the loss with respect to its outputs, and T is the product of all leading dimensions. The gradient of its
bias is the sum of Δ's rows. Hooks record A and Δ of every backward pass and remove the local gradients, so that only
gradients that are equal on all ranks are accumulated.

Source: arXiv 2102.09631.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from optinc_collective.schemes.scheme import (
    Traffic,
    fill_from_flat,
    flattened,
    gather_text,
    report_lost_rank,
    ring_bytes,
)
from optinc_pdk.errors import InputError

GRADIENT_TOLERANCE = 0.05
"""Relative difference accepted between a gradient and ΔᵀA: larger than rounding in half precision, smaller than what a
second use of the weight adds."""
FLAG_BYTES = 8
"""Size of a length or a flag: one 64-bit integer."""


@dataclass
class LinearRows:
    """A linear layer with the activations A and deltas Δ recorded in the current backward pass.

    Attributes:
        name: Name of the layer in the model.
        layer: The layer.
        bias: Bias of the layer, if it is trained and its gradient is computed from the rows of Δ; else None.
        calls: Number of calls of the layer since the last exchange.
        records: One tuple per call in the backward pass: number of the call, A (T, inputs), Δ (T, outputs).
        local: Gradient of the weight, shape (outputs, inputs), that autograd computed on this rank; None before the
            backward pass.
    """

    name: str
    layer: nn.Linear
    bias: nn.Parameter | None
    calls: int = 0
    records: list[tuple[int, torch.Tensor, torch.Tensor]] = field(default_factory=list)
    local: torch.Tensor | None = None

    def rows(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return A (rows, inputs) and Δ (rows, outputs) of all calls in order, in the data type of the weight."""
        weight = self.layer.weight
        calls = sorted(self.records, key=lambda call: call[0])
        if not calls:
            return weight.new_empty((0, self.layer.in_features)), weight.new_empty((0, self.layer.out_features))
        return (
            torch.cat([activations for _, activations, _ in calls]).to(weight.dtype),
            torch.cat([deltas for _, _, deltas in calls]).to(weight.dtype),
        )

    def clear(self) -> None:
        """Delete all records, including the local gradient, and set the number of calls to 0."""
        self.calls, self.records, self.local = 0, [], None


def split_parameters(model: nn.Module) -> tuple[list[LinearRows], dict[str, nn.Parameter]]:
    """Split a model into the linear layers whose rows are exchanged and all other trained parameters, by name.

    A layer is exchanged by rows if it is an `nn.Linear` itself (a derived class may compute something else), its
    weight is trained, and no other module shares its weight or bias, as with tied embeddings.

    Raises:
        InputError: There is no such linear layer, or the layers have different data types.
    """
    owners = Counter(id(parameter) for module in model.modules() for parameter in module._parameters.values())
    layers = [
        LinearRows(name, module, _trained(module.bias))
        for name, module in model.named_modules()
        if type(module) is nn.Linear
        and isinstance(module._parameters.get("weight"), nn.Parameter)
        and module.weight.requires_grad
        and all(owners[id(parameter)] == 1 for parameter in module.parameters())
    ]
    if not layers:
        raise InputError(
            f"{type(model).__name__} has no trained nn.Linear with parameters of its own, and distributed "
            "auto-differentiation exchanges nothing else; use a ring all-reduce for it"
        )
    types = {rows.layer.weight.dtype: rows.name for rows in layers}
    if len(types) > 1:
        listed = ", ".join(f"{name} {kind}" for kind, name in types.items())
        raise InputError(f"linear layers have different data types ({listed}); use one type for all")
    inside = {id(parameter) for rows in layers for parameter in rows.layer.parameters()}
    rest = {
        name: parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and id(parameter) not in inside
    }
    return layers, rest


def _trained(parameter: nn.Parameter | None) -> nn.Parameter | None:
    return parameter if parameter is not None and parameter.requires_grad else None


def record_rows(layers: list[LinearRows], others: list[nn.Parameter], completed: Callable[[], None]) -> None:
    """Register hooks that record activations and deltas, and that call a function after every backward pass.

    Args:
        layers: Layers whose activations and deltas are recorded. The backward pass adds zero to the gradients of their
            weights and of `LinearRows.bias`; `completed` adds the averaged gradients.
        others: Parameters whose gradients also trigger the call. Their gradients are accumulated as usual.
        completed: Function that is called once per backward pass that reaches one of them, after all gradients are
            computed.
    """
    state = _Pass(layers, completed)
    for rows in layers:
        _watch_layer(rows, state)
    for parameter in others:
        parameter.register_hook(lambda gradient: state.queue())  # type: ignore[no-untyped-call]


class _Pass:
    """The current backward pass; calls a function once at its end."""

    def __init__(self, layers: list[LinearRows], completed: Callable[[], None]) -> None:
        self._layers, self._completed = layers, completed
        self._queued = False

    def queue(self) -> None:
        """Register the call at the end of the pass, if not registered yet."""
        if not self._queued:
            self._queued = True
            # DistributedDataParallel detects the end of a backward pass in the same way
            torch.autograd.Variable._execution_engine.queue_callback(self._complete)

    def begin(self) -> None:
        """Called when a layer is called: discard the records of a backward pass that was aborted."""
        if self._queued and torch._C._current_graph_task_id() < 0:
            self._queued = False
            for rows in self._layers:
                rows.clear()

    def _complete(self) -> None:
        self._queued = False
        self._completed()


def _watch_layer(rows: LinearRows, state: _Pass) -> None:
    def forward(layer: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any], output: torch.Tensor) -> None:
        state.begin()
        if not output.requires_grad:
            return
        inputs = arguments[0] if arguments else named["input"]
        activations = inputs.detach().reshape(-1, rows.layer.in_features)
        call = rows.calls
        rows.calls += 1

        def backward(deltas: torch.Tensor) -> None:
            rows.records.append((call, activations, deltas.detach().reshape(-1, rows.layer.out_features)))
            state.queue()

        output.register_hook(backward)  # type: ignore[no-untyped-call]

    def take(gradient: torch.Tensor) -> torch.Tensor:
        rows.local = gradient
        return torch.zeros_like(gradient)

    rows.layer.register_forward_hook(forward, with_kwargs=True)
    rows.layer.weight.register_hook(take)  # type: ignore[no-untyped-call]
    if rows.bias is not None:
        rows.bias.register_hook(torch.zeros_like)  # type: ignore[no-untyped-call]


def gradient_fault(layers: list[LinearRows], rest: dict[str, nn.Parameter]) -> str:
    """Describe the first fault of this rank's gradients, with its remedy; empty if there is none.

    Gradients must be finite. Every parameter in `rest` must have a gradient, which must not be sparse. The gradient of
    a linear layer's weight must equal ΔᵀA of the recorded rows; it does not if the weight is also used outside its
    layer.
    """
    for rows in layers:
        if rows.local is None:
            continue
        if not torch.isfinite(rows.local).all():
            return f"the gradient of {rows.name}.weight is not finite; lower the learning rate or scale the loss"
        if not _is_of_its_rows(rows, rows.local):
            return (
                f"the gradient of {rows.name}.weight is not that of its layer's rows: the weight is also used "
                "elsewhere; use it only by calling its layer, or train with a ring all-reduce"
            )
    for name, parameter in rest.items():
        if parameter.grad is None:
            return f"{name} has no gradient: the loss does not use it; freeze it with requires_grad_(False)"
        if parameter.grad.is_sparse:
            return f"the gradient of {name} is sparse, which cannot be averaged: create its embedding with sparse=False"
        if not torch.isfinite(parameter.grad).all():
            return f"the gradient of {name} is not finite; lower the learning rate or scale the loss"
    return ""


def _is_of_its_rows(rows: LinearRows, local: torch.Tensor) -> bool:
    """Whether a weight's gradient is ΔᵀA; checked by the product with one random vector."""
    probe = torch.randn(rows.layer.in_features, generator=torch.Generator().manual_seed(0)).to(local)
    activations, deltas = rows.rows()
    image = activations @ probe
    formed, expected = deltas.T @ image, local @ probe
    # rows that cancel leave rounding errors of this size
    rounding = torch.finfo(local.dtype).eps ** 0.5 * deltas.norm() * image.norm()
    return bool((formed - expected).norm() <= GRADIENT_TOLERANCE * (formed.norm() + expected.norm()) + rounding)


def gather_rows(local: Sequence[torch.Tensor], fault: str, traffic: Traffic) -> list[torch.Tensor]:
    """All-gather of several tensors whose numbers of rows differ between ranks.

    First the ranks exchange the numbers of rows, and a flag that is set on a rank with a fault. Then the rows of every
    rank are passed around a ring as one buffer: in each of N − 1 steps a rank sends the buffer that it received in the
    step before. So rank n sends the buffers of all ranks except n + 1: (N − 1) b bytes if every rank has b bytes.

    Args:
        local: This rank's tensors, shape (rows, width) each. Order, widths and data type are equal on all ranks.
        fault: Description of why this rank's tensors cannot be used; empty if they can.
        traffic: Counter to which the bytes sent are added: rows as `payload`, numbers of rows and flag as `side`.

    Returns:
        One tensor for every tensor in `local`, shape (rows of all ranks, width), with the ranks in order.

    Raises:
        InputError: On every rank, if any rank has a fault.
        CommunicationError: A rank was lost.
    """
    rank, world = dist.get_rank(), dist.get_world_size()
    lengths = _lengths([len(tensor) for tensor in local], fault, local[0].device, traffic)
    widths = torch.tensor([tensor.shape[1] for tensor in local])
    blocks = [local[0].new_empty(int((lengths[other] * widths).sum())) for other in range(world)]
    blocks[rank] = torch.cat([tensor.reshape(-1) for tensor in local])
    following, previous = (rank + 1) % world, (rank - 1) % world
    with report_lost_rank("activations and deltas"):
        for step in range(world - 1):
            sent, received = blocks[(rank - step) % world], blocks[(rank - step - 1) % world]
            moves = [dist.P2POp(dist.isend, sent, following)] if sent.numel() else []
            moves += [dist.P2POp(dist.irecv, received, previous)] if received.numel() else []
            for request in dist.batch_isend_irecv(moves) if moves else []:
                request.wait()
            traffic.payload += sent.numel() * sent.element_size()
    pieces = [torch.split(block, (lengths[other] * widths).tolist()) for other, block in enumerate(blocks)]
    return [torch.cat([of_rank[k] for of_rank in pieces]).view(-1, int(widths[k])) for k in range(len(local))]


def _lengths(local: list[int], fault: str, device: torch.device, traffic: Traffic) -> torch.Tensor:
    """Number of rows of every tensor on every rank, (ranks, tensors).

    Raises:
        InputError: On every rank, if any rank has a fault.
    """
    world = dist.get_world_size()
    message = torch.tensor([bool(fault), *local], dtype=torch.int64, device=device)
    received = [torch.empty_like(message) for _ in range(world)]
    with report_lost_rank("numbers of rows"):
        dist.all_gather(received, message)
    traffic.side += (world - 1) * FLAG_BYTES * len(message)
    table = torch.stack(received).cpu()
    if table[:, 0].any():
        faults = {other: text for other, text in enumerate(gather_text(fault)) if text}
        raise InputError("; ".join(f"rank {other}: {text}" for other, text in faults.items()))
    return table[:, 1:]


def average_exactly(parameters: Sequence[nn.Parameter], traffic: Traffic) -> None:
    """Replace the gradients of parameters by their mean over all ranks, with one all-reduce per data type.

    The traffic is that of a ring all-reduce, 2 (N − 1)/N of the data for N ranks.

    Raises:
        CommunicationError: A rank was lost.
    """
    world = dist.get_world_size()
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    flats = flattened(gradients)
    for flat in flats:
        with report_lost_rank("gradients of the parameters outside linear layers"):
            dist.all_reduce(flat)
        flat /= world
        traffic.payload += ring_bytes(flat.numel() * flat.element_size(), world)
    fill_from_flat(gradients, flats)
