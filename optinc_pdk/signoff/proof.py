"""Rules of the guides, proved on a condensed layout first: where that is clean, so is the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import klayout.db as kdb

from optinc_pdk.cards.rules import AngleRule, BendRadiusRule, GuideSpaceRule, Rule
from optinc_pdk.signoff.checks import line_edges
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

    def rest(self, rule: Rule, check: Check) -> Rule | None:
        """What of a rule is left to check on the whole layout, None if it is proved."""
        if rule.kind not in LOCAL or self.guide not in rule.layers:
            return rule
        if isinstance(rule, AngleRule) and len(rule.layers) > 1:
            if self.rest(rule.model_copy(update={"layers": (self.guide,)}), check) is not None:
                return rule
            return rule.model_copy(update={"layers": tuple(name for name in rule.layers if name != self.guide)})
        faults = STRICTER.get(rule.kind, check)(self.condensed.design, rule)
        if faults.is_empty():
            return None
        faults.flatten()
        return rule if faults.interacting(self.condensed.windows).count() else None


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
