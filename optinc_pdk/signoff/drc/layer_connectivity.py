"""Connectivity within one layer, found without merging its shapes: merging long parallel wires is slow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Bools, Ints
from optinc_pdk.circuit.netlist import component_labels
from optinc_pdk.extract.box_pairs import touching_pairs
from optinc_pdk.extract.cell_placements import transformation
from optinc_pdk.signoff.drc.design import Design

# Width of the strips of the spatial search in database units, about the size of most pieces; only speed depends on it.
STRIP = 50_000


@dataclass(frozen=True)
class LayerPieces:
    """The n pieces that make up a layer: boxes, and polygons with slanted edges.

    Attributes:
        boxes: (n, 4) left, bottom, right and top of each piece in database units.
        owner: (n,) number of the drawn shape that each piece is part of; pieces of one shape are connected.
        slanted: Polygon of each piece with slanted edges, by number of the piece.
    """

    boxes: Ints
    owner: Ints
    slanted: dict[int, kdb.Polygon]

    def shape(self, number: int) -> kdb.Polygon:
        """Return a piece, given by its number, as a polygon."""
        return self.slanted.get(number, kdb.Polygon(kdb.Box(*self.boxes[number].tolist())))

    def meeting(self, other: LayerPieces) -> Ints:
        """Find the pairs of pieces, one of this layer and one of another, that share at least a point.

        Returns:
            (k, 2) number of the piece in this layer, and of the piece in the other.
        """
        pairs = touching_pairs(self.boxes, other.boxes, STRIP)
        return pairs[self._agreed(other, pairs, kdb.Polygon.touches)]

    def sharing(self, other: LayerPieces, pairs: Ints) -> Bools:
        """Determine which pairs of pieces of this and another layer overlap in an area.

        Args:
            other: Pieces of the other layer.
            pairs: (k, 2) number of the piece in this layer, and of the piece in the other.

        Returns:
            (k,) whether the pieces of a pair share an area, not only an edge or a point.
        """
        low = np.maximum(self.boxes[pairs[:, 0], :2], other.boxes[pairs[:, 1], :2])
        high = np.minimum(self.boxes[pairs[:, 0], 2:], other.boxes[pairs[:, 1], 2:])
        return np.less(low, high).all(axis=1) & self._agreed(other, pairs, _share)

    def _agreed(self, other: LayerPieces, pairs: Ints, relation: Callable[[kdb.Polygon, kdb.Polygon], bool]) -> Bools:
        """(k,) whether a relation that holds for the boxes of pairs (k, 2) also holds for the pieces."""
        uncertain = np.isin(pairs[:, 0], list(self.slanted)) | np.isin(pairs[:, 1], list(other.slanted))
        agreed = ~uncertain
        for number in np.flatnonzero(uncertain).tolist():
            one, two = pairs[number].tolist()
            agreed[number] = relation(self.shape(one), other.shape(two))
        return agreed

    @cached_property
    def joints(self) -> Ints:
        """(k, 2) pairs of different pieces whose bounding boxes share at least a point, in both orders."""
        pairs = touching_pairs(self.boxes, self.boxes, STRIP)
        return np.compress(pairs[:, 0] != pairs[:, 1], pairs, axis=0)

    def nets(self) -> Ints:
        """Return (n,) the net number of each piece; pieces that are connected within the layer have the same number."""
        pairs = self.joints
        pairs = pairs[self.owner[pairs[:, 0]] < self.owner[pairs[:, 1]]]
        pairs = pairs[self._agreed(self, pairs, kdb.Polygon.touches)]
        return np.take(component_labels(int(self.owner.max(initial=-1)) + 1, *self.owner[pairs].T), self.owner)


def _share(one: kdb.Polygon, two: kdb.Polygon) -> bool:
    return not (kdb.Region(one) & kdb.Region(two)).is_empty()


def layer_pieces(design: Design, layer: str) -> LayerPieces:
    """Split a layer into boxes and polygons with slanted edges."""
    return design.derived(f"pieces of {layer}", lambda: _pieces(design, layer))


def regions_for_squares(design: Design, layer: str, side: int) -> tuple[Ints, Ints] | None:
    """Find the part of a layer that can contain squares of a given size that lie within the layer.

    The result covers every such square, but may be larger. Where a box is narrower than the square, the square can only
    reach into it from a neighbouring box. So the result does not contain long wires, except for their ends.

    Args:
        design: Layout.
        layer: Name of the layer.
        side: Side of the squares in database units.

    Returns:
        (n, 4) boxes, and (n,) the number of the connected group of boxes that each belongs to; None for a layer with
        slanted edges.
    """
    parts = layer_pieces(design, layer)
    if parts.slanted:
        return None
    size = parts.boxes[:, 2:] - parts.boxes[:, :2]
    wide = np.min(size, axis=1) >= side
    one, other = parts.joints[~wide[parts.joints[:, 0]]].T
    narrow, common = parts.boxes[one], np.empty((len(one), 4), dtype=np.int64)
    common[:, :2] = np.maximum(narrow[:, :2], parts.boxes[other, :2])
    common[:, 2:] = np.minimum(narrow[:, 2:], parts.boxes[other, 2:])
    low = size[one, 1] < side
    common[low, 1::2] = narrow[low, 1::2]
    common[~low, 0::2] = narrow[~low, 0::2]
    boxes = np.unique(np.concatenate([parts.boxes[wide], common]), axis=0)
    boxes = boxes[(boxes[:, :2] < boxes[:, 2:]).all(axis=1)]
    # connected boxes that are smaller than the square all together contain none either
    group = component_labels(len(boxes), *touching_pairs(boxes, boxes, STRIP).T)
    low, high = boxes[:, :2].copy(), boxes[:, 2:].copy()
    np.minimum.at(low, group, boxes[:, :2])
    np.maximum.at(high, group, boxes[:, 2:])
    large = (high - low >= side).all(axis=1)[group]
    return boxes[large], group[large]


def disjoint_boxes(design: Design, layer: str) -> Ints:
    """Return boxes without overlaps that together cover exactly a layer.

    All edges of the layer must be parallel to the axes. Only boxes that overlap, such as wires at their ends, are
    merged.

    Returns:
        (n, 4) left, bottom, right and top in database units.
    """
    parts = layer_pieces(design, layer)
    one, two = (parts.boxes[parts.joints[:, side]] for side in (0, 1))
    over = (np.maximum(one, two)[:, :2] < np.minimum(one, two)[:, 2:]).all(axis=1)
    overlapping = np.zeros(len(parts.boxes), dtype=np.bool_)
    overlapping[parts.joints[over].ravel()] = True
    polygons = [kdb.Polygon(kdb.Box(*box)) for box in parts.boxes[overlapping].tolist()]
    return np.concatenate([parts.boxes[~overlapping], _cut(kdb.Region(polygons).merged()).boxes])


def is_rectilinear(design: Design, layer: str) -> bool:
    """Return whether all edges of a layer are parallel to the axes, in all cells.

    It is False if a cell is magnified or rotated by another angle than a multiple of 90°.
    """
    places, index = design.places((layer,)), design.index(layer)
    if places is None:
        return False
    cells = np.unique(places.cells[:, 0]).tolist()
    drawn = [
        places.loose[index].dup(),
        *(kdb.Region(design.layout.cell(cell).begin_shapes_rec(index)) for cell in cells),
    ]
    for shapes in drawn:
        shapes.merged_semantics = False
    return all(shapes.non_rectilinear().is_empty() for shapes in drawn)


def _pieces(design: Design, layer: str) -> LayerPieces:
    places, index = design.places((layer,)), design.index(layer)
    if places is None:
        return _cut(kdb.Region(design.shapes(layer)).merged())
    parts = [_cut(places.loose[index])]
    for number, code in np.unique(places.cells[:, :2], axis=0).tolist():
        shapes = (
            kdb.Region(design.layout.cell(number).begin_shapes_rec(index)).merged().transformed(transformation(code))
        )
        here = (places.cells[:, :2] == [number, code]).all(axis=1)
        parts.append(_placed(_cut(shapes), places.cells[here, 2:]))
    return _joined(parts)


def _cut(region: kdb.Region) -> LayerPieces:
    """Pieces of a region's shapes, unmerged."""
    raw = region.dup()
    raw.merged_semantics = False
    raw.remove_properties()
    boxes: list[tuple[int, int, int, int]] = []
    owner: list[int] = []
    slanted: dict[int, kdb.Polygon] = {}
    for number, polygon in enumerate(raw.each()):
        # a polygon with slanted edges is not cut, as cutting would round its points
        if not polygon.is_rectilinear():
            slanted[len(boxes)] = polygon.dup()
        whole = polygon.is_box() or not polygon.is_rectilinear()
        for box in (polygon.bbox(),) if whole else (part.bbox() for part in polygon.decompose_trapezoids()):
            boxes.append((box.left, box.bottom, box.right, box.top))
            owner.append(number)
    return LayerPieces(np.array(boxes, dtype=np.int64).reshape(-1, 4), np.array(owner, dtype=np.int64), slanted)


def _placed(one: LayerPieces, at: Ints) -> LayerPieces:
    """The same pieces repeated at positions (m, 2)."""
    count, shapes = len(one.boxes), int(one.owner.max(initial=-1)) + 1
    boxes = (np.tile(at, 2)[:, None] + one.boxes).reshape(-1, 4)
    owner = (np.arange(len(at))[:, None] * shapes + one.owner).ravel()
    slanted = {
        place * count + number: polygon.moved(x, y)
        for place, (x, y) in enumerate(at.tolist())
        for number, polygon in one.slanted.items()
    }
    return LayerPieces(boxes, owner, slanted)


def _joined(parts: list[LayerPieces]) -> LayerPieces:
    slanted: dict[int, kdb.Polygon] = {}
    owners, count, shapes = [], 0, 0
    for part in parts:
        slanted |= {count + number: polygon for number, polygon in part.slanted.items()}
        owners.append(part.owner + shapes)
        count += len(part.boxes)
        shapes += int(part.owner.max(initial=-1)) + 1
    return LayerPieces(np.concatenate([part.boxes for part in parts]), np.concatenate(owners), slanted)
