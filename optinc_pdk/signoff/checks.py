"""Checks between edges and shapes, one function per kind of rule; each returns its faults as a region."""

from __future__ import annotations

from collections.abc import Callable

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
from optinc_pdk.signoff.gds import Design, simple

MARKER_UM = 0.1


def measured(
    design: Design, rule: LineRule | PairRule | GuideSpaceRule, check: Callable[[int], kdb.EdgePairs]
) -> kdb.EdgePairs:
    """The edge pairs that are faults: rounding is forgiven where an edge is not parallel to an axis.

    These are measured again, at the rule's value less its tolerance, because the distance of a pair is that of its
    parts that are too close, whose ends are rounded.

    Args:
        design: Layout.
        rule: Rule with a value and a tolerance.
        check: From a distance in database units to what is closer.
    """
    pairs = check(design.dbu(rule.value_um))
    if rule.angled_tolerance_um == 0 or pairs.is_empty():
        return pairs
    faults = pairs.with_angle_both(kdb.Edges.OrthoEdges, False)
    if faults.count() == pairs.count():
        return faults
    closer = check(design.dbu(rule.value_um - rule.angled_tolerance_um))
    return faults + closer.with_angle(kdb.Edges.OrthoEdges, True)


def line(design: Design, rule: LineRule) -> kdb.Region:
    """Width, space or notch of one layer."""
    shapes = design.region(rule.layers[0])
    if rule.kind == "notch":
        return _line(design, rule, shapes.notch_check)
    return _line(design, rule, shapes.width_check if rule.kind == "width" else shapes.space_check)


def line_edges(design: Design, rule: LineRule) -> kdb.Region:
    """As `line`, edge by edge: fast where shapes are long, but it also finds what third shapes lie between."""
    found = edges(design, rule.layers[0])
    return _line(design, rule, found.width_check if rule.kind == "width" else found.space_check)


def _line(design: Design, rule: LineRule, check: Callable[..., kdb.EdgePairs]) -> kdb.Region:
    metric = (False, kdb.Metrics.Euclidian, rule.ignore_angle_deg)
    return measured(design, rule, lambda value: check(value, *metric)).polygons(1)


def pair(design: Design, rule: PairRule) -> kdb.Region:
    """Distance between the edges of two layers."""
    first, second = (design.region(name) for name in rule.layers)
    if first.is_empty() or second.is_empty():
        return first.dup() if rule.kind == "overlap" else kdb.Region()
    metric = (False, kdb.Metrics.Euclidian, rule.ignore_angle_deg)
    faults = kdb.Region()
    if rule.kind == "overlap":
        faults += first.outside(second)
    elif rule.kind == "separation":
        faults += first & second

    def check(value: int) -> kdb.EdgePairs:
        if rule.kind == "overlap":
            return first.overlap_check(second, value, *metric)
        if rule.kind == "separation":
            return first.separation_check(second, value, *metric)
        ends = flat_edges(second).inside_part(first)
        if rule.kind == "enclosure":
            # no enclosure check sees where the second ends inside the first, along it
            along = ends.overlap_check(flat_edges(first), value, *metric)
            return first.enclosed_check(second, value, *metric) + along
        return ends.overlap_check(flat_edges(first & second), value, *metric)

    return faults + measured(design, rule, check).polygons(1)


def flat(region: kdb.Region) -> kdb.Region:
    """A copy of a region's merged shapes, flat: hierarchical ones may be cut into pieces."""
    copy = region.dup()
    copy.flatten()
    return kdb.Region(list(copy.each())).merged()


def merged(design: Design, layer: str) -> kdb.Region:
    """A layer's merged shapes, flat."""
    return design.derived(f"merged {layer}", lambda: flat(design.region(layer)))


def edges(design: Design, layer: str) -> kdb.Edges:
    """The edges of a layer's merged shapes, flat."""
    return design.derived(f"edges of {layer}", lambda: merged(design, layer).edges())


def flat_edges(region: kdb.Region) -> kdb.Edges:
    """The edges of a region's merged shapes, flat."""
    edges = region.merged().edges()
    edges.flatten()
    return edges


def boolean(design: Design, rule: BooleanRule) -> kdb.Region:
    """What two layers may not share, or what one has outside the other."""
    first, second = (design.region(name) for name in rule.layers)
    return first & second if rule.kind == "exclusion" else first - second


def area(design: Design, rule: AreaRule) -> kdb.Region:
    """Shapes that are too small."""
    least = rule.value_um2 / design.layout.dbu**2
    return design.region(rule.layers[0]).with_area(0, round(least), False)


