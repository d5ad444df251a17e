"""Placed blocks: devices, inner guides and outgoing guides of repeated cells, at all positions of these cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.extract.box_pairs import touching_pairs
from optinc_pdk.extract.device_matching import DevicePlacement
from optinc_pdk.extract.extracted_block import ExtractedBlock
from optinc_pdk.extract.guide_chains import GuideStrip, PlacedStrips
from optinc_pdk.extract.silicon_checks import surroundings
from optinc_pdk.extract.spatial_index import box_array


@dataclass(frozen=True)
class PlacedBlocks:
    """Extracted blocks and the n positions at which they are placed.

    Attributes:
        blocks: The distinct blocks, each extracted once.
        block: (n,) index into ``blocks`` for each placement.
        shift: (n, 2) position of the block's origin for each placement, in nm.
    """

    blocks: Sequence[ExtractedBlock]
    block: Ints
    shift: Ints

    def placements(self) -> list[DevicePlacement]:
        """Return the devices of all placed blocks except phase shifters, at their positions in the layout."""
        return [
            replace(p, shift=p.shift + kdb.Vector(x, y), core=tuple(polygon.moved(x, y) for polygon in p.core))
            for number, (x, y) in zip(self.block.tolist(), self.shift.tolist(), strict=True)
            for p in self.blocks[number].placements
        ]

    def overlap_surroundings(self, placements: Sequence[DevicePlacement], space_nm: int) -> bool:
        """Return whether silicon of a placed block lies within the surroundings of one of the given devices.

        Args:
            placements: Devices outside blocks.
            space_nm: Distance in nm that other silicon must keep from them.
        """
        boxes = box_array(block.silicon.bbox() for block in self.blocks)[self.block] + np.tile(self.shift, 2)
        others = box_array(placement.box.enlarged(space_nm) for placement in placements)
        return any(
            self._overlaps(place, surroundings(placements[other].variant, space_nm).moved(placements[other].shift))
            for place, other in touching_pairs(boxes, others).tolist()
        )

    def _overlaps(self, place: int, around: kdb.Region) -> bool:
        x, y = self.shift[place].tolist()
        return not (self.blocks[int(self.block[place])].silicon & around.moved(-x, -y)).is_empty()

    def edges_near(self, boxes: Ints) -> list[Ints]:
        """Return the edges (n, 2, 2) in nm of the placed blocks that touch any of some boxes (m, 4)."""
        extents = box_array(block.silicon.bbox() for block in self.blocks)[self.block] + np.tile(self.shift, 2)
        near = np.unique(touching_pairs(extents, boxes)[:, 0])
        edges = []
        for number in np.unique(self.block[near]).tolist():
            shift = self.shift[near[self.block[near] == number]]
            edges.append((self.blocks[number].outline + shift[:, None, None]).reshape(-1, 2, 2))
        return edges

    def inner_guides(self) -> PlacedStrips:
        """Return the guides that connect two device ports within a block, for all placed blocks."""
        return self._placed([block.joined for block in self.blocks])

    def outgoing_guides(self) -> PlacedStrips:
        """Return the guides that leave their block, which have at least one end that is not on a port of the block."""
        return self._placed([block.strips for block in self.blocks])

    def _placed(self, strips: Sequence[tuple[GuideStrip, ...]]) -> PlacedStrips:
        """Return the strips of each block at all of its placements."""
        count = np.array([len(each) for each in strips], dtype=np.int64)
        first = np.cumsum(count) - count
        counts = count[self.block]
        step = np.arange(int(np.sum(counts))) - np.repeat(np.cumsum(counts) - counts, counts)
        every = [strip for each in strips for strip in each]
        return PlacedStrips(every, np.repeat(first[self.block], counts) + step, np.repeat(self.shift, counts, axis=0))


NO_BLOCKS = PlacedBlocks((), np.zeros(0, dtype=np.int64), np.zeros((0, 2), dtype=np.int64))
