"""Check of the space between guides, which are coupled near bodies and in devices that carry a mark.

A body is silicon that is wider than a guide: couplers, splitters, gratings. A mark exempts a device only if it lies
exactly over it, or over two guides. Devices of a rule without a layer of marks are marked where their silicon is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Bools, Ints
from optinc_pdk.cards.rules import GuideSpaceRule, Polygons, Rule
from optinc_pdk.extract.box_pairs import crossed_lines, line_boxes, touching_pairs
from optinc_pdk.extract.polygons import PolygonIndex, box_array, contours, region_polygons
from optinc_pdk.signoff.drc._placed_shapes import check_repeated, repeated_regions
from optinc_pdk.signoff.drc._shape_checks import (
    MAX_CORNERS,
    MAX_PAIRS,
    DistanceCheck,
    bounded,
    facing_pairs,
    flat,
    flat_edges,
    merged,
    unmerged,
    violating_edge_pairs,
)
from optinc_pdk.signoff.drc.design import Design

MAX_CLOSE = 5_000
"""Violations beyond which gaps are no longer examined one by one for guides in between and for exempt parts."""
# How far smoothing may move an edge, and by what angle it may turn one: 20 nm is 3.6° at a radius of 10 µm.
COARSE_UM = 0.02
COARSE_DEG = 10.0
# Concave corners from this angle on are checked exactly: smoothing removes notches of up to 20 nm, and their walls. A
# notch of this depth, on the grid of 1 nm, has no wall of 50° without such a corner.
CORNER_DEG = 5.0
GROWTH = (0.1, 0.3, 0.6)
"""Shares of a distance by which bodies grow one after another."""
# Number of the GDS layer for the valid marks, the first that the layout does not use.
FIRST_LAYER = 10_000
NM_UM = 0.001


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


def guide_space_coarse(design: Design, rule: GuideSpaceRule) -> kdb.Region:
    """Find gaps that may be too narrow, away from bodies, on smoothed contours with an eighth of the chords.

    Smoothing moves no edge by more than `COARSE_UM` and joins no guides that are twice as far apart. Edges parallel to
    the axes do not move, so they are checked at the rule's value, and all others at twice `COARSE_UM` more.

    Returns:
        Polygons that cover everything that `guide_space` reports, and possibly gaps that are slightly wider, and sharp
        corners; some may be missing of more than `shape_checks.MAX_PAIRS`.
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
        guides: The guides.
        margin: Distance that is kept to the border of the exempt region besides the rule's value, in database units.
    """
    deep = design.dbu(rule.exempt_um) - design.dbu(rule.value_um) - margin
    bodies = design.bodies(rule.layers[0], rule.body_um)
    # in steps, because many bodies that are close together are soon one
    for share in GROWTH:
        bodies = bodies.sized(round(deep * share))
    return guides - bodies


def with_valid_marks(design: Design, rules: Sequence[Rule]) -> tuple[Design, list[Rule]]:
    """Leave out the marks that lie neither exactly over one of the devices that carry them nor over two guides.

    A mark is valid if it is the bounding box of a device and covers exactly the silicon of this device, in any of the
    eight orientations. It is also valid over two guides if the rule states their width, and nothing else touches it.

    Returns:
        The layout and the rules. If some marks are not valid, the layout has one more layer with the valid ones, and
        the rules refer to this layer instead.
    """
    checked = list(rules)
    for number, rule in enumerate(rules):
        if not isinstance(rule, GuideSpaceRule):
            continue
        if rule.devices and len(rule.layers) == 1:
            found = device_boxes(design, rule)
            if not found.is_empty():
                design, checked[number] = _with_layer(design, rule, f"devices of {rule.id}", found)
            continue
        for marker in rule.layers[1:]:
            valid = valid_marks(design, rule, marker)
            if (kdb.Region(design.shapes(marker)) ^ valid).is_empty():
                continue
            design, checked[number] = _with_layer(design, rule, f"{marker}, valid for {rule.id}", valid)
    return design, checked


def _with_layer(design: Design, rule: GuideSpaceRule, name: str, marks: kdb.Region) -> tuple[Design, GuideSpaceRule]:
    """Return the layout with one more layer of marks, and the rule that refers to it."""
    design = replace(design, layers={**design.layers, name: _free_layer(design.layout)})
    design.top.shapes(design.index(name)).insert(marks)
    return design, rule.model_copy(update={"layers": (rule.layers[0], name)})


def device_boxes(design: Design, rule: GuideSpaceRule) -> kdb.Region:
    """Return the bounding boxes of a rule's devices, in any orientation, where a box contains exactly their silicon.

    Args:
        rule: Rule of guide space, with the silicon of the devices.
    """
    core, boxes = rule.layers[0], kdb.Region()
    edges = kdb.Region(design.shapes(core)).merged().edges()
    for device in (region for polygons in rule.silicon_nm for region in _orientations(polygons, design.layout.dbu)):
        extent = device.bbox()
        # a guide that adjoins at the border may continue an edge there, but none inside
        inside = [edge for edge in device.edges().each() if not _on_border(edge, extent)]
        if not inside:
            continue
        anchor = max(inside, key=lambda edge: (edge.length(), str(edge)))
        for edge in edges.with_length(anchor.length(), False).each():
            shift = edge.p1 - anchor.p1
            if edge.p2 - anchor.p2 == shift:
                box = extent.moved(shift)
                if _covers_device(design.near(core, box), box, [device]):
                    boxes.insert(box)
    return boxes.merged()


def _on_border(edge: kdb.Edge, box: kdb.Box) -> bool:
    """Return whether an edge has a point on the border of a box that it lies in."""
    return any(p.x in (box.left, box.right) or p.y in (box.bottom, box.top) for p in (edge.p1, edge.p2))


def valid_marks(design: Design, rule: GuideSpaceRule, marker: str) -> kdb.Region:
    """Return the marks of a layer that lie exactly over one of the rule's devices, or over two guides.

    Args:
        rule: Rule of guide space, with the silicon of the devices.
        marker: Name of the layer.
    """
    core = rule.layers[0]
    if design.shapes(marker).at_end():
        return kdb.Region()
    width = None if rule.coupled_width_um is None else design.dbu(rule.coupled_width_um)
    devices = [region for polygons in rule.silicon_nm for region in _orientations(polygons, design.layout.dbu)]

    def check(box: kdb.Box) -> kdb.Region:
        marks = kdb.Region()
        for mark in design.touching(marker, box).each():
            silicon = design.near(core, mark.bbox()) if mark.is_box() else kdb.Region()
            if _covers_device(silicon, mark.bbox(), devices):
                marks.insert(mark)
            elif _covers_two_guides(silicon, mark.bbox(), width):
                # a third guide that touches the mark from outside would face one of the two under the mark only
                around = design.near(core, mark.bbox().enlarged(1)).merged(True, 0)
                if around.count() == 2:
                    marks.insert(mark)
        return marks

    return check_repeated(repeated_regions(design, marker, 1, (core,)), check).merged()


def _orientations(polygons: Polygons, dbu: float) -> Iterator[kdb.Region]:
    """Yield the silicon of a device in all orientations, with its lower left corner at the origin."""
    shapes = kdb.Region([kdb.Polygon([kdb.Point(*point) for point in polygon]) for polygon in polygons])
    for mirrored in (False, True):
        for turns in range(4):
            turned = shapes.transformed(kdb.ICplxTrans(NM_UM / dbu, 90.0 * turns, mirrored, 0, 0))
            yield turned.moved(-turned.bbox().left, -turned.bbox().bottom)


def _covers_device(silicon: kdb.Region, box: kdb.Box, devices: Sequence[kdb.Region]) -> bool:
    """Whether the silicon in a box is that of a device whose bounding box it is."""
    drawn = silicon.moved(-box.left, -box.bottom)
    extent = kdb.Box(0, 0, box.width(), box.height())
    return any(device.bbox() == extent and (drawn ^ device).is_empty() for device in devices)


def _covers_two_guides(silicon: kdb.Region, box: kdb.Box, width: int | None) -> bool:
    """Whether the silicon in a box consists of two guides that cross its border at right angles, each twice.

    Guides along the border are not allowed: the silicon touches the border at the four ends of the guides only.

    Args:
        silicon: Silicon in the box, cut off at the box.
        box: Mark.
        width: Width of the guides in database units; None if no guides may be coupled.
    """
    if width is None:
        return False
    guides = silicon.merged(True, 0)
    border = kdb.Region(box).edges()
    ends = [[edge.length() for edge in (kdb.Region(guide).edges() & border).each()] for guide in guides.each()]
    return guides.holes().is_empty() and ends == [[width, width], [width, width]]


def _free_layer(layout: kdb.Layout) -> tuple[int, int]:
    """Return the GDS layer and datatype of a layer that the layout does not have."""
    used = {(info.layer, info.datatype) for info in layout.layer_infos()}
    number = FIRST_LAYER
    while (number, 0) in used:
        number += 1
    return number, 0
