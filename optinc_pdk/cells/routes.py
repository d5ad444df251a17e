"""Guides that cells draw between their devices."""

from __future__ import annotations

import gdsfactory as gf
import numpy as np

from optinc_pdk.cells.curves import Points, rounded, s_bend
from optinc_pdk.cells.draw import guide
from optinc_pdk.tech import active_process


def s_guide(c: gf.Component, start: tuple[float, float], end: tuple[float, float]) -> None:
    """An S whose bends sit at its start."""
    strip = active_process().guide
    x, y = start
    line = s_bend(end[0] - x, end[1] - y, float(strip.radius_um), int(strip.arc_segments))
    guide(c, line + np.array(start))


def s_guide_back(c: gf.Component, start: tuple[float, float], end: tuple[float, float]) -> None:
    """An S whose bends sit at its end, so that arms are mirror images."""
    strip = active_process().guide
    line = s_bend(end[0] - start[0], start[1] - end[1], float(strip.radius_um), int(strip.arc_segments))
    guide(c, (line * [-1, 1] + np.array(end))[::-1])


def straight_guide(c: gf.Component, x0: float, x1: float, y: float) -> None:
    """A guide along x."""
    guide(c, np.array([[x0, y], [x1, y]]))


def bent_guide(c: gf.Component, *corners: tuple[float, float]) -> Points:
    """A guide along corners, rounded at the process's radius; its centreline."""
    strip = active_process().guide
    line = rounded(np.array(corners), float(strip.radius_um), int(strip.arc_segments))
    guide(c, line)
    return line
