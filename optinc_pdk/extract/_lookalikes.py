"""Silicon that resembles golden devices but equals none: bodies too wide for a guide, and near misses.

A device is recognised only if its polygons equal the golden ones. A coupler that is 5 nm too long is not recognised and
appears as guides with faults. But most of its edges are still at the relative positions of a golden device's edges:
each edge votes for a position of the device, and positions with many votes are near misses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.cards import Process
from optinc_pdk.cards.loader import components_folder
from optinc_pdk.extract.device_recognition import DevicePlacement
from optinc_pdk.extract.faults import Fault, area_text, center_um
from optinc_pdk.extract.golden_devices import GoldenVariant, bounding_box, renewal
from optinc_pdk.extract.mask_layout import NM_PER_UM, MaskLayout
from optinc_pdk.extract.polygons import (
    Contours,
    EdgeIndex,
    PolygonIndex,
    box_array,
    contours,
    pack_points,
    region_polygons,
)
from optinc_pdk.io.reading import real_path

# Bodies that are compared with all devices of the process, which takes milliseconds each.
MAX_DESCRIBED = 100
_OTHER_REMEDY = "draw a device of the process, or add this one (docs/own_devices.md)"
_REMEDIES = {
    0: "no guide leads to it; delete it, or draw a device of the process",
    2: "silicon was added to a guide; delete it, or, if it is a device of your own, add its card (docs/own_devices.md)",
}
"""What to do about a body that is like no device, by the number of guides that lead to it."""


def describe_bodies(
    silicon: kdb.Region, variants: Sequence[GoldenVariant], body_nm: int
) -> tuple[list[Fault], list[kdb.Polygon]]:
    """Find bodies: silicon that is too wide for a guide, 2 ``body_nm``, and belongs to no recognised device or guide.

    Returns:
        One fault per body, which names the device with the smallest difference in area, unless that is more than the
        body's own area, and says what to do about it; and the polygons of the bodies.
    """
    bodies = sorted(region_polygons(morphological_opening(silicon, body_nm)))
    described = bodies[:MAX_DESCRIBED]
    golden = [_GoldenBody(variant, body_nm) for variant in variants] if bodies else []
    reach = max((max(one.box.width(), one.box.height()) for one in golden), default=0) + 2 * body_nm
    windows = [body.bbox().enlarged(reach) for body in described]
    around = PolygonIndex(region_polygons(silicon)).overlapping(box_array(windows))
    faults: list[Fault] = []
    for body, window, near in zip(described, windows, around, strict=True):
        place = kdb.Region(near) & kdb.Region(window)
        name, area = min(
            ((one.name, one.difference(place, body)) for one in golden), key=lambda match: match[1], default=("", 0)
        )
        # a device that differs by more than the whole body has nothing in common with it
        if name and area <= body.area():
            likeness = f"it is most like {name}, and differs from it by {area_text(area)}"
            remedy = _OTHER_REMEDY
        else:
            likeness = "it resembles no device of the process"
            remedy = _REMEDIES.get(_guide_count(place, body, body_nm), _OTHER_REMEDY)
        faults.append(Fault("body", f"unrecognized silicon body: {likeness}; {remedy}", center_um(body.bbox())))
    rest = f"unrecognized silicon body; {_OTHER_REMEDY}"
    return faults + [Fault("body", rest, center_um(body.bbox())) for body in bodies[MAX_DESCRIBED:]], bodies


class _GoldenBody:
    """The silicon of a golden device, with the box of its body, for the comparison with bodies of a layout."""

    def __init__(self, variant: GoldenVariant, body_nm: int) -> None:
        self.name = variant.name
        self.drawn = kdb.Region(list(variant.core))
        self.box = self.drawn.bbox()
        self.body = morphological_opening(self.drawn, body_nm).bbox()

    def difference(self, silicon: kdb.Region, body: kdb.Polygon) -> int:
        """Return the area in nm² in which silicon around a body differs from the device with its body at its centre."""
        if self.body.empty():
            return int(self.drawn.area() + body.area())
        golden = self.drawn.moved(body.bbox().center() - self.body.center())
        near = kdb.Region(golden.bbox() + body.bbox())
        return int(((silicon & near) ^ golden).area())


def _guide_count(silicon: kdb.Region, body: kdb.Polygon, body_nm: int) -> int:
    """Return how many guides lead away from a body."""
    inner = kdb.Region(body).sized(body_nm)
    ring = inner.sized(body_nm) - inner
    return int((silicon & ring).merged().count())


def morphological_opening(region: kdb.Region, size: int) -> kdb.Region:
    """Return a region shrunk and then grown by ``size`` nm, which removes parts narrower than 2 ``size``."""
    return region.sized(-size).sized(size).merged()


# Least share of a device's edges that must vote for a position. Each half of a stretched device has nearly half.
MIN_SHARE = 0.3
MIN_EDGES = 4
# Parts that are further apart than this belong to two devices, unless they are different guides of one.
MAX_OFFSET_NM = 1000
# Faults examined. Many faults have few causes, which are among the first.
MAX_FAULTS = 40


@dataclass(frozen=True)
class _Miss:
    """A golden device of which one part is displaced against the other.

    Attributes:
        variant: Golden device.
        shift: (2,) position of its origin according to the larger part, in nm.
        off: (2,) displacement of the other part in nm; zero if no other part is found.
        first: (n,) numbers of the edges of the larger part.
        second: (m,) numbers of the edges of the other part.
    """

    variant: GoldenVariant
    shift: Ints
    off: Ints
    first: Ints
    second: Ints

    @property
    def missing(self) -> int:
        """Number of the device's polygons of which no edge is found."""
        found = self.variant.polygons[np.concatenate([self.first, self.second])]
        return len(self.variant.core) - len(np.unique(found))

    @property
    def rank(self) -> tuple[int, int]:
        """Sort key, lowest for the best match: number of edges in neither part, then the displacement."""
        return len(self.variant.sides) - len(self.first) - len(self.second), int(np.abs(self.off).max())

    @property
    def box(self) -> kdb.Box:
        """Bounding box of the golden device at its position."""
        return bounding_box(self.variant.core).moved(*self.shift.tolist())


