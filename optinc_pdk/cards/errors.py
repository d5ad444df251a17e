"""Error of the package ``cards``, and descriptions of the faults that pydantic finds in a card."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any

from optinc_pdk.errors import InputError


class CardError(InputError):
    """A process or device card cannot be used; the message names the file, the key, the fault and the remedy."""


def describe_fault(fault: Mapping[str, Any], key: str) -> str:
    """Describe a fault of a card in the words of this project.

    Args:
        fault: Entry of pydantic's ``ValidationError.errors()``.
        key: Path of the key, such as ``guide.width_um``; empty for the whole card.

    Returns:
        Key, fault and remedy, such as "unknown key guide.colour; remove it or correct its spelling".
    """
    kind, text = str(fault["type"]), str(fault["msg"])
    if kind == "extra_forbidden":
        return f"unknown key {key}; remove it or correct its spelling"
    if kind in ("missing", "union_tag_not_found"):
        return f"key {key} is missing; add it"
    if kind == "value_error":
        text = text.removeprefix("Value error, ")
        remedy = "" if "; " in text else "; correct the value"
        return f"key {key}: {text}{remedy}" if key else f"{text}{remedy}"
    text = text.replace("Input should", "must").replace("String should", "must")
    where = f"key {key}" if key else "the card"
    return f"{where} {text}, but is {reprlib.repr(fault['input'])}; correct the value"
