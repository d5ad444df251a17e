"""Checks that know what a guide, a heater, a pad and a grating are; each returns its faults as a region."""

from __future__ import annotations

import klayout.db as kdb
import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from optinc_pdk.cards.rules import (
    BendRadiusRule,
    ContactsRule,
    FibrePitchRule,
    ForeignGuideRule,
    GuideSpaceRule,
    PadPitchRule,
    PadSizeRule,
)
from optinc_pdk.extract.contours import Ints
from optinc_pdk.extract.nearby import touching
from optinc_pdk.signoff.checks import MARKER_UM, flat, measured
from optinc_pdk.signoff.gds import Design
from optinc_pdk.signoff.items import OUTWARDS, edges_of, items
from optinc_pdk.signoff.nets import holding_squares, pieces

# How much smoothing may move an edge, and turn it: 20 nm is 3.6° at a radius of 10 µm.
COARSE_UM = 0.02
COARSE_DEG = 10.0
# Sides of a pad that form a greater angle are no opposite ones: an octagon's, or what rounding cuts off a corner.
OPPOSITE_DEG = 40.0


def guide_space(design: Design, rule: GuideSpaceRule) -> kdb.Region:
    """Guides that come too close where no body couples them."""
    guides, metric = _uncoupled(design, rule), (False, kdb.Metrics.Euclidian, rule.ignore_angle_deg)
    gaps = measured(design, rule, lambda value: guides.space_check(value, *metric)).polygons(0)
    for marker in rule.layers[1:]:
        gaps -= design.region(marker)
    if gaps.is_empty():
        return gaps
    return gaps - design.bodies(rule.layers[0], rule.body_um).sized(design.dbu(rule.exempt_um))


def guide_space_coarse(design: Design, rule: GuideSpaceRule) -> kdb.Region:
    """As `guide_space`, with an eighth of the chords; finds all that it finds, and gaps a little wider.

    Smoothing moves no edge by more than `COARSE_UM`, and joins no guides that are twice that apart. Edges along the
    axes stay, so these are held to the rule's value and all others to that much more.
    """
    guides = flat(_uncoupled(design, rule))
    fine, move = guides.edges(), design.dbu(COARSE_UM)
    straight = fine.with_angle(kdb.Edges.OrthoEdges, False)
    bent = guides.smoothed(move, True).edges() - straight
    value, metric = design.dbu(rule.value_um), (False, kdb.Metrics.Euclidian, rule.ignore_angle_deg + COARSE_DEG)
    gaps = fine.space_check(2 * move, *metric).polygons(1)
    gaps += straight.space_check(value, *metric).polygons(1)
    gaps += bent.space_check(value + 2 * move, *metric).polygons(1)
    gaps += bent.separation_check(straight, value + 2 * move, *metric).polygons(1)
    for marker in rule.layers[1:]:
        gaps -= design.region(marker).sized(-2 * move)
    return gaps - design.bodies(rule.layers[0], rule.body_um).sized(design.dbu(rule.exempt_um) - 2 * move)


def _uncoupled(design: Design, rule: GuideSpaceRule) -> kdb.Region:
    """Guides less what is deep in the exempt region.

    Arms there face each other in thousands of pairs of chords. Cutting them off changes no gap outside that
    region: what a cut can face is at most the value away, so inside it.
    """
    name = rule.layers[0]
    deep = design.dbu(rule.exempt_um) - design.dbu(rule.value_um)
    return design.region(name) - design.bodies(name, rule.body_um).sized(deep)


