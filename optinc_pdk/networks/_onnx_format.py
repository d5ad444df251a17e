"""Reading networks from .onnx files: a chain of linear nodes with clamps between them, whose bounds are the activation.

ReLU is a clamp to 0 and infinity, clipped ReLU one to 0 and 1. PyTorch writes the latter as ``Clip`` for
``Hardtanh(0, 1)`` and ``clamp(x, 0, 1)``; ``Relu`` followed by ``Clip`` or ``Min`` is the same function. Consecutive
clamps are combined to one.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.networks.layers import Layer, WeightsError
from optinc_pdk.options import UPPER_LIMIT, Activation

Arrays = dict[str, NDArray[Any]]
Bounds = tuple[float, float]

LINEAR = ("Gemm", "MatMul")
CLAMPS = ("Relu", "Clip", "Max", "Min")
UNBOUNDED: Bounds = (-np.inf, np.inf)
# Models of opset 6 and before state that C is broadcast, which later ones imply.
GEMM_ATTRIBUTES = {"alpha": "FLOAT", "beta": "FLOAT", "transA": "INT", "transB": "INT", "broadcast": "INT"}
CONSTANT_ATTRIBUTES = {
    "value": "TENSOR",
    "value_float": "FLOAT",
    "value_int": "INT",
    "value_floats": "FLOATS",
    "value_ints": "INTS",
}
CLIP_ATTRIBUTES = {"min": "FLOAT", "max": "FLOAT"}
NUMBERS = (1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13)
"""Element types of tensors of real numbers in ONNX: floats of 16, 32 and 64 bits, and integers."""
ACTIVATION_OF: dict[Bounds, Activation] = {
    (0.0, np.inf if limit is None else limit): name for name, limit in UPPER_LIMIT.items()
}


def parse(path: Path, data: bytes) -> tuple[tuple[Layer, ...], Activation | None]:
    """Return the layers of the .onnx file ``path`` with the content ``data``, and the activation; None for a single
    layer.

    Raises:
        WeightsError: The file is damaged, stores weights elsewhere, or is no chain of linear nodes with one activation.
    """
    import onnx
    from google.protobuf.message import DecodeError

    try:
        graph = onnx.load_model_from_string(data).graph
    except DecodeError as fault:
        raise WeightsError(f"{path}: is not a valid .onnx model ({fault}); export it again") from fault
    if graph.sparse_initializer:
        raise WeightsError(f"{path}: has sparse weights; export it with dense ones")
    for index, node in enumerate(graph.node):
        if not node.output or not all(node.output):
            raise WeightsError(f"{path}: node {index}, {node.op_type!r}, has no output; export it again")
    constants = _constants(path, graph)
    inputs = [value.name for value in graph.input if value.name not in constants]
    if len(inputs) != 1 or len(graph.output) != 1:
        raise WeightsError(
            f"{path}: has {len(inputs)} inputs and {len(graph.output)} outputs; a network has one of each"
        )
    return _chain(path, graph, constants, inputs[0])


def _constants(path: Path, graph: Any) -> Arrays:
    """Arrays of initialisers, of Constant nodes, and of Identity nodes of these, by name."""
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    constants: Arrays = {}
    for index, node in enumerate(graph.node):
        if node.op_type == "Constant":
            for name, value in _attributes(path, index, node, CONSTANT_ATTRIBUTES).items():
                if name == "value":
                    tensors[node.output[0]] = value
                else:
                    constants[node.output[0]] = np.array(value)
    constants |= {name: _tensor(path, name, tensor) for name, tensor in tensors.items()}
    for node in graph.node:
        if node.op_type == "Identity" and node.input and node.input[0] in constants:
            constants[node.output[0]] = constants[node.input[0]]
    return constants


def _tensor(path: Path, name: str, tensor: Any) -> NDArray[Any]:
    """Array of real numbers that a file stores under a name."""
    import onnx

    where = f"{path}: the tensor {reprlib.repr(name)}"
    if tensor.external_data or tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise WeightsError(f"{where} is stored in another file; export it with its weights inside")
    if tensor.HasField("segment") or any(length < 0 for length in tensor.dims):
        raise WeightsError(
            f"{where} has the dimensions {reprlib.repr(list(tensor.dims))}, or is a segment; export it again"
        )
    if tensor.data_type not in NUMBERS:
        raise WeightsError(f"{where} has element type {tensor.data_type}, which is no real number; export it as float")
    try:
        return onnx.numpy_helper.to_array(tensor)
    # what NumPy raises for data that do not fit the dimensions
    except (ValueError, TypeError, LookupError, OverflowError, MemoryError) as fault:
        raise WeightsError(f"{where} is damaged ({fault}); export it again") from fault


def _attributes(path: Path, index: int, node: Any, known: Mapping[str, str]) -> dict[str, Any]:
    """Attributes of a node by name, after a check of their names, types and values.

    ``known`` is the type of each attribute that the node may have, as ``onnx.AttributeProto`` names it.
    """
    import onnx

    where = f"{path}: node {index}, {node.op_type} {reprlib.repr(node.name)}"
    values: dict[str, Any] = {}
    for item in node.attribute:
        if item.name not in known or item.name in values:
            raise WeightsError(
                f"{where}, has the attribute {reprlib.repr(item.name)}, which is unknown or twice there; use "
                f"{', '.join(known) or 'none'}"
            )
        if item.ref_attr_name or item.type != getattr(onnx.AttributeProto, known[item.name]):
            raise WeightsError(f"{where}: {item.name} is not of type {known[item.name]}; export it again")
        value = onnx.helper.get_attribute_value(item)
        # an infinite bound of a clamp means none; an infinite or undefined factor has no meaning
        if isinstance(value, float) and (np.isnan(value) or (np.isinf(value) and node.op_type in LINEAR)):
            raise WeightsError(f"{where}: {item.name} is {value}; give a finite number")
        values[item.name] = value
    return values


def _chain(path: Path, graph: Any, constants: Arrays, signal: str) -> tuple[tuple[Layer, ...], Activation | None]:
    """Layers and activation of a graph's chain of linear nodes and clamps, from the input named `signal`."""
    layers: list[Layer] = []
    activations: list[Activation] = []
    bounds = UNBOUNDED
    last: tuple[int, Any] = (0, None)
    for index, node in enumerate(graph.node):
        if node.output[0] in constants:
            continue
        linear = node.op_type in LINEAR and (not layers or bounds != UNBOUNDED)
        expected = "Relu or Clip(0, 1)" if layers and bounds == UNBOUNDED else "Gemm"
        clamp = node.op_type in CLAMPS and bool(layers)
        names = list(node.input)
        connected = signal in names if node.op_type in ("Max", "Min") else names[:1] == [signal]
        if not (linear or clamp) or not connected:
            raise WeightsError(
                f"{path}: node {index} is {node.op_type} of {reprlib.repr(names)}, not {expected} of {signal!r}; use a "
                "chain of Gemm or MatMul with Relu or Clip(0, 1) between them"
            )
        if linear:
            if layers:
                activations.append(_activation(path, last, bounds, activations))
            layers.append(_gemm(path, index, node, constants))
            bounds = UNBOUNDED
        else:
            bounds = _clamped(bounds, _bounds(path, index, node, signal, constants))
            last = (index, node)
        signal = node.output[0]
    if not layers or bounds != UNBOUNDED or signal != graph.output[0].name:
        raise WeightsError(
            f"{path}: the chain does not end in a Gemm or MatMul that is the output {graph.output[0].name!r}; "
            "export the network without further nodes"
        )
    return tuple(layers), activations[0] if activations else None


