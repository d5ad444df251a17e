"""Which polygon is here: point and box queries over many polygons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import klayout.db as kdb


def plain(region: kdb.Region) -> list[kdb.Polygon]:
    """A region's merged polygons without properties, which KLayout carries along and no mask has."""
    shapes = kdb.Shapes()
    shapes.insert(region)
    return [shape.polygon for shape in shapes.each()]


class Finder:
    """Numbers of polygons by place."""

    def __init__(self, polygons: Iterable[kdb.Polygon]) -> None:
        """Index polygons, which differ from each other."""
        self._shapes = kdb.Shapes()
        self._number: dict[kdb.Polygon, int] = {}
        for number, polygon in enumerate(polygons):
            self._shapes.insert(polygon)
            self._number[polygon] = number

    def at(self, x: int, y: int) -> int | None:
        """The polygon that has a point inside or on its outline; the lowest number if several have."""
        point = kdb.Point(x, y)
        near = (shape.polygon for shape in self._shapes.each_touching(kdb.Box(point, point)))
        return min((self._number[polygon] for polygon in near if polygon.inside(point)), default=None)

    def overlapping(self, box: kdb.Box) -> Iterator[kdb.Polygon]:
        """Polygons whose bounding boxes overlap a box."""
        return (shape.polygon for shape in self._shapes.each_overlapping(box))
