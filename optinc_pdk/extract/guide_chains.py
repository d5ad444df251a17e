"""Chains of strips whose ends meet exactly, which form guides from one port to another.

A meander of a thousand bends is not merged into one polygon. Every distinct strip is checked once, and so is every
distinct joint, with enough of the guide on both sides to detect a step or a kink.
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
from optinc_pdk.extract.guide_strips import (
    StripRule,
    StripSides,
    WidthErrors,
    mean_width_fault,
    split_sides,
)
from optinc_pdk.extract.spatial_index import box_array

NOT_FOUND = -1
# Length of guide that is checked on both sides of a joint, in widths of a guide.
REACH_WIDTHS = 4


@dataclass(frozen=True, eq=False)
class GuideStrip:
    """A piece of guide between two end edges.

    Attributes:
        polygon: Polygon of the piece.
        ends: (2, 2, 2) end edges in nm: end, point, coordinate; clockwise around the polygon.
        sides: The two sides in nm: from the first end to the second, and back.
        rule: Dimensions of a guide.
    """

    polygon: kdb.Polygon
    ends: Ints
    sides: StripSides
    rule: StripRule

    @cached_property
    def width_errors(self) -> tuple[WidthErrors, WidthErrors]:
        """Width errors along both sides, from the first end to the second and back."""
        return self.sides.width_errors(self.rule)

    def entered(self, end: int) -> StripSides:
        """Return the sides in the direction in which a guide passes the strip.

        Args:
            end: End at which the guide enters, 0 or 1.
        """
        return self.sides.back if end else self.sides


@dataclass(frozen=True)
class PlacedStrips:
    """Segments of guides: s placements of distinct strips.

    Attributes:
        strips: Distinct strips.
        strip: (s,) index in ``strips`` of the strip of each segment.
        shift: (s, 2) displacement of each segment's strip in nm.
    """

    strips: Sequence[GuideStrip]
    strip: Ints
    shift: Ints

    @cached_property
    def ends(self) -> Ints:
        """(s, 2, 2, 2) end edges of the segments in nm: segment, end, point, coordinate."""
        ends = np.array([strip.ends for strip in self.strips], dtype=np.int64).reshape(-1, 2, 2, 2)
        return np.asarray(ends[self.strip] + self.shift[:, None, None])

    def __add__(self, other: PlacedStrips) -> PlacedStrips:
        """Concatenate two sets of segments."""
        return PlacedStrips(
            [*self.strips, *other.strips],
            np.concatenate([self.strip, other.strip + len(self.strips)]),
            np.concatenate([self.shift, other.shift]),
        )

    @property
    def length_um(self) -> NDArray[np.float64]:
        """(s,) lengths of the segments in µm."""
        return np.array([strip.sides.length_um for strip in self.strips], dtype=np.float64)[self.strip]

    @cached_property
    def boxes(self) -> Ints:
        """(s, 4) left, bottom, right and top of the segments in nm."""
        boxes = box_array(strip.polygon.bbox() for strip in self.strips)
        return np.asarray(boxes[self.strip] + np.tile(self.shift, 2))

    def __getitem__(self, numbers: Ints) -> PlacedStrips:
        """Return some of the segments, given their numbers (n,)."""
        return PlacedStrips(self.strips, self.strip[numbers], self.shift[numbers])

    def polygons(self, numbers: Ints) -> list[kdb.Polygon]:
        """Return the polygons of segments at their positions, given the numbers (n,) of the segments."""
        places = zip(self.strip[numbers].tolist(), self.shift[numbers].tolist(), strict=True)
        return [self.strips[strip].polygon.moved(x, y) for strip, (x, y) in places]


def read_strip(
    polygon: kdb.Polygon, ring: Ints, ends: Sequence[int], rule: StripRule
) -> tuple[GuideStrip, Fault | None]:
    """Interpret a polygon as a strip between two of its edges, and check its width and turns.

    Args:
        polygon: Polygon without holes.
        ring: (n, 2) points of the polygon in nm.
        ends: Numbers of its two end edges; edge i starts at point i.
        rule: Dimensions of a guide.

    Returns:
        The strip, and the first fault found or None.
    """
    low, high = sorted(ends)
    sides = split_sides(ring, low, high)
    edges = np.array([(ring[end], ring[(end + 1) % len(ring)]) for end in ends], dtype=np.int64)
    turned = ends[0] != low
    strip = GuideStrip(polygon, edges, sides.back if turned else sides, rule)
    return strip, sides.fault(rule, lambda: strip.width_errors[::-1] if turned else strip.width_errors)


@dataclass(frozen=True)
class GuideChains:
    """Guides from port to port that consist of segments.

    Attributes:
        ports: (n, 2) numbers of the two ports that each guide joins.
        length_um: (n,) lengths of the guides in µm.
        guide: (s,) number of the guide that each segment is part of, -1 if it is part of none.
    """

    ports: Ints
    length_um: NDArray[np.float64]
    guide: Ints


def join_strips(segments: PlacedStrips, ports: Ints, index: EdgeIndex, rule: StripRule) -> GuideChains:
    """Join segments whose ends meet into guides from port to port.

    Args:
        segments: Segments without faults.
        ports: Port number of each edge in ``index``.
        index: Index of the edges at ports, with the device's silicon to the right.
        rule: Dimensions of a guide.

    Returns:
        The guides from port to port whose joints have no step or kink. Segments that are part of no such guide may
        belong to other silicon.
    """
    ends = segments.ends
    # an edge of adjacent silicon has the opposite direction
    first, second = ends[..., 1, :], ends[..., 0, :]
    port = index.find(first, second).reshape(-1)
    start = np.flatnonzero(port >= 0)
    end, offset, passed = _paths(start, _mates(ends.reshape(-1, 2, 2), port >= 0), port)
    joints = _Joints(segments, rule)
    # code of a strip and the end at which the guide enters it; equal guides are checked once
    entered = segments.strip[passed >> 1] * 2 + (passed & 1)
    checked: dict[bytes, tuple[bool, float]] = {}
    valid = np.zeros(len(start), dtype=bool)
    lengths: list[float] = []
    # every guide is found from both of its ends
    for number in np.flatnonzero(end >= start).tolist():
        codes = entered[offset[number] : offset[number + 1]]
        key = codes.tobytes()
        if key not in checked:
            checked[key] = _check([(code >> 1, code & 1) for code in codes.tolist()], segments, joints)
        valid[number], length = checked[key]
        if valid[number]:
            lengths.append(length)
    guide, path = np.full(len(ends), NOT_FOUND, dtype=np.int64), np.repeat(np.arange(len(start)), np.diff(offset))
    guide[passed[valid[path]] >> 1] = (np.cumsum(valid) - 1)[path[valid[path]]]
    pairs = np.stack([port[start[valid]], port[end[valid]]], axis=1)
    return GuideChains(ports[pairs] if len(pairs) else pairs, np.array(lengths), guide)


def _check(entered: Sequence[tuple[int, int]], segments: PlacedStrips, joints: _Joints) -> tuple[bool, float]:
    """Return whether all joints of a guide are smooth and its mean width is right, and its length in µm."""
    errors = []
    for strip, end in entered:
        there, back = segments.strips[strip].width_errors
        errors.append((back, there) if end else (there, back))
    valid = joints.are_smooth(entered) and mean_width_fault(errors, joints.rule) is None
    return valid, _joined([segments.strips[strip].entered(end) for strip, end in entered]).length_um


def _mates(ends: Ints, at_port: NDArray[np.bool_]) -> Ints:
    """Return (e,) the end that meets each end (e, 2, 2), -1 where there is none."""
    free = np.flatnonzero(~at_port)
    matches = EdgeIndex(ends[free, 0], ends[free, 1]).find(ends[:, 1], ends[:, 0])
    mate = np.append(free, NOT_FOUND)[matches]
    # only pairs, so that a path cannot return to an end that it has passed
    paired = (mate >= 0) & ~at_port & (mate[mate] == np.arange(len(ends)))
    return np.where(paired, mate, NOT_FOUND)


def _paths(start: Ints, mate: Ints, port: Ints) -> tuple[Ints, Ints, Ints]:
    """Follow paths from ends at ports to other ports, all in parallel, one segment at a time.

    Args:
        start: (n,) ends at which the paths start.
        mate: (e,) end that meets each end, -1 where there is none.
        port: (e,) port at each end, -1 where there is none.

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


