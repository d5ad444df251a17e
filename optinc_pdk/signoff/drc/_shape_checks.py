"""Checks of edges and shapes, one function per kind of rule; each returns its violations as a region."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, product
from typing import Any

import klayout.db as kdb

from optinc_pdk.cards.rules import (
    AngleRule,
    AreaRule,
    BooleanRule,
    DieSizeRule,
    EdgeRule,
    FileRule,
    GridRule,
    GuideSpaceRule,
    LineRule,
    OutlineRule,
    PairRule,
)
from optinc_pdk.signoff.drc.design import Design, simple

# A check of distances: the distance in database units and KLayout's arguments after it.
DistanceCheck = Callable[..., kdb.EdgePairs]
# Half the size of markers of points.
MARKER_UM = 0.1
# Pairs of edges that violate one rule; a check stops at a fraction of the distance that has more.
MAX_PAIRS = 10_000
# Shapes with more corners are checked at these fractions of a rule's value first. The number of close pairs grows at
# most with the square of the distance, so that a crowd of shapes is found before there are billions of pairs.
MAX_CORNERS = 2_000
FRACTIONS = 64, 16, 4
# Edges that are looked at before all of them. KLayout lists merged shapes from the bottom up, so they are neighbours.
MAX_FIRST = 20_000
# KLayout leaves out pairs with another edge in between in a time that grows with the square of an edge's pairs. Up to
# so many pairs, that takes at most seconds.
MAX_SHIELDED = 5_000


def violating_edge_pairs(
    design: Design, rule: LineRule | PairRule | GuideSpaceRule, check: Callable[[int], kdb.EdgePairs]
) -> kdb.EdgePairs:
    """Find the pairs of edges that violate a rule, with its tolerance for edges that are not parallel to an axis.

    Pairs with such an edge are measured again at the rule's value minus its tolerance. The distance of a pair is that
    of its parts that are too close, and the ends of these parts are rounded to the grid.

    Args:
        rule: Rule with a value and a tolerance.
        check: Function that returns the pairs of edges that are closer than a distance in database units.
    """
    pairs = check(design.dbu(rule.value_um))
    if rule.angled_tolerance_um == 0 or pairs.is_empty():
        return pairs
    violations = pairs.with_angle_both(kdb.Edges.OrthoEdges, False)
    if violations.count() == pairs.count():
        return violations
    closer = check(design.dbu(rule.value_um - rule.angled_tolerance_um))
    # both checks may have ended early, with pairs of other angles
    crowd = max(pairs.count(), closer.count()) > MAX_PAIRS
    return violations + (closer if crowd else closer.with_angle(kdb.Edges.OrthoEdges, True))


def line(design: Design, rule: LineRule) -> kdb.Region:
    """Find violations of a width, space or notch rule of one layer, see `facing_pairs`."""
    name = rule.layers[0]
    check = facing_pairs(design.region(name), rule.kind, [edges(design, name)])
    metric = (False, kdb.Metrics.Euclidian, rule.ignore_angle_deg)
    return _some(violating_edge_pairs(design, rule, lambda value: check(value, *metric))).polygons(1)


def facing_pairs(
    shapes: kdb.Region, kind: str, contours: Sequence[kdb.Edges], other: kdb.Region | None = None
) -> DistanceCheck:
    """Return KLayout's check of distances between edges of regions in a form that takes a bounded time, see `bounded`.

    Pairs of edges with a third edge between them are left out, unless there are so many pairs that this takes minutes.

    Args:
        shapes: Shapes to check.
        kind: Name of the check without ``_check``: ``width``, ``space``, ``notch``, ``separation``, ...
        contours: Flat edges of the shapes, and those of the second layer of a check that has one.
        other: Shapes of the second layer.
    """
    exact = partial(getattr(shapes, f"{kind}_check"), *(() if other is None else (other,)))
    if kind == "notch":
        return _bounded([lambda *metric: exact(*metric, None, None, False)], contours, exact)
    return bounded(kind, contours, exact)


def bounded(kind: str, contours: Sequence[kdb.Edges], exact: DistanceCheck | None = None) -> DistanceCheck:
    """Return a check of distances that stops at a fraction of its distance that has more than `MAX_PAIRS` pairs.

    Separate edges are compared several times as fast as those of polygons.

    Args:
        kind: Name of the check without ``_check``.
        contours: Flat edges of the shapes, and those of the second layer of a check that has one.
        exact: Check that leaves out the pairs with another edge in between; None if that of the edges is exact.

    Returns:
        Function of a distance in database units and of the arguments of the check after it. If it finds more than
        `MAX_PAIRS` pairs, some may be missing.
    """
    # worth a look where they are a small part of all
    many = contours[0].count() > 5 * MAX_FIRST
    first = [kdb.Edges(list(islice(contours[0].each(), MAX_FIRST)))] if many else []
    checks = [partial(getattr(edges, f"{kind}_check"), *contours[1:]) for edges in (*first, contours[0])]
    return _bounded(checks, contours, exact)


def _bounded(
    checks: Sequence[DistanceCheck], contours: Sequence[kdb.Edges], exact: DistanceCheck | None
) -> DistanceCheck:
    """See `bounded`; all checks but the last look at a part of the shapes, for a crowd that is soon found."""
    corners = sum(contour.count() for contour in contours)
    # the largest distance at whose fractions there was no crowd; a smaller one has none either
    uncrowded = 0

    def check(value: int, *metric: Any) -> kdb.EdgePairs:
        nonlocal uncrowded
        if corners > MAX_CORNERS and value > uncrowded:
            for look, fraction in product(checks, FRACTIONS):
                pairs = look(max(value // fraction, 1), *metric)
                if pairs.count() > MAX_PAIRS:
                    return _some(pairs)
        uncrowded = max(uncrowded, value)
        pairs = checks[-1](value, *metric)
        few = 0 < pairs.count() <= MAX_SHIELDED
        # all of them: those within the tolerance of slanted edges are no violations
        return exact(value, *metric) if exact is not None and few else pairs

    return check


def _some(pairs: kdb.EdgePairs) -> kdb.EdgePairs:
    """Pairs of edges, or one more than `MAX_PAIRS` of them; those of cells are kept, as they may be of any order."""
    if pairs.count() <= MAX_PAIRS or pairs.hier_count() < pairs.count():
        return pairs
    return kdb.EdgePairs(list(islice(pairs.each(), MAX_PAIRS + 1)))


def narrow_places(polygon: kdb.Polygon, value: int, ignore_angle_deg: float) -> kdb.EdgePairs:
    """Find opposite sides of a polygon that are closer than a value; with more than `MAX_PAIRS`, some may be missing.

    Args:
        polygon: A polygon of any number of corners.
        value: Width in database units.
        ignore_angle_deg: Two edges at this angle or a larger one do not count as opposite sides.
    """
    region = kdb.Region(polygon)
    check = facing_pairs(region, "width", [region.edges()])
    return check(value, False, kdb.Metrics.Euclidian, ignore_angle_deg)


def pair(design: Design, rule: PairRule) -> kdb.Region:
    """Find violations of an overlap, separation, enclosure or contact overlap rule between two layers."""
    first, second = (design.region(name) for name in rule.layers)
    if first.is_empty() or second.is_empty():
        return first.dup() if rule.kind == "overlap" else kdb.Region()
    metric = (False, kdb.Metrics.Euclidian, rule.ignore_angle_deg)
    contours = [edges(design, name) for name in rule.layers]
    violations = kdb.Region()
    if rule.kind in ("overlap", "separation"):
        violations += first.outside(second) if rule.kind == "overlap" else first & second
        checks = [facing_pairs(first, rule.kind, contours, second)]
    else:
        ends = contours[1].inside_part(first)
        target = contours[0] if rule.kind == "enclosure" else flat_edges(first & second)
        checks = [bounded("overlap", [ends, target])]
        if rule.kind == "enclosure":
            # it misses ends of the second shape that lie inside the first and parallel to its edge
            checks.append(facing_pairs(first, "enclosed", contours, second))

    def check(value: int) -> kdb.EdgePairs:
        pairs = kdb.EdgePairs()
        for one in checks:
            pairs += one(value, *metric)
        return pairs

    return violations + _some(violating_edge_pairs(design, rule, check)).polygons(1)


def flat(region: kdb.Region) -> kdb.Region:
    """Return a flat copy of a region's merged shapes; a hierarchical region may contain them cut into pieces."""
    return flattened(region).merged()


