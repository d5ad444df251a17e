"""The cells as placement sees them: ports and boxes, looked up when a cell is first used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import gdsfactory as gf

from optinc_pdk.cells import CELLS

Point = tuple[float, float]
Box = tuple[float, float, float, float]

STRETCHED = ("mzi", "mzi_dummy")


class Port(NamedTuple):
    """A port's position in µm and the direction it faces in degrees."""

    x: float
    y: float
    angle: int


@dataclass(frozen=True)
class Cell:
    """A component's ports and box, in its own frame."""

    ports: dict[str, Port]
    box: Box


class Frames(dict[str, Cell]):
    """Cells of the active PDK by component name; MZIs and their dummies are stretched alike."""

    def __init__(self, stretch_um: float = 0.0) -> None:
        """Prepare cells whose MZIs are longer by ``stretch_um`` between their heaters."""
        super().__init__()
        self.stretch_um = stretch_um
        self._turned: dict[tuple[str, int, bool], Cell] = {}

    def component(self, name: str) -> gf.Component:
        """The cell that is drawn for a component."""
        settings = {"stretch_um": self.stretch_um} if name in STRETCHED else {}
        return CELLS[name](**settings)

    def __missing__(self, name: str) -> Cell:
        component = self.component(name)
        box = component.dbbox()
        ports = {
            str(p.name): Port(float(p.center[0]), float(p.center[1]), round(p.orientation or 0) % 360)
            for p in component.ports
        }
        self[name] = Cell(ports, (box.left, box.bottom, box.right, box.top))
        return self[name]

    def turned(self, name: str, rotation: int, mirror: bool) -> Cell:
        """A cell as it is placed: flipped at the x axis or not, then rotated by a multiple of 90°."""
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
            self._turned[key] = Cell(ports, (x0, y0, x1, y1))
        return self._turned[key]


def _turn(x: float, y: float, rotation: int, mirror: bool) -> Point:
    if mirror:
        y = -y
    return ((x, y), (-y, x), (-x, -y), (y, -x))[rotation // 90 % 4]
