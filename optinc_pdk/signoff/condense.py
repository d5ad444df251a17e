"""A small layout that is clean only if the whole one is, for checks between shapes that lie near each other.

Guides join cells into one polygon as large as the chip, which takes away what KLayout's hierarchical checks live
on. A fault, however, lies between shapes of one cell, or where two cells come near each other. So it shows in each
cell alone, or around such places, of which a mesh has few that differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import klayout.db as kdb
import numpy as np

from optinc_pdk.extract.places import Places, turn
from optinc_pdk.signoff.gds import Design


@dataclass(frozen=True)
class Reach:
    """How far checks look, in database units.

    Attributes:
        near: Shapes farther apart than this make no fault together.
        body: Half the width above which silicon is a body.
        exempt: What is this near to a body may be exempt.
    """

    near: int
    body: int
    exempt: int


@dataclass(frozen=True)
class Piece:
    """A part of a condensed layout.

    Attributes:
        window: Where a fault of it counts; beyond, shapes are cut off.
        moves: From there to every place that it stands for.
    """

    window: kdb.Region
    moves: Sequence[kdb.Vector]


@dataclass(frozen=True)
class Condensed:
    """What is left to check of a design.

    Attributes:
        design: The layout to check.
        pieces: Its parts.
        source: The whole design.
        places: Its cells and loose shapes.
        around: What is this near to a place, in database units, may bear on its faults.
    """

    design: Design
    pieces: Sequence[Piece]
    source: Design
    places: Places
    around: int

    def suspects(self, faults: kdb.Region) -> kdb.Region:
        """Where the whole design may have a fault, as boxes, when the condensed one has some."""
        found = kdb.Region()
        for piece in self.pieces:
            box = faults.interacting(piece.window).bbox()
            if not box.empty():
                found += kdb.Region([kdb.Polygon(box.moved(move)) for move in piece.moves])
        return found.merged()

    def near(self, suspects: kdb.Region) -> Design:
        """The design around some places, of whole cells and shapes, so that no edge is cut there."""
        layout = kdb.Layout()
        layout.dbu = self.source.layout.dbu
        top = layout.create_cell(self.source.top.name)
        boxes = [box.bbox() for box in suspects.sized(self.around).merged().each()]
        copies: dict[int, int] = {}
        for number in sorted({number for box in boxes for number in self.places.near(box)}):
            cell, code, x, y = self.places.cells[number].tolist()
            if cell not in copies:
                copy = layout.create_cell("CELL")
                copy.copy_tree(self.source.layout.cell(cell))
                copies[cell] = copy.cell_index()
            top.insert(kdb.CellInstArray(copies[cell], turn(code, x, y)))
        area = kdb.Region([kdb.Polygon(box) for box in boxes])
        for index, loose in self.places.loose.items():
            shapes = loose.dup()
            shapes.merged_semantics = False
            top.shapes(layout.layer(self.source.layout.get_info(index))).insert(shapes.interacting(area))
        return Design(layout, top, self.source.layers, self.source.threads)


def condense(design: Design, layers: Sequence[str], guide: str, reach: Reach) -> Condensed | None:
    """Keep one of each cell and one of each place where cells come near each other.

    A check that measures between edges, or that exempts what is near a body of silicon, finds a fault within the
    windows of the result if it finds one in the design. The reverse does not hold: a cell alone may lack what mends
    it. So a clean result proves a clean design, and faults prove nothing.

    Args:
        design: Layout.
        layers: What the checks look at.
        guide: The layer with the bodies.
        reach: How far they look.

    Returns:
        The condensed design, or None where no cell is placed twice.
    """
    places = design.places(tuple(layers))
    if places is None or len(np.unique(places.cells[:, :2], axis=0)) == len(places.cells):
        return None
    draft = _Draft(design, places, {design.index(name): name for name in layers}, design.index(guide), reach)
    draft.draw_cells()
    draft.draw_rest(draft.draw_meetings())
    condensed = Design(draft.layout, draft.top, design.layers, design.threads)
    return Condensed(condensed, draft.pieces, design, places, 2 * (reach.near + reach.exempt))


class _Draft:
    """The layout as it grows: pieces that would be far apart stand side by side below the original's place."""

    def __init__(self, design: Design, places: Places, index: dict[int, str], guide: int, reach: Reach) -> None:
        self.source, self.places, self.index, self.guide, self.reach = design, places, index, guide, reach
        self.layout = kdb.Layout()
        self.layout.dbu = design.layout.dbu
        self.top = self.layout.create_cell(design.top.name)
        self.pieces: list[Piece] = []
        box = design.top.bbox()
        self.corner = box.p1 - kdb.Vector(0, 2 * (reach.exempt + reach.near))

    @cached_property
    def bodies(self) -> dict[tuple[int, int], kdb.Region]:
        """Bodies within each cell, by cell and orientation."""
        found = {}
        for number, code in np.unique(self.places.cells[:, :2], axis=0).tolist():
            silicon = kdb.Region(self.source.layout.cell(number).begin_shapes_rec(self.guide)).transformed(turn(code))
            # growing may round outwards
            found[number, code] = silicon.sized(-self.reach.body).sized(self.reach.body) & silicon
        return found

    def layer(self, index: int) -> int:
        """The draft's layer for one of the design."""
        return self.layout.layer(self.source.layout.get_info(index))

    def put(self, shapes: dict[int, kdb.Region], window: kdb.Box, moves: Sequence[kdb.Vector]) -> None:
        """Put a piece below the others, with its window and the moves from there to its places."""
        cell = self.layout.create_cell("PIECE")
        box = window
        for index, region in shapes.items():
            cell.shapes(self.layer(index)).insert(region)
            box += region.bbox()
        move = kdb.Trans(self.corner - box.p1 - kdb.Vector(0, box.height()))
        self.top.insert(kdb.CellInstArray(cell.cell_index(), move))
        self.pieces.append(Piece(kdb.Region(window.transformed(move)), [to - move.disp for to in moves]))
        self.corner -= kdb.Vector(0, box.height() + 2 * (self.reach.exempt + self.reach.near))

    def draw_cells(self) -> None:
        """Every cell alone, in each orientation that it has."""
        for number, code in np.unique(self.places.cells[:, :2], axis=0).tolist():
            cell = self.source.layout.cell(number)
            shapes = {index: kdb.Region(cell.begin_shapes_rec(index)) for index in self.index}
            shapes = {index: region.transformed(turn(code)) for index, region in shapes.items()}
            box = kdb.Box()
            for region in shapes.values():
                box += region.bbox()
            here = np.flatnonzero((self.places.cells[:, :2] == [number, code]).all(axis=1))
            self.put(shapes, box, [kdb.Vector(x, y) for x, y in self.places.cells[here, 2:].tolist()])

    def draw_meetings(self) -> list[kdb.Box]:
        """Where two cells come near each other, once each; returns the places that are like no other."""
        groups: dict[tuple[bytes, kdb.Box], list[tuple[int, kdb.Box]]] = {}
        near, places = self.reach.near, self.places
        for one in range(len(places.cells)):
            box, (x, y) = places.box(one).enlarged(near), places.cells[one, 2:].tolist()
            for other in places.near(box.enlarged(near)):
                if other > one:
                    place = box & places.box(other).enlarged(near)
                    around = places.surroundings(place.enlarged(near + self.reach.exempt), x, y)
                    groups.setdefault((around, place.moved(-x, -y)), []).append((one, place))
        alone: list[kdb.Box] = []
        for members in groups.values():
            place = members[0][1]
            # loose shapes may differ from member to member
            if len(members) > 1 and not any(self._has_loose(place) for _, place in members):
                shapes = self._around(place)
                shapes[self.guide] += self._bodies_near(place)
                self.put(shapes, place, [other.p1 - place.p1 for _, other in members])
            else:
                alone += [place for _, place in members]
        return alone

    def draw_rest(self, meetings: Sequence[kdb.Box]) -> None:
        """Loose shapes, where they come near cells, and what else repeats nowhere: all in its place."""
        near = self.reach.near
        loose = kdb.Region()
        for index, region in self.places.loose.items():
            loose += region
            self.top.shapes(self.layer(index)).insert(region)
        boxes = kdb.Region([kdb.Polygon(self.places.box(number)) for number in range(len(self.places.cells))])
        close = (loose & boxes.sized(2 * near)).sized(near) & boxes.sized(near)
        zones = (kdb.Region([kdb.Polygon(place) for place in meetings]) + close).merged()
        for zone in zones.each():
            for index, region in self._around(zone.bbox()).items():
                self.top.shapes(self.layer(index)).insert(region)
        rest = (loose + zones).merged()
        around = rest.extents(self.reach.exempt + near).merged()
        for number in sorted({n for box in around.each() for n in self.places.near(box.bbox())}):
            cell, code, x, y = self.places.cells[number].tolist()
            self.top.shapes(self.layer(self.guide)).insert(self.bodies[cell, code].moved(x, y))
        self.pieces.append(Piece(rest, [kdb.Vector()]))

    def _has_loose(self, place: kdb.Box) -> bool:
        around = place.enlarged(2 * self.reach.near)
        return any(not self.places.loose_near(index, around).is_empty() for index in self.index)

    def _around(self, place: kdb.Box) -> dict[int, kdb.Region]:
        """All that is near a place; the cut's edges are too far from it to make faults there."""
        around = place.enlarged(2 * self.reach.near)
        return {index: self.source.near(name, around) for index, name in self.index.items()}

    def _bodies_near(self, place: kdb.Box) -> kdb.Region:
        found = kdb.Region()
        for number in self.places.near(place.enlarged(self.reach.near + self.reach.exempt)):
            cell, code, x, y = self.places.cells[number].tolist()
            found += self.bodies[cell, code].moved(x, y)
        return found
