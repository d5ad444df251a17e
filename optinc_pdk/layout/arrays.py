"""Search for regular arrays among positions, so that repeated shapes are written once, with pitch and counts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Ints


@dataclass(frozen=True)
class RegularArray:
    """Regular array of positions (x + i · dx, y + j · dy) in nm, for 0 ≤ i < columns and 0 ≤ j < rows."""

    x: int
    y: int
    dx: int
    dy: int
    columns: int
    rows: int

    @property
    def count(self) -> int:
        """Number of positions."""
        return self.columns * self.rows


def regular_arrays(points: Ints) -> list[RegularArray]:
    """Partition positions into regular arrays.

    Positions with the same x are divided into runs of equal pitch, then equal runs are grouped into runs along x. After
    sorting this takes linear time. A complete column of a mesh is one run.

    Args:
        points: (n, 2) positions in nm; a position that occurs twice is in two arrays.

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
        RegularArray(x, y, dx, dy, columns, rows)
        for (y, dy, rows), xs in runs.items()
        for x, dx, columns in _runs(sorted(xs))
    ]
    return sorted(arrays, key=lambda a: (a.x, a.y, a.columns, a.rows))


def _runs(values: list[int]) -> list[tuple[int, int, int]]:
    """Cut ascending values into runs (first, pitch, count); single and repeated values are runs of pitch 0."""
    runs: list[tuple[int, int, int]] = []
    i = 0
    while i < len(values):
        end = i + 1
        pitch = values[end] - values[i] if end < len(values) else 0
        while pitch and end < len(values) and values[end] - values[end - 1] == pitch:
            end += 1
        # the second value of a pair may start a longer run
        if end - i == 2 and end + 1 < len(values) and values[end] - values[end - 1] == values[end + 1] - values[end]:
            end, pitch = i + 1, 0
        count = end - i
        runs.append((values[i], pitch if count > 1 else 0, count))
        i = end
    return runs
