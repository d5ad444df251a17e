"""A block: a cell that is extracted once, with its devices, the guides between them and the guides that leave it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Bools, Ints
from optinc_pdk.extract.contours import Contours, EdgeIndex, contours
from optinc_pdk.extract.device_matching import DevicePlacement, match_devices
from optinc_pdk.extract.golden_devices import GoldenVariant
from optinc_pdk.extract.guide_chains import GuideStrip, read_strip
from optinc_pdk.extract.guide_strips import StripRule
from optinc_pdk.extract.silicon_checks import check_foreign, surroundings
from optinc_pdk.extract.spatial_index import region_polygons


@dataclass(frozen=True)
class ExtractedBlock:
    """A cell in one orientation with its heaters, extracted by itself; coordinates are in nm from the cell's origin.

    Attributes:
        silicon: Merged silicon.
        placements: Devices other than phase shifters.
        ports: (p, 2, 2) edges of the guide ports of all devices, including phase shifters.
        joined: Guides from port to port inside the block.
        strips: Guides from a port to a free end, or from one free end to another.
        free: (f, 2, 2) edges at the free ends.
        space: Distance in nm that other silicon must keep from the devices, except in front of their ports.
    """

    silicon: kdb.Region
    placements: tuple[DevicePlacement, ...]
    ports: Ints
    joined: tuple[GuideStrip, ...]
    strips: tuple[GuideStrip, ...]
    free: Ints
    space: int

    @cached_property
    def outline(self) -> Ints:
        """(n, 2, 2) edges of the block's silicon in nm, with silicon to the right."""
        outline = contours(region_polygons(self.silicon))
        return np.stack([outline.points, outline.ends], axis=1)

    @cached_property
    def edges(self) -> kdb.Edges:
        """Edges of the block's silicon."""
        return self.silicon.edges()

    @cached_property
    def keepout(self) -> kdb.Region:
        """Region in which no other silicon is allowed: the block's silicon and the surroundings of its devices."""
        region = self.silicon.dup()
        for placement in self.placements:
            region += surroundings(placement.variant, self.space).moved(placement.shift)
        return region

    @cached_property
    def openings(self) -> frozenset[tuple[tuple[int, int], ...]]:
        """Edges where other silicon may touch the block: free ends of its guides, and ports of its devices.

        Each edge is its two end points in database units, sorted, so that the direction of the edge does not matter.
        """
        return frozenset(undirected(edge) for edge in [*self.free, *self.ports])


def undirected(edge: Ints) -> tuple[tuple[int, int], ...]:
    """Return the two end points of an edge (2, 2), sorted, so that both directions of an edge compare as equal."""
    return tuple(sorted((int(x), int(y)) for x, y in edge))


def extract_block(
    silicon: kdb.Region, heaters: Sequence[tuple[kdb.Box, Ints]], variants: Sequence[GoldenVariant], rule: StripRule
) -> ExtractedBlock | None:
    """Extract the devices and guides of a cell by itself.

    Args:
        silicon: Merged silicon of the cell in nm relative to its origin.
        heaters: For each heater in the cell, the guide under it and the end edges (2, 2, 2) of this guide.
        variants: Golden devices in all orientations.
        rule: Dimensions of a guide.

    Returns:
        The block, or None if the extraction reports any fault.
    """
    whole = contours(region_polygons(silicon))
    placements = match_devices(whole, variants)
    bodies = [polygon for p in placements for polygon in p.core]
    merged = kdb.Region(bodies + [kdb.Polygon(box) for box, _ in heaters]).merged()
    left, taken = silicon - merged, region_polygons(merged)
    left.min_coherence = True
    pieces = region_polygons(left)
    outline = contours(pieces)
    if whole.double_area != outline.double_area + contours(taken).double_area:
        return None
    if check_foreign(placements, [*pieces, *taken], rule):
        return None
    ports = np.concatenate([np.zeros((0, 2, 2), dtype=np.int64), *map(_ports, placements), *(e for _, e in heaters)])
    strips = _strips(pieces, outline, ports, rule)
    if strips is None:
        return None
    free = [end for strip, inner in strips for end in strip.ends[inner:]]
    return ExtractedBlock(
        silicon,
        tuple(placements),
        ports,
        tuple(strip for strip, inner in strips if inner == 2),
        tuple(strip for strip, inner in strips if inner < 2),
        np.array(free, dtype=np.int64).reshape(-1, 2, 2),
        rule.space,
    )


def _ports(placement: DevicePlacement) -> Ints:
    """Return the edges (p, 2, 2) of a device's guide ports."""
    edges = list(placement.variant.port_edges.values())
    shift = np.array([placement.shift.x, placement.shift.y])
    return np.asarray(np.stack([placement.variant.points[edges], placement.variant.ends[edges]], axis=1) + shift)


def _strips(
    pieces: Sequence[kdb.Polygon], outline: Contours, ports: Ints, rule: StripRule
) -> list[tuple[GuideStrip, int]] | None:
    """Return each guide with the number of its ends at devices, which come first; None if a piece is not a guide."""
    index = EdgeIndex(ports[:, 0], ports[:, 1])
    meets = index.find(outline.ends, outline.points) >= 0
    free = _across(outline, rule.width) & ~meets
    strips: list[tuple[GuideStrip, int]] = []
    for number, piece in enumerate(pieces):
        first = int(outline.first[number])
        edges = slice(first, int(outline.first[number + 1]))
        inner, outer = np.flatnonzero(meets[edges]), np.flatnonzero(free[edges])
        ends = np.concatenate([inner, outer])
        if len(ends) != 2 or outline.holes[number]:
            return None
        strip, fault = read_strip(piece, outline.ring(number), ends.tolist(), rule)
        if fault is not None:
            return None
        strips.append((strip, len(inner)))
    return strips


def _across(outline: Contours, width: int) -> Bools:
    """Return (E,) whether an edge could be a free end of a guide: along an axis and as long as a guide is wide."""
    away = np.abs(outline.ends - outline.points)
    return np.asarray((np.min(away, axis=1) == 0) & (np.max(away, axis=1) == width))


def touches_openings_only(silicon: kdb.Region, block: ExtractedBlock) -> bool:
    """Return whether other silicon touches a block at its openings only, or not at all.

    Args:
        silicon: Other silicon in the block's coordinates.
        block: Block.
    """
    if not (silicon & block.keepout).is_empty():
        return False
    shared = block.edges & silicon.edges()
    edges = ((edge.p1, edge.p2) for edge in shared.each())
    return all(undirected(np.array([(p.x, p.y), (q.x, q.y)])) in block.openings for p, q in edges)
