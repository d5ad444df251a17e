"""Reduction of blocks between which light passes back and forth: nested dissection, with star products as joins.

Such blocks form knots: strongly connected components of the graph of waves, merged if they share a block. Blocks get
coordinates from their distances to a few distant blocks (Harel and Koren, J. Graph Algorithms Appl. 8, 195 (2004)).
Every knot is halved along its longest side, down to single blocks, and the halves are joined in reverse order (George,
SIAM Journal on Numerical Analysis 10, 345 (1973)).

With the remaining ports e first and the joined ports j last, two blocks A and B become one block::

    A_ee + A_ej P_A      A_ej P_B                P_A = X B_jj A_je     P_B = X B_je
    B_ej Q_A             B_ee + B_ej A_jj P_B    Q_A = A_je + A_jj P_A
                                                 X = (1 - B_jj A_jj)^-1

This is Redheffer's star product (J. Math. Phys. 39, 269 (1960)). For passive blocks X is large only at a
resonance between the two, so no pivoting across blocks is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.arrays import Bools, Complexes, Floats, Ints
from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.simulate.s_parameters._cell_reduction import SINGULAR, SingularError
from optinc_pdk.simulate.s_parameters.block_assembly import (
    BlockAssembly,
    BlockPool,
    find_kernels,
    kernel_levels,
    wave_graph,
)

PIVOTS = 6
"""Blocks to which distances are measured."""


@dataclass(frozen=True, eq=False)
class StarSide:
    """First or second blocks of M joins; in the order of rows and columns, those of the joined ports are last.

    Attributes:
        pool: Index of the blocks' pool.
        slot: (M,) indices of the blocks within the pool.
        rows: (M, r) order of the rows.
        cols: (M, c) order of the columns.
    """

    pool: int
    slot: Ints
    rows: Ints
    cols: Ints


@dataclass(frozen=True, eq=False)
class StarJoin:
    """M joins of pairs of blocks, all of one shape, along k nets each.

    Attributes:
        a: The first blocks.
        b: The second blocks; their joined ports are in the order of the first blocks' joined ports.
        ports: (M, k) joined ports of the first blocks.
        target: Index of the pool of the results.
        start: Index of the first result within that pool.
    """

    a: StarSide
    b: StarSide
    ports: Ints
    target: int
    start: int


@dataclass(frozen=True, eq=False)
class JoinRound:
    """Joins that do not depend on each other, and the (M, r, c) of the pools that hold their results."""

    stars: tuple[StarJoin, ...]
    shapes: Mapping[int, tuple[int, int, int]]


def plan_round(assembly: BlockAssembly, a: Ints, b: Ints) -> tuple[JoinRound, Ints]:
    """Plan the joins of pairs of blocks, (pairs,) numbers each; the assembly is updated as if they were done.

    Returns:
        The round, and the (pairs,) numbers of the new blocks.
    """
    swapped = assembly.pool[a] > assembly.pool[b]
    a, b = np.where(swapped, b, a), np.where(swapped, a, b)
    pair = np.full(assembly.pool.size, UNCONNECTED, dtype=np.int64)
    pair[a] = pair[b] = np.arange(a.size)
    one, other = assembly.nets()
    at = pair[assembly.owner[one]]
    at = at[(at != UNCONNECTED) & (at == pair[assembly.owner[other]])]
    key = np.stack([assembly.pool[a], assembly.pool[b], np.bincount(at, minlength=a.size)], axis=1)
    kinds, group = np.unique(key, axis=0, return_inverse=True)
    rank = np.zeros(assembly.partner.size, dtype=np.int64)
    found: dict[tuple[int, int], list[tuple[Ints, StarJoin, BlockPool]]] = {}
    for number, joints in enumerate(kinds[:, 2].tolist()):
        members = np.flatnonzero(group.reshape(-1) == number)
        star, pool = _star(assembly, a[members], b[members], joints, rank)
        found.setdefault((pool.rows.shape[1], pool.cols.shape[1]), []).append((members, star, pool))
    new, stars, shapes = np.empty(a.size, dtype=np.int64), [], {}
    for shape, results in found.items():
        target, start = len(assembly.pools), 0
        for _, star, pool in results:
            assembly.owner[star.ports] = assembly.owner[assembly.partner[star.ports]] = UNCONNECTED
            stars.append(replace(star, target=target, start=start))
            start += pool.rows.shape[0]
        shapes[target] = (start, *shape)
        new[np.concatenate([members for members, _, _ in results])] = assembly.add(
            _concatenated([p for _, _, p in results])
        )
    return JoinRound(tuple(stars), shapes), new


def _concatenated(pools: list[BlockPool]) -> BlockPool:
    pattern = np.ones((1, *pools[0].pattern.shape[1:]), dtype=bool)
    if not all(pool.pattern.all() for pool in pools):
        pattern = np.concatenate([np.broadcast_to(p.pattern, (p.rows.shape[0], *p.pattern.shape[1:])) for p in pools])
    return BlockPool(
        np.concatenate([pool.rows for pool in pools]), np.concatenate([pool.cols for pool in pools]), pattern
    )


def _star(assembly: BlockAssembly, a: Ints, b: Ints, joints: int, rank: Ints) -> tuple[StarJoin, BlockPool]:
    """Joins of blocks of two pools with this number of joints; ``rank`` is a (ports,) work array."""
    side_a, rows_a, cols_a = _side(assembly, a, b, joints, None)
    ports = rows_a[:, rows_a.shape[1] - joints :]
    rank[assembly.partner[ports]] = np.arange(joints)
    side_b, rows_b, cols_b = _side(assembly, b, a, joints, rank)
    outer = [ports[:, : ports.shape[1] - joints] for ports in (rows_a, rows_b, cols_a, cols_b)]
    star = StarJoin(side_a, side_b, ports, 0, 0)
    pattern = _pattern(assembly, star, joints)
    return star, BlockPool(np.hstack(outer[:2]), np.hstack(outer[2:]), pattern)


def _side(
    assembly: BlockAssembly, members: Ints, others: Ints, joints: int, rank: Ints | None
) -> tuple[StarSide, Ints, Ints]:
    """Blocks with their joints last, by rank or else by the block's order; ports of rows and columns in this order."""
    number = int(assembly.pool[members[0]])
    slot = assembly.slot[members]
    orders, ordered = [], []
    for ports in (assembly.pools[number].rows[slot], assembly.pools[number].cols[slot]):
        partner = assembly.partner[ports]
        inner = (partner != UNCONNECTED) & (assembly.owner[partner] == others[:, np.newaxis])
        last = np.arange(ports.shape[1]) if rank is None else rank[ports]
        order = np.argsort(np.where(inner, ports.shape[1] + last, np.arange(ports.shape[1])), axis=1, kind="stable")
        ordered.append(np.take_along_axis(ports, order, axis=1))
        orders.append(order)
    return StarSide(number, slot, orders[0], orders[1]), ordered[0], ordered[1]


