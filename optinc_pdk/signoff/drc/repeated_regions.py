"""Repeated regions of a layout: separate parts of a layer with equal surroundings, of which one is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.circuit.netlist import component_labels
from optinc_pdk.extract.box_pairs import OUTWARDS, close_pairs, touching_pairs
from optinc_pdk.extract.polygons import box_array
from optinc_pdk.signoff.drc.design import Design
from optinc_pdk.signoff.drc.layer_connectivity import STRIP
from optinc_pdk.signoff.drc.placed_shapes import placed_shapes
from optinc_pdk.signoff.drc.shape_checks import MAX_PAIRS


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
        design: Layout.
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


def repeated_box_groups(boxes: Ints, group: Ints) -> list[tuple[kdb.Region, RepeatedRegion]]:
    """Find groups of boxes that are equal except for a displacement.

    Args:
        boxes: (n, 4) boxes.
        group: (n,) number of the group that each box belongs to.

    Returns:
        For each set of equal groups, the boxes of its first group, and the region with the positions of all its groups.
    """
    if not len(boxes):
        return []
    order = np.lexsort((*boxes.T[::-1], group))
    boxes, group = boxes[order], group[order]
    first = np.flatnonzero(np.diff(group, prepend=-1))
    corner = boxes[first, :2]
    relative = boxes - np.tile(np.repeat(corner, np.diff(first, append=len(boxes)), axis=0), 2)
    groups: dict[bytes, list[int]] = {}
    for number, rows in enumerate(np.split(relative, first[1:])):
        groups.setdefault(rows.tobytes(), []).append(number)
    result = []
    for members in groups.values():
        start = first[members[0]]
        rows = boxes[start : start + np.count_nonzero(group == group[start])]
        shapes = kdb.Region([kdb.Polygon(kdb.Box(*row)) for row in rows.tolist()])
        result.append((shapes, RepeatedRegion(shapes.bbox(), corner[members] - corner[members[0]])))
    return result


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
        design: Layout.
        layer: Name of the layer.
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
