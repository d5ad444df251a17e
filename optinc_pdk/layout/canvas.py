"""What a layout is before it is written: placed instances, guide centrelines, metal boxes, all in µm."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from optinc_pdk.cards import Process
from optinc_pdk.layout.frames import Box, Frames, Point, Port


class Placed(NamedTuple):
    """An instance's component, origin and orientation; ``mirror`` flips at the x axis before the rotation."""

    component: str
    x: float
    y: float
    rotation: int = 0
    mirror: bool = False


class Wire(NamedTuple):
    """A metal wire through corner points, all legs along the axes, ends half a width beyond the last points."""

    points: tuple[Point, ...]
    width: float


@dataclass
class Canvas:
    """A part of the chip in a frame of its own."""

    frames: Frames
    placed: dict[str, Placed] = field(default_factory=dict)
    guides: list[list[Point]] = field(default_factory=list)
    bends: list[tuple[Point, Point]] = field(default_factory=list)
    metal: list[Box] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)
    bumps: list[Point] = field(default_factory=list)
    texts: list[tuple[str, float, float]] = field(default_factory=list)

    def place(self, name: str, component: str, x: float, y: float, rotation: int = 0, mirror: bool = False) -> None:
        """Put an instance at a position on the grid."""
        self.placed[name] = Placed(component, snap(x), snap(y), rotation, mirror)

    def port(self, name: str) -> Port:
        """Position of ``"instance,port"``."""
        instance, _, port = name.rpartition(",")
        placed = self.placed[instance]
        local = self.frames.turned(placed.component, placed.rotation, placed.mirror).ports[port]
        return Port(snap(placed.x + local.x), snap(placed.y + local.y), local.angle)

    def guide(self, *corners: Point) -> None:
        """Add a guide through corner points; corners in line are dropped, a guide of no length is none."""
        path = simplified(corners)
        if len(path) > 1:
            self.guides.append(path)

    def wire(self, width: float, *corners: Point) -> None:
        """Add a wire through corner points."""
        self.wires.append(Wire(tuple(simplified(corners)), width))

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
        return _around([*boxes, *(_spots_box(path) for path in self.guides)])

    def outer_box(self) -> Box:
        """Bounding box of everything but texts; centres of bumps count, their landings lie within metal or alike."""
        boxes = [self.box(), *self.metal, *(_spots_box(wire.points) for wire in self.wires)]
        return _around([*boxes, _spots_box(self.bumps)] if self.bumps else boxes)

    def instance_box(self, name: str) -> Box:
        """Bounding box of one instance."""
        placed = self.placed[name]
        left, bottom, right, top = self.frames.turned(placed.component, placed.rotation, placed.mirror).box
        return placed.x + left, placed.y + bottom, placed.x + right, placed.y + top

    def add(self, other: Canvas, dx: float, dy: float, half_turn: bool = False) -> None:
        """Take over another canvas, turned by 180° about its origin or not, then shifted."""
        sign = -1 if half_turn else 1

        def moved(points: Iterable[Point]) -> list[Point]:
            # the grid is kept but for rounding of floats, which ports and masks round again
            return [(sign * x + dx, sign * y + dy) for x, y in points]

        for name, (component, x, y, rotation, mirror) in other.placed.items():
            turned = (rotation + (180 if half_turn else 0)) % 360
            self.placed[name] = Placed(component, sign * x + dx, sign * y + dy, turned, mirror)
        self.guides += [moved(path) for path in other.guides]
        # an S runs to the right
        bends = [moved(bend) for bend in other.bends]
        self.bends += [(b, a) if half_turn else (a, b) for a, b in bends]
        corners = [moved(((a, b), (c, d))) for a, b, c, d in other.metal]
        self.metal += [(min(a, c), min(b, d), max(a, c), max(b, d)) for (a, b), (c, d) in corners]
        self.wires += [Wire(tuple(moved(wire.points)), wire.width) for wire in other.wires]
        self.bumps += moved(other.bumps)
        self.texts += [(text, sign * x + dx, sign * y + dy) for text, x, y in other.texts]


def guide_track(process: Process) -> float:
    """Distance of the middles of parallel guides, with a margin for what bends lose by rounding."""
    return snap(float(process.floorplan.guide_space_um + process.guide.width_um) + 0.05)


def snap(value: float) -> float:
    """Round to the 1 nm grid."""
    return round(value, 3)


def _around(boxes: Iterable[Box]) -> Box:
    """The box around boxes."""
    lefts, bottoms, rights, tops = zip(*boxes, strict=True)
    return min(lefts), min(bottoms), max(rights), max(tops)


def _spots_box(points: Iterable[Point]) -> Box:
    """The box around points."""
    xs, ys = zip(*points, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def simplified(corners: Iterable[Point]) -> list[Point]:
    """Corner points on the grid without repetitions and without corners that lie in line."""
    path: list[Point] = []
    for x, y in corners:
        # snapped here, not by a call each: a chip has hundreds of thousands of corners
        point = (round(x, 3), round(y, 3))
        if path and point == path[-1]:
            continue
        if len(path) > 1:
            (a, b), (c, d) = path[-2:]
            if a == c == point[0] or b == d == point[1]:
                path.pop()
        path.append(point)
    return path
