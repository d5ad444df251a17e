"""Graph of waves: kernels, the dense parts of blocks, which read incoming waves and write outgoing ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.circuit.connectivity import component_labels
from optinc_pdk.simulate.s_parameters.block_assembly import BlockAssembly, Bools, Ints
from optinc_pdk.simulate.s_parameters.reachability import reachable


@dataclass(frozen=True, eq=False)
class KernelPool:
    """M kernels of one pool: parts of its blocks whose outgoing waves depend on the same incoming ones.

    Attributes:
        pool: Number of their blocks' pool.
        slot: (M,) places of the blocks in it.
        rows: (r,) rows of the blocks' S-matrices.
        cols: (c,) columns.
        writes: (M, r) waves that they write.
        reads: (M, c) waves that they read.
    """

    pool: int
    slot: Ints
    rows: Ints
    cols: Ints
    writes: Ints
    reads: Ints


@dataclass(frozen=True, eq=False)
class WaveGraph:
    """The graph of K kernels and their waves.

    A wave has the number of the port at which it arrives; one that leaves the circuit has the number of its port plus
    the number of ports.

    Attributes:
        kernels: K.
        waves: Number of waves.
        reads: (pairs, 2) of kernel and wave, sorted by kernel.
        writes: The same for waves that are written.
    """

    kernels: int
    waves: int
    reads: Ints
    writes: Ints


def find_kernels(assembly: BlockAssembly) -> list[KernelPool]:
    """Kernels of all blocks that are not part of a larger one."""
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
    """The graph of kernels in a circuit with this number of ports."""
    first, reads, writes = 0, [np.zeros((0, 2), dtype=np.int64)], [np.zeros((0, 2), dtype=np.int64)]
    for each in kernels:
        number = first + np.arange(each.slot.size)
        for pairs, waves in ((reads, each.reads), (writes, each.writes)):
            pairs.append(np.stack([np.repeat(number, waves.shape[1]), waves.reshape(-1)], axis=1))
        first += each.slot.size
    return WaveGraph(first, 2 * ports, np.concatenate(reads), np.concatenate(writes))


def kernels_between(flow: WaveGraph, sources: Ints, sinks: Ints) -> Bools:
    """(K,) boolean mask of the kernels on paths from source waves to sink waves."""
    tail = np.concatenate([flow.kernels + flow.reads[:, 1], flow.writes[:, 0]])
    head = np.concatenate([flow.reads[:, 0], flow.kernels + flow.writes[:, 1]])
    kept = np.ones(flow.kernels, dtype=bool)
    for one, other, waves in ((tail, head, sources), (head, tail, sinks)):
        start = np.zeros(flow.kernels + flow.waves, dtype=bool)
        start[flow.kernels + waves] = True
        kept &= reachable(one, other, start)[: flow.kernels]
    return kept


def kernel_levels(flow: WaveGraph, kept: Bools) -> Ints:
    """(K,) topological level of each kernel: length of the longest path to it; -1 where not kept or within a cycle."""
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
    """(waves,) number of the connected part of the graph that each wave is in."""
    pairs = np.concatenate([reads, writes])
    result = component_labels(flow.kernels + flow.waves, pairs[:, 0], flow.kernels + pairs[:, 1])
    return result[flow.kernels :]
