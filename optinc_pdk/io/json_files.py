"""JSON text: read without duplicate keys, NaN and infinity; written with control characters escaped."""

from __future__ import annotations

import json
from typing import Any

from optinc_pdk.errors import printable


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Args:
        text: JSON in UTF-8.

    Returns:
        Dicts, lists, text, numbers, bools and None.

    Raises:
        ValueError: The text is not JSON, nested too deeply, or has a duplicate key, NaN or infinity.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def json_text(data: Any, indent: int = 2) -> str:
    """Return data as JSON text that ends in a newline; characters that are not printable are escaped.

    Args:
        data: Dicts, lists, text, numbers, bools and None.
        indent: Number of spaces by which a level is indented.
    """
    return printable(json.dumps(data, indent=indent, ensure_ascii=False)) + "\n"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"duplicate key {next(key for key in keys if keys.count(key) > 1)!r}")
    return data


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")
