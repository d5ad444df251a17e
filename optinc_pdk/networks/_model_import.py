"""Trained models of PyTorch and scikit-learn as chains of steps.

PyTorch is imported only when a module is given, scikit-learn not at all.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.errors import InputError
from optinc_pdk.networks._steps import RELU, Clamp, FoldedModel, Step, fold
from optinc_pdk.networks.layers import Layer

if TYPE_CHECKING:
    from torch import Tensor, fx, nn


def _layer(where: str, weight: Any, bias: Any) -> Layer:
    """Return a layer, whose arrays are those of a model.

    Raises:
        InputError: They cannot be those of a layer; the message begins with ``where``.
    """
    try:
        return Layer(weight, bias)
    except ValueError as fault:
        raise InputError(f"{where}: {fault}") from fault


_ALLOWED = "a chip computes layers (torch.nn.Linear), with ReLU or torch.nn.Hardtanh(0, 1) between them"
_SKIPPED = {"flatten", "dropout"}
"""Functions and methods that leave (samples, inputs) as they are when a network is evaluated."""


def torch_model(module: Any) -> FoldedModel:
    """Return layers and activation of a PyTorch module, see :meth:`optinc_pdk.networks.Network.from_torch`."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(module, torch.nn.Module):
        raise InputError(
            f"module is of type {type(module).__name__}; give a torch.nn.Module, such as torch.nn.Sequential"
        )
    return fold(_torch_steps(module))


def _torch_steps(module: nn.Module) -> Iterator[Step]:
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
            raise InputError(f"{where}: does not take the result of the step before it alone; {_ALLOWED}, one by one")
        elif node.op == "call_module":
            yield from _module_step(where, traced.get_submodule(str(node.target)))
        elif node.op != "output":
            yield from _function_step(where, node)
        before = node


def _module_step(where: str, part: nn.Module) -> Iterator[Step]:
    """Yield the step of a module of torch.nn; none if it does nothing when a network is evaluated."""
    from torch import nn

    where = f"{where} ({type(part).__name__})"
    if isinstance(part, nn.Linear):
        weight = _array(where, part.weight)
        bias = np.zeros(len(weight)) if part.bias is None else _array(where, part.bias)
        yield (where, _layer(where, weight, bias))
    elif isinstance(part, nn.ReLU):
        yield (where, RELU)
    # ReLU6 is a Hardtanh
    elif isinstance(part, nn.Hardtanh):
        yield (where, _clamp(where, part.min_val, part.max_val))
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


def _function_step(where: str, node: fx.Node) -> Iterator[Step]:
    """Yield the step of a function or method; none if it does nothing when a network is evaluated."""
    name = str(getattr(node.target, "__name__", node.target)).rstrip("_")
    if name == "relu":
        yield (where, RELU)
    elif name in ("clamp", "hardtanh"):
        limits: dict[str, Any] = {"min": None, "max": None} if name == "clamp" else {"min_val": -1.0, "max_val": 1.0}
        limits |= dict(zip(limits, node.args[1:], strict=False))
        limits |= {key: value for key, value in node.kwargs.items() if key in limits}
        yield (where, _clamp(where, *limits.values()))
    elif name not in _SKIPPED:
        raise _unknown(f"{where} ({name})")


def _clamp(where: str, low: Any, high: Any) -> Clamp:
    """Return the clamp to a range; None stands for no bound.

    Raises:
        InputError: A bound is not a number, but a tensor for example.
    """
    bounds = (-math.inf if low is None else low, math.inf if high is None else high)
    if not all(isinstance(bound, int | float) for bound in bounds):
        raise InputError(f"{where}: limits signals to {low} … {high}; give numbers")
    return Clamp(*map(float, bounds))


def _unknown(where: str) -> InputError:
    """Return the error for a step that a chip does not compute."""
    remedy = "replace it"
    if "BatchNorm" in where:
        remedy = "merge it into the layer before with torch.nn.utils.fusion.fuse_linear_bn_eval"
    elif "oftmax" in where or "igmoid" in where:
        remedy = "leave it out at the end, where the largest output is the same class without it, or replace it"
    return InputError(f"{where}: is not computed by a chip; {_ALLOWED}: {remedy}")


_ESTIMATORS = ("MLPClassifier", "MLPRegressor")


def sklearn_model(estimator: Any) -> tuple[FoldedModel, dict[str, Any]]:
    """Return layers, activation and card of an estimator, see :meth:`optinc_pdk.networks.Network.from_sklearn`."""
    kind = type(estimator).__name__
    bases = {base.__name__ for base in type(estimator).__mro__ if base.__module__.partition(".")[0] == "sklearn"}
    if "Pipeline" in bases:
        raise InputError(
            f"estimator is of type {kind}; give its last step, estimator[-1], and data as estimator[:-1].transform(x)"
        )
    if bases.isdisjoint(_ESTIMATORS):
        raise InputError(f"estimator is of type {kind}; give an MLPClassifier or MLPRegressor of scikit-learn")
    if not hasattr(estimator, "coefs_"):
        raise InputError(f"estimator, of type {kind}, is not fitted; call fit first")
    if estimator.activation != "relu" and len(estimator.coefs_) > 1:
        remedy = "with activation='relu'"
        if estimator.activation == "identity":
            remedy += ", or build the product of its matrices with op.build(matrix)"
        raise InputError(f"estimator has activation {estimator.activation!r}, which no chip computes; train {remedy}")
    card: dict[str, Any] = {}
    if "MLPClassifier" in bases:
        if estimator.out_activation_ == "logistic" and estimator.n_outputs_ > 1:
            raise InputError(
                f"estimator has {estimator.n_outputs_} labels that do not exclude each other, and a chip chooses one; "
                "train one estimator for each label"
            )
        card["classes"] = np.asarray(estimator.classes_).tolist()
    return fold(_sklearn_steps(estimator)), card


def _sklearn_steps(estimator: Any) -> Iterator[Step]:
    """Yield the layers of an estimator, with ReLU between them."""
    for i, (weight, bias) in enumerate(zip(estimator.coefs_, estimator.intercepts_, strict=True)):
        if i:
            yield (f"activation {i - 1}", RELU)
        yield (f"coefs_[{i}]", _layer(f"coefs_[{i}]", np.asarray(weight).T, np.asarray(bias)))
