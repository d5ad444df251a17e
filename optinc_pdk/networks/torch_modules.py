"""PyTorch modules as networks. PyTorch is imported only here, when a module is given."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.errors import InputError
from optinc_pdk.networks.general_network import GeneralNetwork
from optinc_pdk.networks.model_chain import ModelStep, layer_of, network_of_steps
from optinc_pdk.options import Activation

if TYPE_CHECKING:
    from torch import Tensor, fx, nn

_WANTED = "a chip computes layers (torch.nn.Linear), with ReLU or torch.nn.Hardtanh(0, 1) between them"
_SKIPPED = {"flatten", "dropout"}
"""Functions and methods that leave (samples, inputs) as they are when a network is evaluated."""


def torch_network(module: Any, input_range: ArrayLike | None = None) -> GeneralNetwork:
    """Return the network of a PyTorch module as it is evaluated, see :meth:`optinc_pdk.networks.Network.from_torch`."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(module, torch.nn.Module):
        raise InputError(
            f"module is of type {type(module).__name__}; give a torch.nn.Module, such as torch.nn.Sequential"
        )
    return network_of_steps(_steps(module), input_range)


def _steps(module: nn.Module) -> Iterator[ModelStep]:
    """Yield the layers and activations of a module in the order of its forward function.

    Raises:
        InputError: The module computes something else.
    """
    from torch import fx, nn

    if isinstance(module, nn.Linear | nn.ReLU | nn.Hardtanh):
        # a module of torch.nn is not traced into
        module = nn.Sequential(module)
    try:
        traced = fx.symbolic_trace(module)
    except Exception as fault:
        # the forward function is the user's, and may raise anything for a symbolic input
        raise InputError(
            f"{type(module).__name__}: its forward function cannot be traced ({fault}); give a torch.nn.Sequential"
        ) from fault
    before: fx.Node | None = None
    for node in traced.graph.nodes:
        where = f"{type(module).__name__}: {node.target if node.op == 'call_module' else node.name}"
        if node.op == "placeholder":
            if before is not None:
                raise InputError(f"{where}: a second input; give a module of one input")
        elif node.all_input_nodes != [before]:
            raise InputError(f"{where}: does not take the result of the step before it alone; {_WANTED}, one by one")
        elif node.op == "call_module":
            yield from _module_step(where, traced.get_submodule(str(node.target)))
        elif node.op != "output":
            yield from _function_step(where, node)
        before = node


def _module_step(where: str, part: nn.Module) -> Iterator[ModelStep]:
    """Yield the step of a module of torch.nn; none if it does nothing when a network is evaluated."""
    from torch import nn

    where = f"{where} ({type(part).__name__})"
    if isinstance(part, nn.Linear):
        weight = _array(where, part.weight)
        bias = np.zeros(len(weight)) if part.bias is None else _array(where, part.bias)
        yield ModelStep(where, layer_of(where, weight, bias))
    elif isinstance(part, nn.ReLU6):
        raise _unknown(where)
    elif isinstance(part, nn.ReLU):
        yield ModelStep(where, "relu")
    elif isinstance(part, nn.Hardtanh):
        yield ModelStep(where, _clipping(where, part.min_val, part.max_val))
    elif not isinstance(part, nn.Flatten | nn.Identity | nn.Dropout):
        raise _unknown(where)


def _array(where: str, parameter: Tensor) -> NDArray[Any]:
    """Return the values of a parameter; floats that NumPy lacks, such as bfloat16, are exact in float64.

    Raises:
        InputError: The parameter has no values.
    """
    if parameter.is_meta:
        raise InputError(f"{where}: is on the device 'meta', so that it has no values; load its weights first")
    values = parameter.detach().cpu()
    return np.asarray((values.double() if values.is_floating_point() else values).numpy())


def _function_step(where: str, node: fx.Node) -> Iterator[ModelStep]:
    """Yield the step of a function or method; none if it does nothing when a network is evaluated."""
    name = str(getattr(node.target, "__name__", node.target)).rstrip("_")
    if name == "relu":
        yield ModelStep(where, "relu")
    elif name in ("clamp", "hardtanh"):
        limits: dict[str, Any] = {"min": None, "max": None} if name == "clamp" else {"min_val": -1.0, "max_val": 1.0}
        limits |= dict(zip(limits, node.args[1:], strict=False))
        limits |= {key: value for key, value in node.kwargs.items() if key in limits}
        yield ModelStep(where, _clipping(where, *limits.values()))
    elif name not in _SKIPPED:
        raise _unknown(f"{where} ({name})")


def _clipping(where: str, low: Any, high: Any) -> Activation:
    """Return the activation that limits signals to a range."""
    if low == 0 and high is None:
        return "relu"
    if low == 0 and high == 1:
        return "clipped_relu"
    raise InputError(f"{where}: limits signals to {low} … {high}; a modulator limits them to 0 … 1: train with these")


def _unknown(where: str) -> InputError:
    """Return the error for a step that a chip does not compute."""
    remedy = "replace it"
    if "BatchNorm" in where:
        remedy = "merge it into the layer before with torch.nn.utils.fusion.fuse_linear_bn_eval"
    elif "oftmax" in where or "igmoid" in where:
        remedy = "leave it out at the end, where the largest output is the same class without it, or replace it"
    return InputError(f"{where}: is not computed by a chip; {_WANTED}: {remedy}")
