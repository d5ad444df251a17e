"""Reading weight files (.npz, and PyTorch's .safetensors and .onnx), and paths of the networks of the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.averaging import Averaging
from optinc_pdk.onn import npz_format
from optinc_pdk.onn.network import Layer, Onn, WeightsError

NETWORKS = Path(__file__).parent / "networks"
"""Folder of the networks of the package; `optinc_pdk.onn.training.recipes` trains them."""


def bundled_weights(bits: int = 4, servers: int = 4) -> Path:
    """Returns the path of the network that the package contains for a task.

    Args:
        bits: Number of bits of a word.
        servers: Number of servers.

    Returns:
        Path of an .npz weight file.

    Raises:
        ValueError: The package has no network for this task.
    """
    path = NETWORKS / f"average_{bits}bit_{servers}servers.npz"
    if not path.is_file():
        names = ", ".join(sorted(file.stem for file in NETWORKS.glob("*.npz")))
        raise ValueError(
            f"the package has no network for bits = {bits}, servers = {servers}, only {names}: train your own"
        )
    return path


def load(path: Path, bits: int | None, servers: int | None, groups: int | None) -> Onn:
    """Reads a network from a weight file (.npz, .safetensors or .onnx); see `Onn.load`.

    Args:
        path: Weight file.
        bits: Number of bits of a word. Files other than .npz contain no task and need all three numbers; for .npz, each
            number that is given must agree with the file.
        servers: Number of servers.
        groups: Number of groups, that is, of network inputs.

    Returns:
        The network with its task.

    Raises:
        WeightsError: The file is missing, damaged or unusable, or its task contradicts the arguments.
    """
    arguments = {"bits": bits, "servers": servers, "groups": groups}
    if path.suffix == ".npz":
        onn = npz_format.read(path)
        for name, value in arguments.items():
            if value is not None and value != getattr(onn.task, name):
                raise WeightsError(
                    f"{path}: the file states {name} = {getattr(onn.task, name)}, but {value} was given; leave --{name}"
                    " out, or give another file"
                )
        return onn
    if path.suffix not in (".safetensors", ".onnx"):
        raise WeightsError(f"{path}: files ending in {path.suffix!r} are not read; use .npz, .safetensors or .onnx")
    if bits is None or servers is None or groups is None:
        missing = [name for name, value in arguments.items() if value is None]
        raise WeightsError(
            f"{path}: a {path.suffix} file contains no task; give {', '.join(missing)} "
            f"({', '.join(f'--{name}' for name in missing)})"
        )
    data = _bytes(path)
    layers = _safetensors(path, data) if path.suffix == ".safetensors" else _onnx(path, data)
    try:
        return Onn(layers, Averaging(bits, servers, groups))
    except ValueError as fault:
        raise WeightsError(f"{path}: {fault}") from fault


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(npz_format.MAX_BYTES + 1)
    except OSError as fault:
        raise WeightsError(f"{path}: cannot be read ({fault.strerror or fault}); check the path") from fault
    if len(data) > npz_format.MAX_BYTES:
        raise WeightsError(
            f"{path}: is larger than the limit of {npz_format.MAX_BYTES} bytes; give a file of weights only"
        )
    return data


def _safetensors(path: Path, data: bytes) -> tuple[Layer, ...]:
    """Layers named as by nn.Sequential(Linear, ReLU, Linear, ...): 0.weight, 0.bias, 2.weight ..."""
    from safetensors import SafetensorError
    from safetensors.numpy import load as load_tensors

    try:
        arrays = load_tensors(data)
    except (SafetensorError, KeyError, TypeError) as fault:
        raise WeightsError(f"{path}: is not a valid .safetensors file of floats ({fault}); save it again") from fault
    for name, weight in list(arrays.items()):
        # nn.Linear(..., bias=False) stores no bias, and the last layer of a chip's network has none.
        if name.endswith(".weight") and weight.ndim == 2:
            arrays.setdefault(name.replace(".weight", ".bias"), np.zeros(weight.shape[0], dtype=weight.dtype))
    return npz_format.build_layers(path, arrays, "{}.{}", stride=2)


def _onnx(path: Path, data: bytes) -> tuple[Layer, ...]:
    """Layers of an .onnx file with a chain of Gemm or MatMul and Relu."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        graph = onnx.load_model_from_string(data).graph
    except DecodeError as fault:
        raise WeightsError(f"{path}: is not a valid .onnx model ({fault}); export it again") from fault
    for tensor in graph.initializer:
        if tensor.external_data or tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise WeightsError(f"{path}: stores {tensor.name!r} in another file; export it with its weights inside")
    constants: dict[str, NDArray[Any]] = {}
    try:
        for tensor in graph.initializer:
            constants[tensor.name] = onnx.numpy_helper.to_array(tensor)
    except (ValueError, TypeError) as fault:
        raise WeightsError(f"{path}: one of its weights is damaged ({fault}); export it again") from fault
    inputs = [value.name for value in graph.input if value.name not in constants]
    if len(inputs) != 1 or len(graph.output) != 1:
        raise WeightsError(
            f"{path}: has {len(inputs)} inputs and {len(graph.output)} outputs; a network has one of each"
        )
    return _chain(path, graph, constants, inputs[0])


def _chain(path: Path, graph: Any, constants: dict[str, NDArray[Any]], signal: str) -> tuple[Layer, ...]:
    """Layers of a graph's chain of linear nodes and Relu, from the input named `signal`."""
    layers: list[Layer] = []
    for index, node in enumerate(graph.node):
        # Linear layers without bias are written as MatMul.
        expected = ("Relu",) if index % 2 else ("Gemm", "MatMul")
        if node.op_type not in expected or list(node.input)[:1] != [signal]:
            raise WeightsError(
                f"{path}: node {index} is {node.op_type} of {list(node.input)}, not {expected[0]} of {signal!r}; "
                "use a chain of Gemm or MatMul with Relu between them"
            )
        if not index % 2:
            layers.append(_gemm(path, node, constants))
        signal = node.output[0]
    if len(graph.node) % 2 == 0 or signal != graph.output[0].name:
        raise WeightsError(
            f"{path}: the chain does not end in a Gemm or MatMul that is the output {graph.output[0].name!r}; "
            "export the network without further nodes"
        )
    return tuple(layers)


def _gemm(path: Path, node: Any, constants: dict[str, NDArray[Any]]) -> Layer:
    """Layer alpha A B + beta C of a Gemm, or A B of a MatMul, with A the signal."""
    from onnx.helper import get_attribute_value

    attributes = {item.name: get_attribute_value(item) for item in node.attribute}
    names = list(node.input)[1:]
    if attributes.get("transA", 0) or not names or any(name not in constants for name in names):
        raise WeightsError(
            f"{path}: {node.op_type} {node.name!r} must multiply the signal by stored weights; export it again"
        )
    weight = constants[names[0]]
    if not attributes.get("transB", 0):
        weight = weight.T
    try:
        bias = constants[names[1]] if len(names) > 1 else np.zeros(weight.shape[:1])
        layer = Layer(weight, bias)
    except ValueError as fault:
        raise WeightsError(f"{path}: {node.op_type} {node.name!r}: {fault}") from fault
    return Layer(layer.weight * attributes.get("alpha", 1.0), layer.bias * attributes.get("beta", 1.0))