class _Joints:
    """Check of the joints between strips, with a cache by the shapes on both sides."""

    def __init__(self, segments: PlacedStrips, rule: StripRule) -> None:
        self.strips, self.rule = segments.strips, rule
        self.reach = REACH_WIDTHS * rule.width
        self.shapes: list[StripSides] = []
        self.short: list[bool] = []
        self.numbers: dict[tuple[bytes, bytes], int] = {}
        self.shape_of: dict[tuple[int, int], int] = {}
        self.smooth: dict[tuple[tuple[int, ...], tuple[int, ...]], bool] = {}

    def are_smooth(self, entered: Sequence[tuple[int, int]]) -> bool:
        """Whether a guide, given by strips and the ends at which it enters them, has no step or kink at its joints."""
        ahead = [self._shape(strip, end) for strip, end in entered]
        behind = [self._shape(strip, 1 - end) for strip, end in reversed(entered)]
        if not any(self.short[shape] for shape in {*ahead, *behind}):
            return all(
                self._is_smooth((one,), (other,)) for one, other in set(zip(behind[:0:-1], ahead[1:], strict=True))
            )
        count = len(entered)
        return all(self._is_smooth(self._within(behind, count - at), self._within(ahead, at)) for at in range(1, count))

    def _shape(self, strip: int, end: int) -> int:
        """Return the number of a strip's shape near an end, within the reach of a joint."""
        if (strip, end) not in self.shape_of:
            shape = _cut(self.strips[strip].entered(end), self.reach)
            origin = shape.left[0]
            shape = StripSides(shape.left - origin, shape.right - origin)
            key = shape.left.tobytes(), shape.right.tobytes()
            if key not in self.numbers:
                self.numbers[key] = len(self.shapes)
                self.shapes.append(shape)
                self.short.append(bool(np.max(np.ptp(np.concatenate([shape.left, shape.right]), axis=0)) < self.reach))
            self.shape_of[strip, end] = self.numbers[key]
        return self.shape_of[strip, end]

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
    part = leg // length * reach
    return StripSides(sides.left[0] + np.array([[0, 0], part]), sides.right[1] + np.array([part, [0, 0]]))


def _joined(parts: Sequence[StripSides]) -> StripSides:
    """Concatenate strips, each moved to the end of the one before."""
    start = np.cumsum([parts[0].left[0], *(part.left[-1] - part.left[0] for part in parts)], axis=0)
    placed = [(part, at - part.left[0]) for part, at in zip(parts, start[:-1], strict=True)]
    first, shift = placed[-1]
    left = [parts[0].left[:1], *(part.left[1:] + by for part, by in placed)]
    right = [first.right[:1] + shift, *(part.right[1:] + by for part, by in reversed(placed))]
    return StripSides(np.concatenate(left), np.concatenate(right))


def _continues(before: Ints, after: Ints) -> bool:
    """Whether two consecutive slanted edges lie on one line."""
    return bool(before[0] * after[1] == before[1] * after[0] and before[0] * before[1] != 0)
