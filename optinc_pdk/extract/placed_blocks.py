"""Placed blocks: devices, inner guides and outgoing guides of repeated cells, at all positions of these cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import klayout.db as kdb
import numpy as np
from numpy.typing import NDArray

from optinc_pdk.extract.box_pairs import touching_pairs
from optinc_pdk.extract.contours import Ints
from optinc_pdk.extract.device_matching import DevicePlacement
from optinc_pdk.extract.extracted_block import ExtractedBlock
from optinc_pdk.extract.guide_chains import PlacedStrips
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

    def inner_guides(self) -> tuple[Ints, NDArray[np.float64]]:
        """Return the guides that connect two device ports within a block, for all placed blocks.

        Returns:
            (k, 2, 2, 2) edges of the two ports of each guide in nm, indexed [guide, port, point, xy], and (k,)
            lengths of the guides in µm.
        """
        edges, lengths = [np.zeros((0, 2, 2, 2), dtype=np.int64)], [np.zeros(0)]
        for number, block in enumerate(self.blocks):
            shift = self.shift[self.block == number][:, None, None, None, :]
            edges.append((block.joined[None] + shift).reshape(-1, 2, 2, 2))
            lengths.append(np.tile(block.length_um, len(shift)))
        return np.concatenate(edges), np.concatenate(lengths)

    def outgoing_guides(self) -> PlacedStrips:
        """Return the guides that leave their block, which have at least one end that is not on a port of the block."""
        count = np.array([len(block.strips) for block in self.blocks], dtype=np.int64)
        first = np.cumsum(count) - count
        counts = count[self.block]
        step = np.arange(int(np.sum(counts))) - np.repeat(np.cumsum(counts) - counts, counts)
        strips = [strip for block in self.blocks for strip in block.strips]
        return PlacedStrips(strips, np.repeat(first[self.block], counts) + step, np.repeat(self.shift, counts, axis=0))


NO_BLOCKS = PlacedBlocks((), np.zeros(0, dtype=np.int64), np.zeros((0, 2), dtype=np.int64))
