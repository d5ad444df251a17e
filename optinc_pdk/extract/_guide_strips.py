"""Strips: pieces of guide of constant width between two ends; their checks, lengths and placements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import klayout.db as kdb
import numpy as np
from numpy.typing import NDArray

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.extract.faults import Fault, point_um
from optinc_pdk.extract.mask_layout import NM_PER_UM
from optinc_pdk.extract.polygons import box_array

# A bend of 64 chords per 90° turns by 1.4° per corner, and rounding to 1 nm adds up to 45° at the shortest chords. A
# lateral step of any height turns by 90° twice.
SHARPEST_TURN_DEG = 60.0
# Chords searched on the opposite side, before and behind the same share of the length of the middle line: few at first,
# more where the last one is the nearest. A guide whose width is not found is measured again with the largest number.
FEW_CHORDS = 4
NEAR_CHORDS = 16
FAR_CHORDS = 256
# Rounding of corners to the grid changes the mean width of a curve: by up to 0.14 nm with short chords, and along a few
# longer chords by up to 0.9 nm. Chords at a smaller angle to an axis are those of a taper.
SHORT_CHORD_NM = 300.0
SHORT_CHORD_ERROR_NM = 0.2
LONG_CHORD_ERROR_NM = 0.8
LEAST_SLOPE = 0.0087
# Width error times length, in nm², that is allowed besides: a phase of 0.009 rad, as that of 1 nm of length. In clean
# layouts it is at most half of this.
FREE_ERROR_NM2 = 1000.0
# Rounding corners to the grid moves them laterally, which lengthens a chord by 1 / 12 nm² over its length on average:
# 0.004 nm for a chord of 20 nm. Runs of chords that are shorter than this are measured by longer ones.
MEASURED_NM = 500.0
# A chord that is longer than this many neighbours is a straight beside a bend.
STRAIGHT_RATIO = 3.0


@dataclass(frozen=True)
class StripRule:
    """Dimensions of a guide in nm.

    Attributes:
        width: Width.
        tolerance: Allowed deviation of the width, for rounding.
        body: Distance of an erosion and dilation that removes guides and leaves the bodies of devices.
        space: Distance at which guides are uncoupled; 0 if it is not known.
        arm_space: Distance that arms of one device must keep from each other and from the device.
        joined: Distance from a device within which silicon is joined to it, so that it may be as near as an arm.
        opposite_deg: Angle in degrees between two sides up to which they face each other, as in the design rules.
    """

    width: int
    tolerance: int
    body: int
    space: int = 0
    arm_space: int = 0
    joined: int = 0
    opposite_deg: float = 0.0


@dataclass(frozen=True)
class WidthErrors:
    """Deviation of a strip's width along one side.

    Attributes:
        error: (n,) width minus that of a guide, times length, in nm², of the n parts of the side's chords.
        allowed: (n,) largest absolute value by rounding, in nm².
        middle: (n, 2) middles of these parts in nm.
    """

    error: Floats
    allowed: Floats
    middle: Floats


@dataclass(frozen=True, eq=False)
class StripSides:
    """The two sides of a strip in nm, clockwise around it.

    Attributes:
        left: (n, 2) points from the first end to the second.
        right: (m, 2) points from the second end to the first.
    """

    left: Ints
    right: Ints

    @property
    def back(self) -> StripSides:
        """The sides of the same strip in the direction from its second end to its first."""
        return StripSides(self.right, self.left)

    @cached_property
    def length_um(self) -> float:
        """Length in µm: the mean length of both sides as they were before their corners were rounded to the grid.

        The sides are a better measure than the area divided by the width. Rounding a corner to the grid moves a side
        laterally, which changes its length far less than the area. The length depends neither on how the strip is
        divided into polygons nor on its orientation, to the last bit.
        """
        return math.fsum(self.parts_nm.tolist()) / (2 * NM_PER_UM)

    @property
    def parts_nm(self) -> Floats:
        """Lengths in nm that add up to those of both sides, of which `length_um` is the mean."""
        start, stop = _inward(self.right[-1], self.left[0]), _inward(self.right[0], self.left[-1])
        return np.concatenate([_parts_nm(self.left, start, stop), _parts_nm(self.right, -stop, -start)])

    @property
    def first_chords_nm(self) -> float:
        """Length in nm of the longest of the two chords at the first end, on both sides; infinite for a single chord.

        Chords of one line count as one.
        """
        longest = 0.0
        for side in (self.left, self.right[::-1]):
            corners = _corners(side)[:3]
            chords = np.hypot(*np.diff(corners, axis=0).astype(float).T)
            longest = max(longest, float(np.max(chords)) if len(corners) == 3 else np.inf)
        return longest

    @property
    def turned(self) -> float:
        """Length of the left side minus that of the right side in nm."""
        left, right = (
            float(np.sum(np.hypot(*np.diff(side, axis=0).astype(float).T))) for side in (self.left, self.right)
        )
        return left - right

    def width_errors(self, rule: StripRule) -> tuple[WidthErrors, WidthErrors]:
        """Return the width errors along the left side and along the right side."""
        if self._is_box(rule):
            left, right = (np.mean(side, axis=0, keepdims=True) for side in (self.left, self.right))
            return WidthErrors(np.zeros(1), np.zeros(1), left), WidthErrors(np.zeros(1), np.zeros(1), right)
        return _width_errors(self.left, self.right, rule), _width_errors(self.right, self.left, rule)

    def fault(
        self, rule: StripRule, errors: Callable[[], tuple[WidthErrors, WidthErrors]] | None = None
    ) -> Fault | None:
        """Return the first fault of a strip: width at any place, sharp corners, or mean width; None if there is none.

        ``errors`` returns ``width_errors`` of this rule, where the caller keeps them.
        """
        if self._is_box(rule):
            return None
        fault = self.width_fault(rule)
        # the sides must leave the ends at right angles
        start, stop = _inward(self.right[-1], self.left[0]), _inward(self.left[-1], self.right[0])
        fault = fault or _turn_fault(self.left, start, -stop) or _turn_fault(self.right, stop, -start)
        return fault or mean_width_fault([errors() if errors else self.width_errors(rule)], rule)

    def width_fault(self, rule: StripRule) -> Fault | None:
        """Return a fault where the width begins to differ from that of a guide, with the worst width, or None."""
        return _width_fault(self.left, self.right, rule)

    def straight_nm(self, rule: StripRule) -> float:
        """Return the length of a box along an axis with the width of a guide in nm; 0 for any other strip."""
        return float(np.max(np.abs(self.left[1] - self.left[0]))) if self._is_box(rule) else 0.0

    def _is_box(self, rule: StripRule) -> bool:
        """Whether the strip is a box along an axis with the width of a guide."""
        if len(self.left) != 2 or len(self.right) != 2:
            return False
        along, across = self.left[1] - self.left[0], self.right[1] - self.left[0]
        square = np.array_equal(self.right[0] - self.right[1], along) and along @ across == 0 and not np.all(along)
        return bool(square and np.any(along) and np.abs(across).max() == rule.width)


def mean_width_fault(strips: Sequence[tuple[WidthErrors, WidthErrors]], rule: StripRule) -> Fault | None:
    """Check the mean width of every stretch of a guide; return a fault in the middle of the worst one, or None.

    The phase of light depends on the width error times the length. A stretch is faulty if this is larger than rounding
    to the grid explains. ``strips`` are the errors along both sides of consecutive strips, as seen in one direction.
    """
    # the right sides are listed from the last strip to the first
    for parts in ([left for left, _ in strips], [right for _, right in reversed(strips)]):
        error, allowed = (np.concatenate([getattr(part, key) for part in parts]) for key in ("error", "allowed"))
        for sign in (1, -1):
            total = np.concatenate([[0.0], np.cumsum(sign * error - allowed)])
            rise = total - np.minimum.accumulate(total)
            last = int(np.argmax(rise))
            if rise[last] <= FREE_ERROR_NM2:
                continue
            first = int(np.argmin(total[: last + 1]))
            places = np.concatenate([part.middle for part in parts])[first:last]
            excess = float(np.sum(error[first:last])) / NM_PER_UM
            most = (FREE_ERROR_NM2 + float(np.sum(allowed[first:last]))) / NM_PER_UM
            text = (
                f"guide is too {'wide' if sign > 0 else 'narrow'} over a stretch: its deviation from {rule.width} nm, "
                f"times the length, is {excess:+.2f} nm µm, allowed are {most:.2f}"
            )
            return Fault("width", text, point_um(places[len(places) // 2]))
    return None


def _width_errors(side: Ints, other: Ints, rule: StripRule) -> WidthErrors:
    """Return the width errors along a side, given the opposite side."""
    leg = np.diff(side, axis=0).astype(float)
    length, slope = np.hypot(*leg.T), np.sort(np.abs(leg), axis=1)
    long, curved = length > SHORT_CHORD_NM, slope[:, 0] >= LEAST_SLOPE * slope[:, 1]
    for reach in (NEAR_CHORDS, FAR_CHORDS):
        # long chords are divided where the opposite side has a corner
        _, chord, share = nearest(other[::-1], side, reach)
        inner = long[chord] & (share > 0) & (share < 1)
        place = np.sort(np.concatenate([np.arange(len(side)), (chord + share)[inner]]))
        number = np.minimum(place.astype(np.int64), len(leg) - 1)
        ends = side[number] + (place - number)[:, None] * leg[number]
        points = np.empty((2 * len(ends) - 1, 2))
        points[::2], points[1::2] = ends, (ends[1:] + ends[:-1]) / 2
        wrong = nearest(points, other[::-1], reach)[0] - rule.width
        if np.max(np.abs(wrong)) <= rule.tolerance:
            break
    own, part = number[:-1], np.hypot(*np.diff(ends, axis=0).T)
    # a chord of a curve deviates like a parabola from its middle to its ends
    mean = np.where(curved[own], (wrong[:-2:2] + 4 * wrong[1::2] + wrong[2::2]) / 6, wrong[1::2])
    rounding = np.where(curved, np.where(long, LONG_CHORD_ERROR_NM, SHORT_CHORD_ERROR_NM), 0.0)
    return WidthErrors(mean * part, rounding[own] * part, points[1::2])


def split_sides(ring: Ints, first: int, second: int) -> StripSides:
    """Split the outline (n, 2) of a polygon, clockwise, at two edges into two sides; edge i starts at point i."""
    away = np.roll(ring, -first - 1, axis=0)
    split = (second - first - 1) % len(ring)
    return StripSides(away[: split + 1], away[split + 1 :])


def _parts_nm(side: Ints, start: Ints, stop: Ints) -> Floats:
    """Return lengths in nm that add up to that of a side (n, 2) before its corners were rounded to the grid.

    Runs of short chords are replaced by chords of about ``MEASURED_NM``, which rounding hardly lengthens. Each of these
    is shorter than the chords that it replaces, by κ² (C³ - Σ c³) / 24 along a curve of curvature κ. ``start`` and
    ``stop`` are the directions of the strip at the first and last point.
    """
    corners = _corners(side)
    chord = np.hypot(*np.diff(corners, axis=0).astype(float).T)
    first = _measured_chords(chord)
    leg = np.diff(corners[np.append(first, len(chord))], axis=0).astype(float)
    length = np.hypot(*leg.T)
    saved = length**3 - np.add.reduceat(chord**3, first)
    # the direction at both ends is that of the curve there, as if a straight without length followed
    angle = np.radians(turns_deg(np.concatenate([[start], leg]), np.concatenate([leg, [stop]])))
    before, after = np.append(0.0, length), np.append(length, 0.0)
    curved_before = (before <= STRAIGHT_RATIO * after) | (after == 0)
    curved_after = (after <= STRAIGHT_RATIO * before) | (before == 0)
    span = curved_before * before + curved_after * after
    cubes = curved_before * np.append(0.0, saved) + curved_after * np.append(saved, 0.0)
    return np.concatenate([length, (angle / span) ** 2 * cubes / 12])


def _measured_chords(chord: Floats) -> Ints:
    """Return the first of the chords (n,) that each measured chord replaces; the result is the same from both ends."""
    long = chord >= MEASURED_NM
    begins = np.concatenate([[True], long[1:] | long[:-1]])
    run, start = np.cumsum(begins) - 1, np.flatnonzero(begins)
    total = np.add.reduceat(chord, start)
    # an odd number of parts has one in the middle, and none of its ends is there
    parts = (2 * np.floor(np.maximum(total / MEASURED_NM - 1, 0) / 2) + 1)[run]
    middle = np.cumsum(chord) - chord / 2
    place = np.round((middle - (middle - chord / 2)[start][run]) / total[run] * parts, 6)
    part = np.where(2 * place < parts, np.floor(place), parts - 1 - np.floor(parts - place))
    return np.flatnonzero(begins | np.append(True, np.diff(part) != 0))


def _corners(side: Ints) -> Ints:
    """Return the points of a side (n, 2) without those between two chords of one line."""
    return np.asarray(side[np.concatenate([[True], _cross(np.diff(side, axis=0)) != 0, [True]])])


def _cross(legs: Ints) -> Ints:
    """Return (n - 1,) cross products of consecutive vectors (n, 2)."""
    return np.asarray(legs[:-1, 0] * legs[1:, 1] - legs[:-1, 1] * legs[1:, 0])


def _width_fault(left: Ints, right: Ints, rule: StripRule) -> Fault | None:
    """Return a fault if the distance of the sides is not the width of a guide."""
    for side, other in ((left, right), (right, left)):
        for reach in (NEAR_CHORDS, FAR_CHORDS):
            distance, _, _ = nearest(side, other[::-1], reach)
            error = np.abs(distance - rule.width)
            worst, first = int(np.argmax(error)), int(np.argmax(error > rule.tolerance))
            if error[worst] <= rule.tolerance:
                break
        else:
            text = f"guide is {distance[worst]:.1f} nm wide, allowed is {rule.width} ± {rule.tolerance}"
            # where a step begins, whichever place behind it is measured
            return Fault("width", text, point_um(side[first]))
    return None


def _turn_fault(side: Ints, start: Ints, stop: Ints) -> Fault | None:
    """Return a fault if a side that starts along ``start`` and ends along ``stop`` has a corner."""
    legs = np.concatenate([[start], np.diff(side, axis=0), [stop]]).astype(float)
    turns = turns_deg(legs[:-1], legs[1:])
    worst = int(np.argmax(np.abs(turns)))
    if abs(turns[worst]) <= SHARPEST_TURN_DEG:
        return None
    text = f"guide turns by {abs(turns[worst]):.0f}° in one corner: a step or a kink"
    return Fault("width", text, point_um(side[worst]))


def turns_deg(before: Floats, after: Floats) -> Floats:
    """Return the angles (n,) from vectors (n, 2) to others in degrees, within ±180°, positive to the left."""
    cross = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
    return np.asarray(np.degrees(np.arctan2(cross, np.sum(before * after, axis=1))))


def _inward(start: Ints, end: Ints) -> Ints:
    """Return the normal of a clockwise edge that points into the silicon."""
    x, y = end - start
    return np.array([y, -x])


def nearest(points: NDArray[Any], line: Ints, reach: int) -> tuple[Floats, Ints, Floats]:
    """Find the nearest places of one side (m, 2) of a strip to points (n, 2) of the other, in the same direction.

    ``reach`` is the number of chords searched before and behind the same share of the middle line's length.

    Returns:
        (n,) distances in nm; (n,) numbers of the nearest chords; and (n,) shares of these chords before the places.
    """
    start, leg = line[:-1].astype(float), np.diff(line, axis=0).astype(float)
    # half of the distance to the line, positive if the points lie to its left
    away = points[0] - line[0]
    half = math.copysign(np.hypot(*away) / 2, leg[0, 0] * away[1] - leg[0, 1] * away[0])
    share = np.searchsorted(_share(line, -half), _share(points, half))
    if reach > NEAR_CHORDS:
        return _nearest_chords(points, start, leg, share, reach)
    distance, chord, along = _nearest_chords(points, start, leg, share, FEW_CHORDS)
    # the distance may fall further beyond the last chord that was searched
    further = np.flatnonzero(np.abs(chord - share) >= FEW_CHORDS)
    distance[further], chord[further], along[further] = _nearest_chords(
        points[further], start, leg, share[further], reach
    )
    return distance, chord, along


def _nearest_chords(
    points: NDArray[Any], start: Floats, leg: Floats, middle: Ints, reach: int
) -> tuple[Floats, Ints, Floats]:
    """Find the nearest places to points on chords, given by their starts and legs, around one chord for each point."""
    near = np.clip(middle[:, None] + np.arange(-reach, reach + 1), 0, len(leg) - 1)
    (x, y), (u, v) = (points[:, None, :] - start[near]).transpose(2, 0, 1), leg.T[:, near]
    along = np.clip((x * u + y * v) / (leg[:, 0] ** 2 + leg[:, 1] ** 2)[near], 0.0, 1.0)
    square = (x - along * u) ** 2 + (y - along * v) ** 2
    best = np.arange(len(points)), np.argmin(square, axis=1)
    return np.sqrt(square[best]), near[best], along[best]


def _share(line: NDArray[Any], offset: float) -> Floats:
    """Return (n,) the share of the middle line's length before each point of one side (n, 2) of a strip.

    The outer side of a turn is longer than the middle line by the angle times half the width, the inner side shorter.
    ``offset`` is half the width, positive if the side lies to the left of the middle line.
    """
    leg = np.diff(line, axis=0).astype(float)
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*leg.T))])
    turned = np.unwrap(np.arctan2(leg[:, 1], leg[:, 0]))
    along[1:] += offset * (turned - turned[0])
    middle = np.maximum.accumulate(along)
    # a side that winds more tightly than its width has no middle line
    return np.asarray(middle / max(middle[-1], 1.0))


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
        """Return the sides in the direction of a guide that enters the strip at an end, 0 or 1."""
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
    """Interpret a polygon without holes as a strip between two edges, and return its first fault or None.

    ``ring`` (n, 2) are its points in nm, and ``ends`` the numbers of its end edges; edge i starts at point i.
    """
    low, high = sorted(ends)
    sides = split_sides(ring, low, high)
    edges = np.array([(ring[end], ring[(end + 1) % len(ring)]) for end in ends], dtype=np.int64)
    turned = ends[0] != low
    strip = GuideStrip(polygon, edges, sides.back if turned else sides, rule)
    return strip, sides.fault(rule, lambda: strip.width_errors[::-1] if turned else strip.width_errors)
