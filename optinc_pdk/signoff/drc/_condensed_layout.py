"""Condensed layouts: a small layout that is clean only if the whole layout is, for checks of shapes near each other.

Guides join cells into one polygon as large as the chip, so KLayout's hierarchical checks lose their advantage.
A violation, however, lies within one item (a placed cell or a box), or where two items come near each other, which is
called a meeting here. A mesh, its wires and its fan-outs have few different items and meetings, and the condensed
layout contains each of them once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Bools, Ints
from optinc_pdk.extract.box_pairs import OUTWARDS, close_pairs, touching_pairs
from optinc_pdk.extract.cell_placements import transformation
from optinc_pdk.extract.polygons import box_array
from optinc_pdk.signoff.drc._placed_shapes import STRIP, PlacedShapes, kinds, placed_shapes, shapes_of, without_crowds
from optinc_pdk.signoff.drc.design import Design

# Number of meetings that are compared at a time; it limits the memory.
AT_ONCE = 200_000
# The boxes of more shapes than this are widened to a grid before they are merged.
MANY = 10_000
# A condensed layout in which the items of the layout are drawn more often than this on average is of no use.
CROWDED = 4
# What a row of a window's contents describes: the window's size, an item in it, or a body near it.
WINDOW, SHAPES, BODIES = 0, 1, 2


@dataclass(frozen=True)
class CheckDistances:
    """Distances within which checks compare shapes, in database units.

    Attributes:
        apart: Two shapes at this distance or farther apart cause no violation.
        alone: By layer name, a smaller such distance for two shapes that are both on this layer.
        near: The distance `apart` plus a margin for rounding.
        body: Half of the width above which silicon is a body.
        exempt: Shapes within this distance of a body may be exempt from rules.
    """

    apart: int
    alone: Mapping[str, int]
    near: int
    body: int
    exempt: int


@dataclass(frozen=True)
class CondensedLayout:
    """A condensed layout, and the places of the whole layout that its windows represent.

    Attributes:
        design: The condensed layout.
        windows: (n, 4) boxes of the condensed layout in which violations count, in database units; shapes are cut off
            around them.
        places: For each window, (k, 4) boxes of the whole layout that it represents.
        rest: Shapes that have the same position in both layouts; their violations have the same position too.
        source: The whole layout.
        layers: Names of the layers that the checks use.
        around: Shapes within this distance of a place, in database units, may affect its violations.
    """

    design: Design
    windows: Ints
    places: Sequence[Ints]
    rest: kdb.Region
    source: Design
    layers: tuple[str, ...]
    around: int

    def counting(self, violations: kdb.Region) -> kdb.Region:
        """Leave out violations outside the windows and away from the rest: shapes are cut off there."""
        polygons = list(violations.each())
        boxes = box_array([polygon.bbox() for polygon in polygons])
        counted = np.zeros(len(boxes), dtype=np.bool_)
        counted[touching_pairs(boxes, self.windows, self.around)[:, 0]] = True
        if not self.rest.is_empty():
            counted[touching_pairs(boxes, box_array([shape.bbox() for shape in self.rest.each()]))[:, 0]] = True
        return kdb.Region([polygons[number] for number in np.flatnonzero(counted).tolist()])

    def suspects(self, violations: kdb.Region) -> kdb.Region:
        """Find the boxes of the whole layout that may have violations.

        Returns:
            Merged boxes in coordinates of the whole layout.
        """
        boxes = box_array([violation.bbox() for violation in violations.each()])
        boxes_found = kdb.Region([kdb.Polygon(box.bbox()) for box in _meeting(violations, self.rest).each()])
        for number in np.unique(touching_pairs(boxes, self.windows, self.around)[:, 1]).tolist():
            boxes_found += kdb.Region([kdb.Polygon(kdb.Box(*place)) for place in self.places[number].tolist()])
        return boxes_found.merged()

    def pieces(self, violations: kdb.Region) -> tuple[Design, kdb.Region]:
        """Copy the part of the condensed layout around some violations, without the rest.

        Returns:
            The part, flat and with whole shapes; and those of the violations that are not in the rest.
        """
        inside = violations.not_interacting(self.rest)
        area = _boxes(inside, self.around)
        layout = kdb.Layout()
        layout.dbu = self.design.layout.dbu
        top = layout.create_cell(self.design.top.name)
        for name in self.layers:
            index = self.design.index(name)
            shapes = kdb.RecursiveShapeIterator(self.design.layout, self.design.top, index, area, True)
            found = kdb.Region(shapes)
            found.merged_semantics = False
            top.shapes(layout.layer(self.design.layout.get_info(index))).insert(found)
        return Design(layout, top, self.design.layers, self.design.threads), inside

    def near(self, suspects: kdb.Region) -> Design:
        """Copy the part of the whole layout around some places, with whole cells and shapes.

        No edge of the copy results from a cut, so checks give the same violations there as in the whole layout.

        Args:
            suspects: Places in the whole layout.

        Raises:
            ValueError: A cell of the layout is magnified or rotated by another angle than a multiple of 90°.
        """
        layout = kdb.Layout()
        layout.dbu = self.source.layout.dbu
        top = layout.create_cell(self.source.top.name)
        area = _boxes(suspects, self.around)
        boxes = [box.bbox() for box in area.each()]
        copies: dict[int, int] = {}
        places = self.source.places(self.layers)
        if places is None:
            raise ValueError(f"{self.source.top.name} has a cell rotated by another angle than a multiple of 90°")
        for number in sorted({number for box in boxes for number in places.near(box)}):
            cell, code, x, y = places.cells[number].tolist()
            if cell not in copies:
                copy = layout.create_cell("CELL")
                copy.copy_tree(self.source.layout.cell(cell))
                copies[cell] = copy.cell_index()
            top.insert(kdb.CellInstArray(copies[cell], transformation(code, x, y)))
        for index, loose in places.loose.items():
            shapes = loose.dup()
            shapes.merged_semantics = False
            top.shapes(layout.layer(self.source.layout.get_info(index))).insert(_meeting(shapes, area))
        return Design(layout, top, self.source.layers, self.source.threads)


def condense(design: Design, layers: Sequence[str], guide: str, reach: CheckDistances) -> CondensedLayout | None:
    """Build a layout with one copy of each different item and of each different meeting of two items.

    An item is a placed cell or a box; in a meeting, two items are near each other. If a check that measures between
    edges, or that exempts shapes near a body of silicon, reports a violation in the layout, it reports one within the
    windows of the result. The reverse does not hold: a cell alone may lack a shape that its neighbour adds. So a clean
    result proves a clean layout, and violations prove nothing.

    Args:
        layers: Names of the layers that the checks use.
        guide: Layer with the bodies; there are no bodies if it is not among the layers.
        reach: Distances within which the checks compare shapes.

    Returns:
        The condensed layout; None if no cell is placed twice, a cell is magnified or rotated by another angle than a
        multiple of 90°, or items lie on top of each other so that their meetings have more shapes than the layout.
    """
    parts = placed_shapes(design, layers)
    if parts is None:
        return None
    parts = without_crowds(design, layers, parts, reach.apart)
    draft = _Draft(design, parts, tuple(layers), design.index(guide), reach)
    draft.draw_items()
    if not draft.draw_meetings():
        return None
    rest = draft.draw_rest()
    around = 2 * (reach.near + reach.exempt)
    condensed = Design(draft.layout, draft.top, design.layers, design.threads)
    return CondensedLayout(condensed, box_array(draft.windows), draft.places, rest, design, tuple(layers), around)


def _meeting(shapes: kdb.Region, others: kdb.Region) -> kdb.Region:
    """Shapes that share at least a point with others; edges count separately, as KLayout may drop slivers in a box."""
    return shapes.interacting(others) + shapes.interacting(others.edges())


def _boxes(shapes: kdb.Region, margin: int) -> kdb.Region:
    """Merged bounding boxes of shapes, grown by a margin; those of more than `MANY` shapes may be larger."""
    if shapes.count() <= MANY:
        return shapes.extents(margin).merged()
    # widened to a grid, most boxes of a crowd are equal
    boxes = box_array([shape.bbox() for shape in shapes.each()]) + margin * OUTWARDS
    boxes = np.unique(boxes // margin + np.array([0, 0, 1, 1]), axis=0) * margin
    return kdb.Region([kdb.Polygon(kdb.Box(*box)) for box in boxes.tolist()]).merged()


class _Draft:
    """The condensed layout under construction; its pieces stand below each other and below the original layout."""

    def __init__(
        self, design: Design, parts: PlacedShapes, layers: tuple[str, ...], guide: int, reach: CheckDistances
    ) -> None:
        self.source, self.items, self.guide, self.reach = design, parts, guide, reach
        self.indexes = [design.index(name) for name in layers]
        self.layout = kdb.Layout()
        self.layout.dbu = design.layout.dbu
        self.top = self.layout.create_cell(design.top.name)
        self.windows: list[kdb.Box] = []
        self.places: list[Ints] = []
        # items around a window are cut off here; the edges add violations only to shapes narrower than this
        self.cut = reach.near // 2
        # width of the strips of the spatial search, about the size of a meeting
        self.strip = max(STRIP, 4 * reach.near)
        box = design.top.bbox()
        self.corner = box.p1 - kdb.Vector(0, 2 * (reach.exempt + reach.near))

    @cached_property
    def cells(self) -> dict[int, dict[int, kdb.Region]]:
        """Shapes of each cell in each of its orientations, by kind and layer index."""
        present = np.unique(kinds(self.items.what[~self.items.is_box])).tolist()
        return {kind: shapes_of(self.source, kind // 8, kind % 8, self.indexes) for kind in present}

    @cached_property
    def bodies(self) -> dict[int, kdb.Region]:
        """Bodies of silicon of the cells that have some, by kind."""
        bodies = {}
        for kind, shapes in self.cells.items():
            if self.guide in shapes:
                silicon = shapes[self.guide]
                # growing may round corners outwards
                body = silicon.sized(-self.reach.body).sized(self.reach.body) & silicon
                if not body.is_empty():
                    bodies[kind] = body
        return bodies

    @cached_property
    def with_bodies(self) -> tuple[Ints, Ints]:
        """(n,) numbers of the items with bodies, and (n, 4) bounding boxes of their bodies."""
        present, kind = np.unique(kinds(self.items.what), return_inverse=True)
        boxes = [self.bodies[key].bbox() if key in self.bodies else kdb.Box() for key in present.tolist()]
        numbers = np.flatnonzero(np.array([not box.empty() for box in boxes], dtype=np.bool_)[kind])
        return numbers, box_array(boxes)[kind[numbers]] + np.tile(self.items.what[numbers, 2:], 2)

    def put(self, shapes: dict[int, kdb.Region], window: kdb.Box, places: Ints) -> None:
        """Add a piece below the others, with its window and the places that it stands for."""
        cell = self.layout.create_cell("PIECE")
        box = window
        for index, region in shapes.items():
            cell.shapes(self._layer(index)).insert(region)
            box += region.bbox()
        move = kdb.Trans(self.corner - box.p1 - kdb.Vector(0, box.height()))
        self.top.insert(kdb.CellInstArray(cell.cell_index(), move))
        self.windows.append(window.transformed(move))
        self.places.append(places)
        self.corner -= kdb.Vector(0, box.height() + 2 * (self.reach.exempt + self.reach.near))

    def draw_items(self) -> None:
        """Add every cell alone, in each of its orientations, and every box."""
        what, boxes = self.items.what, self.items.boxes
        kind = kinds(what)
        for number, shapes in self.cells.items():
            box = kdb.Box()
            for region in shapes.values():
                box += region.bbox()
            # a cell that contains texts only has no shapes
            if not box.empty():
                self.put(shapes, box, boxes[kind == number])
        # a box longer than this has no violation that a shorter one does not have
        size = np.minimum(boxes[:, 2:] - boxes[:, :2], 2 * self.reach.near)
        alone = np.flatnonzero(self.items.is_box)
        key = np.concatenate([what[alone, :1], size[alone]], axis=1)
        distinct, which = np.unique(key, axis=0, return_inverse=True)
        for one, (layer, width, height) in enumerate(distinct.tolist()):
            box = kdb.Box(0, 0, width, height)
            self.put({-1 - layer: kdb.Region(box)}, box, boxes[alone[which == one]])

    def draw_meetings(self) -> bool:
        """Add each different meeting of two items once; returns whether they are few enough, and adds none if not."""
        boxes = self.items.boxes
        pairs = close_pairs(boxes, self.reach.apart, self.strip)
        pairs = pairs[~self._too_far(pairs)]
        one, two = boxes[pairs[:, 0]], boxes[pairs[:, 1]]
        # the window contains every part of one item that is too close to the other
        windows = np.concatenate([np.maximum(one, two)[:, :2], np.minimum(one, two)[:, 2:]], axis=1)
        windows += self.reach.apart * OUTWARDS
        groups: dict[bytes, tuple[Ints, list[Ints]]] = {}
        for start in range(0, len(windows), AT_ONCE):
            for content, members in self._contents(windows[start : start + AT_ONCE]):
                groups.setdefault(content.tobytes(), (content, []))[1].append(members + start)
        drawn = sum(np.count_nonzero(content[:, 0] == SHAPES) for content, _ in groups.values())
        if drawn > CROWDED * len(boxes):
            return False
        for content, parts in groups.values():
            self._draw(content, windows[np.concatenate(parts)])
        return True

    def _too_far(self, pairs: Ints) -> Bools:
        """(k,) whether a pair is two boxes of one layer too far apart for its rules, as many pairs of wires are."""
        layer = self.items.what[pairs, 0]
        one, two = self.items.boxes[pairs[:, 0]], self.items.boxes[pairs[:, 1]]
        gap = np.max(np.maximum(one, two)[:, :2] - np.minimum(one, two)[:, 2:], axis=1)
        far = np.zeros(len(pairs), dtype=np.bool_)
        for name, alone in self.reach.alone.items():
            far |= np.all(layer == -1 - self.source.index(name), axis=1) & (gap >= alone)
        return far

    def _contents(self, windows: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Yield each different content of windows, (k, 6), and the numbers of the windows that have it.

        A content is the window's size, and the items and the bodies in and around it, relative to its lower left
        corner. Windows with equal contents have equal shapes. Items outside the window are left out, except for
        bodies of silicon near it, which exempt shapes from rules. A violation needs the two items that meet, and both
        are inside. Without their neighbours, a check may report more than the layout has, but never less.
        """
        window, rows = self.items.in_windows(windows, 1, self.cut)
        numbers, bodies = self.with_bodies
        window_too, body = touching_pairs(windows + self.reach.exempt * OUTWARDS, bodies, self.strip).T
        what = self.items.what[numbers[body]]
        at = np.tile(what[:, 2:], 2) - np.tile(windows[window_too, :2], 2)
        which = np.concatenate([np.arange(len(windows)), window, window_too])
        role = np.repeat([WINDOW, SHAPES, BODIES], [len(windows), len(window), len(window_too)])
        size = np.concatenate(
            [np.zeros((len(windows), 1), dtype=np.int64), windows - np.tile(windows[:, :2], 2)], axis=1
        )
        around = np.concatenate([size, rows, np.concatenate([kinds(what)[:, None], at], axis=1)])
        rows = np.concatenate([role[:, None], around], axis=1)[np.argsort(which, kind="stable")]
        counts = np.bincount(which, minlength=len(windows))
        first = np.cumsum(counts) - counts
        for count in np.unique(counts).tolist():
            windows_of_count = np.flatnonzero(counts == count)
            contents = np.ascontiguousarray(rows[first[windows_of_count, None] + np.arange(count)])
            # as bytes, rows are compared at once
            keys = contents.reshape(len(contents), -1).view(np.dtype((np.void, contents[0].nbytes)))[:, 0]
            _, one, inverse = np.unique(keys, return_index=True, return_inverse=True)
            order = np.argsort(inverse, kind="stable")
            members = np.split(windows_of_count[order], np.cumsum(np.bincount(inverse))[:-1])
            yield from zip(contents[one], members, strict=True)

    def _draw(self, rows: Ints, places: Ints) -> None:
        """Add one window with the shapes around it."""
        window = kdb.Box(*rows[0, 2:].tolist())
        around = window.enlarged(self.cut)
        shapes = {index: kdb.Region() for index in self.indexes}
        for role, kind, *at in rows[1:].tolist():
            if role == BODIES:
                shapes[self.guide] += self.bodies[kind].moved(*at[:2])
            elif kind < 0:
                shapes[-1 - kind // 8].insert(kdb.Box(*at))
            else:
                trans = transformation(kind % 8, *at[:2])
                area = kdb.Region(around.transformed(trans.inverted()))
                for index in self.cells[kind]:
                    cell = self.source.layout.cell(kind // 8)
                    there = kdb.RecursiveShapeIterator(self.source.layout, cell, index, area.bbox(), True)
                    shapes[index] += (kdb.Region(there) & area).transformed(trans)
        self.put({index: region for index, region in shapes.items() if not region.is_empty()}, window, places)

    def draw_rest(self) -> kdb.Region:
        """Add slanted shapes that are in no cell, and shapes near them, at their positions; returns their region."""
        loose = kdb.Region()
        for index, region in self.items.loose.items():
            loose += region
            self.top.shapes(self._layer(index)).insert(region)
        if loose.is_empty():
            return loose
        near = self.reach.near
        boxes = [box.bbox() for box in _boxes(loose, 2 * near).each()]
        close = np.unique(touching_pairs(box_array(boxes), self.items.boxes, self.strip)[:, 1])
        items_near = kdb.Region([kdb.Polygon(kdb.Box(*box)) for box in self.items.boxes[close].tolist()])
        zones = ((loose & items_near.sized(2 * near)).sized(near) & items_near.sized(near)).merged()
        area = _boxes(zones, 2 * near)
        for index in self.indexes:
            there = kdb.RecursiveShapeIterator(self.source.layout, self.source.top, index, area, True)
            self.top.shapes(self._layer(index)).insert(kdb.Region(there) & area)
        rest = (loose + zones).merged()
        around = [box.bbox() for box in _boxes(rest, self.reach.exempt + near).each()]
        numbers, bodies = self.with_bodies
        for number in numbers[np.unique(touching_pairs(box_array(around), bodies, self.strip)[:, 1])]:
            kind, (x, y) = int(kinds(self.items.what[number])), self.items.what[number, 2:].tolist()
            self.top.shapes(self._layer(self.guide)).insert(self.bodies[kind].moved(x, y))
        return rest

    def _layer(self, index: int) -> int:
        """Layer index in the condensed layout of a layer of the whole one."""
        return self.layout.layer(self.source.layout.get_info(index))
