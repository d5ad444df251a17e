"""Recognition of devices, whose golden sides all lie exactly on the outline of the silicon, and their fibre labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.cards import Process
from optinc_pdk.extract.faults import Fault, box_center
from optinc_pdk.extract.golden_devices import GoldenVariant, bounding_box
from optinc_pdk.extract.mask_layout import NM_PER_UM, Label, label_positions
from optinc_pdk.extract.polygons import NOT_FOUND, Contours, EdgeIndex, PolygonIndex, pack_points

# Sides per device by which candidate positions are found.
ANCHORS = 4
# Rounding to the grid moves a corner by at most 0.5 nm in x and in y.
ROUNDING_NM = 0.71


@dataclass(frozen=True)
class ExtractedDevice:
    """A device that was recognised in a layout.

    Attributes:
        kind: Device name, the name of its card.
        center: Centre (x, y) of its bounding box in nm.
        edges: (p, 2, 2) first and second point in nm of the edge at each optical port, with the device's silicon to the
            right; zeros for a port to a fibre.
        guided: For each optical port, true for a guide port and false for a port to a fibre.
        settings: Values measured in the layout, by name with unit.
    """

    kind: str
    center: tuple[float, float]
    edges: Ints
    guided: tuple[bool, ...]
    settings: dict[str, float] = field(default_factory=dict)

    @property
    def position_um(self) -> tuple[float, float]:
        """Centre (x, y) of the device's bounding box in µm."""
        return self.center[0] / NM_PER_UM, self.center[1] / NM_PER_UM


@dataclass(frozen=True)
class DevicePlacement:
    """A golden device that was recognised at a position.

    Attributes:
        variant: Golden device in its orientation.
        shift: Displacement of the golden device in nm.
        core: Silicon polygons as drawn. They may have more corners than the golden polygons, within rounding errors.
    """

    variant: GoldenVariant
    shift: kdb.Vector
    core: tuple[kdb.Polygon, ...]

    @property
    def etch(self) -> list[kdb.Polygon]:
        """Etched polygons of the golden device at this position."""
        return [polygon.moved(self.shift) for polygon in self.variant.etch]

    @property
    def box(self) -> kdb.Box:
        """Bounding box of the silicon."""
        return bounding_box(self.core)

    @property
    def tip(self) -> kdb.Edge:
        """Shortest side of the silicon that is at no guide port, with silicon on its right."""
        side = self.variant.sides[-1]
        p1, p2 = self.variant.points[side].tolist(), self.variant.ends[side].tolist()
        return kdb.Edge(*p1, *p2).moved(self.shift)

    @property
    def pins(self) -> list[kdb.Point]:
        """Position in nm of each electrical port, at which metal is required, in the order of the card."""
        return [pin + self.shift for pin in self.variant.pins]


def devices_from_placements(placements: Sequence[DevicePlacement], process: Process) -> list[ExtractedDevice]:
    """Convert placements of golden devices to extracted devices, with optical ports in the order of the card."""
    devices: dict[int, ExtractedDevice] = {}
    variants = {id(placement.variant): placement.variant for placement in placements}
    kind = np.array([list(variants).index(id(placement.variant)) for placement in placements], dtype=np.int64)
    shifts = np.array([(placement.shift.x, placement.shift.y) for placement in placements], dtype=np.int64)
    for number, variant in enumerate(variants.values()):
        optical = process.device(variant.name).ports.optical
        guided = tuple(name in variant.port_edges for name in optical)
        members = np.flatnonzero(kind == number)
        edges = np.zeros((len(members), len(optical), 2, 2), dtype=np.int64)
        ends = list(variant.port_edges.values())
        local = np.stack([variant.points[ends], variant.ends[ends]], axis=1)
        edges[:, np.array(guided, dtype=bool)] = local + shifts[members, None, None]
        for i, at in zip(members.tolist(), edges, strict=True):
            devices[i] = ExtractedDevice(variant.name, box_center(placements[i].box), at, guided)
    return [devices[i] for i in range(len(placements))]


def match_devices(outline: Contours, variants: Sequence[GoldenVariant]) -> list[DevicePlacement]:
    """Find all golden devices in the silicon, given its merged contours; the result is sorted by position.

    A device is recognised where every side of its golden polygons is an edge of the silicon's outline, with silicon on
    the same side, except sides that a guide continues. Other silicon may therefore adjoin at its ports only. The
    interior of a device is not checked here, but by comparing areas. A slanted side may have additional corners within
    the rounding error, which occur where a polygon was cut.
    """
    index = EdgeIndex(outline.points, outline.ends)
    delta = pack_points(outline.ends - outline.points)
    order = np.argsort(delta, kind="stable")
    delta = delta[order]
    placements: list[DevicePlacement] = []
    if not len(delta):
        return placements
    for variant in variants:
        straight = variant.straight
        if not np.array_equal(delta[np.searchsorted(delta, straight).clip(max=len(delta) - 1)], straight):
            continue
        # several anchors, because a side may be cut by rounding
        anchors = [_anchored(outline, order, delta, variant, side) for side in variant.sides[:ANCHORS].tolist()]
        if not any(map(len, anchors)):
            continue
        shifts = np.unique(np.concatenate(anchors), axis=0)
        # side by side: each removes most of the chance matches that are left
        along_axis = np.any(variant.points == variant.ends, axis=1)
        for side in (s for s in variant.sides.tolist() if along_axis[s]):
            shifts = shifts[index.find(shifts + variant.points[side], shifts + variant.ends[side]) >= 0]
        for shift in shifts:
            core = _drawn(outline, index, variant, shift)
            if core is not None:
                placements.append(DevicePlacement(variant, kdb.Vector(int(shift[0]), int(shift[1])), core))
    return sorted(placements, key=lambda p: (p.shift.x, p.shift.y, p.variant.name))


