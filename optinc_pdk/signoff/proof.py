"""Rules of the guides, proved on a condensed layout first: where that is clean, so is the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import klayout.db as kdb

from optinc_pdk.cards.rules import AngleRule, BendRadiusRule, GuideSpaceRule, Rule
from optinc_pdk.signoff.checks import flat, line_edges
from optinc_pdk.signoff.condense import Condensed, Reach, condense
from optinc_pdk.signoff.gds import Design
from optinc_pdk.signoff.photonic_checks import guide_space_coarse

Check = Callable[[Design, Any], kdb.Region]
# Kinds of rules that measure between edges nearby or exempt what is near a body; all others look farther.
LOCAL = (
    "width",
    "space",
    "overlap",
    "separation",
    "enclosure",
    "exclusion",
    "inside",
    "area",
    "angle",
    "guide_space",
    "bend_radius",
)
# Faster checks that find all that the others find, and more.
STRICTER: Mapping[str, Check] = {
    "width": line_edges,
    "space": line_edges,
    "guide_space": guide_space_coarse,
}
# Distances are rounded to the grid, cuts too.
MARGIN_UM = 1.0


@dataclass(frozen=True)
class Proof:
    """A condensed layout and the layer that it is for."""

    guide: str
    condensed: Condensed

    def faults(self, design: Design, rule: Rule, check: Check) -> kdb.Region:
        """What a rule finds in the whole layout, looked for where the condensed one has faults."""
        if rule.kind not in LOCAL or self.guide not in rule.layers:
            return check(design, rule)
        if isinstance(rule, AngleRule) and len(rule.layers) > 1:
            others = tuple(name for name in rule.layers if name != self.guide)
            found = self.faults(design, rule.model_copy(update={"layers": (self.guide,)}), check)
            return found + flat(check(design, rule.model_copy(update={"layers": others})))
        suspects = self.suspects(rule, check)
        if suspects.is_empty():
            return kdb.Region()
        # kept, as its regions refer to it
        part = self.condensed.near(suspects)
        return flat(check(part, rule)).interacting(suspects)

    def suspects(self, rule: Rule, check: Check) -> kdb.Region:
        """Where a rule of guides may find faults."""
        found = STRICTER.get(rule.kind, check)(self.condensed.design, rule)
        return kdb.Region() if found.is_empty() else self.condensed.suspects(flat(found))


def prepare(design: Design, rules: Sequence[Rule]) -> Proof | None:
    """Condense a design for the rules of the guides.

    Returns:
        The proof's layout, or None where there are no such rules, or no cell is placed twice.
    """
    guides = [rule for rule in rules if isinstance(rule, GuideSpaceRule)]
    if not guides:
        return None
    guide = guides[0].layers[0]
    local = [rule for rule in rules if rule.kind in LOCAL and guide in rule.layers]
    layers = dict.fromkeys(
        name for rule in local for name in ((guide,) if isinstance(rule, AngleRule) else rule.layers)
    )
    exempting = [rule for rule in local if isinstance(rule, GuideSpaceRule | BendRadiusRule)]
    reach = Reach(
        near=design.dbu(max(map(_reach_um, local)) + MARGIN_UM),
        body=design.dbu(guides[0].body_um),
        exempt=design.dbu(max(rule.exempt_um + _reach_um(rule) for rule in exempting)),
    )
    condensed = condense(design, list(layers), guide, reach)
    return None if condensed is None else Proof(guide, condensed)


def _reach_um(rule: Rule) -> float:
    """How far from each other shapes may be that a rule compares."""
    if isinstance(rule, BendRadiusRule):
        return max(arm for arm, _ in rule.arms_um)
    return float(getattr(rule, "value_um", 0.0))
