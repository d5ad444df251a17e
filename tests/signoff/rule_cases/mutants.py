"""Rules with one number changed by its smallest step, which some case must distinguish from the original rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from optinc_pdk.cards.rules import Rule

# The smallest step of each number of a rule; twice as much if half of the number is used.
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
    "most_um": 0.001,
    "keepout_um": 0.001,
    "pitch_um": 0.001,
    "coupled_width_um": 0.001,
    "arms_um": 0.001,
    "dies_um": 0.001,
    "reticle_um": 0.001,
    # least, most: 1 nm of one side of a window of 0.5 mm; window_um, step_um: enough to exceed that
    "least": 2.5e-6,
    "most": 2.5e-6,
    "window_um": 0.02,
    "step_um": 0.02,
}
# Kinds whose value is an upper limit; that of all others is a lower limit.
MOST = ("current", "ir_drop")
# Steps for kinds that need another step: the database unit is measured to a thousandth.
STEPS_OF_KINDS = {("grid", "value_um"): 1e-6}


@dataclass(frozen=True)
class Mutant:
    """A rule with one number changed.

    Attributes:
        name: Name of the changed number, with the change.
        limit: Whether the number is the rule's limit, and not a parameter of its measurement.
        stricter: Whether the changed limit is stricter.
        rule: The changed rule.
    """

    name: str
    limit: bool
    stricter: bool
    rule: Rule


def mutants(rule: Rule) -> Iterator[Mutant]:
    """All rules that result from changing one number of a rule by its smallest step, up or down."""
    for field, step in STEPS.items():
        value = getattr(rule, field, None)
        step = STEPS_OF_KINDS.get((rule.kind, field), step)
        for sign in (1, -1):
            for place, changed in _changed(value, sign * step):
                if field == "arms_um" and place.endswith("[0]"):
                    # the length of an arm has no exact effect; its tolerance has
                    continue
                mutant = rule.model_copy(update={field: changed})
                stricter = (sign > 0) != (rule.kind in MOST)
                yield Mutant(f"{field}{place} {sign * step:+g}", field.startswith("value"), stricter, mutant)


def _changed(value: Any, by: float) -> Iterator[tuple[str, Any]]:
    """A changed number, or a tuple of numbers with one of them changed."""
    if isinstance(value, float):
        if round(value + by, 9) >= 0:
            yield "", round(value + by, 9)
    elif isinstance(value, tuple):
        for number, part in enumerate(value):
            for place, changed in _changed(part, by):
                yield f"[{number}]{place}", (*value[:number], changed, *value[number + 1 :])
