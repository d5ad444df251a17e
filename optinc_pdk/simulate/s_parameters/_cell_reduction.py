"""Reduction of repeated cells, such as an MZI's couplers, arms and heaters, to one block each.

Two blocks are joined if the result has no more ports than the larger of the two. The order of joins is planned once;
S-parameters are vectors over a batch of equal cells, and entries that are zero by structure are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optinc_pdk.arrays import Bools, Complexes, Ints
from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.simulate.s_parameters.block_assembly import BlockAssembly, BlockPool

Entries = dict[tuple[int, int], Complexes]
"""S-parameters by row and column, (batch, M) each; missing ones are zero."""

SINGULAR = 1e10
"""Largest field enhancement of a resonance. Above it the result depends on rounding of the phases, which is 1e-13 of a
few 1000 rad."""


class SingularError(ValueError):
    """The S-matrix does not exist because a resonance without loss traps light.

    Attributes:
        port: A port within the resonance.
        item: Index of the case within the batch.
    """

    def __init__(self, port: int, item: int) -> None:
        super().__init__(f"light is trapped at port {port}, item {item} of the batch")
        self.port = port
        self.item = item


@dataclass(frozen=True, eq=False)
class BlockNet:
    """Rows and columns of the waves at the two ports of a net; indices count the first block and then the second."""

    rows: tuple[int, int]
    cols: tuple[int, int]


@dataclass(frozen=True, eq=False)
class CellJoin:
    """M equal joins: of two blocks along all nets between them, or of a block with itself along its own nets.

    Row and column indices count the first block and then the second.

    Attributes:
        pools: Index of the pool of each block: two, or one if a block is joined with itself.
        slots: For each pool, (M,) indices of the blocks within it.
        nets: Nets that the join connects.
        ports: (M,) a port of the first net, for error messages.
        rows: Rows that remain in the result.
        cols: Columns that remain in the result.
        target: Index of the pool of the results.
        start: Index of the first result within that pool.
    """

    pools: tuple[int, ...]
    slots: tuple[Ints, ...]
    nets: tuple[BlockNet, ...]
    ports: Ints
    rows: tuple[int, ...]
    cols: tuple[int, ...]
    target: int
    start: int


def reduce_cells(assembly: BlockAssembly) -> list[CellJoin]:
    """Plan the joins, in order, that reduce every repeated cell to one block.

    Args:
        assembly: Blocks of the circuit; updated in place, as if the joins were done.
    """
    one, other = assembly.nets()
    looped = np.unique(assembly.owner[one[assembly.owner[one] == assembly.owner[other]]])
    joints = _plan(assembly, looped, looped) if looped.size else []
    while True:
        a, b = _matched(assembly)
        if not a.size:
            return joints
        joints += _plan(assembly, a, b)


def _matched(assembly: BlockAssembly) -> tuple[Ints, Ints]:
    """Pairs of blocks to join next, no block twice: for each block the join that removes most ports.

    Among equals it is the most frequent kind of join, so that equal cells are reduced equally.
    """
    one, other = assembly.nets()
    swapped = assembly.pool[assembly.owner[one]] > assembly.pool[assembly.owner[other]]
    one, other = np.where(swapped, other, one), np.where(swapped, one, other)
    pair, first, nets = np.unique(
        assembly.owner[one] * assembly.pool.size + assembly.owner[other], return_index=True, return_counts=True
    )
    a, b = pair // assembly.pool.size, pair % assembly.pool.size
    size = assembly.sizes()
    fits = size[a] + size[b] - 4 * nets <= np.maximum(size[a], size[b])
    a, b, nets, first = a[fits], b[fits], nets[fits], first[fits]
    kind = (assembly.pool[a] * len(assembly.pools) + assembly.pool[b]) * assembly.width() + assembly.row[one[first]]
    kind = np.unique(kind * assembly.width() + assembly.row[other[first]], return_inverse=True)[1].reshape(-1)
    # scrambled last, because joins of one kind along a chain would otherwise be done one per round
    scrambled = (np.arange(a.size, dtype=np.int64) * 2654435761) % (1 << 32)
    rank = np.empty(a.size, dtype=np.int64)
    rank[np.lexsort((scrambled, kind, np.bincount(kind, minlength=1)[kind], nets))] = np.arange(a.size)
    best = np.full(assembly.pool.size, -1, dtype=np.int64)
    np.maximum.at(best, a, rank)
    np.maximum.at(best, b, rank)
    chosen = (best[a] == rank) & (best[b] == rank)
    return a[chosen], b[chosen]


def _plan(assembly: BlockAssembly, a: Ints, b: Ints) -> list[CellJoin]:
    """Plan joins of pairs of blocks; a pair of equal numbers is a join of a block with itself."""
    swapped = assembly.pool[a] > assembly.pool[b]
    a, b = np.where(swapped, b, a), np.where(swapped, a, b)
    pair, places, first = _nets_of_pairs(assembly, a, b)
    groups = _equal_groups(assembly.pool[a] * len(assembly.pools) + assembly.pool[b], pair, places, assembly.width())
    joints: list[CellJoin] = []
    results: dict[tuple[tuple[int, ...], bytes], list[tuple[CellJoin, BlockPool]]] = {}
    for members in groups:
        at = members[0]
        nets = places[pair == at]
        joint, pool = _joint(assembly, a[members], b[members], nets, first[members])
        key = (pool.pattern.shape, pool.pattern.tobytes())
        results.setdefault(key, []).append((joint, pool))
    for group in results.values():
        target, start = len(assembly.pools), 0
        for joint, pool in group:
            joints.append(replace(joint, target=target, start=start))
            start += len(pool.rows)
        assembly.add(
            BlockPool(
                np.concatenate([pool.rows for _, pool in group]),
                np.concatenate([pool.cols for _, pool in group]),
                group[0][1].pattern,
            )
        )
    return joints


def _nets_of_pairs(assembly: BlockAssembly, a: Ints, b: Ints) -> tuple[Ints, Ints, Ints]:
    """Nets between the blocks of pairs, sorted by pair: the pair, (nets, 4) rows and columns, and a port of each pair.

    The ports of these nets get no owner any more.
    """
    number = np.full(assembly.pool.size, UNCONNECTED, dtype=np.int64)
    number[a] = number[b] = np.arange(a.size)
    first = np.zeros(assembly.pool.size, dtype=bool)
    first[a] = True
    one, other = assembly.nets()
    pair = number[assembly.owner[one]]
    inner = (pair != UNCONNECTED) & (pair == number[assembly.owner[other]])
    one, other, pair = one[inner], other[inner], pair[inner]
    swapped = ~first[assembly.owner[one]]
    one, other = np.where(swapped, other, one), np.where(swapped, one, other)
    row, col = assembly.row, assembly.col
    places = np.stack([row[one], col[one], row[other], col[other]], axis=1)
    order = np.lexsort((places[:, 0], pair))
    ports = np.zeros(a.size, dtype=np.int64)
    ports[pair[order]] = one[order]
    assembly.owner[one] = assembly.owner[other] = UNCONNECTED
    return pair[order], places[order], ports


def _equal_groups(label: Ints, pair: Ints, places: Ints, width: int) -> list[Ints]:
    """Groups of pairs with equal pools and nets; ``places`` are below ``width``."""
    count = np.bincount(pair, minlength=label.size)
    rank = np.arange(pair.size) - (np.cumsum(count) - count)[pair]
    code = ((places[:, 0] * width + places[:, 1]) * width + places[:, 2]) * width + places[:, 3]
    for step in range(int(count.max(initial=0))):
        column = np.zeros(label.size, dtype=np.int64)
        here = rank == step
        column[pair[here]] = code[here] + 1
        label = np.unique(label, return_inverse=True)[1].reshape(-1) * (width**4 + 1) + column
    order = np.argsort(label, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(label[order])) + 1)


def _joint(assembly: BlockAssembly, a: Ints, b: Ints, places: Ints, ports: Ints) -> tuple[CellJoin, BlockPool]:
    """One batch of equal joins, and the pool of its results."""
    blocks = (a,) if a[0] == b[0] else (a, b)
    numbers = tuple(int(assembly.pool[each[0]]) for each in blocks)
    slots = tuple(assembly.slot[each] for each in blocks)
    pools = [assembly.pools[number] for number in numbers]
    shift = pools[0].pattern.shape[1:] if len(pools) == 2 else (0, 0)
    nets = tuple(BlockNet((r, s + shift[0]), (c, d + shift[1])) for r, c, s, d in places.tolist())
    rows = np.hstack([pool.rows[slot] for pool, slot in zip(pools, slots, strict=True)])
    cols = np.hstack([pool.cols[slot] for pool, slot in zip(pools, slots, strict=True)])
    keep_rows = tuple(i for i in range(rows.shape[1]) if all(i not in net.rows for net in nets))
    keep_cols = tuple(i for i in range(cols.shape[1]) if all(i not in net.cols for net in nets))
    joint = CellJoin(numbers, slots, nets, ports, keep_rows, keep_cols, 0, 0)
    pattern = _joined_pattern([pool.pattern[0] for pool in pools], joint)
    return joint, BlockPool(rows[:, list(keep_rows)], cols[:, list(keep_cols)], pattern[np.newaxis])


def _joined_pattern(patterns: list[Bools], joint: CellJoin) -> Bools:
    s = np.zeros(np.sum([pattern.shape for pattern in patterns], axis=0), dtype=bool)
    row = col = 0
    for pattern in patterns:
        s[row : row + pattern.shape[0], col : col + pattern.shape[1]] = pattern
        row, col = row + pattern.shape[0], col + pattern.shape[1]
    for net in joint.nets:
        (p, q), (into_p, into_q) = net.rows, net.cols
        from_q = s[:, into_p] | (s[:, into_q] & s[p, into_p])
        from_p = s[:, into_q] | (s[:, into_p] & s[q, into_q])
        s = s | np.outer(from_q, s[q]) | np.outer(from_p, s[p])
    return s[np.ix_(joint.rows, joint.cols)]


def join_cells(joint: CellJoin, pools: Mapping[int, Entries], shapes: Sequence[tuple[int, int, int]]) -> Entries:
    """Calculate the S-parameters of M joined blocks by connecting the nets between them one after the other.

    S-parameters are row and column to (batch, M or 1) values, by pool; ``shapes`` are (M, r, c) of every pool.

    Raises:
        SingularError: A join creates a resonance without loss.
    """
    s: Entries = {}
    row = col = 0
    for number, slots in zip(joint.pools, joint.slots, strict=True):
        for (i, j), value in pools[number].items():
            s[row + i, col + j] = value if value.shape[1] == 1 else value[:, slots]
        row, col = row + shapes[number][1], col + shapes[number][2]
    for net in joint.nets:
        s = _with_net(s, net, joint)
    row_place = {i: place for place, i in enumerate(joint.rows)}
    col_place = {j: place for place, j in enumerate(joint.cols)}
    return {(row_place[i], col_place[j]): value for (i, j), value in s.items()}


def _with_net(s: Entries, net: BlockNet, joint: CellJoin) -> Entries:
    """S-parameters after connecting one net, without the net's ports."""
    into_net = _waves_into_net(s, net, joint)
    arriving: dict[int, list[Complexes | None]] = {}
    for (i, j), value in s.items():
        if i not in net.rows and j in net.cols:
            arriving.setdefault(i, [None, None])[net.cols.index(j)] = value
    leaving = [{j: value for (i, j), value in s.items() if i == row and j not in net.cols} for row in net.rows]
    joined = {(i, j): value for (i, j), value in s.items() if i not in net.rows and j not in net.cols}
    for i, (by_p, by_q) in arriving.items():
        for end in (0, 1):
            weight = _sum(_product(by_p, into_net[0][end]), _product(by_q, into_net[1][end]))
            if weight is None:
                continue
            for j, value in leaving[end].items():
                passed = weight * value
                joined[i, j] = joined[i, j] + passed if (i, j) in joined else passed
    return joined


