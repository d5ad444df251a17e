"""Repeated regions of a layout: separate parts of a layer with equal surroundings, of which one is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import klayout.db as kdb
import numpy as np

from optinc_pdk.circuit.connectivity import component_labels
from optinc_pdk.extract.box_pairs import close_pairs, touching_pairs
from optinc_pdk.extract.contours import Ints
from optinc_pdk.extract.spatial_index import box_array
from optinc_pdk.signoff.drc.design import Design
from optinc_pdk.signoff.drc.layer_connectivity import STRIP
from optinc_pdk.signoff.drc.placed_shapes import OUTWARDS, placed_shapes


@dataclass(frozen=True)
class RepeatedRegion:
    """A box, and its copies at other positions in and around which the layout is equal.

    Attributes:
        box: One of the boxes.
        moves: (k, 2) displacement from it to each of the boxes, itself included.
    """

    box: kdb.Box
    moves: Ints

    def copies(self, shapes: kdb.Region) -> Iterator[kdb.Polygon]:
        """Shapes of the one box, repeated in all of them."""
        for polygon in shapes.each():
            for x, y in self.moves.tolist():
                yield polygon.moved(x, y)

    def boxes(self, shapes: kdb.Region) -> Ints:
        """(k·m, 4) bounding boxes of m shapes of the one box, repeated in all k boxes."""
        return (np.tile(self.moves, 2)[:, None] + box_array([shape.bbox() for shape in shapes.each()])).reshape(-1, 4)


def repeated_regions(
    design: Design, layer: str, gap: int, around: Sequence[str] = (), reach: int = 1
) -> list[RepeatedRegion]:
    """Split a layer into parts that are separated by a gap along either axis, and group those that are equal.

    Args:
        design: Layout.
        layer: Layer to split; each of its shapes lies in one box.
        gap: Least distance between two parts, in database units, at least 1.
        around: Further layers that must be equal in and around equal parts.
        reach: How far around the boxes layers must be equal, in database units, at least 1.

    Returns:
        One region for each group of equal parts.
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
    """Find groups of boxes that differ only by a displacement.

    Args:
        boxes: (n, 4) boxes.
        group: (n,) number of the group of each box.

    Returns:
        For each set of equal groups, the boxes of one of them, and the positions of all of them.
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
    """Unite boxes that are less than a gap apart along both axes, until none are left; (n, 4) united boxes."""
    while len(pairs := close_pairs(boxes, gap, STRIP + gap)):
        group = np.unique(component_labels(len(boxes), *pairs.T), return_inverse=True)[1]
        low = np.full((group.max() + 1, 2), np.iinfo(np.int64).max)
        high = -low
        np.minimum.at(low, group, boxes[:, :2])
        np.maximum.at(high, group, boxes[:, 2:])
        boxes = np.concatenate([low, high], axis=1)
    return boxes


def surroundings(design: Design, layer: str, boxes: Ints, reach: int) -> list[object]:
    """A key for each box, equal where a layer is equal in and around the boxes."""
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
    """Run a check on one box of each region, and repeat its violations in all equal boxes."""
    violations = kdb.Region()
    for part in parts:
        for polygon in part.copies(check(part.box)):
            violations.insert(polygon)
    return violations


def _boxes(region: kdb.Region) -> Ints:
    return box_array([shape.bbox() for shape in region.each()])
