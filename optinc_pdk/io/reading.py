"""Bounded reading of input files: regular files only, up to a number of bytes that depends on the kind of file.

Only a regular file has an end: a pipe without a writer blocks, and a device such as ``/dev/zero`` never ends. A file is
opened without blocking and checked through its descriptor, so that it cannot be replaced between check and reading.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from optinc_pdk.errors import InputError

MIB = 2**20
# The first record of a GDS2 stream (HEADER, six bytes, integers) and the magic of OASIS: KLayout would also
# read DXF, CIF, LEF and other formats, which are not mask data.
GDS, OASIS = b"\x00\x06\x00\x02", b"%SEMI-OASIS"


@dataclass(frozen=True)
class FileKind:
    """A kind of input file, and how large it may be.

    Attributes:
        name: What the file is, for messages and the documentation.
        max_bytes: Largest size in bytes. It also limits the unpacked size of an archive.
        remedy: What to do about a larger file.
    """

    name: str
    max_bytes: int
    remedy: str


# Of the largest network laid out so far, the paper's with 41,664 MZIs, the netlist has 26 MB, the bias 9 MB, the layout
# 7 MB, the report 4 kB, and the weights in float64 0.7 MB.
WEIGHTS = FileKind("weight file", 256 * MIB, "give a file of weights only")
DATA = FileKind("data file", 256 * MIB, "give fewer samples")
TEXT_MATRIX = FileKind("matrix as text", 32 * MIB, "save it with numpy.save")
ONNX = FileKind("ONNX model", 64 * MIB, "export the network alone, or save its weights as .npz")
NETLIST = FileKind("netlist or bias file", 64 * MIB, "give a .pic.yml or .bias.yml file of one chip")
CARD = FileKind("card of a process or system", 4 * MIB, "give a card")
DEVICE_CELL = FileKind("cell of a device", 16 * MIB, "give the cell of one device")
GOLDEN = FileKind("golden device", 4 * MIB, "write it again with optinc process golden")
REPORT = FileKind("report of a build", 16 * MIB, "build the chip again")
LAYOUT = FileKind("layout", 512 * MIB, "draw equal cells once")
S_PARAMETERS = FileKind("file of S-parameters", 64 * MIB, "give fewer wavelengths")
FUNCTION_TABLE = FileKind("function table", 2048 * MIB, "write it again with optinc check")
CHECKPOINT = FileKind("checkpoint of a training", 2048 * MIB, "remove it and start again")
SAMPLES = FileKind("file of finished samples", 256 * MIB, "give another folder with -o")

FILE_KINDS = (
    WEIGHTS,
    TEXT_MATRIX,
    DATA,
    ONNX,
    NETLIST,
    CARD,
    DEVICE_CELL,
    GOLDEN,
    REPORT,
    LAYOUT,
    S_PARAMETERS,
    FUNCTION_TABLE,
    CHECKPOINT,
    SAMPLES,
)
"""All kinds of input files; docs/limits.md lists them."""

_TO_FILE = "write its content to a file first"
_IRREGULAR = (
    (stat.S_ISDIR, "Is a directory", "check the path"),
    (stat.S_ISFIFO, "a pipe has no known end", _TO_FILE),
    (stat.S_ISSOCK, "a socket has no known end", _TO_FILE),
    (stat.S_ISCHR, "a device has no known end", _TO_FILE),
    (stat.S_ISBLK, "a device is no file", _TO_FILE),
)
# systems without these flags have no pipes in their file system either
_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"))
_CHUNK = 2**16


def real_path(path: str | Path) -> Path:
    """Return the absolute path of a file without symbolic links, also of a missing one.

    Links that lead in a circle stay as they are, so that the function that opens the file names it. ``Path.resolve``
    raises RuntimeError for them.
    """
    return Path(os.path.realpath(path))


def read_bytes(path: str | Path, kind: FileKind, error: type[ValueError] = InputError) -> bytes:
    """Read a regular file of limited size.

    Args:
        path: The file; symbolic links are followed.
        kind: Kind of the file, which limits its size.
        error: Class of the exception to raise.

    Returns:
        Its content.

    Raises:
        error: The file is missing, unreadable, no regular file, or larger than ``kind.max_bytes``; the message states
            the file, the limit and the remedy.
    """
    with _opened(path, error) as (handle, size):
        return _content(path, handle, size, kind, error)


def read_part(path: str | Path, offset: int, length: int) -> bytes:
    """Read a part of a regular file.

    Args:
        path: The file; symbolic links are followed.
        offset: Place of the first byte.
        length: Number of bytes, which the caller limits.

    Returns:
        The bytes.

    Raises:
        InputError: The file is missing, unreadable, no regular file, or ends before the part does; the message states
            the file, its size and the remedy.
    """
    with _opened(path, InputError) as (handle, size):
        parts: list[bytes] = []
        missing = length if offset + length <= size else -1
        if missing > 0:
            os.lseek(handle, offset, os.SEEK_SET)
        while missing > 0 and (part := os.read(handle, missing)):
            parts.append(part)
            missing -= len(part)
        if missing:
            raise InputError(
                f"{path}: has {size:,} bytes, fewer than the {offset + length:,} that are used; write it again"
            )
    return b"".join(parts)


def check_readable(path: str | Path) -> None:
    """Check that a file can be read, before the packages that read it are imported.

    Raises:
        InputError: The file is missing, unreadable, or no regular file.
    """
    with _opened(path, InputError):
        pass


@contextmanager
def _opened(path: str | Path, error: type[ValueError]) -> Iterator[tuple[int, int]]:
    """Open a regular file; the descriptor, and the size that the file states."""
    try:
        handle = os.open(path, _FLAGS)
    # ValueError: the path contains a zero byte
    except (OSError, ValueError) as fault:
        raise _unreadable(path, fault, error) from fault
    try:
        state = os.fstat(handle)
        for matches, reason, remedy in _IRREGULAR:
            if matches(state.st_mode):
                raise error(f"{path}: cannot be read ({reason}); {remedy}")
        yield handle, state.st_size
    except OSError as fault:
        raise _unreadable(path, fault, error) from fault
    finally:
        os.close(handle)


def _content(path: str | Path, handle: int, size: int, kind: FileKind, error: type[ValueError]) -> bytes:
    """Return the content of an open file, which may be larger than it states: it may grow, and those of /proc do."""
    limit = kind.max_bytes
    parts: list[bytes] = []
    total = 0
    while size <= limit and (part := os.read(handle, min(limit + 1 - total, max(size - total, _CHUNK)))):
        parts.append(part)
        total += len(part)
        size = max(size, total)
    if size > limit:
        raise error(f"{path}: has {size:,} bytes, the limit of a {kind.name} is {limit:,}; {kind.remedy}")
    return b"".join(parts)


def _unreadable(path: str | Path, fault: OSError | ValueError, error: type[ValueError]) -> ValueError:
    """Return the error for a file that the operating system does not open or read."""
    # the text of an OSError repeats the path
    reason = getattr(fault, "strerror", None) or fault
    return error(f"{path}: cannot be read ({reason}); check the path")
