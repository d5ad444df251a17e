"""Results of trainings: files that are there only where a training has ended, and are whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optinc_pdk.errors import InputError
from optinc_pdk.file_writing import write_atomic

if TYPE_CHECKING:
    from data import Data
    from loop import Run

SETTINGS = ("size", "model", "scheme", "steps", "seed")
MEASURED = ("parameters", "rest", "payload", "side", "flop", "loss", "accuracy", "data", "data_digest", "wall_s")
"""What a result has besides its settings, as far as tables take it."""


def result_file(run: Run, folder: Path) -> Path:
    """Where a training's result is."""
    return folder / f"{run.name}.json"


def read_result(path: Path) -> dict[str, Any]:
    """A training's result.

    Raises:
        InputError: The file cannot be read, or is no such result.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as fault:
        raise InputError(f"{path}: cannot be read ({fault.strerror}); check the path") from fault
    except ValueError as fault:
        raise InputError(f"{path}: no result of a training ({fault}); delete it and train again") from fault
    missing = [name for name in (*SETTINGS, *MEASURED) if not isinstance(found, dict) or name not in found]
    if missing:
        raise InputError(f"{path}: no result of a training, {missing[0]} is missing; delete it and train again")
    return dict(found)


def finished(run: Run, data: Data, folder: Path) -> dict[str, Any] | None:
    """A training's result, where one of the same settings and data is there; a damaged one counts as none."""
    try:
        found = read_result(result_file(run, folder))
    except InputError:
        return None
    wanted = asdict(run) | {"data_digest": data.digest}
    return found if all(found[name] == value for name, value in wanted.items()) else None


def write(run: Run, result: dict[str, object], folder: Path) -> None:
    """Write a result, atomically: a training whose file is there has ended.

    Raises:
        InputError: It cannot be written.
    """
    path = result_file(run, folder)
    with writing(path):
        write_atomic(path, (json.dumps(result, indent=1) + "\n").encode())


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Tell a file that cannot be written.

    Raises:
        InputError: It cannot.
    """
    try:
        yield
    except OSError as fault:
        raise InputError(f"{path}: cannot be written ({fault.strerror}); make room, or give another folder") from fault
