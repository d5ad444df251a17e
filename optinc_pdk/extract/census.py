"""What a layout file holds, cell by cell, and whether that can be a chip: refused before memory or time is spent.

A file of a kilobyte can place a cell in arrays of arrays, let cells contain each other, or nest them without end.
"""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.files import InputError

Ints = NDArray[np.int64]
# Limits of the tool, not of a process. The largest network laid out, 41,664 MZIs on six dies, has 1,199 cells, and
# placed flat 2.4 million shapes and 1.1 million cells with 164 million points; its file has 8 MB, flat 1.3 GB.
MAX_BYTES = 2 * 2**30
MAX_CELLS = 100_000
# KLayout sorts cells by depth in a time that grows with the square of it: a second at 8,000.
MAX_DEPTH = 1_000
MAX_PLACED = 10_000_000
# Eight bytes each: 4 GB, what sign-off may take.
MAX_POINTS = 500_000_000
NAMES = 5


class GdsError(InputError):
    """A layout file that cannot be used; the message names the file and the reason."""


@dataclass(frozen=True)
class Census:
    """C cells with R references to each other.

    Attributes:
        names: Names of the cells.
        shapes: (C,) shapes and texts drawn in each cell.
        points: (C,) their points.
        parent: (R,) cell with the reference.
        child: (R,) cell that it places.
        copies: (R,) how many times.
    """

    names: tuple[str, ...]
    shapes: Ints
    points: Ints
    parent: Ints
    child: Ints
    copies: Ints


def check_census(census: Census, path: Path) -> None:
    """Refuse what cannot be a chip.

    Raises:
        GdsError: Cells contain each other, are nested too deep or too many, or are placed too often.
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
            # whole numbers without bounds: arrays of arrays soon have more members than 64 bits count
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
                text = f"cell {census.names[cell]!r} has {_told(count)} {what} when placed flat, the limit is {limit:,}"
                raise GdsError(f"{path}: {text}; is an array's count wrong?")


def _told(count: int) -> str:
    return f"{count:,}" if count < 10**15 else f"{count:.1e}" if count < 10**300 else "over 1e300"


def _bottom_up(census: Census, path: Path) -> list[int]:
    """Cells in an order in which each comes after all that it places."""
    graph: dict[int, list[int]] = {cell: [] for cell in range(len(census.names))}
    for parent, child in set(zip(census.parent.tolist(), census.child.tolist(), strict=True)):
        graph[parent].append(child)
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as fault:
        ring = [census.names[cell] for cell in fault.args[1][::-1]]
        told = " -> ".join(
            repr(name) for name in (ring if len(ring) <= NAMES else [*ring[: NAMES - 1], "...", ring[-1]])
        )
        raise GdsError(f"{path}: cells contain each other ({told}); take one of these references out") from fault