def bend_radius(design: Design, rule: BendRadiusRule) -> kdb.Region:
    """Places where a guide's concave edge turns too sharply."""
    core, second = rule.layers
    slab = design.region(second)
    if rule.inside_second and slab.is_empty():
        return kdb.Region()
    edge_um, dbu = rule.value_um - rule.guide_width_um / 2, design.layout.dbu
    faults = kdb.Region()
    for contour in contours(design.region(core).merged()):
        sharp = np.zeros(len(contour), dtype=bool)
        for arm, tolerance in rule.arms_um:
            sharp |= concave_radius(contour, arm / dbu) < (edge_um - tolerance) / dbu
        for x, y in contour[sharp].astype(np.int64).tolist():
            # as small as can be, because it decides what is near a body
            faults.insert(kdb.Box(x - 1, y - 1, x + 1, y + 1))
    if faults.is_empty():
        return faults
    faults = faults.inside(slab) if rule.inside_second else faults.not_inside(slab)
    faults = faults.outside(design.bodies(core, rule.body_um).sized(design.dbu(rule.exempt_um)))
    # one marker per bend, whose vertices are less than an arm apart; shrunk again, it falls apart where it is aslant
    return faults.sized(design.dbu(max(arm for arm, _ in rule.arms_um)) // 2).merged()


def contours(region: kdb.Region) -> list[NDArray[np.float64]]:
    """The closed contours of a region's polygons, silicon to the right, as (n, 2) arrays in its units."""
    found = []
    for polygon in region.each():
        rings = [polygon.each_point_hull(), *(polygon.each_point_hole(i) for i in range(polygon.holes()))]
        found += [np.array([(p.x, p.y) for p in ring], dtype=float) for ring in rings]
    return found


def concave_radius(contour: NDArray[np.float64], arm: float) -> NDArray[np.float64]:
    """Radius at each vertex of a closed contour, from the vertex and the points `arm` before and after it.

    Three points far apart average out the rounding of vertices: with an arm of 2.5 µm, 1 nm of rounding moves
    a radius of 10 µm by less than 0.05 µm. A sharp corner has the radius of the circle through its arms.

    Args:
        contour: (n, 2) vertices with the material to the right.
        arm: Distance along the contour, in the contour's unit.

    Returns:
        (n,) radii in the contour's unit, infinite where the contour is straight or convex.
    """
    closed = np.concatenate([contour, contour[:1]])
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(closed, axis=0).T))])
    length = along[-1]

    def at(place: NDArray[np.float64]) -> NDArray[np.float64]:
        place = np.mod(place, length)
        return np.stack([np.interp(place, along, closed[:, k]) for k in (0, 1)], axis=1)

    before, after = at(along[:-1] - arm) - contour, at(along[:-1] + arm) - contour
    turn = before[:, 1] * after[:, 0] - before[:, 0] * after[:, 1]
    sides = np.hypot(*before.T) * np.hypot(*after.T) * np.hypot(*(after - before).T)
    # turn is minus twice the triangle's area at a right turn, which is convex
    with np.errstate(divide="ignore", invalid="ignore"):
        radius = sides / (2 * turn)
    return np.where(turn > 0, radius, np.inf)


def contacts(design: Design, rule: ContactsRule) -> kdb.Region:
    """Heaters without exactly two contacts on two nets, or with metal across them."""
    heater, metal = (design.region(name) for name in rule.layers)
    sound = heater.interacting(heater & metal, 2, 2)
    sound = sound.interacting(heater - metal, 1, 1)
    others = _not_between_two_nets(design, *rule.layers)
    return (heater.merged() - sound) + (heater.interacting(others) if not others.is_empty() else others)


def _not_between_two_nets(design: Design, heater: str, metal: str) -> kdb.Region:
    """Pieces of heaters that touch other than two nets, of those that lie on heaters at all."""
    hot, wires = pieces(design, heater), pieces(design, metal)
    shape, net = hot.nets(), wires.nets()
    pairs = hot.meeting(wires)
    contacting = np.isin(net[pairs[:, 1]], net[pairs[hot.sharing(wires, pairs), 1]])
    touched = np.unique(np.stack([shape[pairs[contacting, 0]], net[pairs[contacting, 1]]], axis=1), axis=0)
    counts = np.bincount(touched[:, 0], minlength=int(shape.max(initial=-1)) + 1)
    return kdb.Region([hot.shape(number) for number in np.flatnonzero(counts[shape] != 2).tolist()])


def foreign_guide(design: Design, rule: ForeignGuideRule) -> kdb.Region:
    """Guides that a heater warms without being meant to.

    Heaters with equal surroundings are checked once, which is most of them in a mesh.
    """
    heater, metal, core = rule.layers
    # a body cut by the window's edge must still be recognized
    reach = design.dbu(rule.value_um + rule.exempt_um) + 2 * design.dbu(rule.body_um)
    hots = [hot.dup() for hot in flat(design.region(heater) - design.region(metal)).each()]
    checked: dict[object, kdb.Region] = {}
    faults = kdb.Region()
    for hot, seen in zip(hots, _surroundings(design, core, edges_of([hot.bbox() for hot in hots]), reach), strict=True):
        box = hot.bbox()
        home = kdb.Trans(kdb.Vector(-box.left, -box.bottom))
        own = hot.transformed(home)
        if (own, seen) not in checked:
            silicon = design.near(core, box.enlarged(reach)).merged().transformed(home)
            checked[own, seen] = _foreign(design, rule, kdb.Region(own), silicon)
        if not checked[own, seen].is_empty():
            faults += checked[own, seen].transformed(home.inverted())
    return faults


