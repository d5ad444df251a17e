"""What distributed auto-differentiation shares: the activations and deltas of a model's linear layers, as they pass.

The gradient of a linear layer's weight is ΔᵀA, with its inputs A (T, inputs) and the derivatives Δ (T, outputs) of the
loss by its outputs, T the product of all leading dimensions; that of its bias is the sum of Δ's rows. Hooks keep A
and Δ of every backward pass and take the local gradients away, so that only what all ranks agree on is accumulated.

Source: arXiv 2102.09631.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from optinc_pdk.errors import InputError

WHOLE = 0.05
"""By how much a gradient may differ from the layer's own ΔᵀA: above half precision's rounding, below any other use."""


@dataclass
class LinearRows:
    """A linear layer and what passed it in the backward pass under way.

    Attributes:
        name: In the model.
        layer: The layer.
        bias: Its bias, where that is trained and its gradient formed of the rows.
        calls: How often it was called since the last exchange.
        passed: By number of the call, A (T, inputs) and Δ (T, outputs).
        local: The gradient of the weight that autograd formed of this rank's rows.
    """

    name: str
    layer: nn.Linear
    bias: nn.Parameter | None
    calls: int = 0
    passed: list[tuple[int, torch.Tensor, torch.Tensor]] = field(default_factory=list)
    local: torch.Tensor | None = None

    def rows(self) -> tuple[torch.Tensor, torch.Tensor]:
        """A and Δ of all calls, in the order of the calls, in the weight's type of number."""
        weight = self.layer.weight
        calls = sorted(self.passed, key=lambda call: call[0])
        if not calls:
            return weight.new_empty((0, self.layer.in_features)), weight.new_empty((0, self.layer.out_features))
        return (
            torch.cat([activations for _, activations, _ in calls]).to(weight.dtype),
            torch.cat([deltas for _, _, deltas in calls]).to(weight.dtype),
        )

    def clear(self) -> None:
        """Forget what passed."""
        self.calls, self.passed, self.local = 0, [], None


def split(model: nn.Module) -> tuple[list[LinearRows], dict[str, nn.Parameter]]:
    """Part a model's trained parameters: those of linear layers that are shared by rows, and all others.

    A layer belongs to the first where it is an `nn.Linear` itself (not of a class derived from it, which may compute
    otherwise), its weight is trained, and no other module has a part in its weight or bias, as with tied embeddings.

    Returns:
        The linear layers, in the model's order, and by name the parameters outside them: convolutions, norms,
        embeddings, tied and derived layers.

    Raises:
        InputError: No such layer, or layers of differing types of number.
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
            f"{type(model).__name__} has no linear layer of its own that is trained, and distributed "
            "auto-differentiation shares nothing else; use a ring all-reduce for it"
        )
    types = {found.layer.weight.dtype: found.name for found in layers}
    if len(types) > 1:
        listed = ", ".join(f"{name} {kind}" for kind, name in types.items())
        raise InputError(f"linear layers of differing types ({listed}); give all of them one")
    inside = {id(parameter) for found in layers for parameter in found.layer.parameters()}
    rest = {
        name: parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and id(parameter) not in inside
    }
    return layers, rest


def _trained(parameter: nn.Parameter | None) -> nn.Parameter | None:
    return parameter if parameter is not None and parameter.requires_grad else None


def watch(layers: list[LinearRows], others: list[nn.Parameter], completed: Callable[[], None]) -> None:
    """Keep the rows of layers, and call a function at the end of every backward pass that meets any of them.

    Args:
        layers: Whose rows are kept; their weights' and biases' gradients are left as they were before the pass.
        others: Parameters whose gradients also start a call; they are accumulated as ever.
        completed: Called once in every pass, after all gradients.
    """
    state = _Pass(layers, completed)
    for found in layers:
        _watch_layer(found, state)
    for parameter in others:
        parameter.register_hook(lambda gradient: state.queue())  # type: ignore[no-untyped-call]


class _Pass:
    """The backward pass under way, whose end is announced once."""

    def __init__(self, layers: list[LinearRows], completed: Callable[[], None]) -> None:
        self._layers, self._completed = layers, completed
        self._queued = False

    def queue(self) -> None:
        """Have the end announced, where that is not done yet."""
        if not self._queued:
            self._queued = True
            # how torch's own data parallelism learns that a backward pass has ended
            torch.autograd.Variable._execution_engine.queue_callback(self._complete)

    def begin(self) -> None:
        """A layer is called: forget a backward pass that broke off, and so never came to its end."""
        if self._queued and torch._C._current_graph_task_id() < 0:
            self._queued = False
            for found in self._layers:
                found.clear()

    def _complete(self) -> None:
        self._queued = False
        self._completed()


def _watch_layer(found: LinearRows, state: _Pass) -> None:
    def forward(layer: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any], output: torch.Tensor) -> None:
        state.begin()
        if not output.requires_grad:
            return
        given = arguments[0] if arguments else named["input"]
        activations = given.detach().reshape(-1, found.layer.in_features)
        call = found.calls
        found.calls += 1

        def backward(deltas: torch.Tensor) -> None:
            found.passed.append((call, activations, deltas.detach().reshape(-1, found.layer.out_features)))
            state.queue()

        output.register_hook(backward)  # type: ignore[no-untyped-call]

    def take(gradient: torch.Tensor) -> torch.Tensor:
        found.local = gradient
        return torch.zeros_like(gradient)

    found.layer.register_forward_hook(forward, with_kwargs=True)
    found.layer.weight.register_hook(take)  # type: ignore[no-untyped-call]
    if found.bias is not None:
        found.bias.register_hook(torch.zeros_like)  # type: ignore[no-untyped-call]


def fault(layers: list[LinearRows], rest: dict[str, nn.Parameter]) -> str:
    """What is wrong with this rank's gradients, naming the parameter; empty where nothing is.

    They have to be finite, every parameter outside the linear layers has to have one, and those of linear layers have
    to be the product of the layer's own rows: a weight that is used outside its layer is not.
    """
    for found in layers:
        if found.local is None:
            continue
        if not torch.isfinite(found.local).all():
            return f"the gradient of {found.name}.weight is not finite; lower the learning rate or scale the loss"
        if not _is_of_its_rows(found, found.local):
            return (
                f"the gradient of {found.name}.weight is not that of its layer's rows: the weight is used elsewhere "
                "too; use it only by calling its layer, or train with a ring all-reduce"
            )
    for name, parameter in rest.items():
        if parameter.grad is None:
            return f"{name} has no gradient: the loss does not use it; freeze it with requires_grad_(False)"
        if parameter.grad.is_sparse:
            return f"the gradient of {name} is sparse, which cannot be averaged here: make its embedding sparse=False"
        if not torch.isfinite(parameter.grad).all():
            return f"the gradient of {name} is not finite; lower the learning rate or scale the loss"
    return ""


def _is_of_its_rows(found: LinearRows, local: torch.Tensor) -> bool:
    """Whether a weight's gradient is ΔᵀA, tried with one vector."""
    probe = torch.randn(found.layer.in_features, generator=torch.Generator().manual_seed(0)).to(local)
    activations, deltas = found.rows()
    image = activations @ probe
    formed, expected = deltas.T @ image, local @ probe
    # where rows cancel, what is left is their rounding
    rounding = torch.finfo(local.dtype).eps ** 0.5 * deltas.norm() * image.norm()
    return bool((formed - expected).norm() <= WHOLE * (formed.norm() + expected.norm()) + rounding)
