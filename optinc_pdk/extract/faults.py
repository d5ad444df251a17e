"""Faults that extraction reports, and positions for them."""

from __future__ import annotations

from dataclasses import dataclass

import klayout.db as kdb

from optinc_pdk.extract.contours import Ints
from optinc_pdk.extract.mask_layout import NM_PER_UM


@dataclass(frozen=True)
class Fault:
    """A part of the layout that cannot be part of a circuit.

    Attributes:
        kind: ``"dangling"``, ``"branch"``, ``"width"``, ``"body"``, ``"stray"``, ``"etch"``, ``"slab"``,
            ``"foreign"``, ``"heater"``, ``"pin"``, ``"bump"``, ``"coupled"``, ``"label"``, ``"via"``, ``"short"`` or
            ``"nearly"``.
        message: Description with measured values.
        position_um: Position (x, y) in µm.
        device: Name of the golden device that the silicon resembles, empty if there is none.
    """

    kind: str
    message: str
    position_um: tuple[float, float]
    device: str = ""


def box_center(box: kdb.Box) -> tuple[float, float]:
    """Return the centre of a box in nm; coordinates may be half-integers."""
    return (box.left + box.right) / 2, (box.bottom + box.top) / 2


def center_um(box: kdb.Box) -> tuple[float, float]:
    """Return the centre of a box, given in nm, in µm."""
    x, y = box_center(box)
    return x / NM_PER_UM, y / NM_PER_UM


def point_um(point: Ints) -> tuple[float, float]:
    """Convert a point (2,) from nm to µm."""
    return float(point[0]) / NM_PER_UM, float(point[1]) / NM_PER_UM
