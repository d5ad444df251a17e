"""A layout taken apart: cells as they are placed, and the shapes in none of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import klayout.db as kdb
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
# Cells up to this size are taken as they are, larger ones apart; an MZI is half as long.
WHOLE_UM = 1000.0


@dataclass(frozen=True)
class Places:
    """What a top cell consists of, as far as some layers show it.

    Attributes:
        cells: (n, 4) cell, orientation as KLayout counts it, x and y of every placed cell.
        boxes: (n, 4) left, bottom, right, top of the placed cells.
        loose: Shapes outside these cells, by layer index, flat.
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
        found = {}
        for layer, region in self.loose.items():
            found[layer] = kdb.Shapes()
            found[layer].insert(region)
        return found

    def box(self, number: int) -> kdb.Box:
        """The box of a placed cell."""
        return kdb.Box(*self.boxes[number].tolist())

    def near(self, box: kdb.Box) -> list[int]:
        """Numbers of the placed cells whose boxes touch a box, ascending."""
        shapes, numbers = self._index
        return sorted(number for shape in shapes.each_touching(box) for number in numbers[shape.box])

    def loose_near(self, layer: int, box: kdb.Box) -> kdb.Region:
        """What a layer has in a box outside the cells; it may overlap itself."""
        found = [shape.polygon for shape in self._loose[layer].each_touching(box)]
        return kdb.Region(found) & kdb.Region(box) if found else kdb.Region()

    def loose_touch(self, layer: int, box: kdb.Box) -> bool:
        """Whether the box of any shape outside the cells touches a box."""
        return any(True for _ in self._loose[layer].each_touching(box))

    def loose_boxes(self, layer: int) -> Ints:
        """(n, 4) left, bottom, right, top of the shapes outside the cells."""
        boxes = [shape.bbox() for shape in self._loose[layer].each()]
        return np.array([(b.left, b.bottom, b.right, b.top) for b in boxes], dtype=np.int64).reshape(-1, 4)

    def loose_are_boxes(self, layer: int) -> NDArray[np.bool_]:
        """(n,) whether these shapes are boxes."""
        return np.array([shape.is_box() or shape.polygon.is_box() for shape in self._loose[layer].each()], dtype=bool)

    def surroundings(self, box: kdb.Box, x: int, y: int) -> bytes:
        """The cells whose boxes touch a box, as seen from a point: equal bytes, equal cells in equal places."""
        around = self.cells[self.near(box)] - [0, 0, x, y]
        return around[np.lexsort(around.T)].tobytes()


def take_apart(layout: kdb.Layout, top: kdb.Cell, layers: Sequence[int]) -> Places | None:
    """Find what a top cell consists of.

    Args:
        layout: Layout.
        top: Its top cell.
        layers: Indexes of the layers that count.

    Returns:
        Its cells and loose shapes, or None where a cell is magnified or turned by no multiple of 90°.
    """
    size = round(WHOLE_UM / layout.dbu)
    found: list[Ints] = []
    loose = {layer: kdb.Region() for layer in layers}
    stack = [(top, kdb.Trans())]
    while stack:
        cell, trans = stack.pop()
        for layer in layers:
            if not cell.shapes(layer).is_empty():
                loose[layer] += kdb.Region(cell.shapes(layer)).transformed(trans)
        for instance in cell.each_inst():
            box = _box(instance.cell, layers)
            if box.empty():
                continue
            if instance.is_complex():
                return None
            placed = _members(instance, trans)
            if max(box.width(), box.height()) <= size:
                found.append(placed)
            else:
                stack += [(instance.cell, turn(code, x, y)) for _, code, x, y in placed.tolist()]
    for region in loose.values():
        region.remove_properties()
    cells = np.concatenate([np.zeros((0, 4), dtype=np.int64), *found])
    return Places(cells, _boxes(layout, cells, layers), loose)


def turn(code: int, x: int = 0, y: int = 0) -> kdb.Trans:
    """The transformation of an orientation's number."""
    return kdb.Trans(code % 4, code >= 4, x, y)


def _members(instance: kdb.Instance, trans: kdb.Trans) -> Ints:
    """(n, 4) cell, orientation, x and y of an array's members."""
    whole, a, b = trans * instance.trans, trans * instance.a, trans * instance.b
    i, j = np.indices((max(instance.na, 1), max(instance.nb, 1))).reshape(2, -1)
    x, y = whole.disp.x + i * a.x + j * b.x, whole.disp.y + i * a.y + j * b.y
    return np.stack([np.full_like(x, instance.cell_index), np.full_like(x, whole.rot), x, y], axis=1)


def _box(cell: kdb.Cell, layers: Sequence[int]) -> kdb.Box:
    box = kdb.Box()
    for layer in layers:
        box += cell.bbox(layer)
    return box


def _boxes(layout: kdb.Layout, cells: Ints, layers: Sequence[int]) -> Ints:
    kinds, kind = np.unique(cells[:, 0] * 8 + cells[:, 1], return_inverse=True)
    found = [_box(layout.cell(both // 8), layers).transformed(turn(both % 8)) for both in kinds.tolist()]
    edges = np.array([(box.left, box.bottom, box.right, box.top) for box in found], dtype=np.int64)
    return np.tile(cells[:, 2:], 2) + edges.reshape(-1, 4)[kind]
