"""Two questions about graphs, answered on arrays.

scipy answers them as well, but to import its graphs takes three times as long as a mesh of 64 modes.
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


def parts(a: Ints, b: Ints, count: int) -> Ints:
    """(count,) the least node of each node's connected part.

    Every node follows its least neighbour, and then those that it follows, until all of a part follow one.

    Args:
        a: (edges,) one end of every edge.
        b: (edges,) the other.
        count: Number of nodes.
    """
    part = np.arange(count)
    while True:
        one, other = part[a], part[b]
        apart = one != other
        if not apart.any():
            return part
        a, b, one, other = a[apart], b[apart], one[apart], other[apart]
        np.minimum.at(part, np.maximum(one, other), np.minimum(one, other))
        while np.any(part[part] != part):
            part = part[part]
