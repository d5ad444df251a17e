"""Connected shapes of one layer, told apart without merging them: long nested wires are costly to merge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import klayout.db as kdb
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from optinc_pdk.extract.places import turn
from optinc_pdk.signoff.gds import Design
from optinc_pdk.signoff.pairs import Ints, touching

# About the size of most pieces, in database units; only speed depends on it.
STRIP = 50_000


@dataclass(frozen=True)
class Pieces:
    """Boxes, and polygons with slanted edges, that make up a layer.

    Attributes:
        boxes: (n, 4) left, bottom, right, top.
        owner: (n,) equal numbers: pieces of one shape, which are connected.
        slanted: The polygons, by number.
    """

    boxes: Ints
    owner: Ints
    slanted: dict[int, kdb.Polygon]

    def shape(self, number: int) -> kdb.Polygon:
        """A piece as a polygon."""
        return self.slanted.get(number, kdb.Polygon(kdb.Box(*self.boxes[number].tolist())))

    def meeting(self, other: Pieces) -> Ints:
        """(k, 2) pairs of pieces that share at least a point."""
        pairs = touching(self.boxes, other.boxes, STRIP)
        return pairs[self._agreed(other, pairs, kdb.Polygon.touches)]

    def sharing(self, other: Pieces, pairs: Ints) -> NDArray[np.bool_]:
        """(k,) which of some pairs share an area."""
        low = np.maximum(self.boxes[pairs[:, 0], :2], other.boxes[pairs[:, 1], :2])
        high = np.minimum(self.boxes[pairs[:, 0], 2:], other.boxes[pairs[:, 1], 2:])
        return (low < high).all(axis=1) & self._agreed(other, pairs, _share)

    def _agreed(
        self, other: Pieces, pairs: Ints, relation: Callable[[kdb.Polygon, kdb.Polygon], bool]
    ) -> NDArray[np.bool_]:
        """Whether a relation that holds for the boxes of pairs holds for the pieces too."""
        doubtful = np.isin(pairs[:, 0], list(self.slanted)) | np.isin(pairs[:, 1], list(other.slanted))
        agreed = ~doubtful
        for number in np.flatnonzero(doubtful).tolist():
            one, two = pairs[number].tolist()
            agreed[number] = relation(self.shape(one), other.shape(two))
        return agreed

    def nets(self) -> Ints:
        """(n,) a number for each piece, equal where pieces are connected."""
        pairs = touching(self.boxes, self.boxes, STRIP)
        pairs = pairs[self.owner[pairs[:, 0]] < self.owner[pairs[:, 1]]]
        pairs = pairs[self._agreed(self, pairs, kdb.Polygon.touches)]
        count = int(self.owner.max(initial=-1)) + 1
        graph = coo_array((np.ones(len(pairs)), self.owner[pairs].T), shape=(count, count))
        return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)[self.owner]


def _share(one: kdb.Polygon, two: kdb.Polygon) -> bool:
    return not (kdb.Region(one) & kdb.Region(two)).is_empty()


def pieces(design: Design, layer: str) -> Pieces:
    """What a layer consists of."""
    places, index = design.places((layer,)), design.index(layer)
    if places is None:
        return _cut(kdb.Region(design.shapes(layer)).merged())
    found = [_cut(places.loose[index])]
    for number, code in np.unique(places.cells[:, :2], axis=0).tolist():
        shapes = kdb.Region(design.layout.cell(number).begin_shapes_rec(index)).merged().transformed(turn(code))
        here = (places.cells[:, :2] == [number, code]).all(axis=1)
        found.append(_placed(_cut(shapes), places.cells[here, 2:]))
    return _joined(found)


def _cut(region: kdb.Region) -> Pieces:
    """The pieces of a region's shapes as they are."""
    raw = region.dup()
    raw.merged_semantics = False
    raw.remove_properties()
    boxes: list[tuple[int, int, int, int]] = []
    owner: list[int] = []
    slanted: dict[int, kdb.Polygon] = {}
    for number, polygon in enumerate(raw.each()):
        # cutting slanted ones would round them
        if not polygon.is_rectilinear():
            slanted[len(boxes)] = polygon.dup()
        whole = polygon.is_box() or not polygon.is_rectilinear()
        for box in (polygon.bbox(),) if whole else (part.bbox() for part in polygon.decompose_trapezoids()):
            boxes.append((box.left, box.bottom, box.right, box.top))
            owner.append(number)
    return Pieces(np.array(boxes, dtype=np.int64).reshape(-1, 4), np.array(owner, dtype=np.int64), slanted)


def _placed(one: Pieces, at: Ints) -> Pieces:
    """The same pieces at (m, 2) places."""
    count, shapes = len(one.boxes), int(one.owner.max(initial=-1)) + 1
    boxes = (np.tile(at, 2)[:, None] + one.boxes).reshape(-1, 4)
    owner = (np.arange(len(at))[:, None] * shapes + one.owner).ravel()
    slanted = {
        place * count + number: polygon.moved(x, y)
        for place, (x, y) in enumerate(at.tolist())
        for number, polygon in one.slanted.items()
    }
    return Pieces(boxes, owner, slanted)


def _joined(parts: list[Pieces]) -> Pieces:
    slanted: dict[int, kdb.Polygon] = {}
    owners, count, shapes = [], 0, 0
    for part in parts:
        slanted |= {count + number: polygon for number, polygon in part.slanted.items()}
        owners.append(part.owner + shapes)
        count += len(part.boxes)
        shapes += int(part.owner.max(initial=-1)) + 1
    return Pieces(np.concatenate([part.boxes for part in parts]), np.concatenate(owners), slanted)
