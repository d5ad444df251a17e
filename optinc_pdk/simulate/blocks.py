"""A circuit as blocks that are joined port to port: the devices first, then what they are joined to.

Blocks of one shape and one pattern of zeros lie in one pool, so that whatever is done to them is done to all at once.
Only ports matter here: the circuit's optical ports, and behind every photodiode and modulator one more, at which what
it sees is read and where its light starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.simulate.structure import MODULATOR, PHOTODIODE, Structure

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Pool:
    """M blocks of one shape: r waves out of them, c waves into them.

    Attributes:
        rows: (M, r) ports whose waves leave.
        cols: (M, c) ports whose waves arrive.
        pattern: (M or 1, r, c) which S-parameters may differ from zero.
    """

    rows: Ints
    cols: Ints
    pattern: Bools


@dataclass(frozen=True, eq=False)
class Leaf:
    """Where a pool of devices comes from.

    Attributes:
        group: Number of the component in the structure.
        members: (M,) which of its instances.
        rows: (r,) rows of the device's S-matrix that are kept.
        cols: (c,) columns that are kept.
    """

    group: int
    members: Ints
    rows: Ints
    cols: Ints


@dataclass
class Assembly:
    """Blocks while their joins are planned.

    Attributes:
        partner: (ports,) the port that each one is joined to, -1 outside.
        pools: All blocks, joined or not.
        pool: (blocks,) pool of each block.
        slot: (blocks,) its place in there.
        owner: (ports,) block at whose border each port is; -1 where it is inside of one or looked at by nobody.
        row: (ports,) row of each port within its block.
        col: (ports,) column.
    """

    partner: Ints
    pools: list[Pool] = field(default_factory=list)
    pool: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    slot: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    owner: Ints = field(init=False)
    row: Ints = field(init=False)
    col: Ints = field(init=False)

    def __post_init__(self) -> None:
        """No port has a block yet."""
        self.owner = np.full(self.partner.size, UNCONNECTED, dtype=np.int64)
        self.row, self.col = np.zeros_like(self.owner), np.zeros_like(self.owner)

    def add(self, pool: Pool) -> Ints:
        """Add a pool; the numbers of its blocks."""
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
        """Both ports of every net that still joins blocks."""
        one = np.flatnonzero((self.partner > np.arange(self.partner.size)) & (self.owner != UNCONNECTED))
        return one, self.partner[one]

    def sizes(self) -> Ints:
        """(blocks,) rows plus columns of every block."""
        width = np.array([pool.rows.shape[1] + pool.cols.shape[1] for pool in self.pools], dtype=np.int64)
        return width[self.pool]

    def width(self) -> int:
        """The most rows or columns that a block has."""
        return max((max(pool.rows.shape[1], pool.cols.shape[1]) for pool in self.pools), default=0)

    def live(self) -> Bools:
        """(blocks,) which blocks still have a port of their own."""
        alive = np.zeros(self.pool.size, dtype=bool)
        alive[self.owner[self.owner != UNCONNECTED]] = True
        return alive


def virtual_ports(structure: Structure) -> Ints:
    """(labels,) port at which each label is looked at: a fibre's own, of others one behind the optical ports."""
    inside = structure.partner[structure.fibre] != UNCONNECTED
    return np.where(inside, structure.ports + np.cumsum(inside) - 1, structure.fibre).astype(np.int64)


def device_ports(structure: Structure) -> list[Ints]:
    """(I, p) ports of every component's instances, with the one behind photodiodes and modulators."""
    outer = np.full(structure.ports, UNCONNECTED, dtype=np.int64)
    outer[structure.fibre] = virtual_ports(structure)
    return [
        np.hstack([group.port, outer[group.port[:, -1:]]]) if group.name in (PHOTODIODE, MODULATOR) else group.port
        for group in structure.devices
    ]


def assemble(structure: Structure, patterns: Mapping[int, Bools], outs: Ints, ins: Ints) -> tuple[Assembly, list[Leaf]]:
    """The devices of a circuit as blocks.

    Args:
        structure: The circuit.
        patterns: Component number to (p, p), where its S-parameters may differ from zero.
        outs: Places within the labels at which light is looked at.
        ins: Places within the labels from which light comes.

    Returns:
        The blocks, and of each pool where it comes from.
    """
    looked = virtual_ports(structure)
    size = structure.ports + int((structure.partner[structure.fibre] != UNCONNECTED).sum())
    partner = np.full(size, UNCONNECTED, dtype=np.int64)
    partner[: structure.ports] = structure.partner
    leaving, arriving = partner != UNCONNECTED, partner != UNCONNECTED
    leaving[looked[outs]] = True
    arriving[looked[ins]] = True
    assembly, leaves = Assembly(partner), []
    for number, ports in enumerate(device_ports(structure)):
        width = ports.shape[1]
        kept = np.hstack([leaving[ports], arriving[ports]])
        for mask in np.unique(kept, axis=0) if not kept.all() else np.ones((1, 2 * width), dtype=bool):
            members = np.flatnonzero((kept == mask).all(axis=1))
            rows, cols = np.flatnonzero(mask[:width]), np.flatnonzero(mask[width:])
            assembly.add(
                Pool(
                    ports[members][:, rows],
                    ports[members][:, cols],
                    patterns[number][np.newaxis, rows[:, np.newaxis], cols],
                )
            )
            leaves.append(Leaf(number, members, rows, cols))
    return assembly, leaves
