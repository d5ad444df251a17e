"""Faults that extraction reports, and positions for them."""

from __future__ import annotations

from dataclasses import dataclass

import klayout.db as kdb

from optinc_pdk.extract.contours import Ints
from optinc_pdk.extract.gds import NM_PER_UM


@dataclass(frozen=True)
class Fault:
    """Something in the layout that is no circuit.

    Attributes:
        kind: ``"dangling"``, ``"branch"``, ``"width"``, ``"body"``, ``"stray"``, ``"etch"``, ``"slab"``,
            ``"foreign"``, ``"heater"``, ``"pin"``, ``"bump"``, ``"coupled"``, ``"label"``, ``"via"``, ``"short"`` or
            ``"nearly"``.
        message: What is wrong, with numbers.
        position_um: Where.
        device: The golden device that it is nearly, if any.
    """

    kind: str
    message: str
    position_um: tuple[float, float]
    device: str = ""


def box_center(box: kdb.Box) -> tuple[float, float]:
    """Middle of a box in nm, which may be half a nm."""
    return (box.left + box.right) / 2, (box.bottom + box.top) / 2


def center_um(box: kdb.Box) -> tuple[float, float]:
    """Middle of a box in µm."""
    x, y = box_center(box)
    return x / NM_PER_UM, y / NM_PER_UM


def point_um(point: Ints) -> tuple[float, float]:
    """Convert a point (2,) from nm to µm."""
    return float(point[0]) / NM_PER_UM, float(point[1]) / NM_PER_UM
