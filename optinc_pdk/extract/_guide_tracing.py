"""Tracing of guides: strips of silicon of constant width between exactly two ports.

Strips whose ends meet exactly form chains. A meander of a thousand bends is not merged into one polygon: every distinct
strip and joint is checked once, a joint with enough of the guide on both sides to detect a step or a kink.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.extract._guide_strips import (
    FREE_ERROR_NM2,
    MEASURED_NM,
    STRAIGHT_RATIO,
    GuideStrip,
    PlacedStrips,
    StripRule,
    StripSides,
    WidthErrors,
    mean_width_fault,
    read_strip,
    split_sides,
    turns_deg,
)
from optinc_pdk.extract._lookalikes import describe_bodies
from optinc_pdk.extract.device_recognition import ExtractedDevice
from optinc_pdk.extract.faults import Fault, center_um, point_um
from optinc_pdk.extract.golden_devices import GoldenVariant
from optinc_pdk.extract.mask_layout import NM_PER_UM
from optinc_pdk.extract.polygons import (
    NOT_FOUND,
    Contours,
    EdgeIndex,
    PolygonIndex,
    box_array,
    contours,
    region_polygons,
)

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
        """Return these nets together with guides from port to port, sorted by the number of their first port."""
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
    """Find the guides between the ports of devices, and faults of silicon that is neither.

    Args:
        pieces: Polygons of the silicon outside blocks and devices.
        outline: Contours of ``pieces``.
        blocks: Segments of guides in blocks that have a free end at an opening of their block.
        devices: All devices, including phase shifters.
        rule: Dimensions of a guide.
        variants: Golden devices, for messages about silicon that resembles one.
    """
    edges, guided, index = _port_index(devices)
    # an edge of adjacent silicon has the opposite direction
    touching = index.find(edges[guided, 1], edges[guided, 0])
    direct = [(int(guided[a]), int(guided[b])) for a, b in enumerate(touching.tolist()) if a < b]
    cache: StripCache = {}
    number, loose = _segments(pieces, outline, blocks, index, rule, cache)
    segments = blocks + loose
    chain_ports, chain_length_um, guide = join_strips(segments, guided, index, rule)
    # strips in no chain are merged with other silicon and checked piece by piece
    chained = guide >= 0
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
        np.concatenate([chain_ports, ports, np.array(direct, dtype=np.int64).reshape(-1, 2)]),
        np.concatenate([chain_length_um, whole.length_um, np.zeros(len(direct))]),
        segments[np.flatnonzero(chained)] + whole,
        np.concatenate([guide[chained], len(chain_ports) + np.arange(len(ports))]),
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


# Length of guide that is checked on both sides of a joint, in widths of a guide.
REACH_WIDTHS = 4
# Length of a straight guide from which the bends on both sides of it are measured apart.
LONG_NM = 12_000
# Relative error that rounding may cause in a sum of width errors.
ROUNDING_SHARE = 1e-6


def join_strips(segments: PlacedStrips, ports: Ints, index: EdgeIndex, rule: StripRule) -> tuple[Ints, Floats, Ints]:
    """Join segments without faults whose ends meet into guides from port to port, whose joints have no step or kink.

    Segments that are part of no such guide may belong to other silicon. ``ports`` is the port number of each edge in
    ``index``, of the edges at ports with the device's silicon to the right.

    Returns:
        (n, 2) numbers of the two ports that each guide joins; (n,) its length in µm; and (s,) number of the guide that
        each segment is part of, -1 if it is part of none.
    """
    ends = segments.ends
    # an edge of adjacent silicon has the opposite direction
    first, second = ends[..., 1, :], ends[..., 0, :]
    port = index.find(first, second).reshape(-1)
    start = np.flatnonzero(port >= 0)
    end, offset, passed = _paths(start, _mates(ends.reshape(-1, 2, 2), port >= 0), port)
    # code of a strip and the end at which the guide enters it; equal guides are checked once
    entered = segments.strip[passed >> 1] * 2 + (passed & 1)
    guides = _Guides(segments, rule)
    checked: dict[bytes, float | None] = {}
    valid = np.zeros(len(start), dtype=bool)
    lengths: list[float] = []
    # every guide is found from both of its ends
    for number in np.flatnonzero(end >= start).tolist():
        codes = entered[offset[number] : offset[number + 1]]
        key = codes.tobytes()
        if key not in checked:
            checked[key] = guides.length_um(codes)
        if (length := checked[key]) is not None:
            valid[number] = True
            lengths.append(length)
    guide, path = np.full(len(ends), NOT_FOUND, dtype=np.int64), np.repeat(np.arange(len(start)), np.diff(offset))
    guide[passed[valid[path]] >> 1] = (np.cumsum(valid) - 1)[path[valid[path]]]
    pairs = np.stack([port[start[valid]], port[end[valid]]], axis=1)
    return ports[pairs] if len(pairs) else pairs, np.array(lengths), guide


def _mates(ends: Ints, at_port: Bools) -> Ints:
    """Return (e,) the end that meets each end (e, 2, 2), -1 where there is none."""
    free = np.flatnonzero(~at_port)
    matches = EdgeIndex(ends[free, 0], ends[free, 1]).find(ends[:, 1], ends[:, 0])
    mate = np.append(free, NOT_FOUND)[matches]
    # only pairs, so that a path cannot return to an end that it has passed
    paired = (mate >= 0) & ~at_port & (mate[mate] == np.arange(len(ends)))
    return np.where(paired, mate, NOT_FOUND)


def _paths(start: Ints, mate: Ints, port: Ints) -> tuple[Ints, Ints, Ints]:
    """Follow paths from ends (n,) at ports to other ports, all in parallel, one segment at a time.

    ``mate`` (e,) is the end that meets each end, ``port`` (e,) the port at each end, -1 where there is none.

    Returns:
        (n,) the last end of each path, -1 if it does not end at a port; (n + 1,) offsets of the paths in the third
        array; and (k,) the ends at which the paths enter segments.
    """
    last = np.full(len(start), NOT_FOUND, dtype=np.int64)
    number, at = np.arange(len(start)), start
    numbers, passed = [number[:0]], [start[:0]]
    # mates are pairs, so no path enters an end twice, and the loop ends
    while len(at):
        numbers.append(number)
        passed.append(at)
        leaving = at ^ 1
        arrived = port[leaving] >= 0
        last[number[arrived]] = leaving[arrived]
        further = ~arrived & (mate[leaving] >= 0)
        number, at = number[further], mate[leaving[further]]
    owner = np.concatenate(numbers)
    order = np.argsort(owner, kind="stable")
    return last, np.searchsorted(owner[order], np.arange(len(start) + 1)), np.concatenate(passed)[order]


class _Guides:
    """Checks and lengths of guides, given by codes of their strips: twice the strip's number plus the end it enters.

    Long guides consist of few distinct strips, joints and bends, so each of these is measured once.
    """

    def __init__(self, segments: PlacedStrips, rule: StripRule) -> None:
        self.strips, self.rule = segments.strips, rule
        self.reach = REACH_WIDTHS * rule.width
        self.shapes: list[StripSides] = []
        self.short: list[bool] = []
        self.numbers: dict[tuple[bytes, bytes], int] = {}
        self.smooth: dict[tuple[tuple[int, ...], tuple[int, ...]], bool] = {}
        self.exact: dict[tuple[bytes, int, int], list[float]] = {}

    def length_um(self, codes: Ints) -> float | None:
        """Return the length in µm of a guide of strips of codes (n,); None if its mean width or a joint is wrong."""
        if not self.are_smooth(codes) or self.has_wrong_width(codes):
            return None
        straight = self.straight_nm[codes]
        borders = np.flatnonzero(np.diff(np.concatenate([[False], straight > 0, [False]]).astype(np.int8)))
        along = np.concatenate([[0.0], np.cumsum(straight)])
        long = along[borders[1::2]] - along[borders[::2]] >= LONG_NM
        begin, stop = borders[::2][long], borders[1::2][long]
        runs = along[stop] - along[begin]
        # a straight run that is long compared to the chords beside it counts as straight, however long it is
        ahead = np.append(self.enough_nm[codes], 0.0)[stop]
        behind = np.append(self.enough_nm[codes ^ 1], 0.0)[begin - 1]
        enough = np.maximum(ahead, behind)
        if np.any(runs < enough):
            return _joined([self.strips[code >> 1].entered(code & 1) for code in codes.tolist()]).length_um
        # bends between straight runs, the first and the last of which may be missing
        first, last = np.append(0, stop), np.append(begin, len(codes))
        ends = np.stack([np.append(0, enough), np.append(enough, 0)]).astype(np.int64)
        parts, raw, size = [2 * float(np.sum(runs))], codes.tobytes(), codes.itemsize
        for one, other, before, after in zip(first.tolist(), last.tolist(), *ends.tolist(), strict=True):
            if one < other:
                key = raw[one * size : other * size], before, after
                if key not in self.exact:
                    self.exact[key] = self._around(codes, one, other, before, after)
                parts += self.exact[key]
        return math.fsum(parts) / (2 * NM_PER_UM)

    def _around(self, codes: Ints, begin: int, end: int, before: int, after: int) -> list[float]:
        """Return what the strips ``begin`` … ``end`` - 1 of a guide add to the length of both sides, as numbers in nm.

        ``before`` and ``after`` are the lengths in nm of the straight guides around them, 0 if there is none.
        """
        strips = [self.strips[code >> 1].entered(code & 1) for code in codes[max(begin - 1, 0) : end + 1].tolist()]
        if before:
            strips[0] = _box(strips[0], before)
        if after:
            strips[-1] = _box(strips[-1], after)
        return [*_exact_sum(_joined(strips).parts_nm), -2.0 * (before + after)]

    @cached_property
    def enough_nm(self) -> Floats:
        """(2 n,) length in nm from which a straight guide counts as straight before a guide enters each strip."""
        chords = [strip.entered(end).first_chords_nm for strip in self.strips for end in (0, 1)]
        return np.ceil(2 * STRAIGHT_RATIO * (np.array(chords, dtype=np.float64) + 3 * MEASURED_NM))

    @cached_property
    def straight_nm(self) -> Floats:
        """(2 n,) length of each strip in nm, by its code, if it is a box along an axis; else 0."""
        lengths = [strip.sides.straight_nm(self.rule) for strip in self.strips]
        return np.repeat(np.array(lengths, dtype=np.float64), 2)

    def has_wrong_width(self, codes: Ints) -> bool:
        """Whether the mean width of a stretch of a guide is wrong, as `mean_width_fault` finds it."""
        rises = self.rises[codes]
        # the right sides are listed from the last strip to the first
        sides = np.stack([rises[:, 0], rises[::-1, 1]], axis=1)
        total, highest, lowest, inside = np.moveaxis(sides, 3, 0)
        before = np.cumsum(total, axis=0) - total
        lows = np.minimum.accumulate(before + lowest, axis=0)
        across = (before + highest)[1:] - lows[:-1]
        rise = max(float(np.max(inside)), float(np.max(across, initial=0.0)))
        if rise <= FREE_ERROR_NM2 * (1 - ROUNDING_SHARE):
            return False
        return mean_width_fault([self._width_errors(code) for code in codes.tolist()], self.rule) is not None

    @cached_property
    def rises(self) -> Floats:
        """(2 n, 2, 2, 4) sums of width errors by code, side, and too wide or too narrow; see `_rise`."""
        rises = np.zeros((len(self.strips), 2, 2, 2, 4))
        # a straight strip along an axis has no errors
        for number in np.flatnonzero(self.straight_nm[::2] == 0).tolist():
            sides = np.array([[_rise(side, sign) for sign in (1, -1)] for side in self.strips[number].width_errors])
            rises[number] = sides, sides[::-1]
        return rises.reshape(-1, 2, 2, 4)

    def _width_errors(self, code: int) -> tuple[WidthErrors, WidthErrors]:
        """The width errors along the left and the right side of a strip, given by its code."""
        there, back = self.strips[code >> 1].width_errors
        return (back, there) if code & 1 else (there, back)

    def are_smooth(self, codes: Ints) -> bool:
        """Whether a guide has no step or kink at the joints of its strips."""
        # leaving a strip, a guide looks back at the end at which it would enter it in the other direction
        ahead, behind = self.shape_of_code[codes], self.shape_of_code[codes ^ 1]
        if not np.any(self.is_short[ahead] | self.is_short[behind]):
            joints = np.unique(behind[:-1] * len(self.shapes) + ahead[1:])
            pairs = (divmod(joint, len(self.shapes)) for joint in joints.tolist())
            return all(self._is_smooth((one,), (other,)) for one, other in pairs)
        count, ahead_of, behind_of = len(codes), ahead.tolist(), behind[::-1].tolist()
        return all(
            self._is_smooth(self._within(behind_of, count - at), self._within(ahead_of, at)) for at in range(1, count)
        )

    @cached_property
    def shape_of_code(self) -> Ints:
        """(2 n,) number of each strip's shape, by its code, near the end at which a guide enters it."""
        codes = range(2 * len(self.strips))
        return np.array([self._shape(code >> 1, code & 1) for code in codes], dtype=np.int64)

    @cached_property
    def is_short(self) -> Bools:
        """Whether each shape is shorter than the reach of a joint; all shapes are numbered before."""
        return np.array(self.short, dtype=np.bool_)

    def _shape(self, strip: int, end: int) -> int:
        """Return the number of a strip's shape near an end, within the reach of a joint."""
        shape = _cut(self.strips[strip].entered(end), self.reach)
        origin = shape.left[0]
        shape = StripSides(shape.left - origin, shape.right - origin)
        key = shape.left.tobytes(), shape.right.tobytes()
        if key not in self.numbers:
            self.numbers[key] = len(self.shapes)
            self.shapes.append(shape)
            self.short.append(bool(np.max(np.ptp(np.concatenate([shape.left, shape.right]), axis=0)) < self.reach))
        return self.numbers[key]

    def _within(self, shapes: Sequence[int], first: int) -> tuple[int, ...]:
        """Return the shapes within reach, starting with one: all up to the first that is not short."""
        last = first
        while self.short[shapes[last]] and last + 1 < len(shapes):
            last += 1
        return tuple(shapes[first : last + 1])

    def _is_smooth(self, behind: tuple[int, ...], ahead: tuple[int, ...]) -> bool:
        """Whether the strips on both sides of a joint, each listed from the joint outwards, form one strip."""
        if (behind, ahead) not in self.smooth:
            back, on = (_joined([self.shapes[number] for number in side]) for side in (behind, ahead))
            back = back.back
            # if a slanted edge continues, the merged guide has one edge instead of two and may round to another length
            legs = ((back.left[-2:], on.left[:2]), (on.right[-2:], back.right[:2]))
            continued = any(_continues(*np.diff(pair, axis=1)[:, 0]) for pair in legs)
            self.smooth[behind, ahead] = not continued and _joined([back, on]).fault(self.rule) is None
        return self.smooth[behind, ahead]


