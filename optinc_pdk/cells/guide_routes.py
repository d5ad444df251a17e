"""Functions that add guides between the devices of a cell: straights, S-bends and polylines with rounded corners."""

from __future__ import annotations

import gdsfactory as gf
import numpy as np

from optinc_pdk.cells.curves import Points, round_corners, s_bend
from optinc_pdk.cells.drawing import add_guide
from optinc_pdk.tech import active_process


def add_s_guide(c: gf.Component, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Draw an S-bend guide between two points, with its arcs at the start.

    Args:
        c: Component to draw in.
        start: Start (x, y) in µm.
        end: End (x, y) in µm, to the right of the start.
    """
    strip = active_process().guide
    x, y = start
    line = s_bend(end[0] - x, end[1] - y, float(strip.radius_um), int(strip.arc_segments))
    add_guide(c, line + np.array(start))


def add_s_guide_reversed(c: gf.Component, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Draw an S-bend guide between two points, with its arcs at the end, as the mirror image of :func:`add_s_guide`.

    Args:
        c: Component to draw in.
        start: Start (x, y) in µm.
        end: End (x, y) in µm, to the right of the start.
    """
    strip = active_process().guide
    line = s_bend(end[0] - start[0], start[1] - end[1], float(strip.radius_um), int(strip.arc_segments))
    add_guide(c, (line * [-1, 1] + np.array(end))[::-1])


def add_straight_guide(c: gf.Component, x0: float, x1: float, y: float) -> None:
    """Draw a horizontal guide.

    Args:
        c: Component to draw in.
        x0: Start in µm.
        x1: End in µm.
        y: Height of the centreline in µm.
    """
    add_guide(c, np.array([[x0, y], [x1, y]]))


def add_bent_guide(c: gf.Component, *corners: tuple[float, float]) -> Points:
    """Draw a guide along a polyline whose corners are rounded with the bend radius of the process.

    Args:
        c: Component to draw in.
        *corners: Points (x, y) of the polyline in µm.

    Returns:
        (n, 2) centreline in µm.
    """
    strip = active_process().guide
    line = round_corners(np.array(corners), float(strip.radius_um), int(strip.arc_segments))
    add_guide(c, line)
    return line
