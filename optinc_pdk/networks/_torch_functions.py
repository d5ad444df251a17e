"""Functions of PyTorch that a chip computes, as steps.

One table is used for functions and methods that ``torch.fx`` traces, for the operators of exported programs, and for
modules of ``torch.nn``, which are calls of the same functions. PyTorch is not imported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.errors import InputError
from optinc_pdk.networks._steps import RELU, Affine, Clamp, LeftOut, Sine
from optinc_pdk.networks.layers import Layer

if TYPE_CHECKING:
    from torch import nn

ALLOWED = "a chip computes layers (torch.nn.Linear), with ReLU or torch.nn.Hardtanh(0, 1) between them"


class Signal:
    """The signals of a network, (samples, signals), in place of a tensor."""


class Size:
    """A size of the signals, such as the number of samples."""


Found = Layer | Affine | Clamp | Sine | LeftOut | int | str
"""What a function is: steps; the number of signals that it states; and remarks."""


def layer(where: str, weight: Any, bias: Any) -> Layer:
    """Return a layer, whose arrays are those of a model.

    Raises:
        InputError: They cannot be those of a layer; the message begins with ``where``.
    """
    try:
        return Layer(weight, bias)
    except ValueError as fault:
        raise InputError(f"{where}: {fault}") from fault


def array(where: str, value: Any) -> NDArray[Any]:
    """Return the values of a number or parameter; floats that NumPy lacks, such as bfloat16, are exact in float64.

    Raises:
        InputError: It has no values, no real ones, or is the result of another step.
    """
    if isinstance(value, Signal | Size):
        raise InputError(f"{where}: does not take the result of the step before it alone; {ALLOWED}, one by one")
    if isinstance(value, int | float):
        return np.asarray(float(value))
    if not hasattr(value, "is_meta"):
        raise InputError(f"{where}: takes {value!r}; give a number or a parameter")
    if value.is_meta:
        raise InputError(f"{where}: is on the device 'meta', so that it has no values; load its weights first")
    if value.is_complex():
        raise InputError(f"{where}: holds complex numbers; give real ones")
    return np.asarray(value.detach().cpu().double().numpy())


def unknown(where: str) -> InputError:
    """Return the error for a step that a chip does not compute."""
    remedy = "replace it"
    if "igmoid" in where:
        remedy = "leave it out at the end, where outputs above 0 are those above 0.5 with it, or replace it"
    elif "oftm" in where:
        remedy = "leave it out at the end, where the order of the outputs is known without it, or replace it"
    return InputError(f"{where}: is not computed by a chip; {ALLOWED}: {remedy}")


def steps_of(where: str, function: str, arguments: Sequence[Any], keywords: dict[str, Any]) -> Iterable[Found]:
    """Return the steps of a call; none if it does nothing when a network is evaluated.

    Args:
        where: Name of the call, for messages.
        function: Name of the function, without the underscores of in-place functions.
        arguments: Its arguments: tensors, numbers, and a ``Signal``.
        keywords: Its named arguments.

    Raises:
        InputError: A chip does not compute it.
    """
    if function not in FUNCTIONS:
        raise unknown(where)
    try:
        # a generator checks its arguments when it is called
        return FUNCTIONS[function](where, *arguments, **keywords)
    except TypeError as fault:
        raise InputError(f"{where}: is called with arguments that are not known here ({fault}); drop them") from fault


def check_unchanged(where: str, part: nn.Module) -> None:
    """Check that a module computes what its class does.

    Raises:
        InputError: It has hooks, or a forward function of its own.
    """
    if part._forward_hooks or part._forward_pre_hooks or "forward" in vars(part):
        raise InputError(
            f"{where}: has hooks or a forward function of its own, which may change its values; remove them, for "
            "example with torch.nn.utils.prune.remove or remove_weight_norm"
        )


def module_call(where: str, part: nn.Module) -> tuple[str, list[Any]]:
    """Return a module of torch.nn as a function of the table, and its arguments after the signals.

    Raises:
        InputError: The module is another one, or computes something else than its class.
    """
    known = [
        kind for kind in type(part).__mro__ if kind.__name__ in _MODULES and kind.__module__.startswith("torch.nn.")
    ]
    if not known:
        raise unknown(where)
    check_unchanged(where, part)
    return _MODULES[known[0].__name__](part)


def _number(where: str, value: Any) -> float:
    values = array(where, value)
    if values.size != 1:
        raise InputError(f"{where}: limits signals to {values.size} values of their own; give one number")
    return float(values.reshape(()))


def _constant(where: str, value: Any) -> NDArray[Any]:
    """Return what is added to the signals or multiplies them: a number, or one for each."""
    values = array(where, value)
    if values.size > 1 and values.shape[-1] == 1:
        raise InputError(f"{where}: differs from sample to sample, shape {values.shape}; give a number for each signal")
    return values.reshape(-1) if values.ndim else values


def _nothing(where: str, x: Any, *_: Any, **__: Any) -> Iterator[Found]:
    yield from ()


def _relu(where: str, x: Any, inplace: bool = False) -> Iterator[Found]:
    yield RELU


def _relu6(where: str, x: Any, inplace: bool = False) -> Iterator[Found]:
    yield Clamp(0.0, 6.0)


def _hardtanh(where: str, x: Any, min_val: Any = -1.0, max_val: Any = 1.0, inplace: bool = False) -> Iterator[Found]:
    return _clamp(where, x, min_val, max_val)


def _hardsigmoid(where: str, x: Any, inplace: bool = False) -> Iterator[Found]:
    yield Affine(1.0 / 6.0, 0.5)
    yield Clamp(0.0, 1.0)


def _clamp(where: str, x: Any, min: Any = None, max: Any = None) -> Iterator[Found]:
    yield Clamp(-math.inf if min is None else _number(where, min), math.inf if max is None else _number(where, max))


def _sin(where: str, x: Any) -> Iterator[Found]:
    yield Sine()


def _clamp_max(where: str, x: Any, max: Any) -> Iterator[Found]:
    return _clamp(where, x, None, max)


def _maximum(where: str, x: Any, other: Any) -> Iterator[Found]:
    return _clamp(where, x, other if isinstance(x, Signal) else x)


def _minimum(where: str, x: Any, other: Any) -> Iterator[Found]:
    return _clamp(where, x, None, other if isinstance(x, Signal) else x)


def _threshold(where: str, x: Any, threshold: Any, value: Any, inplace: bool = False) -> Iterator[Found]:
    low = _number(where, threshold)
    if low != _number(where, value):
        raise InputError(f"{where}: steps from {value} to {threshold}; give equal numbers, as torch.nn.Threshold(0, 0)")
    yield Clamp(low, math.inf)


def _linear(where: str, x: Any, weight: Any, bias: Any = None) -> Iterator[Found]:
    matrix = array(where, weight)
    yield layer(where, matrix, np.zeros(len(matrix)) if bias is None else array(where, bias))


def _matmul(where: str, x: Any, matrix: Any) -> Iterator[Found]:
    weight = array(where, matrix).T
    yield layer(where, weight, np.zeros(len(weight)))


def _addmm(where: str, bias: Any, x: Any, matrix: Any, beta: float = 1.0, alpha: float = 1.0) -> Iterator[Found]:
    yield layer(where, alpha * array(where, matrix).T, beta * array(where, bias).reshape(-1))


def _batch_norm(
    where: str,
    x: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *_: Any,
) -> Iterator[Found]:
    if mean is None or variance is None:
        raise InputError(
            f"{where}: has no running statistics, so that outputs depend on the other samples; "
            "train with track_running_stats=True"
        )
    if training:
        yield f"{where}: computed as in evaluation, with its running statistics"
    scale = (1.0 if weight is None else array(where, weight)) / np.sqrt(array(where, variance) + eps)
    yield Affine(scale, (0.0 if bias is None else array(where, bias)) - array(where, mean) * scale)


def _functional_batch_norm(
    where: str,
    x: Any,
    mean: Any,
    variance: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Iterator[Found]:
    return _batch_norm(where, x, weight, bias, mean, variance, training, momentum, eps)


def _batch_norm_in_evaluation(
    where: str, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, momentum: float, eps: float
) -> Iterator[Found]:
    return _batch_norm(where, x, weight, bias, mean, variance, False, momentum, eps)


def _dropout(where: str, x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Iterator[Found]:
    if training:
        yield f"{where}: left out, as in evaluation"


def _alpha_dropout(
    where: str, x: Any, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Iterator[Found]:
    return _dropout(where, x, p, training)


def _add(where: str, x: Any, other: Any, *, alpha: float = 1.0) -> Iterator[Found]:
    if isinstance(x, Signal):
        yield Affine(1.0, alpha * _constant(where, other))
    else:
        yield Affine(alpha, _constant(where, x))


def _sub(where: str, x: Any, other: Any, *, alpha: float = 1.0) -> Iterator[Found]:
    return _add(where, x, other, alpha=-alpha)


def _rsub(where: str, x: Any, other: Any, alpha: float = 1.0) -> Iterator[Found]:
    return _sub(where, other, x, alpha=alpha)


def _mul(where: str, x: Any, other: Any) -> Iterator[Found]:
    yield Affine(_constant(where, other if isinstance(x, Signal) else x))


def _div(where: str, x: Any, other: Any) -> Iterator[Found]:
    if not isinstance(x, Signal):
        raise unknown(where)
    with np.errstate(divide="ignore"):
        # the inverse of zero is refused with the other values that are no numbers
        yield Affine(1.0 / _constant(where, other))


def _neg(where: str, x: Any) -> Iterator[Found]:
    yield Affine(-1.0)


def _view(where: str, x: Any, *shape: Any) -> Iterator[Found]:
    sizes = list(shape[0]) if isinstance(shape[0], list | tuple) else list(shape)
    if not all(isinstance(size, int | Size) for size in sizes):
        raise unknown(where)
    if len(sizes) > 1 and all(isinstance(size, int) and size > 0 for size in sizes[1:]):
        yield math.prod(sizes[1:])


def _to(where: str, x: Any, *arguments: Any, **keywords: Any) -> Iterator[Found]:
    for what in (*arguments, *keywords.values()):
        if not getattr(what, "is_floating_point", True):
            raise InputError(f"{where}: makes {what} of signals; a chip computes with real numbers: drop it")
    yield from ()


def _softmax(where: str, x: Any, dim: Any = None, *_: Any, **__: Any) -> Iterator[Found]:
    if dim == 0:
        raise InputError(f"{where}: is over the samples (dim = 0), not over the outputs; give dim = 1")
    yield LeftOut(where)


FUNCTIONS: dict[str, Callable[..., Iterator[Found]]] = {
    **dict.fromkeys(("flatten", "squeeze", "contiguous", "clone", "detach", "alias", "identity"), _nothing),
    **dict.fromkeys(("float", "double", "cpu", "cuda"), _nothing),
    **dict.fromkeys(("view", "reshape", "unsafe_view"), _view),
    **dict.fromkeys(("to", "to_copy"), _to),
    "dropout": _dropout,
    **dict.fromkeys(("alpha_dropout", "feature_dropout", "feature_alpha_dropout"), _alpha_dropout),
    "relu": _relu,
    "relu6": _relu6,
    "hardtanh": _hardtanh,
    "hardsigmoid": _hardsigmoid,
    "threshold": _threshold,
    **dict.fromkeys(("clamp", "clip", "clamp_min"), _clamp),
    "clamp_max": _clamp_max,
    "sin": _sin,
    "maximum": _maximum,
    "minimum": _minimum,
    "linear": _linear,
    **dict.fromkeys(("matmul", "mm"), _matmul),
    "addmm": _addmm,
    **dict.fromkeys(("batch_norm", "cudnn_batch_norm", "native_batch_norm", "native_batch_norm_legit"), _batch_norm),
    "native_batch_norm_legit_functional": _batch_norm,
    "native_batch_norm_legit_no_training": _batch_norm_in_evaluation,
    "functional.batch_norm": _functional_batch_norm,
    **dict.fromkeys(("add", "iadd"), _add),
    **dict.fromkeys(("sub", "isub", "subtract"), _sub),
    "rsub": _rsub,
    **dict.fromkeys(("mul", "imul", "multiply"), _mul),
    **dict.fromkeys(("div", "divide", "truediv", "itruediv", "true_divide"), _div),
    **dict.fromkeys(("neg", "negative"), _neg),
    **dict.fromkeys(("softmax", "log_softmax", "argmax"), _softmax),
}
"""Functions by name; those of ``torch.nn.functional`` that take other arguments than the operator have a prefix."""
TUPLES = {name for name in FUNCTIONS if name.startswith(("native_", "cudnn_"))}
"""Functions that return a tuple, whose first element are the signals."""


def _batch_norm_module(part: Any) -> tuple[str, list[Any]]:
    return "batch_norm", [part.weight, part.bias, part.running_mean, part.running_var, False, 0.1, part.eps]


_MODULES: dict[str, Callable[[Any], tuple[str, list[Any]]]] = {
    **dict.fromkeys(("Identity", "Flatten", "Dropout", "AlphaDropout"), lambda part: ("identity", [])),
    "Linear": lambda part: ("linear", [part.weight, part.bias]),
    "BatchNorm1d": _batch_norm_module,
    "SyncBatchNorm": _batch_norm_module,
    "ReLU": lambda part: ("relu", []),
    # ReLU6 is a Hardtanh
    "Hardtanh": lambda part: ("hardtanh", [part.min_val, part.max_val]),
    "Hardsigmoid": lambda part: ("hardsigmoid", []),
    "Threshold": lambda part: ("threshold", [part.threshold, part.value]),
    "Softmax": lambda part: ("softmax", [part.dim]),
    "LogSoftmax": lambda part: ("log_softmax", [part.dim]),
}
