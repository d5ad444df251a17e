"""Writing of files: atomic replacement, writing in place to devices and pipes; content of CSV and PNG files.

A file is written under the hidden name ``.<name>.new`` beside its target, synchronised with the disk and renamed. Who
writes it holds a lock on it, so two writers of one target wait for each other, and the hidden file of a writer that was
killed is overwritten by the next one. Symbolic links are followed: the file that they lead to is replaced.
"""

from __future__ import annotations

import csv
import errno
import fcntl
import io
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from optinc_pdk.errors import InputError, printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMULA = "=+-@"
"""Characters at the start of a cell by which spreadsheets recognise a formula."""
QUOTE = "'"
"""Character that marks a cell of a CSV file as text."""
MAX_LINKS = 40
"""Largest number of symbolic links in a row, as in Linux."""
_DESCRIPTORS = "/proc/self/fd"
"""Folder whose links are the open files of this process; ``/dev/stdout`` and ``/dev/fd`` lead to it."""


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file atomically: a reader sees either the old content or the complete new content.

    The folder is created if it is missing. Devices and pipes, such as ``/dev/null`` and ``/dev/stdout``, are written in
    place.

    Args:
        path: The file.
        data: Its new content.

    Raises:
        InputError: The path leads to a folder, a socket or a disk, or to a pipe that nobody reads.
        OSError: The file cannot be written; ``filename`` is its path.
    """
    with errors_of(path):
        target = output_target(path)
        if _written_in_place(target):
            _write_in_place(path, target, data)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            _replace(target, data)


def csv_text(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table as text of a CSV file: a line with the names of the columns, then a line for each row.

    Text that a spreadsheet would calculate as a formula gets ``QUOTE`` in front, and so does text that begins with it
    already, so that the text is known again. Characters that are not printable are escaped, except newlines.

    Args:
        columns: Names of the columns.
        rows: Cells of each row; numbers, also formatted ones, are written as they are.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(map(_csv_cell, row) for row in rows)
    return stream.getvalue()


def _csv_cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = printable(value)
    if _is_number(text):
        return text
    return QUOTE + text if text.startswith((*FORMULA, QUOTE)) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def output_target(path: Path, in_place: bool = True) -> Path:
    """Follow the symbolic links of an output file, and check that the file can be written or replaced.

    Args:
        path: File to write; it may be missing.
        in_place: Whether devices and pipes can be written in place; False for files that are replaced together.

    Returns:
        The path without symbolic links in it; that of an open file of this process, such as ``/dev/stdout``, is
        ``/proc/<process>/fd/<number>``.

    Raises:
        InputError: The path leads to something that is no file, or to too many links.
        OSError: The name is too long.
    """
    target = _followed(path)
    mode = _mode(target)
    _mode(_temporary(target))  # its name is longer, and may be too long
    if mode is None or stat.S_ISREG(mode) or (in_place and _written_in_place(target)):
        return target
    if stat.S_ISDIR(mode):
        raise InputError(f"{path}: is a folder; give a file")
    if not in_place and _written_in_place(target):
        raise InputError(f"{path}: is a {_kind(mode)}, which cannot be replaced as a whole; give a regular file")
    raise InputError(f"{path}: is a {_kind(mode)}; give a regular file")


def _followed(path: Path) -> Path:
    """Follow symbolic links, also where the last one leads to a missing file."""
    current = Path(path)
    for _ in range(MAX_LINKS + 1):
        current = Path(os.path.realpath(current.parent), current.name)
        if _descriptor(current) is not None or not current.is_symlink():
            return current
        current = current.parent / os.readlink(current)
    raise InputError(f"{path}: more than {MAX_LINKS} symbolic links follow each other; give another path")


def _descriptor(target: Path) -> int | None:
    """Number of the open file of this process that a path without links denotes; None for other paths."""
    is_own = target.name.isdecimal() and str(target.parent) == os.path.realpath(_DESCRIPTORS)
    return int(target.name) if is_own else None


def _mode(target: Path) -> int | None:
    """Kind and permissions of a file; None if it is missing."""
    try:
        return target.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _written_in_place(target: Path) -> bool:
    mode = _mode(target)
    return _descriptor(target) is not None or (mode is not None and (stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)))


def _kind(mode: int) -> str:
    kinds = {stat.S_IFCHR: "device", stat.S_IFBLK: "disk", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
    return kinds.get(stat.S_IFMT(mode), "special file")


def _write_in_place(path: Path, target: Path, data: bytes) -> None:
    """Write to a device, a pipe or an open file of this process."""
    own = _descriptor(target)
    if own is not None:
        sys.stdout.flush()
        descriptor = os.dup(own)
    else:
        try:
            # without O_NONBLOCK, opening a pipe waits for a reader without end
            descriptor = os.open(target, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as fault:
            if fault.errno != errno.ENXIO:
                raise
            raise InputError(f"{path}: is a pipe that nobody reads; start its reader first, or give a file") from fault
        os.set_blocking(descriptor, True)
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)


def _temporary(target: Path) -> Path:
    """Path of the hidden file that becomes a file when it is complete."""
    return target.with_name(f".{target.name}.new")


def _replace(target: Path, data: bytes) -> None:
    temporary = _temporary(target)
    with locked_file(temporary) as descriptor:
        os.ftruncate(descriptor, 0)
        write_all(descriptor, data)
        os.fsync(descriptor)
        os.replace(temporary, target)
    sync_folder(target.parent)


@contextmanager
def locked_file(path: Path) -> Iterator[int]:
    """Create or open a file of which one process at a time has the lock; it is deleted at the end unless renamed.

    If a process with the lock is killed, the file stays, and the next one takes it over.

    Args:
        path: The file; its folder exists.

    Yields:
        Descriptor of the file, open for reading and writing.

    Raises:
        InputError: The file system has no locks.
        OSError: The file cannot be created.
    """
    descriptor = _lock(path)
    try:
        yield descriptor
    finally:
        # a waiting process notices that the file it has opened is no longer there, and creates another one
        if _is_at(descriptor, path):
            os.unlink(path)
        os.close(descriptor)


def _lock(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        try:
            lock_descriptor(descriptor, path)
            if _is_at(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def lock_descriptor(descriptor: int, path: Path, wait: bool = True) -> bool:
    """Take the lock of an open file.

    Args:
        descriptor: Descriptor of the file.
        path: Path of the file, for messages.
        wait: Wait until the lock is free.

    Returns:
        Whether the lock was taken; False if another process has it.

    Raises:
        InputError: The file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as fault:
        if fault.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
        raise InputError(
            f"{path.parent}: its file system has no locks (flock), which keep two processes from mixing their files; "
            "write into a local folder, and copy the files"
        ) from fault
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is the one at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes to an open file, given by its descriptor; raises OSError as ``os.write`` does."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_folder(folder: Path) -> None:
    """Wait until the names of the files in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as fault:
        # some network file systems synchronise files only
        if fault.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


@contextmanager
def errors_of(path: Path) -> Iterator[None]:
    """Let errors of the file system that are raised inside the ``with`` block name one file.

    Args:
        path: File that the caller asked for, instead of a temporary one.

    Raises:
        OSError: As raised inside the block; ``filename`` is the path.
    """
    try:
        yield
    except OSError as fault:
        if fault.errno is None:
            raise
        raise OSError(fault.errno, fault.strerror, str(path)) from fault


def png_bytes(figure: Figure, dpi: float | Literal["figure"] = "figure") -> bytes:
    """Return the content of a PNG file of a figure of matplotlib; equal figures give equal bytes.

    Args:
        figure: The figure.
        dpi: Resolution; by default that of the figure.
    """
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=dpi, metadata={"Software": None})
    return picture.getvalue()


def saved_bytes(save: Callable[[str], object]) -> bytes:
    """Return the bytes that a function writes to a temporary file, for libraries such as KLayout that need a file name.

    Args:
        save: Function that writes a file; it is called with the path of the temporary file.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "saved")
        save(str(path))
        return path.read_bytes()
