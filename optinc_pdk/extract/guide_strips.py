"""Check that a polygon is a guide of constant width between two ends, and measurement of its length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.extract.contours import Ints
from optinc_pdk.extract.faults import Fault, point_um
from optinc_pdk.extract.mask_layout import NM_PER_UM

# A bend of 64 chords per 90° turns by 1.4° per corner, and rounding to 1 nm adds up to 45° at the shortest chords. A
# lateral step of any height turns by 90° twice.
SHARPEST_TURN_DEG = 60.0
# Chords searched on the opposite side, before and behind the same share of the length. The sides differ in length by
# the width times the total turn: 12 chords per full turn of a 10 µm bend. A guide with more turns is measured again
# with the larger number.
NEAR_CHORDS = 16
FAR_CHORDS = 256
# Rounding of corners to the grid changes the width of a curve by up to 0.14 nm on average, that of a guide along an
# axis not at all. A guide whose mean width deviates by more shifts the phase of light, by 0.009 rad per nm and µm.
MEAN_WIDTH_NM = 0.2
# Width error times length, in nm², that is always allowed: 1 nm over 1 µm, 0.009 rad.
FREE_EXCESS_NM2 = 1000.0

# Lengths are summed as integers in units of 1 nm / ``UNITS_PER_NM``, the precision of doubles from 1 to 2. The sum is
# exact, so equal guides have equal lengths in whatever order their pieces are added.
UNITS_PER_NM = 1 << 52


@dataclass(frozen=True)
class StripRule:
    """Dimensions of a guide in nm.

    Attributes:
        width: Width.
        tolerance: Allowed deviation of the width, for rounding.
        body: Distance of an erosion and dilation that removes guides and leaves the bodies of devices.
    """

    width: int
    tolerance: int
    body: int


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
    def fine_length(self) -> int:
        """Sum of the lengths of both sides in units of 1 nm / ``UNITS_PER_NM``."""
        return sum(_fine_length(side) for side in (self.left, self.right))

    @cached_property
    def area_nm2(self) -> float:
        """Area of the strip."""
        x, y = (np.concatenate([self.left, self.right]) - self.left[0]).T
        return abs(int(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2

    @cached_property
    def slanted_nm(self) -> float:
        """Length of the parts that are not parallel to an axis, the mean of both sides."""
        legs = np.concatenate([np.diff(side, axis=0) for side in (self.left, self.right)])
        return float(np.sum(np.hypot(*legs[np.all(legs != 0, axis=1)].T.astype(float)))) / 2

    def fault(self, rule: StripRule) -> Fault | None:
        """Check that the strip has the width of a guide everywhere and on average, and no sharp corners.

        Args:
            rule: Dimensions of a guide.

        Returns:
            The first fault found, or None.
        """
        if self._is_box(rule):
            return None
        fault = _width_fault(self.left, self.right, rule) or mean_width_fault([self], rule)
        # the sides must leave the ends at right angles
        start, stop = _inward(self.right[-1], self.left[0]), _inward(self.left[-1], self.right[0])
        return fault or _turn_fault(self.left, start, -stop) or _turn_fault(self.right, stop, -start)

    def _is_box(self, rule: StripRule) -> bool:
        """Whether the strip is a box along an axis with the width of a guide."""
        if len(self.left) != 2 or len(self.right) != 2:
            return False
        along, across = self.left[1] - self.left[0], self.right[1] - self.left[0]
        square = np.array_equal(self.right[0] - self.right[1], along) and along @ across == 0 and not np.all(along)
        return bool(square and np.any(along) and np.abs(across).max() == rule.width)


def mean_width_fault(strips: Sequence[StripSides], rule: StripRule) -> Fault | None:
    """Check the mean width of a guide: whether the area differs from width times length by more than rounding.

    The phase of light depends on this difference only, wherever the guide is narrower or wider.

    Args:
        strips: Consecutive strips of the guide.
        rule: Dimensions of a guide.

    Returns:
        A fault at the start of the first strip, or None.
    """
    length = sum(strip.fine_length for strip in strips) / (2 * UNITS_PER_NM)
    excess = sum(strip.area_nm2 for strip in strips) - rule.width * length
    allowed = FREE_EXCESS_NM2 + MEAN_WIDTH_NM * sum(strip.slanted_nm for strip in strips)
    if abs(excess) <= allowed:
        return None
    text = (
        f"guide is too {'wide' if excess > 0 else 'narrow'} on average: its area is {excess / NM_PER_UM**2:+.4f} µm² "
        f"off {rule.width} nm times its length, allowed are {allowed / NM_PER_UM**2:.4f}"
    )
    return Fault("width", text, point_um(strips[0].left[0]))


def split_sides(ring: Ints, first: int, second: int) -> StripSides:
    """Split the outline of a polygon at two of its edges into two sides.

    Args:
        ring: (n, 2) points of the polygon in nm, clockwise.
        first: Number of the edge at the first end; edge i starts at point i.
        second: Number of the edge at the second end.

    Returns:
        The sides between these edges.
    """
    away = np.roll(ring, -first - 1, axis=0)
    split = (second - first - 1) % len(ring)
    return StripSides(away[: split + 1], away[split + 1 :])


def strip_length_um(fine: int) -> float:
    """Return the length of a strip in µm: the mean length of its two sides, correctly rounded.

    The sides are a better measure than the area divided by the width. Rounding a corner to the grid moves a side
    laterally, which changes its length far less than the area.

    Args:
        fine: Sum of the lengths of both sides in units of 1 nm / ``UNITS_PER_NM``.
    """
    return fine / (2 * UNITS_PER_NM * NM_PER_UM)


def _fine_length(side: Ints) -> int:
    """Return the length of a polyline, the sum of the rounded chord lengths, in units of 1 nm / ``UNITS_PER_NM``."""
    chords = np.hypot(*np.diff(side, axis=0).astype(float).T)
    # the integer part and two halves of the fraction are summed separately: sums of up to 2³⁷ chords fit
    whole = np.floor(chords)
    upper = (chords - whole) * (1 << 26)
    lower = (upper - np.floor(upper)) * (1 << 26)
    parts = (int(np.sum(part.astype(np.int64))) for part in (whole, np.floor(upper), lower))
    return sum(part << shift for part, shift in zip(parts, (52, 26, 0), strict=True))


def _width_fault(left: Ints, right: Ints, rule: StripRule) -> Fault | None:
    """Return a fault if the distance of the sides is not the width of a guide."""
    for side, other in ((left, right), (right, left)):
        for reach in (NEAR_CHORDS, FAR_CHORDS):
            distance = _distances(side, other[::-1], reach)
            worst = int(np.argmax(np.abs(distance - rule.width)))
            if abs(distance[worst] - rule.width) <= rule.tolerance:
                break
        else:
            text = f"guide is {distance[worst]:.1f} nm wide, allowed is {rule.width} ± {rule.tolerance}"
            return Fault("width", text, point_um(side[worst]))
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


def turns_deg(before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the angles between pairs of vectors.

    Args:
        before: (n, 2) first vectors.
        after: (n, 2) second vectors.

    Returns:
        (n,) angles from the first to the second vectors in degrees, within ±180°, positive for a turn to the left.
    """
    cross = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
    return np.asarray(np.degrees(np.arctan2(cross, np.sum(before * after, axis=1))))


def _inward(start: Ints, end: Ints) -> Ints:
    """Return the normal of a clockwise edge that points into the silicon."""
    x, y = end - start
    return np.array([y, -x])


def _distances(points: Ints, line: Ints, reach: int) -> NDArray[np.float64]:
    """Return the distances (n,) of the points of one side (n, 2) from the opposite side.

    Args:
        points: (n, 2) points.
        line: (m, 2) opposite side, in the same direction.
        reach: Number of chords searched before and behind the same share of the length.
    """
    start, leg = line[:-1].astype(float), np.diff(line, axis=0).astype(float)
    share = np.searchsorted(_share(line), _share(points))
    near = np.clip(share[:, None] + np.arange(-reach, reach + 1), 0, len(leg) - 1)
    away, leg = points[:, None, :] - start[near], leg[near]
    along = np.clip(np.sum(away * leg, axis=2) / np.sum(leg**2, axis=2), 0.0, 1.0)
    return np.asarray(np.sqrt(np.min(np.sum((away - along[:, :, None] * leg) ** 2, axis=2), axis=1)))


def _share(line: Ints) -> NDArray[np.float64]:
    """Return (n,) the share of a polyline's length before each of its points."""
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).astype(float).T))])
    return np.asarray(along / along[-1])
