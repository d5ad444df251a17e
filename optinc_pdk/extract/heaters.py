"""Phase shifters: a straight guide under a heater between its two contacts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import klayout.db as kdb
import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import Process
from optinc_pdk.extract.contours import Ints
from optinc_pdk.extract.faults import Fault, box_center, center_um
from optinc_pdk.extract.gds import NM_PER_UM, Mask
from optinc_pdk.extract.lookup import NOWHERE, Finder, box_array, plain
from optinc_pdk.extract.metal import Metal, Pad, is_ground, wires_ohm
from optinc_pdk.extract.silicon import Device
from optinc_pdk.extract.under import guides_under

PHASE_SHIFTER = "phase_shifter"
# Which of left, bottom, right and top are the end edges' points, of guides along x and along y.
_ENDS = np.array([[[[0, 1], [0, 3]], [[2, 3], [2, 1]]], [[[2, 1], [0, 1]], [[0, 3], [2, 3]]]])


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
    finder = Finder(plain(metal))
    # the box of a heater that is no rectangle may reach over another heater
    found = _usual(mask, boxes, finder, width_nm) if all(shape.is_box() for shape in shapes) else {}
    odd = [number for number in range(len(shapes)) if number not in found]
    faults: list[Fault] = []
    for number, result in zip(odd, _one_by_one(mask, [shapes[n] for n in odd], finder, width_nm), strict=True):
        if isinstance(result, Heater):
            found[number] = result
        else:
            faults.append(Fault("heater", result, center_um(shapes[number].bbox())))
    return sorted(found.values(), key=lambda h: h.center), faults


def _usual(mask: Mask, heaters: Ints, metal: Finder, width: int) -> dict[int, Heater]:
    """Rectangular heaters (n, 4) that plainly are phase shifters, by number; the others are looked at one by one.

    Metal is on them in one box at each end, over their whole width, and between these is one box of silicon.
    """
    owner, cut, slanted = metal.cut(heaters)
    twice = np.bincount(owner, minlength=len(heaters)) == 2
    twice[slanted[:, 0]] = False
    numbers, pairs = np.flatnonzero(twice), cut[twice[owner]].reshape(-1, 2, 4)
    found: dict[int, Heater] = {}
    for along, corners in enumerate(_ENDS):
        ends = np.take_along_axis(pairs, np.argsort(pairs[:, :, along], axis=1)[:, :, None], axis=1)
        free, plainly = _between(heaters[numbers], ends, along)
        own, active, ends = numbers[plainly], free[plainly], ends[plainly]
        guides, straight = guides_under(mask, active, along, width)
        contacts = [[kdb.Box(*box).center() for box in pair] for pair in ends[straight].tolist()]
        guides = guides[straight]
        rows = zip(
            own[straight].tolist(),
            active[straight].tolist(),
            guides.tolist(),
            contacts,
            guides[:, corners],
            strict=True,
        )
        for number, box, guide, (first, second), edges in rows:
            found[number] = Heater(kdb.Box(*box), kdb.Box(*guide), (first, second), edges)
    return found


def _between(heaters: Ints, ends: Ints, along: int) -> tuple[Ints, NDArray[np.bool_]]:
    """(n, 4) what lies between two boxes on each of n heaters, and (n,) whether these are at the heater's ends.

    Args:
        heaters: (n, 4) heaters.
        ends: (n, 2, 4) metal on them, the lower or left one first.
        along: The axis along which current runs.
    """
    low, high, across = along, along + 2, [1 - along, 3 - along]
    free = heaters.copy()
    free[:, low], free[:, high] = ends[:, 0, high], ends[:, 1, low]
    whole = np.all(ends[:, :, across] == heaters[:, None, across], axis=(1, 2))
    outer = (ends[:, 0, low] == heaters[:, low]) & (ends[:, 1, high] == heaters[:, high])
    return free, np.asarray(whole & outer & (free[:, low] < free[:, high]))


def _one_by_one(mask: Mask, heaters: Sequence[kdb.Polygon], metal: Finder, width: int) -> list[Heater | str]:
    """Each heater as a phase shifter, or why it is none."""
    if not heaters:
        return []
    region = kdb.Region(list(heaters))
    boxes = box_array(shape.bbox() for shape in heaters)
    # a heater meets little of the metal, of which long wires side by side take long to cut
    on = metal.within(boxes)
    active = region - on
    under = mask.silicon(near=active)
    parts = [Finder(plain(part.merged())) for part in (active, region & on, under & active)]
    near = zip(heaters, *(part.overlapping(boxes) for part in parts), strict=True)
    return [_recognize(shape, free, contacts, guides, width) for shape, free, contacts, guides in near]


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
    return np.asarray(box_array([guide])[0, _ENDS[int(upright)]])


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
    swapped = [first in grounds and second not in grounds for first, second in at]
    wired = [(second, first) if swap else (first, second) for (first, second), swap in zip(at, swapped, strict=True)]
    alone = np.array([signals[signal] == 1 and contacts[signal] == 1 for signal, _ in wired], dtype=bool)
    wires = wires_ohm(metal, np.array(wired, dtype=np.int64).reshape(-1, 2)[:, 0], alone, process)
    devices: list[Device] = []
    faults: list[Fault] = []
    ends = np.array([(end.x, end.y) for heater in heaters for end in heater.contacts], dtype=np.int64)
    vias = metal.via_ohm(ends.reshape(-1, 2)).reshape(-1, 2).sum(axis=1)
    for heater, (signal, ground), swap, ohm in zip(heaters, wired, swapped, (wires + vias).tolist(), strict=True):
        length, width = heater.length_um, heater.width_um
        settings = {
            "length_um": length,
            "heater_width_um": width,
            "resistance_ohm": sheet * length / width,
            "wire_ohm": ohm,
        }
        edges = heater.edges[::-1] if swap else heater.edges
        device = Device(PHASE_SHIFTER, heater.center, edges, (True, True), settings)
        if signal == ground:
            text = "both contacts of a heater are joined in metal"
            faults.append(Fault("short", text, device.position_um))
        devices.append(device)
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
