"""Limits for the numbers of cells, shapes and points in a layout file, checked before KLayout reads the file.

A file of one kilobyte can contain arrays of arrays of a cell, cells that contain each other, or very deep nesting.
"""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.errors import InputError

# Limits of this program, not of a process. The largest network laid out so far, 41,664 MZIs on six dies, has 1,199
# cells and, flattened, 2.4 million shapes and 1.1 million placed cells with 164 million points.
MAX_CELLS = 100_000
# KLayout sorts cells by depth in a time quadratic in the depth: one second at 8,000.
MAX_DEPTH = 1_000
MAX_PLACED = 10_000_000
# 8 bytes per point: 4 GB, the memory limit of sign-off.
MAX_POINTS = 500_000_000
# Names listed in a message.
MAX_LISTED = 5


class GdsError(InputError):
    """Error: a layout file is not usable. The message states the file and the reason."""


@dataclass(frozen=True)
class CellSizes:
    """Numbers of shapes and points in the C cells of a layout, and the R references between cells.

    Attributes:
        names: Names of the cells.
        shapes: (C,) number of shapes and texts in each cell, without those of the cells that it places.
        points: (C,) number of points of these shapes.
        parent: (R,) index of the cell that contains the reference.
        child: (R,) index of the cell that is placed.
        copies: (R,) number of times that this reference places the cell; above 1 for an array.
    """

    names: tuple[str, ...]
    shapes: Ints
    points: Ints
    parent: Ints
    child: Ints
    copies: Ints


def check_sizes(census: CellSizes, path: Path) -> None:
    """Check that a layout is small enough to be read and checked.

    Args:
        census: Sizes of the cells of the layout.
        path: Layout file, for the error message.

    Raises:
        GdsError: There are more than ``MAX_CELLS`` cells, cells contain each other or are nested more than
            ``MAX_DEPTH`` deep, or the flattened layout has more than ``MAX_PLACED`` shapes and cells or more than
            ``MAX_POINTS`` points.
    """
    if len(census.names) > MAX_CELLS:
        raise GdsError(f"{path}: has {len(census.names):,} cells, the limit is {MAX_CELLS:,}; draw equal cells once")
    order = _bottom_up(census, path)
    depth = [0] * len(order)
    placed, points = census.shapes.tolist(), census.points.tolist()
    by_parent = np.argsort(census.parent, kind="stable")
    first = np.searchsorted(census.parent[by_parent], np.arange(len(order) + 1)).tolist()
    child, copies = census.child[by_parent].tolist(), census.copies[by_parent].tolist()
    for cell in order:
        for i in range(first[cell], first[cell + 1]):
            depth[cell] = max(depth[cell], depth[child[i]] + 1)
            # Python's integers do not overflow: arrays of arrays can have more than 2⁶⁴ members
            placed[cell] += copies[i] * (placed[child[i]] + (placed[child[i]] > 0))
            points[cell] += copies[i] * points[child[i]]
        if depth[cell] > MAX_DEPTH:
            text = (
                f"cells are nested more than {MAX_DEPTH:,} deep, down from {census.names[cell]!r}; flatten some levels"
            )
            raise GdsError(f"{path}: {text}")
        for count, limit, what in (
            (placed[cell], MAX_PLACED, "shapes and cells"),
            (points[cell], MAX_POINTS, "points"),
        ):
            if count > limit:
                text = f"cell {census.names[cell]!r} has {_count_text(count)} {what} when placed flat"
                raise GdsError(f"{path}: {text}, the limit is {limit:,}; check the counts of its arrays")


def _count_text(count: int) -> str:
    """Format a number of any size."""
    return f"{count:,}" if count < 10**15 else f"{count:.1e}" if count < 10**300 else "over 1e300"


def _bottom_up(census: CellSizes, path: Path) -> list[int]:
    """Return the cells in an order in which each comes after all cells that it places."""
    graph: dict[int, list[int]] = {cell: [] for cell in range(len(census.names))}
    for parent, child in set(zip(census.parent.tolist(), census.child.tolist(), strict=True)):
        graph[parent].append(child)
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as fault:
        cycle = [census.names[cell] for cell in fault.args[1][::-1]]
        listed = " -> ".join(
            repr(name) for name in (cycle if len(cycle) <= MAX_LISTED else [*cycle[: MAX_LISTED - 1], "...", cycle[-1]])
        )
        raise GdsError(f"{path}: cells contain each other ({listed}); remove one of these references") from fault
