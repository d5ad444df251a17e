"""Checks of silicon, grating etch, coupled-guide markers, and other layers that light in silicon reaches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.cards import Process
from optinc_pdk.cards.rules import FacetRule
from optinc_pdk.extract.box_pairs import touching_pairs
from optinc_pdk.extract.contours import contours
from optinc_pdk.extract.device_matching import DevicePlacement
from optinc_pdk.extract.faults import Fault, area_text, center_um, moved_fault
from optinc_pdk.extract.golden_devices import GoldenVariant
from optinc_pdk.extract.guide_couplers import NO_COUPLER
from optinc_pdk.extract.guide_strips import StripRule
from optinc_pdk.extract.mask_layout import NM_PER_UM, MaskLayout
from optinc_pdk.extract.spatial_index import PolygonIndex, box_array, region_polygons
from optinc_pdk.models.coupled_guides import nearest_edges

# Bodies that are compared with all devices of the process, which takes milliseconds each.
MAX_DESCRIBED = 100


def check_etch(placements: Iterable[DevicePlacement], etch: kdb.Region) -> list[Fault]:
    """Return a fault for every place where the grating etch differs from that of the golden devices.

    Args:
        placements: Recognised devices.
        etch: Shapes on the layer of the grating etch.
    """
    golden = [polygon for placement in placements for polygon in placement.etch]
    # usually all polygons are equal, and the boolean operation is not needed
    if set(golden) == set(region_polygons(etch)):
        return []
    wrong = region_polygons(kdb.Region(golden) ^ etch)
    if not wrong:
        return []
    # one fault per place: differences less than 1 µm apart have the same cause
    places = region_polygons(kdb.Region(wrong).sized(NM_PER_UM // 2).merged())
    corners = np.array([(point.x, point.y) for point in (next(shape.each_point_hull()) for shape in wrong)])
    area = np.zeros(len(places), dtype=np.int64)
    np.add.at(area, PolygonIndex(places).at(corners), [shape.area() for shape in wrong])
    return [
        Fault("etch", f"grating etch differs from the golden devices by {area_text(size)}", center_um(place.bbox()))
        for place, size in zip(places, area.tolist(), strict=True)
    ]


def check_layers(
    mask: MaskLayout,
    placements: Sequence[DevicePlacement],
    marks: Sequence[kdb.Polygon],
    process: Process,
) -> list[Fault]:
    """Return the faults of the grating etch, of other layers near silicon, and of coupled-guide markers.

    Args:
        mask: Layout.
        placements: Recognised golden devices.
        marks: Marks of coupled guides that were examined as couplers of any gap and length.
        process: Process of the layout.
    """
    faults = check_etch(placements, mask.region(process.grating.layer))
    for name in process.layers:
        faults += check_reach(mask, placements, name, process)
    return faults + check_coupled(mask, placements, marks)


def check_reach(mask: MaskLayout, placements: Sequence[DevicePlacement], layer: str, process: Process) -> list[Fault]:
    """Return a fault for every place where shapes of a layer are within reach of light in silicon.

    Such a layer changes the index of guides, or absorbs, not only where it lies over silicon but also beside it. No
    device of a process has such shapes, except metal at pins.

    Args:
        mask: Layout.
        placements: Recognised golden devices.
        layer: Name of the layer. Nothing is checked unless its card states a reach.
        process: Process of the layout.
    """
    reach = process.reach_um(layer)
    if reach is None:
        return []
    shapes, reach_nm = mask.region(layer).merged(), round(reach * NM_PER_UM)
    if shapes.is_empty():
        return []
    silicon = mask.silicon(near=shapes.sized(reach_nm).merged())
    if layer in process.contact.metals:
        silicon -= kdb.Region([polygon for each in placements if each.pins for polygon in each.core])
    act = "it changes the light in them; move it"

    def fault(message: str, shape: kdb.Polygon) -> Fault:
        return Fault("slab" if layer == "slab" else "layer", message, center_um(shape.bbox()))

    over = (shapes & silicon).merged()
    text = f"{layer} over silicon: the process has no such guides, and {act} at least {reach:g} µm away"
    faults = [fault(text, place) for place in sorted(region_polygons(over))]
    near = sorted(region_polygons((shapes & silicon.sized(reach_nm)).merged().not_interacting(over)))
    outline = contours(region_polygons(silicon))
    edges = np.hstack([np.minimum(outline.points, outline.ends), np.maximum(outline.points, outline.ends)])
    place, edge = touching_pairs(box_array(shape.bbox().enlarged(reach_nm) for shape in near), edges).T
    split = np.searchsorted(place, np.arange(1, len(near)))
    for shape, numbers in zip(near, np.split(edge, split) if near else (), strict=True):
        one = contours([shape])
        gap = _gap_nm(one.points, one.ends, outline.points[numbers], outline.ends[numbers])
        # corners of the enlarged silicon are farther away than its sides
        if gap < reach_nm:
            text = f"{layer} {gap / NM_PER_UM:.3f} µm beside guides or devices: {act} at least {reach:g} µm away"
            faults.append(fault(text, shape))
    return faults


def check_coupled(mask: MaskLayout, placements: Sequence[DevicePlacement], marks: Sequence[kdb.Polygon]) -> list[Fault]:
    """Return a fault for every coupled-guide marker outside a device that consists of several guides.

    DRC does not check the spacing of guides under such a marker, so a misplaced marker would hide errors.

    Args:
        mask: Layout.
        placements: Recognised golden devices.
        marks: Marks of coupled guides that were examined as couplers of any gap and length.
    """
    if "coupled" not in mask.layers:
        return []
    coupled = kdb.Region([kdb.Polygon(placement.box) for placement in placements if len(placement.core) > 1])
    rest = mask.region("coupled") - coupled - kdb.Region(list(marks))
    return [Fault("coupled", NO_COUPLER, center_um(shape.bbox())) for shape in region_polygons(rest)]


def check_tips(mask: MaskLayout, placements: Sequence[DevicePlacement], process: Process) -> list[Fault]:
    """Return a fault for every edge coupler whose tip is farther from the die's edge than a rule of the process allows.

    Args:
        mask: Layout.
        placements: Recognised devices.
        process: Process of the layout. Without a rule of kind ``facet``, nothing is checked.
    """
    rules = [rule for rule in process.rules if isinstance(rule, FacetRule)]
    tips = [each for each in placements if process.device(each.variant.name).model.name == "edge_coupler"]
    if not rules or not tips:
        return []
    most = min(rule.most_um for rule in rules)
    dies = [shape.bbox() for shape in region_polygons(mask.region(rules[0].layers[1]).merged())]
    faults: list[Fault] = []
    for placement in tips:
        side = placement.tip
        found = [_ahead(side, die) / NM_PER_UM for die in dies if die.contains(side.p1) and die.contains(side.p2)]
        if not found or found[0] > most:
            where = f"{found[0]:g} µm from the edge that it faces" if found else "in no outline of a die"
            text = f"the tip of an edge coupler is {where}; fibres reach tips at most {most:g} µm from an edge"
            faults.append(Fault("facet", text, center_um(side.bbox())))
    return faults


def _ahead(side: kdb.Edge, die: kdb.Box) -> int:
    """Return the distance in nm from a side to the die's edge that it faces; silicon is on the right of the side."""
    if side.dx() == 0:
        return int(side.x1 - die.left if side.dy() > 0 else die.right - side.x1)
    return int(side.y1 - die.bottom if side.dx() < 0 else die.top - side.y1)


