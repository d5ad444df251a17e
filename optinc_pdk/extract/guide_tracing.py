"""Tracing of guides: strips of silicon of constant width between exactly two ports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.extract.contours import Contours, EdgeIndex, contours
from optinc_pdk.extract.device_matching import ExtractedDevice
from optinc_pdk.extract.faults import Fault, center_um, point_um
from optinc_pdk.extract.golden_devices import GoldenVariant
from optinc_pdk.extract.guide_chains import GuideStrip, PlacedStrips, join_strips, read_strip
from optinc_pdk.extract.guide_strips import StripRule, split_sides, turns_deg
from optinc_pdk.extract.mask_layout import NM_PER_UM
from optinc_pdk.extract.silicon_checks import describe_bodies
from optinc_pdk.extract.spatial_index import PolygonIndex, box_array, region_polygons

# Strips with their fault, if any, by their points and the numbers of their end edges.
StripCache: TypeAlias = dict[tuple[bytes, int, int], tuple[GuideStrip, Fault | None]]


@dataclass(frozen=True)
class OpticalNets:
    """Optical nets between ports of devices.

    Attributes:
        ports: (n, 2) numbers of the joined ports. Optical ports are numbered consecutively, device by device.
        length_um: (n,) lengths of the guides in µm, 0 where two devices touch.
        segments: Segments of the guides.
        net: (s,) number of the net of each segment.
        faults: Faults of silicon that is neither a device nor a guide.
    """

    ports: Ints
    length_um: Floats
    segments: PlacedStrips
    net: Ints
    faults: list[Fault]

    def joined_by(self, devices: Sequence[ExtractedDevice], guides: PlacedStrips) -> OpticalNets:
        """Return these nets together with further ones, sorted by the number of their first port.

        Args:
            devices: All devices, in the order in which their ports are numbered.
            guides: Guides from port to port.
        """
        _, guided, index = _port_index(devices)
        ends = guides.ends
        # the edge of a device's port has the opposite direction
        further = guided[index.find(ends[..., 1, :], ends[..., 0, :])] if len(ends) else ends[:, :, 0, 0]
        ports = np.sort(np.concatenate([self.ports, further.reshape(-1, 2)]), axis=1)
        order = np.argsort(ports[:, 0], kind="stable")
        net = np.concatenate([self.net, np.arange(len(self.ports), len(ports))])
        return OpticalNets(
            ports[order],
            np.concatenate([self.length_um, guides.length_um])[order],
            self.segments + guides,
            np.argsort(order)[net],
            self.faults,
        )


def _port_index(devices: Sequence[ExtractedDevice]) -> tuple[Ints, Ints, EdgeIndex]:
    """Return (p, 2, 2) the edges of all ports, the numbers of the guide ports, and an index of their edges."""
    edges = np.concatenate([np.zeros((0, 2, 2), dtype=np.int64), *(device.edges for device in devices)])
    guided = np.flatnonzero(np.array([flag for device in devices for flag in device.guided], dtype=bool))
    return edges, guided, EdgeIndex(edges[guided, 0], edges[guided, 1])


def trace_guides(
    pieces: Sequence[kdb.Polygon],
    outline: Contours,
    blocks: PlacedStrips,
    devices: Sequence[ExtractedDevice],
    rule: StripRule,
    variants: Sequence[GoldenVariant],
) -> OpticalNets:
    """Find the guides between the ports of devices.

    Args:
        pieces: Polygons of the silicon outside blocks and devices.
        outline: Contours of ``pieces``.
        blocks: Segments of guides in blocks that have a free end at an opening of their block.
        devices: All devices, including phase shifters.
        rule: Dimensions of a guide.
        variants: Golden devices, for messages about silicon that resembles one.

    Returns:
        Optical nets between the ports of the devices, and faults.
    """
    edges, guided, index = _port_index(devices)
    # an edge of adjacent silicon has the opposite direction
    touching = index.find(edges[guided, 1], edges[guided, 0])
    direct = [(int(guided[a]), int(guided[b])) for a, b in enumerate(touching.tolist()) if a < b]
    cache: StripCache = {}
    number, loose = _segments(pieces, outline, blocks, index, rule, cache)
    segments = blocks + loose
    chains = join_strips(segments, guided, index, rule)
    # strips in no chain are merged with other silicon and checked piece by piece
    chained = chains.guide >= 0
    rest = kdb.Region(segments.polygons(np.flatnonzero(~chained[: len(blocks.strip)])))
    used = np.zeros(len(pieces), dtype=bool)
    used[number] = chained[len(blocks.strip) :]
    remaining = [pieces[i] for i in np.flatnonzero(~used).tolist()]
    if not rest.is_empty():
        rest += kdb.Region(remaining)
        rest.min_coherence = True
        remaining = sorted(region_polygons(rest.merged()))
    ports, whole, faults = _piecewise(remaining, guided, index, rule, variants, cache)
    return OpticalNets(
        np.concatenate([chains.ports, ports, np.array(direct, dtype=np.int64).reshape(-1, 2)]),
        np.concatenate([chains.length_um, whole.length_um, np.zeros(len(direct))]),
        segments[np.flatnonzero(chained)] + whole,
        np.concatenate([chains.guide[chained], len(chains.ports) + np.arange(len(ports))]),
        faults,
    )


def _segments(
    pieces: Sequence[kdb.Polygon],
    outline: Contours,
    blocks: PlacedStrips,
    index: EdgeIndex,
    rule: StripRule,
    cache: StripCache,
) -> tuple[Ints, PlacedStrips]:
    """Return the numbers of the pieces that are strips between ports or free ends of blocks, and these as segments."""
    free = blocks.ends.reshape(-1, 2, 2)
    meets = index.find(outline.ends, outline.points) >= 0
    meets |= EdgeIndex(free[:, 0], free[:, 1]).find(outline.ends, outline.points) >= 0
    numbers: list[int] = []
    strips: dict[GuideStrip, int] = {}
    strip_numbers: list[int] = []
    for number, ends in enumerate(_ends_by_piece(outline, meets)):
        if len(ends) == 2 and not outline.holes[number]:
            strip, fault = _read_cached(pieces[number], outline, number, ends, rule, cache)
            if fault is None:
                numbers.append(number)
                strips.setdefault(strip, len(strips))
                strip_numbers.append(strips[strip])
    chosen = np.array(numbers, dtype=np.int64)
    return chosen, PlacedStrips(
        list(strips), np.array(strip_numbers, dtype=np.int64), outline.points[outline.first[chosen]]
    )


def _ends_by_piece(outline: Contours, meets: Bools) -> list[Ints]:
    """Return, for each piece, the numbers of its edges for which ``meets`` is true."""
    where = np.flatnonzero(meets)
    count = len(outline.holes)
    return np.split(where, np.searchsorted(outline.polygon[where], np.arange(1, count))) if count else []


def _piecewise(
    pieces: Sequence[kdb.Polygon],
    guided: Ints,
    index: EdgeIndex,
    rule: StripRule,
    variants: Sequence[GoldenVariant],
    cache: StripCache,
) -> tuple[Ints, PlacedStrips, list[Fault]]:
    """Return the ports (n, 2) that pieces of silicon join, these pieces, and faults."""
    outline = contours(pieces)
    meets = index.find(outline.ends, outline.points)
    by_piece = _ends_by_piece(outline, meets >= 0)
    joined: list[tuple[int, int]] = []
    strips: list[GuideStrip] = []
    shift: list[Ints] = []
    faults: list[Fault] = []
    faulty: list[int] = []
    for number, ends in enumerate(by_piece):
        if len(ends) != 2 or outline.holes[number]:
            faulty.append(number)
            continue
        strip, fault = _read_cached(pieces[number], outline, number, ends, rule, cache)
        joined.append((int(guided[meets[ends[0]]]), int(guided[meets[ends[1]]])))
        strips.append(strip)
        shift.append(outline.points[outline.first[number]])
        if fault is not None:
            faulty.append(number)
            x, y = (np.array(fault.position_um) + shift[-1] / NM_PER_UM).tolist()
            faults.append(Fault(fault.kind, fault.message, (x, y)))
    if faulty:
        faults = _describe_faults(faults, faulty, by_piece, pieces, outline, rule, variants)
    placed = PlacedStrips(strips, np.arange(len(strips)), np.array(shift, dtype=np.int64).reshape(-1, 2))
    return np.array(joined, dtype=np.int64).reshape(-1, 2), placed, faults


def _read_cached(
    piece: kdb.Polygon, outline: Contours, number: int, ends: Ints, rule: StripRule, cache: StripCache
) -> tuple[GuideStrip, Fault | None]:
    """Return a piece as a strip at the origin, and its fault; equal pieces are checked once."""
    ring = outline.ring(number)
    local = ring - ring[0]
    local_ends = (ends - outline.first[number]).tolist()
    key = (local.tobytes(), *local_ends)
    if key not in cache:
        cache[key] = read_strip(piece.moved(-int(ring[0, 0]), -int(ring[0, 1])), local, local_ends, rule)
    return cache[key]


def _describe_faults(
    faults: list[Fault],
    faulty: list[int],
    by_piece: Sequence[Ints],
    pieces: Sequence[kdb.Polygon],
    outline: Contours,
    rule: StripRule,
    variants: Sequence[GoldenVariant],
) -> list[Fault]:
    """Return the faults of pieces that are not guides; for a piece that contains a body, only that of the body."""
    body_faults, bodies = describe_bodies(kdb.Region([pieces[number] for number in faulty]), variants, rule.body)
    index = PolygonIndex(bodies)
    other_faults = [fault for fault in faults if not _inside_any(fault, bodies)]
    for number in faulty:
        ends = by_piece[number]
        piece = pieces[number]
        if len(ends) == 2 and not piece.holes():
            continue
        near = index.overlapping(box_array([piece.bbox()]))[0]
        if near and not (kdb.Region(near) & kdb.Region(piece)).is_empty():
            continue
        other_faults += _ends_faults(outline, number, ends, piece, rule)
    return body_faults + other_faults


def _inside_any(fault: Fault, bodies: Sequence[kdb.Polygon]) -> bool:
    """Whether a fault lies inside one of some bodies."""
    x, y = (round(value * NM_PER_UM) for value in fault.position_um)
    return any(body.inside(kdb.Point(x, y)) for body in bodies)


def _ends_faults(outline: Contours, number: int, ends: Ints, piece: kdb.Polygon, rule: StripRule) -> list[Fault]:
    """Return the faults of a piece with holes or without exactly two ends."""
    if piece.holes() or len(ends) > 2:
        text = f"guides are joined: a piece of silicon with {len(ends)} ends and {piece.holes()} holes"
        return [Fault("branch", text, point_um(_corner(outline, number, ends)))]
    if not len(ends):
        text = f"silicon of {piece.area() / NM_PER_UM**2:.3f} µm² belongs to no device"
        return [Fault("stray", text, center_um(piece.bbox()))]
    ring, end = outline.ring(number), int(ends[0]) - int(outline.first[number])
    far = _opposite(ring, end)
    text = "guide with one end: cut, or not aligned to a port"
    faults = [Fault("dangling", text, point_um(ring[far]))]
    # a guide of another width fits no port of a device, so its step is named, too; the two sides of a guide to its free
    # end have about the same length
    candidates = (far - 1) % len(ring), far
    split = [split_sides(ring, end, f) if end < f else split_sides(ring, f, end).back for f in candidates]
    strips = [sides for sides in split if min(len(sides.left), len(sides.right)) > 1]
    sides = min(strips, key=lambda sides: abs(sides.turned), default=None)
    step = None if sides is None else sides.width_fault(rule)
    if step is not None:
        faults.append(step)
    return faults


def _corner(outline: Contours, number: int, ends: Ints) -> Ints:
    """Return the sharpest corner of a piece that is not at one of its ends."""
    edges = np.arange(outline.first[number], outline.first[number + 1])
    legs = (outline.ends[edges] - outline.points[edges]).astype(float)
    turn = np.zeros(len(edges))
    turn[outline.follows[edges] - edges[0]] = np.abs(turns_deg(legs, legs[outline.follows[edges] - edges[0]]))
    at_ends = np.concatenate([ends, outline.follows[ends]]) - edges[0]
    turn[at_ends] = 0
    return np.asarray(outline.points[edges[int(np.argmax(turn))]], dtype=np.int64)


def _opposite(ring: Ints, edge: int) -> int:
    """Return the number of the vertex of a ring that is closest to half the ring's length away from an edge."""
    away = np.roll(ring, -edge - 1, axis=0)
    along = np.cumsum(np.hypot(*np.diff(away, axis=0).astype(float).T))
    return (edge + 2 + int(np.argmin(np.abs(along - along[-1] / 2)))) % len(ring)
