"""Weight files: the project's .npz, .safetensors, .onnx and the files of PyTorch; the networks of the package.

A .npz is validated when read and written reproducibly: equal networks give equal bytes.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.arrays import Floats
from optinc_pdk.averaging import Averaging
from optinc_pdk.errors import InputError, printable_line
from optinc_pdk.io.json_files import parse_json
from optinc_pdk.io.npz_files import member_names, read_npz
from optinc_pdk.io.reading import ONNX, WEIGHTS, read_bytes
from optinc_pdk.io.writing import write_atomic
from optinc_pdk.networks import _onnx_format as onnx_format
from optinc_pdk.networks import _torch_files as torch_files
from optinc_pdk.networks._state_dict import COUNTER, layers_of
from optinc_pdk.networks._steps import FoldedModel
from optinc_pdk.networks.layers import ACTIVATIONS, FactorMethod, Layer, UnstatedActivationError, WeightsError
from optinc_pdk.options import MATRIX_FILES, WEIGHT_FILES, Activation

NETWORKS = Path(__file__).parent / "bundled"
"""Folder of the networks of the package; `benchmarks/network_recipes.py` trains them."""


WITHOUT_TASK = (".safetensors", ".onnx", *torch_files.ENDINGS)
"""Endings of the files of other packages, which contain weights but no task."""

_FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
"""Types of .safetensors files that NumPy has."""
TASK_KEYS = ("bits", "servers", "groups", "remainder", "finer_input")
ACTIVATION_KEY = "activation"
RANGE_KEY = "input_range"
LAYER_KEY = re.compile(r"layers\.(0|[1-9][0-9]{0,3})\.(weight|bias)")
TEXT_KEYS = ("task", "factor", "card")


def bundled_weights(bits: int = 4, servers: int = 4) -> Path:
    """Return the path of the .npz weight file that the package contains for a task.

    Examples:
        >>> from optinc_pdk.networks import bundled_weights
        >>> bundled_weights(bits=4, servers=4).name
        'average_4bit_4servers.npz'

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


