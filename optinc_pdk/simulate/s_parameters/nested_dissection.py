"""Order of joins for blocks between which light passes back and forth: nested dissection.

Such blocks form knots: strongly connected components of the graph of waves, merged if they share a block. Blocks get
coordinates from their distances to a few distant blocks (Harel and Koren, J. Graph Algorithms Appl. 8, 195 (2004)).
Every knot is halved along its longest side, down to single blocks, and the halves are joined in reverse order (George,
SIAM Journal on Numerical Analysis 10, 345 (1973)).
"""

from __future__ import annotations

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.simulate.s_parameters.block_assembly import BlockAssembly
from optinc_pdk.simulate.s_parameters.star_product import JoinRound, plan_round
from optinc_pdk.simulate.s_parameters.wave_graph import find_kernels, kernel_levels, wave_graph

PIVOTS = 6
"""Blocks to which distances are measured."""


def plan_dissection(assembly: BlockAssembly) -> list[JoinRound]:
    """Plan the joins that reduce every knot, a set of blocks between which light passes back and forth, to one block.

    Afterwards no wave returns to a block that it has passed.

    Args:
        assembly: Blocks of the circuit; updated in place, as if the joins were done.

    Returns:
        Rounds of independent joins, in order of execution.
    """
    knot = _knots(assembly)
    blocks = np.flatnonzero(knot != UNCONNECTED)
    if not blocks.size:
        return []
    number = np.full(assembly.pool.size, UNCONNECTED, dtype=np.int64)
    number[blocks] = np.arange(blocks.size)
    a, b = (number[assembly.owner[ports]] for ports in assembly.nets())
    inner = (a != UNCONNECTED) & (b != UNCONNECTED)
    nested = nested_halves(blocks.size, a[inner], b[inner], knot[blocks])
    order = np.argsort(nested[-1])
    blocks, piece = blocks[order], nested[-1][order]
    rounds = []
    for _ in nested[:-1]:
        piece = piece // 2
        pair = np.flatnonzero(piece[1:] == piece[:-1])
        if pair.size:
            planned, blocks[pair] = plan_round(assembly, blocks[pair], blocks[pair + 1])
            rounds.append(planned)
        blocks, piece = np.delete(blocks, pair + 1), np.delete(piece, pair + 1)
    return rounds


def _knots(assembly: BlockAssembly) -> Ints:
    """(blocks,) number of each block's knot, -1 for blocks in none."""
    ports, blocks = assembly.partner.size, assembly.pool.size
    kernels = find_kernels(assembly)
    flow = wave_graph(kernels, ports)
    if np.all(kernel_levels(flow, np.ones(flow.kernels, dtype=bool)) != UNCONNECTED):
        return np.full(blocks, UNCONNECTED, dtype=np.int64)

    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    pairs = [np.zeros((0, 2), dtype=np.int64)]
    for each in kernels:
        count, into, out = each.slot.size, each.cols.size, each.rows.size
        tail = np.broadcast_to(each.reads[:, np.newaxis, :], (count, out, into))
        head = np.broadcast_to(each.writes[:, :, np.newaxis], (count, out, into))
        pairs.append(np.stack([tail, head], axis=-1).reshape(-1, 2))
    tail, head = np.concatenate(pairs).T
    tail, head = tail[head < ports], head[head < ports]
    waves = coo_array((np.ones(tail.size, dtype=np.int8), (tail, head)), shape=(ports, ports))
    loop = connected_components(waves, directed=True, connection="strong")[1]
    wave = np.flatnonzero((np.bincount(loop)[loop] > 1) & (assembly.owner != UNCONNECTED))
    size = blocks + int(loop.max(initial=-1)) + 1
    both = (assembly.owner[wave], blocks + loop[wave])
    membership = coo_array((np.ones(wave.size, dtype=np.int8), both), shape=(size, size))
    part = connected_components(membership, directed=False)[1]
    knot = np.full(blocks, UNCONNECTED, dtype=np.int64)
    members = np.unique(assembly.owner[wave])
    knot[members] = np.unique(part[members], return_inverse=True)[1].reshape(-1)
    return knot


def nested_halves(count: int, a: Ints, b: Ints, piece: Ints) -> list[Ints]:
    """Halve the pieces of a graph repeatedly, down to single nodes.

    Args:
        count: Number of nodes.
        a: (edges,) first node of every edge.
        b: (edges,) second node of every edge.
        piece: (count,) index of the piece that each node belongs to, from 0.

    Returns:
        For each level, (count,) index of each node's piece; the first level is ``piece``, the last has single nodes.
        The halves of piece i are 2 i and 2 i + 1 at the next level; a piece of a single node becomes 2 i.
    """
    place = _coordinates(count, a, b)
    nested = [piece]
    while np.bincount(nested[-1]).max() > 1:
        nested.append(_halved(place, nested[-1]))
    return nested


def _halved(place: Floats, piece: Ints) -> Ints:
    """(count,) halves 2 i and 2 i + 1 of pieces i, cut across the direction in which each is longest."""
    number, piece_of = np.unique(piece, return_inverse=True)
    size = np.bincount(piece_of)
    low = np.full((number.size, place.shape[1]), np.inf)
    high = np.full_like(low, -np.inf)
    np.minimum.at(low, piece_of, place)
    np.maximum.at(high, piece_of, place)
    order = np.argsort(low - high, axis=1, kind="stable")
    keys = [place[np.arange(piece.size), order[piece_of, axis]] for axis in range(place.shape[1])]
    ranked = np.lexsort((*keys[::-1], piece_of))
    rank = np.empty(piece.size, dtype=np.int64)
    rank[ranked] = np.arange(piece.size) - np.repeat(np.cumsum(size) - size, size)
    return 2 * piece + (rank >= (size[piece_of] + 1) // 2)


def _coordinates(count: int, a: Ints, b: Ints) -> Floats:
    """(count, 3) coordinates of nodes, from their distances to a few nodes that are far from each other."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import dijkstra

    graph = coo_array((np.ones(a.size), (a, b)), shape=(count, count)).tocsr()
    distances = np.empty((count, PIVOTS))
    nearest = np.full(count, np.inf)
    pivot = 0
    for step in range(PIVOTS + 1):
        found = dijkstra(graph, directed=False, indices=pivot, unweighted=True)
        found[~np.isfinite(found)] = count
        if step:
            distances[:, step - 1] = found
            nearest = np.minimum(nearest, found)
            pivot = int(np.argmax(nearest))
        else:
            pivot = int(np.argmax(found))
    centred = distances - distances.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    # rounded, so that nodes on one line have equal coordinates
    places: Floats = np.round(centred @ axes[:, :-4:-1], 6)
    return places
