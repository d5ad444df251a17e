"""A faster check of the space between guides on smoothed contours with an eighth of the chords.

It reports every violation of the rule, and also gaps that are slightly wider than the rule's value. Smoothing moves no
edge by more than `COARSE_UM` and joins no guides that are twice as far apart. Edges parallel to the axes do not move,
so they are checked at the rule's value, and all others at twice `COARSE_UM` more.
"""

from __future__ import annotations

import klayout.db as kdb

from optinc_pdk.cards.rules import GuideSpaceRule
from optinc_pdk.signoff.drc.design import Design
from optinc_pdk.signoff.drc.shape_checks import merged

# How far smoothing may move an edge, and by what angle it may turn one: 20 nm is 3.6° at a radius of 10 µm.
COARSE_UM = 0.02
COARSE_DEG = 10.0


def guide_space_coarse(design: Design, rule: GuideSpaceRule) -> kdb.Region:
    """Find gaps between guides that may be too narrow, away from bodies, on smoothed contours.

    Args:
        design: Layout.
        rule: Rule of guide space.

    Returns:
        Polygons that cover everything that `guide_spacing.guide_space` reports, and possibly gaps that are slightly
        wider.
    """
    move = design.dbu(COARSE_UM)
    guides = _uncoupled(design, rule, move)
    fine = guides.edges()
    straight = fine.with_angle(kdb.Edges.OrthoEdges, False)
    bent = guides.smoothed(move, True).edges() - straight
    value, metric = design.dbu(rule.value_um), (False, kdb.Metrics.Euclidian, rule.ignore_angle_deg + COARSE_DEG)
    gaps = fine.space_check(2 * move, *metric).polygons(1)
    gaps += straight.space_check(value, *metric).polygons(1)
    gaps += bent.space_check(value + 2 * move, *metric).polygons(1)
    gaps += bent.separation_check(straight, value + 2 * move, *metric).polygons(1)
    for marker in rule.layers[1:]:
        gaps -= design.region(marker).sized(-2 * move)
    if gaps.is_empty():
        return gaps
    return gaps - design.bodies(rule.layers[0], rule.body_um).sized(design.dbu(rule.exempt_um) - 2 * move)


def _uncoupled(design: Design, rule: GuideSpaceRule, move: int) -> kdb.Region:
    """Guides without their parts deep in the exempt region, as in `guide_spacing`.

    Chords of tapers and gratings face each other there in thousands of pairs, whose difference from the exempt region
    takes seconds. A gap that begins at an edge made by the cut ends within the exempt region.
    """
    name, guides = rule.layers[0], merged(design, rule.layers[0])
    deep = design.dbu(rule.exempt_um) - design.dbu(rule.value_um) - 6 * move
    return guides - design.bodies(name, rule.body_um).sized(deep)
