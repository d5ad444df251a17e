"""The project's weight file format, a .npz: validated when read, written reproducibly.

A .npz is a zip of .npy members; `optinc_pdk.io.npz_files` reads it.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.averaging import Averaging
from optinc_pdk.io.json_files import parse_json
from optinc_pdk.io.npz_files import read_npz
from optinc_pdk.io.reading import WEIGHTS
from optinc_pdk.io.writing import write_atomic
from optinc_pdk.networks.general_network import GeneralNetwork
from optinc_pdk.networks.network import ACTIVATIONS, AveragingNetwork, FactorMethod, Layer, Network, WeightsError
from optinc_pdk.options import Activation

TASK_KEYS = ("bits", "servers", "groups", "remainder", "finer_input")
ACTIVATION_KEY = "activation"
RANGE_KEY = "input_range"
LAYER_KEY = re.compile(r"layers\.(0|[1-9][0-9]{0,3})\.(weight|bias)")
TEXT_KEYS = ("task", "factor", "card")


def read(path: Path, stated: Averaging | None = None) -> AveragingNetwork | GeneralNetwork:
    """Reads and validates a .npz weight file.

    Args:
        path: The .npz file.
        stated: Averaging task of a file that contains none; without it, such a file is a general network.

    Raises:
        WeightsError: The file is missing, damaged, malicious or does not follow the format.
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
    activation = _activation(path, arrays.pop(ACTIVATION_KEY, None))
    input_range = arrays.pop(RANGE_KEY, None)
    _add_last_bias(arrays)
    layers = build_layers(path, arrays, "layers.{}.{}")
    task = _task(path, texts["task"]) if "task" in texts else stated
    factor = _factor(path, texts.get("factor"), layers)
    card = texts.get("card", {})
    if not isinstance(card, dict):
        raise WeightsError(f"{path}: card is a JSON {type(card).__name__}; make it an object")
    if task is not None and input_range is not None:
        raise WeightsError(f"{path}: {RANGE_KEY} describes a general network, and this one averages words; drop it")
    try:
        if task is None:
            return GeneralNetwork.of_layers(layers, activation, input_range, factor, card)
        return AveragingNetwork(layers, task, factor, card, activation)
    except ValueError as fault:
        raise WeightsError(f"{path}: {fault}") from fault


def save(onn: Network, path: Path) -> None:
    """Writes a .npz weight file atomically; equal networks give equal bytes.

    Args:
        onn: The network.
        path: The file, ending in .npz.

    Raises:
        WeightsError: The name does not end in .npz, or the card is not JSON.
    """
    if path.suffix.lower() != ".npz":
        raise WeightsError(f"{path}: weights are written as .npz; use this file name extension")
    factor = [how if how == "svd" else {"method": how[0], "block": how[1]} for how in onn.factor]
    try:
        texts = {
            **_task_text(onn),
            "factor": json.dumps(factor),
            "card": json.dumps(onn.card, allow_nan=False),
        }
    except (TypeError, ValueError) as fault:
        raise WeightsError(
            f"{path}: the card is not JSON ({fault}); use text, finite numbers, lists and objects only"
        ) from fault
    arrays: dict[str, NDArray[Any]] = {}
    for i, layer in enumerate(onn.layers):
        arrays[f"layers.{i}.weight"], arrays[f"layers.{i}.bias"] = layer.weight, layer.bias
    arrays |= {key: np.array(text) for key, text in texts.items()}
    if onn.activation != "relu":
        arrays[ACTIVATION_KEY] = np.array(onn.activation)
    if isinstance(onn, GeneralNetwork) and onn.task.input_range is not None:
        arrays[RANGE_KEY] = onn.task.input_range
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


def _task_text(onn: Network) -> dict[str, str]:
    """The averaging task as JSON; nothing for a general network."""
    if isinstance(onn, GeneralNetwork):
        return {}
    return {"task": json.dumps({key: getattr(onn.task, key) for key in TASK_KEYS})}


def build_layers(path: Path, arrays: dict[str, NDArray[Any]], pattern: str, stride: int = 1) -> tuple[Layer, ...]:
    """Creates the layers of a network from named arrays, with layer indices 0, stride, 2 stride ...

    Args:
        path: The file, for messages.
        arrays: Weights and biases by name; arrays of other names are an error.
        pattern: Format of the names, such as "layers.{}.{}", for the layer index and "weight" or "bias".
        stride: Difference of the indices of consecutive layers.

    Raises:
        WeightsError: A layer is incomplete or missing, or an array is unusable.
    """
    layers: list[Layer] = []
    remaining = dict(arrays)
    while remaining:
        index = stride * len(layers)
        names = [pattern.format(index, part) for part in ("weight", "bias")]
        missing = [name for name in names if name not in remaining]
        if missing:
            raise WeightsError(
                f"{path}: {missing[0]} is missing, but {min(remaining)} exists; "
                f"number the layers from 0 in steps of {stride} without gaps, each with weight and bias"
            )
        try:
            layers.append(Layer(remaining.pop(names[0]), remaining.pop(names[1])))
        except ValueError as fault:
            raise WeightsError(f"{path}: layer {pattern.format(index, '*')}: {fault}") from fault
    if not layers:
        raise WeightsError(f"{path}: no layers; store {pattern.format(0, 'weight')} and {pattern.format(0, 'bias')}")
    return tuple(layers)


def _activation(path: Path, array: NDArray[Any] | None) -> Activation:
    """Activation that a file names; "relu" where it names none."""
    if array is None:
        return "relu"
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


def _task(path: Path, value: Any) -> Averaging:
    if not isinstance(value, dict) or set(value) != set(TASK_KEYS):
        found = sorted(value) if isinstance(value, dict) else value
        raise WeightsError(f"{path}: task has {found}; it must be an object with exactly the keys {list(TASK_KEYS)}")
    try:
        return Averaging(**value)
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
        if how == "svd":
            factor.append("svd")
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
                f'{path}: factor.{i} is {how!r}; allowed are "svd", "approx" and {{"method": "approx", "block": 64}}'
            )
    return tuple(factor)
