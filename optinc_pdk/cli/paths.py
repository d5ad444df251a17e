"""Paths of files: which a command may write, and the file that an error is about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from optinc_pdk.errors import InputError


def output_path(path: Path, *inputs: Path | None) -> Path:
    """Return the path of a file to write.

    Args:
        path: File to write.
        inputs: Files that the command reads; None stands for an option that was not given.

    Raises:
        InputError: The path is one of the inputs.
    """
    for one in inputs:
        if one is not None and path.resolve() == one.resolve():
            raise InputError(f"{path}: this command reads the file, so it does not overwrite it; give another with -o")
    return path


@contextmanager
def errors_naming(path: Path) -> Iterator[None]:
    """Put the name of a file before the messages of input errors raised inside the ``with`` block.

    Raises:
        InputError: As raised inside, with the file's name.
    """
    try:
        yield
    except InputError as fault:
        raise InputError(f"{path}: {fault}") from fault