def _clamped(first: Bounds, second: Bounds) -> Bounds:
    """Bounds of a clamp that follows another one."""
    low, high = (min(max(bound, second[0]), second[1]) for bound in first)
    return low, high


def _activation(path: Path, last: tuple[int, Any], bounds: Bounds, before: list[Activation]) -> Activation:
    """Activation of clamps with the given bounds, which end at a node; it equals those of the layers before."""
    where = f"{path}: node {last[0]}, {last[1].op_type} {last[1].name!r},"
    if bounds not in ACTIVATION_OF:
        low, high = bounds
        scaling = f" (weights and biases before it by 1/{high:g}, weights after it by {high:g})"
        raise WeightsError(
            f"{where} limits signals to {low:g} ... {high:g}, but modulators transmit 0 ... 1; use Relu or Clip(0, 1), "
            f"and scale the weights{scaling if low == 0 < high < np.inf else ''}"
        )
    activation = ACTIVATION_OF[bounds]
    if before and activation != before[0]:
        raise WeightsError(
            f"{where} is {activation} (bounds {bounds[0]:g} ... {bounds[1]:g}), but the layers before it use "
            f"{before[0]}; use one activation for all hidden layers"
        )
    return activation


def _bounds(path: Path, index: int, node: Any, signal: str, constants: Arrays) -> Bounds:
    """Bounds of a Relu, Clip, Max or Min node."""
    if node.op_type == "Relu":
        return 0.0, np.inf
    if node.op_type == "Clip":
        values = _attributes(path, index, node, CLIP_ATTRIBUTES)
        values |= {key: name for key, name in zip(("min", "max"), list(node.input)[1:], strict=False) if name}
    else:
        others = [name for name in node.input if name != signal]
        if len(others) != 1:
            raise WeightsError(
                f"{path}: node {index}, {node.op_type} {node.name!r}, has {len(node.input)} inputs; use a signal and a "
                "constant, or Clip(0, 1)"
            )
        values = {"min" if node.op_type == "Max" else "max": others[0]}
    bounds = [
        _scalar(path, index, node, key, values.get(key, default), constants)
        for key, default in zip(("min", "max"), UNBOUNDED, strict=True)
    ]
    return bounds[0], bounds[1]


