"""A circuit as connected blocks, each described by an S-matrix, and the waves between them.

Blocks, first the devices and then the results of joins, form pools of one shape and one pattern of zeros, which are
processed as one batch. The ports are the optical ports of the circuit and one virtual port behind every photodiode and
modulator, at which their light is read or starts. A kernel is a dense part of a block that reads incoming waves and
writes outgoing ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from optinc_pdk.arrays import Bools, Ints
from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.circuit.netlist import component_labels
from optinc_pdk.simulate.circuit_optics import MODULATOR, PHOTODIODE, CircuitOptics


@dataclass(frozen=True, eq=False)
class BlockPool:
    """Batch of M blocks of equal shape, each with r outgoing and c incoming waves.

    Attributes:
        rows: (M, r) port of each outgoing wave.
        cols: (M, c) port of each incoming wave.
        pattern: (M or 1, r, c) mask of the S-parameters that may differ from zero; one mask if all blocks share it.
    """

    rows: Ints
    cols: Ints
    pattern: Bools


@dataclass(frozen=True, eq=False)
class PoolDevices:
    """Devices that the M blocks of a pool represent.

    Attributes:
        group: Index of the component in ``CircuitOptics.devices``.
        members: (M,) indices of the instances within the component.
        rows: (r,) rows of the device's S-matrix that the blocks keep.
        cols: (c,) columns that they keep.
    """

    group: int
    members: Ints
    rows: Ints
    cols: Ints


@dataclass
class BlockAssembly:
    """Blocks of a circuit and their connections, updated while joins are planned.

    A port is open if it connects its block to another block or to the outside of the circuit.

    Attributes:
        partner: (ports,) port that each port is connected to; -1 at the edge of the circuit.
        pools: Pools of all blocks, including blocks that have since become part of larger ones.
        pool: (blocks,) index of each block's pool.
        slot: (blocks,) index of each block within its pool.
        owner: (ports,) block of each open port; -1 for ports inside a block and for unused ports.
        row: (ports,) row of each open port's outgoing wave in its block.
        col: (ports,) column of each open port's incoming wave in its block.
    """

    partner: Ints
    pools: list[BlockPool] = field(default_factory=list)
    pool: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    slot: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    owner: Ints = field(init=False)
    row: Ints = field(init=False)
    col: Ints = field(init=False)

    def __post_init__(self) -> None:
        """Start without blocks."""
        self.owner = np.full(self.partner.size, UNCONNECTED, dtype=np.int64)
        self.row, self.col = np.zeros_like(self.owner), np.zeros_like(self.owner)

    def add(self, pool: BlockPool) -> Ints:
        """Add a pool of M blocks and return the (M,) indices of the new blocks."""
        count = pool.rows.shape[0]
        new = self.pool.size + np.arange(count)
        self.pool = np.concatenate([self.pool, np.full(count, len(self.pools))])
        self.slot = np.concatenate([self.slot, np.arange(count)])
        self.pools.append(pool)
        for ports, place in ((pool.rows, self.row), (pool.cols, self.col)):
            self.owner[ports] = new[:, np.newaxis]
            place[ports] = np.arange(ports.shape[1])
        return new

    def nets(self) -> tuple[Ints, Ints]:
        """Return both ports of every net between open ports, as two arrays of shape (nets,)."""
        one = np.flatnonzero((self.partner > np.arange(self.partner.size)) & (self.owner != UNCONNECTED))
        return one, self.partner[one]

    def sizes(self) -> Ints:
        """Return the (blocks,) number of rows plus columns of every block."""
        width = np.array([pool.rows.shape[1] + pool.cols.shape[1] for pool in self.pools], dtype=np.int64)
        return width[self.pool]

    def width(self) -> int:
        """Return the largest number of rows or columns of any block."""
        return max((max(pool.rows.shape[1], pool.cols.shape[1]) for pool in self.pools), default=0)

    def live(self) -> Bools:
        """Return a (blocks,) mask of the blocks that are not part of a larger block."""
        used = np.zeros(self.pool.size, dtype=bool)
        used[self.owner[self.owner != UNCONNECTED]] = True
        return used


def virtual_ports(structure: CircuitOptics) -> Ints:
    """Return the (labels,) port of each label: that of a fibre, or the virtual port of a photodiode or modulator."""
    inside = structure.partner[structure.label_port] != UNCONNECTED
    return np.where(inside, structure.ports + np.cumsum(inside) - 1, structure.label_port).astype(np.int64)


def device_ports(structure: CircuitOptics) -> list[Ints]:
    """Return the (I, p) ports of the I instances of every component, including virtual ports."""
    outer = np.full(structure.ports, UNCONNECTED, dtype=np.int64)
    outer[structure.label_port] = virtual_ports(structure)
    return [
        np.hstack([group.port, outer[group.port[:, -1:]]]) if group.name in (PHOTODIODE, MODULATOR) else group.port
        for group in structure.devices
    ]


def device_blocks(
    structure: CircuitOptics, patterns: Mapping[int, Bools], outs: Ints, ins: Ints
) -> tuple[BlockAssembly, list[PoolDevices]]:
    """Make one block of every device; it keeps only the waves that can arrive or leave, given the labels in use.

    ``outs`` and ``ins`` are indices of labels; ``patterns`` are (p, p) masks of S-parameters that may differ from zero,
    by index of the component. The devices of each pool are returned, too.
    """
    ports_of_labels = virtual_ports(structure)
    size = structure.ports + int((structure.partner[structure.label_port] != UNCONNECTED).sum())
    partner = np.full(size, UNCONNECTED, dtype=np.int64)
    partner[: structure.ports] = structure.partner
    leaving, arriving = partner != UNCONNECTED, partner != UNCONNECTED
    leaving[ports_of_labels[outs]] = True
    arriving[ports_of_labels[ins]] = True
    assembly, leaves = BlockAssembly(partner), []
    for number, ports in enumerate(device_ports(structure)):
        width = ports.shape[1]
        kept = np.hstack([leaving[ports], arriving[ports]])
        for mask in np.unique(kept, axis=0) if not kept.all() else np.ones((1, 2 * width), dtype=bool):
            members = np.flatnonzero((kept == mask).all(axis=1))
            rows, cols = np.flatnonzero(mask[:width]), np.flatnonzero(mask[width:])
            assembly.add(
                BlockPool(
                    ports[members][:, rows],
                    ports[members][:, cols],
                    patterns[number][np.newaxis, rows[:, np.newaxis], cols],
                )
            )
            leaves.append(PoolDevices(number, members, rows, cols))
    return assembly, leaves


def reachable(tail: Ints, head: Ints, start: Bools) -> Bools:
    """Return a (nodes,) mask of the nodes that can be reached from those of a mask, which are included.

    ``scipy.sparse.csgraph`` offers the same, but importing it takes three times as long as simulating a mesh of 64
    modes.

    Args:
        tail: (edges,) node at which each edge begins.
        head: (edges,) node at which each edge ends.
        start: (nodes,) mask of source nodes.
    """
    order = np.argsort(tail, kind="stable")
    head = head[order]
    first = np.searchsorted(tail[order], np.arange(start.size + 1))
    visited, front = start.copy(), np.flatnonzero(start)
    while front.size:
        count = first[front + 1] - first[front]
        edge = np.repeat(first[front] - (np.cumsum(count) - count), count) + np.arange(count.sum())
        new = head[edge]
        front = np.unique(new[~visited[new]])
        visited[front] = True
    return visited


@dataclass(frozen=True, eq=False)
class KernelPool:
    """M kernels of one pool: the parts of its blocks whose outgoing waves depend on the same incoming waves.

    Attributes:
        pool: Index of the blocks' pool.
        slot: (M,) indices of the blocks within the pool.
        rows: (r,) rows of the blocks' S-matrices.
        cols: (c,) columns of the blocks' S-matrices.
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
    """Graph of kernels and the waves between them.

    The index of a wave is that of the port at which it arrives, or, if it leaves the circuit, that of its port plus the
    number of ports.

    Attributes:
        kernels: Number of kernels.
        waves: Number of waves.
        reads: (pairs, 2) index of a kernel and of a wave that it reads, sorted by kernel.
        writes: (pairs, 2) the same for waves that it writes.
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
    """Build the graph of kernels and waves of a circuit of this number of ports."""
    first, reads, writes = 0, [np.zeros((0, 2), dtype=np.int64)], [np.zeros((0, 2), dtype=np.int64)]
    for each in kernels:
        number = first + np.arange(each.slot.size)
        for pairs, waves in ((reads, each.reads), (writes, each.writes)):
            pairs.append(np.stack([np.repeat(number, waves.shape[1]), waves.reshape(-1)], axis=1))
        first += each.slot.size
    return WaveGraph(first, 2 * ports, np.concatenate(reads), np.concatenate(writes))


def kernels_between(flow: WaveGraph, sources: Ints, sinks: Ints) -> Bools:
    """Return a (kernels,) mask of the kernels on paths from source waves to sink waves, both given by index."""
    tail = np.concatenate([flow.kernels + flow.reads[:, 1], flow.writes[:, 0]])
    head = np.concatenate([flow.reads[:, 0], flow.kernels + flow.writes[:, 1]])
    kept = np.ones(flow.kernels, dtype=bool)
    for one, other, waves in ((tail, head, sources), (head, tail, sinks)):
        start = np.zeros(flow.kernels + flow.waves, dtype=bool)
        start[flow.kernels + waves] = True
        kept &= reachable(one, other, start)[: flow.kernels]
    return kept


def kernel_levels(flow: WaveGraph, kept: Bools) -> Ints:
    """Return the (kernels,) number of kernels before each on the longest path to it.

    It is -1 for kernels outside the mask ``kept``, and for those within or behind a cycle.
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
    """Return the (waves,) component of each wave in the graph with subsets of its ``reads`` and ``writes``."""
    pairs = np.concatenate([reads, writes])
    result = component_labels(flow.kernels + flow.waves, pairs[:, 0], flow.kernels + pairs[:, 1])
    return result[flow.kernels :]
