"""Phase shifters: a straight guide under a heater between its two contacts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import klayout.db as kdb
import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.extract.contours import Ints
from optinc_pdk.extract.gds import NM_PER_UM, Mask
from optinc_pdk.extract.lookup import NOWHERE, Finder, box_array, plain
from optinc_pdk.extract.metal import Metal, Pad, is_ground, wire_ohm
from optinc_pdk.extract.silicon import Device, Fault, box_center, center_um

PHASE_SHIFTER = "phase_shifter"


@dataclass(frozen=True, eq=False)
class Wired:
    """Heaters and pads on their metal.

    Attributes:
        mask: Layout.
        metal: Its metal.
        pads: Labelled pads.
        heaters: (n) heaters.
        devices: (n) their phase shifters.
        ends: (n) nets of their signal and ground ends.
    """

    mask: Mask
    metal: Metal
    pads: Sequence[Pad]
    heaters: Sequence[Heater]
    devices: Sequence[Device]
    ends: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Heater:
    """One heater with the guide under it; its two ends in order of position.

    Attributes:
        active: What carries current and is not under metal.
        guide: The guide under it.
        contacts: Centers of the contacts, in nm.
        edges: (2, 2, 2) the guide's end edges, silicon to the right.
    """

    active: kdb.Box
    guide: kdb.Box
    contacts: tuple[kdb.Point, kdb.Point]
    edges: Ints

    @property
    def vertical(self) -> bool:
        """Whether light runs along y."""
        return _vertical(self.contacts)

    @property
    def length_um(self) -> float:
        """Length between the contacts."""
        return (self.active.height() if self.vertical else self.active.width()) / NM_PER_UM

    @property
    def width_um(self) -> float:
        """Width of the heater."""
        return (self.active.width() if self.vertical else self.active.height()) / NM_PER_UM

    @property
    def center(self) -> tuple[float, float]:
        """Middle of the active length, in nm."""
        return box_center(self.active)


def find_heaters(mask: Mask, metal: kdb.Region, width_nm: int) -> tuple[list[Heater], list[Fault]]:
    """Find the phase shifters.

    Args:
        mask: Layout.
        metal: Merged metal that contacts heaters.
        width_nm: Width of a guide.

    Returns:
        Phase shifters sorted by position, and a fault for every heater that is none.
    """
    heater = mask.region("heater").merged()
    if heater.is_empty():
        return [], []
    shapes = plain(heater)
    boxes = box_array(shape.bbox() for shape in shapes)
    # a heater meets little of the metal, of which long wires side by side take long to cut
    metal = Finder(plain(metal)).within(boxes)
    active = heater - metal
    under = mask.silicon(near=active)
    parts = [Finder(plain(region.merged())) for region in (active, heater & metal, under & active)]
    found: list[Heater] = []
    faults: list[Fault] = []
    near = zip(*(part.overlapping(boxes) for part in parts), strict=True)
    for shape, (free, contacts, guides) in zip(shapes, near, strict=True):
        result = _recognize(shape, free, contacts, guides, width_nm)
        if isinstance(result, Heater):
            found.append(result)
        else:
            faults.append(Fault("heater", result, center_um(shape.bbox())))
    return sorted(found, key=lambda h: h.center), faults


def _recognize(
    heater: kdb.Polygon,
    active: list[kdb.Polygon],
    contacts: list[kdb.Polygon],
    under: list[kdb.Polygon],
    width: int,
) -> Heater | str:
    """A phase shifter, or why it is none."""
    if not all(shape.is_box() for shape in (heater, *active, *contacts)):
        return "heater is not rectangular where it lies free or under metal"
    if len(active) != 1 or len(contacts) != 2:
        return f"heater has {len(contacts)} contacts and {len(active)} free lengths; needed are 2 and 1"
    box = active[0].bbox()
    first, second = sorted((contact.bbox().center() for contact in contacts), key=lambda p: (p.x, p.y))
    upright = _vertical((first, second))
    across = (box.width(), heater.bbox().width()) if upright else (box.height(), heater.bbox().height())
    if across[0] != across[1]:
        return "metal covers a part of the heater's side"
    if len(under) != 1:
        return f"heater lies over {len(under)} guides, needed is one"
    guide = under[0].bbox()
    along = (guide.height(), box.height()) if upright else (guide.width(), box.width())
    wide = guide.width() if upright else guide.height()
    if not under[0].is_box() or along[0] != along[1] or wide != width:
        return f"silicon under the heater is no straight guide {width} nm wide along its whole length"
    off = guide.center().x - box.center().x if upright else guide.center().y - box.center().y
    # a heater of odd width has its middle between two grid points
    if abs(off) > 1:
        return f"heater lies {abs(off)} nm beside the middle of its guide"
    return Heater(box, guide, (first, second), _end_edges(guide, upright))


def _vertical(contacts: tuple[kdb.Point, kdb.Point]) -> bool:
    return abs(contacts[1].y - contacts[0].y) > abs(contacts[1].x - contacts[0].x)


def _end_edges(guide: kdb.Box, upright: bool) -> Ints:
    """The end edges of a guide, the lower or left one first, clockwise around it."""
    left, bottom, right, top = guide.left, guide.bottom, guide.right, guide.top
    if upright:
        return np.array([[[right, bottom], [left, bottom]], [[left, top], [right, top]]], dtype=np.int64)
    return np.array([[[left, bottom], [left, top]], [[right, top], [right, bottom]]], dtype=np.int64)


def wire(
    heaters: Sequence[Heater], metal: Metal, pads: Sequence[Pad], process: Process
) -> tuple[list[Device], list[tuple[int, int]], list[Fault]]:
    """Tie heaters to metal.

    The signal end e1 is the one not on ground; o1 is under it, as in the card. Polarity makes no heat.

    Returns:
        Phase shifters, the metal nets of their signal and ground ends, and faults.
    """
    at = _contact_nets(heaters, metal)
    signals = Counter(pad.net for pad in pads if not is_ground(pad.label))
    grounds = {pad.net for pad in pads if is_ground(pad.label)}
    contacts = Counter(net for pair in at for net in pair)
    sheet = process.device(PHASE_SHIFTER).parameter("sheet_ohm")
    devices: list[Device] = []
    wired: list[tuple[int, int]] = []
    faults: list[Fault] = []
    ends = np.array([(end.x, end.y) for heater in heaters for end in heater.contacts], dtype=np.int64)
    vias = metal.via_ohm(ends.reshape(-1, 2)).reshape(-1, 2).sum(axis=1).tolist()
    for heater, (first, second), via in zip(heaters, at, vias, strict=True):
        swap = first in grounds and second not in grounds
        signal, ground = (second, first) if swap else (first, second)
        settings = {
            "length_um": heater.length_um,
            "heater_width_um": heater.width_um,
            "resistance_ohm": sheet * heater.length_um / heater.width_um,
            "wire_ohm": wire_ohm(metal, signal, signals[signal], contacts[signal], process) + via,
        }
        edges = heater.edges[::-1] if swap else heater.edges
        device = Device(PHASE_SHIFTER, heater.center, edges, (True, True), settings)
        if first == second:
            text = "both contacts of a heater are joined in metal"
            faults.append(Fault("short", text, device.position_um))
        devices.append(device)
        wired.append((signal, ground))
    return devices, wired, faults


def _contact_nets(heaters: Sequence[Heater], metal: Metal) -> list[tuple[int, int]]:
    """The nets of each heater's contacts."""
    points = np.array([(contact.x, contact.y) for heater in heaters for contact in heater.contacts], dtype=np.int64)
    nets = metal.contacts_at(points.reshape(-1, 2)).reshape(-1, 2)
    lost = np.flatnonzero(np.any(nets == NOWHERE, axis=1)).tolist()
    if lost:
        center = heaters[lost[0]].center
        raise RuntimeError(f"a contact of the heater at {center} nm is not on the metal it was cut from")
    return [(first, second) for first, second in nets.tolist()]
