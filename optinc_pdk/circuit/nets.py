"""Electrical nets: which ports hang together, counted in port order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
UNCONNECTED = -1


def joined(size: int, a: Ints, b: Ints) -> Ints:
    """(size,) the lowest of the numbers that each number hangs together with, through pairs a - b.

    Every round hooks roots to lower ones and shortens the ways to them, so that rounds grow with the logarithm of the
    longest chain (Shiloach and Vishkin, J. Algorithms 3, 57 (1982)).
    """
    root = np.arange(size, dtype=np.int64)
    while True:
        one, other = root[a], root[b]
        apart = one != other
        if not apart.any():
            return root
        a, b, one, other = a[apart], b[apart], one[apart], other[apart]
        np.minimum.at(root, np.maximum(one, other), np.minimum(one, other))
        while (root[root] != root).any():
            root = root[root]


def numbered(root: Ints, used: NDArray[np.bool_]) -> Ints:
    """(size,) net numbers in the order of their first port; -1 for ports that are in no net."""
    result = np.full(root.size, UNCONNECTED, dtype=np.int64)
    _, first, net = np.unique(root[used], return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    result[used] = rank[net.reshape(-1)]
    return result
