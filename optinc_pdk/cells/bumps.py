"""Flip-chip bumps, for processes that have them."""

from __future__ import annotations

import math

import gdsfactory as gf
import numpy as np

from optinc_pdk.cells.cached import cell
from optinc_pdk.cells.curves import GRID_PER_UM
from optinc_pdk.cells.draw import add_electrical, place, polygon, rectangle
from optinc_pdk.tech import active_process


@cell
def bump_opening() -> gf.Component:
    """The octagonal opening of a flip-chip bump, e1 at its centre."""
    c = gf.Component()
    half = active_process().device("bump").size("opening_um") / 2
    short = math.floor(half * math.tan(math.pi / 8) * GRID_PER_UM) / GRID_PER_UM
    corners = [(-short, half), (short, half), (half, short), (half, -short)]
    octagon = np.array(corners + [(-x, -y) for x, y in corners])
    polygon(c, np.rint(octagon * GRID_PER_UM).astype(np.int64), "bump")
    add_electrical(c, "e1", (0.0, 0.0), 270, 2 * half)
    return c


@cell
def bump() -> gf.Component:
    """A bump's landing with its opening, e1 at its centre."""
    c = gf.Component()
    size = active_process().device("bump").size("size_um")
    rectangle(c, (-size / 2, -size / 2, size / 2, size / 2), active_process().metal.layer)
    place(c, bump_opening(), (0.0, 0.0))
    add_electrical(c, "e1", (0.0, 0.0), 270, size)
    return c