def flattened(region: kdb.Region) -> kdb.Region:
    """Return a flat copy of a region, not merged, which does not depend on the layout of a hierarchical region."""
    copy = region.dup()
    copy.flatten()
    return unmerged(kdb.Region(list(copy.each())) if region.is_deep() else copy)


def unmerged(region: kdb.Region) -> kdb.Region:
    """Let later operations take a region's shapes one by one, as merging many that overlap takes minutes; return it."""
    region.merged_semantics = False
    return region


def merged(design: Design, layer: str) -> kdb.Region:
    """Return the merged shapes of a layer as a flat region, which must not be modified."""
    return design.derived(f"merged {layer}", lambda: flat(design.region(layer)))


def edges(design: Design, layer: str) -> kdb.Edges:
    """Return the edges of a layer's merged shapes, flat; they must not be modified."""
    return design.derived(f"edges of {layer}", lambda: merged(design, layer).edges())


def flat_edges(region: kdb.Region) -> kdb.Edges:
    """Return the edges of a region's merged shapes, flat."""
    edges = region.merged().edges()
    edges.flatten()
    return edges


def boolean(design: Design, rule: BooleanRule) -> kdb.Region:
    """Find the overlap of two layers (exclusion rule), or the part of the first outside the second (inside rule)."""
    first, second = (design.region(name) for name in rule.layers)
    return first & second if rule.kind == "exclusion" else first - second


