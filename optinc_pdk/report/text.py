"""Numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

PREFIXES = {9: "G", 6: "M", 3: "k", 0: "", -3: "m", -6: "µ", -9: "n", -12: "p", -15: "f"}


def short(value: float) -> str:
    """Three digits; all of them before the point where there are more."""
    rounded = float(f"{value:.3g}")
    return f"{value:,.0f}" if abs(rounded) >= 1e3 else f"{rounded:g}"


def si(value: float, unit: str) -> str:
    """Three digits with an SI prefix; powers of ten beyond the prefixes, and for what is not above 0."""
    rounded = float(f"{value:.3g}")
    exponent = 3 * math.floor(math.log10(rounded) / 3 + 1e-9) if rounded > 0.0 else None
    if exponent not in PREFIXES:
        return f"{value:.2g} {unit}"
    return f"{rounded / 10.0**exponent:.3g} {PREFIXES[exponent]}{unit}"


def errors_text(errors: Sequence[Mapping[str, Any]], most: int = 8) -> str:
    """Errors of words by value with their share of the errors, such as ``+1 (90 %), −64 (10 %)``."""
    told = [f"{each['value']:+d} ({100.0 * each['share']:.3g} %)".replace("-", "−") for each in errors[:most]]
    if len(errors) > most:
        told.append(f"{len(errors) - most} more")
    return ", ".join(told)