def _pattern(assembly: BlockAssembly, star: StarJoin, joints: int) -> Bools:
    """(M or 1, r, c) which S-parameters of the joined blocks may differ from zero."""
    pools = [assembly.pools[side.pool].pattern for side in (star.a, star.b)]
    if joints and all(pattern.all() for pattern in pools):
        shape = (sum(s.rows.shape[1] for s in (star.a, star.b)), sum(s.cols.shape[1] for s in (star.a, star.b)))
        return np.ones((1, shape[0] - 2 * joints, shape[1] - 2 * joints), dtype=bool)
    a, b = (
        _ordered(pattern[np.newaxis].astype(np.float32), side)[0]
        for pattern, side in zip(pools, (star.a, star.b), strict=True)
    )
    a_ee, a_ej, a_je, a_jj = _quarters(a, joints)
    b_ee, b_ej, b_je, b_jj = _quarters(b, joints)
    reach = np.minimum(np.eye(joints, dtype=np.float32) + b_jj @ a_jj, 1.0)
    for _ in range(joints.bit_length()):
        reach = np.minimum(reach @ reach, 1.0)
    p_a, p_b = reach @ np.minimum(b_jj @ a_je, 1.0), reach @ b_je
    upper = [a_ee + a_ej @ p_a, a_ej @ p_b]
    lower = [b_ej @ (a_je + a_jj @ p_a), b_ee + b_ej @ (a_jj @ p_b)]
    return np.concatenate([np.concatenate(upper, axis=-1), np.concatenate(lower, axis=-1)], axis=-2) > 0.0


