"""Graph of waves and kernels. Kernels are dense parts of blocks that read incoming waves and write outgoing ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Bools, Ints
from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.circuit.netlist import component_labels
from optinc_pdk.simulate.s_parameters.block_assembly import BlockAssembly
from optinc_pdk.simulate.s_parameters.reachability import reachable


@dataclass(frozen=True, eq=False)
class KernelPool:
    """M kernels of one pool: the parts of its blocks whose outgoing waves depend on the same incoming waves.

    Attributes:
        pool: Index of the blocks' pool.
        slot: (M,) indices of the blocks within the pool.
        rows: (r,) rows of the blocks' S-matrices that belong to the kernel.
        cols: (c,) columns of the blocks' S-matrices that belong to the kernel.
        writes: (M, r) indices of the outgoing waves.
        reads: (M, c) indices of the incoming waves.
    """

    pool: int
    slot: Ints
    rows: Ints
    cols: Ints
    writes: Ints
    reads: Ints


@dataclass(frozen=True, eq=False)
class WaveGraph:
    """Graph of K kernels and the waves between them.

    The index of a wave is the index of the port at which it arrives. For a wave that leaves the circuit it is the index
    of its port plus the number of ports.

    Attributes:
        kernels: Number of kernels, K.
        waves: Number of waves.
        reads: (pairs, 2) index of a kernel and of a wave that it reads, sorted by kernel.
        writes: (pairs, 2) index of a kernel and of a wave that it writes, sorted by kernel.
    """

    kernels: int
    waves: int
    reads: Ints
    writes: Ints


def find_kernels(assembly: BlockAssembly) -> list[KernelPool]:
    """Return the kernels of all blocks that are not part of a larger block."""
    ports = assembly.partner.size
    target = np.where(assembly.partner == UNCONNECTED, ports + np.arange(ports), assembly.partner)
    left = assembly.live()
    result = []
    for number, pool in enumerate(assembly.pools):
        slots_left = assembly.slot[(assembly.pool == number) & left]
        for pattern, slot in _by_pattern(pool.pattern, slots_left):
            sets, of_row = np.unique(pattern, axis=0, return_inverse=True)
            for kind, columns in enumerate(sets):
                rows, cols = np.flatnonzero(of_row.reshape(-1) == kind), np.flatnonzero(columns)
                if cols.size:
                    result.append(
                        KernelPool(number, slot, rows, cols, target[pool.rows[slot][:, rows]], pool.cols[slot][:, cols])
                    )
    return result


def _by_pattern(pattern: Bools, slot: Ints) -> list[tuple[Bools, Ints]]:
    if not slot.size or not pattern.size:
        return []
    if pattern.shape[0] == 1:
        return [(pattern[0], slot)]
    flat, kind = np.unique(pattern[slot].reshape(slot.size, -1), axis=0, return_inverse=True)
    return [(each.reshape(pattern.shape[1:]), slot[kind.reshape(-1) == i]) for i, each in enumerate(flat)]


def wave_graph(kernels: list[KernelPool], ports: int) -> WaveGraph:
    """Build the graph of kernels and waves.

    Args:
        kernels: The kernels, by pool.
        ports: Number of ports of the circuit.
    """
    first, reads, writes = 0, [np.zeros((0, 2), dtype=np.int64)], [np.zeros((0, 2), dtype=np.int64)]
    for each in kernels:
        number = first + np.arange(each.slot.size)
        for pairs, waves in ((reads, each.reads), (writes, each.writes)):
            pairs.append(np.stack([np.repeat(number, waves.shape[1]), waves.reshape(-1)], axis=1))
        first += each.slot.size
    return WaveGraph(first, 2 * ports, np.concatenate(reads), np.concatenate(writes))


def kernels_between(flow: WaveGraph, sources: Ints, sinks: Ints) -> Bools:
    """Return a (K,) boolean mask of the kernels on paths from source waves to sink waves.

    Args:
        flow: The graph.
        sources: Indices of the source waves.
        sinks: Indices of the sink waves.
    """
    tail = np.concatenate([flow.kernels + flow.reads[:, 1], flow.writes[:, 0]])
    head = np.concatenate([flow.reads[:, 0], flow.kernels + flow.writes[:, 1]])
    kept = np.ones(flow.kernels, dtype=bool)
    for one, other, waves in ((tail, head, sources), (head, tail, sinks)):
        start = np.zeros(flow.kernels + flow.waves, dtype=bool)
        start[flow.kernels + waves] = True
        kept &= reachable(one, other, start)[: flow.kernels]
    return kept


def kernel_levels(flow: WaveGraph, kept: Bools) -> Ints:
    """Compute the topological level of each kernel: the number of kernels before it on the longest path to it.

    Args:
        flow: The graph.
        kept: (K,) boolean mask of the kernels to consider.

    Returns:
        (K,) levels, from 0; -1 for kernels that are not kept, or are within or behind a cycle.
    """
    reads, writes = (pairs[kept[pairs[:, 0]]] for pairs in (flow.reads, flow.writes))
    writer = np.full(flow.waves, UNCONNECTED, dtype=np.int64)
    writer[writes[:, 1]] = writes[:, 0]
    before, after = writer[reads[:, 1]], reads[:, 0]
    order = np.argsort(before, kind="stable")[np.count_nonzero(before == UNCONNECTED) :]
    before, after = before[order], after[order]
    waiting = np.bincount(after, minlength=flow.kernels)
    start = np.searchsorted(before, np.arange(flow.kernels + 1))
    level = np.full(flow.kernels, UNCONNECTED, dtype=np.int64)
    front, depth = np.flatnonzero(kept & (waiting == 0)), 0
    while front.size:
        level[front] = depth
        count = start[front + 1] - start[front]
        edge = np.repeat(start[front] - (np.cumsum(count) - count), count) + np.arange(count.sum())
        np.subtract.at(waiting, after[edge], 1)
        front = np.unique(after[edge])
        front, depth = front[waiting[front] == 0], depth + 1
    return level


def connected_parts(flow: WaveGraph, reads: Ints, writes: Ints) -> Ints:
    """Compute the connected component of the graph that each wave belongs to.

    Args:
        flow: The graph, for its numbers of kernels and waves.
        reads: (pairs, 2) kernels and waves that they read, a subset of ``flow.reads``.
        writes: (pairs, 2) kernels and waves that they write, a subset of ``flow.writes``.

    Returns:
        (waves,) index of each wave's component.
    """
    pairs = np.concatenate([reads, writes])
    result = component_labels(flow.kernels + flow.waves, pairs[:, 0], flow.kernels + pairs[:, 1])
    return result[flow.kernels :]
