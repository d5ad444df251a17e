"""Reading of ``.npz`` archives, which are zip files of .npy members, with bounds and without unpickling.

Names, sizes and headers are checked before any array is created: a small archive can declare members of any size, and
many of them.
"""

from __future__ import annotations

import ast
import io
import math
import reprlib
import struct
import zipfile
import zlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.errors import InputError
from optinc_pdk.io.reading import FileKind, read_bytes

SAVE_AGAIN = "save it again with numpy.savez"
MAX_MEMBERS = 10_000
"""Largest number of arrays; a network of 1,000 layers has 2,003."""
MAX_HEADER = 10_000
"""Largest size of a .npy header in bytes."""

_ENTRY = b"PK\x01\x02"
"""Signature of a member in the archive's directory."""
_MAGIC = b"\x93NUMPY"
# What zipfile, NumPy and ast.literal_eval raise for damaged archives and headers.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    RuntimeError,
    MemoryError,
    OverflowError,
    SyntaxError,
    TypeError,
    ValueError,
    AttributeError,
    LookupError,
)


def read_npz(
    path: Path, kind: FileKind, error: type[ValueError] = InputError, only: Collection[str] | None = None
) -> dict[str, NDArray[Any]]:
    """Read the arrays of a .npz archive, none of which is unpickled.

    Args:
        path: The file.
        kind: Kind of the file, which limits its size, packed and unpacked.
        error: Class of the exception to raise.
        only: Names of the arrays to read; by default all.

    Returns:
        Read-only arrays by name, without the ending .npy.

    Raises:
        error: The file is unreadable, too large, damaged or no .npz archive, has more than ``MAX_MEMBERS`` members, or
            a member is not an array of plain values; the message states the file, the member and the remedy.
    """
    return parse_npz(path, read_bytes(path, kind, error), kind, error, only)


def parse_npz(
    path: Path, data: bytes, kind: FileKind, error: type[ValueError], only: Collection[str] | None = None
) -> dict[str, NDArray[Any]]:
    """Return the arrays of an archive that has been read; arguments and exceptions are those of :func:`read_npz`."""
    if data[:1] == b"\x80":
        raise error(f"{path}: is a pickle, which can run code; save the arrays with numpy.savez")
    count = data.count(_ENTRY)
    if count > MAX_MEMBERS:
        raise error(f"{path}: has {count:,} members, the limit is {MAX_MEMBERS:,}; {kind.remedy}")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if only is not None:
                members = [info for info in members if info.filename.removesuffix(".npy") in only]
            _check_members(path, members, kind, error)
            contents = [(info.filename, archive.read(info)) for info in members]
    except error:
        raise
    except _DAMAGE as fault:
        raise error(f"{path}: is not a valid .npz archive ({_reason(fault)}); {SAVE_AGAIN}") from fault
    return {
        name.removesuffix(".npy"): _array(f"{path}: member {reprlib.repr(name)}", content, error, SAVE_AGAIN)
        for name, content in contents
    }


def member_names(data: bytes) -> list[str]:
    """Return the names of an archive's members without the ending .npy; empty if it is no valid archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except _DAMAGE:
        return []


def parse_npy(path: Path, data: bytes, error: type[ValueError] = InputError) -> NDArray[Any]:
    """Return the array of a .npy file that has been read, which is not unpickled.

    Raises:
        error: The file is damaged, or is not an array of plain values; the message states the file and the remedy.
    """
    return _array(str(path), data, error, "save it again with numpy.save")


def _check_members(path: Path, members: Sequence[zipfile.ZipInfo], kind: FileKind, error: type[ValueError]) -> None:
    """Refuse members that must not be unpacked, from the archive's directory alone."""
    seen: set[str] = set()
    for info in members:
        name, shown = info.filename, reprlib.repr(info.filename)
        if "/" in name or "\\" in name or name.startswith("."):
            raise error(f"{path}: member {shown} is in a folder; use names such as 'task.npy'")
        if not name.endswith(".npy"):
            raise error(f"{path}: member {shown} is not a .npy array; save the file with numpy.savez")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise error(
                f"{path}: member {shown} has compression type {info.compress_type}; save the file with numpy.savez"
            )
        if name in seen:
            raise error(f"{path}: member {shown} occurs twice; remove one")
        seen.add(name)
    # zipfile reads at most the size that the directory declares
    size = sum(info.file_size for info in members)
    if size > kind.max_bytes:
        raise error(
            f"{path}: unpacks to {size:,} bytes, the limit of a {kind.name} is {kind.max_bytes:,}; {kind.remedy}"
        )


def _array(where: str, data: bytes, error: type[ValueError], save_again: str) -> NDArray[Any]:
    """Return the array of a file or member; its header is checked against its size before the array is created."""
    try:
        start, shape, fortran, dtype = _header(data)
    except _DAMAGE as fault:
        raise error(f"{where} is not a valid .npy array ({_reason(fault)}); {save_again}") from fault
    if dtype.hasobject:
        raise error(
            f"{where} holds Python objects (a pickle), which can run code; store floats, and text as a string array"
        )
    body = data[start:]
    plain = dtype.fields is None and dtype.subdtype is None and all(n >= 0 for n in shape)
    expected = math.prod(shape, start=dtype.itemsize) if plain else -1
    if expected != len(body) or dtype.itemsize == 0:
        raise error(
            f"{where} declares {reprlib.repr(shape)} of {str(dtype)[:60]}, which does not fit its {len(body)} bytes; "
            f"{save_again}"
        )
    try:
        return np.frombuffer(body, dtype).reshape(shape, order="F" if fortran else "C")
    except _DAMAGE as fault:  # such as more dimensions than NumPy has
        raise error(f"{where} is not a valid .npy array ({_reason(fault)}); {save_again}") from fault


def _header(data: bytes) -> tuple[int, tuple[int, ...], bool, np.dtype[Any]]:
    """Return start of the values, shape, whether they are in Fortran order, and type, from the header of a .npy array.

    NumPy's reader warns about some damaged headers instead of refusing them.
    """
    magic, size_bytes = data[: len(_MAGIC)], {1: 2, 2: 4}.get(data[6] if len(data) > 8 else 0)
    if magic != _MAGIC or size_bytes is None or data[7]:
        raise ValueError("it does not begin as a .npy array of format version 1.0 or 2.0")
    start = 8 + size_bytes
    end = start + int.from_bytes(data[8:start], "little")
    if end > min(len(data), MAX_HEADER):
        raise ValueError(f"its header of {end - start} bytes is cut off or too long")
    header = ast.literal_eval(data[start:end].decode("latin-1").strip())
    if not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise ValueError("its header does not state descr, fortran_order and shape")
    shape, fortran = header["shape"], header["fortran_order"]
    # True is an int as well, but no length
    if not isinstance(shape, tuple) or any(type(n) is not int for n in shape) or not isinstance(fortran, bool):
        raise ValueError(f"its shape is {reprlib.repr(shape)}")
    kind = header["descr"]
    # NumPy warns about its old name of bytes, and arrays of records are of no use here
    if not isinstance(kind, str) or "a" in kind:
        raise ValueError(f"its type is {reprlib.repr(kind)}")
    return end, shape, fortran, np.dtype(kind)


def _reason(fault: BaseException) -> str:
    return f"{' '.join(str(fault).split()) or type(fault).__name__}"
