"""A small layout that is clean only if the whole one is, for checks between shapes that lie near each other.

Guides join cells into one polygon as large as the chip, which takes away what KLayout's hierarchical checks live
on. A fault, however, lies within one cell or box, or where two of them come near each other. So it shows in each
of them alone, or around such meetings, of which a mesh, its wires and its fans have few that differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import klayout.db as kdb
import numpy as np
from numpy.typing import NDArray

from optinc_pdk.extract.contours import Ints
from optinc_pdk.extract.nearby import touching, within
from optinc_pdk.extract.places import turn
from optinc_pdk.signoff.gds import Design
from optinc_pdk.signoff.items import OUTWARDS, Items, edges_of, items, kinds, shapes_of
from optinc_pdk.signoff.nets import STRIP

# So many meetings are told apart together, that memory stays small.
AT_ONCE = 200_000
# What a row of a window's contents is about.
WINDOW, SHAPES, BODIES = 0, 1, 2


@dataclass(frozen=True)
class Reach:
    """How far checks look, in database units.

    Attributes:
        apart: Shapes this far apart make no fault together.
        alone: For layers in which shapes that are less far apart make none either, how far that is.
        near: That and a margin.
        body: Half the width above which silicon is a body.
        exempt: What is this near to a body may be exempt.
    """

    apart: int
    alone: Mapping[str, int]
    near: int
    body: int
    exempt: int


@dataclass(frozen=True)
class Condensed:
    """What is left to check of a design.

    Attributes:
        design: The layout to check.
        windows: (n, 4) boxes in it in which faults count; beyond, shapes are cut off.
        places: For each window, (k, 4) all that it stands for in the whole design.
        rest: What is at its own place, as are its faults.
        source: The whole design.
        layers: What the checks look at.
        around: What is this near to a place, in database units, may bear on its faults.
    """

    design: Design
    windows: Ints
    places: Sequence[Ints]
    rest: kdb.Region
    source: Design
    layers: tuple[str, ...]
    around: int

    def suspects(self, faults: kdb.Region) -> kdb.Region:
        """Where the whole design may have a fault, as boxes, when the condensed one has some."""
        found = kdb.Region([kdb.Polygon(box.bbox()) for box in _meeting(faults, self.rest).each()])
        boxes = edges_of([fault.bbox() for fault in faults.each()])
        for number in np.unique(touching(boxes, self.windows, self.around)[:, 1]).tolist():
            found += kdb.Region([kdb.Polygon(kdb.Box(*place)) for place in self.places[number].tolist()])
        return found.merged()

    def near(self, suspects: kdb.Region) -> Design:
        """The design around some places, of whole cells and shapes, so that no edge is cut there."""
        layout = kdb.Layout()
        layout.dbu = self.source.layout.dbu
        top = layout.create_cell(self.source.top.name)
        area = suspects.extents(self.around).merged()
        boxes = [box.bbox() for box in area.each()]
        copies: dict[int, int] = {}
        places = self.source.places(self.layers)
        if places is None:
            raise ValueError(f"the cells of {self.source.top.name} are turned by no multiple of 90°")
        for number in sorted({number for box in boxes for number in places.near(box)}):
            cell, code, x, y = places.cells[number].tolist()
            if cell not in copies:
                copy = layout.create_cell("CELL")
                copy.copy_tree(self.source.layout.cell(cell))
                copies[cell] = copy.cell_index()
            top.insert(kdb.CellInstArray(copies[cell], turn(code, x, y)))
        for index, loose in places.loose.items():
            shapes = loose.dup()
            shapes.merged_semantics = False
            top.shapes(layout.layer(self.source.layout.get_info(index))).insert(_meeting(shapes, area))
        return Design(layout, top, self.source.layers, self.source.threads)


def condense(design: Design, layers: Sequence[str], guide: str, reach: Reach) -> Condensed | None:
    """Keep one of each cell and box, and one of each place where two of them come near each other.

    A check that measures between edges, or that exempts what is near a body of silicon, finds a fault within the
    windows of the result if it finds one in the design. The reverse does not hold: a cell alone may lack what mends
    it. So a clean result proves a clean design, and faults prove nothing.

    Args:
        design: Layout.
        layers: What the checks look at.
        guide: The layer with the bodies; there are none if it is not among the layers.
        reach: How far they look.

    Returns:
        The condensed design, or None where no cell is placed twice.
    """
    parts = items(design, layers)
    if parts is None:
        return None
    draft = _Draft(design, parts, tuple(layers), design.index(guide), reach)
    draft.draw_items()
    draft.draw_meetings()
    rest = draft.draw_rest()
    around = 2 * (reach.near + reach.exempt)
    condensed = Design(draft.layout, draft.top, design.layers, design.threads)
    return Condensed(condensed, edges_of(draft.windows), draft.places, rest, design, tuple(layers), around)


def _meeting(shapes: kdb.Region, others: kdb.Region) -> kdb.Region:
    """Shapes that share at least a point with others; to KLayout, slivers within a box may be nothing, edges not."""
    return shapes.interacting(others) + shapes.interacting(others.edges())


class _Draft:
    """The layout as it grows: pieces that would be far apart stand one below the other, below the original's place."""

    def __init__(self, design: Design, parts: Items, layers: tuple[str, ...], guide: int, reach: Reach) -> None:
        self.source, self.items, self.guide, self.reach = design, parts, guide, reach
        self.indexes = [design.index(name) for name in layers]
        self.layout = kdb.Layout()
        self.layout.dbu = design.layout.dbu
        self.top = self.layout.create_cell(design.top.name)
        self.windows: list[kdb.Box] = []
        self.places: list[Ints] = []
        # of about this size are the boxes in which things come near each other
        self.strip = max(STRIP, 4 * reach.near)
        box = design.top.bbox()
        self.corner = box.p1 - kdb.Vector(0, 2 * (reach.exempt + reach.near))

    @cached_property
    def cells(self) -> dict[int, dict[int, kdb.Region]]:
        """What each cell shows, in each orientation that it has, by its kind and by layer."""
        found = np.unique(kinds(self.items.what[~self.items.is_box])).tolist()
        return {kind: shapes_of(self.source, kind // 8, kind % 8, self.indexes) for kind in found}

    @cached_property
    def bodies(self) -> dict[int, kdb.Region]:
        """Bodies within the cells that have some, by kind."""
        found = {}
        for kind, shapes in self.cells.items():
            if self.guide in shapes:
                silicon = shapes[self.guide]
                # growing may round outwards
                body = silicon.sized(-self.reach.body).sized(self.reach.body) & silicon
                if not body.is_empty():
                    found[kind] = body
        return found

    @cached_property
    def with_bodies(self) -> tuple[Ints, Ints]:
        """Numbers of the items with bodies, and (n, 4) the boxes of all their bodies."""
        found, kind = np.unique(kinds(self.items.what), return_inverse=True)
        boxes = [self.bodies[key].bbox() if key in self.bodies else kdb.Box() for key in found.tolist()]
        numbers = np.flatnonzero(np.array([not box.empty() for box in boxes], dtype=np.bool_)[kind])
        return numbers, edges_of(boxes)[kind[numbers]] + np.tile(self.items.what[numbers, 2:], 2)

    def put(self, shapes: dict[int, kdb.Region], window: kdb.Box, places: Ints) -> None:
        """Put a piece below the others, with its window and the places that it stands for."""
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
        """Every cell alone, in each orientation that it has, and every box."""
        what, boxes = self.items.what, self.items.boxes
        kind = kinds(what)
        for number, shapes in self.cells.items():
            box = kdb.Box()
            for region in shapes.values():
                box += region.bbox()
            # a cell of nothing but texts has no shapes
            if not box.empty():
                self.put(shapes, box, boxes[kind == number])
        # a longer box has no fault that a shorter one has not
        size = np.minimum(boxes[:, 2:] - boxes[:, :2], 2 * self.reach.near)
        alone = np.flatnonzero(self.items.is_box)
        key = np.concatenate([what[alone, :1], size[alone]], axis=1)
        alike, which = np.unique(key, axis=0, return_inverse=True)
        for one, (layer, width, height) in enumerate(alike.tolist()):
            box = kdb.Box(0, 0, width, height)
            self.put({-1 - layer: kdb.Region(box)}, box, boxes[alone[which == one]])

    def draw_meetings(self) -> None:
        """Where two items come near each other, once each."""
        boxes = self.items.boxes
        pairs = within(boxes, self.reach.apart, self.strip)
        pairs = pairs[~self._too_far(pairs)]
        one, two = boxes[pairs[:, 0]], boxes[pairs[:, 1]]
        # whatever is too near to the other item is in there
        windows = np.concatenate([np.maximum(one, two)[:, :2], np.minimum(one, two)[:, 2:]], axis=1)
        windows += self.reach.apart * OUTWARDS
        groups: dict[bytes, tuple[Ints, list[int]]] = {}
        for start in range(0, len(windows), AT_ONCE):
            for number, content in enumerate(self._contents(windows[start : start + AT_ONCE]), start):
                groups.setdefault(content.tobytes(), (content, []))[1].append(number)
        for content, members in groups.values():
            self._draw(content, windows[members])

    def _too_far(self, pairs: Ints) -> NDArray[np.bool_]:
        """(k,) pairs of boxes of one layer that no rule of that layer compares; wires lie densely beside each other."""
        layer = self.items.what[pairs, 0]
        one, two = self.items.boxes[pairs[:, 0]], self.items.boxes[pairs[:, 1]]
        gap = np.max(np.maximum(one, two)[:, :2] - np.minimum(one, two)[:, 2:], axis=1)
        found = np.zeros(len(pairs), dtype=np.bool_)
        for name, alone in self.reach.alone.items():
            found |= np.all(layer == -1 - self.source.index(name), axis=1) & (gap >= alone)
        return found

    def _contents(self, windows: Ints) -> list[Ints]:
        """For each window, (k, 6) its size and all in and around it as seen from it: equal where these are."""
        window, rows = self.items.seen(windows, self.reach.near)
        numbers, bodies = self.with_bodies
        window_too, body = touching(windows + self.reach.exempt * OUTWARDS, bodies, self.strip).T
        what = self.items.what[numbers[body]]
        at = np.tile(what[:, 2:], 2) - np.tile(windows[window_too, :2], 2)
        which = np.concatenate([np.arange(len(windows)), window, window_too])
        role = np.repeat([WINDOW, SHAPES, BODIES], [len(windows), len(window), len(window_too)])
        size = np.concatenate(
            [np.zeros((len(windows), 1), dtype=np.int64), windows - np.tile(windows[:, :2], 2)], axis=1
        )
        around = np.concatenate([size, rows, np.concatenate([kinds(what)[:, None], at], axis=1)])
        rows = np.concatenate([role[:, None], around], axis=1)
        order = np.argsort(which, kind="stable")
        return np.split(rows[order], np.cumsum(np.bincount(which))[:-1])

    def _draw(self, rows: Ints, places: Ints) -> None:
        """One window, with all that is around it; the cut's edges are too far from it to make faults there."""
        window = kdb.Box(*rows[0, 2:].tolist())
        around = window.enlarged(self.reach.near)
        shapes = {index: kdb.Region() for index in self.indexes}
        for role, kind, *at in rows[1:].tolist():
            if role == BODIES:
                shapes[self.guide] += self.bodies[kind].moved(*at[:2])
            elif kind < 0:
                shapes[-1 - kind // 8].insert(kdb.Box(*at))
            else:
                trans = turn(kind % 8, *at[:2])
                area = kdb.Region(around.transformed(trans.inverted()))
                for index in self.cells[kind]:
                    cell = self.source.layout.cell(kind // 8)
                    there = kdb.RecursiveShapeIterator(self.source.layout, cell, index, area.bbox(), True)
                    shapes[index] += (kdb.Region(there) & area).transformed(trans)
        self.put({index: region for index, region in shapes.items() if not region.is_empty()}, window, places)

    def draw_rest(self) -> kdb.Region:
        """Slanted shapes in no cell, and where they come near other things: all in its place."""
        loose = kdb.Region()
        for index, region in self.items.loose.items():
            loose += region
            self.top.shapes(self._layer(index)).insert(region)
        if loose.is_empty():
            return loose
        near = self.reach.near
        boxes = [box.bbox() for box in loose.extents(2 * near).merged().each()]
        close = np.unique(touching(edges_of(boxes), self.items.boxes, self.strip)[:, 1])
        items_near = kdb.Region([kdb.Polygon(kdb.Box(*box)) for box in self.items.boxes[close].tolist()])
        zones = ((loose & items_near.sized(2 * near)).sized(near) & items_near.sized(near)).merged()
        area = zones.extents(2 * near).merged()
        for index in self.indexes:
            there = kdb.RecursiveShapeIterator(self.source.layout, self.source.top, index, area, True)
            self.top.shapes(self._layer(index)).insert(kdb.Region(there) & area)
        rest = (loose + zones).merged()
        around = [box.bbox() for box in rest.extents(self.reach.exempt + near).merged().each()]
        numbers, bodies = self.with_bodies
        for number in numbers[np.unique(touching(edges_of(around), bodies, self.strip)[:, 1])]:
            kind, (x, y) = int(kinds(self.items.what[number])), self.items.what[number, 2:].tolist()
            self.top.shapes(self._layer(self.guide)).insert(self.bodies[kind].moved(x, y))
        return rest

    def _layer(self, index: int) -> int:
        """The draft's layer for one of the design."""
        return self.layout.layer(self.source.layout.get_info(index))
