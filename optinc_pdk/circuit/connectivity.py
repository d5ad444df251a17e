"""Connected components of a graph, and numbering of electrical nets."""

from __future__ import annotations

import numpy as np

from optinc_pdk.arrays import Bools, Ints

UNCONNECTED = -1


def component_labels(size: int, a: Ints, b: Ints) -> Ints:
    """Return the connected components of an undirected graph.

    Each round attaches roots to lower roots and compresses paths, so that the number of rounds grows with the logarithm
    of the longest path (Shiloach and Vishkin, J. Algorithms 3, 57 (1982)).

    Args:
        size: Number of nodes.
        a: (edges,) one node of each edge.
        b: (edges,) other node of each edge.

    Returns:
        (size,) lowest node of the component of each node.
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


def number_nets(root: Ints, used: Bools) -> Ints:
    """Number nets consecutively in the order of their first port.

    Args:
        root: (size,) identifier of each port's net: a port number that is the same for all ports of a net.
        used: (size,) true for ports that are on a net.

    Returns:
        (size,) net number of each port from 0, -1 for ports that are on no net.
    """
    result = np.full(root.size, UNCONNECTED, dtype=np.int64)
    _, first, net = np.unique(root[used], return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    result[used] = rank[net.reshape(-1)]
    return result
