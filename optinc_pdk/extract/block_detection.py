"""Detection of blocks: cells that are placed several times and are extracted once for all placements.

A block is extracted without faults by itself, and other silicon touches it only at its openings: the edges of guide
ends and ports. All other cells are treated as shapes outside cells, as are guides that lead from a block to anything
but another block. Cell names, ports and properties are not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.extract.box_pairs import touching_pairs
from optinc_pdk.extract.cell_placements import CellPlacements, transformation
from optinc_pdk.extract.contours import pack_points
from optinc_pdk.extract.extracted_block import ExtractedBlock, extract_block, touches_openings_only
from optinc_pdk.extract.golden_devices import GoldenVariant
from optinc_pdk.extract.guide_strips import StripRule
from optinc_pdk.extract.mask_layout import MaskLayout
from optinc_pdk.extract.phase_shifters import ExtractedHeater
from optinc_pdk.extract.placed_blocks import NO_BLOCKS, PlacedBlocks
from optinc_pdk.extract.spatial_index import box_array


def find_blocks(
    mask: MaskLayout,
    heaters: Sequence[ExtractedHeater],
    variants: Sequence[GoldenVariant],
    rule: StripRule,
    marks: Sequence[kdb.Polygon] = (),
) -> tuple[PlacedBlocks, list[int], kdb.Region]:
    """Find the blocks of a layout.

    Args:
        mask: Layout.
        heaters: Heaters of the layout.
        variants: Golden devices in all orientations.
        rule: Dimensions of a guide.
        marks: Marks of couplers of any gap and length. Cells that touch one are no blocks.

    Returns:
        The placed blocks, the indices in ``heaters`` of the heaters outside blocks, and the merged silicon outside
        blocks.
    """
    every_heater = list(range(len(heaters)))
    layer = mask.layout.layer(*mask.layers["core"])
    places = mask.places
    if places is None:
        return NO_BLOCKS, every_heater, mask.silicon()
    detection = _Detection(mask.layout, layer, places, heaters, marks, rule.space + 1)
    block = detection.blocks(variants, rule)
    detected = np.flatnonzero(block >= 0)
    inside = {number for place, numbers in detection.inside.items() if block[place] >= 0 for number in numbers}
    placed = PlacedBlocks(tuple(detection.extracted), block[detected], places.cells[detected, 2:])
    loose = [detection.at(place) for place in np.flatnonzero(block < 0).tolist()]
    silicon = kdb.Region()
    for region in (places.loose[layer], *loose):
        silicon += region
    return placed, [number for number in every_heater if number not in inside], silicon.merged()


class _Detection:
    """Search for the blocks among the placed cells of a layout.

    Attributes:
        extracted: The distinct blocks found so far.
        inside: Numbers of the heaters inside a placed cell, by the number of the placement.
        astride: Placements with a heater across their border, or that touch the mark of a coupler.
        reach: Distance in nm from a cell within which other silicon can prevent it from being a block.
    """

    def __init__(
        self,
        layout: kdb.Layout,
        layer: int,
        places: CellPlacements,
        heaters: Sequence[ExtractedHeater],
        marks: Sequence[kdb.Polygon],
        reach: int,
    ) -> None:
        self.layout, self.layer, self.places, self.heaters = layout, layer, places, heaters
        self.extracted: list[ExtractedBlock] = []
        self.reach = reach
        self.cells: dict[tuple[int, int], kdb.Region] = {}
        self.inside, self.astride = self._heaters_inside()
        if marks:
            at_marks = touching_pairs(places.boxes, box_array(mark.bbox() for mark in marks))[:, 0]
            self.astride |= set(at_marks.tolist())

    def _heaters_inside(self) -> tuple[dict[int, list[int]], set[int]]:
        """Return the numbers of the heaters inside each placement's box, and the placements with one across it."""
        guides = box_array(heater.guide for heater in self.heaters)
        place, heater = touching_pairs(self.places.boxes, guides).T
        box, guide = self.places.boxes[place], guides[heater]
        over = np.all(np.maximum(box[:, :2], guide[:, :2]) < np.minimum(box[:, 2:], guide[:, 2:]), axis=1)
        whole = np.all(box[:, :2] <= guide[:, :2], axis=1) & np.all(guide[:, 2:] <= box[:, 2:], axis=1)
        inside: dict[int, list[int]] = {}
        for where, number in zip(place[over & whole].tolist(), heater[over & whole].tolist(), strict=True):
            inside.setdefault(where, []).append(number)
        return inside, set(place[over & ~whole].tolist())

    def silicon(self, cell: int, code: int) -> kdb.Region:
        """Return the merged silicon of a cell in an orientation."""
        if (cell, code) not in self.cells:
            drawn = kdb.Region(self.layout.cell(cell).begin_shapes_rec(self.layer))
            drawn.remove_properties()
            self.cells[cell, code] = drawn.transformed(transformation(code)).merged()
        return self.cells[cell, code]

    def at(self, place: int) -> kdb.Region:
        """Return the silicon of a placed cell."""
        cell, code, x, y = self.places.cells[place].tolist()
        return self.silicon(cell, code).moved(x, y)

    def blocks(self, variants: Sequence[GoldenVariant], rule: StripRule) -> Ints:
        """Return the block number (n,) of every placed cell, -1 where it is not a block."""
        block = np.full(len(self.places.cells), -1, dtype=np.int64)
        for members in self._groups():
            extracted = self._extract(int(members[0]), variants, rule)
            if extracted is not None:
                block[members] = len(self.extracted)
                self.extracted.append(extracted)
        block[self._touched(block)] = -1
        return block

    def _groups(self) -> list[Ints]:
        """Return groups of two or more placements of one cell with equal heaters, ordered by their first member."""
        heated: dict[object, list[int]] = {}
        for place, inside in self.inside.items():
            if place not in self.astride:
                heated.setdefault(self._key(place, inside), []).append(place)
        unheated = np.ones(len(self.places.cells), dtype=bool)
        unheated[[*self.inside, *self.astride]] = False
        places = np.flatnonzero(unheated)
        kind = self.places.cells[places, 0] * 8 + self.places.cells[places, 1]
        order = np.argsort(kind, kind="stable")
        groups = np.split(places[order], np.flatnonzero(np.diff(kind[order])) + 1)
        groups += [np.array(members, dtype=np.int64) for members in heated.values()]
        return sorted((group for group in groups if len(group) > 1), key=lambda group: int(group[0]))

    def _key(self, place: int, inside: Sequence[int]) -> object:
        """Return what equal placements have in common: cell, orientation and relative positions of heaters."""
        cell, code, x, y = self.places.cells[place].tolist()
        return cell, code, frozenset(self.heaters[number].guide.moved(-x, -y) for number in inside)

    def _extract(self, place: int, variants: Sequence[GoldenVariant], rule: StripRule) -> ExtractedBlock | None:
        """Extract a placed cell by itself, or return None if that gives faults."""
        cell, code, x, y = self.places.cells[place].tolist()
        inside = [self.heaters[number] for number in self.inside.get(place, ())]
        guides = [(heater.guide.moved(-x, -y), heater.edges - np.array([x, y])) for heater in inside]
        return extract_block(self.silicon(cell, code), guides, variants, rule)

    def _touched(self, block: Ints) -> Ints:
        """Return the placements of blocks that other silicon touches elsewhere than at their openings."""
        detected = np.flatnonzero(block >= 0)
        bad = self._touched_by_loose(block)
        near, other = touching_pairs(self._beyond(detected), self.places.boxes).T
        one = detected[near]
        one, other = one[one != other], other[one != other]
        cells = self.places.cells
        # cells that touch equal blocks at equal relative positions are compared once
        kind = (block[one] * self.layout.cells() + cells[other, 0]) * 8 + cells[other, 1]
        away = pack_points(cells[other, 2:] - cells[one, 2:])
        order = np.lexsort((away, kind))
        new = np.ones(len(order), dtype=bool)
        new[1:] = (np.diff(kind[order]) != 0) | (np.diff(away[order]) != 0)
        first = order[new]
        contacts = np.column_stack(
            [block[one[first]], cells[other[first], :2], cells[other[first], 2:] - cells[one[first], 2:]]
        )
        touches = np.array([not self._cell_fits(*row) for row in contacts.tolist()], dtype=bool)
        bad.update(one[order[touches[np.cumsum(new) - 1]]].tolist())
        return np.array(sorted(bad), dtype=np.int64)

    def _touched_by_loose(self, block: Ints) -> set[int]:
        """Return the placements of blocks that shapes outside cells touch elsewhere than at their openings."""
        detected = np.flatnonzero(block >= 0)
        shapes = self.places.loose_boxes(self.layer)
        near, loose = touching_pairs(self._beyond(detected), shapes).T
        # the part of each shape within reach of the block's box, relative to the block
        beyond = self._beyond(detected[near])
        cut = np.hstack([np.maximum(beyond[:, :2], shapes[loose, :2]), np.minimum(beyond[:, 2:], shapes[loose, 2:])])
        cut -= np.tile(self.places.cells[detected[near], 2:], 2)
        are_boxes = self.places.loose_are_boxes(self.layer)[loose]
        known: dict[object, bool] = {}
        bad: set[int] = set()
        places, first = np.unique(near, return_index=True)
        for place, (start, stop) in zip(detected[places].tolist(), pairwise([*first.tolist(), len(near)]), strict=True):
            part = slice(start, stop)
            # equal boxes near equal blocks are compared once
            key = (int(block[place]), cut[part].tobytes()) if are_boxes[part].all() else place
            if key not in known:
                known[key] = self._loose_fits(place, int(block[place]))
            if not known[key]:
                bad.add(place)
        return bad

    def _beyond(self, places: Ints) -> Ints:
        """Return the boxes (n, 4) of placements (n,), enlarged by the distance at which other silicon matters."""
        return np.asarray(self.places.boxes[places] + self.reach * np.array([-1, -1, 1, 1]))

    def _loose_fits(self, place: int, block: int) -> bool:
        """Whether the shapes outside cells touch a block at its openings only."""
        box, (x, y) = self.places.box(place), self.places.cells[place, 2:].tolist()
        loose = self.places.loose_near(self.layer, box.enlarged(self.reach)).merged()
        return touches_openings_only(loose.moved(-x, -y), self.extracted[block])

    def _cell_fits(self, block: int, cell: int, code: int, x: int, y: int) -> bool:
        """Whether a cell at a position relative to a block touches it at its openings only."""
        return touches_openings_only(self.silicon(cell, code).moved(x, y), self.extracted[block])
