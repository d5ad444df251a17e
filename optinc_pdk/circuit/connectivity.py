"""Electrical nets: connected components of ports, numbered in port order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
UNCONNECTED = -1


def component_labels(size: int, a: Ints, b: Ints) -> Ints:
    """Return the connected components of a graph.

    Every round hooks roots to lower roots and compresses the paths to them, so that the number of rounds grows with the
    logarithm of the longest chain (Shiloach and Vishkin, J. Algorithms 3, 57 (1982)).

    Args:
        size: Number of nodes.
        a: (edges,) one node of each edge.
        b: (edges,) the other.

    Returns:
        (size,) the lowest node of each node's component.
    """
    root = np.arange(size, dtype=np.int64)
    while True:
        first, second = root[a], root[b]
        different = first != second
        if not different.any():
            return root
        a, b, first, second = a[different], b[different], first[different], second[different]
        np.minimum.at(root, np.maximum(first, second), np.minimum(first, second))
        while (root[root] != root).any():
            root = root[root]


def number_nets(root: Ints, used: NDArray[np.bool_]) -> Ints:
    """Number nets in the order of their first port.

    Args:
        root: (size,) any port of each port's net, the same for all ports of a net.
        used: (size,) true for ports that are in a net.

    Returns:
        (size,) net numbers from 0, -1 for ports that are in no net.
    """
    result = np.full(root.size, UNCONNECTED, dtype=np.int64)
    _, first, net = np.unique(root[used], return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    result[used] = rank[net.reshape(-1)]
    return result
