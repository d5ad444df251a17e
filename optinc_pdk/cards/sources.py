"""Quantities of a card and their sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from optinc_pdk.cards.quantity import Quantity
from optinc_pdk.cards.rules import Rule


def check_sources(card: BaseModel, sources: Mapping[str, str], where: str) -> None:
    """Check that every quantity of a card cites a known source.

    Raises:
        ValueError: A source is missing; the message names the source, the quantity and the card, ``where``.
    """
    for path, quantity in quantities(card, ""):
        if quantity.source not in sources:
            raise ValueError(f"{where}: {path}: source {quantity.source!r} is not under 'sources'; add it there")


def quantities(value: Any, path: str) -> Iterator[tuple[str, Quantity]]:
    """Yield path and quantity of a card or its part, except quantities of design rules and of cards in it.

    The path, such as ``layers.core.thickness_um``, begins with ``path``, which is empty for a whole card.
    """
    if isinstance(value, Quantity):
        yield path, value
    elif isinstance(value, BaseModel):
        if path and (isinstance(value, Rule) or "sources" in type(value).model_fields):
            return
        for key in type(value).model_fields:
            yield from quantities(getattr(value, key), f"{path}.{key}" if path else key)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from quantities(item, f"{path}.{key}")
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from quantities(item, f"{path}[{i}]")
