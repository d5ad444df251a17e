"""Checks of silicon: what is missing inside devices, and what is too close to devices or to guides that pass them.

Within some distance of a device, design rules exempt guides from their usual space, because its arms are coupled there.
Other guides, and arms that return, may pass there side by side, for as long as the device or a row of devices is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.extract._guide_strips import GuideStrip, PlacedStrips, StripRule
from optinc_pdk.extract._guide_tracing import OpticalNets
from optinc_pdk.extract.box_pairs import OUTWARDS, crossed_lines, line_boxes, touching_pairs
from optinc_pdk.extract.device_recognition import DevicePlacement, ExtractedDevice
from optinc_pdk.extract.faults import Fault, area_text, center_um, moved_fault, point_um
from optinc_pdk.extract.golden_devices import GoldenVariant
from optinc_pdk.extract.mask_layout import NM_PER_UM
from optinc_pdk.extract.polygons import Contours, EdgeIndex, PolygonIndex, box_array, contours, region_polygons
from optinc_pdk.models.coupled_guides import nearest_edges


def check_inside(taken: kdb.Region, core: kdb.Region) -> list[Fault]:
    """Return a fault for every place where silicon of recognised devices, ``taken``, is missing in the layout."""
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
    space of its arms. ``silicon`` are the polygons of all silicon, with that of the devices, which may touch but not
    overlap.
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
        gap = gap_nm(one.points, one.ends, device.points, device.ends)
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
    """Return the places about the origin of a device's cell where other silicon is within ``space_nm``.

    These are its bounding box and what is within this distance of its silicon, without the silicon itself and without
    the places in front of its guide ports. Corners are included that are farther away.
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


def gap_nm(points: Ints, ends: Ints, other_points: Ints, other_ends: Ints) -> float:
    """Return the distance in nm of two outlines that do not cross, given their edges (n, 2) and (m, 2)."""
    if not len(points) or not len(other_points):
        return math.inf
    start, other = points.astype(float), other_points.astype(float)
    both = nearest_edges(start, other, other_ends - other), nearest_edges(other, start, ends - start)
    return min(float(distances.min()) for distances, _, _ in both)


# Sides are measured at places that are at most this far apart.
PART_NM = 5000


def check_separation(
    nets: OpticalNets,
    devices: Sequence[ExtractedDevice],
    placements: Sequence[DevicePlacement],
    outline: Contours,
    block_edges: Callable[[Ints], list[Ints]],
    rule: StripRule,
) -> list[Fault]:
    """Return a fault for every guide that is too close to other silicon where it passes a device.

    A guide may be closer within ``rule.joined`` of the ports at its two ends.

    Args:
        nets: Guides between devices.
        devices: All devices; the first ones are the golden devices, as in ``placements``.
        placements: Golden devices.
        outline: Contours of the merged silicon outside blocks, with devices.
        block_edges: Function from boxes (m, 4) to the edges (n, 2, 2) of the placed blocks that touch them.
        rule: Dimensions of a guide and of its surroundings.
    """
    windows = box_array(placement.box.enlarged(rule.joined) for placement in placements)
    ports = np.concatenate([np.zeros((0, 2, 2), dtype=np.int64), *(device.edges for device in devices)])[nets.ports]
    # (n, 2, 4) boxes around the port edges at both ends of the nets
    arms = np.concatenate([ports.min(axis=2), ports.max(axis=2)], axis=2) + rule.joined * OUTWARDS
    beyond = np.flatnonzero(~_inside(nets.segments.boxes, arms[nets.net]))
    segment = beyond[np.unique(touching_pairs(nets.segments.boxes[beyond], windows)[:, 0])]
    if not len(segment):
        return []
    number, points, outward = _sides(nets.segments[segment])
    net = nets.net[segment[number]]
    passing = np.flatnonzero(~_inside(np.tile(points, 2), arms[net]))
    point, window = touching_pairs(np.tile(points[passing], 2), windows).T
    chosen, first = np.unique(passing[point], return_index=True)
    if not len(chosen):
        return []
    beside = window[first]
    around = np.tile(points[chosen], 2) + rule.space * OUTWARDS
    edges = np.stack([outline.points, outline.ends], axis=1)
    inner = block_edges(around)
    if inner:
        edges = np.concatenate([edges, *inner])
        # where two blocks meet, each has an edge across the guide
        edges = edges[EdgeIndex(edges[:, 0], edges[:, 1]).find(edges[:, 1], edges[:, 0]) < 0]
    gap = _gaps(points[chosen], outward[chosen], edges, rule)
    faults: list[Fault] = []
    for guide in np.unique(net[chosen[gap < np.inf]]).tolist():
        among = np.flatnonzero(net[chosen] == guide)
        worst = among[int(np.argmin(gap[among]))]
        device = placements[int(beside[worst])].variant.name
        text = (
            f"guide {gap[worst] / NM_PER_UM:.3f} µm beside other silicon, needed are {rule.space / NM_PER_UM:g} µm; "
            f"only arms of a device, here {device}, may be closer, up to {rule.joined / NM_PER_UM:g} µm from its port; "
            "move the guide away"
        )
        faults.append(Fault("foreign", text, point_um(points[chosen[worst]])))
    return faults


