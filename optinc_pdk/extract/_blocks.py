"""Blocks: cells that are placed several times and are extracted once for all placements.

A block is extracted without faults by itself, and other silicon touches it only at its openings: the edges of guide
ends and ports. All other cells are treated as shapes outside cells, as are guides that lead from a block to anything
but another block. Cell names, ports and properties are not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Bools, Ints
from optinc_pdk.extract._guide_strips import GuideStrip, PlacedStrips, StripRule, read_strip
from optinc_pdk.extract._silicon_checks import check_foreign, surroundings
from optinc_pdk.extract.box_pairs import touching_pairs
from optinc_pdk.extract.cell_placements import CellPlacements, transformation
from optinc_pdk.extract.device_recognition import DevicePlacement, match_devices
from optinc_pdk.extract.golden_devices import GoldenVariant
from optinc_pdk.extract.mask_layout import MaskLayout
from optinc_pdk.extract.phase_shifters import ExtractedHeater
from optinc_pdk.extract.polygons import Contours, EdgeIndex, box_array, contours, pack_points, region_polygons


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
    """Extract the devices and guides of a cell by itself; None if the extraction reports any fault.

    ``heaters`` are the guide under each heater in the cell and the end edges (2, 2, 2) of this guide. Coordinates are
    in nm from the cell's origin.
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
    """Return whether other silicon, in a block's coordinates, touches it at its openings only, or not at all."""
    if not (silicon & block.keepout).is_empty():
        return False
    shared = block.edges & silicon.edges()
    edges = ((edge.p1, edge.p2) for edge in shared.each())
    return all(undirected(np.array([(p.x, p.y), (q.x, q.y)])) in block.openings for p, q in edges)


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

    @cached_property
    def boxes(self) -> Ints:
        """(n, 4) bounding box of the silicon of each placement, in nm."""
        return np.asarray(box_array(block.silicon.bbox() for block in self.blocks)[self.block] + np.tile(self.shift, 2))

    def placements(self) -> list[DevicePlacement]:
        """Return the devices of all placed blocks except phase shifters, at their positions in the layout."""
        return [
            replace(p, shift=p.shift + kdb.Vector(x, y), core=tuple(polygon.moved(x, y) for polygon in p.core))
            for number, (x, y) in zip(self.block.tolist(), self.shift.tolist(), strict=True)
            for p in self.blocks[number].placements
        ]

    def overlap_surroundings(self, placements: Sequence[DevicePlacement], space_nm: int) -> bool:
        """Return whether silicon of a placed block is closer than ``space_nm`` to one of the devices outside blocks."""
        others = box_array(placement.box.enlarged(space_nm) for placement in placements)
        return any(
            self._overlaps(place, surroundings(placements[other].variant, space_nm).moved(placements[other].shift))
            for place, other in touching_pairs(self.boxes, others).tolist()
        )

    def _overlaps(self, place: int, around: kdb.Region) -> bool:
        x, y = self.shift[place].tolist()
        return not (self.blocks[int(self.block[place])].silicon & around.moved(-x, -y)).is_empty()

    def edges_near(self, boxes: Ints) -> list[Ints]:
        """Return the edges (n, 2, 2) in nm of the placed blocks that touch any of some boxes (m, 4)."""
        near = np.unique(touching_pairs(self.boxes, boxes)[:, 0])
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


def find_blocks(
    mask: MaskLayout,
    heaters: Sequence[ExtractedHeater],
    variants: Sequence[GoldenVariant],
    rule: StripRule,
    marks: Sequence[kdb.Polygon] = (),
) -> tuple[PlacedBlocks, list[int], kdb.Region]:
    """Find the blocks of a layout; cells that touch one of ``marks``, of couplers of any gap and length, are no blocks.

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
