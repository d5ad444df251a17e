"""Writing of files: atomically, and to memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file atomically: a reader sees the old content or the new one, never a part.

    Creates the folder if it is missing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
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
    """Return the bytes that a function writes to a path, for libraries that write to named files alone, as KLayout.

    Args:
        save: Writes a file; called with its path.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "saved")
        save(str(path))
        return path.read_bytes()
