"""Recognition of couplers of any gap and length: two guides that cross a rectangle on the layer of coupled guides.

A mark of the size of a golden device that consists of several guides is left to that device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.cards import DeviceCard, Process
from optinc_pdk.cards.device_models import PATH_DIFFERENCE
from optinc_pdk.extract._guide_strips import FAR_CHORDS, GuideStrip, StripRule, nearest, read_strip
from optinc_pdk.extract.device_recognition import ExtractedDevice
from optinc_pdk.extract.faults import Fault, box_center, center_um, moved_fault
from optinc_pdk.extract.golden_devices import GoldenVariant, bounding_box
from optinc_pdk.extract.mask_layout import NM_PER_UM, MaskLayout
from optinc_pdk.extract.polygons import PolygonIndex, box_array, contours, region_polygons
from optinc_pdk.models.coupled_guides import coupled_length_um, distances_um, path_difference_um

COUPLED_GUIDES = "coupled_guides"
"""Model of couplers of any gap and length."""
NO_COUPLER = (
    "marked as coupled guides, but the mark is neither the bounding box of a device nor a rectangle that two guides "
    "cross"
)


@dataclass(frozen=True)
class GuideCouplers:
    """The couplers of a layout that are recognised by their marks.

    Attributes:
        devices: Couplers, sorted by position.
        silicon: Polygons of their guides.
        faults: A fault for each mark that is not over two guides.
    """

    devices: Sequence[ExtractedDevice]
    silicon: Sequence[kdb.Polygon]
    faults: Sequence[Fault]


def coupler_card(process: Process) -> DeviceCard | None:
    """Return the card of couplers of any gap and length; None if the process has none."""
    return next((card for card in process.devices.values() if card.model.name == COUPLED_GUIDES), None)


def coupler_marks(mask: MaskLayout, variants: Sequence[GoldenVariant], process: Process) -> list[kdb.Polygon]:
    """Return the merged marks of coupled guides, sorted, without those of the size of a device of several guides.

    There are none if the process has no couplers of any gap and length.
    """
    if "coupled" not in mask.layers or coupler_card(process) is None:
        return []
    drawn = mask.region("coupled")
    if drawn.is_empty():
        return []
    boxes = [bounding_box(variant.core) for variant in variants if len(variant.core) > 1]
    golden = {(box.width(), box.height()) for box in boxes}
    marks = region_polygons(drawn.merged())
    sizes = [(mark.bbox().width(), mark.bbox().height()) for mark in marks]
    return sorted(mark for mark, size in zip(marks, sizes, strict=True) if not (mark.is_box() and size in golden))


def find_couplers(
    marks: Sequence[kdb.Polygon], core: kdb.Region, taken: kdb.Region, rule: StripRule, process: Process
) -> GuideCouplers:
    """Find the couplers of a layout.

    A mark is a coupler if it is a rectangle and two guides of constant width cross its border at right angles, each
    twice, with no other silicon inside. ``core`` is the merged silicon outside blocks, ``taken`` that of other devices.
    """
    card = coupler_card(process)
    if not marks or card is None:
        return GuideCouplers((), (), ())
    devices: list[ExtractedDevice] = []
    silicon: list[kdb.Polygon] = []
    faults: list[Fault] = []
    known: dict[tuple[str, ...], tuple[ExtractedDevice | None, list[Fault]]] = {}
    boxes = box_array(mark.bbox() for mark in marks)
    around = PolygonIndex(region_polygons(core)).overlapping(boxes)
    of_devices = PolygonIndex(region_polygons(taken)).overlapping(boxes)
    for mark, near, others in zip(marks, around, of_devices, strict=True):
        inside = kdb.Region(near) & kdb.Region(mark)
        inside.min_coherence = True
        pieces = sorted(region_polygons(inside.merged()))
        if not mark.is_box() or len(pieces) < 2 or not (kdb.Region(others) & kdb.Region(mark)).is_empty():
            faults.append(Fault("coupled", NO_COUPLER, center_um(mark.bbox())))
            continue
        # equal couplers are measured once
        corner = mark.bbox().p1
        box, local = mark.bbox().moved(-corner.x, -corner.y), [piece.moved(-corner.x, -corner.y) for piece in pieces]
        key = (str(box), *map(str, local))
        if key not in known:
            known[key] = _measured(local, box, rule, card)
        device, wrong = known[key]
        faults += [moved_fault(fault, corner) for fault in wrong]
        if device is not None:
            devices.append(_moved(device, corner))
            silicon += pieces
    return GuideCouplers(devices, silicon, faults)


def _measured(
    pieces: Sequence[kdb.Polygon], mark: kdb.Box, rule: StripRule, card: DeviceCard
) -> tuple[ExtractedDevice | None, list[Fault]]:
    """Return the coupler of some silicon under a mark, None if it is not that of a coupler, and faults."""
    strips, faults = _strips(pieces, mark, rule)
    return (_device(strips[0], strips[1], mark, rule, card) if len(strips) == 2 else None), faults


def _moved(device: ExtractedDevice, by: kdb.Point) -> ExtractedDevice:
    """Return a device displaced by a vector in nm."""
    center = device.center[0] + by.x, device.center[1] + by.y
    return replace(device, center=center, edges=device.edges + np.array([by.x, by.y]))


def _strips(pieces: Sequence[kdb.Polygon], mark: kdb.Box, rule: StripRule) -> tuple[list[GuideStrip], list[Fault]]:
    """Return the two guides within a mark, and faults; no guides if the silicon is not that of a coupler."""
    outline = contours(pieces)
    ends = [_ends(outline.ring(number), mark, rule.width) for number in range(len(pieces))]
    for piece, found in zip(pieces, ends, strict=True):
        if piece.holes() or len(found) > 2:
            text = f"coupled guides are joined: silicon with {len(found)} ends and {piece.holes()} holes under a mark"
            return [], [Fault("coupled_guides", text, center_um(piece.bbox()))]
        if len(found) < 2:
            times = f"{len(found)} times with a width of {rule.width} nm"
            text = f"a coupled guide ends under its mark: it crosses the border at right angles {times}, needed are 2"
            return [], [Fault("coupled_end", text, center_um(piece.bbox()))]
    if len(pieces) > 2:
        text = f"{len(pieces)} guides under one mark of coupled guides, needed are 2"
        return [], [Fault("coupled_guides", text, center_um(mark))]
    strips, faults = [], []
    for number, (piece, found) in enumerate(zip(pieces, ends, strict=True)):
        strip, fault = read_strip(piece, outline.ring(number), found, rule)
        strips.append(strip)
        if fault is not None:
            faults.append(fault)
    return strips, faults


def _ends(ring: Ints, mark: kdb.Box, width: int) -> list[int]:
    """Return the numbers of the edges of a polygon that lie on the border of a mark and have the width of a guide."""
    after = np.roll(ring, -1, axis=0)
    found: list[int] = []
    for axis, sides in ((0, (mark.left, mark.right)), (1, (mark.bottom, mark.top))):
        long = np.abs(after[:, 1 - axis] - ring[:, 1 - axis]) == width
        for side in sides:
            found += np.flatnonzero(long & (ring[:, axis] == side) & (after[:, axis] == side)).tolist()
    return sorted(found)


def _device(one: GuideStrip, two: GuideStrip, mark: kdb.Box, rule: StripRule, card: DeviceCard) -> ExtractedDevice:
    """Return the device of two guides under a mark."""
    edges = np.concatenate([one.ends, two.ends])
    clockwise = _clockwise(edges.mean(axis=1), mark)
    # o1 and o4 are the ends of one guide: 0 and 1 are those of the first, 2 and 3 those of the second
    if clockwise[0] // 2 != clockwise[3] // 2:
        clockwise = clockwise[1:] + clockwise[:1]
    strips = (one, two) if clockwise[0] < 2 else (two, one)
    lines = [_centre_line(strip) / NM_PER_UM for strip in strips]
    keys = ("reference_gap_um", "decay_um")
    settings = {
        "gap_um": _gap_um(one, two),
        "coupled_length_um": coupled_length_um(
            lines[0], lines[1], rule.width / NM_PER_UM, *(card.parameter(key) for key in keys)
        ),
        PATH_DIFFERENCE: path_difference_um(lines[0], lines[1], card.parameter("decay_um")),
        "guide_1_um": strips[0].sides.length_um,
        "guide_2_um": strips[1].sides.length_um,
    }
    return ExtractedDevice(card.name, box_center(mark), edges[clockwise], (True,) * 4, settings)


def _clockwise(points: Floats, mark: kdb.Box) -> list[int]:
    """Return the order of points on the border of a box, clockwise from its lower left corner."""

    left, low, right, high = (float(side) for side in box_array([mark])[0])

    def way(point: Floats) -> float:
        """Length of the border up to a point."""
        x, y = map(float, point)
        if x == left:
            return y - low
        if y == high:
            return high - low + x - left
        if x == right:
            return high - low + right - left + high - y
        return 2 * (high - low) + right - left + right - x

    return sorted(range(len(points)), key=lambda number: way(points[number]))


def _centre_line(strip: GuideStrip) -> Floats:
    """Return the centre line (n, 2) of a guide in nm: midpoints between corners of one side and the other side."""
    left, right = strip.sides.left, strip.sides.right[::-1]
    # guides are at most a few turns long
    _, chord, share = nearest(left, right, FAR_CHORDS)
    opposite = right[chord] + share[:, None] * (right[chord + 1] - right[chord])
    return np.asarray((left + opposite) / 2.0)


def _gap_um(one: GuideStrip, two: GuideStrip) -> float:
    """Return the smallest distance of two guides in µm."""
    sides = [[strip.sides.left, strip.sides.right] for strip in (one, two)]
    pairs = [(a.astype(float), b.astype(float)) for a in sides[0] for b in sides[1]]
    return min(float(min(distances_um(a, b).min(), distances_um(b, a).min())) for a, b in pairs) / NM_PER_UM
