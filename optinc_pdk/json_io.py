"""Reading of JSON text: duplicate keys, NaN and infinity are refused."""

from __future__ import annotations

import json
from typing import Any


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


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"duplicate key {next(key for key in keys if keys.count(key) > 1)!r}")
    return data


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")
