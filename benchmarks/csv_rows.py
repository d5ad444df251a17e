"""Results of benchmarks as CSV files: one dataclass per line."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

Row = TypeVar("Row")

PARSERS: dict[type, Callable[[str], Any]] = {int: int, float: float, str: str, bool: lambda text: text == "True"}


def read(path: Path, kind: type[Row]) -> list[Row]:
    """Read the rows of a file, dataclasses of one kind; none if there is no file."""
    if not path.exists():
        return []
    parsers = {name: PARSERS[hint] for name, hint in get_type_hints(kind).items()}
    with path.open(newline="") as file:
        return [kind(**{name: parse(row[name]) for name, parse in parsers.items()}) for row in csv.DictReader(file)]


def write(path: Path, rows: Sequence[Any]) -> None:
    """Append rows, dataclasses of one kind."""
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(rows[0])], lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(asdict(one) for one in rows)
