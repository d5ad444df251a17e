"""Check of the space between guides, which are coupled near bodies and in devices that carry a mark.

A body is silicon that is wider than a guide: couplers, splitters, gratings.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Bools, Ints
from optinc_pdk.cards.rules import GuideSpaceRule
from optinc_pdk.extract.box_pairs import crossed_lines, line_boxes, touching_pairs
from optinc_pdk.extract.polygons import PolygonIndex, box_array, contours, region_polygons
from optinc_pdk.signoff.drc.coarse_spacing import uncoupled
from optinc_pdk.signoff.drc.design import Design
from optinc_pdk.signoff.drc.shape_checks import (
    MAX_CORNERS,
    MAX_PAIRS,
    DistanceCheck,
    facing_pairs,
    flat,
    flat_edges,
    merged,
    unmerged,
    violating_edge_pairs,
)

MAX_CLOSE = 5_000
"""Violations beyond which gaps are no longer examined one by one for guides in between and for exempt parts."""


def guide_space(design: Design, rule: GuideSpaceRule) -> kdb.Region:
    """Find gaps between guides that are too narrow, except near bodies and under marks, all of which count as valid.

    If there are more than `shape_checks.MAX_PAIRS` violations, some may be missing.

    Returns:
        Gaps, not merged.
    """
    guides = uncoupled(design, rule, design.region(rule.layers[0]), 0)
    gaps, found = _gaps(design, rule, facing_pairs(guides, "space", [flat_edges(guides)]))
    if found > MAX_PAIRS and gaps.is_empty():
        # the check has ended early, among pairs that are all exempt
        gaps, _ = _gaps(design, rule, guides.space_check)
    return gaps


def _gaps(design: Design, rule: GuideSpaceRule, check: DistanceCheck) -> tuple[kdb.Region, int]:
    """Gaps that are not exempt, and the number of pairs of edges that a check found, exempt ones included."""
    metric = (False, kdb.Metrics.Euclidian, rule.ignore_angle_deg)
    pairs = violating_edge_pairs(design, rule, lambda value: check(value, *metric))
    if pairs.is_empty():
        return kdb.Region(), 0
    exempt, each, gaps = region_polygons(_exempt(design, rule)), pairs.each(), kdb.Region()
    # in parts, because a crowd has hundreds of thousands of pairs
    while gaps.count() <= MAX_PAIRS and (some := list(islice(each, MAX_PAIRS))):
        gaps += _open_gaps(design, rule, some, exempt)
    return unmerged(gaps), pairs.count()


def _open_gaps(
    design: Design, rule: GuideSpaceRule, pairs: Sequence[kdb.EdgePair], exempt: Sequence[kdb.Polygon]
) -> kdb.Region:
    """Gaps of pairs of edges, without their parts in exempt polygons, and without those that cross a guide."""
    # edges that touch have no gap, and other edges of the same guides have one
    found = [pair for pair in pairs if pair.area()]
    gaps = [pair.polygon(0) for pair in found]
    covered, partly = _coverage(box_array([gap.bbox() for gap in gaps]), exempt)
    kept = np.flatnonzero(~covered)
    across = [[*_middle(found[k].first), *_middle(found[k].second)] for k in kept.tolist()]
    edges = design.derived(f"contours of {rule.layers[0]}", lambda: _edges(design, rule.layers[0]))
    crossed = crossed_lines(np.array(across, dtype=np.int64).reshape(-1, 4), edges)
    doubtful = crossed | partly[kept]
    result = kdb.Region([gaps[k] for k in kept[~doubtful].tolist()])
    examined = kept[doubtful].tolist()
    near = PolygonIndex(exempt).overlapping(box_array([gaps[k].bbox() for k in examined]))
    for k, doubt, around in zip(examined, crossed[doubtful].tolist(), near, strict=True):
        # of thousands of violations, more say nothing new
        if result.count() > MAX_CLOSE:
            break
        if not doubt or _is_open(design, rule, found[k]):
            result += kdb.Region(gaps[k]) - kdb.Region(around)
    return result


def _exempt(design: Design, rule: GuideSpaceRule) -> kdb.Region:
    """Where guides may be coupled: around bodies and under marks."""
    exempt = flat(design.bodies(rule.layers[0], rule.body_um).sized(design.dbu(rule.exempt_um)))
    for marker in rule.layers[1:]:
        exempt += flat(design.region(marker))
    return exempt.merged()


def _coverage(boxes: Ints, exempt: Sequence[kdb.Polygon]) -> tuple[Bools, Bools]:
    """Whether boxes (n, 4) lie inside one of some polygons that do not overlap; and whether they touch its contour."""
    partly, shapes = np.zeros(len(boxes), dtype=np.bool_), contours(exempt)
    border = line_boxes(np.concatenate([shapes.points, shapes.ends], axis=1))
    partly[touching_pairs(boxes, border)[:, 0]] = True
    return (PolygonIndex(exempt).at(boxes[:, :2]) >= 0) & ~partly, partly


def _is_open(design: Design, rule: GuideSpaceRule, pair: kdb.EdgePair) -> bool:
    """Whether there is a path between two edges that crosses no guide.

    The two sides of a guide that bends left, then right, face each other through the guide's own silicon.
    """
    gap, name = pair.polygon(0), rule.layers[0]
    silicon = design.derived(f"pieces of {name}", lambda: _pieces(design, name))
    free = kdb.Region(gap) - kdb.Region([shape.polygon for shape in silicon.each_touching(gap.bbox())])
    ends = [kdb.Edges([edge]) for edge in (pair.first, pair.second)]
    return not free.interacting(ends[0]).interacting(ends[1]).is_empty()


def _pieces(design: Design, layer: str) -> kdb.Shapes:
    """The polygons of a layer, of which those near a box are found at once; large ones are cut up.

    To subtract a polygon from thousands of gaps takes a time that grows with its corners. Cutting rounds the ends of
    slanted edges to the grid.
    """
    shapes = kdb.Shapes()
    for polygon in region_polygons(merged(design, layer)):
        if polygon.num_points() <= MAX_CORNERS:
            shapes.insert(polygon)
        else:
            shapes.insert(kdb.Region(polygon).decompose_trapezoids_to_region())
    return shapes


def _middle(edge: kdb.Edge) -> tuple[int, int]:
    return (edge.x1 + edge.x2) // 2, (edge.y1 + edge.y2) // 2


def _edges(design: Design, layer: str) -> Ints:
    """(n, 4) the ends of all edges of a layer's merged shapes."""
    shapes = contours(region_polygons(merged(design, layer)))
    return np.concatenate([shapes.points, shapes.ends], axis=1)
