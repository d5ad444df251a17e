"""Bounded reading of .npz archives: names, sizes and headers are checked before an array is created; no pickles.

A .npz is a zip of .npy members. A small archive can declare members of any size, and many of them.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.errors import InputError
from optinc_pdk.file_reading import FileKind, read_bytes

MAX_MEMBERS = 10_000
"""Largest number of arrays; a network of 1,000 layers has 2,003."""

_ENTRY = b"PK\x01\x02"
"""Signature of a member in the archive's directory."""


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
        The arrays by name; they are read-only.

    Raises:
        error: The file is unreadable, too large, damaged, or no .npz archive; it has more than ``MAX_MEMBERS`` arrays,
            or an array unpacks to more than its header declares. The message states the file, the limit and the remedy.
    """
    data = read_bytes(path, kind, error)
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
            return {info.filename.removesuffix(".npy"): _array(path, archive, info, error) for info in members}
    except error:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError, ValueError) as fault:
        raise error(f"{path}: is not a valid .npz archive ({fault}); save it again with numpy.savez") from fault


def _check_members(path: Path, members: Sequence[zipfile.ZipInfo], kind: FileKind, error: type[ValueError]) -> None:
    """Refuse members that must not be unpacked, from the archive's directory alone."""
    seen: set[str] = set()
    for info in members:
        name = info.filename
        if "/" in name or "\\" in name or name.startswith("."):
            raise error(f"{path}: member {name!r} is in a folder; use names such as 'task.npy'")
        if not name.endswith(".npy"):
            raise error(f"{path}: member {name!r} is not a .npy array; save the file with numpy.savez")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise error(
                f"{path}: member {name!r} has compression type {info.compress_type}; save the file with numpy.savez"
            )
        if name in seen:
            raise error(f"{path}: member {name!r} occurs twice; remove one")
        seen.add(name)
    size = sum(info.file_size for info in members)
    if size > kind.max_bytes:
        raise error(
            f"{path}: unpacks to {size:,} bytes, the limit of a {kind.name} is {kind.max_bytes:,}; {kind.remedy}"
        )


def _array(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, error: type[ValueError]) -> NDArray[Any]:
    """Return the array of one member; its header is checked against its size before the array is created."""
    # zipfile reads at most the size that the directory declares, which has been checked.
    data = archive.read(info)
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
        elif version == (2, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(stream)
        else:
            raise ValueError(f"format version {version} is not (1, 0) or (2, 0)")
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as fault:
        message = " ".join(str(fault).split())
        raise error(f"{path}: member {info.filename!r} is not a valid .npy array ({message})") from fault
    if dtype.hasobject:
        raise error(
            f"{path}: member {info.filename!r} holds Python objects (a pickle), which can run code; "
            "store floats, and text as a string array"
        )
    start = stream.tell()
    expected = dtype.itemsize
    for length in shape:
        expected *= length
    if expected != len(data) - start or dtype.itemsize == 0 or any(length < 0 for length in shape):
        raise error(
            f"{path}: member {info.filename!r} declares {shape} of {dtype}, {expected} bytes, but has "
            f"{len(data) - start}; save it again"
        )
    # numpy creates no array of an empty buffer
    flat = np.frombuffer(data, dtype, offset=start) if expected else np.zeros(0, dtype)
    return flat.reshape(shape, order="F" if fortran else "C")
