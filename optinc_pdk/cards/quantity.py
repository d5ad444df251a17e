"""Numbers and texts of the cards, each number with the key of its source, and messages about faults in them."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, StrictStr

from optinc_pdk.errors import InputError


class CardError(InputError):
    """A process or device card cannot be used; the message names the file, the key, the fault and the remedy."""


def describe_fault(fault: Mapping[str, Any], key: str) -> str:
    """Describe an entry of pydantic's ``ValidationError.errors()`` in the words of this project: key, fault and remedy.

    ``key`` is the path of the key, such as ``guide.width_um``; empty for the whole card.
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


LARGEST = 1e30
"""Largest magnitude of a number; squares of larger ones would leave the range of double precision."""
MAX_TEXT = 1000


def _check_text(value: str) -> str:
    if not value.isprintable() or len(value) > MAX_TEXT:
        raise ValueError(
            f"text {reprlib.repr(value)} of {len(value)} characters must be at most {MAX_TEXT} printable ones"
        )
    return value


Text = Annotated[StrictStr, AfterValidator(_check_text)]
"""Description or source."""
Name = Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}$")]
"""Name of a process, device, layer, source or number."""
PortName = Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9_]{1,32}$")]


class StrictModel(BaseModel):
    """Base class of the cards: instances are immutable, and unknown keys raise an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, defer_build=True)


class Quantity(float):
    """A finite float together with the key of its source.

    Examples:
        >>> from optinc_pdk.cards import Quantity
        >>> loss_db = Quantity(0.25, source="measured")
        >>> 2 * loss_db, loss_db.source
        (0.5, 'measured')

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
        raise ValueError(f"expected {{value: number, source: key}}, got {reprlib.repr(data)}")
    value, source = data["value"], data["source"]
    # compared instead of converted: an integer may be too large for a float
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not abs(value) < float("inf"):
        raise ValueError(f"value {reprlib.repr(value)} is not a finite number")
    if abs(value) > LARGEST:
        raise ValueError(f"value {reprlib.repr(value)} is beyond ±{LARGEST:g}")
    if not isinstance(source, str) or not source:
        raise ValueError(f"source {reprlib.repr(source)} is not a key of 'sources'")
    return Quantity(value, source)


def _must(holds: Callable[[Quantity], bool], words: str, form: str = "g") -> AfterValidator:
    """Return a check of a quantity that raises "value ... must be ..." where the condition does not hold."""

    def check(quantity: Quantity) -> Quantity:
        if not holds(quantity):
            raise ValueError(f"value {float(quantity):{form}} must {words}")
        return quantity

    return AfterValidator(check)


def _at_most(limit: float) -> AfterValidator:
    return _must(lambda quantity: quantity <= limit, f"be at most {limit:g}")


AnyQuantity = Annotated[Quantity, PlainValidator(_parse)]
Positive = Annotated[AnyQuantity, _must(lambda quantity: quantity > 0, "be above 0", "")]
NonNegative = Annotated[AnyQuantity, _must(lambda quantity: quantity >= 0, "not be below 0", "")]
Share = Annotated[AnyQuantity, _must(lambda quantity: 0 <= quantity < 1, "be 0 to less than 1", "")]
Swing = Annotated[Positive, _at_most(1)]
Residual = Annotated[NonNegative, _at_most(0.1)]
"""Error of a curve that must still rise."""
Count = Annotated[Positive, _must(float.is_integer, "be a whole number")]
Bits = Annotated[Count, _at_most(32)]
"""Whole number of bits of a converter."""
SignificantBits = Annotated[Count, _at_most(53)]
"""Whole number of significant bits of a number in double precision."""
EffectiveBits = Annotated[Positive, _at_most(53)]
Rows = Annotated[Count, _at_most(100)]
Chords = Annotated[Count, _at_most(10_000)]
Deviation = Annotated[NonNegative, _at_most(0.5)]
"""Standard deviation of a share of power about one half."""
Spread = Annotated[NonNegative, _at_most(10)]
"""Standard deviation of a logarithm."""
Angle = Annotated[NonNegative, _at_most(1e3)]
Decibels = Annotated[NonNegative, _at_most(1e3)]


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
        # rules state one source, cards their own sources
        if path and not {"source", "sources"}.isdisjoint(type(value).model_fields):
            return
        for key in type(value).model_fields:
            yield from quantities(getattr(value, key), f"{path}.{key}" if path else key)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from quantities(item, f"{path}.{key}")
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from quantities(item, f"{path}[{i}]")
