"""Faults that extraction reports, and conversion of positions to µm."""

from __future__ import annotations

from dataclasses import dataclass, replace

import klayout.db as kdb

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.extract.mask_layout import NM_PER_UM


def area_text(area_nm2: float) -> str:
    """Format an area as text in µm², also if it is a few nm²."""
    return f"{area_nm2 / NM_PER_UM**2:.4g} µm²"


@dataclass(frozen=True)
class Fault:
    """A part of the layout that cannot be part of a circuit.

    Attributes:
        kind: Silicon: ``"dangling"`` (guide with one end), ``"branch"`` (not exactly two ends), ``"width"`` (wrong
            width or a kink), ``"body"`` (damaged device), ``"stray"`` (part of no device or guide), ``"foreign"``
            (too close to a device or guide), ``"nearly"`` (resembles a golden device), ``"facet"`` (edge coupler away
            from the die's edge). Other layers: ``"etch"`` (differs from the golden devices), ``"slab"`` (slab over or
            beside silicon), ``"layer"`` (another layer within reach of silicon), ``"coupled"`` (mark without a
            coupler), ``"coupled_guides"`` (mark over other than two guides), ``"coupled_end"`` (guide ends under a
            mark), ``"heater"`` (not part of a phase shifter), ``"pin"`` (no metal), ``"via"`` (not completely on its
            metals), ``"short"`` (nets joined in metal), ``"bump"`` (wrong or missing opening), ``"label"`` (misplaced
            or used twice).
        message: Description with measured values.
        position_um: Position (x, y) in µm.
        device: Name of the golden device that the silicon resembles, empty if there is none.
    """

    kind: str
    message: str
    position_um: tuple[float, float]
    device: str = ""


def box_center(box: kdb.Box) -> tuple[float, float]:
    """Return the centre (x, y) of a box in the unit of the box; coordinates may be half-integers."""
    return (box.left + box.right) / 2, (box.bottom + box.top) / 2


def center_um(box: kdb.Box) -> tuple[float, float]:
    """Return the centre (x, y) in µm of a box given in nm."""
    x, y = box_center(box)
    return x / NM_PER_UM, y / NM_PER_UM


def moved_fault(fault: Fault, by: kdb.Vector | kdb.Point) -> Fault:
    """Return a fault at another place, given the displacement in nm."""
    x, y = fault.position_um
    return replace(fault, position_um=(x + by.x / NM_PER_UM, y + by.y / NM_PER_UM))


def point_um(point: Ints | Floats) -> tuple[float, float]:
    """Convert a point (2,) from nm to (x, y) in µm."""
    return float(point[0]) / NM_PER_UM, float(point[1]) / NM_PER_UM
