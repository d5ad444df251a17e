"""Ports and bounding boxes of cells, as placement uses them, computed when a cell is first used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import gdsfactory as gf

from optinc_pdk.cells import CELLS

Point = tuple[float, float]
Box = tuple[float, float, float, float]

STRETCHED = ("mzi_unit", "mzi_dummy", "mzi_narrow_dummy")
VARIANTS: dict[str, tuple[str, dict[str, bool]]] = {"mzi_narrow_dummy": ("mzi_dummy", {"narrow": True})}
"""Components that are drawn by the cell of another name, with its settings."""


class Port(NamedTuple):
    """Position (x, y) of a port in µm, and its outward direction ``angle`` in degrees, a multiple of 90."""

    x: float
    y: float
    angle: int


@dataclass(frozen=True)
class CellFrame:
    """Ports and bounding box of a component.

    Attributes:
        ports: Port name to its position and direction.
        box: Bounding box (left, bottom, right, top) in µm.
    """

    ports: dict[str, Port]
    box: Box


class CellFrames(dict[str, CellFrame]):
    """Mapping from component name to the frame of its cell in the active PDK, in the cell's own coordinates.

    Cells of MZIs and dummies are lengthened by ``stretch_um``, see :func:`optinc_pdk.layout.heater_wiring.stretch_um`.
    """

    def __init__(self, stretch_um: float = 0.0) -> None:
        """Prepare cells whose MZIs have ``stretch_um`` more length between their heaters."""
        super().__init__()
        self.stretch_um = stretch_um
        self._turned: dict[tuple[str, int, bool], CellFrame] = {}

    def component(self, name: str) -> gf.Component:
        """Return the gdsfactory cell of a component; MZIs and dummies are lengthened."""
        cell, settings = VARIANTS.get(name, (name, {}))
        return CELLS[cell](**settings, **({"stretch_um": self.stretch_um} if name in STRETCHED else {}))

    def __missing__(self, name: str) -> CellFrame:
        component = self.component(name)
        box = component.dbbox()
        ports = {
            str(p.name): Port(float(p.center[0]), float(p.center[1]), round(p.orientation or 0) % 360)
            for p in component.ports
        }
        self[name] = CellFrame(ports, (box.left, box.bottom, box.right, box.top))
        return self[name]

    def turned(self, name: str, rotation: int, mirror: bool) -> CellFrame:
        """Return the frame of a cell in the orientation in which it is placed.

        Args:
            name: Component name.
            rotation: Anticlockwise rotation in degrees, a multiple of 90.
            mirror: Whether the cell is mirrored at the x axis before the rotation.
        """
        key = (name, rotation, mirror)
        if key not in self._turned:
            cell = self[name]
            ports = {
                port: Port(*_turn(at.x, at.y, rotation, mirror), ((-at.angle if mirror else at.angle) + rotation) % 360)
                for port, at in cell.ports.items()
            }
            left, bottom, right, top = cell.box
            corners = [_turn(x, y, rotation, mirror) for x in (left, right) for y in (bottom, top)]
            (x0, x1), (y0, y1) = ((min(values), max(values)) for values in zip(*corners, strict=True))
            self._turned[key] = CellFrame(ports, (x0, y0, x1, y1))
        return self._turned[key]


def _turn(x: float, y: float, rotation: int, mirror: bool) -> Point:
    if mirror:
        y = -y
    return ((x, y), (-y, x), (-x, -y), (y, -x))[rotation // 90 % 4]
