"""Which cells are blocks: drawn often, in order by themselves, and left alone by all other silicon.

Nothing may touch a block but what meets one of its ends exactly. A cell for which that fails counts as loose shapes;
so do guides that lead from a block to anything but another block. Names, ports and properties count for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import klayout.db as kdb
import numpy as np

from optinc_pdk.extract.blocks import Block, leaves_alone, read_block
from optinc_pdk.extract.contours import Ints
from optinc_pdk.extract.gds import Mask
from optinc_pdk.extract.golden import Variant
from optinc_pdk.extract.heaters import Heater
from optinc_pdk.extract.placed import NO_BLOCKS, Placed
from optinc_pdk.extract.places import Places, take_apart, turn
from optinc_pdk.extract.strips import StripRule


def place_blocks(
    mask: Mask, heaters: Sequence[Heater], variants: Sequence[Variant], rule: StripRule
) -> tuple[Placed, list[int], kdb.Region]:
    """Find the blocks of a layout.

    Returns:
        The blocks, the numbers of the heaters in none of them, and the silicon in none of them, merged.
    """
    everything = list(range(len(heaters)))
    layer = mask.layout.layer(*mask.layers["core"])
    # holes and slabs are rare, and may lie across cells
    plain_silicon = all(mask.region(name).is_empty() for name in ("holes", "slab") if name in mask.layers)
    places = take_apart(mask.layout, mask.top, [layer]) if plain_silicon else None
    if places is None:
        return NO_BLOCKS, everything, mask.silicon()
    finding = _Finding(mask.layout, layer, places, heaters)
    block = finding.blocks(variants, rule)
    good = np.flatnonzero(block >= 0)
    inside = {number for place in good.tolist() for number in finding.inside[place] or ()}
    placed = Placed(tuple(finding.read), block[good], places.cells[good, 2:])
    loose = [finding.at(place) for place in np.flatnonzero(block < 0).tolist()]
    silicon = kdb.Region()
    for region in (places.loose[layer], *loose):
        silicon += region
    return placed, [number for number in everything if number not in inside], silicon.merged()


class _Finding:
    """The search for blocks: what each placed cell is, and what is around it."""

    def __init__(self, layout: kdb.Layout, layer: int, places: Places, heaters: Sequence[Heater]) -> None:
        self.layout, self.layer, self.places, self.heaters = layout, layer, places, heaters
        self.read: list[Block] = []
        self.inside = self._heaters_inside()
        self.cells: dict[tuple[int, int], kdb.Region] = {}
        self.meetings: dict[tuple[int, ...], bool] = {}

    def _heaters_inside(self) -> list[list[int] | None]:
        """Numbers of the heaters whose guides lie in each placed cell's box; None where one straddles its border."""
        number = {heater.guide: i for i, heater in enumerate(self.heaters)}
        shapes = kdb.Shapes()
        for box in number:
            shapes.insert(box)
        found: list[list[int] | None] = []
        for place in range(len(self.places.cells)):
            box = self.places.box(place)
            near = [shape.box for shape in shapes.each_overlapping(box)]
            found.append(sorted(number[n] for n in near) if all(n.inside(box) for n in near) else None)
        return found

    def silicon(self, cell: int, code: int) -> kdb.Region:
        """A cell's merged silicon in an orientation."""
        if (cell, code) not in self.cells:
            drawn = kdb.Region(self.layout.cell(cell).begin_shapes_rec(self.layer))
            drawn.remove_properties()
            self.cells[cell, code] = drawn.transformed(turn(code)).merged()
        return self.cells[cell, code]

    def at(self, place: int) -> kdb.Region:
        """The silicon of a placed cell."""
        cell, code, x, y = self.places.cells[place].tolist()
        return self.silicon(cell, code).moved(x, y)

    def blocks(self, variants: Sequence[Variant], rule: StripRule) -> Ints:
        """(n,) block of every placed cell, -1 where it is none."""
        groups: dict[object, list[int]] = {}
        for place, inside in enumerate(self.inside):
            if inside is not None:
                groups.setdefault(self._key(place, inside), []).append(place)
        block = np.full(len(self.places.cells), -1, dtype=np.int64)
        for members in groups.values():
            found = self._read(members[0], variants, rule) if len(members) > 1 else None
            if found is not None:
                block[members] = len(self.read)
                self.read.append(found)
        touched = [place for place in np.flatnonzero(block >= 0).tolist() if not self._apart(place, int(block[place]))]
        block[touched] = -1
        return block

    def _key(self, place: int, inside: Sequence[int]) -> object:
        cell, code, x, y = self.places.cells[place].tolist()
        return cell, code, frozenset(self.heaters[number].guide.moved(-x, -y) for number in inside)

    def _read(self, place: int, variants: Sequence[Variant], rule: StripRule) -> Block | None:
        cell, code, x, y = self.places.cells[place].tolist()
        inside = [self.heaters[number] for number in self.inside[place] or ()]
        guides = [(heater.guide.moved(-x, -y), heater.edges - np.array([x, y])) for heater in inside]
        return read_block(self.silicon(cell, code), guides, variants, rule)

    def _apart(self, place: int, block: int) -> bool:
        """Whether all other silicon meets a block at its openings only."""
        box, (x, y) = self.places.box(place), self.places.cells[place, 2:].tolist()
        if self.places.loose_touch(self.layer, box):
            loose = self.places.loose_near(self.layer, box.enlarged(1)).merged()
            if not leaves_alone(loose.moved(-x, -y), self.read[block]):
                return False
        for other in self.places.near(box):
            cell, code, u, v = self.places.cells[other].tolist()
            key = (block, cell, code, u - x, v - y)
            if other != place and key not in self.meetings:
                silicon = self.silicon(cell, code).moved(u - x, v - y)
                self.meetings[key] = leaves_alone(silicon, self.read[block])
            if other != place and not self.meetings[key]:
                return False
        return True
