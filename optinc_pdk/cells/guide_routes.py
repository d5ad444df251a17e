"""Guides between the devices of a cell, as cells of their own, so that the netlist of the cell is complete."""

from __future__ import annotations

import math

import gdsfactory as gf
import numpy as np

from optinc_pdk.cells.cell_cache import cell
from optinc_pdk.cells.curves import Points, polyline_length_um, round_corners, s_bend
from optinc_pdk.cells.drawing import add_guide, add_optical, place_cell
from optinc_pdk.cells.guides import straight
from optinc_pdk.tech import active_process


@cell
def s_guide(length: float, offset: float) -> gf.Component:
    """S-bend of the process's radius from o1 at the origin to o2, with a straight behind its arcs if it is longer.

    Args:
        length: Extent along x in µm.
        offset: Extent along y in µm; a negative offset leads down.
    """
    strip = active_process().guide
    c = gf.Component()
    _draw(c, s_bend(length, offset, float(strip.radius_um), strip.chords), 180, 0)
    return c


@cell
def bent_guide(corners: tuple[tuple[float, float], ...]) -> gf.Component:
    """Guide from o1 to o2 along a polyline whose corners are rounded with the bend radius of the process.

    Args:
        corners: Points (x, y) of the polyline in µm; the first is the origin. Its parts are parallel to the axes.
    """
    strip = active_process().guide
    c = gf.Component()
    points = np.array(corners)
    line = round_corners(points, float(strip.radius_um), strip.chords)
    _draw(c, line, _direction(points[1], points[0]), _direction(points[-2], points[-1]))
    return c


def _draw(c: gf.Component, line: Points, first: int, last: int) -> None:
    """Draw a guide along a centreline, with ports at its ends that face in two directions in degrees."""
    add_guide(c, line)
    for name, (x, y), side in (("o1", line[0].tolist(), first), ("o2", line[-1].tolist(), last)):
        add_optical(c, name, (round(x, 3), round(y, 3)), side)
    c.info["length"] = round(polyline_length_um(line), 6)


def _direction(start: Points, end: Points) -> int:
    """Return the direction in degrees from one point to another."""
    x, y = (end - start).tolist()
    return round(math.degrees(math.atan2(y, x))) % 360


def add_s_guide(c: gf.Component, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Add an S-bend guide between two points, with its arcs at the start.

    Args:
        c: Component to draw in.
        start: Start (x, y) in µm.
        end: End (x, y) in µm, to the right of the start.
    """
    place_cell(c, s_guide(round(end[0] - start[0], 3), round(end[1] - start[1], 3)), start)


def add_s_guide_reversed(c: gf.Component, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Add an S-bend guide between two points, with its arcs at the end, as the mirror image of :func:`add_s_guide`.

    Args:
        c: Component to draw in.
        start: Start (x, y) in µm.
        end: End (x, y) in µm, to the right of the start.
    """
    inside = s_guide(round(end[0] - start[0], 3), round(start[1] - end[1], 3))
    place_cell(c, inside, end, rotation=180, mirror=True)


def add_straight_guide(c: gf.Component, x0: float, x1: float, y: float) -> None:
    """Add a horizontal guide; one without length is not drawn.

    Args:
        c: Component to draw in.
        x0: Start in µm.
        x1: End in µm.
        y: Height of the centreline in µm.
    """
    if length := round(x1 - x0, 3):
        place_cell(c, straight(length=length), (x0, y))


def add_bent_guide(c: gf.Component, *corners: tuple[float, float]) -> None:
    """Add a guide along a polyline whose corners are rounded with the bend radius of the process.

    Args:
        c: Component to draw in.
        *corners: Points (x, y) of the polyline in µm.
    """
    x, y = corners[0]
    place_cell(c, bent_guide(tuple((round(a - x, 3), round(b - y, 3)) for a, b in corners)), (x, y))
