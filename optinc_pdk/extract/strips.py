"""Strips: whether a polygon is a guide of constant width from one end to the other, and how long."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.extract.contours import Ints
from optinc_pdk.extract.gds import NM_PER_UM
from optinc_pdk.extract.silicon import Fault

# A bend of 64 chords to 90° turns by 1.4° per corner, and rounding to 1 nm adds up to 45° on the shortest
# chords; a step sideways, of whatever height, turns by 90° twice.
SHARPEST_TURN_DEG = 60.0
# Sides of one strip run ahead of each other by its width times its turn: 12 chords of a 10 µm bend per full
# turn. A guide that winds up more is measured a second time.
NEAR_CHORDS = 16
FAR_CHORDS = 256


@dataclass(frozen=True)
class StripRule:
    """What a guide looks like, in nm: its width, the rounding forgiven, and half the width of a body."""

    width: int
    tolerance: int
    body: int


def check_strip(ring: Ints, first: int, second: int, rule: StripRule) -> tuple[float, Fault | None]:
    """Check that a polygon is a strip of constant width between two of its edges, and measure it.

    Args:
        ring: (n, 2) points of the polygon in nm.
        first: Number of the edge at one end.
        second: Number of the edge at the other end.
        rule: Width and tolerance.

    Returns:
        Its length in µm, as the mean of its sides': corners rounded to the grid move a side aside, which
        changes its length by far less than the strip's area. And what is wrong, where, or None.
    """
    away = np.roll(ring, -first - 1, axis=0)
    split = (second - first - 1) % len(ring)
    left, right = away[: split + 1], away[split + 1 :]
    length = float(sum(np.sum(np.hypot(*np.diff(side, axis=0).astype(float).T)) for side in (left, right)))
    fault = _width_fault(left, right, rule)
    # the sides leave the ends at right angles
    start, stop = _inward(ring, first), _inward(ring, second)
    fault = fault or _turn_fault(left, start, -stop) or _turn_fault(right, stop, -start)
    return length / 2 / NM_PER_UM, fault


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


def _inward(ring: Ints, edge: int) -> Ints:
    """Normal of a clockwise edge towards the silicon."""
    x, y = ring[(edge + 1) % len(ring)] - ring[edge]
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


def point_um(point: Ints) -> tuple[float, float]:
    """A point in µm."""
    return float(point[0]) / NM_PER_UM, float(point[1]) / NM_PER_UM
