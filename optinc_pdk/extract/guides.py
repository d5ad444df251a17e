"""Guides from silicon: strips of constant width with exactly two ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import klayout.db as kdb
import numpy as np
from numpy.typing import NDArray

from optinc_pdk.extract.chains import Segments, Strip, follow, read_strip
from optinc_pdk.extract.contours import Contours, EdgeIndex, Ints, contours
from optinc_pdk.extract.faults import Fault, center_um, point_um
from optinc_pdk.extract.gds import NM_PER_UM
from optinc_pdk.extract.golden import Variant
from optinc_pdk.extract.lookup import Finder, box_array, plain
from optinc_pdk.extract.silicon import Device
from optinc_pdk.extract.silicon_checks import describe_bodies
from optinc_pdk.extract.strips import StripRule, strip_length_um, turns_deg

# Strips and what is wrong with them, by their points and the numbers of their ends.
Known: TypeAlias = dict[tuple[bytes, int, int], tuple[Strip, Fault | None]]


@dataclass(frozen=True)
class Nets:
    """Optical nets.

    Attributes:
        ports: (n, 2) numbers of the joined ports, by device and optical port.
        length_um: (n,) guide lengths, 0 where two devices touch.
        faults: Silicon that is no guide.
    """

    ports: Ints
    length_um: NDArray[np.float64]
    faults: list[Fault]

    def joined_by(self, devices: Sequence[Device], edges: Ints, length_um: NDArray[np.float64]) -> Nets:
        """These and further nets, in the order of their ports.

        Args:
            devices: All devices, as their ports are numbered.
            edges: (n, 2, 2, 2) edges of the ports that each further net joins.
            length_um: (n,) lengths of the further nets.
        """
        _, guided, index = _port_index(devices)
        further = guided[index.find(edges[..., 0, :], edges[..., 1, :])] if len(edges) else edges[:, :, 0, 0]
        ports = np.sort(np.concatenate([self.ports, further.reshape(-1, 2)]), axis=1)
        order = np.argsort(ports[:, 0], kind="stable")
        return Nets(ports[order], np.concatenate([self.length_um, length_um])[order], self.faults)


def _port_index(devices: Sequence[Device]) -> tuple[Ints, Ints, EdgeIndex]:
    """(p, 2, 2) edges of all ports, numbers of those that end in silicon, and where to find these by their edges."""
    edges = np.concatenate([np.zeros((0, 2, 2), dtype=np.int64), *(device.edges for device in devices)])
    guided = np.flatnonzero(np.array([flag for device in devices for flag in device.guided], dtype=bool))
    return edges, guided, EdgeIndex(edges[guided, 0], edges[guided, 1])


def trace(
    pieces: Sequence[kdb.Polygon],
    outline: Contours,
    blocks: Segments,
    devices: Sequence[Device],
    rule: StripRule,
    variants: Sequence[Variant],
) -> Nets:
    """Join devices by guides.

    Args:
        pieces: Silicon that is in no block and no device.
        outline: Its contours.
        blocks: Guides of blocks that lead out of these.
        devices: Devices whose ports the guides join, phase shifters included.
        rule: What a guide looks like.
        variants: Golden devices, to name silicon that is nearly one.

    Returns:
        Nets between the devices' ports, numbered device by device.
    """
    edges, guided, index = _port_index(devices)
    # what lies beyond a port's edge runs along it the other way
    touching = index.find(edges[guided, 1], edges[guided, 0])
    direct = [(int(guided[a]), int(guided[b])) for a, b in enumerate(touching.tolist()) if a < b]
    known: Known = {}
    number, loose = _segments(pieces, outline, blocks, index, rule, known)
    segments = blocks + loose
    chains = follow(segments, guided, index, rule)
    # what is in no chain is merged and judged piece by piece
    rest = kdb.Region(segments.polygons(np.flatnonzero(~chains.used[: len(blocks.strip)])))
    mended = np.zeros(len(pieces), dtype=bool)
    mended[number] = chains.used[len(blocks.strip) :]
    remaining = [pieces[i] for i in np.flatnonzero(~mended).tolist()]
    if not rest.is_empty():
        rest += kdb.Region(remaining)
        rest.min_coherence = True
        remaining = sorted(plain(rest.merged()))
    ports, lengths, faults = _piecewise(remaining, guided, index, rule, variants, known)
    return Nets(
        np.concatenate([chains.ports, ports, np.array(direct, dtype=np.int64).reshape(-1, 2)]),
        np.concatenate([chains.length_um, lengths, np.zeros(len(direct))]),
        faults,
    )


def _segments(
    pieces: Sequence[kdb.Polygon], outline: Contours, blocks: Segments, index: EdgeIndex, rule: StripRule, known: Known
) -> tuple[Ints, Segments]:
    """Numbers of the pieces that are strips between ports or free ends of blocks, and these as segments."""
    free = blocks.ends.reshape(-1, 2, 2)
    meets = index.find(outline.ends, outline.points) >= 0
    meets |= EdgeIndex(free[:, 0], free[:, 1]).find(outline.ends, outline.points) >= 0
    numbers: list[int] = []
    strips: dict[Strip, int] = {}
    found: list[int] = []
    for number, ends in enumerate(_ends_by_piece(outline, meets)):
        if len(ends) == 2 and not outline.holes[number]:
            strip, fault = _read_cached(pieces[number], outline, number, ends, rule, known)
            if fault is None:
                numbers.append(number)
                strips.setdefault(strip, len(strips))
                found.append(strips[strip])
    chosen = np.array(numbers, dtype=np.int64)
    return chosen, Segments(list(strips), np.array(found, dtype=np.int64), outline.points[outline.first[chosen]])


def _ends_by_piece(outline: Contours, meets: NDArray[np.bool_]) -> list[Ints]:
    """For each piece, the edges at which it meets something."""
    where = np.flatnonzero(meets)
    count = len(outline.holes)
    return np.split(where, np.searchsorted(outline.polygon[where], np.arange(1, count))) if count else []


def _piecewise(
    pieces: Sequence[kdb.Polygon],
    guided: Ints,
    index: EdgeIndex,
    rule: StripRule,
    variants: Sequence[Variant],
    known: Known,
) -> tuple[Ints, NDArray[np.float64], list[Fault]]:
    """Ports that pieces of silicon join, these guides' lengths, and what is wrong with the pieces."""
    outline = contours(pieces)
    meets = index.find(outline.ends, outline.points)
    by_piece = _ends_by_piece(outline, meets >= 0)
    joined: list[tuple[int, int]] = []
    lengths: list[float] = []
    faults: list[Fault] = []
    odd: list[int] = []
    for number, ends in enumerate(by_piece):
        if len(ends) != 2 or outline.holes[number]:
            odd.append(number)
            continue
        strip, fault = _read_cached(pieces[number], outline, number, ends, rule, known)
        joined.append((int(guided[meets[ends[0]]]), int(guided[meets[ends[1]]])))
        lengths.append(strip_length_um(strip.fine_length))
        if fault is not None:
            odd.append(number)
            x, y = (np.array(fault.position_um) + outline.points[outline.first[number]] / NM_PER_UM).tolist()
            faults.append(Fault(fault.kind, fault.message, (x, y)))
    if odd:
        faults = _name(faults, odd, by_piece, pieces, outline, rule, variants)
    return np.array(joined, dtype=np.int64).reshape(-1, 2), np.array(lengths), faults


