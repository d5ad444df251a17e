"""Blocks where they are placed, and the guides within them and from one to the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import klayout.db as kdb
import numpy as np
from numpy.typing import NDArray

from optinc_pdk.extract.blocks import Block, Strip
from optinc_pdk.extract.contours import EdgeIndex, Ints, contours
from optinc_pdk.extract.lookup import plain
from optinc_pdk.extract.silicon import Placement
from optinc_pdk.extract.strips import StripRule, check_strip


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
        shapes = kdb.Shapes()
        numbers: dict[kdb.Box, list[int]] = {}
        for place, (number, (x, y)) in enumerate(zip(self.block.tolist(), self.shift.tolist(), strict=True)):
            box = self.blocks[number].silicon.bbox().moved(x, y)
            shapes.insert(box)
            numbers.setdefault(box, []).append(place)
        return any(
            self._reaches(place, placement.box)
            for placement in placements
            for shape in shapes.each_overlapping(placement.box)
            for place in numbers[shape.box]
        )

    def _reaches(self, place: int, box: kdb.Box) -> bool:
        x, y = self.shift[place].tolist()
        own = kdb.Region(box.moved(-x, -y))
        return not (self.blocks[int(self.block[place])].silicon & own).is_empty()

    def join(self, rule: StripRule) -> tuple[Ints, NDArray[np.float64], list[kdb.Polygon]]:
        """The guides within blocks and from block to block.

        Returns:
            (n, 2, 2, 2) edges of the ports that they join, (n,) lengths, and guides that lead elsewhere.
        """
        none = np.zeros((0, 2, 2, 2), dtype=np.int64)
        within = [(none, np.zeros(0))]
        for number, block in enumerate(self.blocks):
            shift = self.shift[self.block == number][:, None, None, None, :]
            edges = (block.joined[None] + shift).reshape(-1, 2, 2, 2)
            within.append((edges, np.tile(block.length_um, len(shift))))
        between = self._between(rule)
        edges, lengths = zip(*within, (between[0], between[1]), strict=True)
        return np.concatenate(edges), np.concatenate(lengths), between[2]

    def _between(self, rule: StripRule) -> tuple[Ints, NDArray[np.float64], list[kdb.Polygon]]:
        ends = _Ends.of(self)
        known: dict[object, float | None] = {}
        edges: list[Ints] = []
        lengths: list[float] = []
        rest = [
            strip.polygon.moved(x, y)
            for number, (x, y) in zip(self.block.tolist(), self.shift.tolist(), strict=True)
            for strip in self.blocks[number].through
        ]
        for number in range(len(ends.strips)):
            if ends.told(number):
                continue
            chain, stop = ends.chain(number)
            start, at = ends.edges[number, 0], ends.shift[number]
            key = tuple((id(strip), dx, dy) for strip, dx, dy in chain)
            if stop is not None and key not in known:
                known[key] = _length(chain, start - at, stop - at, rule)
            length = None if stop is None else known[key]
            if stop is None or length is None:
                x, y = at.tolist()
                rest += [strip.polygon.moved(x + dx, y + dy) for strip, dx, dy in chain]
            else:
                edges.append(np.stack([start, stop]))
                lengths.append(length)
        return np.array(edges, dtype=np.int64).reshape(-1, 2, 2, 2), np.array(lengths), rest


@dataclass(frozen=True)
class _Ends:
    """The guides from blocks' ports to free ends, and what they meet there.

    Attributes:
        strips: The guides.
        shift: (s, 2) where each one's block lies.
        edges: (s, 2, 2, 2) the device's edge and the free end's.
        ports: (p, 2, 2) edges of the ports of all blocks.
        device: (s,) number of the port that a guide meets, -1 where it meets none.
        partner: (s,) number of the guide that it meets, -1 where it meets none.
    """

    strips: Sequence[Strip]
    shift: Ints
    edges: Ints
    ports: Ints
    device: Ints
    partner: Ints

    @staticmethod
    def of(placed: Placed) -> _Ends:
        blocks = [placed.blocks[number] for number in placed.block.tolist()]
        strips = [strip for block in blocks for strip in block.strips]
        shift = np.repeat(placed.shift, [len(block.strips) for block in blocks], axis=0)
        edges = np.array([strip.ends for strip in strips], dtype=np.int64).reshape(-1, 2, 2, 2) + shift[:, None, None]
        none = np.zeros((0, 2, 2), dtype=np.int64)
        ports = np.concatenate([none, *(b.ports + s for b, s in zip(blocks, placed.shift, strict=True))])
        # what lies beyond an edge runs along it the other way
        first, second = edges[:, 1, 1], edges[:, 1, 0]
        device = EdgeIndex(ports[:, 0], ports[:, 1]).find(first, second)
        return _Ends(strips, shift, edges, ports, device, EdgeIndex(second, first).find(first, second))

    def told(self, number: int) -> bool:
        """Whether a guide is the second of a pair."""
        return bool(self.device[number] < 0 and 0 <= self.partner[number] < number)

    def chain(self, number: int) -> tuple[list[tuple[Strip, int, int]], Ints | None]:
        """A guide with the one that it meets, as seen from its block, and the port's edge at the other end, if any."""
        chain = [(self.strips[number], 0, 0)]
        device, partner = int(self.device[number]), int(self.partner[number])
        if (device < 0) == (partner < 0):
            return chain, None
        if device >= 0:
            return chain, self.ports[device]
        dx, dy = (self.shift[partner] - self.shift[number]).tolist()
        return [*chain, (self.strips[partner], dx, dy)], self.edges[partner, 0]


NO_BLOCKS = Placed((), np.zeros(0, dtype=np.int64), np.zeros((0, 2), dtype=np.int64))


def _length(chain: Sequence[tuple[Strip, int, int]], start: Ints, stop: Ints, rule: StripRule) -> float | None:
    """Length of guides that meet end to end, or None where together they are no guide."""
    merged = kdb.Region([strip.polygon.moved(dx, dy) for strip, dx, dy in chain])
    merged.merge()
    outline = contours(plain(merged))
    if len(outline.holes) != 1 or outline.holes[0]:
        return None
    index = EdgeIndex(outline.points, outline.ends)
    first, second = (int(index.find(edge[1], edge[0])) for edge in (start, stop))
    if first < 0 or second < 0:
        return None
    low, high = min(first, second), max(first, second)
    length, fault = check_strip(outline.points - outline.points[0], low, high, rule)
    return length if fault is None else None
