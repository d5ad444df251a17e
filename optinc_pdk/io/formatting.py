"""Numbers and errors as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

PREFIXES = {9: "G", 6: "M", 3: "k", 0: "", -3: "m", -6: "µ", -9: "n", -12: "p", -15: "f"}


def format_short(value: float) -> str:
    """Format a number with three significant digits; from 1000 on as a whole number with commas."""
    rounded = float(f"{value:.3g}")
    return f"{value:,.0f}" if abs(rounded) >= 1e3 else f"{rounded:g}"


def format_percent(share: float) -> str:
    """Format a share in percent with two decimal places, or two significant digits if it is below 0.1 %."""
    return f"{share:.2%}" if share >= 1e-3 or share == 0.0 else f"{100.0 * share:.2g}%"


def format_si(value: float, unit: str) -> str:
    """Format a quantity with three significant digits, an SI prefix (f to G) and its unit.

    Values that are 0, negative or outside these prefixes have two significant digits and no prefix.
    """
    rounded = float(f"{value:.3g}")
    exponent = 3 * math.floor(math.log10(rounded) / 3 + 1e-9) if rounded > 0.0 else None
    if exponent not in PREFIXES:
        return f"{value:.2g} {unit}"
    return f"{rounded / 10.0**exponent:.3g} {PREFIXES[exponent]}{unit}"


def light_text(laser_w: float, oscillator_w: float) -> str:
    """Format the optical power in W launched into guides, and into fibres of local oscillators where it differs."""
    text = f"{format_si(laser_w, 'W')} into every guide"
    if math.isclose(laser_w, oscillator_w):
        return text
    return f"{text}, {format_si(oscillator_w, 'W')} into those of local oscillators"


def count_text(count: int, noun: str) -> str:
    """Format a count with its noun, in the plural unless the count is 1, such as ``1 warning`` and ``0 warnings``."""
    return f"{count} {noun}{'s' * (count != 1)}"


def error_numbers(errors: Mapping[int, int]) -> list[dict[str, Any]]:
    """Convert numbers of wrong words by error value (word read minus ideal word) to rows, the most frequent first.

    A row has ``value``, ``count`` and ``share`` of all wrong words.
    """
    total = sum(errors.values())
    ranked = sorted(errors.items(), key=lambda item: (-item[1], item[0]))
    return [{"value": value, "count": count, "share": count / total} for value, count in ranked]


def format_errors(errors: Sequence[Mapping[str, Any]], most: int = 8) -> str:
    """Format rows of `error_numbers` as text, such as ``+1 (90 %), −64 (10 %)``; at most ``most`` of them."""
    parts = [f"{each['value']:+d} ({100.0 * each['share']:.3g} %)".replace("-", "−") for each in errors[:most]]
    if len(errors) > most:
        parts.append(f"{len(errors) - most} more")
    return ", ".join(parts)
