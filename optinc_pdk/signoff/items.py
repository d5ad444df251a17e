"""What a layout consists of as arrays: placed cells, boxes, and other shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import klayout.db as kdb
import numpy as np
from numpy.typing import NDArray

from optinc_pdk.extract.contours import Ints
from optinc_pdk.extract.nearby import touching
from optinc_pdk.extract.places import Places, turn
from optinc_pdk.signoff.gds import Design
from optinc_pdk.signoff.nets import STRIP

OUTWARDS = np.array([-1, -1, 1, 1])


@dataclass(frozen=True)
class Items:
    """Placed cells and boxes of some layers, by kind and then by place.

    Attributes:
        what: (n, 4) cell, orientation, x and y; or for a box -1 less its layer's index, and zeros.
        boxes: (n, 4) left, bottom, right, top.
        loose: Shapes with slanted edges outside the cells, by layer index, flat.
    """

    what: Ints
    boxes: Ints
    loose: Mapping[int, kdb.Region]

    @property
    def is_box(self) -> NDArray[np.bool_]:
        """(n,) whether an item is a box."""
        return np.less(self.what[:, 0], 0)

    def seen(self, windows: Ints, margin: int) -> tuple[Ints, Ints]:
        """What is in windows, up to a margin around them.

        Args:
            windows: (m, 4) boxes.
            margin: How much larger they are taken to be, in database units.

        Returns:
            (k,) a window's number and (k, 5) the kind and the place of an item as seen from its lower left corner,
            cut off at the margin if it is a box: equal rows, equal shapes there.
        """
        shown, corner = windows + margin * OUTWARDS, np.tile(windows[:, :2], 2)
        window, item = touching(shown - OUTWARDS, self.boxes, max(STRIP, 4 * margin)).T
        low = np.maximum(self.boxes[item, :2], shown[window, :2])
        high = np.minimum(self.boxes[item, 2:], shown[window, 2:])
        at = np.where(self.is_box[item, None], np.concatenate([low, high], axis=1), np.tile(self.what[item, 2:], 2))
        return window, np.concatenate([kinds(self.what)[item, None], at - corner[window]], axis=1)


def items(design: Design, layers: Sequence[str]) -> Items | None:
    """Take a design apart.

    A cell that shows these layers nothing but one box is that box, and so are the parts of what is drawn in no cell
    with edges along the axes only.

    Returns:
        Its items, or None where no cell is placed twice, or one is magnified or turned by no multiple of 90°.
    """
    return design.derived(f"items of {', '.join(layers)}", lambda: _items(design, layers))


def _items(design: Design, layers: Sequence[str]) -> Items | None:
    places = design.places(tuple(layers))
    if places is None or len(np.unique(kinds(places.cells))) == len(places.cells):
        return None
    what, boxes = _plain_cells(design, places, [design.index(name) for name in layers])
    loose, found = {}, [(what, boxes)]
    for index, region in places.loose.items():
        raw = region.dup()
        raw.merged_semantics = False
        loose[index] = raw.non_rectilinear()
        straight = raw.rectilinear()
        straight.merged_semantics = False
        edges = edges_of([part.bbox() for part in straight.decompose_trapezoids_to_region().each()])
        found.append((_box_kind(index, len(edges)), edges))
    what, boxes = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    order = np.lexsort(np.concatenate([what, boxes], axis=1).T[::-1])
    return Items(what[order], boxes[order], loose)


def edges_of(boxes: Sequence[kdb.Box]) -> Ints:
    """(n, 4) left, bottom, right, top of boxes."""
    edges = [(box.left, box.bottom, box.right, box.top) for box in boxes]
    return np.array(edges, dtype=np.int64).reshape(-1, 4)


def kinds(what: Ints) -> Ints:
    """(n,) a number that tells cells and orientations, or layers of boxes, apart."""
    return what[..., 0] * 8 + what[..., 1]


def _box_kind(index: int, count: int) -> Ints:
    return np.tile(np.array([-1 - index, 0, 0, 0]), (count, 1))


def _plain_cells(design: Design, places: Places, indexes: Sequence[int]) -> tuple[Ints, Ints]:
    """The placed cells, and as boxes those that are one box of one layer."""
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
    """What a cell shows some layers, turned, by layer index."""
    found = {index: kdb.Region(design.layout.cell(number).begin_shapes_rec(index)) for index in indexes}
    return {index: shapes.transformed(turn(code)) for index, shapes in found.items() if not shapes.is_empty()}
