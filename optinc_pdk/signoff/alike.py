"""Parts of a layer that are apart from each other, and which of them look alike: those are checked once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import klayout.db as kdb
import numpy as np

from optinc_pdk.circuit.nets import joined
from optinc_pdk.extract.contours import Ints
from optinc_pdk.extract.nearby import touching, within
from optinc_pdk.signoff.gds import Design
from optinc_pdk.signoff.items import OUTWARDS, edges_of, items
from optinc_pdk.signoff.nets import STRIP


@dataclass(frozen=True)
class Alike:
    """Boxes in and around which a design is the same.

    Attributes:
        box: One of them.
        moves: (k, 2) from it to each of them, itself included.
    """

    box: kdb.Box
    moves: Ints

    def everywhere(self, faults: kdb.Region) -> Iterator[kdb.Polygon]:
        """What is found at the one, at all of them."""
        for polygon in faults.each():
            for x, y in self.moves.tolist():
                yield polygon.moved(x, y)

    def boxes(self, shapes: kdb.Region) -> Ints:
        """(k m, 4) boxes of the m shapes of the one, at all of them."""
        return (np.tile(self.moves, 2)[:, None] + edges_of([shape.bbox() for shape in shapes.each()])).reshape(-1, 4)


def parts_alike(design: Design, layer: str, gap: int, around: Sequence[str] = (), reach: int = 1) -> list[Alike]:
    """Take a layer apart into what is at least a gap apart, along either axis.

    Args:
        design: Layout.
        layer: Its shapes are in the boxes, whole.
        gap: In database units, at least 1.
        around: Layers that must be equal too.
        reach: How far around the boxes, at least 1.

    Returns:
        Boxes of parts that look alike.
    """
    parts = items(design, (layer,))
    if parts is None:
        merged = kdb.Region(design.shapes(layer)).merged()
        return [Alike(kdb.Box(*box), np.zeros((1, 2), np.int64)) for box in isolated(_boxes(merged), gap).tolist()]
    loose = [_boxes(shapes) for shapes in parts.loose.values()]
    boxes = isolated(np.concatenate([parts.boxes, *loose]), gap)
    size = boxes[:, 2:] - boxes[:, :2]
    looks = [surroundings(design, name, boxes, reach) for name in dict.fromkeys((layer, *around))]
    groups: dict[object, list[int]] = {}
    for number, look in enumerate(zip(map(bytes, size), *looks, strict=True)):
        groups.setdefault(look, []).append(number)
    return [
        Alike(kdb.Box(*boxes[group[0]].tolist()), boxes[group, :2] - boxes[group[0], :2]) for group in groups.values()
    ]


def same_boxes(boxes: Ints, group: Ints) -> list[tuple[kdb.Region, Alike]]:
    """Groups of boxes that are the same but for their places.

    Args:
        boxes: (n, 4) boxes.
        group: (n,) a number for each, equal within a group.

    Returns:
        One group's boxes, and where it and those like it are.
    """
    if not len(boxes):
        return []
    order = np.lexsort((*boxes.T[::-1], group))
    boxes, group = boxes[order], group[order]
    first = np.flatnonzero(np.diff(group, prepend=-1))
    corner = boxes[first, :2]
    seen = boxes - np.tile(np.repeat(corner, np.diff(first, append=len(boxes)), axis=0), 2)
    groups: dict[bytes, list[int]] = {}
    for number, rows in enumerate(np.split(seen, first[1:])):
        groups.setdefault(rows.tobytes(), []).append(number)
    found = []
    for members in groups.values():
        start = first[members[0]]
        rows = boxes[start : start + np.count_nonzero(group == group[start])]
        shapes = kdb.Region([kdb.Polygon(kdb.Box(*row)) for row in rows.tolist()])
        found.append((shapes, Alike(shapes.bbox(), corner[members] - corner[members[0]])))
    return found


def isolated(boxes: Ints, gap: int) -> Ints:
    """Boxes joined until any two are at least a gap apart along either axis."""
    while len(pairs := within(boxes, gap, STRIP + gap)):
        group = np.unique(joined(len(boxes), *pairs.T), return_inverse=True)[1]
        low = np.full((group.max() + 1, 2), np.iinfo(np.int64).max)
        high = -low
        np.minimum.at(low, group, boxes[:, :2])
        np.maximum.at(high, group, boxes[:, 2:])
        boxes = np.concatenate([low, high], axis=1)
    return boxes


def surroundings(design: Design, layer: str, boxes: Ints, reach: int) -> list[object]:
    """For each box something that is equal where a layer is equal around it."""
    parts = items(design, (layer,))
    if parts is None or not len(boxes):
        return list(range(len(boxes)))
    window, rows = parts.seen(boxes, reach)
    order = np.argsort(window, kind="stable")
    ends = np.cumsum(np.bincount(window, minlength=len(boxes)))[:-1]
    found: list[object] = [part.tobytes() for part in np.split(rows[order], ends)]
    # other shapes may differ from place to place
    loose = edges_of([shape.bbox() for shapes in parts.loose.values() for shape in shapes.each()])
    for number in np.unique(touching(boxes + reach * OUTWARDS, loose, max(STRIP, 4 * reach))[:, 0]).tolist():
        found[number] = number
    return found


def found_in(parts: Sequence[Alike], check: Callable[[kdb.Box], kdb.Region]) -> kdb.Region:
    """What a check finds in one box of each kind, wherever there is one."""
    faults = kdb.Region()
    for part in parts:
        for polygon in part.everywhere(check(part.box)):
            faults.insert(polygon)
    return faults


def _boxes(region: kdb.Region) -> Ints:
    return edges_of([shape.bbox() for shape in region.each()])
