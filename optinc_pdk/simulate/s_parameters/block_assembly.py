"""A circuit as connected blocks, each described by an S-matrix: first the devices, then the results of joining blocks.

Blocks of one shape and one pattern of zeros form a pool and are processed as one batch. The ports are the optical ports
of the circuit and one virtual port behind every photodiode and modulator. The light of a photodiode is read at its
virtual port; the light of a modulator starts at its virtual port.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from optinc_pdk.arrays import Bools, Ints
from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.simulate.circuit_optics import MODULATOR, PHOTODIODE, CircuitOptics


@dataclass(frozen=True, eq=False)
class BlockPool:
    """Batch of M blocks of equal shape, each with r outgoing and c incoming waves.

    Attributes:
        rows: (M, r) port of each outgoing wave.
        cols: (M, c) port of each incoming wave.
        pattern: (M or 1, r, c) boolean mask of the S-parameters that may differ from zero; one mask if all blocks share
            it.
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
        cols: (c,) columns of the device's S-matrix that the blocks keep.
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
        owner: (ports,) block of which each port is an open port; -1 for ports inside a block and for unused ports.
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
        """Return a (blocks,) boolean mask of the blocks that are not part of a larger block."""
        used = np.zeros(self.pool.size, dtype=bool)
        used[self.owner[self.owner != UNCONNECTED]] = True
        return used


def virtual_ports(structure: CircuitOptics) -> Ints:
    """Return the (labels,) port at which the light of each label enters and leaves the circuit.

    This is the optical port of a fibre, or the virtual port of a photodiode or modulator.
    """
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
    """Make one block of every device of a circuit.

    A block keeps only the waves that can arrive at or leave the device, given the labels in use.

    Args:
        structure: Optical structure of the circuit.
        patterns: Component index to (p, p) boolean mask of the S-parameters that may differ from zero.
        outs: (O,) indices of the labels at which light is detected.
        ins: (I,) indices of the labels at which light enters.

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
