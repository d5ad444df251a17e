"""edAD: ranks exchange all activations and the top layer's deltas, and compute the other deltas by the chain rule.

Source: arXiv 2102.09631.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import nn

from optinc_collective.schemes.dad import Dad
from optinc_collective.schemes.linear_rows import GRADIENT_TOLERANCE
from optinc_pdk.errors import InputError

OutputDerivative = Callable[[torch.Tensor], torch.Tensor]
"""Derivative of an activation function as a function of its output."""


def output_derivative(activation: nn.Module) -> OutputDerivative | None:
    """Return the derivative φ′ of an activation function φ as a function of its output.

    Args:
        activation: Module of the activation function.

    Returns:
        Function from the outputs of φ to the values of φ′, of equal shape. None if the outputs do not determine φ′, or
        if the module is not ReLU, LeakyReLU with a positive slope, tanh or sigmoid.
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
        The linear layers in the order of the chain; and for every layer a list with the derivative of the activation
        function directly before it, or an empty list if there is none.

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
