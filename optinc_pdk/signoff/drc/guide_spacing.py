"""Check of the space between guides, which are coupled near bodies and in devices that carry a mark.

A body is silicon that is wider than a guide: couplers, splitters, gratings.
"""

from __future__ import annotations

import klayout.db as kdb
import numpy as np

from optinc_pdk.cards.rules import GuideSpaceRule
from optinc_pdk.extract.box_pairs import touching_pairs
from optinc_pdk.extract.spatial_index import box_array
from optinc_pdk.signoff.drc.design import Design
from optinc_pdk.signoff.drc.shape_checks import CROWD, flat_edges, merged, violating_edge_pairs, with_merged_crowd

MANY_CORNERS = 5_000
"""Corners of a polygon of guides above which its pairs of edges are counted first."""


def guide_space(design: Design, rule: GuideSpaceRule) -> kdb.Region:
    """Find gaps between guides that are too narrow, except near bodies and under marks, all of which count as valid."""
    guides, metric = _uncoupled(design, rule), (False, kdb.Metrics.Euclidian, rule.ignore_angle_deg)
    if any(shape.num_points() > MANY_CORNERS for shape in merged(design, rule.layers[0]).each()):
        # of a crowd of pairs, separate edges are compared faster; :func:`_open` keeps none with a guide in between
        edges = flat_edges(guides)
        pairs = violating_edge_pairs(design, rule, lambda value: edges.space_check(value, *metric))
        if pairs.count() > CROWD:
            return _not_exempt(design, rule, _open(design, rule, pairs))
    pairs = violating_edge_pairs(design, rule, lambda value: guides.space_check(value, *metric))
    if _not_exempt(design, rule, pairs).is_empty():
        return kdb.Region()
    return _not_exempt(design, rule, _open(design, rule, pairs))


def _not_exempt(design: Design, rule: GuideSpaceRule, pairs: kdb.EdgePairs) -> kdb.Region:
    gaps = pairs.polygons(0)
    for marker in rule.layers[1:]:
        gaps = _outside_marks(gaps, design.region(marker))
    if gaps.is_empty():
        return gaps
    return with_merged_crowd(gaps) - design.bodies(rule.layers[0], rule.body_um).sized(design.dbu(rule.exempt_um))


def _outside_marks(gaps: kdb.Region, marks: kdb.Region) -> kdb.Region:
    """Gaps without their parts under marks.

    Gaps inside one mark are left out before, because a device has thousands of pairs of chords that face each other,
    and the boolean operation takes a time quadratic in their number.
    """
    if marks.is_empty():
        return gaps
    polygons = list(gaps.each())
    boxes = box_array([gap.bbox() for gap in polygons])
    marked = box_array([mark.bbox() for mark in marks.each() if mark.is_box()])
    gap, mark = touching_pairs(boxes, marked).T
    inside = np.all(marked[mark, :2] <= boxes[gap, :2], axis=1) & np.all(boxes[gap, 2:] <= marked[mark, 2:], axis=1)
    settled = set(gap[inside].tolist())
    return kdb.Region([one for number, one in enumerate(polygons) if number not in settled]) - marks


def _open(design: Design, rule: GuideSpaceRule, pairs: kdb.EdgePairs) -> kdb.EdgePairs:
    """Pairs of edges with a path between them that crosses no guide.

    The two sides of a guide that bends left, then right, face each other through the guide's own silicon.
    """
    result = kdb.EdgePairs()
    for pair in pairs.each():
        gap = pair.polygon(0)
        free = kdb.Region(gap) - design.near(rule.layers[0], gap.bbox())
        ends = [kdb.Edges([edge]) for edge in (pair.first, pair.second)]
        if gap.area() == 0 or not free.interacting(ends[0]).interacting(ends[1]).is_empty():
            result.insert(pair)
    return result


def _uncoupled(design: Design, rule: GuideSpaceRule) -> kdb.Region:
    """Guides without their parts deep in the exempt region.

    Arms there face each other in thousands of pairs of chords. Cutting them off changes no gap outside the exempt
    region: an edge made by the cut faces only edges within the rule's value, which are inside it.
    """
    name = rule.layers[0]
    deep = design.dbu(rule.exempt_um) - design.dbu(rule.value_um)
    return design.region(name) - design.bodies(name, rule.body_um).sized(deep)
