"""Modifications of the data of files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def put(*keys: Any) -> Callable[[dict[str, Any]], None]:
    """Set the value, the last of ``keys``, at the path of the others."""

    def change(data: Any) -> None:
        for key in keys[:-2]:
            data = data[key]
        data[keys[-2]] = keys[-1]

    return change


def drop(*keys: Any) -> Callable[[dict[str, Any]], None]:
    """Delete the value at a path of keys."""

    def change(data: Any) -> None:
        for key in keys[:-1]:
            data = data[key]
        del data[keys[-1]]

    return change