def check_inside(taken: kdb.Region, core: kdb.Region) -> list[Fault]:
    """Return a fault for every place where silicon of a recognised device is missing.

    Args:
        taken: Merged silicon of the golden devices at the positions of the recognised devices.
        core: Merged silicon of the layout.
    """
    return [
        Fault("body", f"{area_text(shape.area())} of silicon is missing inside a device", center_um(shape.bbox()))
        for shape in sorted(region_polygons(taken - core))
    ]


def check_foreign(
    placements: Sequence[DevicePlacement], silicon: Sequence[kdb.Polygon], rule: StripRule
) -> list[Fault]:
    """Return a fault for every piece of silicon that is too close to a device and does not lie in front of its ports.

    Design rules exempt the surroundings of devices from the space between guides, because arms are coupled there. Only
    silicon that is joined to the device near by may be within this space, and no other than the device's own within the
    space of its arms.

    Args:
        placements: Recognised devices.
        silicon: Polygons of all silicon, with that of the devices; they may touch but not overlap.
        rule: Dimensions of a guide and of its surroundings.
    """
    suspect = [placements[number] for number in _suspects(placements, silicon, rule.space)] if placements else []
    windows = [placement.box.enlarged(max(rule.joined, rule.space)) for placement in suspect]
    # equal devices with equal silicon around them are checked once
    known: dict[tuple[object, ...], list[Fault]] = {}
    faults: list[Fault] = []
    together = PolygonIndex(silicon).overlapping(box_array(windows))
    for placement, window, parts in zip(suspect, windows, together, strict=True):
        near = (kdb.Region(parts) & kdb.Region(window)).merged().moved(-placement.shift)
        key = (id(placement.variant), *sorted(str(polygon) for polygon in near.each()))
        if key not in known:
            known[key] = _foreign_to(placement.variant, near, rule)
        faults += [moved_fault(fault, placement.shift) for fault in known[key]]
    return faults


