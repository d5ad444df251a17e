"""Atomic file writing, and capture of the bytes that a library writes to a file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file atomically: a reader sees either the old content or the complete new content.

    The folder is created if it is missing.

    Args:
        path: The file.
        data: Its new content.

    Raises:
        OSError: The file cannot be written; ``filename`` is its path.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        _write(path, data)
    except OSError as fault:
        if fault.errno is None:
            raise
        # name the file that was asked for, not the temporary one
        raise OSError(fault.errno, fault.strerror, str(path)) from fault


def _write(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def saved_bytes(save: Callable[[str], object]) -> bytes:
    """Return the bytes that a function writes to a temporary file, for libraries such as KLayout that need a file name.

    Args:
        save: Function that writes a file; it is called with the path of the temporary file.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "saved")
        save(str(path))
        return path.read_bytes()
