"""Check of the space between guides, which are coupled near bodies and in devices that carry a mark.

A body is silicon that is wider than a guide: couplers, splitters, gratings.
"""

from __future__ import annotations

import klayout.db as kdb
import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards.rules import GuideSpaceRule
from optinc_pdk.extract.box_pairs import touching_pairs
from optinc_pdk.extract.contours import Ints, contours
from optinc_pdk.extract.spatial_index import region_polygons
from optinc_pdk.signoff.drc.design import Design
from optinc_pdk.signoff.drc.shape_checks import corners, facing_pairs, flat, merged, unmerged, violating_edge_pairs

MAX_CLOSE = 5_000
"""Gaps that are examined one by one for guides in between, or cut off where they are exempt."""
ROUNDING = 3
"""Distance in database units from an edge within which a line that ends there does not cross it."""


def guide_space(design: Design, rule: GuideSpaceRule) -> kdb.Region:
    """Find gaps between guides that are too narrow, except near bodies and under marks, all of which count as valid.

    If there are more than `shape_checks.MAX_PAIRS` violations, some may be missing.

    Returns:
        Gaps, not merged.
    """
    guides, metric = _uncoupled(design, rule), (False, kdb.Metrics.Euclidian, rule.ignore_angle_deg)
    check = facing_pairs(guides, "space", corners(design, rule.layers[0]))
    pairs = violating_edge_pairs(design, rule, lambda value: check(value, *metric))
    if pairs.is_empty():
        return kdb.Region()
    exempt = _exempt(design, rule)
    gaps = unmerged(pairs.polygons(0)).not_inside(exempt)
    if gaps.is_empty():
        return gaps
    if gaps.count() < pairs.count():
        kept = {str(gap) for gap in region_polygons(gaps)}
        pairs = kdb.EdgePairs([pair for pair in pairs.each() if str(pair.polygon(0)) in kept])
    return _not_exempt(unmerged(_open(design, rule, pairs).polygons(0)), exempt)


def _exempt(design: Design, rule: GuideSpaceRule) -> kdb.Region:
    """Where guides may be coupled: around bodies and under marks."""
    exempt = flat(design.bodies(rule.layers[0], rule.body_um).sized(design.dbu(rule.exempt_um)))
    for marker in rule.layers[1:]:
        exempt += flat(design.region(marker))
    return exempt.merged()


def _not_exempt(gaps: kdb.Region, exempt: kdb.Region) -> kdb.Region:
    """The parts of gaps that are not exempt; gaps that overlap each other stay separate."""
    partly = unmerged(gaps.interacting(exempt))
    if partly.is_empty() or partly.count() > MAX_CLOSE:
        return gaps
    result = unmerged(gaps.not_interacting(exempt))
    for gap in partly.each():
        result += kdb.Region(gap) - exempt
    return unmerged(result)


def _open(design: Design, rule: GuideSpaceRule, pairs: kdb.EdgePairs) -> kdb.EdgePairs:
    """Pairs of edges with a path between them that crosses no guide.

    The two sides of a guide that bends left, then right, face each other through the guide's own silicon.
    """
    if pairs.is_empty():
        return pairs
    found = list(pairs.each())
    across = np.array([[*_middle(pair.first), *_middle(pair.second)] for pair in found])
    clear = ~_crossed(across, design.derived(f"contours of {rule.layers[0]}", lambda: _edges(design, rule.layers[0])))
    result = kdb.EdgePairs([found[k] for k in np.flatnonzero(clear).tolist()])
    # of thousands of violations, those in doubt say nothing new
    for k in np.flatnonzero(~clear).tolist() if result.count() < MAX_CLOSE else ():
        gap = found[k].polygon(0)
        free = kdb.Region(gap) - design.near(rule.layers[0], gap.bbox())
        ends = [kdb.Edges([edge]) for edge in (found[k].first, found[k].second)]
        if gap.area() == 0 or not free.interacting(ends[0]).interacting(ends[1]).is_empty():
            result.insert(found[k])
    return result


def _middle(edge: kdb.Edge) -> tuple[int, int]:
    return (edge.x1 + edge.x2) // 2, (edge.y1 + edge.y2) // 2


def _edges(design: Design, layer: str) -> Ints:
    """(n, 4) the ends of all edges of a layer's merged shapes."""
    shapes = contours(region_polygons(merged(design, layer)))
    return np.concatenate([shapes.points, shapes.ends], axis=1)


def _extents(lines: Ints) -> Ints:
    """(n, 4) bounding boxes of lines."""
    return np.concatenate([np.minimum(lines[:, :2], lines[:, 2:]), np.maximum(lines[:, :2], lines[:, 2:])], axis=1)


def _crossed(lines: Ints, edges: Ints) -> NDArray[np.bool_]:
    """Whether lines (n, 4) cross any of some edges (m, 4), more than `ROUNDING` away from their ends."""
    line, edge = touching_pairs(_extents(lines), _extents(edges)).T
    start, end = lines[line, :2], lines[line, 2:]
    along, wall, between = end - start, edges[edge, 2:] - edges[edge, :2], edges[edge, :2] - start

    def cross(a: Ints, b: Ints) -> NDArray[np.float64]:
        return np.asarray(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0], dtype=np.float64)

    turn, length = cross(along, wall), np.hypot(*along.T)
    with np.errstate(divide="ignore", invalid="ignore"):
        at, beside = cross(between, wall) / turn * length, cross(between, along) / turn
    inner = (at > ROUNDING) & (at < length - ROUNDING) & (beside >= 0) & (beside <= 1)
    crossed = np.zeros(len(lines), dtype=np.bool_)
    crossed[line[inner]] = True
    return crossed


def _uncoupled(design: Design, rule: GuideSpaceRule) -> kdb.Region:
    """Guides without their parts deep in the exempt region.

    Arms there face each other in thousands of pairs of chords. Cutting them off changes no gap outside the exempt
    region: an edge made by the cut faces only edges within the rule's value, which are inside it.
    """
    name = rule.layers[0]
    deep = design.dbu(rule.exempt_um) - design.dbu(rule.value_um)
    return design.region(name) - design.bodies(name, rule.body_um).sized(deep)
