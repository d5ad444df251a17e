"""Shapes in nm whose distances are known exactly: every vertex is on the grid, also of slanted shapes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import klayout.db as kdb

Vector = tuple[int, int]

# Directions of integer vectors: two parallels along v through grid points are c / |v| nm apart for an integer c. So
# distances are whole nanometres at 3-4-5 and 5-12-13 triangles, and known to 0.03 nm at other angles.
ANGLES: dict[str, Vector] = {
    "0°": (1, 0),
    "45°": (1, 1),
    "36.9°": (4, 3),
    "22.6°": (12, 5),
    "7°": (57, 7),
    "33.3°": (35, 23),
    "63.1°": (34, 67),
}


@dataclass(frozen=True)
class Shape:
    """A polygon, path or text of a layer.

    Attributes:
        layer: Name of a layer of the process, or a pair that is none of its layers.
        whole: In nm.
        halves: Two pieces that meet at grid points and are together the whole; empty where it has none.
    """

    layer: str | Vector
    whole: kdb.Polygon | kdb.Path | kdb.Text
    halves: tuple[kdb.Polygon, ...] = ()


def box(layer: str, left: int, bottom: int, right: int, top: int) -> Shape:
    """A rectangle; its halves are those of the longer side."""
    whole = kdb.Box(left, bottom, right, top)
    if whole.width() >= whole.height():
        middle = (left + right) // 2
        parts = (kdb.Box(left, bottom, middle, top), kdb.Box(middle, bottom, right, top))
    else:
        middle = (bottom + top) // 2
        parts = (kdb.Box(left, bottom, right, middle), kdb.Box(left, middle, right, top))
    return Shape(layer, kdb.Polygon(whole), tuple(kdb.Polygon(part) for part in parts))


def polygon(layer: str, *points: Vector) -> Shape:
    """A polygon without halves."""
    return Shape(layer, kdb.Polygon([kdb.Point(*point) for point in points]))


def ring(layer: str, outer: tuple[int, int, int, int], hole: tuple[int, int, int, int]) -> Shape:
    """A rectangle with a hole; its halves are the left and the right one."""
    whole = kdb.Polygon(kdb.Box(*outer))
    whole.insert_hole(kdb.Box(*hole))
    middle = (hole[0] + hole[2]) // 2
    frame = kdb.Region(whole)
    sides = (kdb.Box(outer[0], outer[1], middle, outer[3]), kdb.Box(middle, outer[1], outer[2], outer[3]))
    halves = [next((frame & kdb.Region(side)).each()) for side in sides]
    return Shape(layer, whole, tuple(halves))


def bar(layer: str, start: Vector, along: Vector, length: float, across: Vector) -> Shape:
    """A parallelogram from `start`, with sides along an angle's vector and the vector `across`.

    Its length is rounded to an even number of vectors, so that its halves meet at grid points.
    """
    steps = 2 * max(1, round(length / math.hypot(*along) / 2))
    sides = [move(start, along, steps * part // 2) for part in range(3)]

    def piece(first: int, last: int) -> kdb.Polygon:
        points = [sides[first], sides[last], move(sides[last], across, 1), move(sides[first], across, 1)]
        return kdb.Polygon([kdb.Point(*point) for point in points])

    return Shape(layer, piece(0, 2), (piece(0, 1), piece(1, 2)))


def move(start: Vector, by: Vector, times: int) -> Vector:
    """A point moved by a vector."""
    return start[0] + times * by[0], start[1] + times * by[1]


def opposite(along: Vector) -> Vector:
    """The direction perpendicular to another that points to the right or up."""
    x, y = -along[1], along[0]
    return (x, y) if (x, y) > (0, 0) else (-x, -y)


def left_of(along: Vector, distance: int, beyond: bool) -> Vector:
    """A grid vector to the parallel at a distance to the left.

    Args:
        along: Direction of both parallels, of coprime integers.
        distance: In nm, not negative.
        beyond: Whether the exact distance is the least on the grid that is no less, or the most that is no more.
    """
    squared = distance**2 * (along[0] ** 2 + along[1] ** 2)
    # the cross product of the two vectors is the distance times the length of `along`
    product = math.isqrt(squared)
    if beyond and product**2 < squared:
        product += 1
    return _with_cross(along, product)


def exact(along: Vector, across: Vector) -> float:
    """Distance in nm between the two parallels at the ends of a vector."""
    return (along[0] * across[1] - along[1] * across[0]) / math.hypot(*along)


def slanted(distance: int, beyond: bool, along: tuple[float, float] = (0.6, 0.8)) -> Vector:
    """A grid vector near the direction of a 3-4-5 triangle, with a length just above or just below a given one."""
    x, y = along[0] * distance, along[1] * distance
    near = [(round(x) + i, round(y) + j) for i in range(-4, 5) for j in range(-4, 5)]
    fits = [
        v for v in near if (v[0] ** 2 + v[1] ** 2 >= distance**2 if beyond else v[0] ** 2 + v[1] ** 2 <= distance**2)
    ]
    return min(fits, key=lambda v: (abs(math.hypot(*v) - distance), v))


def _with_cross(along: Vector, product: int) -> Vector:
    """The shortest vector whose cross product with `along` has a given value."""
    dx, dy = along
    # dx * y - dy * x = 1 has a solution, as the two are coprime
    x = pow(-dy, -1, dx) if dx else -dy
    y = (1 + dy * x) // dx if dx else 0
    x, y = x * product, y * product
    back = round((x * dx + y * dy) / (dx * dx + dy * dy))
    return x - back * dx, y - back * dy