def _scalar(path: Path, index: int, node: Any, key: str, value: Any, constants: Mapping[Any, NDArray[Any]]) -> float:
    """Bound of a node, given as a number or as the name of a constant."""
    where = f"{path}: node {index}, {node.op_type} {node.name!r},"
    # a name that is no UTF-8 is bytes
    if isinstance(value, str | bytes):
        if value not in constants:
            raise WeightsError(f"{where} takes its {key} from {value!r}, which is not stored; use constant bounds")
        value = constants[value]
    values = np.unique(np.asarray(value, dtype=np.float64))
    if values.size != 1 or np.isnan(values[0]):
        raise WeightsError(f"{where} has {key} = {values.tolist()}; use one number for all units, 0 and 1")
    # Exporters write the largest number of a type for no bound.
    return float(values[0]) if abs(values[0]) < np.finfo(np.float32).max else float(np.sign(values[0]) * np.inf)


def _gemm(path: Path, index: int, node: Any, constants: Arrays) -> Layer:
    """Layer alpha A B + beta C of a Gemm, or A B of a MatMul, with A the signal."""
    where = f"{path}: node {index}, {node.op_type} {reprlib.repr(node.name)}"
    attributes = _attributes(path, index, node, GEMM_ATTRIBUTES if node.op_type == "Gemm" else {})
    for key in ("transA", "transB"):
        if attributes.get(key, 0) not in (0, 1):
            raise WeightsError(f"{where}: {key} is {attributes[key]}; it must be 0 or 1")
    names = [name for name in list(node.input)[1:] if name]
    most = 2 if node.op_type == "Gemm" else 1
    if attributes.get("transA", 0) or not 1 <= len(names) <= most or any(name not in constants for name in names):
        raise WeightsError(f"{where}, must multiply the signal by stored weights; export it again")
    weight = constants[names[0]]
    if not attributes.get("transB", 0):
        weight = weight.T
    try:
        bias = constants[names[1]] if len(names) > 1 else np.zeros(weight.shape[:1])
        layer = Layer(weight, bias)
        return Layer(layer.weight * attributes.get("alpha", 1.0), layer.bias * attributes.get("beta", 1.0))
    except ValueError as fault:
        raise WeightsError(f"{where}: {fault}") from fault
