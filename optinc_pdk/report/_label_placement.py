"""Placement of labels in a drawing so that they do not overlap; positions are in mm."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from optinc_pdk.arrays import Floats

Box = tuple[float, float, float, float]
"""Left, bottom, right and top."""
NOWHERE: Box = (math.inf,) * 4
"""Box that overlaps no other."""
Point = tuple[float, float]
SYMBOL_RADIUS, LEADER_STEP, CLEARANCE = 1.5, 0.5, 0.05
SIDES = {"right": 0.0, "top": 90.0, "left": 180.0, "bottom": 270.0}
DIRECTIONS = (0.0, 180.0, 90.0, 270.0, 45.0, 135.0, 225.0, 315.0, 22.5, 67.5, 112.5, 157.5, 202.5, 247.5, 292.5, 337.5)
"""Directions of a text from its symbol in degrees, in the order in which they are tried."""


def spread_positions(wanted: Floats, spacing: float, low: float, high: float) -> Floats:
    """Move (n,) ascending positions on a line apart as little as possible, to at least a distance, between two limits.

    The sum of squared displacements is the least. ``high`` is at least ``low`` + (n - 1) ``spacing``.
    """
    steps = spacing * np.arange(len(wanted))
    # means of neighbours that would come too close, by pooling adjacent violators
    pools: list[tuple[float, int]] = []
    for value in (wanted - steps).tolist():
        mean, count = value, 1
        while pools and pools[-1][0] > mean:
            before, members = pools.pop()
            mean = (before * members + mean * count) / (members + count)
            count += members
        pools.append((mean, count))
    means = np.repeat([mean for mean, _ in pools], [count for _, count in pools])
    return np.asarray(np.clip(means, low, high - spacing * max(len(wanted) - 1, 0)) + steps)


class OccupiedPlaces:
    """Boxes within a region of a drawing in which no label may lie: those of symbols, lines and placed labels."""

    def __init__(self, region: Box, boxes: Sequence[Box] = ()) -> None:
        self._region = region
        # one row a coordinate: comparisons of 4,000 boxes take most of the time
        self._boxes = np.array(boxes, dtype=np.float64).reshape(-1, 4).T.copy()
        self._count = len(boxes)

    def __len__(self) -> int:
        """Return the number of boxes."""
        return self._count

    def __getitem__(self, place: int) -> Box:
        """Return a box by its number."""
        left, bottom, right, top = self._boxes[:, place].tolist()
        return left, bottom, right, top

    def __setitem__(self, place: int, box: Box) -> None:
        """Replace a box."""
        self._boxes[:, place] = box

    def add(self, boxes: Sequence[Box]) -> None:
        """Add boxes; they are numbered in order."""
        end = self._count + len(boxes)
        if end > self._boxes.shape[1]:
            self._boxes = np.hstack([self._boxes, np.full((4, end), np.inf)])
        self._boxes[:, self._count : end] = np.array(boxes, dtype=np.float64).reshape(-1, 4).T
        self._count = end

    def first_free(self, candidates: Sequence[Box], start: Point | None = None) -> Box | None:
        """Return the first of several boxes that lies in the region and overlaps none; None if there is no such box.

        If a start is given, a line of :func:`leader_points` from it to the box must be free too.
        """
        boxes, taken = np.array(candidates).reshape(-1, 1, 4), self._near(candidates, start)
        inside = np.all(boxes[..., :2] >= self._region[:2], axis=-1)
        inside &= np.all(boxes[..., 2:] <= self._region[2:], axis=-1)
        apart = np.any((boxes[..., 2:] <= taken[..., :2]) | (boxes[..., :2] >= taken[..., 2:]), axis=-1)
        for place in np.flatnonzero(inside[:, 0] & apart.all(axis=1)).tolist():
            if start is None or _free_line(leader_points(start, candidates[place]), taken):
                return candidates[place]
        return None

    def _near(self, candidates: Sequence[Box], start: Point | None) -> Floats:
        """Return the boxes that candidates or lines to them could overlap."""
        lefts, bottoms, rights, tops = zip(*candidates, *([(*start, *start)] if start else []), strict=True)
        left, bottom, right, top = taken = self._boxes[:, : self._count]
        near = (left <= max(rights) + CLEARANCE) & (right >= min(lefts) - CLEARANCE)
        near &= (bottom <= max(tops) + CLEARANCE) & (top >= min(bottoms) - CLEARANCE)
        return taken[:, near].T


def _free_line(points: Floats, taken: Floats) -> bool:
    points = points[:, np.newaxis]
    return not np.any(np.all((points > taken[:, :2] - CLEARANCE) & (points < taken[:, 2:] + CLEARANCE), axis=-1))


def leader_points(start: Point, box: Box) -> Floats:
    """Return (n, 2) points, ``LEADER_STEP`` apart, of the line from a symbol to the nearest point of a text.

    The first is ``SYMBOL_RADIUS`` from ``start``, the middle of the symbol.
    """
    ends = np.array([start, np.clip(start, box[:2], box[2:])])
    length = float(np.hypot(*(ends[1] - ends[0])))
    steps = np.arange(min(SYMBOL_RADIUS, length), length, LEADER_STEP)
    return np.vstack([ends[0] + (ends[1] - ends[0]) * steps[:, np.newaxis] / max(length, LEADER_STEP), ends[1]])


def boxes_around(at: Point, gap: float, width: float, height: float, first: str) -> list[Box]:
    """Return the boxes of a text on all sides of a symbol, at a gap from its middle; the first is on side ``first``."""
    boxes = []
    for degrees in (SIDES[first], *DIRECTIONS):
        angle = math.radians(degrees)
        x = at[0] + math.cos(angle) * (gap + width / 2)
        y = at[1] + math.sin(angle) * (gap + height / 2)
        boxes.append((x - width / 2, y - height / 2, x + width / 2, y + height / 2))
    return boxes
