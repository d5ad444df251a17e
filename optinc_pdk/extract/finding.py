"""Which cells are blocks: drawn often, in order by themselves, and left alone by all other silicon.

Nothing may touch a block but what meets one of its ends exactly. A cell for which that fails counts as loose shapes;
so do guides that lead from a block to anything but another block. Names, ports and properties count for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import klayout.db as kdb
import numpy as np

from optinc_pdk.extract.blocks import Block, leaves_alone, read_block
from optinc_pdk.extract.contours import Ints, pack
from optinc_pdk.extract.gds import Mask
from optinc_pdk.extract.golden import Variant
from optinc_pdk.extract.heaters import Heater
from optinc_pdk.extract.lookup import box_array
from optinc_pdk.extract.nearby import touching
from optinc_pdk.extract.placed import NO_BLOCKS, Placed
from optinc_pdk.extract.places import Places, turn
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
    places = mask.places
    if places is None:
        return NO_BLOCKS, everything, mask.silicon()
    finding = _Finding(mask.layout, layer, places, heaters)
    block = finding.blocks(variants, rule)
    good = np.flatnonzero(block >= 0)
    inside = {number for place, own in finding.inside.items() if block[place] >= 0 for number in own}
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
        self.cells: dict[tuple[int, int], kdb.Region] = {}
        self.inside, self.astride = self._heaters_inside()

    def _heaters_inside(self) -> tuple[dict[int, list[int]], set[int]]:
        """Numbers of the heaters with their guides in a placed cell's box; and the cells whose border one straddles."""
        guides = box_array(heater.guide for heater in self.heaters)
        place, heater = touching(self.places.boxes, guides).T
        box, guide = self.places.boxes[place], guides[heater]
        over = np.all(np.maximum(box[:, :2], guide[:, :2]) < np.minimum(box[:, 2:], guide[:, 2:]), axis=1)
        whole = np.all(box[:, :2] <= guide[:, :2], axis=1) & np.all(guide[:, 2:] <= box[:, 2:], axis=1)
        inside: dict[int, list[int]] = {}
        for where, number in zip(place[over & whole].tolist(), heater[over & whole].tolist(), strict=True):
            inside.setdefault(where, []).append(number)
        return inside, set(place[over & ~whole].tolist())

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
        block = np.full(len(self.places.cells), -1, dtype=np.int64)
        for members in self._groups():
            found = self._read(int(members[0]), variants, rule)
            if found is not None:
                block[members] = len(self.read)
                self.read.append(found)
        block[self._touched(block)] = -1
        return block

    def _groups(self) -> list[Ints]:
        """Places of equal cells with equal heaters, where there are several, in the order of the first of them."""
        heated: dict[object, list[int]] = {}
        for place, inside in self.inside.items():
            if place not in self.astride:
                heated.setdefault(self._key(place, inside), []).append(place)
        bare = np.ones(len(self.places.cells), dtype=bool)
        bare[[*self.inside, *self.astride]] = False
        places = np.flatnonzero(bare)
        kind = self.places.cells[places, 0] * 8 + self.places.cells[places, 1]
        order = np.argsort(kind, kind="stable")
        groups = np.split(places[order], np.flatnonzero(np.diff(kind[order])) + 1)
        groups += [np.array(members, dtype=np.int64) for members in heated.values()]
        return sorted((group for group in groups if len(group) > 1), key=lambda group: int(group[0]))

    def _key(self, place: int, inside: Sequence[int]) -> object:
        cell, code, x, y = self.places.cells[place].tolist()
        return cell, code, frozenset(self.heaters[number].guide.moved(-x, -y) for number in inside)

    def _read(self, place: int, variants: Sequence[Variant], rule: StripRule) -> Block | None:
        cell, code, x, y = self.places.cells[place].tolist()
        inside = [self.heaters[number] for number in self.inside.get(place, ())]
        guides = [(heater.guide.moved(-x, -y), heater.edges - np.array([x, y])) for heater in inside]
        return read_block(self.silicon(cell, code), guides, variants, rule)

    def _touched(self, block: Ints) -> Ints:
        """Places of blocks that other silicon meets elsewhere than at their openings."""
        good = np.flatnonzero(block >= 0)
        bad = self._met_by_loose(block)
        near, other = touching(self.places.boxes[good], self.places.boxes).T
        one = good[near]
        one, other = one[one != other], other[one != other]
        cells = self.places.cells
        # equal meetings of equal cells are looked at once
        what = (block[one] * self.layout.cells() + cells[other, 0]) * 8 + cells[other, 1]
        away = pack(cells[other, 2:] - cells[one, 2:])
        order = np.lexsort((away, what))
        new = np.ones(len(order), dtype=bool)
        new[1:] = (np.diff(what[order]) != 0) | (np.diff(away[order]) != 0)
        met = order[new]
        meetings = np.column_stack(
            [block[one[met]], cells[other[met], :2], cells[other[met], 2:] - cells[one[met], 2:]]
        )
        touches = np.array([not self._leaves(*row) for row in meetings.tolist()], dtype=bool)
        bad.update(one[order[touches[np.cumsum(new) - 1]]].tolist())
        return np.array(sorted(bad), dtype=np.int64)

    def _met_by_loose(self, block: Ints) -> set[int]:
        """Places of blocks that shapes in no cell meet elsewhere than at their openings."""
        good = np.flatnonzero(block >= 0)
        shapes = self.places.loose_boxes(self.layer)
        near, loose = touching(self.places.boxes[good], shapes).T
        # what lies near a block, cut off just beyond its box and seen from it
        beyond = self.places.boxes[good[near]] + np.array([-1, -1, 1, 1])
        cut = np.hstack([np.maximum(beyond[:, :2], shapes[loose, :2]), np.minimum(beyond[:, 2:], shapes[loose, 2:])])
        cut -= np.tile(self.places.cells[good[near], 2:], 2)
        plain = self.places.loose_are_boxes(self.layer)[loose]
        known: dict[object, bool] = {}
        bad: set[int] = set()
        places, first = np.unique(near, return_index=True)
        for place, (start, stop) in zip(good[places].tolist(), pairwise([*first.tolist(), len(near)]), strict=True):
            own = slice(start, stop)
            # equal boxes near equal blocks are looked at once
            key = (int(block[place]), cut[own].tobytes()) if plain[own].all() else place
            if key not in known:
                known[key] = self._apart(place, int(block[place]))
            if not known[key]:
                bad.add(place)
        return bad

    def _apart(self, place: int, block: int) -> bool:
        """Whether what is in no cell meets a block at its openings only."""
        box, (x, y) = self.places.box(place), self.places.cells[place, 2:].tolist()
        loose = self.places.loose_near(self.layer, box.enlarged(1)).merged()
        return leaves_alone(loose.moved(-x, -y), self.read[block])

    def _leaves(self, block: int, cell: int, code: int, x: int, y: int) -> bool:
        """Whether a cell, seen from a block, meets it at its openings only."""
        return leaves_alone(self.silicon(cell, code).moved(x, y), self.read[block])