def _suspects(placements: Sequence[DevicePlacement], silicon: Sequence[kdb.Polygon], space_nm: int) -> list[int]:
    """Return the numbers of the devices with other silicon in the boxes of their surroundings."""
    local = {id(p.variant): surroundings(p.variant, space_nm) for p in placements}
    sides = {key: box_array(polygon.bbox() for polygon in region_polygons(region)) for key, region in local.items()}
    around = kdb.Region()
    for placement in placements:
        around += local[id(placement.variant)].moved(placement.shift)
    pieces = box_array(piece.bbox() for piece in region_polygons(around & kdb.Region(list(silicon))))
    boxes = [sides[id(p.variant)] + np.tile([p.shift.x, p.shift.y], 2) for p in placements]
    owner = np.repeat(np.arange(len(placements)), [len(each) for each in boxes])
    found: list[int] = np.unique(owner[touching_pairs(pieces, np.concatenate(boxes))[:, 1]]).tolist()
    return found


def _foreign_to(variant: GoldenVariant, silicon: kdb.Region, rule: StripRule) -> list[Fault]:
    """Return the faults of merged silicon around a device that lies at the origin of its cell."""
    own = kdb.Region(list(variant.core))
    box, joined = own.bbox(), silicon.interacting(own)
    device = contours(variant.core)
    faults: list[Fault] = []
    for piece in sorted(region_polygons((silicon & surroundings(variant, rule.space)).merged())):
        least = rule.space if (kdb.Region(piece) & joined).is_empty() else rule.arm_space
        one = contours([piece])
        gap = _gap_nm(one.points, one.ends, device.points, device.ends)
        if not (kdb.Region(piece) & kdb.Region(box)).is_empty():
            text = f"{area_text(piece.area())} of other silicon within the box of a {variant.name}"
        elif gap < least:
            text = (
                f"other silicon {gap / NM_PER_UM:.3f} µm beside a {variant.name}, needed are {least / NM_PER_UM:g} µm, "
                "except for guides in front of its ports; move it away"
            )
        else:
            continue
        faults.append(Fault("foreign", text, center_um(piece.bbox())))
    return faults


def surroundings(variant: GoldenVariant, space_nm: int) -> kdb.Region:
    """Return the places about the origin of a device's cell at which other silicon may be too close to it.

    These are its bounding box and what is within a distance of its silicon, without the silicon itself and without the
    places in front of its guide ports. Corners are included that are farther away.

    Args:
        variant: Golden device.
        space_nm: The distance in nm.
    """
    if space_nm not in variant.surroundings:
        variant.surroundings[space_nm] = _surroundings(variant, space_nm)
    return variant.surroundings[space_nm]


def _surroundings(variant: GoldenVariant, space_nm: int) -> kdb.Region:
    silicon = kdb.Region(list(variant.core))
    in_front = kdb.Region()
    for edge in variant.port_edges.values():
        start, end = variant.points[edge].astype(float), variant.ends[edge].astype(float)
        along = (end - start) / np.hypot(*(end - start)) * space_nm
        # silicon is on the right of an edge
        outward = 2 * np.array([-along[1], along[0]])
        corners = (start - along, start - along + outward, end + along + outward, end + along)
        in_front.insert(kdb.Polygon([kdb.Point(round(x), round(y)) for x, y in (c.tolist() for c in corners)]))
    box = kdb.Region(silicon.bbox())
    # rounding moves corners of a drawn device by less than 1 nm
    return (silicon.sized(space_nm) - in_front + box - silicon.sized(1)).merged()


