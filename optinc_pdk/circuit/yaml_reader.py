"""Reader of circuit files: converts YAML to objects and puts the file's name in front of errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from optinc_pdk.circuit.errors import NetlistError
from optinc_pdk.errors import InputError
from optinc_pdk.io.reading import NETLIST
from optinc_pdk.io.yaml_files import load_yaml

T = TypeVar("T")


def read_object(path: str | Path, parse: Callable[[Mapping[str, Any]], T], expected: str) -> T:
    """Read a YAML file and convert its data to an object.

    Args:
        path: File.
        parse: Function that converts the data. Its ``NetlistError`` is raised again with the file's name in front. Its
            ``LookupError``, ``TypeError``, ``AttributeError``, ``ValueError`` and ``OverflowError`` are reported as
            "not {expected}", with the missing key of a ``KeyError``.
        expected: Description of a valid file for this message, such as "a netlist".

    Returns:
        The result of ``parse``.

    Raises:
        NetlistError: The file cannot be read or converted; the message names the file and the fault.
        InputError: As ``parse`` raises it about another file.
    """
    path = Path(path)
    data = load_yaml(path, NETLIST, NetlistError, "a .pic.yml or .bias.yml file")
    try:
        return parse(data)
    except NetlistError as fault:
        raise NetlistError(f"{path}: {fault}") from fault
    except InputError:
        # about another file, which it names
        raise
    except KeyError as fault:
        raise NetlistError(f"{path}: not {expected}: key {fault} is missing; add it or write the file again") from fault
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as fault:
        raise NetlistError(
            f"{path}: not {expected}: {type(fault).__name__} {fault}; correct it or write the file again"
        ) from fault
