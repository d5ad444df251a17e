"""A circuit as blocks, S-matrices connected port to port: first the devices, then the results of their joins.

Blocks of one shape and one pattern of zeros are in one pool, so that they are processed as one batch. Ports are the
circuit's optical ports and, behind every photodiode and modulator, one virtual port: there a photodiode's light is read
and a modulator's light starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.simulate.circuit_optics import MODULATOR, PHOTODIODE, CircuitOptics

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class BlockPool:
    """M blocks of one shape, with r outgoing and c incoming waves each.

    Attributes:
        rows: (M, r) ports of the outgoing waves.
        cols: (M, c) ports of the incoming waves.
        pattern: (M or 1, r, c) which S-parameters may differ from zero.
    """

    rows: Ints
    cols: Ints
    pattern: Bools


@dataclass(frozen=True, eq=False)
class PoolDevices:
    """The devices of which a pool consists.

    Attributes:
        group: Number of the component in the structure.
        members: (M,) numbers of its instances.
        rows: (r,) rows of the device's S-matrix that are kept.
        cols: (c,) columns that are kept.
    """

    group: int
    members: Ints
    rows: Ints
    cols: Ints


@dataclass
class BlockAssembly:
    """Blocks while their joins are planned.

    Attributes:
        partner: (ports,) the port that each one is connected to, -1 at the circuit's edge.
        pools: All blocks, also those that are part of larger ones by now.
        pool: (blocks,) pool of each block.
        slot: (blocks,) its place in there.
        owner: (ports,) block that each port is an open port of; -1 for ports inside a block and unused ones.
        row: (ports,) row of each port within its block.
        col: (ports,) column.
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
        """Add a pool of blocks and return their numbers."""
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
        """Both ports of every net between open ports."""
        one = np.flatnonzero((self.partner > np.arange(self.partner.size)) & (self.owner != UNCONNECTED))
        return one, self.partner[one]

    def sizes(self) -> Ints:
        """(blocks,) number of rows plus columns of every block."""
        width = np.array([pool.rows.shape[1] + pool.cols.shape[1] for pool in self.pools], dtype=np.int64)
        return width[self.pool]

    def width(self) -> int:
        """Largest number of rows or columns of a block."""
        return max((max(pool.rows.shape[1], pool.cols.shape[1]) for pool in self.pools), default=0)

    def live(self) -> Bools:
        """(blocks,) boolean mask of the blocks that are not part of a larger one."""
        used = np.zeros(self.pool.size, dtype=bool)
        used[self.owner[self.owner != UNCONNECTED]] = True
        return used


def virtual_ports(structure: CircuitOptics) -> Ints:
    """(labels,) port of each label: a fibre's optical port, a virtual port for photodiodes and modulators."""
    inside = structure.partner[structure.label_port] != UNCONNECTED
    return np.where(inside, structure.ports + np.cumsum(inside) - 1, structure.label_port).astype(np.int64)


def device_ports(structure: CircuitOptics) -> list[Ints]:
    """(I, p) ports of every component's instances, virtual ports of photodiodes and modulators included."""
    outer = np.full(structure.ports, UNCONNECTED, dtype=np.int64)
    outer[structure.label_port] = virtual_ports(structure)
    return [
        np.hstack([group.port, outer[group.port[:, -1:]]]) if group.name in (PHOTODIODE, MODULATOR) else group.port
        for group in structure.devices
    ]


def device_blocks(
    structure: CircuitOptics, patterns: Mapping[int, Bools], outs: Ints, ins: Ints
) -> tuple[BlockAssembly, list[PoolDevices]]:
    """Make blocks of a circuit's devices.

    Args:
        structure: The circuit.
        patterns: Component number to (p, p), which S-parameters may differ from zero.
        outs: Numbers of the labels at which light is detected.
        ins: Numbers of the labels from which light comes.

    Returns:
        The blocks, and the devices of each pool.
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
