"""What can be reached in a graph, on arrays.

scipy tells as well, but to import its graphs takes three times as long as a mesh of 64 modes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def reached(tail: Ints, head: Ints, start: Bools) -> Bools:
    """(nodes,) which nodes can be reached from some others along edges, those themselves included.

    Args:
        tail: (edges,) where each edge begins.
        head: (edges,) where it ends.
        start: (nodes,) whence.
    """
    order = np.argsort(tail, kind="stable")
    head = head[order]
    first = np.searchsorted(tail[order], np.arange(start.size + 1))
    found, front = start.copy(), np.flatnonzero(start)
    while front.size:
        count = first[front + 1] - first[front]
        edge = np.repeat(first[front] - (np.cumsum(count) - count), count) + np.arange(count.sum())
        new = head[edge]
        front = np.unique(new[~found[new]])
        found[front] = True
    return found