def _anchored(outline: Contours, order: Ints, delta: Ints, variant: GoldenVariant, side: int) -> Ints:
    """Return the shifts (n, 2) of a variant that move one of its sides onto an edge of the outline.

    ``delta`` (E,) are the packed vectors of the edges, ascending, and ``order`` (E,) the numbers of these edges.
    """
    vector = pack_points(variant.ends[side] - variant.points[side])
    first, last = (int(np.searchsorted(delta, vector, end)) for end in ("left", "right"))
    edges = order[first:last]
    return np.asarray(outline.points[edges] - variant.points[side], dtype=np.int64)


def _drawn(outline: Contours, index: EdgeIndex, variant: GoldenVariant, shift: Ints) -> tuple[kdb.Polygon, ...] | None:
    """Return the polygons of a device as drawn in the outline, or None if a side is missing."""
    points, ends = variant.points + shift, variant.ends + shift
    exact = index.find(points, ends) >= 0
    ports = {*variant.port_edges.values(), *variant.along_ports}
    if all(flag or edge in ports for edge, flag in enumerate(exact.tolist())):
        return tuple(polygon.moved(int(shift[0]), int(shift[1])) for polygon in variant.core)
    polygons: list[kdb.Polygon] = []
    first = 0
    for polygon in variant.core:
        rings: list[list[kdb.Point]] = []
        for count in (polygon.num_points_hull(), *map(polygon.num_points_hole, range(polygon.holes()))):
            corners: list[Ints] = []
            for edge in range(first, first + count):
                kept = exact[edge] or edge in ports
                chain = [points[edge]] if kept else _chain(outline, index, points[edge], ends[edge])
                if chain is None:
                    return None
                corners += chain
            rings.append([kdb.Point(int(x), int(y)) for x, y in corners])
            first += count
        drawn = kdb.Polygon(rings[0])
        for hole in rings[1:]:
            drawn.insert_hole(hole)
        polygons.append(drawn)
    return tuple(polygons)


def _chain(outline: Contours, index: EdgeIndex, start: Ints, end: Ints) -> list[Ints] | None:
    """Return the outline's corners from ``start`` up to ``end``, or None if one is off the line beyond rounding."""
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


@dataclass(frozen=True)
class FibreCoupler:
    """A fibre coupler.

    Attributes:
        label: Label of the fibre; empty if there is none.
        kind: Device name.
        position_um: Centre (x, y) of the device's bounding box in µm.
        fibre_um: Position (x, y) of its port to the fibre in µm.
        angle_deg: Direction in which light leaves through this port, in degrees.
    """

    label: str
    kind: str
    position_um: tuple[float, float]
    fibre_um: tuple[float, float]
    angle_deg: int


def find_fibre_labels(
    labels: Sequence[Label], placements: Sequence[DevicePlacement]
) -> tuple[dict[str, int], list[Label], list[Fault]]:
    """Find the fibre coupler on which each label lies; labels are sorted by text.

    Returns:
        Fibre label to the index of its device among the placements; labels on no fibre coupler; and faults: labels that
        occur twice, or of which two lie on one coupler.
    """
    couplers = [(i, polygon) for i, p in enumerate(placements) if p.variant.fibre is not None for polygon in p.core]
    index = PolygonIndex(polygon for _, polygon in couplers)
    devices: dict[str, int] = {}
    others: list[Label] = []
    faults: list[Fault] = []
    owner: dict[int, str] = {}
    for label, coupler in zip(labels, index.at(label_positions(labels)).tolist(), strict=True):
        if coupler == NOT_FOUND:
            others.append(label)
            continue
        device = couplers[coupler][0]
        if label.text in devices:
            faults.append(Fault("label", f"fibre label {label.text!r} is used twice", label.position_um))
        elif device in owner:
            kind = placements[device].variant.name.replace("_", " ")
            text = f"fibre labels {owner[device]!r} and {label.text!r} lie on one {kind}"
            faults.append(Fault("label", text, label.position_um))
        else:
            devices[label.text], owner[device] = device, label.text
    return devices, others, faults


def fibre_couplers(placements: Sequence[DevicePlacement], devices: dict[str, int]) -> tuple[FibreCoupler, ...]:
    """Return all fibre couplers, in the order of the placements; ``devices`` maps fibre labels to placements."""
    label = {device: text for text, device in devices.items()}
    couplers = []
    for i, placement in enumerate(placements):
        if (fibre := placement.variant.fibre) is None:
            continue
        at, (x, y) = fibre.at + placement.shift, box_center(placement.box)
        couplers.append(
            FibreCoupler(
                label=label.get(i, ""),
                kind=placement.variant.name,
                position_um=(x / NM_PER_UM, y / NM_PER_UM),
                fibre_um=(at.x / NM_PER_UM, at.y / NM_PER_UM),
                angle_deg=fibre.angle_deg,
            )
        )
    return tuple(couplers)
