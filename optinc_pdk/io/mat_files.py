"""Reading of MATLAB's files of version 5 (``save`` with ``-v6`` or ``-v7``) with bounds.

A file is a header of 128 bytes and one element for each variable, which may be compressed. An element is a tag, which
states type and number of bytes, and its content. A variable consists of elements again: flags, shape, name, and values.
Every length is checked against what is there before an array is created, and unpacking ends at the limit of the kind of
file. Source of the format: MathWorks, MAT-File Format, R2024b, chapter 1.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.errors import InputError
from optinc_pdk.io.reading import FileKind

SAVE_AGAIN = "save it again with save('x.mat', 'A', '-v7')"
MAX_VARIABLES = 1000

_HEADER = 128
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8", 16: "u1"}
"""Types of values, by the number in a tag; 16 is text in UTF-8."""
_MATRIX, _COMPRESSED = 14, 15
_KINDS = {1: "cell array", 2: "struct", 3: "object", 4: "text", 5: "sparse"} | dict.fromkeys(range(6, 16), "numbers")
"""Kinds of variables, by the number in their flags."""
_COMPLEX, _LOGICAL = 0x800, 0x200


_Element = tuple[int, memoryview]
"""Type and content of an element."""


class _TooLargeError(ValueError):
    """An element unpacks to more bytes than are allowed."""


@dataclass(frozen=True)
class MatVariable:
    """A variable of a file, the values of which have not been read.

    Attributes:
        name: Its name.
        shape: Its shape.
        kind: What it is: ``numbers``, ``sparse``, ``struct``, ...
    """

    name: str
    shape: tuple[int, ...]
    kind: str
    _flags: int = field(repr=False)
    _order: str = field(repr=False)
    _values: tuple[_Element, ...] = field(repr=False)

    def __str__(self) -> str:
        """Name, shape and kind, for messages."""
        return f"{self.name[:40]} ({' × '.join(map(str, self.shape[:5]))} {self.kind})"

    def array(self, where: str, kind: FileKind) -> NDArray[Any]:
        """Return the values of a variable of the kind ``numbers`` or ``sparse``; a sparse one becomes dense.

        Args:
            where: Beginning of messages.
            kind: Kind of the file, which limits the size of the array.

        Raises:
            InputError: The variable is damaged, or larger than ``kind`` allows.
        """
        size = math.prod(self.shape)
        if 16 * size > kind.max_bytes:
            raise InputError(
                f"{where}: has {size:,} entries of 16 bytes, the limit of a {kind.name} is {kind.max_bytes:,} bytes; "
                f"{kind.remedy}"
            )
        try:
            if self.kind == "sparse":
                return self._sparse()
            return self._joined(self._values, size).reshape(self.shape, order="F")
        except (ValueError, IndexError) as fault:
            raise InputError(f"{where}: is damaged ({fault}); {SAVE_AGAIN}") from fault

    def _joined(self, elements: Sequence[_Element], size: int) -> NDArray[Any]:
        """Return the values of real and imaginary part."""
        count = 2 if self._flags & _COMPLEX else 1
        parts = [_numbers(element, self._order) for element in elements]
        if [len(part) for part in parts] != count * [size]:
            raise ValueError(f"{[len(part) for part in parts][:5]} values for {count} × {size}")
        if count == 1:
            return parts[0]
        joined = np.empty(size, dtype=np.complex128)
        joined.real, joined.imag = parts
        return joined

    def _sparse(self) -> NDArray[Any]:
        """Return a matrix that is stored as row indices, the first index of each column, and values."""
        rows, starts = (_numbers(element, self._order) for element in self._values[:2])
        if rows.dtype.kind == "f" or starts.dtype.kind == "f":
            raise ValueError("its indices are no whole numbers")
        ends = starts.astype(np.int64)
        counts = ends[1:] - ends[:-1]
        # more may be stored than is used
        used = int(starts[-1])
        if len(counts) != self.shape[1] or counts.min(initial=0) < 0 or starts[0] != 0 or used > len(rows):
            raise ValueError("its columns do not begin in order")
        rows = rows[:used]
        if rows.min(initial=0) < 0:
            raise ValueError("a row has a negative index")
        entries = self._joined([self._used(element, used) for element in self._values[2:]], used)
        matrix = np.zeros(self.shape, entries.dtype)
        matrix[rows, np.repeat(np.arange(self.shape[1]), counts)] = entries
        return matrix

    def _used(self, element: _Element, used: int) -> _Element:
        """Return the element of the first values of a sparse matrix."""
        number, content = element
        if self._flags & _LOGICAL and len(content) == used:
            # MATLAB states numbers of 8 bytes for logical values, which have a byte each
            number = 2
        return number, content[: used * np.dtype(_TYPES.get(number, "u1")).itemsize]


def mat_variables(path: Path, data: bytes, kind: FileKind) -> list[MatVariable]:
    """Return the variables of a file that has been read.

    Raises:
        InputError: The file is damaged, of another version, has more than ``MAX_VARIABLES`` variables, or unpacks to
            more bytes than ``kind`` allows; the message states the file and the remedy.
    """
    order = {b"IM": "<", b"MI": ">"}.get(data[126:128])
    version = 0 if order is None else int(np.frombuffer(data[124:126], f"{order}u2")[0])
    if version == 0x200:
        raise InputError(f"{path}: is a MATLAB file of version 7.3 (HDF5), which is not read; {SAVE_AGAIN}")
    if order is None or version != 0x100:
        raise InputError(f"{path}: is not a MATLAB file of version 5; {SAVE_AGAIN}")
    try:
        return list(_variables(memoryview(data)[_HEADER:], order, kind.max_bytes))
    except _TooLargeError as fault:
        raise InputError(
            f"{path}: {fault}, the limit of a {kind.name} is {kind.max_bytes:,} bytes; {kind.remedy}"
        ) from fault
    except (ValueError, OverflowError, zlib.error) as fault:
        raise InputError(f"{path}: is damaged ({fault}); {SAVE_AGAIN}") from fault


def _variables(data: memoryview, order: str, room: int) -> Iterator[MatVariable]:
    for count, (number, content) in enumerate(_elements(data, order)):
        if count == MAX_VARIABLES:
            raise _TooLargeError(f"has more than {MAX_VARIABLES:,} variables")
        if number == _COMPRESSED:
            unpacked = _unpacked(content, room)
            room -= len(unpacked)
            number, content = next(_elements(unpacked, order), (0, unpacked))
        if number != _MATRIX:
            raise ValueError(f"an element of type {number} in place of a variable")
        yield _variable(content, order)


def _unpacked(content: memoryview, room: int) -> memoryview:
    """Unpack an element, of at most ``room`` bytes."""
    unpacking = zlib.decompressobj()
    unpacked = unpacking.decompress(content, room + 1)
    if len(unpacked) > room:
        raise _TooLargeError("unpacks to more than is allowed")
    if not unpacking.eof:
        raise ValueError("a compressed element is cut off")
    return memoryview(unpacked)


def _elements(data: memoryview, order: str) -> Iterator[_Element]:
    """Yield the elements of a file or of a variable.

    Raises:
        ValueError: An element is longer than what is there.
    """
    at = 0
    while at < len(data):
        if at + 8 > len(data):
            raise ValueError("a tag is cut off")
        number, size = (int(value) for value in np.frombuffer(data[at : at + 8], f"{order}u4"))
        if number >> 16:
            # a tag of four bytes, and up to four bytes of content
            number, size, start, end = number & 0xFFFF, number >> 16, at + 4, at + 8
        else:
            start = at + 8
            # compressed elements alone do not end at a multiple of eight bytes
            end = start + size + (0 if number == _COMPRESSED else -size % 8)
        if start + size > min(end, len(data)):
            raise ValueError(f"an element of {size:,} bytes is cut off")
        yield number, data[start : start + size]
        at = end


def _numbers(element: _Element, order: str) -> NDArray[Any]:
    number, content = element
    if number not in _TYPES:
        raise ValueError(f"values of type {number}")
    return np.frombuffer(content, f"{order}{_TYPES[number]}")


def _variable(content: memoryview, order: str) -> MatVariable:
    """Return the variable of an element."""
    elements = _elements(content, order)
    head = [_numbers(element, order) for element in islice(elements, 3)]
    if len(head) < 3 or head[0].size < 1:
        raise ValueError("a variable without flags, shape and name")
    flags = int(head[0][0])
    name = head[2].tobytes().decode("utf-8", "replace")
    kind = _KINDS.get(flags & 0xFF, "object")
    shape = tuple(map(int, head[1]))
    if kind != "object" and (len(shape) < 2 or min(shape) < 0):
        raise ValueError(f"{name[:40]!r} has the shape {shape[:5]}")
    return MatVariable(name, shape, kind, flags, order, tuple(islice(elements, 4)))
