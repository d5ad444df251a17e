"""Reader of circuit files: YAML to objects, with errors that name the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from optinc_pdk.circuit.errors import NetlistError
from optinc_pdk.yaml_io import load_yaml

T = TypeVar("T")


def read_object(path: str | Path, parse: Callable[[Mapping[str, Any]], T], expected: str) -> T:
    """Read a YAML file and convert its data.

    Args:
        path: The file.
        parse: Converts the data. Its ``NetlistError`` gets the file's name; its ``LookupError``, ``TypeError``,
            ``AttributeError`` and ``ValueError`` are reported as "not {expected}".
        expected: What the file should be, "a netlist" for example.

    Returns:
        The result of ``parse``.

    Raises:
        NetlistError: The file is unusable; the message names it and the fault.
    """
    path = Path(path)
    data = load_yaml(path, NetlistError)
    try:
        return parse(data)
    except NetlistError as fault:
        raise NetlistError(f"{path}: {fault}") from fault
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as fault:
        raise NetlistError(f"{path}: not {expected}: {type(fault).__name__} {fault}") from fault
