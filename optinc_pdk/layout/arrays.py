"""Regular arrays among positions: what a mesh repeats is written once, with its pitch and its counts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Array:
    """Equal things at ``x + i * dx`` and ``y + j * dy`` for i < columns, j < rows, in nm."""

    x: int
    y: int
    dx: int
    dy: int
    columns: int
    rows: int

    @property
    def count(self) -> int:
        """How many things it stands for."""
        return self.columns * self.rows


def regular_arrays(points: Ints) -> list[Array]:
    """Cover positions by regular arrays, every position once.

    Positions of one x are cut into runs of equal pitch, then equal runs into runs along x: linear after sorting,
    and the whole of a mesh's column is one run.

    Args:
        points: (n, 2) positions in nm; equal ones are covered as often as they are there.

    Returns:
        The arrays, sorted by position.
    """
    runs: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    order = np.lexsort((points[:, 1], points[:, 0]))
    ordered = points[order]
    breaks = np.flatnonzero(np.diff(ordered[:, 0])) + 1
    for column in np.split(ordered, breaks) if len(points) else ():
        x = int(column[0, 0])
        for start, pitch, count in _runs(column[:, 1].tolist()):
            runs[start, pitch, count].append(x)
    arrays = [
        Array(x, y, dx, dy, columns, rows) for (y, dy, rows), xs in runs.items() for x, dx, columns in _runs(sorted(xs))
    ]
    return sorted(arrays, key=lambda a: (a.x, a.y, a.columns, a.rows))


def _runs(values: list[int]) -> list[tuple[int, int, int]]:
    """Ascending values as runs (first, pitch, count); a run of one has pitch 0, equal values run alone."""
    found: list[tuple[int, int, int]] = []
    i = 0
    while i < len(values):
        end = i + 1
        pitch = values[end] - values[i] if end < len(values) else 0
        while pitch and end < len(values) and values[end] - values[end - 1] == pitch:
            end += 1
        # a pair at the end of nothing may be the beginning of the next run
        if end - i == 2 and end + 1 < len(values) and values[end] - values[end - 1] == values[end + 1] - values[end]:
            end, pitch = i + 1, 0
        count = end - i
        found.append((values[i], pitch if count > 1 else 0, count))
        i = end
    return found