def _inside(boxes: Ints, others: Ints) -> Bools:
    """Return (n,) whether a box (n, 4) lies in any of some others (n, m, 4)."""
    inside = (boxes[:, None, :2] >= others[..., :2]) & (boxes[:, None, 2:] <= others[..., 2:])
    return np.asarray(np.any(np.all(inside, axis=2), axis=1))


def _sides(segments: PlacedStrips) -> tuple[Ints, Ints, Floats]:
    """Return places on the sides of segments: the number of the segment, the place in nm, the outward normal."""
    numbers, points, outward = [], [], []
    order = np.argsort(segments.strip, kind="stable")
    present, first = np.unique(segments.strip[order], return_index=True)
    for strip, members in zip(present.tolist(), np.split(order, first[1:]), strict=True):
        middle, normal = _places(segments.strips[strip])
        numbers.append(np.repeat(members, len(middle)))
        points.append((middle + segments.shift[members][:, None]).reshape(-1, 2))
        outward.append(np.tile(normal, (len(members), 1)))
    return np.concatenate(numbers), np.concatenate(points), np.concatenate(outward)


def _places(strip: GuideStrip) -> tuple[Ints, Floats]:
    """Return places (n, 2) in nm on both sides of a strip, at regular distances, and the outward normals there."""
    points, outward = [], []
    for side in (strip.sides.left, strip.sides.right):
        leg = np.diff(side, axis=0).astype(float)
        length = np.hypot(*leg.T)
        end = np.cumsum(length)
        count = math.ceil(end[-1] / PART_NM)
        at = (np.arange(count) + 0.5) / count * end[-1]
        edge = np.searchsorted(end, at)
        share = 1 - (end[edge] - at) / length[edge]
        points.append(np.round(side[edge] + share[:, None] * leg[edge]).astype(np.int64))
        outward.append(np.stack([-leg[edge, 1], leg[edge, 0]], axis=1) / length[edge, None])
    return np.concatenate(points), np.concatenate(outward)


def _gaps(points: Ints, outward: Floats, silicon: Ints, rule: StripRule) -> Floats:
    """Return the distance (n,) in nm from points (n, 2) on sides of guides to the nearest edge (m, 2, 2) facing them.

    It is infinite where no edge is too close. ``outward`` (n, 2) are the normals of the sides.
    """
    around = np.tile(points, 2) + rule.space * OUTWARDS
    point, edge = touching_pairs(around, line_boxes(silicon.reshape(-1, 4))).T
    near, edge = np.unique(edge, return_inverse=True)
    silicon = silicon[near]
    start, leg = silicon[edge, 0].astype(float), (silicon[edge, 1] - silicon[edge, 0]).astype(float)
    away = points[point] - start
    length = np.hypot(*leg.T)
    share = np.clip(np.sum(away * leg, axis=1) / length**2, 0.0, 1.0)
    across = share[:, None] * leg - away
    gap = np.hypot(*across.T)
    normal = np.stack([-leg[:, 1], leg[:, 0]], axis=1) / length[:, None]
    least = np.cos(np.radians(rule.opposite_deg))
    opposite = -np.sum(outward[point] * normal, axis=1) >= least
    before = np.minimum(np.sum(across * outward[point], axis=1), -np.sum(across * normal, axis=1)) >= least * gap
    # rounding moves slanted sides
    most = rule.space - rule.tolerance * np.all(leg != 0, axis=1)
    close = np.flatnonzero(opposite & before & (gap > 0) & (gap < most))
    # the two sides of a guide that bends left, then right, face each other through the guide's own silicon
    lines = np.concatenate([points[point], np.round(points[point] + across).astype(np.int64)], axis=1)[close]
    close = close[~crossed_lines(lines, silicon.reshape(-1, 4))]
    nearest = np.full(len(points), np.inf)
    np.minimum.at(nearest, point[close], gap[close])
    return nearest
