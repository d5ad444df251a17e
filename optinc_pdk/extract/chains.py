"""Guides in pieces: strips whose ends meet exactly, one after the other, from a device's port to another's.

A meander of a thousand bends is not merged into one polygon: every distinct piece is checked once, and so is every
distinct joint, with as much of the guide on both sides of it as it takes to see a step or a kink.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import klayout.db as kdb
import numpy as np
from numpy.typing import NDArray

from optinc_pdk.extract.contours import EdgeIndex, Ints
from optinc_pdk.extract.faults import Fault
from optinc_pdk.extract.strips import Sides, StripRule, sides_of, strip_length_um

NOWHERE = -1
# How far to both sides of a joint a guide is looked at, in widths of a guide.
REACH_WIDTHS = 4


@dataclass(frozen=True, eq=False)
class Strip:
    """A guide between two of its edges.

    Attributes:
        polygon: The guide.
        ends: (2, 2, 2) its own edges at its ends, clockwise around it.
        sides: Its sides, from the first end to the second and back.
        fine_length: Length of both sides.
    """

    polygon: kdb.Polygon
    ends: Ints
    sides: Sides
    fine_length: int

    def entered(self, end: int) -> Sides:
        """Its sides on the way in from an end."""
        return self.sides.back if end else self.sides


@dataclass(frozen=True)
class Segments:
    """Strips where they lie.

    Attributes:
        strips: The distinct strips.
        strip: (s,) strip of each segment.
        shift: (s, 2) where its origin lies.
    """

    strips: Sequence[Strip]
    strip: Ints
    shift: Ints

    @cached_property
    def ends(self) -> Ints:
        """(s, 2, 2, 2) their own edges at their ends."""
        ends = np.array([strip.ends for strip in self.strips], dtype=np.int64).reshape(-1, 2, 2, 2)
        return np.asarray(ends[self.strip] + self.shift[:, None, None])

    def __add__(self, other: Segments) -> Segments:
        """These segments and further ones."""
        return Segments(
            [*self.strips, *other.strips],
            np.concatenate([self.strip, other.strip + len(self.strips)]),
            np.concatenate([self.shift, other.shift]),
        )

    def polygons(self, numbers: Ints) -> list[kdb.Polygon]:
        """Some segments' polygons in their places."""
        places = zip(self.strip[numbers].tolist(), self.shift[numbers].tolist(), strict=True)
        return [self.strips[strip].polygon.moved(x, y) for strip, (x, y) in places]


def read_strip(polygon: kdb.Polygon, ring: Ints, ends: Sequence[int], rule: StripRule) -> tuple[Strip, Fault | None]:
    """A strip between two of its edges, and what is wrong with it, or None.

    Args:
        polygon: The strip.
        ring: (n, 2) its points.
        ends: Numbers of the edges at its ends.
        rule: What a guide looks like.
    """
    low, high = sorted(ends)
    sides = sides_of(ring, low, high)
    edges = np.array([(ring[end], ring[(end + 1) % len(ring)]) for end in ends], dtype=np.int64)
    ordered = sides if ends[0] == low else sides.back
    return Strip(polygon, edges, ordered, sides.fine_length), sides.fault(rule)


NO_SEGMENTS = Segments((), np.zeros(0, dtype=np.int64), np.zeros((0, 2), dtype=np.int64))


@dataclass(frozen=True)
class Chains:
    """Guides from port to port.

    Attributes:
        ports: (n, 2) numbers of the ports that each joins.
        length_um: (n,) their lengths.
        used: (s,) whether a segment is in one of them.
    """

    ports: Ints
    length_um: NDArray[np.float64]
    used: NDArray[np.bool_]


def follow(segments: Segments, ports: Ints, index: EdgeIndex, rule: StripRule) -> Chains:
    """Join segments end to end.

    Args:
        segments: Strips, each in order by itself.
        ports: Numbers of the ports that are indexed.
        index: Finds these by their edges, silicon of the device to the right.
        rule: What a guide looks like.

    Returns:
        The guides that lead from a port to a port and are in order. What is left may be anything.
    """
    ends = segments.ends
    # what lies beyond an edge runs along it the other way
    first, second = ends[..., 1, :], ends[..., 0, :]
    port = index.find(first, second).reshape(-1)
    start = np.flatnonzero(port >= 0)
    end, way, passed = _ways(start, _mates(ends.reshape(-1, 2, 2), port >= 0), port)
    joints = _Joints(segments, rule)
    # strips by the ends by which they are entered; equal guides are judged once
    entered = segments.strip[passed >> 1] * 2 + (passed & 1)
    known: dict[bytes, tuple[bool, float]] = {}
    good = np.zeros(len(start), dtype=bool)
    lengths: list[float] = []
    # every guide is met from both its ends
    for number in np.flatnonzero(end >= start).tolist():
        own = entered[way[number] : way[number + 1]]
        key = own.tobytes()
        if key not in known:
            known[key] = _judged([(code >> 1, code & 1) for code in own.tolist()], segments, joints)
        good[number], length = known[key]
        if good[number]:
            lengths.append(length)
    used = np.zeros(len(ends), dtype=bool)
    used[passed[np.repeat(good, np.diff(way))] >> 1] = True
    pairs = np.stack([port[start[good]], port[end[good]]], axis=1)
    return Chains(ports[pairs] if len(pairs) else pairs, np.array(lengths), used)


