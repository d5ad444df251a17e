"""Stored values of ONNX models: tensors inside the model or in a file beside it, attributes, constants of these."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.errors import InputError
from optinc_pdk.io.reading import WEIGHTS, read_part, real_path

Array = NDArray[Any]

BFLOAT16 = 16
FLOATS = (1, 10, 11, BFLOAT16)
BYTES = {1: 4, 2: 1, 3: 1, 4: 2, 5: 2, 6: 4, 7: 8, 9: 1, 10: 2, 11: 8, 12: 4, 13: 8, BFLOAT16: 2}
"""Bytes of the element types of real numbers in ONNX: floats of 16, 32 and 64 bits, integers, and Booleans."""
VALUE = {
    "value": "TENSOR",
    "value_float": "FLOAT",
    "value_int": "INT",
    "value_floats": "FLOATS",
    "value_ints": "INTS",
}
"""Attributes of a Constant node."""
OF_CONSTANTS = ("Identity", "Cast", "CastLike", "Reshape", "Squeeze", "Unsqueeze", "Transpose")
OF_SHAPES = ("Gather", "Concat", "Slice")
"""Nodes that are computed for shapes only, which have few numbers: results may be larger than what they are made of."""
MOST_DIMENSIONS = 64


def attributes(where: str, node: Any, known: Mapping[str, str]) -> dict[str, Any]:
    """Return the attributes of a node by name.

    Args:
        where: Name of the node, for messages.
        node: The node.
        known: Type of each attribute that the node may have, as ``onnx.AttributeProto`` names it.

    Raises:
        InputError: An attribute is not known, of another type, or a factor is no finite number.
    """
    import onnx

    values: dict[str, Any] = {}
    for item in node.attribute:
        if item.name not in known or item.name in values:
            raise InputError(
                f"{where}, has the attribute {reprlib.repr(item.name)}, which is unknown or twice there; use "
                f"{', '.join(known) or 'none'}"
            )
        if item.ref_attr_name or item.type != getattr(onnx.AttributeProto, known[item.name]):
            raise InputError(f"{where}: {item.name} is not of type {known[item.name]}; export it again")
        value = onnx.helper.get_attribute_value(item)
        # an infinite bound of a clamp means none; an infinite or undefined factor has no meaning
        if isinstance(value, float) and (math.isnan(value) or (math.isinf(value) and node.op_type == "Gemm")):
            raise InputError(f"{where}: {item.name} is {value}; give a finite number")
        values[item.name] = value
    return values


class Constants:
    """Arrays of a graph by name, each of which is read when it is used.

    ``shapes`` are the names of arrays in which a 0 stands for the number of samples.
    """

    def __init__(self, path: Path, initializers: Sequence[Any]) -> None:
        self.path = path
        self.tensors = {tensor.name: tensor for tensor in initializers}
        self.arrays: dict[str, Array] = {}
        self.shapes: set[str] = set()
        self.size = 0

    def __contains__(self, name: str) -> bool:
        """Return whether a name is that of a constant."""
        return name in self.arrays or name in self.tensors

    def get(self, where: str, name: str, shape: bool = False) -> Array:
        """Return a constant.

        Raises:
            InputError: It is missing or damaged, or it depends on the number of samples and ``shape`` is False.
        """
        if name in self.shapes and not shape:
            raise InputError(f"{where}: computes with the number of samples; use it in a Reshape only")
        if name not in self:
            raise InputError(f"{where}: takes {reprlib.repr(name)}, which is not stored; use constants")
        if name not in self.arrays:
            self.arrays[name] = self._array(name, self.tensors[name])
        return self.arrays[name]

    def add_node(self, where: str, node: Any) -> None:
        """Add the constants of a Constant node.

        Raises:
            InputError: They are no real numbers, or damaged.
        """
        for key, value in attributes(where, node, VALUE).items():
            array = self._array(node.output[0], value) if key == "value" else np.array(value)
            self.arrays[node.output[0]] = array

    def add_shape(self, name: str, shape: tuple[int, ...]) -> None:
        """Add the shape of a signal."""
        self.arrays[name] = np.array(shape, dtype=np.int64)
        self.shapes.add(name)

    def compute(self, where: str, node: Any, values: Mapping[str, Any]) -> None:
        """Add the result of a node of ``OF_CONSTANTS`` or ``OF_SHAPES``, all inputs of which are constants.

        Raises:
            InputError: Its inputs do not fit, or the arrays are too large.
        """
        names = [name for name in node.input if name]
        first, *rest = arrays = [self.get(where, name, shape=True) for name in names]
        if node.op_type in OF_SHAPES and any(array.size > MOST_DIMENSIONS for array in arrays):
            raise InputError(f"{where}: has inputs of more than {MOST_DIMENSIONS} values; export the model optimised")
        try:
            found = _result(node.op_type, first, rest, values)
        # what NumPy raises for arguments that do not fit
        except (ValueError, TypeError, LookupError, OverflowError, MemoryError) as fault:
            raise InputError(f"{where}: cannot be computed ({fault}); export it again") from fault
        if not np.may_share_memory(found, first):
            self._count(where, found.nbytes)
        self.arrays[node.output[0]] = found
        if not self.shapes.isdisjoint(names):
            self.shapes.add(node.output[0])

    def _count(self, where: str, size: int) -> None:
        """Count bytes of arrays that are not in the model.

        Raises:
            InputError: They are too many.
        """
        self.size += size
        if self.size > WEIGHTS.max_bytes:
            raise InputError(
                f"{where}: the arrays up to it have {self.size:,} bytes, the limit is {WEIGHTS.max_bytes:,}; "
                f"{WEIGHTS.remedy}"
            )

    def _array(self, name: str, tensor: Any) -> Array:
        """Return the array of real numbers that a model stores under a name; bfloat16 as float32, which is exact.

        Raises:
            InputError: The tensor is damaged, or of another type.
        """
        import onnx

        where = f"the tensor {reprlib.repr(name)}"
        if tensor.HasField("segment") or any(length < 0 for length in tensor.dims):
            raise InputError(
                f"{where} has the dimensions {reprlib.repr(list(tensor.dims))}, or is a segment; export it again"
            )
        if tensor.data_type not in BYTES:
            raise InputError(
                f"{where} has element type {tensor.data_type}, which is no real number; export it as float"
            )
        if tensor.external_data or tensor.data_location == onnx.TensorProto.EXTERNAL:
            raw = self._external(where, tensor)
            tensor = onnx.TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=raw)
        try:
            array = onnx.numpy_helper.to_array(tensor)
        # what NumPy raises for data that do not fit the dimensions
        except (ValueError, TypeError, LookupError, OverflowError, MemoryError) as fault:
            raise InputError(f"{where} is damaged ({fault}); export it again") from fault
        return array.astype(np.float32) if tensor.data_type == BFLOAT16 else array

    def _external(self, where: str, tensor: Any) -> bytes:
        """Return the bytes of a tensor that a file in the folder of the model stores.

        Raises:
            InputError: The file is elsewhere, is not regular, or has too few bytes; or the tensor has another length.
        """
        entries = {item.key: item.value for item in tensor.external_data}
        location = entries.get("location", "")
        parts = PureWindowsPath(location if isinstance(location, str) else "")
        folder = real_path(self.path.parent)
        # a path that is plain for Windows is plain everywhere; a zero byte is no part of a path
        plain = bool(parts.parts) and not parts.anchor and ".." not in parts.parts and location.isprintable()
        file = real_path(folder / location) if plain else folder
        if not plain or not file.is_relative_to(folder):
            raise InputError(
                f"{where} is stored in {location!r}, which leads out of the folder of the model; give a file of this "
                "folder, or export the model with its weights inside"
            )
        length = math.prod(tensor.dims) * BYTES[tensor.data_type]
        stated = entries.get("length", str(length)), entries.get("offset", "0")
        # without the limit, the conversion of long texts takes long
        if any(not (str(n).isdecimal() and len(n) < 20) for n in stated) or int(stated[0]) != length:
            raise InputError(
                f"{where} states the length {reprlib.repr(stated[0])} at the offset {reprlib.repr(stated[1])} in "
                f"{location!r}, and its dimensions give {length:,} bytes; export it again"
            )
        self._count(where, length)
        try:
            return read_part(file, int(stated[1]), length)
        except InputError as fault:
            raise InputError(
                f"{where} is stored in {location!r}, which must be beside the model and complete: {fault}"
            ) from fault


def _result(kind: str, first: Array, rest: list[Array], values: Mapping[str, Any]) -> Array:
    """Return the result of a node with constants ``first`` and ``rest``."""
    import onnx

    axes = values.get("axes", rest[0].reshape(-1).tolist() if rest else None)
    if kind == "Cast":
        if values.get("to") not in BYTES:
            raise ValueError(f"the type {values.get('to')} is no real number")
        cast = first.astype(onnx.helper.tensor_dtype_to_np_dtype(values["to"]))
        return cast.astype(np.float32) if values["to"] == BFLOAT16 else cast
    if kind == "Reshape":
        copies = not values.get("allowzero", 0)
        target = rest[0].tolist()
        return first.reshape([first.shape[i] if n == 0 and copies else n for i, n in enumerate(target)])
    if kind == "Squeeze":
        return np.squeeze(first, None if axes is None else tuple(axes))
    if kind == "Unsqueeze":
        return np.expand_dims(first, tuple(axes))
    if kind == "Transpose":
        return np.transpose(first, values.get("perm"))
    if kind == "Gather":
        return np.take(first, rest[0], axis=values.get("axis", 0))
    if kind == "Concat":
        return np.concatenate([first, *rest], axis=values["axis"])
    if kind == "Slice":
        (start,), (end,), *others = (array.tolist() for array in rest)
        if any(other not in ([0], [1]) for other in others) or first.ndim != 1:
            raise ValueError("it is no slice of consecutive numbers")
        return first[start:end]
    return first