def _waves_into_net(s: Entries, net: BlockNet, joint: CellJoin) -> list[list[Complexes | float | None]]:
    """Waves into ports p and q of a net, per wave that would leave p or q without it; None where zero::

        a_p = (S_qq f_p + (1 - S_pq) f_q) / D        D = (1 - S_pq) (1 - S_qp) - S_pp S_qq
        a_q = ((1 - S_qp) f_p + S_pp f_q) / D

    Source:
        Filipsson, Proc. 11th European Microwave Conf., 700 (1981).
    """
    (p, q), (into_p, into_q) = net.rows, net.cols
    pp, pq, qp, qq = s.get((p, into_p)), s.get((p, into_q)), s.get((q, into_p)), s.get((q, into_q))
    there: Complexes | float = 1.0 if pq is None else 1.0 - pq
    back: Complexes | float = 1.0 if qp is None else 1.0 - qp
    round_trip = None if pp is None or qq is None else pp * qq
    if pq is None and qp is None and round_trip is None:
        return [[qq, 1.0], [1.0, pp]]
    determinant = there * back if round_trip is None else there * back - round_trip
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        inverse = 1.0 / np.asarray(determinant, dtype=np.complex128)
        by_p, by_q = [_product(qq, inverse), there * inverse], [back * inverse, _product(pp, inverse)]
        largest = np.max([np.broadcast_to(np.abs(x), inverse.shape) for x in by_p + by_q if x is not None], axis=0)
    if not np.all(largest < SINGULAR):
        item, member = np.argwhere(~(largest < SINGULAR))[0].tolist()
        raise SingularError(int(joint.ports[member]), item)
    return [[*by_p], [*by_q]]


def _product(x: Complexes | None, y: Complexes | float | None) -> Complexes | None:
    if x is None or y is None:
        return None
    return x if isinstance(y, float) else x * y


def _sum(x: Complexes | None, y: Complexes | None) -> Complexes | None:
    return y if x is None else x if y is None else x + y
