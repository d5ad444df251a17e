"""Division of a layer's weight matrix into blocks: the rows, columns and name of each."""

from __future__ import annotations

from dataclasses import dataclass

from optinc_pdk.onn import Onn


@dataclass(frozen=True)
class WeightBlock:
    """One linear block on the chip: a piece of a layer's weight matrix.

    Attributes:
        name: Section of the floorplan and prefix of labels: ``l0``, or ``l0b3`` where the layer has several blocks.
        place: Row and column of the block in the layer's grid of blocks.
        rows: Rows of the weight matrix that the block computes.
        columns: Columns of the weight matrix that the block computes.
        modes: Modes of the mesh of a unitary-diagonal block; modes beyond its rows and columns have no light. None for
            a singular value decomposition: mesh, attenuators, mesh.
    """

    name: str
    place: tuple[int, int]
    rows: range
    columns: range
    modes: int | None


def layer_blocks(onn: Onn, index: int) -> tuple[WeightBlock, ...]:
    """Return the blocks of one layer in row-major order, the order of :func:`optinc_pdk.factor.unitary_diagonal`."""
    rows, columns = onn.layers[index].weight.shape
    factor, name = onn.factor[index], f"l{index}"
    if factor == "svd":
        return (WeightBlock(name, (0, 0), range(rows), range(columns), None),)
    size = factor[1]
    places = [(top, left) for top in range(0, rows, size) for left in range(0, columns, size)]
    return tuple(
        WeightBlock(
            name=f"{name}b{j}" if len(places) > 1 else name,
            place=(top // size, left // size),
            rows=range(top, min(top + size, rows)),
            columns=range(left, min(left + size, columns)),
            modes=size,
        )
        for j, (top, left) in enumerate(places)
    )
