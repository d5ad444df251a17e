"""Rules between shapes near each other, proved on a condensed layout first: where that is clean, so is the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import klayout.db as kdb

from optinc_pdk.cards.rules import AngleRule, BendRadiusRule, BooleanRule, GuideSpaceRule, PairRule, Rule
from optinc_pdk.signoff.checks import flat, line_edges
from optinc_pdk.signoff.coarse import guide_space_coarse
from optinc_pdk.signoff.condense import Condensed, Reach, condense
from optinc_pdk.signoff.gds import Design

Check = Callable[[Design, Any], kdb.Region]
# Kinds of rules that measure between edges nearby or exempt what is near a body; all others look farther.
LOCAL = (
    "width",
    "space",
    "overlap",
    "separation",
    "enclosure",
    "contact_overlap",
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
# Distances are rounded to the grid, cuts too, and some checks measure a little more.
MARGIN_UM = 0.1


@dataclass(frozen=True)
class Proof:
    """Condensed layouts: one for the rules of guides, and one for all others, whose shapes lie farther apart.

    Either is None where there are no such rules, or no cell is placed twice.
    """

    guide: str
    guides: Condensed | None
    others: Condensed | None

    def condensed(self, rule: Rule) -> Condensed | None:
        """The layout that proves a rule, or None for a rule that is checked on the whole one."""
        if rule.kind not in LOCAL:
            return None
        condensed = self.guides if self.guide in rule.layers else self.others
        return condensed if condensed is not None and set(rule.layers) <= set(condensed.layers) else None

    def faults(self, design: Design, rule: Rule, check: Check) -> kdb.Region:
        """What a rule finds in the whole layout, looked for where the condensed one has faults."""
        if isinstance(rule, AngleRule) and len(rule.layers) > 1:
            found = kdb.Region()
            for name in rule.layers:
                found += self.faults(design, rule.model_copy(update={"layers": (name,)}), check)
            return found
        condensed = self.condensed(rule)
        if condensed is None:
            return flat(check(design, rule))
        suspects = _suspects(condensed, rule, check)
        if suspects.is_empty():
            return kdb.Region()
        # kept, as its regions refer to it
        part = condensed.near(suspects)
        return flat(check(part, rule)).interacting(suspects)

    def suspects(self, rule: Rule, check: Check) -> kdb.Region:
        """Where a rule that is proved may find faults."""
        condensed = self.condensed(rule)
        return kdb.Region() if condensed is None else _suspects(condensed, rule, check)


def _suspects(condensed: Condensed, rule: Rule, check: Check) -> kdb.Region:
    found = STRICTER.get(rule.kind, check)(condensed.design, rule)
    return kdb.Region() if found.is_empty() else condensed.suspects(flat(found))


def prepare(design: Design, rules: Sequence[Rule]) -> Proof | None:
    """Condense a design.

    Returns:
        The proof's layouts, or None where no rule says what a guide is.
    """
    guides = [rule for rule in rules if isinstance(rule, GuideSpaceRule)]
    if not guides:
        return None
    guide = guides[0].layers[0]
    local = [rule for rule in rules if rule.kind in LOCAL]
    return Proof(
        guide,
        _condensed(design, [rule for rule in local if guide in rule.layers], guide, guides[0].body_um),
        _condensed(design, [rule for rule in local if guide not in rule.layers], guide, guides[0].body_um),
    )


def _condensed(design: Design, rules: Sequence[Rule], guide: str, body_um: float) -> Condensed | None:
    """A layout that proves some rules; a rule of angles of several layers is several rules."""
    layers = dict.fromkeys(name for rule in rules if not isinstance(rule, AngleRule) for name in rule.layers)
    if not layers:
        return None
    exempting = [rule for rule in rules if isinstance(rule, GuideSpaceRule | BendRadiusRule)]
    apart = max(map(_reach_um, rules))
    # faults of two layers lie between a shape of the one and a shape of the other
    own = [rule for rule in rules if not isinstance(rule, PairRule | BooleanRule)]
    reach = Reach(
        apart=design.dbu(apart),
        alone={
            name: design.dbu(max((_reach_um(rule) for rule in own if name in rule.layers), default=0))
            for name in layers
        },
        near=design.dbu(apart + MARGIN_UM),
        body=design.dbu(body_um),
        exempt=design.dbu(max((rule.exempt_um + _reach_um(rule) for rule in exempting), default=0)),
    )
    return condense(design, list(layers), guide, reach)


def _reach_um(rule: Rule) -> float:
    """How far from each other shapes may be that a rule compares."""
    if isinstance(rule, BendRadiusRule):
        return max(arm for arm, _ in rule.arms_um)
    return float(getattr(rule, "value_um", 0.0))
