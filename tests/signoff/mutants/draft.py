"""A layout to mutate: an edit of one placed shape or cell does not change other instances."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path as FilePath

import klayout.db as kdb
import numpy as np

from mutants.chips import Base

Path = tuple[tuple[int, kdb.Trans], ...]
Edit = Callable[[kdb.Region], kdb.Region]
Member = tuple[int, kdb.Trans | kdb.ICplxTrans]


@dataclass(frozen=True)
class Mutation:
    """Description and position in µm of an injected fault."""

    description: str
    place: tuple[float, float]


@dataclass(frozen=True)
class Place:
    """A placed cell: the path of cells and transformations that lead to it, and the transformation to the top cell."""

    path: Path
    trans: kdb.Trans
    cell: kdb.Cell

    @property
    def box(self) -> kdb.Box:
        """Bounding box in the top cell."""
        return self.cell.bbox().transformed(self.trans)


class Draft:
    """A copy of a chip's layout."""

    def __init__(self, base: Base) -> None:
        self.base, self.process = base, base.process
        self.layout = base.layout.dup()
        self.top = self.layout.top_cell()
        self.tops = {self.top.cell_index()}
        self.wire, self.contact = base.process.metal.layer, base.process.contact.layers[0]
        self.etch = base.process.grating.layer
        self.width = round(float(base.process.guide.width_um) * 1000)

    def index(self, layer: str) -> int:
        """A layer's index."""
        return int(self.layout.layer(*self.process.gds_layers[layer]))

    def has(self, layer: str) -> bool:
        """Whether the chip has shapes on a layer."""
        return layer in self.process.gds_layers and not self.base.region(layer).is_empty()

    def add(self, layer: str, shape: kdb.Box | kdb.Polygon | kdb.Region) -> None:
        """Draw in the top cell."""
        self.top.shapes(self.index(layer)).insert(shape)

    def cut(self, layer: str, box: kdb.Box | kdb.Region, shared: bool = False) -> None:
        """Remove shapes in a box from one instance or, with ``shared``, from every instance of the first cell there."""
        hole = kdb.Region(box) if isinstance(box, kdb.Box) else box
        self.edit(layer, hole.bbox(), lambda shapes: shapes - hole, shared)

    def edit(self, layer: str, box: kdb.Box, change: Edit, shared: bool = False) -> None:
        """Change the shapes that overlap a box, in coordinates of the top cell."""
        self._edit(self.top, self.index(layer), box, change, kdb.Trans(), shared)

    def _edit(self, cell: kdb.Cell, index: int, box: kdb.Box, change: Edit, to_top: kdb.Trans, shared: bool) -> None:
        shapes, there = cell.shapes(index), box.transformed(to_top.inverted())
        touched, kept_shapes = kdb.Region(), kdb.Shapes()
        for shape in shapes.each():
            if not shape.is_text() and shape.bbox().overlaps(there):
                touched.insert(shape.polygon.transformed(to_top))
            else:
                kept_shapes.insert(shape)
        if not touched.is_empty():
            shapes.assign(kept_shapes)
            shapes.insert(change(touched).merged().transformed(to_top.inverted()))
        kept: list[kdb.CellInstArray] = []
        for array in [instance.cell_inst.dup() for instance in cell.each_inst()]:
            child = self.layout.cell(array.cell_index)
            moves = [move for move in array.each_trans() if child.bbox(index).transformed(move).overlaps(there)]
            if shared and moves:
                self._edit(child, index, box, change, to_top * moves[0], shared)
            if shared or not moves:
                kept.append(array)
                continue
            for move in array.each_trans():
                own = child
                if move in moves:
                    own = child.dup()
                    self._edit(own, index, box, change, to_top * move, shared)
                kept.append(kdb.CellInstArray(own.cell_index(), move))
        if not shared:
            _place(cell, kept)

    def write(self, path: FilePath) -> None:
        """Write the layout without cells that are no longer placed."""
        while orphans := [cell for cell in self.layout.top_cells() if cell.cell_index() not in self.tops]:
            for cell in orphans:
                self.layout.delete_cell(cell.cell_index())
        options = kdb.SaveLayoutOptions()
        options.format = "GDS2"
        options.gds2_write_timestamps = False
        self.layout.write(str(path), options)

    def places(self, *kinds: str) -> list[Place]:
        """Placed cells of devices, identified by the prefix of their names, in a fixed order."""
        found = [place for kind in kinds for place in self._placed.get(kind, [])]
        return sorted(found, key=lambda p: (p.box.left, p.box.bottom, str(p.trans)))

    @cached_property
    def _placed(self) -> dict[str, list[Place]]:
        devices = {*self.process.devices, "mzi_unit", "mzi_dummy", "attenuator", "bend", "bump"}
        found: dict[str, list[Place]] = {}
        for place in _walk(self.top, (), kdb.Trans()):
            name = max((d for d in devices if place.cell.name.startswith(d)), key=len, default="")
            found.setdefault(name, []).append(place)
        return found

    def replace(self, place: Place, members: Sequence[Member]) -> None:
        """Replace a placed cell by others, whose transformations are those to its parent."""
        self._replace(self.top, place.path, members)

    def _replace(self, cell: kdb.Cell, path: Path, members: Sequence[Member]) -> None:
        (number, move), rest = path[0], path[1:]
        kept: list[kdb.CellInstArray] = []
        done = False
        for array in [instance.cell_inst.dup() for instance in cell.each_inst()]:
            moves = list(array.each_trans())
            if done or array.cell_index != number or move not in moves:
                kept.append(array)
                continue
            done = True
            moves.remove(move)
            kept += [kdb.CellInstArray(number, other) for other in moves]
            if rest:
                own = self.layout.cell(number).dup()
                self._replace(own, rest, members)
                kept.append(kdb.CellInstArray(own.cell_index(), move))
            else:
                kept += [kdb.CellInstArray(*member) for member in members]
        if not done:
            raise RuntimeError(f"{cell.name}: {self.layout.cell(number).name} at {move} is no longer there")
        _place(cell, kept)

    def reshape(self, place: Place, layer: str, change: Edit, shared: bool = False) -> None:
        """Change a placed cell's own shapes on a layer, in its coordinates."""
        cell = place.cell if shared else place.cell.dup()
        shapes = cell.shapes(self.index(layer))
        region = kdb.Region(cell.begin_shapes_rec(self.index(layer))).merged()
        shapes.clear()
        shapes.insert(change(region))
        if not shared:
            self.replace(place, [(cell.cell_index(), place.path[-1][1])])

    def cell_of(self, kind: str) -> kdb.Cell:
        """A cell of a device: the chip's own, or one drawn from its golden polygons."""
        placed = self.places(kind)
        if placed:
            return placed[0].cell
        from optinc_pdk.extract.golden_devices import read_golden

        variant = next(v for v in read_golden(self.process) if v.name == kind)
        cell = self.layout.create_cell(f"{kind}_drawn")
        for layer, polygons in (("core", variant.core), (self.etch, variant.etch)):
            for polygon in polygons:
                cell.shapes(self.index(layer)).insert(polygon)
        return cell

    def boxes(self, layer: str) -> list[kdb.Box]:
        """The boxes drawn on a layer, as seen from the top, without repetition."""
        shapes = kdb.RecursiveShapeIterator(self.layout, self.top, self.index(layer))
        found = set()
        for item in shapes.each():
            if not item.shape().is_text():
                polygon = item.shape().polygon.transformed(item.trans())
                if polygon.is_box():
                    found.add(polygon.bbox())
        return sorted(found, key=lambda b: (b.left, b.bottom, b.right, b.top))

    def clear_spot(self, rng: np.random.Generator, size: int) -> kdb.Box:
        """A square on a die, away from everything drawn there."""
        dies = [polygon.bbox() for polygon in self.base.region("outline").each()]
        keep_out = round(float(self.process.floorplan.keepout_um) * 1000)
        while True:
            die = dies[int(rng.integers(len(dies)))].enlarged(-keep_out, -keep_out)
            x, y = (int(rng.integers(low, high - size)) for low, high in ((die.left, die.right), (die.bottom, die.top)))
            box = kdb.Box(x, y, x + size, y + size)
            near = kdb.Region(box.enlarged(30_000, 30_000))
            if all((self.base.region(name) & near).is_empty() for name in ("core", "heater", self.wire)):
                return box

    def texts(self, metal: bool) -> list[tuple[kdb.Text, kdb.Shape]]:
        """Labels of pads, or labels that are not on metal; titles of dies are left out."""
        on = self.base.region(self.wire)
        known = self.base.circuit.ports
        found = []
        for shape in self.top.shapes(self.index("label")).each():
            if shape.is_text() and shape.text.string in known:
                here = kdb.Region(kdb.Box(-1, -1, 1, 1).moved(shape.text.x, shape.text.y))
                if here.interacting(on).is_empty() != metal:
                    found.append((shape.text, shape))
        return sorted(found, key=lambda pair: (pair[0].string, pair[0].x))


def _place(cell: kdb.Cell, arrays: Sequence[kdb.CellInstArray]) -> None:
    cell.clear_insts()
    for array in arrays:
        cell.insert(array)


def _walk(cell: kdb.Cell, path: Path, to_top: kdb.Trans) -> Iterator[Place]:
    for instance in cell.each_inst():
        for move in instance.cell_inst.each_trans():
            here = (*path, (instance.cell_index, move))
            yield Place(here, to_top * move, instance.cell)
            yield from _walk(instance.cell, here, to_top * move)


def um(point: kdb.Point | kdb.Box) -> tuple[float, float]:
    """A point, or the centre of a box, in µm."""
    at = point.center() if isinstance(point, kdb.Box) else point
    return at.x / 1000, at.y / 1000


def choose(rng: np.random.Generator, items: Sequence) -> object:
    """One of several items, chosen at random."""
    return items[int(rng.integers(len(items)))]
