"""Numbers of the cards, each with the key of its source."""

from __future__ import annotations

import sys
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, PlainValidator


class StrictModel(BaseModel):
    """Base class of the cards: instances are immutable, and unknown keys raise an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class Quantity(float):
    """A finite float together with the key of its source.

    Attributes:
        source: Key in the card's ``sources``.
    """

    source: str

    def __new__(cls, value: float, source: str) -> Quantity:
        """Create a quantity of ``value`` from ``source``."""
        self = super().__new__(cls, value)
        self.source = source
        return self

    def __reduce__(self) -> tuple[type[Quantity], tuple[float, str]]:
        """Pickle number and source, for worker processes."""
        return type(self), (float(self), self.source)


def _parse(data: Any) -> Quantity:
    if isinstance(data, Quantity):
        return data
    if not isinstance(data, dict) or set(data) != {"value", "source"}:
        raise ValueError(f"expected {{value: number, source: key}}, got {data!r}")
    value, source = data["value"], data["source"]
    # compared instead of converted: an integer may be too large for a float
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not abs(value) <= sys.float_info.max:
        raise ValueError(f"value {value!r} is not a finite number")
    if not isinstance(source, str) or not source:
        raise ValueError(f"source {source!r} is not a key of 'sources'")
    return Quantity(value, source)


def _positive(data: Any) -> Quantity:
    quantity = _parse(data)
    if quantity <= 0:
        raise ValueError(f"value {float(quantity)} must be above 0")
    return quantity


def _non_negative(data: Any) -> Quantity:
    quantity = _parse(data)
    if quantity < 0:
        raise ValueError(f"value {float(quantity)} must not be below 0")
    return quantity


def _share(data: Any) -> Quantity:
    quantity = _parse(data)
    if not 0 <= quantity < 1:
        raise ValueError(f"value {float(quantity)} must be 0 to less than 1")
    return quantity


AnyQuantity = Annotated[Quantity, PlainValidator(_parse)]
Positive = Annotated[Quantity, PlainValidator(_positive)]
NonNegative = Annotated[Quantity, PlainValidator(_non_negative)]
Share = Annotated[Quantity, PlainValidator(_share)]