def area(design: Design, rule: AreaRule) -> kdb.Region:
    """Find shapes whose area is too small."""
    least = rule.value_um2 / design.layout.dbu**2
    return design.region(rule.layers[0]).with_area(0, round(least), False)


def angle(design: Design, rule: AngleRule) -> kdb.Region:
    """Find convex corners whose inner angle is too small.

    At a convex corner the contour turns right by 180° minus the inner angle.
    """
    violations = kdb.Region()
    for layer in rule.layers:
        violations += design.region(layer).corners(
            -180.0, rule.value_deg - 180.0, design.dbu(MARKER_UM), True, False, False, False
        )
    return violations


def outline(design: Design, rule: OutlineRule) -> kdb.Region:
    """Find outlines of dies that are not rectangles, overlap or touch; the whole layout if it has no outline."""
    drawn = kdb.Region(design.shapes(rule.layers[0]))
    if drawn.is_empty():
        return whole_layout(design)
    drawn.merged_semantics = False
    boxes = [shape.bbox() for shape in drawn.each()]

    def alone(die: kdb.Polygon) -> bool:
        return sum(box.inside(die.bbox()) for box in boxes) == 1

    # an outline that touches no other is one box before and after merging
    return kdb.Region([die for die in dies(design, rule.layers[0]) if not die.is_box() or not alone(die)])


def die_size(design: Design, rule: DieSizeRule) -> kdb.Region:
    """Find outlines of dies whose size the process does not offer.

    A die may be rotated by 90°. A die that is larger than all offered sizes in one dimension may have any size within
    the reticle, if the rule states one.
    """
    sizes = [sorted(map(design.dbu, die)) for die in rule.dies_um]
    reticle = None if rule.reticle_um is None else sorted(map(design.dbu, rule.reticle_um))
    violations = kdb.Region()
    for die in dies(design, rule.layers[0]):
        size = sorted((die.bbox().width(), die.bbox().height()))
        larger = any(size[i] > max(offered[i] for offered in sizes) for i in (0, 1))
        in_reticle = reticle is not None and all(size[i] <= reticle[i] for i in (0, 1))
        if size not in sizes and not (larger and in_reticle):
            violations.insert(die)
    return violations


