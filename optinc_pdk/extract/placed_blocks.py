"""Placed blocks with their devices, inner guides and outgoing guides."""

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
from optinc_pdk.extract.spatial_index import box_array


@dataclass(frozen=True)
class PlacedBlocks:
    """Blocks and their placements.

    Attributes:
        blocks: The distinct blocks.
        block: (n,) number of the block of each placement.
        shift: (n, 2) position of its origin in nm.
    """

    blocks: Sequence[ExtractedBlock]
    block: Ints
    shift: Ints

    def placements(self) -> list[DevicePlacement]:
        """Return the devices in all placements, without phase shifters."""
        return [
            replace(p, shift=p.shift + kdb.Vector(x, y), core=tuple(polygon.moved(x, y) for polygon in p.core))
            for number, (x, y) in zip(self.block.tolist(), self.shift.tolist(), strict=True)
            for p in self.blocks[number].placements
        ]

    def overlap_devices(self, placements: Sequence[DevicePlacement]) -> bool:
        """Whether the silicon of a block lies within the bounding box of one of the given devices outside blocks."""
        boxes = box_array(block.silicon.bbox() for block in self.blocks)[self.block] + np.tile(self.shift, 2)
        others = [placement.box for placement in placements]
        pairs = touching_pairs(boxes, box_array(others)).tolist()
        return any(self._overlaps(place, others[other]) for place, other in pairs)

    def _overlaps(self, place: int, box: kdb.Box) -> bool:
        x, y = self.shift[place].tolist()
        local = kdb.Region(box.moved(-x, -y))
        return not (self.blocks[int(self.block[place])].silicon & local).is_empty()

    def inner_guides(self) -> tuple[Ints, NDArray[np.float64]]:
        """Return (n, 2, 2, 2) port edges that guides inside blocks join, and (n,) lengths of these guides in µm."""
        edges, lengths = [np.zeros((0, 2, 2, 2), dtype=np.int64)], [np.zeros(0)]
        for number, block in enumerate(self.blocks):
            shift = self.shift[self.block == number][:, None, None, None, :]
            edges.append((block.joined[None] + shift).reshape(-1, 2, 2, 2))
            lengths.append(np.tile(block.length_um, len(shift)))
        return np.concatenate(edges), np.concatenate(lengths)

    def outgoing_guides(self) -> PlacedStrips:
        """Return the guides with a free end, at which they leave their block."""
        count = np.array([len(block.strips) for block in self.blocks], dtype=np.int64)
        first = np.cumsum(count) - count
        counts = count[self.block]
        step = np.arange(int(np.sum(counts))) - np.repeat(np.cumsum(counts) - counts, counts)
        strips = [strip for block in self.blocks for strip in block.strips]
        return PlacedStrips(strips, np.repeat(first[self.block], counts) + step, np.repeat(self.shift, counts, axis=0))


NO_BLOCKS = PlacedBlocks((), np.zeros(0, dtype=np.int64), np.zeros((0, 2), dtype=np.int64))
