"""Placements of small cells in a layout, and the shapes outside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Bools, Ints
from optinc_pdk.extract.polygons import box_array

# Cells up to this size are placed as a whole, larger ones are resolved into their contents. An MZI is half as long.
MAX_CELL_SIZE_UM = 1000.0


@dataclass(frozen=True)
class CellPlacements:
    """Placements of small cells in a top cell, and the shapes on some layers that are in none of these cells.

    Attributes:
        cells: (n, 4) KLayout's cell index and orientation code, and x and y of each placement, in database units.
        boxes: (n, 4) left, bottom, right and top of each placement on these layers, in database units.
        loose: Flat shapes outside the placed cells, by KLayout's layer index.
    """

    cells: Ints
    boxes: Ints
    loose: Mapping[int, kdb.Region]

    @cached_property
    def _index(self) -> tuple[kdb.Shapes, dict[kdb.Box, list[int]]]:
        shapes = kdb.Shapes()
        numbers: dict[kdb.Box, list[int]] = {}
        for number, edges in enumerate(self.boxes.tolist()):
            box = kdb.Box(*edges)
            if box not in numbers:
                shapes.insert(box)
            numbers.setdefault(box, []).append(number)
        return shapes, numbers

    @cached_property
    def _loose(self) -> dict[int, kdb.Shapes]:
        shapes = {}
        for layer, region in self.loose.items():
            shapes[layer] = kdb.Shapes()
            shapes[layer].insert(region)
        return shapes

    def box(self, number: int) -> kdb.Box:
        """Return the bounding box of a placement, given its index."""
        return kdb.Box(*self.boxes[number].tolist())

    def near(self, box: kdb.Box) -> list[int]:
        """Return the indices of the placements whose bounding boxes touch a box, in ascending order."""
        shapes, numbers = self._index
        return sorted(number for shape in shapes.each_touching(box) for number in numbers[shape.box])

    def loose_near(self, layer: int, box: kdb.Box) -> kdb.Region:
        """Return the shapes of a layer, given its index, outside the placed cells, clipped to a box and not merged."""
        polygons = [shape.polygon for shape in self._loose[layer].each_touching(box)]
        return kdb.Region(polygons) & kdb.Region(box) if polygons else kdb.Region()

    def loose_boxes(self, layer: int) -> Ints:
        """Return the bounding boxes (n, 4) of the shapes of a layer, given its index, outside the placed cells."""
        return box_array(shape.bbox() for shape in self._loose[layer].each())

    def loose_are_boxes(self, layer: int) -> Bools:
        """Return (n,) whether each shape of :meth:`loose_boxes` is a box."""
        return np.array([shape.is_box() or shape.polygon.is_box() for shape in self._loose[layer].each()], dtype=bool)


class CellInstances:
    """The instances of the cells of a layout as arrays, which are read once for several sets of layers."""

    def __init__(self) -> None:
        """Start without cells; each is read when it is first asked for."""
        self._read: dict[int, tuple[Ints, frozenset[int]]] = {}

    def of(self, cell: kdb.Cell) -> tuple[Ints, frozenset[int]]:
        """Return the instances of a cell, which must not change afterwards.

        Returns:
            (n, 4) cell index, orientation code, x and y of every member of every array, in coordinates of the cell; and
            the indices of the cells that it places magnified or rotated by another angle than a multiple of 90°, whose
            instances are left out.
        """
        number = cell.cell_index()
        if number not in self._read:
            self._read[number] = _instances(cell)
        return self._read[number]


def find_cell_placements(
    layout: kdb.Layout, top: kdb.Cell, layers: Sequence[int], instances: CellInstances | None = None
) -> CellPlacements | None:
    """Split a top cell into placements of cells of at most ``MAX_CELL_SIZE_UM``, and the shapes outside them.

    Layers are KLayout's indices. The result is None if a cell is magnified or rotated by an angle that is not a
    multiple of 90°.
    """
    instances = instances or CellInstances()
    size = round(MAX_CELL_SIZE_UM / layout.dbu)
    placements: list[Ints] = []
    loose = {layer: kdb.Region() for layer in layers}
    stack = [(top, kdb.Trans())]
    while stack:
        cell, trans = stack.pop()
        for layer in layers:
            if not cell.shapes(layer).is_empty():
                loose[layer] += kdb.Region(cell.shapes(layer)).transformed(trans)
        inside, tilted = instances.of(cell)
        if any(not _box(layout.cell(number), layers).empty() for number in tilted):
            return None
        placed = _transformed(inside, trans)
        present, kind = np.unique(placed[:, 0], return_inverse=True)
        boxes = [_box(layout.cell(number), layers) for number in present.tolist()]
        drawn = np.array([not box.empty() for box in boxes], dtype=np.bool_)[kind]
        small = np.array([max(box.width(), box.height()) <= size for box in boxes], dtype=np.bool_)[kind]
        placements.append(placed[drawn & small])
        stack += [
            (layout.cell(number), transformation(code, x, y)) for number, code, x, y in placed[drawn & ~small].tolist()
        ]
    for region in loose.values():
        region.remove_properties()
    cells = np.concatenate([np.zeros((0, 4), dtype=np.int64), *placements])
    return CellPlacements(cells, _boxes(layout, cells, layers), loose)


def transformation(code: int, x: int = 0, y: int = 0) -> kdb.Trans:
    """Return the transformation for a KLayout orientation code and a displacement in database units.

    The code, 0 … 7, is a rotation by ``code % 4`` times 90°, after mirroring about the x axis for 4 … 7.
    """
    return kdb.Trans(code % 4, code >= 4, x, y)


def _instances(cell: kdb.Cell) -> tuple[Ints, frozenset[int]]:
    """Return cell index, orientation code, x and y (n, 4) of the instances of a cell, and the cells of tilted ones."""
    arrays: list[tuple[int, ...]] = []
    tilted: set[int] = set()
    for instance in cell.each_inst():
        if instance.is_complex():
            tilted.add(instance.cell_index)
            continue
        trans, a, b = instance.trans, instance.a, instance.b
        counts = (max(instance.na, 1), max(instance.nb, 1)) if instance.is_regular_array() else (1, 1)
        arrays.append((instance.cell_index, trans.rot, trans.disp.x, trans.disp.y, a.x, a.y, b.x, b.y, *counts))
    first = np.array(arrays, dtype=np.int64).reshape(-1, 10)
    count = first[:, 8] * first[:, 9]
    rows = np.repeat(first, count, axis=0)
    column, row = np.divmod(np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count), rows[:, 9])
    place = rows[:, 2:4] + column[:, None] * rows[:, 4:6] + row[:, None] * rows[:, 6:8]
    return np.concatenate([rows[:, :2], place], axis=1), frozenset(tilted)


def _transformed(placed: Ints, trans: kdb.Trans) -> Ints:
    """Return placements (n, 4) as :meth:`CellInstances.of` does, in coordinates of the cell around."""
    codes = np.array([(trans * transformation(code)).rot for code in range(8)], dtype=np.int64)
    along_x, along_y = trans * kdb.Vector(1, 0), trans * kdb.Vector(0, 1)
    x, y = placed[:, 2], placed[:, 3]
    columns = (
        placed[:, 0],
        codes[placed[:, 1]],
        along_x.x * x + along_y.x * y + trans.disp.x,
        along_x.y * x + along_y.y * y + trans.disp.y,
    )
    return np.stack(columns, axis=1)


def _box(cell: kdb.Cell, layers: Sequence[int]) -> kdb.Box:
    """Return the bounding box of a cell on some layers."""
    box = kdb.Box()
    for layer in layers:
        box += cell.bbox(layer)
    return box


def _boxes(layout: kdb.Layout, cells: Ints, layers: Sequence[int]) -> Ints:
    """Return the bounding boxes (n, 4) of placements."""
    kinds, kind = np.unique(cells[:, 0] * 8 + cells[:, 1], return_inverse=True)
    boxes = box_array(
        _box(layout.cell(key // 8), layers).transformed(transformation(key % 8)) for key in kinds.tolist()
    )
    return np.tile(cells[:, 2:], 2) + boxes[kind]