def _read_cached(
    piece: kdb.Polygon, outline: Contours, number: int, ends: Ints, rule: StripRule, known: Known
) -> tuple[Strip, Fault | None]:
    """A piece as a strip, at home; one of the same shape elsewhere has been checked already."""
    ring = outline.ring(number)
    home = ring - ring[0]
    own = (ends - outline.first[number]).tolist()
    key = (home.tobytes(), *own)
    if key not in known:
        known[key] = read_strip(piece.moved(-int(ring[0, 0]), -int(ring[0, 1])), home, own, rule)
    return known[key]


def _name(
    faults: list[Fault],
    odd: list[int],
    by_piece: Sequence[Ints],
    pieces: Sequence[kdb.Polygon],
    outline: Contours,
    rule: StripRule,
    variants: Sequence[Variant],
) -> list[Fault]:
    """The faults of pieces that are no guides; a piece with a body in it is named by its body alone."""
    named, bodies = describe_bodies(kdb.Region([pieces[number] for number in odd]), variants, rule.body)
    finder = Finder(bodies)
    explained = [fault for fault in faults if not _inside_any(fault, bodies)]
    for number in odd:
        ends = by_piece[number]
        piece = pieces[number]
        if len(ends) == 2 and not piece.holes():
            continue
        near = finder.overlapping(box_array([piece.bbox()]))[0]
        if near and not (kdb.Region(near) & kdb.Region(piece)).is_empty():
            continue
        explained.append(_ends_fault(outline, number, ends, piece))
    return named + explained


def _inside_any(fault: Fault, bodies: Sequence[kdb.Polygon]) -> bool:
    x, y = (round(value * NM_PER_UM) for value in fault.position_um)
    return any(body.inside(kdb.Point(x, y)) for body in bodies)


def _ends_fault(outline: Contours, number: int, ends: Ints, piece: kdb.Polygon) -> Fault:
    """A piece with no, one, or more than two ends."""
    if piece.holes() or len(ends) > 2:
        text = f"guides are joined: a piece of silicon with {len(ends)} ends and {piece.holes()} holes"
        return Fault("branch", text, point_um(_corner(outline, number, ends)))
    if not len(ends):
        text = f"silicon of {piece.area() / NM_PER_UM**2:.3f} µm² belongs to no device"
        return Fault("stray", text, center_um(piece.bbox()))
    ring = outline.ring(number)
    free = _opposite(ring, int(ends[0]) - int(outline.first[number]))
    return Fault("dangling", "guide with one end: cut, or not aligned to a port", point_um(free))


def _corner(outline: Contours, number: int, ends: Ints) -> Ints:
    """The sharpest corner of a piece that is none of its ends'."""
    edges = np.arange(outline.first[number], outline.first[number + 1])
    legs = (outline.ends[edges] - outline.points[edges]).astype(float)
    turn = np.zeros(len(edges))
    turn[outline.follows[edges] - edges[0]] = np.abs(turns_deg(legs, legs[outline.follows[edges] - edges[0]]))
    at_ends = np.concatenate([ends, outline.follows[ends]]) - edges[0]
    turn[at_ends] = 0
    return np.asarray(outline.points[edges[int(np.argmax(turn))]], dtype=np.int64)


def _opposite(ring: Ints, edge: int) -> Ints:
    """The point of a ring that is half its length away from an edge."""
    away = np.roll(ring, -edge - 1, axis=0)
    along = np.cumsum(np.hypot(*np.diff(away, axis=0).astype(float).T))
    return np.asarray(away[1 + int(np.argmin(np.abs(along - along[-1] / 2)))], dtype=np.int64)
