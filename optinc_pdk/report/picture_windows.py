"""Windows on a layer, a mesh and an MZI of a layout, found from the positions of its heaters alone.

The heaters of a mesh stand in columns that alternate between φ and θ with one period from MZI to MZI. The run of such
columns with the most heaters is taken as the mesh; heaters near to it in the same rows belong to its layer. Names of
cells and labels are not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Floats, Ints

Window = tuple[float, float, float, float]

SAME_UM = 1.0
"""Distances that differ by less are taken as equal: cells are placed on a grid."""

NEAR_ROWS = 2.5
"""Largest distance of rows that belong together, in units of the usual distance of two heaters of a column."""


@dataclass(frozen=True)
class PictureWindows:
    """Windows around one layer, one mesh and one MZI.

    Attributes:
        layer: Left, bottom, right and top in µm.
        mesh: Left, bottom, right and top in µm.
        mzi: Left, bottom, right and top in µm.
    """

    layer: Window
    mesh: Window
    mzi: Window


@dataclass(frozen=True, eq=False)
class _Columns:
    """C columns of heaters: (C,) centre x, lowest y and highest y, and the indices of the heaters of each."""

    x: Floats
    low: Floats
    high: Floats
    members: tuple[Ints, ...]


def heater_boxes(layout: kdb.Layout, layer: tuple[int, int]) -> Floats:
    """Return the bounding boxes of the merged shapes of a heater layer, over the whole hierarchy.

    Args:
        layout: The layout.
        layer: GDS layer and datatype of the heaters.

    Returns:
        (heaters, 4) left, bottom, right and top in µm, sorted.
    """
    region = kdb.Region()
    for cell in layout.top_cells():
        region.insert(cell.begin_shapes_rec(layout.layer(*layer)))
    boxes = [(box.left, box.bottom, box.right, box.top) for box in (p.bbox() for p in region.each_merged())]
    return np.array(sorted(boxes), np.float64).reshape(-1, 4) * layout.dbu


def find_windows(boxes: Floats) -> PictureWindows | None:
    """Find windows around a layer, a mesh and an MZI from the positions of the heaters.

    Args:
        boxes: (heaters, 4) left, bottom, right and top of each heater in µm.

    Returns:
        The windows; None if no two heaters are side by side.
    """
    if len(boxes) < 2:
        return None
    centre = np.stack([boxes[:, 0] + boxes[:, 2], boxes[:, 1] + boxes[:, 3]], axis=1) / 2
    length = float(np.median(boxes[:, 2] - boxes[:, 0]))
    columns, row = _columns(centre, length)
    run, period = _longest_run(columns, row)
    if len(run) < 2:
        return None
    mesh = np.concatenate([columns.members[i] for i in run])
    pair = boxes[list(_mzi(columns, run, centre))]
    layer = _grown(_around(boxes[mesh]), boxes, period + length, NEAR_ROWS * row)
    return PictureWindows(
        layer=_wider(layer, 2.0 * length, 2.0 * row),
        mesh=_wider(_around(boxes[mesh]), 1.5 * length, row),
        mzi=_wider(_around(pair), 1.5 * length, 0.8 * row),
    )


def _columns(centre: Floats, length: float) -> tuple[_Columns, float]:
    """Group heaters into columns, separate for each strip; also the usual distance of two heaters in a column."""
    order = np.lexsort((centre[:, 1], np.rint(centre[:, 0] / SAME_UM)))
    place = np.rint(centre[order, 0] / SAME_UM)
    gap = np.diff(centre[order, 1])
    same = np.diff(place) == 0
    # a low quantile, because heaters of different strips may stand above one another; at most two heater lengths
    row = min(float(np.quantile(gap[same], 0.1)), 2.0 * length) if same.any() else length
    starts = np.flatnonzero(~same | (gap > NEAR_ROWS * row)) + 1
    members = tuple(np.split(order, starts))
    x = np.array([centre[group, 0].mean() for group in members])
    low = np.array([centre[group, 1].min() for group in members])
    high = np.array([centre[group, 1].max() for group in members])
    return _Columns(x, low, high, members), row


def _longest_run(columns: _Columns, row: float) -> tuple[list[int], float]:
    """The columns of the mesh with the most heaters, from left to right, and the distance of two MZIs."""
    following = [_following(columns, i, row) for i in range(len(columns.x))]
    best: tuple[int, list[int], float] = (0, [], 0.0)
    for start in range(len(columns.x)):
        run, period = _run(columns, following, start)
        heaters = sum(len(columns.members[i]) for i in run)
        if heaters > best[0]:
            best = (heaters, run, period)
    return best[1], best[2]


def _following(columns: _Columns, index: int, row: float) -> int | None:
    """The next column to the right in the same rows."""
    right = columns.x > columns.x[index] + SAME_UM
    level = (columns.low <= columns.high[index] + 1.5 * row) & (columns.high >= columns.low[index] - 1.5 * row)
    candidates = np.flatnonzero(right & level)
    return int(candidates[np.argmin(columns.x[candidates])]) if candidates.size else None


def _run(columns: _Columns, following: list[int | None], start: int) -> tuple[list[int], float]:
    """The run of columns from ``start`` in which every second column has the same distance, and that distance."""
    run, period = [start], 0.0
    while (after := following[run[-1]]) is not None:
        step = float(columns.x[after] - columns.x[run[-2]]) if len(run) > 1 else 0.0
        if len(run) == 2:
            period = step
        if len(run) > 2 and abs(step - period) > SAME_UM:
            break
        run.append(after)
    return run, period or float(columns.x[run[-1]] - columns.x[run[0]])


def _mzi(columns: _Columns, run: list[int], centre: Floats) -> tuple[int, int]:
    """Two heaters of one MZI in the middle of a run: in neighbouring columns, with the smallest offset in y, then x."""
    middle = len(run) // 2
    column = columns.members[run[middle]]
    heater = int(column[len(column) // 2])
    near = np.concatenate([columns.members[run[i]] for i in (middle - 1, middle + 1) if 0 <= i < len(run)])
    offset = np.abs(centre[near] - centre[heater])
    level = np.rint(offset[:, 1] / SAME_UM)
    return heater, int(near[np.lexsort((offset[:, 0], level))[0]])


def _grown(box: Floats, boxes: Floats, reach: float, row: float) -> Floats:
    """Grow a box by the heaters near to its left and right, until no more are found."""
    while True:
        side = (boxes[:, 0] <= box[2] + reach) & (boxes[:, 2] >= box[0] - reach)
        level = (boxes[:, 1] <= box[3] + row) & (boxes[:, 3] >= box[1] - row)
        larger = _around(boxes[side & level])
        if np.array_equal(larger, box):
            return box
        box = larger


def _around(boxes: Floats) -> Floats:
    return np.concatenate([boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)])


def _wider(box: Floats, x: float, y: float) -> Window:
    left, bottom, right, top = box.tolist()
    return left - x, bottom - y, right + x, top + y
