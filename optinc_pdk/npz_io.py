"""Reading of ``.npz`` archives, which are zip files of .npy members, with bounds and without unpickling.

Names, sizes and headers are checked before any array is created.
"""

from __future__ import annotations

import io
import math
import reprlib
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SAVE_AGAIN = "save it again with numpy.savez"
# What zipfile and NumPy raise for damaged archives and headers; NumPy parses a header as a Python literal.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    tokenize.TokenError,
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


def read_npz(path: Path, data: bytes, max_bytes: int, error: type[ValueError]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a ``.npz`` archive.

    Args:
        path: The file, for messages.
        data: Its content.
        max_bytes: Largest unpacked size of the archive in bytes.
        error: Class of the exception to raise.

    Returns:
        Read-only arrays by name, without the ending .npy.

    Raises:
        error: The data are no archive, a member is not an array of plain values, or the archive is too large; the
            message names the file and the member.
    """
    if data[:1] == b"\x80":
        raise error(f"{path}: is a pickle, which can run code; save the arrays with numpy.savez")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            _check_members(path, members, max_bytes, error)
            contents = [(info.filename, archive.read(info)) for info in members]
    except error:
        raise
    except _DAMAGE as fault:
        raise error(f"{path}: is not a valid .npz archive ({_reason(fault)}); {SAVE_AGAIN}") from fault
    return {name.removesuffix(".npy"): _array(path, name, content, error) for name, content in contents}


def _check_members(path: Path, members: list[zipfile.ZipInfo], max_bytes: int, error: type[ValueError]) -> None:
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
    if size > max_bytes:
        raise error(f"{path}: unpacks to {size:,} bytes, the limit is {max_bytes:,}; give a smaller file")


def _array(path: Path, name: str, data: bytes, error: type[ValueError]) -> NDArray[Any]:
    """Return the array of a member; its header is checked against its size before the array is created."""
    where = f"{path}: member {reprlib.repr(name)}"
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
        elif version == (2, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(stream)
        else:
            raise ValueError(f"format version {version} is not (1, 0) or (2, 0)")
    except _DAMAGE as fault:
        raise error(f"{where} is not a valid .npy array ({_reason(fault)}); {SAVE_AGAIN}") from fault
    if dtype.hasobject:
        raise error(
            f"{where} holds Python objects (a pickle), which can run code; store floats, and text as a string array"
        )
    body = data[stream.tell() :]
    # bool is an int: NumPy accepts it as a length and cannot use it
    plain = dtype.fields is None and dtype.subdtype is None and all(type(n) is int and n >= 0 for n in shape)
    expected = math.prod(shape, start=dtype.itemsize) if plain else -1
    if expected != len(body) or dtype.itemsize == 0:
        raise error(
            f"{where} declares {reprlib.repr(shape)} of {reprlib.repr(str(dtype))}, which does not fit its "
            f"{len(body):,} bytes; {SAVE_AGAIN}"
        )
    try:
        return np.frombuffer(body, dtype).reshape(shape, order="F" if fortran else "C")
    except _DAMAGE as fault:  # such as more dimensions than NumPy has
        raise error(f"{where} is not a valid .npy array ({_reason(fault)}); {SAVE_AGAIN}") from fault


def _reason(fault: BaseException) -> str:
    return f"{' '.join(str(fault).split()) or type(fault).__name__}"
