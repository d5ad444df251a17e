"""Layout in memory before it is written: instances, guide centrelines, metal, bumps and texts, all in µm."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import gdsfactory as gf

from optinc_pdk.cards import Process
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

    Cells of MZIs and dummies are lengthened by ``stretch_um``, see :func:`optinc_pdk.layout._heater_wiring.stretch_um`.
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
        """Return the frame of a cell mirrored at the x axis if asked, then rotated by a multiple of 90°."""
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


class InstancePlacement(NamedTuple):
    """Component, origin and orientation of an instance.

    Attributes:
        component: Name of the component.
        x: x of its origin in µm.
        y: y of its origin in µm.
        rotation: Anticlockwise rotation in degrees, a multiple of 90.
        mirror: Whether the component is mirrored at the x axis before the rotation.
    """

    component: str
    x: float
    y: float
    rotation: int = 0
    mirror: bool = False


class MetalWire(NamedTuple):
    """Metal wire with segments parallel to the axes; it extends half a width beyond its end points.

    Attributes:
        points: Corner points of its centreline in µm.
        width: Width in µm.
    """

    points: tuple[Point, ...]
    width: float


@dataclass
class Canvas:
    """Drawing of a part of a chip in its own coordinate system, in µm.

    Attributes:
        frames: Ports and bounding boxes of all components.
        placed: Instance name to its component and placement.
        guides: For each guide, the corner points of its centreline; segments are parallel to the axes.
        bends: Start and end point of each S-bend.
        metal: Boxes of metal (left, bottom, right, top).
        wires: Metal wires.
        bumps: Centre of each bump.
        texts: String, x and y of each text.
    """

    frames: CellFrames
    placed: dict[str, InstancePlacement] = field(default_factory=dict)
    guides: list[list[Point]] = field(default_factory=list)
    bends: list[tuple[Point, Point]] = field(default_factory=list)
    metal: list[Box] = field(default_factory=list)
    wires: list[MetalWire] = field(default_factory=list)
    bumps: list[Point] = field(default_factory=list)
    texts: list[tuple[str, float, float]] = field(default_factory=list)

    def place(self, name: str, component: str, x: float, y: float, rotation: int = 0, mirror: bool = False) -> None:
        """Place the instance ``name`` of a component; its origin (x, y) in µm is rounded to the 1 nm grid."""
        self.placed[name] = InstancePlacement(component, snap(x), snap(y), rotation, mirror)

    def port(self, name: str) -> Port:
        """Return position and direction of a port of a placed instance, named ``"instance,port"``."""
        instance, _, port = name.rpartition(",")
        placed = self.placed[instance]
        local = self.frames.turned(placed.component, placed.rotation, placed.mirror).ports[port]
        return Port(snap(placed.x + local.x), snap(placed.y + local.y), local.angle)

    def guide(self, *corners: Point) -> None:
        """Add a guide through corner points; collinear corners and guides of zero length are dropped."""
        path = simplified_path(corners)
        if len(path) > 1:
            self.guides.append(path)

    def wire(self, width: float, *corners: Point) -> None:
        """Add a metal wire of the given width in µm through corner points."""
        self.wires.append(MetalWire(tuple(simplified_path(corners)), width))

    def s_bend(self, start: Point, end: Point) -> None:
        """Add an S-bend from ``start`` to ``end``, which is horizontal at both ends."""
        self.bends.append(((snap(start[0]), snap(start[1])), (snap(end[0]), snap(end[1]))))

    def join(self, a: str, b: str) -> None:
        """Add a straight guide between two ports, each named ``"instance,port"``."""
        p, q = self.port(a), self.port(b)
        self.guide((p.x, p.y), (q.x, q.y))

    def box(self) -> Box:
        """Return the bounding box of instances and guide centrelines."""
        boxes = [self.instance_box(name) for name in self.placed]
        return _around([*boxes, *(_points_box(path) for path in self.guides)])

    def outer_box(self) -> Box:
        """Return the bounding box of everything except texts and S-bends; wires and bumps count with their centres."""
        boxes = [self.box(), *self.metal, *(_points_box(wire.points) for wire in self.wires)]
        return _around([*boxes, _points_box(self.bumps)] if self.bumps else boxes)

    def instance_box(self, name: str) -> Box:
        """Return the bounding box of a placed instance (left, bottom, right, top)."""
        placed = self.placed[name]
        left, bottom, right, top = self.frames.turned(placed.component, placed.rotation, placed.mirror).box
        return placed.x + left, placed.y + bottom, placed.x + right, placed.y + top

    def add(self, other: Canvas, dx: float, dy: float, half_turn: bool = False) -> None:
        """Add another canvas, first rotated by 180° about its origin if asked, then shifted, in µm."""
        sign = -1 if half_turn else 1

        def moved(points: Iterable[Point]) -> list[Point]:
            # floating-point errors stay far below the grid, and ports and masks are rounded to it again
            return [(sign * x + dx, sign * y + dy) for x, y in points]

        for name, (component, x, y, rotation, mirror) in other.placed.items():
            turned = (rotation + (180 if half_turn else 0)) % 360
            self.placed[name] = InstancePlacement(component, sign * x + dx, sign * y + dy, turned, mirror)
        self.guides += [moved(path) for path in other.guides]
        # S-bends run to the right
        bends = [moved(bend) for bend in other.bends]
        self.bends += [(b, a) if half_turn else (a, b) for a, b in bends]
        corners = [moved(((a, b), (c, d))) for a, b, c, d in other.metal]
        self.metal += [(min(a, c), min(b, d), max(a, c), max(b, d)) for (a, b), (c, d) in corners]
        self.wires += [MetalWire(tuple(moved(wire.points)), wire.width) for wire in other.wires]
        self.bumps += moved(other.bumps)
        self.texts += [(text, sign * x + dx, sign * y + dy) for text, x, y in other.texts]


def guide_track(process: Process) -> float:
    """Return the pitch of parallel guides in µm, with a margin for the rounding of bends to the grid."""
    return snap(float(process.floorplan.guide_space_um + process.guide.width_um) + 0.05)


def fibre_row_pitch(process: Process) -> float:
    """Return the pitch in µm of the rows that begin or end at fibres: the smallest multiple of the fibres' pitch.

    Trees join these rows: two bends lead to the middle between two rows, and meanders between rows match path lengths.
    With large bends, fibres of an array remain unused in between.
    """
    r, fibre, splitter = (
        float(process.guide.radius_um),
        float(process.floorplan.fibre_pitch_um),
        process.device("mmi1x2"),
    )
    port = (splitter.size("gap_um") + splitter.size("taper_width_um")) / 2
    joined, meander = 2 * (2 * r + port), math.pi * r + guide_track(process)
    return snap(fibre * math.ceil(max(joined, meander) / fibre))


def snap(value: float) -> float:
    """Round a coordinate in µm to the 1 nm grid."""
    return round(value, 3)


def _around(boxes: Iterable[Box]) -> Box:
    """Return the bounding box of boxes."""
    lefts, bottoms, rights, tops = zip(*boxes, strict=True)
    return min(lefts), min(bottoms), max(rights), max(tops)


def _points_box(points: Iterable[Point]) -> Box:
    """Return the bounding box of points."""
    xs, ys = zip(*points, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def simplified_path(corners: Iterable[Point]) -> list[Point]:
    """Round corner points in µm to the 1 nm grid and drop repeated and collinear ones."""
    path: list[Point] = []
    for x, y in corners:
        # rounded inline instead of by calling snap: a chip has hundreds of thousands of corners
        point = (round(x, 3), round(y, 3))
        if path and point == path[-1]:
            continue
        if len(path) > 1:
            (a, b), (c, d) = path[-2:]
            if a == c == point[0] or b == d == point[1]:
                path.pop()
        path.append(point)
    return path
