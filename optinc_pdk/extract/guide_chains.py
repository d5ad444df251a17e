"""Chains of strips whose ends meet exactly, which form guides from one port to another.

A meander of a thousand bends is not merged into one polygon. Every distinct strip is checked once, and so is every
distinct joint, with enough of the guide on both sides to detect a step or a kink.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.extract.contours import EdgeIndex
from optinc_pdk.extract.faults import Fault
from optinc_pdk.extract.guide_strips import (
    FREE_ERROR_NM2,
    MEASURED_NM,
    STRAIGHT_RATIO,
    StripRule,
    StripSides,
    WidthErrors,
    mean_width_fault,
    split_sides,
)
from optinc_pdk.extract.mask_layout import NM_PER_UM
from optinc_pdk.extract.spatial_index import box_array

NOT_FOUND = -1
# Length of guide that is checked on both sides of a joint, in widths of a guide.
REACH_WIDTHS = 4
# Length of a straight guide from which the bends on both sides of it are measured apart.
LONG_NM = 12_000
# Relative error that rounding may cause in a sum of width errors.
ROUNDING = 1e-6


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
    def length_um(self) -> Floats:
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
    length_um: Floats
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
    return GuideChains(ports[pairs] if len(pairs) else pairs, np.array(lengths), guide)


def _mates(ends: Ints, at_port: Bools) -> Ints:
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
        """Return the length of a guide in µm; None if its mean width or one of its joints is wrong.

        Args:
            codes: (n,) codes of its strips.
        """
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
        """Return what bent strips of a guide add to the length of both sides in nm, as numbers to add.

        Args:
            codes: (n,) codes of the guide's strips.
            begin: Number of the first bent strip.
            end: Number after that of the last one.
            before: Length in nm of the straight guide in front of them; 0 if there is none.
            after: Length in nm of the straight guide behind them; 0 if there is none.
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
        if rise <= FREE_ERROR_NM2 * (1 - ROUNDING):
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