@dataclass(frozen=True, eq=False)
class WeightFile:
    """Content of a weight file; ``task`` is None for a general network, ``input_range`` (2, K), (2,) or None.

    ``remarks`` say what differs from the model that was read, one sentence each.
    """

    layers: tuple[Layer, ...]
    task: Averaging | None
    activation: Activation
    input_range: NDArray[Any] | None = None
    factor: tuple[FactorMethod, ...] = ()
    card: dict[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def read_weights(path: Path, arguments: Mapping[str, int | None], activation: Activation | None) -> WeightFile:
    """Read a weight file (.npz, .safetensors, .onnx, or .pt, .pth, .bin or .ckpt of PyTorch).

    Args:
        path: The file.
        arguments: ``bits``, ``servers`` and ``groups`` of the task. Files without a task need all three or none; for
            others, each number that is given must agree with the file.
        activation: Activation of the hidden layers. It must agree with the file. It is needed for files that do not
            state it: those of PyTorch; .safetensors files whose metadata have no ``activation``; and .npz files without
            this key, unless this project wrote them.

    Raises:
        WeightsError: The file is missing, damaged or unusable, or contradicts the arguments.
    """
    if activation not in (None, *ACTIVATIONS):
        raise WeightsError(f"activation is {activation!r}; use one of {', '.join(ACTIVATIONS)}")
    ending = path.suffix.lower()
    if ending == ".npz":
        return _npz(path, arguments, activation)
    if ending == ".pt2":
        raise WeightsError(
            f"{path}: exported programs are read in Python: "
            f"op.Network.from_torch(torch.export.load({path.name!r})).save({path.stem + '.npz'!r})"
        )
    if ending not in WITHOUT_TASK:
        raise WeightsError(
            f"{path}: files ending in {path.suffix!r} are not read; use {WEIGHT_FILES} for a network, or "
            f"{MATRIX_FILES} for a matrix"
        )
    task = _given_task(path, arguments)
    found: Activation | None
    if ending == ".onnx":
        model = onnx_format.parse(path, read_bytes(path, ONNX, WeightsError))
        found = model.activation
    else:
        model, found = _named_tensors(path, activation)
    if None not in (activation, found) and activation != found:
        raise _contradiction(path, "activation", found, activation)
    if found is None and activation is None and len(model.layers) > 1:
        raise _missing_activation(path, arguments)
    return WeightFile(model.layers, task, found or activation or "relu", remarks=model.remarks)


def _npz(path: Path, arguments: Mapping[str, int | None], activation: Activation | None) -> WeightFile:
    """Content of a .npz file, which agrees with the numbers of a task and the activation that are given."""
    complete = None not in arguments.values()
    found = _read_npz(path, _given_task(path, arguments) if complete else None, activation)
    if found is None:
        raise _missing_activation(path, arguments)
    if found.task is None and any(value is not None for value in arguments.values()):
        raise missing_task(path, arguments)
    stated = {name: getattr(found.task, name, None) for name in arguments} | {"activation": found.activation}
    for name, value in (dict(arguments) | {"activation": activation}).items():
        if value is not None and value != stated[name]:
            raise _contradiction(path, name, stated[name], value)
    return found


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
    """Return the error of a weight file without a task where words are averaged; numbers that are missing are None."""
    missing = [name for name, value in arguments.items() if value is None]
    needed = {"bits": None, "servers": None} | {name: value for name, value in arguments.items() if name != "groups"}
    options = " ".join(f"--{name} {name.upper() if value is None else value}" for name, value in needed.items())
    return WeightsError(
        f"{path}: the file contains no averaging task; give {', '.join(missing)}, or state the task in a file of its "
        f"own, as optinc task {path.name} {options} -o {path.stem}.npz does; without a task it is a general "
        "network, which optinc build takes"
    )


def _missing_activation(path: Path, arguments: Mapping[str, int | None]) -> UnstatedActivationError:
    """Return the error of a file of several layers that does not state the activation between them."""
    task = "".join(f" --{name} {value}" for name, value in arguments.items() if value is not None)
    command = f"optinc task {shlex.quote(path.name)}{task} --activation relu -o {shlex.quote(path.stem + '_relu.npz')}"
    return UnstatedActivationError(
        f"{path}: the file does not state the activation between its layers; state it, with --activation relu for "
        f"optinc build, in a file: {command}, or in Python: "
        f'op.GeneralNetwork.load({path.name!r}, activation="relu"); a chip computes {" and ".join(ACTIVATIONS)}, and '
        "no tanh, GELU or LeakyReLU"
    )


def _contradiction(path: Path, name: str, stated: object, given: object) -> WeightsError:
    return WeightsError(
        f"{path}: the file states {name} = {stated}, but {given} was given; leave {name} out, or give another file"
    )


def _named_tensors(path: Path, activation: Activation | None) -> tuple[FoldedModel, Activation | None]:
    """Model of a file of named tensors, and the activation that its metadata state, or None."""
    from safetensors import SafetensorError, deserialize

    data = read_bytes(path, WEIGHTS, WeightsError)
    ordered = path.suffix.lower() in torch_files.ENDINGS
    if ordered:
        data = torch_files.as_safetensors(path, data)
    try:
        tensors = dict(deserialize(data))  # type: ignore[no-untyped-call]
    # ValueError: a length beyond 64 bits
    except (SafetensorError, ValueError, OverflowError, MemoryError) as fault:
        raise WeightsError(f"{path}: is not a valid .safetensors file ({fault}); save it again") from fault
    header = _header(path, data)
    found = _stated_activation(path, header)
    # the header has the order of the file
    names = [name for name in header if name in tensors and name.rpartition(".")[2] != COUNTER]
    arrays = {name: _floats(path, name, tensors[name]) for name in names}
    try:
        return layers_of(arrays, ordered, found or activation or "relu"), found
    except InputError as fault:
        raise WeightsError(f"{path}: {printable_line(str(fault))}") from fault


def _floats(path: Path, name: str, tensor: Mapping[str, Any]) -> Floats:
    """Values of a tensor; every float of 16 to 64 bits is exact as float64."""
    kind, data = tensor["dtype"], tensor["data"]
    if kind == "BF16":
        # the upper half of a float32
        values = (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    elif kind in _FLOATS:
        values = np.frombuffer(data, _FLOATS[kind])
    else:
        quantised = " of a quantised layer" if kind.startswith(("I8", "U8", "F8")) else ""
        raise WeightsError(f"{path}: {name} is of type {kind}{quantised}; save it as {', '.join(_FLOATS)} or BF16")
    try:
        return values.reshape(tensor["shape"]).astype(np.float64)
    except ValueError as fault:  # more dimensions than NumPy has
        raise WeightsError(
            f"{path}: {name} has {len(tensor['shape'])} dimensions, a weight has 2 and a bias 1; save it again"
        ) from fault


def _header(path: Path, data: bytes) -> dict[str, Any]:
    """Header of a valid .safetensors file: 8 bytes of length, then JSON."""
    try:
        header: dict[str, Any] = parse_json(data[8 : 8 + int.from_bytes(data[:8], "little")])
    except ValueError as fault:
        raise WeightsError(f"{path}: its header is not valid JSON ({fault}); save it again") from fault
    return header


def _stated_activation(path: Path, header: Mapping[str, Any]) -> Activation | None:
    """Activation in the metadata of a .safetensors file."""
    # a null counts as no metadata
    stated = (header.get("__metadata__") or {}).get("activation")
    for activation in ACTIVATIONS:
        if stated == activation:
            return activation
    if stated is not None:
        raise WeightsError(f"{path}: its metadata state activation = {stated!r}; use one of {', '.join(ACTIVATIONS)}")
    return None


def _read_npz(path: Path, stated: Averaging | None, given: Activation | None) -> WeightFile | None:
    """Content of a .npz file; None if nothing states the activation between its layers.

    Args:
        path: The file.
        stated: Averaging task of a file that contains none.
        given: Activation of a file that states none.
    """
    arrays = read_npz(path, WEIGHTS, WeightsError)
    if not arrays:
        raise WeightsError(
            f"{path}: contains no arrays; a weight file has layers.0.weight and layers.0.bias, a matrix file one array"
        )
    for key in arrays:
        if key not in (*TEXT_KEYS, ACTIVATION_KEY, RANGE_KEY) and not LAYER_KEY.fullmatch(key):
            raise WeightsError(
                f"{path}: unknown key {key!r}; allowed are layers.<i>.weight, layers.<i>.bias, {ACTIVATION_KEY}, "
                f"{RANGE_KEY} and {', '.join(TEXT_KEYS)}"
            )
    texts = {key: _json(path, key, arrays.pop(key)) for key in TEXT_KEYS if key in arrays}
    activation = _npz_activation(path, arrays.pop(ACTIVATION_KEY, None))
    # write_weights leaves out relu
    if activation is None and texts.keys() >= {"factor", "card"}:
        activation = "relu"
    input_range = arrays.pop(RANGE_KEY, None)
    _add_last_bias(arrays)
    layers = _build_layers(path, arrays)
    task = _stated_task(path, texts["task"]) if "task" in texts else stated
    factor = _factor(path, texts.get("factor"), layers)
    card = texts.get("card", {})
    if not isinstance(card, dict):
        raise WeightsError(f"{path}: card is a JSON {type(card).__name__}; make it an object")
    if task is not None and input_range is not None:
        raise WeightsError(f"{path}: {RANGE_KEY} describes a general network, and this one averages words; drop it")
    activation = activation or given
    if activation is None and len(layers) > 1:
        return None
    return WeightFile(layers, task, activation or "relu", input_range, factor, card)


def write_weights(content: WeightFile, path: Path) -> None:
    """Write a .npz weight file atomically; equal networks give equal bytes.

    Raises:
        WeightsError: The name does not end in .npz, or the card is not JSON.
    """
    if path.suffix.lower() != ".npz":
        raise WeightsError(f"{path}: weights are written as .npz; use this file name extension")
    factor = [how if isinstance(how, str) else {"method": how[0], "block": how[1]} for how in content.factor]
    task = {} if content.task is None else {"task": json.dumps({key: getattr(content.task, key) for key in TASK_KEYS})}
    try:
        texts = {
            **task,
            "factor": json.dumps(factor),
            "card": json.dumps(content.card, allow_nan=False),
        }
    except (TypeError, ValueError) as fault:
        raise WeightsError(
            f"{path}: the card is not JSON ({fault}); use text, finite numbers, lists and objects only"
        ) from fault
    arrays: dict[str, NDArray[Any]] = {}
    for i, layer in enumerate(content.layers):
        arrays[f"layers.{i}.weight"], arrays[f"layers.{i}.bias"] = layer.weight, layer.bias
    arrays |= {key: np.array(text) for key, text in texts.items()}
    if content.activation != "relu":
        arrays[ACTIVATION_KEY] = np.array(content.activation)
    if content.input_range is not None:
        arrays[RANGE_KEY] = content.input_range
    size = sum(array.nbytes for array in arrays.values())
    if size > WEIGHTS.max_bytes:
        raise WeightsError(
            f"{path}: the network has {size:,} bytes, more than the limit of {WEIGHTS.max_bytes:,}; use a smaller one"
        )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for key, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
            # The default time stamp of ZipInfo is constant; the system that creates the file is not.
            info = zipfile.ZipInfo(f"{key}.npy")
            info.create_system = 3
            info.external_attr = 0o644 << 16
            archive.writestr(info, member.getvalue())
    write_atomic(path, buffer.getvalue())


def _build_layers(path: Path, arrays: dict[str, NDArray[Any]]) -> tuple[Layer, ...]:
    """Layers of the arrays of a .npz file, all of which are used, numbered from 0."""
    layers: list[Layer] = []
    remaining = dict(arrays)
    while remaining:
        where = f"layers.{len(layers)}"
        names = [f"{where}.{part}" for part in ("weight", "bias")]
        missing = [name for name in names if name not in remaining]
        if missing:
            raise WeightsError(
                f"{path}: {missing[0]} is missing, but {min(remaining)} exists; "
                "number the layers from 0 without gaps, each with weight and bias"
            )
        try:
            layers.append(Layer(remaining.pop(names[0]), remaining.pop(names[1])))
        except ValueError as fault:
            raise WeightsError(f"{path}: layer {where}.*: {fault}") from fault
    if not layers:
        raise WeightsError(f"{path}: no layers; store layers.0.weight and layers.0.bias")
    return tuple(layers)


def _npz_activation(path: Path, array: NDArray[Any] | None) -> Activation | None:
    """Activation that a file names; None where it names none."""
    if array is None:
        return None
    for known in ACTIVATIONS:
        if array.ndim == 0 and array.dtype.kind == "U" and str(array) == known:
            return known
    raise WeightsError(
        f"{path}: activation is {array.tolist()!r}; make it a 0-d string array with one of {', '.join(ACTIVATIONS)}"
    )


def _add_last_bias(arrays: dict[str, NDArray[Any]]) -> None:
    """Adds a bias of zeros to the last layer where the file has none: light at the outputs allows no bias."""
    last = max((int(key.split(".")[1]) for key in arrays if key.endswith(".weight")), default=None)
    weight = arrays.get(f"layers.{last}.weight")
    if weight is not None and weight.ndim == 2:
        arrays.setdefault(f"layers.{last}.bias", np.zeros(weight.shape[0]))


def _json(path: Path, key: str, array: NDArray[Any]) -> Any:
    """Value of the JSON text in a 0-d string array; duplicate keys and NaN raise WeightsError."""
    if array.dtype.kind != "U" or array.ndim != 0:
        raise WeightsError(
            f"{path}: {key} is an array of {array.dtype} and shape {array.shape}; make it a 0-d string array of JSON"
        )

    try:
        return parse_json(str(array))
    except ValueError as fault:
        raise WeightsError(f"{path}: {key} is not valid JSON ({fault}); correct it") from fault


def _stated_task(path: Path, value: Any) -> Averaging:
    """Averaging task of a file; every key but bits and servers has the default of ``optinc task``."""
    if not isinstance(value, dict):
        raise WeightsError(f"{path}: task is {value!r}; make it an object with the keys {', '.join(TASK_KEYS)}")
    unknown = [key for key in value if key not in TASK_KEYS]
    if unknown:
        raise WeightsError(f"{path}: task has the unknown key {unknown[0]!r}; known are {', '.join(TASK_KEYS)}")
    missing = [key for key in ("bits", "servers") if key not in value]
    if missing:
        raise WeightsError(f"{path}: task has no {missing[0]}; give bits and servers")
    try:
        return Averaging.of(**value)
    except ValueError as fault:
        raise WeightsError(f"{path}: task: {fault}") from fault


def _factor(path: Path, value: Any, layers: tuple[Layer, ...]) -> tuple[FactorMethod, ...]:
    """Factorisation method of each layer; empty, for "svd", where the key is absent."""
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) != len(layers):
        raise WeightsError(f"{path}: factor must be a list with one entry for each of the {len(layers)} layers")
    factor: list[FactorMethod] = []
    for i, (how, layer) in enumerate(zip(value, layers, strict=True)):
        if how in ("svd", "rows"):
            factor.append(how)
        elif how == "approx":
            factor.append(("approx", min(layer.outputs, layer.inputs)))
        elif (
            isinstance(how, dict)
            and set(how) == {"method", "block"}
            and how["method"] == "approx"
            and isinstance(how["block"], int)
            and not isinstance(how["block"], bool)
        ):
            factor.append(("approx", how["block"]))
        else:
            raise WeightsError(
                f'{path}: factor.{i} is {how!r}; allowed are "svd", "rows", "approx" and '
                '{"method": "approx", "block": 64}'
            )
    return tuple(factor)
