"""Check of guides that pass a device, where design rules let guides be close together.

Within some distance of a device, design rules exempt guides from their usual space, because its arms are coupled there.
Other guides, and arms that return, may pass there side by side, for as long as the device or a row of devices is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.extract.box_pairs import OUTWARDS, crossed_lines, line_boxes, touching_pairs
from optinc_pdk.extract.contours import Contours, EdgeIndex
from optinc_pdk.extract.device_matching import DevicePlacement, ExtractedDevice
from optinc_pdk.extract.faults import Fault, point_um
from optinc_pdk.extract.guide_chains import GuideStrip, PlacedStrips
from optinc_pdk.extract.guide_strips import StripRule
from optinc_pdk.extract.guide_tracing import OpticalNets
from optinc_pdk.extract.mask_layout import NM_PER_UM
from optinc_pdk.extract.placed_blocks import PlacedBlocks
from optinc_pdk.extract.spatial_index import box_array

# Sides are measured at places that are at most this far apart.
PART_NM = 5000


def check_separation(
    nets: OpticalNets,
    devices: Sequence[ExtractedDevice],
    placements: Sequence[DevicePlacement],
    outline: Contours,
    blocks: PlacedBlocks,
    rule: StripRule,
) -> list[Fault]:
    """Return a fault for every guide that is too close to other silicon where it passes a device.

    A guide may be closer within ``rule.joined`` of the ports at its two ends.

    Args:
        nets: Guides between devices.
        devices: All devices; the first ones are the golden devices, as in ``placements``.
        placements: Golden devices.
        outline: Contours of the merged silicon outside blocks, with devices.
        blocks: Placed blocks.
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
    inner = blocks.edges_near(around)
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
    """Return the distance (n,) in nm to the nearest edge that faces a side; infinite if it is not too close.

    Args:
        points: (n, 2) points on sides of guides in nm.
        outward: (n, 2) normals of the sides.
        silicon: (m, 2, 2) edges in nm.
        rule: Dimensions of a guide and of its surroundings.
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
