"""Division of a layer's weight matrix into blocks, and positions of MZIs in the meshes that realise them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optinc_pdk.factor import chain_depth, chain_positions
from optinc_pdk.networks import LayerPart, Network


@dataclass(frozen=True)
class WeightBlock:
    """A block of a layer's weight matrix that one linear block of the chip realises.

    Attributes:
        name: Name of the block's section of the floorplan and prefix of its labels: ``l0``; ``l0b3`` where the layer is
            approximated by several blocks; ``l0c3`` where its matrix has several independent parts, or rows that are
            factored alone.
        bank: Prefix of the labels of the block's mixers and modulators. Independent parts of a layer share one bank.
        place: Row and column of the block in the layer's grid of blocks; (0, 0) for independent parts.
        rows: Rows of the layer's optical matrix in the block, see
        :meth:`optinc_pdk.networks.AveragingNetwork.detector_rows`.
        columns: Columns of the weight matrix in the block, ascending.
        padding: Numbers of dummy MZIs on every mode before the first and behind the second mesh, so that all parts of a
            layer have equal numbers of columns. In front of a chain, the first number of columns has guides only.
        modes: Number of modes of the mesh for unitary × diagonal (mesh, attenuators); modes beyond the block's columns
            carry no light, and modes beyond its rows are terminated. None for a singular value decomposition (mesh,
            attenuators, mesh), and for a chain.
        chain: Whether it is one row, a chain of MZIs and an attenuator, see :mod:`optinc_pdk.factor._row_factors`.
        copies: For each column, which of the modulators of its source, counted from 0, feeds the block; if empty, the
            one with the number ``place[0]`` for all columns.
    """

    name: str
    bank: str
    place: tuple[int, int]
    rows: range
    columns: range | tuple[int, ...]
    modes: int | None
    padding: tuple[int, int] = (0, 0)
    chain: bool = False
    copies: tuple[int, ...] = ()

    @property
    def sources(self) -> list[tuple[int, int]]:
        """For each column, its number and that of its source's modulator."""
        return list(zip(self.columns, self.copies or (self.place[0],) * len(self.columns), strict=True))

    @property
    def first_row(self) -> int:
        """Row of the layer whose mixer is the first of the bank."""
        return self.rows.start if self.bank == self.name else 0


def layer_blocks(onn: Network, index: int) -> tuple[WeightBlock, ...]:
    """Return the blocks of one layer in row-major order, as :func:`optinc_pdk.factor.unitary_diagonal` orders them.

    Returns:
        Blocks; a layer that is factored by singular value decomposition has one for each independent part, one whose
        rows are factored alone has one for each row.
    """
    rows, columns = int(onn.detector_rows(index).max()) + 1, onn.layers[index].inputs
    factor, name = onn.factor[index], f"l{index}"
    if factor == "svd":
        return _parts(name, onn.layer_parts(index))
    if factor == "rows":
        return _rows(name, onn.layer_parts(index), index == 0)
    size = factor[1]
    places = [(top, left) for top in range(0, rows, size) for left in range(0, columns, size)]
    return tuple(
        WeightBlock(
            name=f"{name}b{j}" if len(places) > 1 else name,
            bank=f"{name}b{j}" if len(places) > 1 else name,
            place=(top // size, left // size),
            rows=range(top, min(top + size, rows)),
            columns=range(left, min(left + size, columns)),
            modes=size,
        )
        for j, (top, left) in enumerate(places)
    )


def _parts(name: str, parts: tuple[LayerPart, ...]) -> tuple[WeightBlock, ...]:
    before, behind = ([mesh_depth(len(getattr(part, side))) for part in parts] for side in ("columns", "rows"))
    return tuple(
        WeightBlock(
            name=f"{name}c{j}" if len(parts) > 1 else name,
            bank=name,
            place=(0, 0),
            rows=part.rows,
            columns=part.columns,
            modes=None,
            padding=(max(before) - before[j], max(behind) - behind[j]),
        )
        for j, part in enumerate(parts)
    )


def _rows(name: str, parts: tuple[LayerPart, ...], first: bool) -> tuple[WeightBlock, ...]:
    """Blocks of single rows; in the ``first`` layer, rows of the same columns get copies of the inputs."""
    deepest = max(chain_depth(len(part.columns)) for part in parts)
    read: dict[int, int] = {}
    blocks = []
    for j, part in enumerate(parts):
        copies = tuple(read.get(column, 0) for column in part.columns)
        read |= {column: copy + 1 for column, copy in zip(part.columns, copies, strict=True)}
        blocks.append(
            WeightBlock(
                name=f"{name}c{j}" if len(parts) > 1 else name,
                bank=name,
                place=(copies[0] if first else 0, 0),
                rows=part.rows,
                columns=part.columns,
                modes=None,
                padding=(deepest - chain_depth(len(part.columns)), 0),
                chain=True,
                copies=copies,
            )
        )
    return tuple(blocks)


@dataclass(frozen=True)
class MeshSlot:
    """Position of one MZI or dummy MZI in a mesh.

    Attributes:
        row: Upper mode of the MZI, or the only mode of the dummy, counted from 0 at the top.
        column: Column, counted from 0 at the inputs.
        dummy: True for a dummy.
        narrow: True for a dummy beside others; see :func:`optinc_pdk.cells.interferometers.mzi_dummy`.
    """

    row: int
    column: int
    dummy: bool
    narrow: bool = False


def rectangular_slots(modes: int) -> list[MeshSlot]:
    """Return the positions of all MZIs and dummies of a rectangular mesh (Clements et al., Optica 3, 1460 (2016)).

    It has N columns for N ≥ 3 modes, one for N = 2 and none for N = 1; see :func:`mesh_slots`.
    """
    places = [(row, column) for column in range(mesh_depth(modes)) for row in range(column % 2, modes - 1, 2)]
    return mesh_slots(modes, [row for row, _ in places], [column for _, column in places])


def chain_slots(modes: int) -> list[MeshSlot]:
    """Return the positions of the MZIs of the chain of a row, column by column; modes that wait have guides only."""
    places = zip(*(values.tolist() for values in chain_positions(modes)), strict=True)
    return [MeshSlot(row, column, False) for row, column in sorted(places, key=lambda place: place[1])]


def mesh_slots(modes: int, row: Sequence[int], column: Sequence[int]) -> list[MeshSlot]:
    """Return the positions of all MZIs, at the upper modes ``row``, and dummies of a mesh.

    A mode that has no partner in a column gets a dummy, so that all paths have the same insertion loss. Positions are
    column by column; in each column, MZIs come before dummies.
    """
    uppers: dict[int, list[int]] = {number: [] for number in range(1 + max(column, default=-1))}
    for upper, number in sorted(zip(row, column, strict=True)):
        uppers[number].append(upper)
    slots: list[MeshSlot] = []
    for number, pairs in uppers.items():
        covered = {mode for upper in pairs for mode in (upper, upper + 1)}
        slots += [MeshSlot(upper, number, False) for upper in pairs]
        idle = [mode for mode in range(modes) if mode not in covered]
        slots += [MeshSlot(mode, number, True, mode + 1 in idle or mode - 1 in idle) for mode in idle]
    return slots


def mesh_depth(modes: int) -> int:
    """Return the number of columns of a rectangular mesh of ``modes`` modes."""
    return modes if modes > 2 else modes - 1
