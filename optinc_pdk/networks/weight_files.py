"""Reading weight files (.npz, and PyTorch's .safetensors and .onnx), and paths of the networks of the package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.averaging import Averaging
from optinc_pdk.io.json_files import parse_json
from optinc_pdk.io.npz_files import member_names
from optinc_pdk.io.reading import ONNX, WEIGHTS, read_bytes
from optinc_pdk.networks import npz_format, onnx_format
from optinc_pdk.networks.general_network import GeneralNetwork
from optinc_pdk.networks.network import ACTIVATIONS, AveragingNetwork, Layer, WeightsError
from optinc_pdk.options import Activation

NETWORKS = Path(__file__).parent / "bundled"
"""Folder of the networks of the package; `benchmarks/network_recipes.py` trains them."""


WITHOUT_TASK = (".safetensors", ".onnx")
"""Endings of the files of PyTorch, which contain weights but no task."""

_FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
"""Types of .safetensors files that NumPy has."""


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


def load(
    path: Path,
    bits: int | None,
    servers: int | None,
    groups: int | None,
    activation: Activation | None = None,
    default: Activation = "relu",
) -> AveragingNetwork:
    """Reads a network that averages words from a weight file; see `AveragingNetwork.load`.

    Args:
        path: Weight file.
        bits: Number of bits of a word. Files without a task need all three numbers; for others, each number that is
            given must agree with the file.
        servers: Number of servers.
        groups: Number of groups, that is, of network inputs.
        activation: Activation of the hidden layers. It must agree with the file; .safetensors files state it only in
            their metadata, as ``activation``.
        default: Activation if neither the file nor ``activation`` states one.

    Returns:
        The network with its task.

    Raises:
        WeightsError: The file is missing, damaged or unusable, or its task or activation contradicts the arguments.
    """
    network = load_network(path, bits, servers, groups, activation, default)
    if isinstance(network, AveragingNetwork):
        return network
    raise missing_task(path, {"bits": bits, "servers": servers, "groups": groups})


def load_network(
    path: Path,
    bits: int | None = None,
    servers: int | None = None,
    groups: int | None = None,
    activation: Activation | None = None,
    default: Activation = "relu",
) -> AveragingNetwork | GeneralNetwork:
    """Reads a network from a weight file (.npz, .safetensors or .onnx).

    A file without a task is a general network, unless the numbers of its task are given. Arguments are those of
    :func:`load`.

    Raises:
        WeightsError: As for :func:`load`, or some of the three numbers are given for a file without a task.
    """
    if activation not in (None, *ACTIVATIONS):
        raise WeightsError(f"activation is {activation!r}; use one of {', '.join(ACTIVATIONS)}")
    arguments, ending = {"bits": bits, "servers": servers, "groups": groups}, path.suffix.lower()
    if ending == ".npz":
        return _npz(path, arguments, activation)
    if ending not in WITHOUT_TASK:
        raise WeightsError(
            f"{path}: files ending in {path.suffix!r} are not read; use .npz, .safetensors or .onnx, "
            "or .npy for a matrix"
        )
    task = _given_task(path, arguments)
    if ending == ".safetensors":
        layers, found = _safetensors(path, read_bytes(path, WEIGHTS, WeightsError))
    else:
        layers, found = onnx_format.parse(path, read_bytes(path, ONNX, WeightsError))
    if None not in (activation, found) and activation != found:
        raise _contradiction(path, "activation", found, activation)
    chosen = found or activation or default
    try:
        return (
            GeneralNetwork.of_layers(layers, chosen)
            if task is None
            else AveragingNetwork(layers, task, activation=chosen)
        )
    except ValueError as fault:
        raise WeightsError(f"{path}: {fault}") from fault


def _npz(
    path: Path, arguments: Mapping[str, int | None], activation: Activation | None
) -> AveragingNetwork | GeneralNetwork:
    """Network of a .npz file, which agrees with the numbers of a task and the activation that are given."""
    complete = None not in arguments.values()
    network = npz_format.read(path, _given_task(path, arguments) if complete else None)
    if isinstance(network, GeneralNetwork):
        if any(value is not None for value in arguments.values()):
            raise missing_task(path, arguments)
        stated: dict[str, Any] = {}
    else:
        stated = {name: getattr(network.task, name) for name in arguments}
    stated["activation"] = network.activation
    for name, value in (dict(arguments) | {"activation": activation}).items():
        if value is not None and value != stated[name]:
            raise _contradiction(path, name, stated[name], value)
    return network


def _given_task(path: Path, arguments: Mapping[str, int | None]) -> Averaging | None:
    """Averaging task of the three numbers; None if none is given."""
    bits, servers, groups = (arguments[name] for name in ("bits", "servers", "groups"))
    if bits is None and servers is None and groups is None:
        return None
    if bits is None or servers is None or groups is None:
        raise missing_task(path, arguments)
    try:
        return Averaging(bits, servers, groups)
    except ValueError as fault:
        raise WeightsError(f"{path}: {fault}") from fault


def states_task(path: Path) -> bool:
    """Return whether a weight file states an averaging task; only .npz files can.

    Raises:
        WeightsError: The file cannot be read.
    """
    return path.suffix.lower() == ".npz" and "task" in member_names(read_bytes(path, WEIGHTS, WeightsError))


def missing_task(path: Path, arguments: Mapping[str, int | None]) -> WeightsError:
    """Return the error of a weight file without a task where words are averaged.

    Args:
        path: The file.
        arguments: Numbers of the task that are given, by name; None for those that are missing.
    """
    missing = [name for name, value in arguments.items() if value is None]
    return WeightsError(
        f"{path}: the file contains no averaging task; give {', '.join(missing)}, or state the task in a file of its "
        f"own, as optinc task {path.name} --bits 8 --servers 4 -o {path.stem}.npz does; without a task it is a general "
        "network, which optinc build takes"
    )


def load_for_task(
    path: Path, task: Averaging, activation: Activation | None = None, default: Activation = "relu"
) -> AveragingNetwork:
    """Reads a network for a known task from a file that contains none.

    Args:
        path: Weight file.
        task: What the network computes, with the options for levels of cascades.
        activation: Activation of the hidden layers, as for :func:`load`.
        default: Activation if neither the file nor ``activation`` states one.

    Raises:
        WeightsError: As for :func:`load`.
    """
    return replace(load(path, task.bits, task.servers, task.groups, activation, default), task=task)


def _contradiction(path: Path, name: str, stated: object, given: object) -> WeightsError:
    return WeightsError(
        f"{path}: the file states {name} = {stated}, but {given} was given; leave {name} out, or give another file"
    )


def _safetensors(path: Path, data: bytes) -> tuple[tuple[Layer, ...], Activation | None]:
    """Layers named as by nn.Sequential(Linear, ReLU, Linear, ...): 0.weight, 0.bias, 2.weight ...

    Activations have no parameters, so that ReLU and Hardtanh give the same names; the activation is that of the
    metadata, or None.
    """
    from safetensors import SafetensorError, deserialize

    try:
        tensors = deserialize(data)  # type: ignore[no-untyped-call]
    # ValueError: a length beyond 64 bits
    except (SafetensorError, ValueError, OverflowError, MemoryError) as fault:
        raise WeightsError(f"{path}: is not a valid .safetensors file ({fault}); save it again") from fault
    arrays = {name: _floats(path, name, tensor) for name, tensor in tensors}
    for name, weight in list(arrays.items()):
        # nn.Linear(..., bias=False) stores no bias.
        if name.endswith(".weight") and weight.ndim == 2:
            arrays.setdefault(name.replace(".weight", ".bias"), np.zeros(weight.shape[0], dtype=weight.dtype))
    return npz_format.build_layers(path, arrays, "{}.{}", stride=2), _stated_activation(path, data)


def _floats(path: Path, name: str, tensor: Mapping[str, Any]) -> Floats:
    """Values of a tensor; every float of 16 to 64 bits is exact as float64."""
    kind, data = tensor["dtype"], tensor["data"]
    if kind == "BF16":
        # the upper half of a float32
        values = (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    elif kind in _FLOATS:
        values = np.frombuffer(data, _FLOATS[kind])
    else:
        raise WeightsError(f"{path}: {name} is of type {kind}; save it as {', '.join(_FLOATS)} or BF16")
    try:
        return values.reshape(tensor["shape"]).astype(np.float64)
    except ValueError as fault:  # more dimensions than NumPy has
        raise WeightsError(
            f"{path}: {name} has {len(tensor['shape'])} dimensions, a weight has 2 and a bias 1; save it again"
        ) from fault


def _stated_activation(path: Path, data: bytes) -> Activation | None:
    """Activation in the metadata of a valid .safetensors file: 8 bytes of length, then a JSON header."""
    try:
        header = parse_json(data[8 : 8 + int.from_bytes(data[:8], "little")])
    except ValueError as fault:
        raise WeightsError(f"{path}: its header is not valid JSON ({fault}); save it again") from fault
    # a null counts as no metadata
    stated = (header.get("__metadata__") or {}).get("activation")
    for activation in ACTIVATIONS:
        if stated == activation:
            return activation
    if stated is not None:
        raise WeightsError(f"{path}: its metadata state activation = {stated!r}; use one of {', '.join(ACTIVATIONS)}")
    return None
