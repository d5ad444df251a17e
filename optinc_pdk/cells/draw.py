"""Drawing primitives shared by the cells."""

from __future__ import annotations

import math
from typing import Any

import gdsfactory as gf
import klayout.db as kdb
import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards.process import Via
from optinc_pdk.cells.curves import GRID_PER_UM, Points, ribbon
from optinc_pdk.tech import active_process

LIMIT_UM = 1e6


def polygon(component: gf.Component, points_nm: NDArray[np.int64], layer: str) -> None:
    """Add a polygon given in nm."""
    shape = kdb.Polygon([kdb.Point(int(x), int(y)) for x, y in points_nm.tolist()])
    component.shapes(component.kcl.layer(*active_process().layers[layer].gds)).insert(shape)


def rectangle(component: gf.Component, box_um: tuple[float, float, float, float], layer: str) -> None:
    """Add a rectangle (left, bottom, right, top)."""
    left, bottom, right, top = box_um
    corners = np.array([[left, bottom], [left, top], [right, top], [right, bottom]])
    polygon(component, np.rint(corners * GRID_PER_UM).astype(np.int64), layer)


def contact(component: gf.Component, box_um: tuple[float, float, float, float]) -> None:
    """Add a contact over a box: every metal of the process's stack, joined by as many vias as fit."""
    stack = active_process().contact
    for metal in stack.metals:
        rectangle(component, box_um, metal)
    if stack.via is None:
        return
    left, bottom, right, top = box_um
    size = float(stack.via.size_um)
    for x in _vias(stack.via, left, right):
        for y in _vias(stack.via, bottom, top):
            for layer in stack.vias:
                rectangle(component, (x, y, x + size, y + size), layer)


def _vias(via: Via, low: float, high: float) -> list[float]:
    """Where vias start between the edges of a contact, centred within the grid."""
    size, pitch = float(via.size_um), float(via.size_um + via.space_um)
    count = math.floor((high - low - 2 * via.enclosure_um - size) / pitch + 1 + 1e-9)
    first = (low + high - (count - 1) * pitch - size) / 2
    # rounded towards the edge that is on the grid, as the enclosure is: it is kept
    first = math.floor(first * GRID_PER_UM + 1e-6) / GRID_PER_UM
    return [first + i * pitch for i in range(count)]


def guide(component: gf.Component, centreline: Points) -> None:
    """Add a strip guide along a centreline."""
    polygon(component, ribbon(centreline, float(active_process().guide.width_um)), "core")


def add_optical(component: gf.Component, name: str, at: tuple[float, float], orientation: float) -> None:
    """Add a strip port that faces ``orientation`` degrees."""
    component.add_port(name=name, center=at, orientation=orientation, cross_section="strip")


def add_electrical(
    component: gf.Component, name: str, at: tuple[float, float], orientation: float, width: float
) -> None:
    """Add a metal port."""
    component.add_port(
        name=name,
        center=at,
        orientation=orientation,
        width=width,
        layer=active_process().metal.layer,
        port_type="electrical",
    )


def place(
    component: gf.Component,
    cell: gf.Component,
    at: tuple[float, float],
    rotation: float = 0,
    mirror: bool = False,
) -> Any:
    """Put a cell at a position; ``mirror`` flips it at the x axis before it is rotated."""
    instance = component.add_ref(cell)
    instance.dcplx_trans = kdb.DCplxTrans(1.0, rotation, mirror, *at)
    return instance


def check_length(name: str, value: Any, lowest: float = 0.0, cell: str = "") -> float:
    """Refuse lengths that the database would silently wrap or drop.

    Raises:
        ValueError: No number, not finite, below ``lowest`` or beyond 1 m, or off the grid; names cell and parameter.
    """
    where = f"{cell}: {name}" if cell else name
    if isinstance(value, bool | np.bool) or not isinstance(value, int | float | np.number):
        raise ValueError(f"{where} is {value!r}, no length in µm; give a number from {lowest} to {LIMIT_UM:.0f}")
    # a comparison, because an integer may be too large for a float; NaN fails it
    if not lowest <= value < LIMIT_UM:
        raise ValueError(f"{where} is {value} µm, allowed are {lowest} to {LIMIT_UM:.0f} µm")
    if abs(value * GRID_PER_UM - round(value * GRID_PER_UM)) > 1e-6:
        raise ValueError(f"{where} is {value} µm, off the 1 nm grid; round it")
    return float(value)


def check_count(name: str, value: Any, lowest: int, highest: int, cell: str) -> int:
    """Refuse what is no count, or one that no cell can hold.

    Raises:
        ValueError: No whole number, or outside ``lowest`` to ``highest``; names cell and parameter.
    """
    if isinstance(value, bool | np.bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"{cell}: {name} is {value!r}, no count; give a whole number from {lowest} to {highest}")
    if not lowest <= value <= highest:
        raise ValueError(f"{cell}: {name} is {value}, allowed are {lowest} to {highest}")
    return int(value)
