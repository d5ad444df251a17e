"""The shapes of some layers as arrays of placed cells and boxes, and regions with equal contents.

Of separate parts of a layer with equal surroundings, one is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Bools, Ints
from optinc_pdk.circuit.netlist import component_labels
from optinc_pdk.extract.box_pairs import OUTWARDS, close_pairs, touching_pairs
from optinc_pdk.extract.cell_placements import CellPlacements, transformation
from optinc_pdk.extract.polygons import box_array
from optinc_pdk.signoff.drc._shape_checks import MAX_PAIRS
from optinc_pdk.signoff.drc.design import Design

# Width of the strips of the spatial search in database units, about the size of most items; only speed depends on it.
STRIP = 50_000
# More items than this that begin or end in one square form a crowd: nearly every pair of them is different.
MAX_CROWD = 20


@dataclass(frozen=True)
class PlacedShapes:
    """The n items of some layers, sorted by kind and then by position; an item is a placed cell or a box.

    Attributes:
        what: (n, 4) for a placed cell its cell index, orientation, x and y; for a box -1 - layer index, and zeros.
        boxes: (n, 4) left, bottom, right and top of each item in database units.
        loose: By layer index, flat regions of the shapes that are no items: shapes with slanted edges that are not part
            of a placed cell, and crowds.
    """

    what: Ints
    boxes: Ints
    loose: Mapping[int, kdb.Region]

    @property
    def is_box(self) -> Bools:
        """(n,) whether each item is a box."""
        return np.less(self.what[:, 0], 0)

    def in_windows(self, windows: Ints, margin: int, shown: int | None = None) -> tuple[Ints, Ints]:
        """Find the items in windows and in a margin around them.

        Args:
            windows: (m, 4) boxes in database units.
            margin: Width of the margin in database units; at least 1.
            shown: Distance from the window at which boxes are cut off; None for the margin.

        Returns:
            For each of k items found, (k,) the number of its window, and (k, 5) its kind and its position relative to
            the lower left corner of the window: left, bottom, right and top of a box, or the origin of a cell twice.
            Boxes are cut off, so windows with equal rows contain equal shapes.
        """
        cut, corner = windows + (margin if shown is None else shown) * OUTWARDS, np.tile(windows[:, :2], 2)
        window, item = touching_pairs(windows + (margin - 1) * OUTWARDS, self.boxes, max(STRIP, 4 * margin)).T
        low = np.maximum(self.boxes[item, :2], cut[window, :2])
        high = np.minimum(self.boxes[item, 2:], cut[window, 2:])
        at = np.where(self.is_box[item, None], np.concatenate([low, high], axis=1), np.tile(self.what[item, 2:], 2))
        return window, np.concatenate([kinds(self.what)[item, None], at - corner[window]], axis=1)


def placed_shapes(design: Design, layers: Sequence[str]) -> PlacedShapes | None:
    """Split some layers of a design into placed cells, boxes and shapes with slanted edges.

    A cell whose only shape on these layers is one box becomes a box. Shapes that are not part of a placed cell become
    boxes if their edges are parallel to the axes.

    Returns:
        The items; None if no cell is placed twice, or if a cell is magnified or rotated by another angle than a
        multiple of 90°.
    """
    return design.derived(f"placed shapes of {', '.join(layers)}", lambda: _placed_shapes(design, layers))


def _placed_shapes(design: Design, layers: Sequence[str]) -> PlacedShapes | None:
    places = design.places(tuple(layers))
    if places is None or len(np.unique(kinds(places.cells))) == len(places.cells):
        return None
    what, boxes = _plain_cells(design, places, [design.index(name) for name in layers])
    loose, parts = {}, [(what, boxes)]
    for index, region in places.loose.items():
        raw = region.dup()
        raw.merged_semantics = False
        loose[index] = raw.non_rectilinear()
        straight = raw.rectilinear()
        straight.merged_semantics = False
        edges = box_array([part.bbox() for part in straight.decompose_trapezoids_to_region().each()])
        parts.append((_box_kind(index, len(edges)), edges))
    what, boxes = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = np.lexsort(np.concatenate([what, boxes], axis=1).T[::-1])
    return PlacedShapes(what[order], boxes[order], loose)


def without_crowds(design: Design, layers: Sequence[str], parts: PlacedShapes, distance: int) -> PlacedShapes:
    """Turn crowds of items into loose shapes.

    Args:
        layers: Names of the layers of the items.
        parts: The items.
        distance: Side of the squares in which more than `MAX_CROWD` items are a crowd, in database units.

    Returns:
        The items that are in no crowd; the shapes of the others are loose.
    """
    crowded = np.zeros(len(parts.boxes), dtype=np.bool_)
    for corner in (parts.boxes[:, :2], parts.boxes[:, 2:]):
        _, square, count = np.unique(corner // distance, axis=0, return_inverse=True, return_counts=True)
        crowded |= count[square.reshape(-1)] > MAX_CROWD
    if not np.any(crowded):
        return parts
    loose = {index: region.dup() for index, region in parts.loose.items()}
    boxes = crowded & parts.is_box
    for (layer, *_), box in zip(parts.what[boxes].tolist(), parts.boxes[boxes].tolist(), strict=True):
        loose.setdefault(-1 - layer, kdb.Region()).insert(kdb.Box(*box))
    cells = parts.what[crowded & ~parts.is_box]
    for number, code in np.unique(cells[:, :2], axis=0).tolist():
        shapes = shapes_of(design, number, code, [design.index(name) for name in layers])
        for *_, x, y in cells[np.all(cells[:, :2] == (number, code), axis=1)].tolist():
            for index, region in shapes.items():
                loose.setdefault(index, kdb.Region()).insert(region.moved(x, y))
    return PlacedShapes(parts.what[~crowded], parts.boxes[~crowded], loose)


def kinds(what: Ints) -> Ints:
    """Return (n,) the kind of each item: one number per cell and orientation, and per layer for boxes.

    Args:
        what: (n, 4) items as in `PlacedShapes.what`.
    """
    return what[..., 0] * 8 + what[..., 1]


def _box_kind(index: int, count: int) -> Ints:
    return np.tile(np.array([-1 - index, 0, 0, 0]), (count, 1))


def _plain_cells(design: Design, places: CellPlacements, indexes: Sequence[int]) -> tuple[Ints, Ints]:
    """The placed cells, with those that are a single box on one layer marked as boxes, and their bounding boxes."""
    what = places.cells.copy()
    for number in np.unique(what[:, 0]).tolist():
        shown = {index: kdb.Region(design.layout.cell(number).begin_shapes_rec(index)) for index in indexes}
        drawn = {index: shapes for index, shapes in shown.items() if not shapes.is_empty()}
        for index, shapes in drawn.items():
            if len(drawn) == 1 and shapes.is_box():
                here = np.flatnonzero(places.cells[:, 0] == number)
                what[here] = _box_kind(index, len(here))
    return what, places.boxes


def shapes_of(design: Design, number: int, code: int, indexes: Sequence[int]) -> dict[int, kdb.Region]:
    """Return the shapes of a cell on some layers, in a given orientation.

    Args:
        number: Index of the cell.
        code: Orientation of the cell.
        indexes: Indices of the layers.

    Returns:
        Flat regions by layer index; layers without shapes are left out.
    """
    drawn = {index: kdb.Region(design.layout.cell(number).begin_shapes_rec(index)) for index in indexes}
    return {index: shapes.transformed(transformation(code)) for index, shapes in drawn.items() if not shapes.is_empty()}


@dataclass(frozen=True)
class RepeatedRegion:
    """A box of a layout, and its k copies at other positions with the same shapes in and around them.

    Attributes:
        box: The first of the boxes.
        moves: (k, 2) displacement from the first box to each of the boxes, itself included, in database units.
    """

    box: kdb.Box
    moves: Ints

    def copies(self, shapes: kdb.Region) -> Iterator[kdb.Polygon]:
        """Yield shapes of the first box at their positions in all boxes.

        Args:
            shapes: Shapes of the first box.
        """
        for polygon in shapes.each():
            for x, y in self.moves.tolist():
                yield polygon.moved(x, y)

    def boxes(self, shapes: kdb.Region) -> Ints:
        """Return the bounding boxes of shapes of the first box at their positions in all boxes.

        Args:
            shapes: m shapes of the first box.

        Returns:
            (k·m, 4) left, bottom, right and top.
        """
        return (np.tile(self.moves, 2)[:, None] + box_array([shape.bbox() for shape in shapes.each()])).reshape(-1, 4)


def repeated_regions(
    design: Design, layer: str, gap: int, around: Sequence[str] = (), reach: int = 1
) -> list[RepeatedRegion]:
    """Split a layer into separate parts, and group the parts that are equal.

    Args:
        layer: Layer to split; each of its shapes is completely in one part.
        gap: Two parts are at least this far apart along one axis, in database units; at least 1.
        around: Further layers that must be equal in and around equal parts.
        reach: Distance around the parts within which all layers must be equal, in database units; at least 1.

    Returns:
        One region per group of equal parts.
    """
    parts = placed_shapes(design, (layer,))
    if parts is None:
        merged = kdb.Region(design.shapes(layer)).merged()
        single = np.zeros((1, 2), np.int64)
        return [RepeatedRegion(kdb.Box(*box), single) for box in merge_close_boxes(_boxes(merged), gap).tolist()]
    loose = [_boxes(shapes) for shapes in parts.loose.values()]
    boxes = merge_close_boxes(np.concatenate([parts.boxes, *loose]), gap)
    size = boxes[:, 2:] - boxes[:, :2]
    keys = [surroundings(design, name, boxes, reach) for name in dict.fromkeys((layer, *around))]
    groups: dict[object, list[int]] = {}
    for number, key in enumerate(zip(map(bytes, size), *keys, strict=True)):
        groups.setdefault(key, []).append(number)
    corner = boxes[:, :2]
    return [
        RepeatedRegion(kdb.Box(*boxes[group[0]].tolist()), corner[group] - corner[group[0]])
        for group in groups.values()
    ]


def merge_close_boxes(boxes: Ints, gap: int) -> Ints:
    """Replace boxes that are less than a gap apart along both axes by their common bounding box, until none are left.

    Args:
        boxes: (n, 4) boxes.
        gap: The gap in database units.

    Returns:
        (m, 4) boxes.
    """
    while len(pairs := close_pairs(boxes, gap, STRIP + gap)):
        group = np.unique(component_labels(len(boxes), *pairs.T), return_inverse=True)[1]
        low = np.full((group.max() + 1, 2), np.iinfo(np.int64).max)
        high = -low
        np.minimum.at(low, group, boxes[:, :2])
        np.maximum.at(high, group, boxes[:, 2:])
        boxes = np.concatenate([low, high], axis=1)
    return boxes


def surroundings(design: Design, layer: str, boxes: Ints, reach: int) -> list[object]:
    """Return a key for each box; boxes with equal keys have equal shapes on a layer in and around them.

    Args:
        boxes: (n, 4) boxes.
        reach: Distance around the boxes that is compared, in database units.

    Returns:
        n keys. A box with slanted shapes in or around it has a key of its own.
    """
    parts = placed_shapes(design, (layer,))
    if parts is None or not len(boxes):
        return list(range(len(boxes)))
    window, rows = parts.in_windows(boxes, reach)
    order = np.argsort(window, kind="stable")
    ends = np.cumsum(np.bincount(window, minlength=len(boxes)))[:-1]
    keys: list[object] = [part.tobytes() for part in np.split(rows[order], ends)]
    # shapes with slanted edges are not compared, so a box with some of them equals no other
    loose = box_array([shape.bbox() for shapes in parts.loose.values() for shape in shapes.each()])
    for number in np.unique(touching_pairs(boxes + reach * OUTWARDS, loose, max(STRIP, 4 * reach))[:, 0]).tolist():
        keys[number] = number
    return keys


def check_repeated(parts: Sequence[RepeatedRegion], check: Callable[[kdb.Box], kdb.Region]) -> kdb.Region:
    """Run a check on one box of each region, and repeat its violations in all equal boxes.

    It ends when there are more than `MAX_PAIRS` violations.

    Args:
        parts: Regions with equal contents.
        check: Function that returns the violations within a box.
    """
    violations = kdb.Region()
    for part in parts:
        for polygon in part.copies(check(part.box)):
            violations.insert(polygon)
        if violations.count() > MAX_PAIRS:
            break
    return violations


def _boxes(region: kdb.Region) -> Ints:
    return box_array([shape.bbox() for shape in region.each()])
