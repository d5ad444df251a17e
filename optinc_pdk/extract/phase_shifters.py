"""Phase shifters, straight guides under heaters with a contact at each end, and the pads to which they are wired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Bools, Ints
from optinc_pdk.cards import Process
from optinc_pdk.extract.box_pairs import touching_pairs
from optinc_pdk.extract.cell_placements import transformation
from optinc_pdk.extract.device_recognition import ExtractedDevice
from optinc_pdk.extract.faults import Fault, box_center, center_um
from optinc_pdk.extract.mask_layout import NM_PER_UM, Label, MaskLayout
from optinc_pdk.extract.metal_nets import LabelledPad, MetalNets, check_bumps, estimate_wires_ohm, find_pads, is_ground
from optinc_pdk.extract.polygons import NOT_FOUND, PolygonIndex, box_array, region_polygons

PHASE_SHIFTER = "phase_shifter"
# Columns of (left, bottom, right, top) with the points of a guide's end edges, for guides along x and along y.
_ENDS = np.array([[[[0, 1], [0, 3]], [[2, 3], [2, 1]]], [[[2, 1], [0, 1]], [[0, 3], [2, 3]]]])


@dataclass(frozen=True)
class ExtractedHeater:
    """A heater and the guide under it. Its two ends are sorted by x, then y. Coordinates are in nm.

    Attributes:
        active: The part of the heater between its contacts, or between its tapers.
        guide: The part of the guide under ``active``.
        contacts: Centres of the two contacts.
        edges: (2, 2, 2) end edges of ``guide``, indexed [end, point, xy]; the silicon is on the right of each edge.
        taper_squares: Length over width of the tapers between ``active`` and the contacts, summed along the current.
    """

    active: kdb.Box
    guide: kdb.Box
    contacts: tuple[kdb.Point, kdb.Point]
    edges: Ints
    taper_squares: float = 0.0

    @property
    def vertical(self) -> bool:
        """Whether the guide runs along y; otherwise it runs along x."""
        return _vertical(self.contacts)

    @property
    def length_um(self) -> float:
        """Length of the active part in µm."""
        return (self.active.height() if self.vertical else self.active.width()) / NM_PER_UM

    @property
    def width_um(self) -> float:
        """Width of the heater, perpendicular to the guide, in µm."""
        return (self.active.width() if self.vertical else self.active.height()) / NM_PER_UM

    @property
    def center(self) -> tuple[float, float]:
        """Centre (x, y) of the active part in nm."""
        return box_center(self.active)


def find_heaters(
    mask: MaskLayout, metal: kdb.Region, width_nm: int, taper_nm: int = 0
) -> tuple[list[ExtractedHeater], list[Fault]]:
    """Find the heaters of a layout that form phase shifters, sorted by position, and one fault for each that does not.

    A heater forms a phase shifter if it is rectangular, apart from tapers of a length ``taper_nm`` at its contacts, has
    a contact at each end, and lies on the axis of one straight guide of width ``width_nm``. ``metal`` are the merged
    shapes of the metal that contacts heaters.
    """
    heater = mask.region("heater").merged()
    if heater.is_empty():
        return [], []
    shapes = region_polygons(heater)
    boxes = box_array(shape.bbox() for shape in shapes)
    metal_index = PolygonIndex(region_polygons(metal))
    # the bounding box of a heater that is not a rectangle may contain another heater
    regular = not taper_nm and all(shape.is_box() for shape in shapes)
    heaters = _regular_heaters(mask, boxes, metal_index, width_nm) if regular else {}
    others = [number for number in range(len(shapes)) if number not in heaters]
    faults: list[Fault] = []
    for number, result in zip(
        others, _one_by_one(mask, [shapes[n] for n in others], metal_index, width_nm, taper_nm), strict=True
    ):
        if isinstance(result, ExtractedHeater):
            heaters[number] = result
        else:
            faults.append(Fault("heater", result, center_um(shapes[number].bbox())))
    return sorted(heaters.values(), key=lambda h: h.center), faults


def _regular_heaters(mask: MaskLayout, heaters: Ints, metal: PolygonIndex, width: int) -> dict[int, ExtractedHeater]:
    """Return those of n rectangular heaters (n, 4) that have the regular form, by number.

    A regular heater has one box of metal over its whole width at each end and one box of silicon between them. The
    others are checked one by one.
    """
    owner, cut, slanted = metal.cut(heaters)
    twice = np.bincount(owner, minlength=len(heaters)) == 2
    twice[slanted[:, 0]] = False
    numbers, pairs = np.flatnonzero(twice), cut[twice[owner]].reshape(-1, 2, 4)
    regular_heaters: dict[int, ExtractedHeater] = {}
    for along, corners in enumerate(_ENDS):
        ends = np.take_along_axis(pairs, np.argsort(pairs[:, :, along], axis=1)[:, :, None], axis=1)
        free, regular = _between(heaters[numbers], ends, along)
        selected, active, ends = numbers[regular], free[regular], ends[regular]
        guides, straight = find_guides_under(mask, active, along, width)
        contacts = [[kdb.Box(*box).center() for box in pair] for pair in ends[straight].tolist()]
        guides = guides[straight]
        rows = zip(
            selected[straight].tolist(),
            active[straight].tolist(),
            guides.tolist(),
            contacts,
            guides[:, corners],
            strict=True,
        )
        for number, box, guide, (first, second), edges in rows:
            regular_heaters[number] = ExtractedHeater(kdb.Box(*box), kdb.Box(*guide), (first, second), edges)
    return regular_heaters


def _between(heaters: Ints, ends: Ints, along: int) -> tuple[Ints, Bools]:
    """Find the part of each heater (n, 4) between two boxes of metal (n, 2, 4), the lower or left one first.

    ``along`` is the axis of the current, 0 for x and 1 for y.

    Returns:
        (n, 4) the part between the boxes, and (n,) whether the boxes cover the ends of the heater over its whole width.
    """
    low, high, across = along, along + 2, [1 - along, 3 - along]
    free = heaters.copy()
    free[:, low], free[:, high] = ends[:, 0, high], ends[:, 1, low]
    whole = np.all(ends[:, :, across] == heaters[:, None, across], axis=(1, 2))
    outer = (ends[:, 0, low] == heaters[:, low]) & (ends[:, 1, high] == heaters[:, high])
    return free, np.asarray(whole & outer & (free[:, low] < free[:, high]))


def _one_by_one(
    mask: MaskLayout, heaters: Sequence[kdb.Polygon], metal: PolygonIndex, width: int, taper: int
) -> list[ExtractedHeater | str]:
    """Return, for each heater shape, the heater or the reason why it is not part of a phase shifter."""
    if not heaters:
        return []
    region = kdb.Region(list(heaters))
    boxes = box_array(shape.bbox() for shape in heaters)
    # intersect metal with the boxes of heaters only: boolean operations with all wires would be slow
    on = metal.within(boxes)
    free, contacts = (
        PolygonIndex(region_polygons(part.merged())).overlapping(boxes) for part in (region - on, region & on)
    )
    strips = [[part_of_constant_width(part, taper) for part in parts] for parts in free]
    active = kdb.Region([strip for parts in strips for strip in parts if strip is not None])
    under = PolygonIndex(region_polygons((mask.silicon(near=active) & active).merged())).overlapping(boxes)
    near = zip(heaters, free, strips, contacts, under, strict=True)
    return [_recognise(shape, parts, strip, ends, guides, width, taper) for shape, parts, strip, ends, guides in near]


def _recognise(
    heater: kdb.Polygon,
    free: list[kdb.Polygon],
    active: list[kdb.Polygon | None],
    contacts: list[kdb.Polygon],
    under: list[kdb.Polygon],
    width: int,
    taper: int,
) -> ExtractedHeater | str:
    """Return the heater, or the reason why it is not part of a phase shifter.

    Args:
        heater: Shape on the heater layer.
        free: Its parts without metal.
        active: For each of these its part of constant width, None if it has another form.
        contacts: Its parts under metal.
        under: Silicon under ``active``.
        width: Width of a guide in nm.
        taper: Length of the heater's tapers in nm; 0 for none.
    """
    strips = [strip for strip in active if strip is not None]
    whole = [heater] if not taper else []
    # without a contact, a heater with tapers has no free length of the right form either
    counted = taper and len(contacts) != 2
    if not counted and (len(strips) < len(free) or not all(shape.is_box() for shape in (*whole, *contacts))):
        form = f" with tapers of {taper} nm" if taper else ""
        return f"heater is not rectangular{form} where it lies free or under metal"
    if len(free) != 1 or len(contacts) != 2:
        return f"heater has {len(contacts)} contacts and {len(free)} free lengths; needed are 2 and 1"
    box, between = strips[0].bbox(), free[0].bbox()
    first, second = sorted((contact.bbox().center() for contact in contacts), key=lambda p: (p.x, p.y))
    vertical = _vertical((first, second))
    across = (between.width(), heater.bbox().width()) if vertical else (between.height(), heater.bbox().height())
    if across[0] != across[1]:
        return "metal covers a part of the heater's side"
    if len(under) != 1:
        return f"heater lies over {len(under)} guides, needed is one"
    guide = under[0].bbox()
    along = (guide.height(), box.height()) if vertical else (guide.width(), box.width())
    wide = guide.width() if vertical else guide.height()
    if not under[0].is_box() or along[0] != along[1] or wide != width:
        return f"silicon under the heater is no straight guide {width} nm wide along its whole length"
    off = guide.center().x - box.center().x if vertical else guide.center().y - box.center().y
    # the centre of a heater of odd width is between two grid points
    if abs(off) > 1:
        return f"heater lies {abs(off)} nm beside the middle of its guide"
    squares = taper_squares(across[0], box.width() if vertical else box.height(), taper)
    return ExtractedHeater(box, guide, (first, second), _end_edges(guide, vertical), squares)


def _vertical(contacts: tuple[kdb.Point, kdb.Point]) -> bool:
    """Whether two contacts are further apart along y than along x."""
    return abs(contacts[1].y - contacts[0].y) > abs(contacts[1].x - contacts[0].x)


def _end_edges(guide: kdb.Box, vertical: bool) -> Ints:
    """Return the end edges (2, 2, 2) of a guide, the lower or left one first, clockwise around it."""
    return np.asarray(box_array([guide])[0, _ENDS[int(vertical)]])


def connect_heaters(
    heaters: Sequence[ExtractedHeater], metal: MetalNets, pads: Sequence[LabelledPad], process: Process
) -> tuple[list[ExtractedDevice], list[tuple[int, int]], list[Fault]]:
    """Create the phase shifters of a layout and determine the metal nets of their two ends.

    Port e1 is the signal end, which is not connected to a ground pad, and e2 the ground end; optical port o1 is at the
    same end as e1, as in the device card. If both ends or neither are connected to ground, an end at another pad is e1,
    or else the first end; the direction of the current does not affect the heat.

    Returns:
        The n phase shifters; for each the net numbers of its signal and ground ends; and a fault for each heater whose
        two ends are on the same net.
    """
    at = _contact_nets(heaters, metal)
    # a pad with two labels counts once
    signals = Counter(net for net, _ in {(pad.net, pad.center) for pad in pads if not is_ground(pad.label)})
    grounds = {pad.net for pad in pads if is_ground(pad.label)}
    contacts = Counter(net for pair in at for net in pair)
    sheet = process.device(PHASE_SHIFTER).parameter("sheet_ohm")
    # False before True: no ground first, then a pad
    rank = [[(net in grounds, net not in signals) for net in pair] for pair in at]
    swapped = [second < first for first, second in rank]
    wired = [(second, first) if swap else (first, second) for (first, second), swap in zip(at, swapped, strict=True)]
    alone = np.array([signals[signal] == 1 and contacts[signal] == 1 for signal, _ in wired], dtype=bool)
    wires = estimate_wires_ohm(metal, np.array(wired, dtype=np.int64).reshape(-1, 2)[:, 0], alone, process)
    devices: list[ExtractedDevice] = []
    faults: list[Fault] = []
    ends = np.array([(end.x, end.y) for heater in heaters for end in heater.contacts], dtype=np.int64)
    vias = metal.via_ohm(ends.reshape(-1, 2)).reshape(-1, 2).sum(axis=1)
    for heater, (signal, ground), swap, ohm in zip(heaters, wired, swapped, (wires + vias).tolist(), strict=True):
        length, width = heater.length_um, heater.width_um
        settings = {
            "length_um": length,
            "heater_width_um": width,
            "resistance_ohm": sheet * (length / width + heater.taper_squares),
            "wire_ohm": ohm,
        }
        edges = heater.edges[::-1] if swap else heater.edges
        device = ExtractedDevice(PHASE_SHIFTER, heater.center, edges, (True, True), settings)
        if signal == ground:
            text = "both contacts of a heater are joined in metal"
            faults.append(Fault("short", text, device.position_um))
        devices.append(device)
    return devices, wired, faults


def _contact_nets(heaters: Sequence[ExtractedHeater], metal: MetalNets) -> list[tuple[int, int]]:
    """Return the metal nets of each heater's contacts.

    Raises:
        RuntimeError: A contact has no metal, which is an error of this program.
    """
    points = np.array([(contact.x, contact.y) for heater in heaters for contact in heater.contacts], dtype=np.int64)
    nets = metal.contacts_at(points.reshape(-1, 2)).reshape(-1, 2)
    missing = np.flatnonzero(np.any(nets == NOT_FOUND, axis=1)).tolist()
    if missing:
        center = heaters[missing[0]].center
        raise RuntimeError(f"a contact of the heater at {center} nm is not on the metal it was cut from")
    return [(first, second) for first, second in nets.tolist()]


def part_of_constant_width(free: kdb.Polygon, taper: int) -> kdb.Polygon | None:
    """Return the part of constant width of a heater between its contacts; None if it has another form.

    It is a rectangle, with a symmetric taper of a given length in nm at each end, unless that is 0.
    """
    if not taper:
        return free if free.is_box() else None
    box = free.bbox()
    points = {(point.x, point.y) for point in free.each_point_hull()}
    if free.holes() or len(points) != 8:
        return None
    along = kdb.Box(box.left + taper, box.bottom, box.right - taper, box.top)
    upwards = kdb.Box(box.left, box.bottom + taper, box.right, box.top - taper)
    for inner, flip in ((along, False), (upwards, True)):
        low, high = (inner.bottom, inner.top) if flip else (inner.left, inner.right)
        sides = sorted({point[not flip] for point in points if point[flip] == low})
        middle = box.center().x if flip else box.center().y
        if low >= high or len(sides) != 2 or abs(sum(sides) - 2 * middle) > 1:
            continue
        strip = kdb.Box(sides[0], low, sides[1], high) if flip else kdb.Box(low, sides[0], high, sides[1])
        if points == {
            (x, y) for each in (box, strip) for x in (each.left, each.right) for y in (each.bottom, each.top)
        }:
            return kdb.Polygon(strip)
    return None


def taper_squares(wide: int, narrow: int, taper: int) -> float:
    """Return length over width along two linear tapers, the integral of 1 / width; lengths in nm."""
    return 2.0 * taper * float(np.log(wide / narrow)) / (wide - narrow) if taper and wide > narrow else 0.0


# If a heater repeats at least this often on average, reading cells is faster than reading all silicon near the heaters.
MIN_REPEATS = 4


def find_guides_under(mask: MaskLayout, active: Ints, along: int, width: int) -> tuple[Ints, Bools]:
    """Find the straight guide under each heater, once per distinct cell and not once per placement.

    ``active`` (n, 4) are the parts of heaters between their contacts in nm, ``along`` is the axis of the guides, 0 for
    x and 1 for y, and ``width`` their width.

    Returns:
        (n, 4) box of the silicon under each heater in nm, and (n,) whether the silicon is one straight guide of this
        width on the heater's axis (within 1 nm). Where the silicon is not a single box, the box is that of the heater
        and the second value is false.
    """
    guides, single = _under_in_cells(mask, active)
    others = np.flatnonzero(~single)
    if len(others):
        guides[others], single[others] = _single_boxes(mask.silicon(near=_region(active[others])), active[others])
    # twice the distance of the centres; the centre of a heater of odd width is between two grid points
    off = np.abs(np.sum((guides - active).reshape(-1, 2, 2), axis=1))
    size, long = guides[:, 2:] - guides[:, :2], active[:, along + 2] - active[:, along]
    straight = (size[:, 1 - along] == width) & (size[:, along] == long) & (off[:, 1 - along] <= 2)
    return guides, np.asarray(single & straight)


def _region(boxes: Ints) -> kdb.Region:
    """Return boxes (n, 4) as a region."""
    return kdb.Region([kdb.Polygon(kdb.Box(*box)) for box in boxes.tolist()])


def _single_boxes(silicon: kdb.Region, boxes: Ints) -> tuple[Ints, Bools]:
    """Return (n, 4) the silicon within boxes (n, 4), and (n,) whether it is a single box."""
    owner, cut, slanted = PolygonIndex(region_polygons(silicon)).cut(boxes)
    single = np.bincount(owner, minlength=len(boxes)) == 1
    single[slanted[:, 0]] = False
    silicon_boxes = boxes.copy()
    silicon_boxes[owner[single[owner]]] = cut[single[owner]]
    return silicon_boxes, np.asarray(single)


def _under_in_cells(mask: MaskLayout, boxes: Ints) -> tuple[Ints, Bools]:
    """Do the same for boxes that touch only one placed cell, once for all its placements; False for other boxes."""
    silicon, known = boxes.copy(), np.zeros(len(boxes), dtype=bool)
    if mask.places is None:
        return silicon, known
    layer = mask.layout.layer(*mask.layers["core"])
    near, place = touching_pairs(boxes, mask.places.boxes).T
    alone = np.bincount(near, minlength=len(boxes)) == 1
    alone[touching_pairs(boxes, mask.places.loose_boxes(layer))[:, 0]] = False
    inside = np.flatnonzero(alone)
    cells = mask.places.cells[place[alone[near]]]
    shifts = np.tile(cells[:, 2:], 2)
    kinds, kind = np.unique(np.hstack([cells[:, :2], boxes[inside] - shifts]), axis=0, return_inverse=True)
    if MIN_REPEATS * len(kinds) > len(inside):
        return silicon, known
    local, single = kinds[:, 2:].copy(), np.zeros(len(kinds), dtype=bool)
    for cell, code in np.unique(kinds[:, :2], axis=0).tolist():
        members = np.flatnonzero(np.all(kinds[:, :2] == (cell, code), axis=1))
        near = _region(local[members]).transformed(transformation(code).inverted())
        drawn = kdb.Region(kdb.RecursiveShapeIterator(mask.layout, mask.layout.cell(cell), layer, near, True))
        drawn.remove_properties()
        local[members], single[members] = _single_boxes(
            drawn.transformed(transformation(code)).merged(), local[members]
        )
    silicon[inside], known[inside] = local[kind] + shifts, single[kind]
    return silicon, known


@dataclass(frozen=True, eq=False)
class HeaterWiring:
    """Heaters and pads of a layout, and the metal nets to which they are connected.

    Attributes:
        mask: Layout.
        metal: Metal nets of the layout.
        pads: Labelled pads.
        heaters: The n heaters.
        devices: The n phase shifters, one per heater, in the same order.
        ends: For each heater, the net numbers of its signal end and of its ground end.
        faults: Faults of heaters, pads, labels on metal, vias, wires and bumps.
    """

    mask: MaskLayout
    metal: MetalNets
    pads: Sequence[LabelledPad]
    heaters: Sequence[ExtractedHeater]
    devices: Sequence[ExtractedDevice]
    ends: Sequence[tuple[int, int]]
    faults: Sequence[Fault]


@dataclass(frozen=True, eq=False)
class DrawnHeaters:
    """Heaters and metal of a layout, before pads are known.

    Attributes:
        mask: Layout.
        metal: Metal nets of the layout.
        heaters: Heaters that form phase shifters.
        faults: Heater shapes that do not.
    """

    mask: MaskLayout
    metal: MetalNets
    heaters: Sequence[ExtractedHeater]
    faults: Sequence[Fault]

    @staticmethod
    def of(mask: MaskLayout, process: Process) -> DrawnHeaters:
        """Find the heaters and the metal of a layout."""
        metal, card = MetalNets(mask, process), process.devices.get(PHASE_SHIFTER)
        taper = 0.0 if card is None else float(card.geometry.get("heater_taper_um", 0.0))
        width, taper_nm = (round(um * NM_PER_UM) for um in (float(process.guide.width_um), taper))
        return DrawnHeaters(mask, metal, *find_heaters(mask, metal.contacts, width, taper_nm))

    def wired(self, labels: Sequence[Label], process: Process) -> HeaterWiring:
        """Find the pads by labels, sorted by text, without those on fibre couplers, and connect the heaters to them."""
        pads, pad_faults = find_pads(self.metal, labels, round(float(process.pads.size_um) * NM_PER_UM))
        devices, ends, wire_faults = connect_heaters(self.heaters, self.metal, pads, process)
        faults = (*self.faults, *pad_faults, *self.metal.faults, *wire_faults, *check_bumps(self.mask, pads, process))
        return HeaterWiring(self.mask, self.metal, pads, self.heaters, devices, ends, faults)
