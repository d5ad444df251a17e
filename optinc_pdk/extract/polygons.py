"""Polygons as arrays of edges, and indexes that find edges by their points and polygons by place. Units are nm."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Bools, Ints
from optinc_pdk.extract.box_pairs import touching_pairs

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
    """Encode points (..., 2) as integers x · 2³² + y, which can be sorted and compared; coordinates must fit 32 bits.

    The code of a difference of points is the difference of their codes.
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
        """Return the number (...) of the edge from each first to each second point (..., 2), -1 if there is none."""
        start, end = pack_points(points), pack_points(ends)
        numbers = np.full(start.shape, -1, dtype=np.int64)
        if not len(self._start):
            return numbers
        place = np.searchsorted(self._start, start)
        for step in range(_SHARED):
            at = np.minimum(place + step, len(self._start) - 1)
            numbers = np.where((self._start[at] == start) & (self._end[at] == end), self._order[at], numbers)
        return numbers


NOT_FOUND = -1


def region_polygons(region: kdb.Region) -> list[kdb.Polygon]:
    """Return the polygons of a region without their KLayout properties. Overlapping polygons are not merged."""
    shapes = kdb.Shapes()
    shapes.insert(region)
    return [shape.polygon for shape in shapes.each()]


def box_array(boxes: Iterable[kdb.Box]) -> Ints:
    """Return KLayout boxes as an (n, 4) array of left, bottom, right and top, in nm."""
    edges = [(box.left, box.bottom, box.right, box.top) for box in boxes]
    return np.array(edges, dtype=np.int64).reshape(-1, 4)


class PolygonIndex:
    """Spatial index of a sequence of polygons. A polygon's number is its position in the sequence. Units are nm."""

    def __init__(self, polygons: Iterable[kdb.Polygon]) -> None:
        """Index polygons; the index itself is built with the first query."""
        self._polygons = list(polygons)

    @cached_property
    def _boxes(self) -> Ints:
        return box_array(polygon.bbox() for polygon in self._polygons)

    @cached_property
    def _parts(self) -> tuple[Ints, Ints]:
        """(k, 4) boxes that cover the polygons, and (k,) the number of each box's polygon.

        The bounding box of a wire with a corner can be as large as a chip and contain thousands of other polygons; the
        boxes of its parts are small.
        """
        if all(_is_covered(polygon) for polygon in self._polygons):
            return self._boxes, np.arange(len(self._polygons))
        parts = [_covering(polygon) for polygon in self._polygons]
        owner = np.repeat(np.arange(len(parts)), [len(boxes) for boxes in parts])
        return box_array(box for boxes in parts for box in boxes), owner

    @cached_property
    def _slanted(self) -> Bools:
        """(n,) whether a polygon has edges that are not parallel to an axis."""
        return np.array([not polygon.is_rectilinear() for polygon in self._polygons], dtype=bool)

    def at(self, points: Ints) -> Ints:
        """Return the number (n,) of the polygon with each point (n, 2) inside or on its outline, -1 if none has.

        If several polygons contain a point, it is the lowest number.
        """
        boxes, owner = self._parts
        query, part = touching_pairs(np.tile(points, 2), boxes).T
        number = owner[part]
        # the parts of Manhattan polygons are exact, others are checked point by point
        kept = np.ones(len(query), dtype=bool)
        for k in np.flatnonzero(self._slanted[number]).tolist():
            x, y = points[query[k]].tolist()
            kept[k] = self._polygons[number[k]].inside(kdb.Point(x, y))
        lowest = np.full(len(points), len(self._polygons), dtype=np.int64)
        np.minimum.at(lowest, query[kept], number[kept])
        return np.where(lowest < len(self._polygons), lowest, NOT_FOUND)

    def cut(self, boxes: Ints) -> tuple[Ints, Ints, Ints]:
        """Intersect every box (n, 4) with the polygons that it overlaps.

        Returns:
            Index (k,) of the box and the intersection (k, 4), for each intersection with a Manhattan polygon,
            decomposed into boxes; and (m, 2) the index of a box and the number of a polygon with slanted edges that may
            overlap it.
        """
        parts, owner = self._parts
        query, part = touching_pairs(boxes, parts).T
        low, high = np.maximum(boxes[query, :2], parts[part, :2]), np.minimum(boxes[query, 2:], parts[part, 2:])
        inner, exact = np.all(low < high, axis=1), ~self._slanted[owner[part]]
        rest = np.unique(np.stack([query, owner[part]], axis=1)[inner & ~exact], axis=0)
        return query[inner & exact], np.hstack([low, high])[inner & exact], rest

    def within(self, boxes: Ints) -> kdb.Region:
        """Return the intersection of the polygons with boxes (n, 4) in nm, as a region that is not merged."""
        _, cut, rest = self.cut(boxes)
        region = kdb.Region([kdb.Polygon(kdb.Box(*edges)) for edges in cut.tolist()])
        for box, number in rest.tolist():
            region += kdb.Region(self._polygons[number]) & kdb.Region(kdb.Box(*boxes[box].tolist()))
        return region

    def overlapping(self, boxes: Ints) -> list[list[kdb.Polygon]]:
        """Return, for each box (n, 4) in nm, the polygons whose bounding boxes overlap it with an area above 0."""
        query, number = touching_pairs(boxes, self._boxes).T
        one, other = boxes[query], self._boxes[number]
        inner = np.maximum(one[:, :2], other[:, :2]) < np.minimum(one[:, 2:], other[:, 2:])
        overlap = np.all(inner, axis=1)
        split = np.searchsorted(query[overlap], np.arange(1, len(boxes)))
        numbers: Sequence[Ints] = np.split(number[overlap], split) if len(boxes) else ()
        return [[self._polygons[k] for k in group.tolist()] for group in numbers]


def _is_covered(polygon: kdb.Polygon) -> bool:
    """Whether a polygon is indexed by its bounding box alone."""
    return polygon.is_box() or (polygon.is_convex() and not polygon.is_rectilinear())


def _covering(polygon: kdb.Polygon) -> list[kdb.Box]:
    """Return boxes that cover a polygon, and exactly it if it is a Manhattan polygon."""
    if _is_covered(polygon):
        return [polygon.bbox()]
    parts = [part.bbox() for part in polygon.decompose_trapezoids()]
    # KLayout rounds where it cuts slanted edges
    return parts if polygon.is_rectilinear() else [part.enlarged(1) for part in parts]
