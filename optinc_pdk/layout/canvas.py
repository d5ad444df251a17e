"""What a layout is before it is written: placed instances, guide centrelines, metal boxes, all in µm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.cells import CELLS
from optinc_pdk.circuit import Circuit, named_nets

Point = tuple[float, float]
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Port:
    """A port's position in µm and the direction it faces in degrees."""

    x: float
    y: float
    angle: int


@dataclass(frozen=True)
class Placed:
    """An instance's component, origin and orientation; ``mirror`` flips at the x axis before the rotation."""

    component: str
    x: float
    y: float
    rotation: int = 0
    mirror: bool = False


@dataclass(frozen=True)
class Cell:
    """A component's ports and box, in its own frame."""

    ports: Mapping[str, Port]
    box: Box


class Netlist:
    """A circuit by names, as placement wants it: what is where in the grid, and what is joined to what."""

    def __init__(self, circuit: Circuit) -> None:
        """Index a hierarchical circuit."""
        self.circuit = circuit
        kinds = circuit.kinds
        self.component = {name: kinds[circuit.kind[i]].name for i, name in enumerate(circuit.instances)}
        self.partner: dict[str, str] = {}
        self.label = {circuit.port_name(port): label for label, port in circuit.ports.items()}
        light = len(circuit.nets)
        for a, b in named_nets(circuit)[:light]:
            self.partner[a], self.partner[b] = b, a
        self.grid: dict[str, tuple[str, int, int]] = {}
        for name, (section, column, row) in zip(circuit.instances, circuit.grid.tolist(), strict=True):
            if section >= 0:
                self.grid[name] = (circuit.sections[section], column, row)
        self.heaters = self._heaters()

    def section(self, section: str) -> list[str]:
        """Instances of a section, by column and row."""
        names = [name for name, at in self.grid.items() if at[0] == section]
        return sorted(names, key=lambda name: (*self.grid[name][1:], name))

    def _heaters(self) -> dict[str, str]:
        """Pad label to the ``instance,port`` of the heater's signal end."""
        circuit = self.circuit
        owner: dict[int, str] = {}
        for label, port in circuit.ports.items():
            if circuit.electrical[port] >= 0 and not label.startswith("GND"):
                owner[int(circuit.electrical[port])] = label
        heaters: dict[str, str] = {}
        for port in np.flatnonzero(circuit.electrical >= 0).tolist():
            name = circuit.port_name(port)
            net = int(circuit.electrical[port])
            if net in owner and self.component[name.split(",")[0]] != "pad":
                heaters[owner[net]] = name
        return heaters


def cell_frames(process: Process) -> dict[str, Cell]:
    """Ports and boxes of every cell of the active PDK."""
    frames: dict[str, Cell] = {}
    for name in (
        "attenuator",
        "grating_coupler",
        "mmi1x2",
        "mmi2x2",
        "mzi",
        "mzi_dummy",
        "phase_shifter",
        "terminator",
    ):
        component = CELLS[name]()
        box = component.dbbox()
        ports = {
            str(p.name): Port(float(p.center[0]), float(p.center[1]), round(p.orientation or 0) % 360)
            for p in component.ports
        }
        frames[name] = Cell(ports, (box.left, box.bottom, box.right, box.top))
    return frames


@dataclass
class Canvas:
    """A part of the chip in a frame of its own."""

    frames: Mapping[str, Cell]
    placed: dict[str, Placed] = field(default_factory=dict)
    guides: list[list[Point]] = field(default_factory=list)
    bends: list[tuple[Point, Point]] = field(default_factory=list)
    metal: list[Box] = field(default_factory=list)
    texts: list[tuple[str, float, float]] = field(default_factory=list)

    def place(self, name: str, component: str, x: float, y: float, rotation: int = 0, mirror: bool = False) -> None:
        """Put an instance at a position on the grid."""
        self.placed[name] = Placed(component, snap(x), snap(y), rotation, mirror)

    def port(self, name: str) -> Port:
        """Position of ``"instance,port"``."""
        instance, _, port = name.rpartition(",")
        placed = self.placed[instance]
        local = self.frames[placed.component].ports[port]
        x, y = _turn(placed, local.x, local.y)
        angle = -local.angle if placed.mirror else local.angle
        return Port(snap(placed.x + x), snap(placed.y + y), (angle + placed.rotation) % 360)

    def guide(self, *corners: Point) -> None:
        """Add a guide through corner points; corners in line are dropped, a guide of no length is none."""
        points = [(snap(x), snap(y)) for x, y in corners]
        path: list[Point] = []
        for point in points:
            if path and point == path[-1]:
                continue
            if len(path) > 1 and _in_line(path[-2], path[-1], point):
                path.pop()
            path.append(point)
        if len(path) > 1:
            self.guides.append(path)

    def s_bend(self, start: Point, end: Point) -> None:
        """Add an S from start to end, both horizontal."""
        self.bends.append(((snap(start[0]), snap(start[1])), (snap(end[0]), snap(end[1]))))

    def join(self, a: str, b: str) -> None:
        """Join two ports that lie in line."""
        p, q = self.port(a), self.port(b)
        self.guide((p.x, p.y), (q.x, q.y))

    def box(self) -> Box:
        """Bounding box of instances and guides."""
        boxes = [self.instance_box(name) for name in self.placed]
        boxes += [(x, y, x, y) for path in self.guides for x, y in path]
        left, bottom, right, top = np.array(boxes).T
        return float(left.min()), float(bottom.min()), float(right.max()), float(top.max())

    def instance_box(self, name: str) -> Box:
        """Bounding box of one instance."""
        placed = self.placed[name]
        left, bottom, right, top = self.frames[placed.component].box
        corners = [_turn(placed, x, y) for x in (left, right) for y in (bottom, top)]
        xs, ys = zip(*corners, strict=True)
        return placed.x + min(xs), placed.y + min(ys), placed.x + max(xs), placed.y + max(ys)

    def add(self, other: Canvas, dx: float, dy: float) -> None:
        """Take over another canvas, shifted."""

        def shift(point: Point) -> Point:
            return snap(point[0] + dx), snap(point[1] + dy)

        for name, p in other.placed.items():
            self.placed[name] = Placed(p.component, *shift((p.x, p.y)), p.rotation, p.mirror)
        self.guides += [[shift(point) for point in path] for path in other.guides]
        self.bends += [(shift(a), shift(b)) for a, b in other.bends]
        self.metal += [(*shift((a, b)), *shift((c, d))) for a, b, c, d in other.metal]
        self.texts += [(text, *shift((x, y))) for text, x, y in other.texts]


def snap(value: float) -> float:
    """Round to the 1 nm grid."""
    return round(value, 3)


def _turn(placed: Placed, x: float, y: float) -> Point:
    if placed.mirror:
        y = -y
    quarter = placed.rotation // 90 % 4
    return ((x, y), (-y, x), (-x, -y), (y, -x))[quarter]


def _in_line(a: Point, b: Point, c: Point) -> bool:
    return (a[0] == b[0] == c[0]) or (a[1] == b[1] == c[1])
