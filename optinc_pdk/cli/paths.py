"""Checks of the paths of output files, and naming of the file in error messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from optinc_pdk.errors import InputError


def output_path(path: Path, *inputs: Path | None) -> Path:
    """Return the path of an output file after checking that it is not one of the command's input files.

    Args:
        path: File to write.
        inputs: Files that the command reads; None stands for an option that was not given.

    Returns:
        ``path``, unchanged.

    Raises:
        InputError: The path is one of the inputs.
    """
    for one in inputs:
        if one is not None and path.resolve() == one.resolve():
            raise InputError(f"{path}: this command reads the file, so it does not overwrite it; give another with -o")
    return path


@contextmanager
def errors_naming(path: Path) -> Iterator[None]:
    """Put a file's name in front of the messages of input errors that are raised inside the ``with`` block.

    Args:
        path: File.

    Raises:
        InputError: As raised inside the block, with the file's name in front of the message.
    """
    try:
        yield
    except InputError as fault:
        raise InputError(f"{path}: {fault}") from fault