def angle(design: Design, rule: AngleRule) -> kdb.Region:
    """Corners that are too sharp; a convex corner turns right, by 180 degrees less its inner angle."""
    faults = kdb.Region()
    for layer in rule.layers:
        faults += design.region(layer).corners(
            -180.0, rule.value_deg - 180.0, design.dbu(MARKER_UM), True, False, False, False
        )
    return faults


def outline(design: Design, rule: OutlineRule) -> kdb.Region:
    """No outline, or outlines that are no rectangles, overlap or touch."""
    drawn = kdb.Region(design.shapes(rule.layers[0]))
    if drawn.is_empty():
        return everywhere(design)
    drawn.merged_semantics = False
    boxes = [shape.bbox() for shape in drawn.each()]

    def alone(die: kdb.Polygon) -> bool:
        return sum(box.inside(die.bbox()) for box in boxes) == 1

    # what touches nothing is not merged with anything
    return kdb.Region([die for die in dies(design, rule.layers[0]) if not die.is_box() or not alone(die)])


def die_size(design: Design, rule: DieSizeRule) -> kdb.Region:
    """Outlines of a size that is not offered; a die turned by 90° is the same die."""
    sizes = [sorted(map(design.dbu, die)) for die in rule.dies_um]
    reticle = sorted(map(design.dbu, rule.reticle_um))
    faults = kdb.Region()
    for die in dies(design, rule.layers[0]):
        size = sorted((die.bbox().width(), die.bbox().height()))
        larger = any(size[i] > max(offered[i] for offered in sizes) for i in (0, 1))
        in_reticle = all(size[i] <= reticle[i] for i in (0, 1))
        if size not in sizes and not (larger and in_reticle):
            faults.insert(die)
    return faults


def dies(design: Design, layer: str) -> list[kdb.Polygon]:
    """The merged outlines."""
    return list(kdb.Region(design.shapes(layer)).merged().each())


def edge(design: Design, rule: EdgeRule) -> kdb.Region:
    """What is beyond the outlines' keep-out: a difference, because `outside` misses what straddles it."""
    name = rule.layers[0]
    inner = kdb.Region(dies(design, name)).sized(-design.dbu(rule.value_um)).merged()
    faults = kdb.Region()
    for info in design.layout.layer_infos():
        if (info.layer, info.datatype) == design.layers[name]:
            continue
        index = design.layout.find_layer(info)
        outer = kdb.Region(design.top.bbox(index)) - inner
        # one rectangle inside another proves all of a layer at once
        if not outer.is_empty():
            # only what reaches out, found through the hierarchy
            faults += kdb.Region(kdb.RecursiveShapeIterator(design.layout, design.top, index, outer, False)) - inner
    return faults


def grid(design: Design, rule: GridRule) -> kdb.Region:
    """A database unit other than the grid."""
    return kdb.Region() if abs(design.layout.dbu / rule.value_um - 1) < 1e-9 else everywhere(design)


def everywhere(design: Design) -> kdb.Region:
    """A marker over the whole layout, never empty."""
    box = design.top.bbox()
    return kdb.Region(kdb.Box(0, 0, 1, 1) if box.empty() or box.area() == 0 else box)


def file(design: Design, rule: FileRule) -> kdb.Region:
    """Shapes and texts on unknown layers, or polygons that cross themselves as they were written."""
    known = set(design.layers.values())
    faults = kdb.Region()
    for info in design.layout.layer_infos():
        index = design.layout.find_layer(info)
        if rule.kind == "simple" and all(simple(cell.shapes(index)) for cell in design.layout.each_cell()):
            continue
        if rule.kind == "simple":
            shapes = kdb.Region(design.top.begin_shapes_rec(index))
            shapes.merged_semantics = False
            faults += shapes.strange_polygon_check()
        elif (info.layer, info.datatype) not in known:
            faults += kdb.Region(design.top.begin_shapes_rec(index)) + _without_area(design, index)
    return faults


def _without_area(design: Design, index: int) -> kdb.Region:
    """Markers of a layer's texts and of shapes that have no area, such as paths without width."""
    found, reach = kdb.Region(), design.dbu(MARKER_UM)
    place = design.top.begin_shapes_rec(index)
    while not place.at_end():
        shape = place.shape()
        if shape.is_text() or shape.area() == 0:
            found.insert(shape.bbox().transformed(place.trans()).enlarged(reach))
        place.next()
    return found
