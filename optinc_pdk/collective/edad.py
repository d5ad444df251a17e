"""edAD: all activations but only the top layer's deltas are shared; the lower ones follow by the chain rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import nn

from optinc_pdk.collective.capture import WHOLE
from optinc_pdk.collective.dad import Dad
from optinc_pdk.errors import InputError

Slope = Callable[[torch.Tensor], torch.Tensor]
"""An activation function's derivative, from its output."""


def slope(activation: nn.Module) -> Slope | None:
    """The derivative of an activation function from its output alone; None where there is no such thing."""
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
    """edAD, for chains of linear layers with ReLU, LeakyReLU, tanh or sigmoid between them.

    Ranks share every layer's inputs A_i and the top layer's Δ_L. A layer's inputs are the activations below it, whose
    derivative they tell, so every rank forms ``Δ_{i-1} = (Δ_i W_i) ⊙ φ′(A_i)`` of all rows, down to the first layer.
    Exact like dAD, for (N − 1) T (Σ inputs + top outputs) numbers a rank and step.
    """

    name = "edAD"

    def __init__(self) -> None:
        super().__init__()
        self._slopes: list[list[Slope]] = []

    def _prepare(self, model: nn.Module) -> None:
        order, self._slopes = chain(model)
        if [found.layer for found in self._layers] != order:
            raise InputError("edAD passes deltas through every linear layer; train all of them, each once")

    def _shared(self) -> list[torch.Tensor]:
        rows = [found.rows() for found in self._layers]
        return [*(activations for activations, _ in rows), rows[-1][1]]

    def _rows(self, gathered: Sequence[torch.Tensor]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        activations = gathered[:-1]
        return list(zip(activations, self._descend(activations, gathered[-1]), strict=True))

    def _fault(self) -> str:
        found = super()._fault()
        own = [layer.rows() for layer in self._layers]
        if found or len({len(deltas) for _, deltas in own}) > 1:
            return found or "edAD: not every layer of the chain saw the same rows; call the chain as a whole"
        bottom = self._descend([activations for activations, _ in own], own[-1][1])[0]
        if (bottom - own[0][1]).norm() > WHOLE * own[0][1].norm():
            return (
                "edAD: the loss uses the chain elsewhere than at its end, so deltas do not follow from the top; use dAD"
            )
        return ""

    def _descend(self, activations: Sequence[torch.Tensor], top: torch.Tensor) -> list[torch.Tensor]:
        """Every layer's deltas from the top one's, by the chain rule; the lowest first."""
        deltas = [top]
        for above in range(len(self._layers) - 1, 0, -1):
            below = deltas[-1] @ self._layers[above].layer.weight
            for derivative in self._slopes[above]:
                below = below * derivative(activations[above])
            deltas.append(below)
        return deltas[::-1]


def chain(model: nn.Module) -> tuple[list[nn.Linear], list[list[Slope]]]:
    """A model as a chain of linear layers and activations.

    Returns:
        The linear layers, and for each the derivatives of the activation below it, none or one.

    Raises:
        InputError: Anything else; names the module.
    """
    layers: list[nn.Linear] = []
    slopes: list[list[Slope]] = []
    below: list[Slope] = []
    for name, module in _modules(model, ""):
        derivative = slope(module)
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
                f"edAD: {name or 'the model'} is a {type(module).__name__}; deltas are recomputed through chains "
                "(nn.Sequential) of Linear with ReLU, LeakyReLU, Tanh or Sigmoid between them and Flatten before the "
                "first; use dAD for others"
            )
    return layers, slopes


def _modules(model: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
    """What a chain is made of, in its order, with names."""
    if type(model) is nn.Sequential:
        for key, module in model.named_children():
            yield from _modules(module, f"{name}.{key}".lstrip("."))
    else:
        yield name, model
