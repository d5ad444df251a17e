"""Numbers and errors as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

PREFIXES = {9: "G", 6: "M", 3: "k", 0: "", -3: "m", -6: "µ", -9: "n", -12: "p", -15: "f"}


def format_short(value: float) -> str:
    """Three significant digits; values of 1000 and more keep all digits before the decimal point."""
    rounded = float(f"{value:.3g}")
    return f"{value:,.0f}" if abs(rounded) >= 1e3 else f"{rounded:g}"


def format_si(value: float, unit: str) -> str:
    """Three significant digits with an SI prefix and the unit; without prefix for 0, negative and extreme values."""
    rounded = float(f"{value:.3g}")
    exponent = 3 * math.floor(math.log10(rounded) / 3 + 1e-9) if rounded > 0.0 else None
    if exponent not in PREFIXES:
        return f"{value:.2g} {unit}"
    return f"{rounded / 10.0**exponent:.3g} {PREFIXES[exponent]}{unit}"


def error_numbers(errors: Mapping[int, int]) -> list[dict[str, Any]]:
    """Errors of words as rows of value, count and share of all errors, the most frequent first."""
    total = sum(errors.values())
    ranked = sorted(errors.items(), key=lambda item: (-item[1], item[0]))
    return [{"value": value, "count": count, "share": count / total} for value, count in ranked]


def format_errors(errors: Sequence[Mapping[str, Any]], most: int = 8) -> str:
    """Errors of words by value with their share of all errors, such as ``+1 (90 %), −64 (10 %)``.

    Args:
        errors: Rows with ``value`` and ``share``, the most frequent first.
        most: Number of values that are written out; the others are counted.
    """
    parts = [f"{each['value']:+d} ({100.0 * each['share']:.3g} %)".replace("-", "−") for each in errors[:most]]
    if len(errors) > most:
        parts.append(f"{len(errors) - most} more")
    return ", ".join(parts)
