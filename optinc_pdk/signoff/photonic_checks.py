"""Checks that know what a guide, a heater, a pad and a grating are; each returns its faults as a region."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
from optinc_pdk.signoff.alike import Alike, found_in, parts_alike, same_boxes
from optinc_pdk.signoff.checks import MARKER_UM, measured
from optinc_pdk.signoff.gds import Design
from optinc_pdk.signoff.items import OUTWARDS, edges_of
from optinc_pdk.signoff.nets import holding_squares, pieces

# Sides of a pad that form a greater angle are no opposite ones: an octagon's, or what rounding cuts off a corner.
OPPOSITE_DEG = 40.0


def guide_space(design: Design, rule: GuideSpaceRule) -> kdb.Region:
    """Guides that come too close where no body couples them."""
    guides, metric = _uncoupled(design, rule), (False, kdb.Metrics.Euclidian, rule.ignore_angle_deg)
    pairs = measured(design, rule, lambda value: guides.space_check(value, *metric))
    gaps = _not_exempt(design, rule, pairs)
    return gaps if gaps.is_empty() else _not_exempt(design, rule, _open(design, rule, pairs))


def _not_exempt(design: Design, rule: GuideSpaceRule, pairs: kdb.EdgePairs) -> kdb.Region:
    gaps = pairs.polygons(0)
    for marker in rule.layers[1:]:
        gaps -= design.region(marker)
    if gaps.is_empty():
        return gaps
    return gaps - design.bodies(rule.layers[0], rule.body_um).sized(design.dbu(rule.exempt_um))


def _open(design: Design, rule: GuideSpaceRule, pairs: kdb.EdgePairs) -> kdb.EdgePairs:
    """Pairs of edges with a way from one to the other that crosses no guide.

    The two sides of one guide that bends left, then right, see each other along it, through its own silicon.
    """
    found = kdb.EdgePairs()
    for pair in pairs.each():
        gap = pair.polygon(0)
        free = kdb.Region(gap) - design.near(rule.layers[0], gap.bbox())
        ends = [kdb.Edges([edge]) for edge in (pair.first, pair.second)]
        if gap.area() == 0 or not free.interacting(ends[0]).interacting(ends[1]).is_empty():
            found.insert(pair)
    return found


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
    heater, metal = rule.layers
    faults = found_in(parts_alike(design, heater, 1, (metal,)), lambda box: _unsound(design, heater, metal, box))
    others = _not_between_two_nets(design, heater, metal)
    return faults if others.is_empty() else faults + design.region(heater).interacting(others)


def _unsound(design: Design, heater: str, metal: str, box: kdb.Box) -> kdb.Region:
    """Heaters in a box without two contacts, or in pieces between them."""
    hot, wires = design.touching(heater, box), design.touching(metal, box)
    sound = hot.interacting(hot & wires, 2, 2)
    return hot - sound.interacting(hot - wires, 1, 1)


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

    def check(box: kdb.Box) -> kdb.Region:
        faults = kdb.Region()
        for hot in (design.touching(heater, box) - design.touching(metal, box)).merged().each():
            silicon = design.near(core, hot.bbox().enlarged(reach)).merged()
            faults += _foreign(design, rule, kdb.Region(hot), silicon)
        return faults

    return found_in(parts_alike(design, heater, 1, (metal, core), reach), check)


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


@dataclass(frozen=True)
class Pads:
    """Metal that may hold pads: the shapes of one part, and of all that look like it the cores and the pads.

    Attributes:
        cores: What is left where half of the width above which metal is a pad is taken from every side.
        pads: These, grown again.
        where: The part, and where those like it are.
    """

    cores: kdb.Region
    pads: kdb.Region
    where: Alike


def pads(design: Design, layer: str, recognize_um: float) -> list[Pads]:
    """Metal wider than a limit both ways."""
    size = design.dbu(recognize_um) // 2
    return design.derived(f"{layer}, pads wider than {recognize_um} um", lambda: list(_pads(design, layer, size)))


def _pads(design: Design, layer: str, size: int) -> Iterator[Pads]:
    held = holding_squares(design, layer, 2 * size)
    alike = (
        [(design.touching(layer, one.box), one) for one in parts_alike(design, layer, 1)]
        if held is None
        else same_boxes(*held)
    )
    for metal, where in alike:
        cores = metal.sized(-size).merged()
        if not cores.is_empty():
            yield Pads(cores, cores.sized(size).merged(), where)


def pad_size(design: Design, rule: PadSizeRule) -> kdb.Region:
    """Pads too small, and labeled metal that holds no pad."""
    metal = rule.layers[0]
    value = design.dbu(rule.value_um)
    narrow = kdb.Region()
    wide = [np.zeros((0, 4), dtype=np.int64)]
    odd: list[kdb.Polygon] = []
    for found in pads(design, metal, rule.recognize_um):
        pairs = found.pads.width_check(value, False, kdb.Metrics.Euclidian, OPPOSITE_DEG)
        narrow += kdb.Region(list(found.where.everywhere(pairs.polygons(1))))
        # metal that is exactly as wide as a pad must survive the shrink: half a database unit less each side
        whole = found.pads.sized(1 - value // 2).sized(value // 2 - 1).merged()
        if all(pad.is_box() for pad in whole.each()):
            wide.append(found.where.boxes(whole))
        else:
            odd += found.where.everywhere(whole)
    return narrow + _beside_pads(design, rule, np.concatenate(wide), kdb.Region(odd))


def _beside_pads(design: Design, rule: PadSizeRule, wide: Ints, odd: kdb.Region) -> kdb.Region:
    """Texts on metal that are on no wide pad, which are boxes and others."""
    metal, label = rule.layers
    # as boxes: KLayout finds no text that is outside an empty region
    texts = [text.dup() for text in kdb.Texts(design.shapes(label)).polygons(design.dbu(MARKER_UM)).merged().each()]
    on_pads = touching(edges_of([text.bbox() for text in texts]), wide)[:, 0]
    plain = np.array([text.is_box() for text in texts], dtype=np.bool_)
    settled = set(on_pads[plain[on_pads]].tolist())
    rest = kdb.Region([text for number, text in enumerate(texts) if number not in settled])
    if rest.is_empty():
        return rest
    odd += kdb.Region([kdb.Polygon(kdb.Box(*box)) for box in np.unique(wide, axis=0).tolist()])
    rest = rest.not_interacting(odd)
    return rest if rest.is_empty() else rest.interacting(design.region(metal))


def pad_pitch(design: Design, rule: PadPitchRule) -> kdb.Region:
    """Pads whose centers are too close; rounding moves those of small cores less than those of pads grown from them."""
    size = design.dbu(rule.recognize_um) // 2
    boxes = [found.where.boxes(found.cores) for found in pads(design, rule.layers[0], rule.recognize_um)]
    return too_close(boxes, size, design.dbu(rule.value_um))


def fibre_pitch(design: Design, rule: FibrePitchRule) -> kdb.Region:
    """Gratings whose centers are too close; a grating is a cluster of etched lines."""
    layer, grown = rule.layers[0], design.dbu(rule.merge_um) // 2
    # growing moves corners by up to the square root of two more
    alike = parts_alike(design, layer, 3 * grown + 2)
    # flat, or a grating that is drawn twice is two
    boxes = [one.boxes(design.touching(layer, one.box).sized(grown).merged()) for one in alike]
    return too_close(boxes, 0, design.dbu(rule.value_um))


def too_close(found: Sequence[Ints], margin: int, least: int) -> kdb.Region:
    """A marker around each pair of boxes whose centers are less than `least` database units apart.

    Args:
        found: (n, 4) boxes.
        margin: By how much markers are larger than the boxes, in database units.
        least: Least distance.
    """
    boxes = np.concatenate([np.zeros((0, 4), dtype=np.int64), *found])
    if len(boxes) < 2:
        return kdb.Region()
    # query_pairs counts equality as close; centers lie on half units, so 1e-3 covers rounding only
    near = cKDTree((boxes[:, :2] + boxes[:, 2:]) / 2).query_pairs(least - 1e-3, output_type="ndarray")
    one, two = boxes[near[:, 0]], boxes[near[:, 1]]
    both = np.concatenate([np.minimum(one, two)[:, :2], np.maximum(one, two)[:, 2:]], axis=1) + margin * OUTWARDS
    return kdb.Region([kdb.Polygon(kdb.Box(*box)) for box in both.tolist()])
