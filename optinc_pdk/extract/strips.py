"""Strips: whether a polygon is a guide of constant width from one end to the other, and how long."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.extract.contours import Ints
from optinc_pdk.extract.faults import Fault, point_um
from optinc_pdk.extract.gds import NM_PER_UM

# A bend of 64 chords to 90° turns by 1.4° per corner, and rounding to 1 nm adds up to 45° on the shortest
# chords; a step sideways, of whatever height, turns by 90° twice.
SHARPEST_TURN_DEG = 60.0
# Sides of one strip run ahead of each other by its width times its turn: 12 chords of a 10 µm bend per full
# turn. A guide that winds up more is measured a second time.
NEAR_CHORDS = 16
FAR_CHORDS = 256


# Lengths of chords in nm are summed exactly, in this part of a nm: doubles of 1 or more have no finer digit.
# So equal guides have equal lengths, in whatever order their pieces are taken.
FINE = 1 << 52


@dataclass(frozen=True)
class StripRule:
    """What a guide looks like, in nm: its width, the rounding forgiven, and half the width of a body."""

    width: int
    tolerance: int
    body: int


@dataclass(frozen=True, eq=False)
class Sides:
    """The two sides of a strip, clockwise around it.

    Attributes:
        left: (n, 2) points from the first end to the second.
        right: (m, 2) points from the second end to the first.
    """

    left: Ints
    right: Ints

    @property
    def back(self) -> Sides:
        """The same strip from its second end to the first."""
        return Sides(self.right, self.left)

    @property
    def fine_length(self) -> int:
        """Length of both sides together in nm / FINE."""
        return sum(_fine_length(side) for side in (self.left, self.right))

    def fault(self, rule: StripRule) -> Fault | None:
        """What is wrong with the strip, and where, or None."""
        if self._is_box(rule):
            return None
        fault = _width_fault(self.left, self.right, rule)
        # the sides leave the ends at right angles
        start, stop = _inward(self.right[-1], self.left[0]), _inward(self.left[-1], self.right[0])
        return fault or _turn_fault(self.left, start, -stop) or _turn_fault(self.right, stop, -start)

    def _is_box(self, rule: StripRule) -> bool:
        """Whether the strip is straight along an axis, with square ends, and as wide as it should be."""
        if len(self.left) != 2 or len(self.right) != 2:
            return False
        along, across = self.left[1] - self.left[0], self.right[1] - self.left[0]
        square = np.array_equal(self.right[0] - self.right[1], along) and along @ across == 0 and not np.all(along)
        return bool(square and np.any(along) and abs(np.abs(across).max() - rule.width) <= rule.tolerance)


def sides_of(ring: Ints, first: int, second: int) -> Sides:
    """The sides of a polygon (n, 2) between two of its edges."""
    away = np.roll(ring, -first - 1, axis=0)
    split = (second - first - 1) % len(ring)
    return Sides(away[: split + 1], away[split + 1 :])


def strip_length_um(fine: int) -> float:
    """A strip's length in µm from that of both its sides in nm / FINE, correctly rounded.

    The mean of its sides': corners rounded to the grid move a side aside, which changes its length by far less than
    the strip's area.
    """
    return fine / (2 * FINE * NM_PER_UM)


def _fine_length(side: Ints) -> int:
    """Length of a polyline in nm / FINE: the exact sum of its chords' lengths as doubles."""
    chords = np.hypot(*np.diff(side, axis=0).astype(float).T)
    # whole numbers, and two halves of the digits behind the point: sums of 2³⁷ chords fit
    whole = np.floor(chords)
    upper = (chords - whole) * (1 << 26)
    lower = (upper - np.floor(upper)) * (1 << 26)
    parts = (int(np.sum(part.astype(np.int64))) for part in (whole, np.floor(upper), lower))
    return sum(part << shift for part, shift in zip(parts, (52, 26, 0), strict=True))


def _width_fault(left: Ints, right: Ints, rule: StripRule) -> Fault | None:
    """Where the sides are not as far apart as they should be."""
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
    """Where a side that begins along ``start`` and ends along ``stop`` has a corner."""
    legs = np.concatenate([[start], np.diff(side, axis=0), [stop]]).astype(float)
    turns = turns_deg(legs[:-1], legs[1:])
    worst = int(np.argmax(np.abs(turns)))
    if abs(turns[worst]) <= SHARPEST_TURN_DEG:
        return None
    text = f"guide turns by {abs(turns[worst]):.0f}° in one corner: a step or a kink"
    return Fault("width", text, point_um(side[worst]))


def turns_deg(before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n,) angles in degrees by which legs turn, positive to the left."""
    cross = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
    return np.asarray(np.degrees(np.arctan2(cross, np.sum(before * after, axis=1))))


def _inward(start: Ints, end: Ints) -> Ints:
    """Normal of a clockwise edge towards the silicon."""
    x, y = end - start
    return np.array([y, -x])


def _distances(points: Ints, line: Ints, reach: int) -> NDArray[np.float64]:
    """(n,) distance of each point of one side to the other side, a polyline that runs beside it.

    Only the chords within ``reach`` of the same share of the length are tried.
    """
    start, leg = line[:-1].astype(float), np.diff(line, axis=0).astype(float)
    share = np.searchsorted(_share(line), _share(points))
    near = np.clip(share[:, None] + np.arange(-reach, reach + 1), 0, len(leg) - 1)
    away, leg = points[:, None, :] - start[near], leg[near]
    along = np.clip(np.sum(away * leg, axis=2) / np.sum(leg**2, axis=2), 0.0, 1.0)
    return np.asarray(np.sqrt(np.min(np.sum((away - along[:, :, None] * leg) ** 2, axis=2), axis=1)))


def _share(line: Ints) -> NDArray[np.float64]:
    """(n,) share of a polyline's length before each of its points."""
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).astype(float).T))])
    return np.asarray(along / along[-1])