def find_near_misses(
    mask: MaskLayout,
    faults: Iterable[Fault],
    placements: Sequence[DevicePlacement],
    variants: Sequence[GoldenVariant],
    process: Process,
) -> list[Fault]:
    """Find near misses: places where silicon resembles a golden device but is not equal to it.

    Only silicon around the first ``MAX_FAULTS`` faults is examined. Near misses that overlap a recognised device are
    not reported.

    Returns:
        One fault of kind ``"nearly"`` per near miss, sorted by position. Its message states the device, the parameter
        of its card that deviates, its value and the golden value.
    """
    places = [fault.position_um for fault in faults][:MAX_FAULTS]
    if not places or not variants:
        return []
    reach = max(max(box.width(), box.height()) for box in (bounding_box(variant.core) for variant in variants))
    around_faults = kdb.Region(
        [kdb.Polygon(kdb.Box(2 * reach).moved(round(x * NM_PER_UM), round(y * NM_PER_UM))) for x, y in places]
    )
    outline = contours(region_polygons(mask.silicon(near=around_faults.merged())))
    taken = {placement.box for placement in placements}
    misses = [miss for variant in variants for miss in _misses(outline, variant) if miss.box not in taken]
    chosen: list[_Miss] = []
    for miss in sorted(misses, key=lambda m: (m.rank, m.variant.name, m.shift.tolist())):
        if not any(miss.box.overlaps(other.box) for other in chosen) and not any(miss.box.overlaps(b) for b in taken):
            chosen.append(miss)
    return sorted((_fault(miss, process) for miss in chosen), key=lambda fault: fault.position_um)


