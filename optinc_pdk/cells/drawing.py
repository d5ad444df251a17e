"""Functions that add shapes, ports and cells to a component, and checks of cell parameters."""

from __future__ import annotations

import math
from typing import Any

import gdsfactory as gf
import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.cards.technology import ViaCard
from optinc_pdk.cells.curves import GRID_PER_UM, Points, ribbon
from optinc_pdk.tech import active_process

# Coordinates are 32-bit integers in nm; 1 m is safely within that range.
LIMIT_UM = 1e6


def add_polygon(component: gf.Component, points_nm: Ints, layer: str) -> None:
    """Add a polygon to a layer.

    Args:
        component: Component to draw in.
        points_nm: (n, 2) vertices in nm.
        layer: Layer name of the active process.
    """
    add_polygon_on(component, points_nm, component.kcl.layer(*active_process().layers[layer].gds))


def add_polygon_on(component: gf.Component, points_nm: Ints, layer: int) -> None:
    """Add a polygon to a layer.

    Args:
        component: Component to draw in.
        points_nm: (n, 2) vertices in nm.
        layer: Index of the layer in the layout database.
    """
    component.shapes(layer).insert(kdb.Polygon([kdb.Point(int(x), int(y)) for x, y in points_nm.tolist()]))


def add_rectangle(component: gf.Component, box_um: tuple[float, float, float, float], layer: str) -> None:
    """Add a rectangle to a layer.

    Args:
        component: Component to draw in.
        box_um: Left, bottom, right and top in µm.
        layer: Layer name of the active process.
    """
    add_rectangle_on(component, box_um, component.kcl.layer(*active_process().layers[layer].gds))


def add_rectangle_on(component: gf.Component, box_um: tuple[float, float, float, float], layer: int) -> None:
    """Add a rectangle to a layer.

    Args:
        component: Component to draw in.
        box_um: Left, bottom, right and top in µm.
        layer: Index of the layer in the layout database.
    """
    corners = (round(value * GRID_PER_UM) for value in box_um)
    component.shapes(layer).insert(kdb.Polygon(kdb.Box(*corners)))


def add_contact(component: gf.Component, box_um: tuple[float, float, float, float]) -> None:
    """Draw a contact: all metals of the contact stack over a box, and an array of vias between them.

    Args:
        component: Component to draw in.
        box_um: Left, bottom, right and top of the contact in µm.
    """
    stack = active_process().contact
    for metal in stack.metals:
        add_rectangle(component, box_um, metal)
    if stack.via is None:
        return
    left, bottom, right, top = box_um
    size = float(stack.via.size_um)
    for x in _via_positions(stack.via, left, right):
        for y in _via_positions(stack.via, bottom, top):
            for layer in stack.vias:
                add_rectangle(component, (x, y, x + size, y + size), layer)


def _via_positions(via: ViaCard, low: float, high: float) -> list[float]:
    """Return the lower edges (µm) of a row of vias, centred between two edges of a contact, on the 1 nm grid."""
    size, pitch = float(via.size_um), float(via.size_um + via.space_um)
    count = math.floor((high - low - 2 * via.enclosure_um - size) / pitch + 1 + 1e-9)
    first = (low + high - (count - 1) * pitch - size) / 2
    # rounded down: edge and enclosure are on the grid, so the enclosure is kept on both sides
    first = math.floor(first * GRID_PER_UM + 1e-6) / GRID_PER_UM
    return [first + i * pitch for i in range(count)]


def add_guide(component: gf.Component, centreline: Points) -> None:
    """Add a strip guide of the active process's width along a centreline.

    Args:
        component: Component to draw in.
        centreline: (n, 2) points in µm.
    """
    add_polygon(component, ribbon(centreline, float(active_process().guide.width_um)), "core")


def add_optical(component: gf.Component, name: str, at: tuple[float, float], orientation: float) -> None:
    """Add an optical port with the cross-section of a strip guide.

    Args:
        component: Component to change.
        name: Port name.
        at: Position (x, y) in µm.
        orientation: Outward direction in degrees.
    """
    component.add_port(name=name, center=at, orientation=orientation, cross_section="strip")


def add_electrical(component: gf.Component, name: str, at: tuple[float, float], orientation: float) -> None:
    """Add an electrical port on the routing metal, as wide as a wire, so that wires connect to it in a netlist.

    Args:
        component: Component to change.
        name: Port name.
        at: Position (x, y) in µm.
        orientation: Outward direction in degrees.
    """
    metal = active_process().metal
    component.add_port(
        name=name,
        center=at,
        orientation=orientation,
        width=float(metal.wire_width_um),
        layer=metal.layer,
        port_type="electrical",
    )


def place_cell(
    component: gf.Component,
    cell: gf.Component,
    at: tuple[float, float],
    rotation: float = 0,
    mirror: bool = False,
) -> Any:
    """Add an instance of a cell to a component.

    Args:
        component: Component to change.
        cell: Cell to place.
        at: Position (x, y) of the cell's origin in µm.
        rotation: Rotation in degrees.
        mirror: Whether to mirror the cell about the x axis before the rotation.

    Returns:
        The instance.
    """
    instance = component.add_ref(cell)
    instance.dcplx_trans = kdb.DCplxTrans(1.0, rotation, mirror, *at)
    return instance


def check_length(name: str, value: Any, lowest: float = 0.0, cell: str = "") -> float:
    """Check that a length is a number on the 1 nm grid and within the range of the layout database.

    Without the check, the layout database would silently round the length or let it overflow.

    Args:
        name: Name of the parameter, for the message.
        value: Length in µm.
        lowest: Smallest length allowed in µm.
        cell: Name of the cell, for the message.

    Returns:
        The length as a float.

    Raises:
        ValueError: The value is not a number, not finite, below ``lowest``, 1 m or more, or not on the 1 nm grid.
    """
    where = f"{cell}: {name}" if cell else name
    if isinstance(value, bool | np.bool) or not isinstance(value, int | float | np.number):
        raise ValueError(f"{where} is {value!r}, not a length in µm; give a number from {lowest} to {LIMIT_UM:.0f}")
    # no math.isfinite, which fails for integers too large for a float; NaN fails this comparison
    if not lowest <= value < LIMIT_UM:
        raise ValueError(f"{where} is {value} µm, outside {lowest} to {LIMIT_UM:.0f} µm; give a length in this range")
    if abs(value * GRID_PER_UM - round(value * GRID_PER_UM)) > 1e-6:
        raise ValueError(f"{where} is {value} µm, off the 1 nm grid; round it")
    return float(value)


def check_count(name: str, value: Any, lowest: int, highest: int, cell: str) -> int:
    """Check that a value is a whole number within a range.

    Args:
        name: Name of the parameter, for the message.
        value: Number.
        lowest: Smallest number allowed.
        highest: Largest number allowed.
        cell: Name of the cell, for the message.

    Returns:
        The number as an int.

    Raises:
        ValueError: The value is not a whole number, or is outside ``lowest`` to ``highest``.
    """
    if isinstance(value, bool | np.bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"{cell}: {name} is {value!r}, not a whole number; give one from {lowest} to {highest}")
    if not lowest <= value <= highest:
        raise ValueError(f"{cell}: {name} is {value}, outside {lowest} to {highest}; give a number in this range")
    return int(value)
