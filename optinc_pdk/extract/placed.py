"""Blocks where they are placed, and the guides within them and from one to the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import klayout.db as kdb
import numpy as np
from numpy.typing import NDArray

from optinc_pdk.extract.blocks import Block
from optinc_pdk.extract.chains import Segments
from optinc_pdk.extract.contours import Ints
from optinc_pdk.extract.lookup import box_array
from optinc_pdk.extract.nearby import touching
from optinc_pdk.extract.silicon import Placement


@dataclass(frozen=True)
class Placed:
    """Blocks where they are.

    Attributes:
        blocks: The distinct blocks.
        block: (n,) block of each place.
        shift: (n, 2) where its origin lies.
    """

    blocks: Sequence[Block]
    block: Ints
    shift: Ints

    def placements(self) -> list[Placement]:
        """Their devices, without phase shifters."""
        return [
            replace(p, shift=p.shift + kdb.Vector(x, y), core=tuple(polygon.moved(x, y) for polygon in p.core))
            for number, (x, y) in zip(self.block.tolist(), self.shift.tolist(), strict=True)
            for p in self.blocks[number].placements
        ]

    def beside(self, placements: Sequence[Placement]) -> bool:
        """Whether a block's silicon reaches into the box of any of some other devices."""
        boxes = box_array(block.silicon.bbox() for block in self.blocks)[self.block] + np.tile(self.shift, 2)
        others = [placement.box for placement in placements]
        pairs = touching(boxes, box_array(others)).tolist()
        return any(self._reaches(place, others[other]) for place, other in pairs)

    def _reaches(self, place: int, box: kdb.Box) -> bool:
        x, y = self.shift[place].tolist()
        own = kdb.Region(box.moved(-x, -y))
        return not (self.blocks[int(self.block[place])].silicon & own).is_empty()

    def within(self) -> tuple[Ints, NDArray[np.float64]]:
        """(n, 2, 2, 2) edges of the ports that guides within blocks join, and (n,) these guides' lengths."""
        edges, lengths = [np.zeros((0, 2, 2, 2), dtype=np.int64)], [np.zeros(0)]
        for number, block in enumerate(self.blocks):
            shift = self.shift[self.block == number][:, None, None, None, :]
            edges.append((block.joined[None] + shift).reshape(-1, 2, 2, 2))
            lengths.append(np.tile(block.length_um, len(shift)))
        return np.concatenate(edges), np.concatenate(lengths)

    def segments(self) -> Segments:
        """The guides that lead from one block to others."""
        count = np.array([len(block.strips) for block in self.blocks], dtype=np.int64)
        first = np.cumsum(count) - count
        own = count[self.block]
        step = np.arange(int(np.sum(own))) - np.repeat(np.cumsum(own) - own, own)
        strips = [strip for block in self.blocks for strip in block.strips]
        return Segments(strips, np.repeat(first[self.block], own) + step, np.repeat(self.shift, own, axis=0))


NO_BLOCKS = Placed((), np.zeros(0, dtype=np.int64), np.zeros((0, 2), dtype=np.int64))
