"""Tapers of heaters: a heater may widen linearly from its part of constant width to its contacts."""

from __future__ import annotations

import klayout.db as kdb
import numpy as np


def part_of_constant_width(free: kdb.Polygon, taper: int) -> kdb.Polygon | None:
    """Return the part of constant width of a heater between its contacts; None if it has another form.

    Args:
        free: Heater between its contacts: a rectangle, with a symmetric taper of a given length at each end.
        taper: Length of the tapers in nm; 0 for a rectangle.
    """
    if not taper:
        return free if free.is_box() else None
    box = free.bbox()
    points = {(point.x, point.y) for point in free.each_point_hull()}
    if free.holes() or len(points) != 8:
        return None
    along = kdb.Box(box.left + taper, box.bottom, box.right - taper, box.top)
    upwards = kdb.Box(box.left, box.bottom + taper, box.right, box.top - taper)
    for inner, flip in ((along, False), (upwards, True)):
        low, high = (inner.bottom, inner.top) if flip else (inner.left, inner.right)
        sides = sorted({point[not flip] for point in points if point[flip] == low})
        middle = box.center().x if flip else box.center().y
        if low >= high or len(sides) != 2 or abs(sum(sides) - 2 * middle) > 1:
            continue
        strip = kdb.Box(sides[0], low, sides[1], high) if flip else kdb.Box(low, sides[0], high, sides[1])
        if points == {
            (x, y) for each in (box, strip) for x in (each.left, each.right) for y in (each.bottom, each.top)
        }:
            return kdb.Polygon(strip)
    return None


def taper_squares(wide: int, narrow: int, taper: int) -> float:
    """Return length over width along two linear tapers, the integral of 1 / width; lengths in nm."""
    return 2.0 * taper * float(np.log(wide / narrow)) / (wide - narrow) if taper and wide > narrow else 0.0