def dies(design: Design, layer: str) -> list[kdb.Polygon]:
    """Return the merged outlines of the dies, drawn on a layer."""
    return list(kdb.Region(design.shapes(layer)).merged().each())


def edge(design: Design, rule: EdgeRule) -> kdb.Region:
    """Find shapes that are closer to the outline of a die than the keep-out distance, or outside all outlines.

    They are computed as a difference, because KLayout's `outside` misses shapes that cross the border.
    """
    name = rule.layers[0]
    inner = kdb.Region(dies(design, name)).sized(-design.dbu(rule.value_um)).merged()
    left_out = [design.layers[each] for each in rule.layers]
    violations = kdb.Region()
    for info in design.layout.layer_infos():
        if (info.layer, info.datatype) in left_out:
            continue
        index = design.layout.find_layer(info)
        outer = kdb.Region(design.top.bbox(index)) - inner
        # a layer whose bounding box is inside has no violation
        if not outer.is_empty():
            # look up only the shapes that reach out
            violations += kdb.Region(kdb.RecursiveShapeIterator(design.layout, design.top, index, outer, False)) - inner
    return violations


def grid(design: Design, rule: GridRule) -> kdb.Region:
    """Return a marker over the whole layout if its database unit is not the rule's grid; else an empty region."""
    return kdb.Region() if abs(design.layout.dbu / rule.value_um - 1) < 1e-9 else whole_layout(design)


def whole_layout(design: Design) -> kdb.Region:
    """Return a marker over the whole layout; a box of 1 database unit if the layout is empty."""
    box = design.top.bbox()
    return kdb.Region(kdb.Box(0, 0, 1, 1) if box.empty() or box.area() == 0 else box)


def file(design: Design, rule: FileRule) -> kdb.Region:
    """Check the file as a whole, by the kind of the rule.

    Args:
        rule: A rule that asks for simple polygons, or for known layers.

    Returns:
        Self-crossing polygons; or shapes on layers that the process does not have, and a small box at each shape
        without area there. Texts draw nothing on a mask and may lie on any layer.
    """
    violations = kdb.Region()
    if rule.kind == "known_layers":
        for _, shapes in stray_shapes(design):
            violations += shapes
        return violations
    for info in design.layout.layer_infos():
        index = design.layout.find_layer(info)
        if not all(simple(cell.shapes(index)) for cell in design.layout.each_cell()):
            shapes = kdb.Region(design.top.begin_shapes_rec(index))
            shapes.merged_semantics = False
            violations += shapes.strange_polygon_check()
    return violations


def stray_shapes(design: Design) -> Iterator[tuple[kdb.LayerInfo, kdb.Region]]:
    """Yield the layers that the process does not have, each with its shapes and a small box at those without area."""
    known = set(design.layers.values())
    for info in design.layout.layer_infos():
        if (info.layer, info.datatype) not in known:
            index = design.layout.find_layer(info)
            yield info, kdb.Region(design.top.begin_shapes_rec(index)) + _without_area(design, index)


def _without_area(design: Design, index: int) -> kdb.Region:
    """Markers around a layer's shapes that have no area, such as paths without width; texts are no shapes."""
    markers, reach = kdb.Region(), design.dbu(MARKER_UM)
    place = design.top.begin_shapes_rec(index)
    while not place.at_end():
        shape = place.shape()
        if not shape.is_text() and shape.area() == 0:
            markers.insert(shape.bbox().transformed(place.trans()).enlarged(reach))
        place.next()
    return markers