def _ordered(pool: NDArray[Any], side: StarSide) -> NDArray[Any]:
    """(batch, M, r, c) S-parameters of one side, joints last."""
    batch, count, r, c = pool.shape
    slot = side.slot if count > 1 else np.zeros_like(side.slot)
    flat = (slot * r)[:, np.newaxis, np.newaxis] + side.rows[:, :, np.newaxis]
    return pool.reshape(batch, -1)[:, flat * c + side.cols[:, np.newaxis, :]]


def _quarters(s: NDArray[Any], joints: int) -> tuple[NDArray[Any], ...]:
    """Parts ee, ej, je and jj."""
    r, c = s.shape[-2] - joints, s.shape[-1] - joints
    return s[..., :r, :c], s[..., :r, c:], s[..., r:, :c], s[..., r:, c:]


def join_blocks(star: StarJoin, pools: Mapping[int, Complexes], out: Complexes) -> None:
    """Calculate the S-parameters of M joined pairs of blocks into ``out``, (batch, M, r, c).

    Raises:
        SingularError: A pair has a resonance without loss.
    """
    joints = star.ports.shape[1]
    a_ee, a_ej, a_je, a_jj = _quarters(_ordered(pools[star.a.pool], star.a), joints)
    b_ee, b_ej, b_je, b_jj = _quarters(_ordered(pools[star.b.pool], star.b), joints)
    r, c = a_ee.shape[-2:]
    enhancement = _inverse(np.eye(joints) - b_jj @ a_jj, star)
    p_a, p_b = enhancement @ (b_jj @ a_je), enhancement @ b_je
    np.add(a_ee, a_ej @ p_a, out=out[..., :r, :c])
    np.matmul(a_ej, p_b, out=out[..., :r, c:])
    np.matmul(b_ej, a_je + a_jj @ p_a, out=out[..., r:, :c])
    np.add(b_ee, b_ej @ (a_jj @ p_b), out=out[..., r:, c:])


def _inverse(system: Complexes, star: StarJoin) -> Complexes:
    """The inverses of (batch, M, k, k) matrices."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        try:
            inverse: NDArray[Any] = np.linalg.inv(system) if system.shape[-1] > 1 else 1.0 / system
        except np.linalg.LinAlgError:
            # at least one has no inverse; its smallest singular value shows which
            inverse = 1.0 / np.linalg.svd(system, compute_uv=False)[..., -1:, np.newaxis]
    largest = np.abs(inverse).max(axis=(-2, -1), initial=0.0)
    if not np.all(largest < SINGULAR):
        item, member = np.argwhere(~(largest < SINGULAR))[0].tolist()
        raise SingularError(int(star.ports[member, 0]), item)
    return inverse


def plan_dissection(assembly: BlockAssembly) -> list[JoinRound]:
    """Plan the rounds of joins, in order, that reduce every knot to one block.

    Afterwards no wave returns to a block that it has passed.

    Args:
        assembly: Blocks of the circuit; updated in place, as if the joins were done.
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
    """Halve the pieces of a graph of nodes and edges a-b repeatedly, down to single nodes.

    For each level, (count,) index of each node's piece; the first level is ``piece``, the last has single nodes. The
    halves of piece i are 2 i and 2 i + 1 at the next level; a piece of a single node becomes 2 i.
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