def _misses(outline: Contours, variant: GoldenVariant) -> list[_Miss]:
    """Return the positions at which enough of a variant's edges lie on the outline, but not all."""
    least = max(MIN_EDGES, round(MIN_SHARE * len(variant.sides)))
    votes = _votes(outline, variant)
    shifts, counts = np.unique(votes, axis=0, return_counts=True)
    index = EdgeIndex(outline.points, outline.ends)

    def matching(shift: Ints) -> Ints:
        """Return the numbers of the variant's sides that lie on the outline with this shift."""
        points, ends = variant.points[variant.sides] + shift, variant.ends[variant.sides] + shift
        return np.asarray(variant.sides[index.find(points, ends) >= 0], dtype=np.int64)

    misses: list[_Miss] = []
    strong = shifts[counts >= least]
    extent = int(np.max(np.ptp(variant.points, axis=0)))
    for shift in strong:
        first = matching(shift)
        if len(first) == len(variant.sides):
            continue
        best = _Miss(variant, shift, np.zeros(2, dtype=np.int64), first, first[:0])
        for other in strong:
            off = other - shift
            if np.any(off) and np.abs(off).max() <= extent:
                second = np.setdiff1d(matching(other), first)
                miss = _Miss(variant, shift, off, first, second)
                apart = len(np.intersect1d(variant.polygons[first], variant.polygons[second])) == 0
                if np.abs(off).max() <= MAX_OFFSET_NM or (len(second) and apart):
                    best = min(best, miss, key=lambda m: m.rank)
        # each pair of parts is found twice; keep it where the larger part is first
        if (len(best.second), np.min(first)) <= (len(best.first), np.min(best.second, initial=np.iinfo(np.int64).max)):
            misses.append(best)
    return misses


def _votes(outline: Contours, variant: GoldenVariant) -> Ints:
    """Return the shifts (n, 2) that move a side of a variant onto an edge of the outline, one per side and edge."""
    legs = pack_points(outline.ends - outline.points)
    order = np.argsort(legs, kind="stable")
    sides = pack_points(variant.ends - variant.points)[variant.sides]
    low, high = (np.searchsorted(legs[order], sides, side).tolist() for side in ("left", "right"))
    shifts = [
        outline.points[order[first:last]] - variant.points[side]
        for side, first, last in zip(variant.sides.tolist(), low, high, strict=True)
    ]
    return np.concatenate([np.zeros((0, 2), dtype=np.int64), *shifts])


def _fault(miss: _Miss, process: Process) -> Fault:
    """Describe a near miss."""
    box, name = miss.box, miss.variant.name
    x, y = box.center().x / NM_PER_UM, box.center().y / NM_PER_UM
    unmatched = np.setdiff1d(miss.variant.sides, np.concatenate([miss.first, miss.second]))
    centre = _centre_text(miss, miss.second if len(miss.second) else unmatched)
    if miss.missing:
        there = len(miss.variant.core) - miss.missing
        fact = f"{there} of the {len(miss.variant.core)} guides of a {name}, without the other: no light is coupled"
        return Fault("nearly", fact, (x, y), name)
    if not len(miss.second):
        text = f"{len(unmatched)} of its {len(miss.variant.sides)} edges differ, around {centre}"
    else:
        text = f"{_parameter(miss, process)}: its part around {centre} lies ({miss.off[0]:+d}, {miss.off[1]:+d}) nm off"
    # the layout may be right, and the polygons those of an earlier cell; those of the package's processes are tested
    remedy = (
        "" if real_path(process.folder).parent == components_folder() else f"; if it was changed, {renewal(process)}"
    )
    fact = f"{name} differs from its recognition polygon: {text}{remedy}"
    return Fault("nearly", fact, (x, y), name)


def _centre_text(miss: _Miss, edges: Ints) -> str:
    """Format the centre of some edges of a near miss in µm."""
    centre = np.mean(miss.variant.points[edges] + miss.variant.ends[edges], axis=0) / 2 + miss.shift
    return f"({centre[0] / NM_PER_UM:.3f}, {centre[1] / NM_PER_UM:.3f})"


def _parameter(miss: _Miss, process: Process) -> str:
    """Describe the card parameter or extent that a displacement along or across the device changes."""
    points = miss.variant.points
    between = np.mean(points[miss.second], axis=0) - np.mean(points[miss.first], axis=0)
    axis = int(np.argmax(np.abs(miss.off)))
    change = int(miss.off[axis]) * (1 if between[axis] > 0 else -1)
    # the edge of a guide port is perpendicular to the guide
    port = next(iter(miss.variant.port_edges.values()))
    across = int(np.argmax(np.abs(miss.variant.ends[port] - points[port])))
    key = "gap_um" if axis == across else "length_um"
    geometry = process.device(miss.variant.name).geometry
    extent = points.max(axis=0) - points.min(axis=0)
    golden = float(geometry[key]) if key in geometry else float(extent[axis]) / NM_PER_UM
    kind = key.removesuffix("_um") if key in geometry else "width" if axis == across else "length"
    return f"{kind} is {golden + change / NM_PER_UM:.3f} µm, in the device of the process {golden:.3f}"
