"""Polygons as arrays of edges: integer coordinates in nm, with the interior to the right of every edge."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Ints

# Largest number of indexed edges that start at one point: in a grid of boxes, four polygons share a vertex.
_SHARED = 4


@dataclass(frozen=True)
class Contours:
    """The closed contours of C polygons with E edges in total.

    Attributes:
        points: (E, 2) first point of every edge in nm; the edges of a contour are consecutive.
        ends: (E, 2) second point of every edge in nm.
        follows: (E,) number of the next edge of the same contour.
        polygon: (E,) number of the polygon to which the edge belongs.
        first: (C + 1,) number of the first edge of each polygon; the last entry is E.
        holes: (C,) number of holes of each polygon.
    """

    points: Ints
    ends: Ints
    follows: Ints
    polygon: Ints
    first: Ints
    holes: Ints

    def ring(self, polygon: int) -> Ints:
        """Return the points (n, 2) in nm of a polygon without holes, given its number."""
        return self.points[self.first[polygon] : self.first[polygon + 1]]

    @property
    def double_area(self) -> int:
        """Twice the total area of the polygons in nm², an exact integer; KLayout's ``area`` rounds half units down."""
        # products may overflow and wrap around, but the sum modulo 2⁶⁴ is right because the area itself fits
        (x, y), (u, v) = self.points.T, self.ends.T
        return -int(np.sum(x * v - y * u))


def contours(polygons: Iterable[kdb.Polygon]) -> Contours:
    """Convert KLayout polygons to arrays of edges, in the same order.

    Points are parsed from KLayout's text form, which is ten times as fast as reading them one by one.
    """
    texts = [str(polygon)[1:-1] for polygon in polygons]
    if not texts:
        none = np.zeros((0, 2), dtype=np.int64)
        return Contours(none, none, none[:, 0], none[:, 0], np.zeros(1, dtype=np.int64), none[:, 0])
    rings = [text.split("/") for text in texts]
    lengths = np.array([ring.count(";") + 1 for parts in rings for ring in parts])
    sizes = [sum(ring.count(";") + 1 for ring in parts) for parts in rings]
    numbers = ",".join(texts).replace("/", ",").replace(";", ",")
    points = np.fromstring(numbers, dtype=np.int64, sep=",").reshape(-1, 2)
    follows = np.arange(1, len(points) + 1)
    last = np.cumsum(lengths) - 1
    follows[last] = last - lengths + 1
    return Contours(
        points,
        points[follows],
        follows,
        np.repeat(np.arange(len(sizes)), sizes),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.array([len(parts) - 1 for parts in rings], dtype=np.int64),
    )


def pack_points(points: Ints) -> Ints:
    """Encode each point as one integer, so that points can be sorted and compared; coordinates must fit 32 bits.

    Args:
        points: (..., 2) coordinates.

    Returns:
        (...) codes, x · 2³² + y; the code of a difference of points is the difference of their codes.
    """
    return np.asarray((points[..., 0] << 32) + points[..., 1], dtype=np.int64)


class EdgeIndex:
    """Index that finds edges by their exact end points."""

    def __init__(self, points: Ints, ends: Ints) -> None:
        """Index edges from ``points`` (E, 2) to ``ends`` (E, 2)."""
        start, end = pack_points(points), pack_points(ends)
        self._order = np.lexsort((end, start))
        self._start, self._end = start[self._order], end[self._order]

    def leaving(self, point: Ints) -> Ints:
        """Return the numbers of the indexed edges that start at a point (2,)."""
        start = pack_points(point)
        first, last = (int(np.searchsorted(self._start, start, side)) for side in ("left", "right"))
        return np.asarray(self._order[first:last], dtype=np.int64)

    def find(self, points: Ints, ends: Ints) -> Ints:
        """Find indexed edges by their end points.

        Args:
            points: (..., 2) first points.
            ends: (..., 2) second points.

        Returns:
            (...) number of the indexed edge from each first to each second point, -1 if there is none.
        """
        start, end = pack_points(points), pack_points(ends)
        numbers = np.full(start.shape, -1, dtype=np.int64)
        if not len(self._start):
            return numbers
        place = np.searchsorted(self._start, start)
        for step in range(_SHARED):
            at = np.minimum(place + step, len(self._start) - 1)
            numbers = np.where((self._start[at] == start) & (self._end[at] == end), self._order[at], numbers)
        return numbers
