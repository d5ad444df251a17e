"""Devices from silicon: every golden polygon whose sides all lie, exactly, on the silicon's outline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import klayout.db as kdb
import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.extract.contours import Contours, EdgeIndex, Ints, pack
from optinc_pdk.extract.faults import box_center
from optinc_pdk.extract.gds import NM_PER_UM
from optinc_pdk.extract.golden import Variant, around

# Sides by which a device is looked for.
ANCHORS = 4
# A corner rounded to the grid lies at most half a nm off in x and in y.
ROUNDING_NM = 0.71


@dataclass(frozen=True)
class Device:
    """One recognized device.

    Attributes:
        kind: Device name, as its card's.
        center: Middle of its bounding box, in nm.
        edges: (p, 2, 2) first and second point of each optical port's edge, silicon to the right.
        guided: For each optical port, whether it ends in silicon; a port to a fibre does not.
        settings: Numbers measured on it.
    """

    kind: str
    center: tuple[float, float]
    edges: Ints
    guided: tuple[bool, ...]
    settings: dict[str, float] = field(default_factory=dict)

    @property
    def position_um(self) -> tuple[float, float]:
        """Middle of its bounding box, in µm."""
        return self.center[0] / NM_PER_UM, self.center[1] / NM_PER_UM


@dataclass(frozen=True)
class Placement:
    """A golden variant moved by a vector in nm.

    Attributes:
        variant: The device.
        shift: Where its origin lies.
        core: Its silicon as drawn, which may have more corners than the golden polygons, within rounding.
    """

    variant: Variant
    shift: kdb.Vector
    core: tuple[kdb.Polygon, ...]

    @property
    def etch(self) -> list[kdb.Polygon]:
        """The device's etched shapes."""
        return [polygon.moved(self.shift) for polygon in self.variant.etch]

    @property
    def box(self) -> kdb.Box:
        """The box around its silicon."""
        return around(self.core)

    @property
    def pins(self) -> list[kdb.Point]:
        """Where metal must lie for each of its electrical ports."""
        return [pin + self.shift for pin in self.variant.pins]


def placed_devices(placements: Sequence[Placement], process: Process) -> list[Device]:
    """Placements as devices, with their optical ports in the order of the card."""
    found: dict[int, Device] = {}
    variants = {id(placement.variant): placement.variant for placement in placements}
    kind = np.array([list(variants).index(id(placement.variant)) for placement in placements], dtype=np.int64)
    shifts = np.array([(placement.shift.x, placement.shift.y) for placement in placements], dtype=np.int64)
    for number, variant in enumerate(variants.values()):
        optical = process.device(variant.name).ports.optical
        guided = tuple(name in variant.port_edges for name in optical)
        own = np.flatnonzero(kind == number)
        edges = np.zeros((len(own), len(optical), 2, 2), dtype=np.int64)
        ends = list(variant.port_edges.values())
        home = np.stack([variant.points[ends], variant.ends[ends]], axis=1)
        edges[:, np.array(guided, dtype=bool)] = home + shifts[own, None, None]
        for i, at in zip(own.tolist(), edges, strict=True):
            found[i] = Device(variant.name, box_center(placements[i].box), at, guided)
    return [found[i] for i in range(len(placements))]


def place_devices(outline: Contours, variants: Sequence[Variant]) -> list[Placement]:
    """Find every golden device in the silicon.

    A device is where each side of a golden polygon is an edge of the silicon's outline, silicon on the same
    side. Only its ports may be open to more silicon; what lies inside it is checked by area elsewhere.
    Slanted sides may have additional corners that rounding moved off the line, as cutting a polygon leaves.

    Args:
        outline: Contours of the merged silicon.
        variants: Golden devices in their orientations.

    Returns:
        Devices, sorted by position.
    """
    index = EdgeIndex(outline.points, outline.ends)
    delta = pack(outline.ends - outline.points)
    order = np.argsort(delta, kind="stable")
    delta = delta[order]
    found: list[Placement] = []
    if not len(delta):
        return found
    for variant in variants:
        wanted = variant.straight
        if not np.array_equal(delta[np.searchsorted(delta, wanted).clip(max=len(delta) - 1)], wanted):
            continue
        # one anchor may be cut, four are not
        anchors = [_anchored(outline, order, delta, variant, side) for side in variant.sides[:ANCHORS].tolist()]
        if not any(map(len, anchors)):
            continue
        shifts = np.unique(np.concatenate(anchors), axis=0)
        # one side after the other, so that chance matches of an anchor cost next to nothing
        straight = np.any(variant.points == variant.ends, axis=1)
        for side in (s for s in variant.sides.tolist() if straight[s]):
            shifts = shifts[index.find(shifts + variant.points[side], shifts + variant.ends[side]) >= 0]
        for shift in shifts:
            core = _drawn(outline, index, variant, shift)
            if core is not None:
                found.append(Placement(variant, kdb.Vector(int(shift[0]), int(shift[1])), core))
    return sorted(found, key=lambda p: (p.shift.x, p.shift.y, p.variant.name))


def _anchored(outline: Contours, order: Ints, delta: Ints, variant: Variant, side: int) -> Ints:
    """(n, 2) shifts of a variant that put one of its sides on an edge of the outline.

    Args:
        outline: Contours.
        order: (E,) numbers of its edges in the order of ``delta``.
        delta: (E,) their packed vectors, ascending.
        variant: Device.
        side: Number of one of its edges.
    """
    wanted = pack(variant.ends[side] - variant.points[side])
    first, last = (int(np.searchsorted(delta, wanted, where)) for where in ("left", "right"))
    edges = order[first:last]
    return np.asarray(outline.points[edges] - variant.points[side], dtype=np.int64)


def _drawn(outline: Contours, index: EdgeIndex, variant: Variant, shift: Ints) -> tuple[kdb.Polygon, ...] | None:
    """A device's polygons as the outline has them, or None where a side is missing."""
    points, ends = variant.points + shift, variant.ends + shift
    exact = index.find(points, ends) >= 0
    ports = set(variant.port_edges.values())
    if all(flag or edge in ports for edge, flag in enumerate(exact.tolist())):
        return tuple(polygon.moved(int(shift[0]), int(shift[1])) for polygon in variant.core)
    found: list[kdb.Polygon] = []
    first = 0
    for polygon in variant.core:
        corners: list[Ints] = []
        for edge in range(first, first + polygon.num_points_hull()):
            kept = exact[edge] or edge in ports
            chain = [points[edge]] if kept else _chain(outline, index, points[edge], ends[edge])
            if chain is None:
                return None
            corners += chain
        found.append(kdb.Polygon([kdb.Point(int(x), int(y)) for x, y in corners]))
        first += polygon.num_points_hull()
    return tuple(found)


def _chain(outline: Contours, index: EdgeIndex, start: Ints, end: Ints) -> list[Ints] | None:
    """The outline's corners from one point up to another, if all lie on the line between, within rounding."""
    leg = (end - start).astype(float)
    square = float(leg @ leg)
    for edge in index.leaving(start).tolist():
        corners = [start]
        while True:
            at = outline.ends[edge]
            if np.array_equal(at, end):
                return corners
            away = (at - start).astype(float)
            aside = abs(leg[0] * away[1] - leg[1] * away[0]) / square**0.5
            if aside > ROUNDING_NM or not 0 < away @ leg < square:
                break
            corners.append(at)
            edge = int(outline.follows[edge])
    return None
