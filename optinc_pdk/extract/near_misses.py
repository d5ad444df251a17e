"""Devices that are nearly golden: which parameter of which device is off, by how much and where.

A device is recognised where its polygon is the golden one. A coupler drawn 5 nm too long is none then, and shows as
guides that end nowhere. But most of its edges are still where some golden device has its own: edges vote for a place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import klayout.db as kdb
import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.extract.contours import Contours, EdgeIndex, Ints, contours, pack
from optinc_pdk.extract.faults import Fault
from optinc_pdk.extract.gds import NM_PER_UM, Mask
from optinc_pdk.extract.golden import Variant, around
from optinc_pdk.extract.lookup import plain
from optinc_pdk.extract.silicon import Placement

# Each half of a stretched device has a bit less than half of the edges.
SHARE = 0.3
EDGES = 4
# Farther apart, two halves are two devices.
FAR_NM = 1000
# A chip with more faults has few causes, which show among the first.
LOOKED_AT = 40


@dataclass(frozen=True)
class _Miss:
    """A golden device of which a part lies off.

    Attributes:
        variant: The device.
        shift: (2,) where its larger part has its origin.
        off: (2,) by how much the other part is moved from there; zeros where no other part is found.
        first: (n,) numbers of the edges of the larger part.
        second: (m,) of the other.
    """

    variant: Variant
    shift: Ints
    off: Ints
    first: Ints
    second: Ints

    @property
    def rank(self) -> tuple[int, int]:
        """Less is nearer: edges that belong to neither part, then how far the second part is off."""
        return len(self.variant.sides) - len(self.first) - len(self.second), int(np.abs(self.off).max())

    @property
    def box(self) -> kdb.Box:
        """The golden device's box."""
        return around(self.variant.core).moved(*self.shift.tolist())


def near_misses(
    mask: Mask, faults: Iterable[Fault], placements: Sequence[Placement], variants: Sequence[Variant], process: Process
) -> list[Fault]:
    """Name the golden devices that faulty silicon is nearly.

    Args:
        mask: Layout.
        faults: Faults of silicon, with their places.
        placements: Devices that are recognised.
        variants: Golden devices.
        process: Gives the devices' parameters.

    Returns:
        A fault per device that is nearly one, sorted by place.
    """
    places = [fault.position_um for fault in faults][:LOOKED_AT]
    if not places:
        return []
    reach = max(max(box.width(), box.height()) for box in (around(variant.core) for variant in variants))
    around_faults = kdb.Region(
        [kdb.Polygon(kdb.Box(2 * reach).moved(round(x * NM_PER_UM), round(y * NM_PER_UM))) for x, y in places]
    )
    outline = contours(plain(mask.silicon(near=around_faults.merged())))
    taken = {placement.box for placement in placements}
    misses = [miss for variant in variants for miss in _misses(outline, variant) if miss.box not in taken]
    found: list[_Miss] = []
    for miss in sorted(misses, key=lambda m: (m.rank, m.variant.name, m.shift.tolist())):
        if not any(miss.box.overlaps(other.box) for other in found) and not any(miss.box.overlaps(b) for b in taken):
            found.append(miss)
    return sorted((_fault(miss, process) for miss in found), key=lambda fault: fault.position_um)


def _misses(outline: Contours, variant: Variant) -> list[_Miss]:
    """Where enough of a variant's edges lie on the outline, but not all."""
    least = max(EDGES, round(SHARE * len(variant.sides)))
    votes = _votes(outline, variant)
    shifts, counts = np.unique(votes, axis=0, return_counts=True)
    index = EdgeIndex(outline.points, outline.ends)

    def there(shift: Ints) -> Ints:
        points, ends = variant.points[variant.sides] + shift, variant.ends[variant.sides] + shift
        return np.asarray(variant.sides[index.find(points, ends) >= 0], dtype=np.int64)

    found: list[_Miss] = []
    strong = shifts[counts >= least]
    for shift in strong:
        first = there(shift)
        if len(first) == len(variant.sides):
            continue
        best = _Miss(variant, shift, np.zeros(2, dtype=np.int64), first, first[:0])
        for other in strong:
            off = other - shift
            if np.any(off) and np.abs(off).max() <= FAR_NM:
                second = np.setdiff1d(there(other), first)
                miss = _Miss(variant, shift, off, first, second)
                best = min(best, miss, key=lambda m: m.rank)
        # a device cut in two by a hair has its larger part first
        if len(best.second) <= len(best.first):
            found.append(best)
    return found


def _votes(outline: Contours, variant: Variant) -> Ints:
    """(n, 2) shifts that put a side of a variant on an edge of the outline, one per side and edge."""
    legs = pack(outline.ends - outline.points)
    order = np.argsort(legs, kind="stable")
    wanted = pack(variant.ends - variant.points)[variant.sides]
    low, high = (np.searchsorted(legs[order], wanted, where).tolist() for where in ("left", "right"))
    found = [
        outline.points[order[first:last]] - variant.points[side]
        for side, first, last in zip(variant.sides.tolist(), low, high, strict=True)
    ]
    return np.concatenate([np.zeros((0, 2), dtype=np.int64), *found])


def _fault(miss: _Miss, process: Process) -> Fault:
    box, name = miss.box, miss.variant.name
    x, y = box.center().x / NM_PER_UM, box.center().y / NM_PER_UM
    odd = np.setdiff1d(miss.variant.sides, np.concatenate([miss.first, miss.second]))
    told = _middle(miss, miss.second if len(miss.second) else odd)
    if not len(miss.second):
        text = f"{len(odd)} of its {len(miss.variant.sides)} edges are not the golden ones, around {told}"
    else:
        text = f"{_parameter(miss, process)}: its part around {told} lies ({miss.off[0]:+d}, {miss.off[1]:+d}) nm off"
    return Fault("nearly", f"{name} at ({x:.3f}, {y:.3f}) is none: {text}", (x, y), name)


def _middle(miss: _Miss, edges: Ints) -> str:
    middle = np.mean(miss.variant.points[edges] + miss.variant.ends[edges], axis=0) / 2 + miss.shift
    return f"({middle[0] / NM_PER_UM:.3f}, {middle[1] / NM_PER_UM:.3f})"


def _parameter(miss: _Miss, process: Process) -> str:
    """The parameter of the card that a stretch along or across the device changes, or its size."""
    points = miss.variant.points
    between = np.mean(points[miss.second], axis=0) - np.mean(points[miss.first], axis=0)
    axis = int(np.argmax(np.abs(miss.off)))
    change = int(miss.off[axis]) * (1 if between[axis] > 0 else -1)
    # ports of guides are edges across the light
    port = next(iter(miss.variant.port_edges.values()))
    across = int(np.argmax(np.abs(miss.variant.ends[port] - points[port])))
    key = "gap_um" if axis == across else "length_um"
    geometry = process.device(miss.variant.name).geometry
    extent = points.max(axis=0) - points.min(axis=0)
    golden = float(geometry[key]) if key in geometry else float(extent[axis]) / NM_PER_UM
    kind = key.removesuffix("_um") if key in geometry else "width" if axis == across else "length"
    return f"{kind} is {golden + change / NM_PER_UM:.3f} µm, in the golden device {golden:.3f}"