def _cut(sides: StripSides, reach: int) -> StripSides:
    """Shorten a straight strip along an axis to its first part; return any other strip unchanged."""
    if len(sides.left) != 2 or len(sides.right) != 2:
        return sides
    leg = sides.left[1] - sides.left[0]
    length = int(np.max(np.abs(leg)))
    if np.all(leg != 0) or length <= reach or np.any(sides.right[0] - sides.right[1] != leg):
        return sides
    return _box(sides, reach)


def _box(sides: StripSides, length: int) -> StripSides:
    """Return a strip along an axis with another length in nm."""
    leg = sides.left[1] - sides.left[0]
    part = leg // int(np.max(np.abs(leg))) * length
    return StripSides(sides.left[0] + np.array([[0, 0], part]), sides.right[1] + np.array([part, [0, 0]]))


def _joined(parts: Sequence[StripSides]) -> StripSides:
    """Concatenate strips, each moved to the end of the one before."""
    start = np.cumsum([parts[0].left[0], *(part.left[-1] - part.left[0] for part in parts)], axis=0)
    placed = [(part, at - part.left[0]) for part, at in zip(parts, start[:-1], strict=True)]
    first, shift = placed[-1]
    left = [parts[0].left[:1], *(part.left[1:] + by for part, by in placed)]
    right = [first.right[:1] + shift, *(part.right[1:] + by for part, by in reversed(placed))]
    return StripSides(np.concatenate(left), np.concatenate(right))


def _rise(errors: WidthErrors, sign: int) -> tuple[float, float, float, float]:
    """Return sums of the errors that make a strip too wide (sign 1) or too narrow (-1), along one side.

    Returns:
        The sum over the strip; the largest sum from its start to one of its places; the smallest such sum, at most 0;
        and the largest sum between two of its places. Those of a guide of many strips follow from them.
    """
    sums = np.concatenate([[0.0], np.cumsum(sign * errors.error - errors.allowed)])
    inside = float(np.max(sums - np.minimum.accumulate(sums)))
    return float(sums[-1]), float(np.max(sums[1:])), float(np.min(sums)), inside


def _exact_sum(parts: Floats) -> list[float]:
    """Return a few numbers whose sum is that of many, without any rounding."""
    rest, result = parts.tolist(), []
    while (rounded := math.fsum(rest)) != 0.0:
        result.append(rounded)
        rest.append(-rounded)
    return result


def _continues(before: Ints, after: Ints) -> bool:
    """Whether two consecutive slanted edges lie on one line."""
    return bool(before[0] * after[1] == before[1] * after[0] and before[0] * before[1] != 0)
