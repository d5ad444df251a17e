"""Checks of guides, heaters, pads and gratings; each returns its violations as a region.

A body is silicon that is wider than a guide: couplers, splitters, gratings. Guides near a body are exempt from some
rules.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.cards.rules import (
    BendRadiusRule,
    ContactsRule,
    FacetRule,
    FibrePitchRule,
    ForeignGuideRule,
    PadPitchRule,
    PadSizeRule,
)
from optinc_pdk.extract.box_pairs import OUTWARDS, close_pairs
from optinc_pdk.extract.metal_nets import shrunk
from optinc_pdk.extract.polygons import box_array
from optinc_pdk.signoff.drc._placed_shapes import check_repeated, repeated_regions
from optinc_pdk.signoff.drc._shape_checks import MARKER_UM, MAX_PAIRS, dies, merged
from optinc_pdk.signoff.drc.design import Design

# Sides of a pad that form a larger angle are not opposite: sides of an octagon, or edges where rounding cuts a corner.
OPPOSITE_DEG = 40.0
# A square that is not parallel to the axes may be smaller by this many database units: rotated pads are rounded.
TURNED_SLACK = 4
# Factor by which pads are enlarged to find room for squares, so that less than a database unit counts.
ENLARGED = 4


def bend_radius(design: Design, rule: BendRadiusRule) -> kdb.Region:
    """Find bends whose radius at the concave edge of the guide is too small; returns one marker per bend."""
    core, second = rule.layers
    slab = design.region(second)
    if rule.inside_second and slab.is_empty():
        return kdb.Region()
    edge_um, dbu = rule.value_um - rule.guide_width_um / 2, design.layout.dbu
    violations = kdb.Region()
    for contour in contours(design.region(core).merged()):
        sharp = np.zeros(len(contour), dtype=bool)
        for arm, tolerance in rule.arms_um:
            sharp |= concave_radius(contour, arm / dbu) < (edge_um - tolerance) / dbu
        for x, y in contour[sharp].astype(np.int64).tolist():
            # as small as possible, because its extent decides whether it is near a body
            violations.insert(kdb.Box(x - 1, y - 1, x + 1, y + 1))
    if violations.is_empty():
        return violations
    violations = violations.inside(slab) if rule.inside_second else violations.not_inside(slab)
    violations = violations.outside(design.bodies(core, rule.body_um).sized(design.dbu(rule.exempt_um)))
    # one marker per bend, whose vertices are less than an arm apart; shrinking it again would split slanted markers
    reach = design.dbu(max(arm for arm, _ in rule.arms_um)) // 2
    return _thinned(violations, reach).sized(reach).merged()


def _thinned(markers: kdb.Region, pitch: int) -> kdb.Region:
    """Of more than `MAX_PAIRS` markers, keep one in each square of a grid: merging 400,000 that overlap takes a minute.

    Args:
        markers: Markers that are each grown by `pitch` afterwards, so that those left out still touch the one kept.
        pitch: Side of the squares in database units.
    """
    if markers.count() <= MAX_PAIRS:
        return markers
    boxes = box_array([marker.bbox() for marker in markers.each()])
    _, first = np.unique(boxes[:, :2] // pitch, axis=0, return_index=True)
    return kdb.Region([kdb.Polygon(kdb.Box(*box)) for box in boxes[np.sort(first)].tolist()])


def contours(region: kdb.Region) -> list[Floats]:
    """Return the closed contours of a region's polygons, holes included.

    Returns:
        (n, 2) vertices of each contour in database units; the material is to the right of its direction.
    """
    result = []
    for polygon in region.each():
        rings = [polygon.each_point_hull(), *(polygon.each_point_hole(i) for i in range(polygon.holes()))]
        result += [np.array([(p.x, p.y) for p in ring], dtype=float) for ring in rings]
    return result


def concave_radius(contour: Floats, arm: float) -> Floats:
    """Compute the radius of curvature at each vertex of a closed contour, where the contour is concave.

    It is the radius of the circle through the vertex and the points at the distance `arm` before and after it. Points
    far apart reduce the effect of rounded vertices: with an arm of 2.5 µm, 1 nm of rounding changes a radius of 10 µm
    by less than 0.05 µm. At a sharp corner the circle passes through the ends of the two arms.

    Args:
        contour: (n, 2) vertices, with the material to the right.
        arm: Distance along the contour, in the contour's unit.

    Returns:
        (n,) radii in the contour's unit; infinite where the contour is straight or convex.
    """
    closed = np.concatenate([contour, contour[:1]])
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(closed, axis=0).T))])
    length = along[-1]

    def at(place: Floats) -> Floats:
        place = np.mod(place, length)
        return np.stack([np.interp(place, along, closed[:, k]) for k in (0, 1)], axis=1)

    before, after = at(along[:-1] - arm) - contour, at(along[:-1] + arm) - contour
    turn = before[:, 1] * after[:, 0] - before[:, 0] * after[:, 1]
    sides = np.hypot(*before.T) * np.hypot(*after.T) * np.hypot(*(after - before).T)
    # twice the triangle's area, negative at a right turn, which is convex
    with np.errstate(divide="ignore", invalid="ignore"):
        radius = sides / (2 * turn)
    return np.where(turn > 0, radius, np.inf)


def contacts(design: Design, rule: ContactsRule) -> kdb.Region:
    """Find heaters that do not have exactly two contacts on two nets, or that metal crosses."""
    heater, metal = rule.layers
    regions = repeated_regions(design, heater, 1, (metal,))
    violations = check_repeated(regions, lambda box: _without_two_contacts(design, heater, metal, box))
    heaters, nets = merged(design, heater), merged(design, metal)
    return violations + (heaters - heaters.interacting(nets.overlapping(heaters), 2, 2))


def _without_two_contacts(design: Design, heater: str, metal: str, box: kdb.Box) -> kdb.Region:
    """Heaters in a box that do not have exactly two contacts, or that are in several pieces between them."""
    heaters, wires = design.touching(heater, box), design.touching(metal, box)
    contacted = heaters.interacting(heaters & wires, 2, 2)
    return heaters - contacted.interacting(heaters - wires, 1, 1)


def foreign_guide(design: Design, rule: ForeignGuideRule) -> kdb.Region:
    """Find guides that are too close to a heater that does not belong to them.

    A guide belongs to the heater above it. Heaters with equal surroundings are checked once.

    Returns:
        Polygons between heater and guide.
    """
    heater, metal, core = rule.layers
    # a body cut at the window's edge must still be recognised
    reach = design.dbu(rule.value_um + rule.exempt_um) + 2 * design.dbu(rule.body_um)

    def check(box: kdb.Box) -> kdb.Region:
        violations = kdb.Region()
        for hot in (design.touching(heater, box) - design.touching(metal, box)).merged().each():
            silicon = design.near(core, hot.bbox().enlarged(reach)).merged()
            violations += _foreign(design, rule, kdb.Region(hot), silicon)
            if violations.count() > MAX_PAIRS:
                break
        return violations

    return check_repeated(repeated_regions(design, heater, 1, (metal, core), reach), check)


def _foreign(design: Design, rule: ForeignGuideRule, hot: kdb.Region, silicon: kdb.Region) -> kdb.Region:
    """Violations of one heater and the silicon around it."""
    value, exempt, body = (design.dbu(um) for um in (rule.value_um, rule.exempt_um, rule.body_um))
    heated, foreign = (silicon & hot.sized(value + exempt)).split_overlapping(hot)
    entered = silicon.interacting(heated).sized(-body).sized(body).interacting(heated)
    if not entered.is_empty():
        # guides that the exempt region separates from the guide under the heater are other arms
        foreign += (heated - entered.sized(exempt)).not_overlapping(hot)
    return hot.separation_check(foreign, value).polygons(1)


def pads(design: Design, layer: str, recognize_um: float) -> tuple[kdb.Region, kdb.Region]:
    """Find the pads of a layer: metal that is wider than a limit in µm in both directions.

    Returns:
        The pads' cores, which are the metal shrunk on every side by half of the limit, and the cores grown again.
    """
    size = design.dbu(recognize_um) // 2

    def make() -> tuple[kdb.Region, kdb.Region]:
        cores = shrunk(merged(design, layer), size).merged()
        return cores, cores.sized(size).merged()

    return design.derived(f"{layer}, pads wider than {recognize_um} um", make)


def pad_size(design: Design, rule: PadSizeRule) -> kdb.Region:
    """Find pads that are too small, and labels that are on metal but not on a pad of full size.

    A pad is too small where opposite sides are closer than the rule's value, and if no square of this side lies in it.
    """
    metal, label = rule.layers
    value = design.dbu(rule.value_um)
    _, shapes = pads(design, metal, rule.recognize_um)
    narrow = shapes.width_check(value, False, kdb.Metrics.Euclidian, OPPOSITE_DEG).polygons(1)
    other, boxes = shapes.rectangles().split_interacting(shapes - merged(design, metal))
    narrow += kdb.Region([box for box in boxes.each() if min(box.bbox().width(), box.bbox().height()) < value])
    other += shapes.non_rectangles()
    narrow += kdb.Region([pad for pad in other.each() if not _contains_square(design, metal, pad, value)])
    # shrink by half a database unit less on each side, so that metal exactly as wide as a pad remains
    whole = shapes.sized(1 - value // 2).sized(value // 2 - 1)
    # as boxes, because KLayout reports no text as outside an empty region
    texts = kdb.Texts(design.shapes(label)).polygons(design.dbu(MARKER_UM)).merged().not_interacting(whole)
    return narrow if texts.is_empty() else narrow + texts.interacting(design.region(metal))


def _contains_square(design: Design, metal: str, pad: kdb.Polygon, side: int) -> bool:
    """Whether a square lies within a pad, parallel to the axes or to a side of the pad of at least half its length.

    Args:
        metal: Layer of the pad.
        pad: The pad. Shrinking and growing metal fills cut corners, so that the metal as drawn is measured.
        side: Side of the square in database units.
    """
    drawn = design.near(metal, pad.bbox()).merged().interacting(kdb.Region(pad))
    to_origin = kdb.ICplxTrans(kdb.Trans(-pad.bbox().left, -pad.bbox().bottom))
    if pad.is_rectilinear() and (kdb.Region(pad) - drawn).is_empty():
        # shrinking keeps right angles; where the square fits exactly, half a database unit less leaves an area
        enlarged = kdb.Region(pad).transformed(kdb.ICplxTrans(ENLARGED) * to_origin)
        return not enlarged.sized(1 - ENLARGED * side // 2).is_empty()
    sides = kdb.Region(pad).edges().with_length(side // 2, None, False)
    turns = {round(math.degrees(math.atan2(edge.dy(), edge.dx())) % 90.0, 3) for edge in sides.each()}
    return any(
        _leaves_room(
            drawn.transformed(kdb.ICplxTrans(ENLARGED, -turn, False, 0, 0) * to_origin),
            ENLARGED * (side - (TURNED_SLACK if turn else 0)),
        )
        for turn in sorted({0.0} | turns)
    )


def _leaves_room(shapes: kdb.Region, side: int) -> bool:
    """Whether a square parallel to the axes lies within shapes, its side in database units."""
    extent = shapes.bbox()
    # where the square fits exactly, one with a database unit less leaves an area to its corner
    outside, room = kdb.Region(extent.enlarged(side)) - shapes, kdb.Box(1 - side, 1 - side, 0, 0)
    return not (kdb.Region(extent) - outside.minkowski_sum(room)).is_empty()


def pad_pitch(design: Design, rule: PadPitchRule) -> kdb.Region:
    """Find pairs of pads whose centres are too close.

    The centres are those of the pads' cores, because rounding moves them less than the centres of the pads.
    """
    size = design.dbu(rule.recognize_um) // 2
    cores, _ = pads(design, rule.layers[0], rule.recognize_um)
    return too_close([box_array([core.bbox() for core in cores.each()])], size, design.dbu(rule.value_um))


def fibre_pitch(design: Design, rule: FibrePitchRule) -> kdb.Region:
    """Find pairs of gratings whose centres are too close; a grating is a cluster of etched lines."""
    layer, grown = rule.layers[0], design.dbu(rule.merge_um) // 2
    # growing moves corners by up to √2 times as much as edges
    parts = repeated_regions(design, layer, 3 * grown + 2)
    # merged, so that a grating drawn twice counts once
    boxes = [one.boxes(design.touching(layer, one.box).sized(grown).merged()) for one in parts]
    return too_close(boxes, 0, design.dbu(rule.value_um))


def too_close(groups: Sequence[Ints], margin: int, least: int) -> kdb.Region:
    """Find pairs of boxes whose centres are less than a distance apart.

    Args:
        groups: Arrays (n, 4) of boxes in database units; all of them are compared with each other.
        margin: Distance by which a marker extends beyond the two boxes, in database units.
        least: Least allowed distance in database units.

    Returns:
        One marker around both boxes of each pair.
    """
    boxes = np.concatenate([np.zeros((0, 4), dtype=np.int64), *groups])
    if len(boxes) < 2:
        return kdb.Region()
    # centres lie on half units
    centers = boxes[:, :2] + boxes[:, 2:]
    near = close_pairs(np.tile(centers, 2), 2 * least, 2 * least)
    near = near[np.sum((centers[near[:, 0]] - centers[near[:, 1]]) ** 2, axis=1) < (2 * least) ** 2]
    one, two = boxes[near[:, 0]], boxes[near[:, 1]]
    both = np.concatenate([np.minimum(one, two)[:, :2], np.maximum(one, two)[:, 2:]], axis=1) + margin * OUTWARDS
    return kdb.Region([kdb.Polygon(kdb.Box(*box)) for box in both.tolist()])


def facet(design: Design, rule: FacetRule) -> kdb.Region:
    """Find silicon in the keep-out of the dies' edges that is no tip at a facet, and tips too close to each other.

    A piece of silicon in the keep-out is a tip if it comes from the inside, is straight, and ends within the rule's
    range from the edge. Silicon nearer to the edge or outside all outlines is a violation itself.
    """
    core, outline = rule.layers
    whole = kdb.Region(dies(design, outline)).merged()
    inner = whole.sized(-design.dbu(rule.keepout_um)).merged()
    facing = whole - whole.sized(-design.dbu(rule.most_um))
    outside = kdb.Region(design.top.bbox(design.index(core))) - inner
    if outside.is_empty():
        return kdb.Region()
    # look up only the shapes that reach out
    found = kdb.RecursiveShapeIterator(design.layout, design.top, design.index(core), outside, False)
    silicon = kdb.Region(found).merged()
    pieces = (silicon - inner).merged()
    violations = pieces - whole.sized(-design.dbu(rule.value_um))
    # pieces that end exactly at the largest distance touch the area that they have to reach
    violations += pieces.not_interacting(facing) + pieces.not_interacting(inner)
    widest = design.dbu(rule.guide_width_um)
    boxes = [(each, each.bbox()) for each in pieces.each()]
    violations += kdb.Region([each for each, box in boxes if min(box.width(), box.height()) > widest])
    # where pieces enter the keep-out, so that the distance of their ends from the edge has no effect
    entries = (silicon & (inner - inner.sized(-1))).merged()
    return violations + too_close([box_array([each.bbox() for each in entries.each()])], 0, design.dbu(rule.pitch_um))
