"""A faster check of the space between guides on smoothed contours with an eighth of the chords.

It reports every violation of the rule, and also gaps that are slightly wider than the rule's value, and sharp corners.
Smoothing moves no edge by more than `COARSE_UM` and joins no guides that are twice as far apart. Edges parallel to the
axes do not move, so they are checked at the rule's value, and all others at twice `COARSE_UM` more.
"""

from __future__ import annotations

import klayout.db as kdb

from optinc_pdk.cards.rules import GuideSpaceRule
from optinc_pdk.signoff.drc.design import Design
from optinc_pdk.signoff.drc.shape_checks import MAX_PAIRS, bounded, merged, unmerged

# How far smoothing may move an edge, and by what angle it may turn one: 20 nm is 3.6° at a radius of 10 µm.
COARSE_UM = 0.02
COARSE_DEG = 10.0
# Concave corners from this angle on are checked exactly: smoothing removes notches of up to 20 nm, and their walls. A
# notch of this depth, on the grid of 1 nm, has no wall of 50° without such a corner.
CORNER_DEG = 5.0
GROWTH = (0.1, 0.3, 0.6)
"""Shares of a distance by which bodies grow one after another."""


def guide_space_coarse(design: Design, rule: GuideSpaceRule) -> kdb.Region:
    """Find gaps between guides that may be too narrow, away from bodies, on smoothed contours.

    Args:
        design: Layout.
        rule: Rule of guide space.

    Returns:
        Polygons that cover everything that `guide_spacing.guide_space` reports, and possibly gaps that are slightly
        wider; some may be missing of more than `shape_checks.MAX_PAIRS`.
    """
    move = design.dbu(COARSE_UM)
    guides = uncoupled(design, rule, merged(design, rule.layers[0]), 6 * move)
    fine = guides.edges()
    straight = fine.with_angle(kdb.Edges.OrthoEdges, False)
    bent = guides.smoothed(move, True).edges() - straight
    value, metric = design.dbu(rule.value_um), (False, kdb.Metrics.Euclidian, rule.ignore_angle_deg + COARSE_DEG)
    looks = (
        ("space", [fine], 2 * move),
        ("space", [straight], value),
        ("space", [bent], value + 2 * move),
        ("separation", [bent, straight], value + 2 * move),
    )
    # positive angles turn left, away from the silicon
    gaps = guides.corners(CORNER_DEG, 180.0, move)
    for kind, edges, distance in looks:
        pairs = bounded(kind, edges)(distance, *metric)
        gaps += pairs.polygons(1)
        if pairs.count() > MAX_PAIRS:
            return unmerged(gaps)
    for marker in rule.layers[1:]:
        gaps -= design.region(marker).sized(-2 * move)
    if gaps.is_empty():
        return gaps
    return gaps - design.bodies(rule.layers[0], rule.body_um).sized(design.dbu(rule.exempt_um) - 2 * move)


def uncoupled(design: Design, rule: GuideSpaceRule, guides: kdb.Region, margin: int) -> kdb.Region:
    """Return guides without their parts deep in the region that the rule exempts.

    Chords of arms, tapers and gratings face each other there in thousands of pairs. Cutting them off changes no gap
    outside the exempt region: an edge made by the cut faces only edges within the rule's value, which are inside it.

    Args:
        design: Layout.
        rule: Rule of guide space.
        guides: The guides.
        margin: Distance that is kept to the border of the exempt region besides the rule's value, in database units.
    """
    deep = design.dbu(rule.exempt_um) - design.dbu(rule.value_um) - margin
    bodies = design.bodies(rule.layers[0], rule.body_um)
    # in steps, because many bodies that are close together are soon one
    for share in GROWTH:
        bodies = bodies.sized(round(deep * share))
    return guides - bodies