def _surroundings(design: Design, layer: str, boxes: Ints, reach: int) -> list[object]:
    """For each box something that is equal where a layer is equal around it."""
    parts = items(design, (layer,))
    if parts is None or not len(boxes):
        return list(range(len(boxes)))
    window, rows = parts.seen(boxes, reach)
    order = np.argsort(window, kind="stable")
    ends = np.cumsum(np.bincount(window, minlength=len(boxes)))[:-1]
    found: list[object] = [part.tobytes() for part in np.split(rows[order], ends)]
    # other shapes may differ from place to place
    loose = edges_of([shape.bbox() for shapes in parts.loose.values() for shape in shapes.each()])
    for number in np.unique(touching(boxes + reach * OUTWARDS, loose, 4 * reach)[:, 0]).tolist():
        found[number] = number
    return found


def _foreign(design: Design, rule: ForeignGuideRule, hot: kdb.Region, silicon: kdb.Region) -> kdb.Region:
    """The faults of one heater among the silicon around it."""
    value, exempt, body = (design.dbu(um) for um in (rule.value_um, rule.exempt_um, rule.body_um))
    around = silicon & hot.sized(value + exempt)
    own = around.overlapping(hot)
    entered = silicon.sized(-body).sized(body).interacting(own)
    guides = own - entered.sized(exempt)
    # what the exempt region cuts off from the guide under the heater is another arm
    foreign = (around - own) + (guides - guides.overlapping(hot))
    return hot.separation_check(foreign, value).polygons(1)


def pad_cores(design: Design, layer: str, recognize_um: float) -> kdb.Region:
    """What is left, flat, of metal wider than a limit both ways where half of that is taken from every side."""
    size = design.dbu(recognize_um) // 2
    return design.derived(
        f"{layer}, deeper than {recognize_um} um",
        lambda: flat(holding_squares(design, layer, 2 * size).sized(-size)),
    )


def pads(design: Design, layer: str, recognize_um: float) -> kdb.Region:
    """Metal wider than a limit both ways, flat."""
    return pad_cores(design, layer, recognize_um).sized(design.dbu(recognize_um) // 2).merged()


def pad_size(design: Design, rule: PadSizeRule) -> kdb.Region:
    """Pads too small, and labeled metal that holds no pad."""
    metal, label = rule.layers
    value = design.dbu(rule.value_um)
    found = pads(design, metal, rule.recognize_um)
    narrow = found.width_check(value, False, kdb.Metrics.Euclidian, OPPOSITE_DEG).polygons(1)
    # metal that is exactly as wide as a pad must survive the shrink: half a database unit less each side
    whole = found.sized(1 - value // 2).sized(value // 2 - 1)
    # as boxes: KLayout finds no text that is outside an empty region
    texts = kdb.Texts(design.shapes(label)).polygons(design.dbu(MARKER_UM)).not_interacting(whole)
    return narrow + (texts.interacting(design.region(metal)) if not texts.is_empty() else texts)


def pad_pitch(design: Design, rule: PadPitchRule) -> kdb.Region:
    """Pads whose centers are too close; rounding moves those of small cores less than those of pads grown from them."""
    size = design.dbu(rule.recognize_um) // 2
    boxes = [core.bbox().enlarged(size) for core in pad_cores(design, rule.layers[0], rule.recognize_um).each()]
    return too_close(boxes, design.dbu(rule.value_um))


def fibre_pitch(design: Design, rule: FibrePitchRule) -> kdb.Region:
    """Gratings whose centers are too close; a grating is a cluster of etched lines."""
    grown = design.dbu(rule.merge_um) // 2
    # flat, or a grating that is drawn twice is two
    clusters = flat(design.region(rule.layers[0]).sized(grown))
    return too_close([cluster.bbox() for cluster in clusters.each()], design.dbu(rule.value_um))


def too_close(boxes: list[kdb.Box], least: int) -> kdb.Region:
    """A marker around each pair of boxes whose centers are less than `least` database units apart."""
    if len(boxes) < 2:
        return kdb.Region()
    centers = np.array([(box.left + box.right, box.bottom + box.top) for box in boxes]) / 2
    # query_pairs counts equality as close; centers lie on half units, so 1e-3 covers rounding only
    near = cKDTree(centers).query_pairs(least - 1e-3)
    return kdb.Region([boxes[i] + boxes[j] for i, j in sorted(near)])
