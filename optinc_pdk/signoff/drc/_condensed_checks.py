"""Checks of local rules on condensed layouts first: if a condensed layout is clean, so is the whole layout.

Local rules compare shapes near each other. Where the condensed layout has violations, the whole layout is checked in
the places that they may stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import klayout.db as kdb

from optinc_pdk.cards.rules import AngleRule, BendRadiusRule, BooleanRule, GuideSpaceRule, PairRule, Rule
from optinc_pdk.signoff.drc._condensed_layout import CheckDistances, CondensedLayout, condense
from optinc_pdk.signoff.drc._guide_spacing import guide_space_coarse
from optinc_pdk.signoff.drc._shape_checks import MAX_PAIRS, flattened
from optinc_pdk.signoff.drc._violations import merged_markers
from optinc_pdk.signoff.drc.design import Design

Check = Callable[[Design, Any], kdb.Region]
# Kinds of local rules: they measure between edges near each other, or exempt shapes near a body.
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
# Distances and cuts are rounded to the grid, and some checks measure slightly farther than the rule's value.
MARGIN_UM = 0.1


@dataclass(frozen=True)
class CondensedChecks:
    """The condensed layouts of one layout, on which local rules are checked first.

    Rules of the guides' layer and all other local rules have separate condensed layouts, because shapes of the others
    are compared over larger distances.

    Attributes:
        guide: Name of the guides' layer.
        guides: Condensed layout for rules of that layer; None if there is no such rule, or no cell is placed twice.
        others: Condensed layout for the other local rules; None for the same reasons.
    """

    guide: str
    guides: CondensedLayout | None
    others: CondensedLayout | None

    def condensed(self, rule: Rule) -> CondensedLayout | None:
        """Return the condensed layout for a rule; None if the rule has to be checked on the whole layout."""
        if rule.kind not in LOCAL:
            return None
        condensed = self.guides if self.guide in rule.layers else self.others
        return condensed if condensed is not None and set(rule.layers) <= set(condensed.layers) else None

    def violations(self, design: Design, rule: Rule, check: Check) -> kdb.Region:
        """Find the violations of a rule in the whole layout.

        The whole layout is checked only in the places that violations of the condensed layout stand for, or everywhere
        if the rule has no condensed layout.

        Args:
            design: Whole layout.
            check: Function that checks the rule on a layout.

        Returns:
            Violations as a flat region.
        """
        if isinstance(rule, AngleRule) and len(rule.layers) > 1:
            result = kdb.Region()
            for name in rule.layers:
                result += self.violations(design, rule.model_copy(update={"layers": (name,)}), check)
            return result
        condensed = self.condensed(rule)
        if condensed is None:
            # of chords by the hundred thousand, the coarse check takes a tenth of the time
            clean = isinstance(rule, GuideSpaceRule) and guide_space_coarse(design, rule).is_empty()
            return kdb.Region() if clean else flattened(check(design, rule))
        suspects = _suspects(condensed, rule, check)
        if suspects.is_empty():
            return kdb.Region()
        # keep a reference to the layout, because its regions refer to it
        part = condensed.near(suspects)
        found = flattened(check(part, rule))
        return found if found.count() > MAX_PAIRS else _merged(found).interacting(suspects)

    def suspects(self, rule: Rule, check: Check) -> kdb.Region:
        """Find the places of the whole layout where a rule may be violated according to its condensed layout.

        Returns:
            Boxes; empty if there are none, or if the rule has no condensed layout.
        """
        condensed = self.condensed(rule)
        return kdb.Region() if condensed is None else _suspects(condensed, rule, check)


def _suspects(condensed: CondensedLayout, rule: Rule, check: Check) -> kdb.Region:
    if isinstance(rule, GuideSpaceRule):
        violations = flattened(guide_space_coarse(condensed.design, rule))
    else:
        violations = flattened(check(condensed.design, rule))
    if violations.count() > MAX_PAIRS:
        # the check has ended early: the places of those that are missing are not known
        return kdb.Region(condensed.source.top.bbox())
    violations = _merged(condensed.counting(violations))
    if violations.is_empty():
        return kdb.Region()
    if isinstance(rule, GuideSpaceRule):
        # a piece of the condensed layout may stand for thousands of places, so it is checked exactly before they are
        pieces, possible = condensed.pieces(violations)
        certain = kdb.Region() if possible.is_empty() else _merged(flattened(check(pieces, rule))).interacting(possible)
        violations = violations.interacting(condensed.rest) + certain
    return condensed.suspects(violations)


def _merged(violations: kdb.Region) -> kdb.Region:
    """Merge violations that touch: KLayout selects among shapes that overlap in a time quadratic in their number."""
    return kdb.Region(merged_markers(violations))


def prepare_condensed(design: Design, rules: Sequence[Rule]) -> CondensedChecks | None:
    """Condense a layout for those of some rules that are local.

    Returns:
        The condensed layouts; None if no rule of guide space is among the rules, as it defines the guides' layer.
    """
    guides = [rule for rule in rules if isinstance(rule, GuideSpaceRule)]
    if not guides:
        return None
    guide = guides[0].layers[0]
    local = [rule for rule in rules if rule.kind in LOCAL]
    return CondensedChecks(
        guide,
        _condensed(design, [rule for rule in local if guide in rule.layers], guide, guides[0].body_um),
        _condensed(design, [rule for rule in local if guide not in rule.layers], guide, guides[0].body_um),
    )


def _condensed(design: Design, rules: Sequence[Rule], guide: str, body_um: float) -> CondensedLayout | None:
    """Condensed layout for some rules; a rule of angles of several layers is checked layer by layer."""
    layers = dict.fromkeys(name for rule in rules if not isinstance(rule, AngleRule) for name in rule.layers)
    if not layers:
        return None
    exempting = [rule for rule in rules if isinstance(rule, GuideSpaceRule | BendRadiusRule)]
    apart = max(map(_reach_um, rules))
    # rules of two layers never compare two shapes of one layer
    single = [rule for rule in rules if not isinstance(rule, PairRule | BooleanRule)]
    reach = CheckDistances(
        apart=design.dbu(apart),
        alone={
            name: design.dbu(max((_reach_um(rule) for rule in single if name in rule.layers), default=0))
            for name in layers
        },
        near=design.dbu(apart + MARGIN_UM),
        body=design.dbu(body_um),
        exempt=design.dbu(max((rule.exempt_um + _reach_um(rule) for rule in exempting), default=0)),
    )
    return condense(design, list(layers), guide, reach)


def _reach_um(rule: Rule) -> float:
    """Largest distance of two shapes that a rule compares."""
    if isinstance(rule, BendRadiusRule):
        # the arms of a corner near one item may end in a third
        return 2 * max(arm for arm, _ in rule.arms_um)
    return float(getattr(rule, "value_um", 0.0))