def _gap_nm(points: Ints, ends: Ints, other_points: Ints, other_ends: Ints) -> float:
    """Return the distance in nm of two outlines that do not cross, given their edges (n, 2) and (m, 2)."""
    if not len(points) or not len(other_points):
        return math.inf
    start, other = points.astype(float), other_points.astype(float)
    both = nearest_edges(start, other, other_ends - other), nearest_edges(other, start, ends - start)
    return min(float(distances.min()) for distances, _, _ in both)


_OTHER_REMEDY = "draw a device of the process, or add this one (docs/own_devices.md)"
_REMEDIES = {
    0: "no guide leads to it; delete it, or draw a device of the process",
    2: "silicon was added to a guide; delete it, or, if it is a device of your own, add its card (docs/own_devices.md)",
}
"""What to do about a body that is like no device, by the number of guides that lead to it."""


def describe_bodies(
    silicon: kdb.Region, variants: Sequence[GoldenVariant], body_nm: int
) -> tuple[list[Fault], list[kdb.Polygon]]:
    """Find bodies: silicon that is too wide for a guide and belongs to no recognised device.

    Args:
        silicon: Merged silicon that is neither device nor guide.
        variants: Golden devices to compare with.
        body_nm: Half of the smallest width of a body, in nm. No guide is that wide.

    Returns:
        One fault per body, which names the device with the smallest difference in area, unless that is more than the
        body's own area, and says what to do about it; and the polygons of the bodies.
    """
    bodies = sorted(region_polygons(morphological_opening(silicon, body_nm)))
    described = bodies[:MAX_DESCRIBED]
    golden = [_GoldenBody(variant, body_nm) for variant in variants] if bodies else []
    reach = max((max(one.box.width(), one.box.height()) for one in golden), default=0) + 2 * body_nm
    windows = [body.bbox().enlarged(reach) for body in described]
    around = PolygonIndex(region_polygons(silicon)).overlapping(box_array(windows))
    faults: list[Fault] = []
    for body, window, near in zip(described, windows, around, strict=True):
        place = kdb.Region(near) & kdb.Region(window)
        name, area = min(
            ((one.name, one.difference(place, body)) for one in golden), key=lambda match: match[1], default=("", 0)
        )
        # a device that differs by more than the whole body has nothing in common with it
        if name and area <= body.area():
            likeness = f"it is most like {name}, and differs from it by {area_text(area)}"
            remedy = _OTHER_REMEDY
        else:
            likeness = "it resembles no device of the process"
            remedy = _REMEDIES.get(_guide_count(place, body, body_nm), _OTHER_REMEDY)
        faults.append(Fault("body", f"unrecognized silicon body: {likeness}; {remedy}", center_um(body.bbox())))
    rest = f"unrecognized silicon body; {_OTHER_REMEDY}"
    return faults + [Fault("body", rest, center_um(body.bbox())) for body in bodies[MAX_DESCRIBED:]], bodies


class _GoldenBody:
    """The silicon of a golden device, with the box of its body, for the comparison with bodies of a layout."""

    def __init__(self, variant: GoldenVariant, body_nm: int) -> None:
        self.name = variant.name
        self.drawn = kdb.Region(list(variant.core))
        self.box = self.drawn.bbox()
        self.body = morphological_opening(self.drawn, body_nm).bbox()

    def difference(self, silicon: kdb.Region, body: kdb.Polygon) -> int:
        """Return the area in nm² in which silicon around a body differs from the device with its body at its centre."""
        if self.body.empty():
            return int(self.drawn.area() + body.area())
        golden = self.drawn.moved(body.bbox().center() - self.body.center())
        near = kdb.Region(golden.bbox() + body.bbox())
        return int(((silicon & near) ^ golden).area())


def _guide_count(silicon: kdb.Region, body: kdb.Polygon, body_nm: int) -> int:
    """Return how many guides lead away from a body."""
    inner = kdb.Region(body).sized(body_nm)
    ring = inner.sized(body_nm) - inner
    return int((silicon & ring).merged().count())


def morphological_opening(region: kdb.Region, size: int) -> kdb.Region:
    """Return a region shrunk and then grown by ``size`` nm, which removes parts narrower than 2 ``size``."""
    return region.sized(-size).sized(size).merged()
