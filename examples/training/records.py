"""Result files of trainings. They are written atomically when a training has ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optinc_pdk.errors import InputError
from optinc_pdk.io.writing import write_atomic

if TYPE_CHECKING:
    from data import Data
    from loop import Run

SETTINGS = ("size", "model", "scheme", "steps", "seed")
MEASURED = ("parameters", "rest", "payload", "side", "flop", "loss", "accuracy", "data", "data_digest", "wall_s")
"""Keys of a result that the tables use, besides the settings."""


def result_file(run: Run, folder: Path) -> Path:
    """Path of the result of a training."""
    return folder / f"{run.name}.json"


def read_result(path: Path) -> dict[str, Any]:
    """Read the result of a training.

    Raises:
        InputError: The file cannot be read or is not such a result.
    """
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except OSError as fault:
        raise InputError(f"{path}: cannot be read ({fault.strerror}); check the path") from fault
    except ValueError as fault:
        raise InputError(f"{path}: not a result of a training ({fault}); delete it and train again") from fault
    missing = [name for name in (*SETTINGS, *MEASURED) if not isinstance(result, dict) or name not in result]
    if missing:
        raise InputError(f"{path}: not a result of a training, {missing[0]} is missing; delete it and train again")
    return dict(result)


def finished(run: Run, data: Data, folder: Path) -> dict[str, Any] | None:
    """Result of a training with the same settings and data if it exists, else None; a damaged one is ignored."""
    try:
        result = read_result(result_file(run, folder))
    except InputError:
        return None
    settings = asdict(run) | {"data_digest": data.digest}
    return result if all(result[name] == value for name, value in settings.items()) else None


def write(run: Run, result: dict[str, object], folder: Path) -> None:
    """Write a result atomically.

    Raises:
        InputError: The file cannot be written.
    """
    path = result_file(run, folder)
    with writing(path):
        write_atomic(path, (json.dumps(result, indent=1) + "\n").encode())


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Context that raises an `InputError` if a file cannot be written.

    Raises:
        InputError: An `OSError` was raised.
    """
    try:
        yield
    except OSError as fault:
        raise InputError(f"{path}: cannot be written ({fault.strerror}); free space, or give another folder") from fault
