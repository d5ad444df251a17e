"""Files of circuits: read as YAML, and refused by name where their data are not what they should be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from optinc_pdk.circuit.netlist import NetlistError
from optinc_pdk.files import load_yaml

T = TypeVar("T")


def parsed(path: str | Path, parse: Callable[[Mapping[str, Any]], T], expected: str) -> T:
    """What a file's data make.

    Args:
        path: The file.
        parse: Makes it; its ``NetlistError`` tells the fault, its other errors that the data are no such file.
        expected: What the file should be, as in "not a netlist".

    Raises:
        NetlistError: The file cannot be used; the message names it and the fault.
    """
    path = Path(path)
    data = load_yaml(path, NetlistError)
    try:
        return parse(data)
    except NetlistError as fault:
        raise NetlistError(f"{path}: {fault}") from fault
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as fault:
        raise NetlistError(f"{path}: not {expected}: {type(fault).__name__} {fault}") from fault
