"""Reading of netlist, bias and board files, with checks of names, numbers, lists and mappings."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from optinc_pdk.errors import InputError
from optinc_pdk.io.reading import NETLIST
from optinc_pdk.io.yaml_files import load_yaml


class NetlistError(InputError):
    """A netlist, bias or board cannot be used; the message names the file, the fault and the remedy."""


MAX_NAME = 256
"""Largest number of characters of a name or label."""
LARGEST = 1e30
"""Largest magnitude of a number; squares of larger ones would leave the range of double precision."""
MAX_INDEX = 2**31
REMEDY = "correct it or write the file again"
_ADD = "add it or write the file again"


def name_of(where: str, value: Any) -> str:
    """Return a name after checking that it is printable text of 1 to ``MAX_NAME`` characters."""
    if not isinstance(value, str):
        raise NetlistError(f"{where}: the name {reprlib.repr(value)} is not text; put it in quotes, or correct it")
    if not 0 < len(value) <= MAX_NAME or not value.isprintable():
        raise NetlistError(
            f"{where}: the name {reprlib.repr(value)} of {len(value)} characters must have 1 to {MAX_NAME} printable "
            f"ones; {REMEDY}"
        )
    return value


def names_of(where: str, value: Any) -> tuple[str, ...]:
    """Return a value of a file as names after checking that it is a list of names (:func:`name_of`).

    ``where`` names the list in the message, such as ``info.board: supplies``.

    Raises:
        NetlistError: It is no list, or an element is no name.
    """
    return tuple(name_of(where, each) for each in list_of(where, value))


def number_of(where: str, value: Any) -> float:
    """Return a number after checking that it is finite and not beyond ``LARGEST``; bools are no numbers."""
    # NaN fails the comparison; an integer may be too large for a float
    if isinstance(value, bool) or not isinstance(value, int | float) or not -LARGEST <= value <= LARGEST:
        raise NetlistError(f"{where} is {reprlib.repr(value)}, expected a finite number up to ±{LARGEST:g}; {REMEDY}")
    return float(value)


def index_of(where: str, value: Any, stop: int = MAX_INDEX) -> int:
    """Return an integer after checking that it lies within 0 … ``stop`` - 1."""
    if type(value) is not int or not 0 <= value < stop:
        raise NetlistError(f"{where} is {reprlib.repr(value)}, expected an integer in 0…{stop - 1}; {REMEDY}")
    return value


def list_of(where: str, value: Any) -> list[Any]:
    """Return a value of a file after checking that it is a list; a text is no list.

    ``where`` names the value in the message, such as ``nets``.

    Raises:
        NetlistError: It is no list.
    """
    if not isinstance(value, list):
        raise NetlistError(f"{where} is {reprlib.repr(value)}, expected a list; {REMEDY}")
    return value


def mapping_of(where: str, value: Any) -> Mapping[str, Any]:
    """Return a value of a file after checking that it is a mapping whose keys are names (:func:`name_of`).

    ``where`` names the mapping in the message, such as ``info.cells``.

    Raises:
        NetlistError: It is no mapping, or a key is no name.
    """
    if not isinstance(value, Mapping):
        raise NetlistError(f"{where} is {reprlib.repr(value)}, expected key: value pairs; {REMEDY}")
    for key in value:
        name_of(where, key)
    return value


def entries_of(where: str, value: Any, required: Collection[str], optional: Collection[str] = ()) -> Mapping[str, Any]:
    """Return a mapping of a file after checking that it has all required keys, and no others than optional ones.

    ``where`` names the mapping in the message, such as ``board``; an empty text stands for the whole file.

    Raises:
        NetlistError: The value is no mapping, a key is missing, or a key is unknown.
    """
    data = mapping_of(where or "the file", value)
    prefix = f"{where}: " if where else ""
    if missing := [key for key in required if key not in data]:
        raise NetlistError(f"{prefix}{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} missing; {_ADD}")
    if unknown := sorted(set(data) - set(required) - set(optional)):
        known = ", ".join((*required, *optional))
        raise NetlistError(f"{prefix}unknown key {unknown[0]!r}; remove it, known are {known}")
    return data


def check_schema(value: Any, expected: int) -> None:
    """Refuse a file of another schema number; True is none, although it equals 1."""
    if type(value) is not int or value != expected:
        raise NetlistError(f"schema {reprlib.repr(value)}, this version reads {expected}; build the chip again")


T = TypeVar("T")


def read_object(path: str | Path, parse: Callable[[Mapping[str, Any]], T], expected: str) -> T:
    """Read a YAML file and convert its data to an object; errors name the file.

    A ``NetlistError`` of ``parse`` is raised again with the file's name in front. Its ``LookupError``, ``TypeError``,
    ``AttributeError``, ``ValueError`` and ``OverflowError`` are reported as "not {expected}", such as "a netlist", with
    the missing key of a ``KeyError``.

    Raises:
        NetlistError: The file cannot be read or converted.
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