def _judged(entered: Sequence[tuple[int, int]], segments: Segments, joints: _Joints) -> tuple[bool, float]:
    """Whether a guide is in order, and its length in µm."""
    return joints.in_order(entered), strip_length_um(sum(segments.strips[strip].fine_length for strip, _ in entered))


def _mates(ends: Ints, at_port: NDArray[np.bool_]) -> Ints:
    """(e,) the end that meets each end (e, 2, 2), -1 where there is none."""
    free = np.flatnonzero(~at_port)
    found = EdgeIndex(ends[free, 0], ends[free, 1]).find(ends[:, 1], ends[:, 0])
    mate = np.append(free, NOWHERE)[found]
    # only pairs, so that a way never comes back to where it has been
    paired = (mate >= 0) & ~at_port & (mate[mate] == np.arange(len(ends)))
    return np.where(paired, mate, NOWHERE)


def _ways(start: Ints, mate: Ints, port: Ints) -> tuple[Ints, Ints, Ints]:
    """Ways from ends at ports to other ports, all a step at a time.

    Args:
        start: (n,) ends at which they begin.
        mate: (e,) end that meets each, -1 where there is none.
        port: (e,) port at each end, -1 where there is none.

    Returns:
        (n,) the ends at the other ports or -1, (n + 1,) where each way begins in (k,) the ends by which it enters
        segments.
    """
    last = np.full(len(start), NOWHERE, dtype=np.int64)
    number, at = np.arange(len(start)), start
    numbers, passed = [number[:0]], [start[:0]]
    # a way that enters an end has left its mate, so it comes to an end
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


class _Joints:
    """Where strips meet: what has been looked at, by the shapes on both sides."""

    def __init__(self, segments: Segments, rule: StripRule) -> None:
        self.strips, self.rule = segments.strips, rule
        self.reach = REACH_WIDTHS * rule.width
        self.shapes: list[Sides] = []
        self.short: list[bool] = []
        self.numbers: dict[tuple[bytes, bytes], int] = {}
        self.seen: dict[tuple[int, int], int] = {}
        self.good: dict[tuple[tuple[int, ...], tuple[int, ...]], bool] = {}

    def in_order(self, entered: Sequence[tuple[int, int]]) -> bool:
        """Whether a guide has no step or kink where its strips meet; given the ends by which these are entered."""
        ahead = [self._shape(strip, end) for strip, end in entered]
        behind = [self._shape(strip, 1 - end) for strip, end in reversed(entered)]
        count = len(entered)
        return all(self._meet(self._within(behind, count - at), self._within(ahead, at)) for at in range(1, count))

    def _shape(self, strip: int, end: int) -> int:
        """Number of a strip's shape as seen from an end, as far as it counts."""
        if (strip, end) not in self.seen:
            shape = _cut(self.strips[strip].entered(end), self.reach)
            home = shape.left[0]
            shape = Sides(shape.left - home, shape.right - home)
            key = shape.left.tobytes(), shape.right.tobytes()
            if key not in self.numbers:
                self.numbers[key] = len(self.shapes)
                self.shapes.append(shape)
                self.short.append(bool(np.max(np.ptp(np.concatenate([shape.left, shape.right]), axis=0)) < self.reach))
            self.seen[strip, end] = self.numbers[key]
        return self.seen[strip, end]

    def _within(self, shapes: Sequence[int], first: int) -> tuple[int, ...]:
        """The shapes from one on that are in reach: up to the first that is not short."""
        last = first
        while self.short[shapes[last]] and last + 1 < len(shapes):
            last += 1
        return tuple(shapes[first : last + 1])

    def _meet(self, behind: tuple[int, ...], ahead: tuple[int, ...]) -> bool:
        """Whether strips that lead away from a joint to both sides are one strip."""
        if (behind, ahead) not in self.good:
            back, on = (_joined([self.shapes[number] for number in side]) for side in (behind, ahead))
            back = back.back
            # where a slanted edge goes on, the whole guide has one for two, whose length may be rounded otherwise
            legs = ((back.left[-2:], on.left[:2]), (on.right[-2:], back.right[:2]))
            smooth = any(_goes_on(*np.diff(pair, axis=1)[:, 0]) for pair in legs)
            self.good[behind, ahead] = not smooth and _joined([back, on]).fault(self.rule) is None
        return self.good[behind, ahead]


def _cut(sides: Sides, reach: int) -> Sides:
    """The first part of a straight strip that lies along an axis; any other strip as it is."""
    if len(sides.left) != 2 or len(sides.right) != 2:
        return sides
    leg = sides.left[1] - sides.left[0]
    length = int(np.max(np.abs(leg)))
    if np.all(leg != 0) or length <= reach or np.any(sides.right[0] - sides.right[1] != leg):
        return sides
    part = leg // length * reach
    return Sides(sides.left[0] + np.array([[0, 0], part]), sides.right[1] + np.array([part, [0, 0]]))


def _joined(parts: Sequence[Sides]) -> Sides:
    """Strips one after the other, each moved to where the one before ends."""
    left, right = parts[0].left, parts[0].right
    for part in parts[1:]:
        shift = left[-1] - part.left[0]
        left = np.concatenate([left, part.left[1:] + shift])
        right = np.concatenate([part.right[:-1] + shift, right])
    return Sides(left, right)


def _goes_on(before: Ints, after: Ints) -> bool:
    """Whether two slanted legs lie on one line."""
    return bool(before[0] * after[1] == before[1] * after[0] and before[0] * before[1] != 0)
