"""Rules with one limit moved by its smallest step, which the cases must tell from the card's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from optinc_pdk.cards.rules import Rule

# The smallest step of each number that a rule may have; twice as much where half of it is what counts.
STEPS = {
    "value_um": 0.001,
    "value_um2": 1e-6,
    "value_deg": 0.002,
    "value_ma_per_um": 0.004,
    "value_mv": 0.0002,
    "angled_tolerance_um": 0.001,
    "exempt_um": 0.001,
    "body_um": 0.001,
    "recognize_um": 0.002,
    "merge_um": 0.002,
    "guide_width_um": 0.002,
    "arms_um": 0.001,
    "dies_um": 0.001,
    "reticle_um": 0.001,
    # 1 nm of one side of a window of half a millimetre, and what moves a window's edge by more than that
    "least": 2.5e-6,
    "most": 2.5e-6,
    "window_um": 0.02,
    "step_um": 0.02,
}
# Values that are the most that may be; all others are the least.
MOST = ("value_ma_per_um", "value_mv")
# Steps of kinds that measure in others: the database unit is told to a thousandth.
STEPS_OF_KINDS = {("grid", "value_um"): 1e-6}


@dataclass(frozen=True)
class Mutant:
    """A rule with one number changed.

    Attributes:
        name: Which number, and by how much.
        limit: Whether it is the rule's value, not a number that helps to measure.
        stricter: Whether it forbids more, where it is the value.
        rule: The changed rule.
    """

    name: str
    limit: bool
    stricter: bool
    rule: Rule


def mutants(rule: Rule) -> Iterator[Mutant]:
    """Every number of a rule moved up and down by its smallest step."""
    for field, step in STEPS.items():
        value = getattr(rule, field, None)
        step = STEPS_OF_KINDS.get((rule.kind, field), step)
        for sign in (1, -1):
            for place, changed in _changed(value, sign * step):
                if field == "arms_um" and place.endswith("[0]"):
                    # how long an arm is decides nothing; its error does
                    continue
                mutant = rule.model_copy(update={field: changed})
                yield Mutant(
                    f"{field}{place} {sign * step:+g}", field.startswith("value"), (sign > 0) != (field in MOST), mutant
                )


def _changed(value: Any, by: float) -> Iterator[tuple[str, Any]]:
    """A number, or tuples of numbers with one of them changed."""
    if isinstance(value, float):
        if round(value + by, 9) >= 0:
            yield "", round(value + by, 9)
    elif isinstance(value, tuple):
        for number, part in enumerate(value):
            for place, changed in _changed(part, by):
                yield f"[{number}]{place}", (*value[:number], changed, *value[number + 1 :])
