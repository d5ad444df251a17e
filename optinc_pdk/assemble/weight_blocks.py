"""Division of a layer's weight matrix into blocks, each with its name, rows and columns."""

from __future__ import annotations

from dataclasses import dataclass

from optinc_pdk.onn import Onn


@dataclass(frozen=True)
class WeightBlock:
    """A block of a layer's weight matrix that one linear block of the chip realises.

    Attributes:
        name: Name of the block's section of the floorplan and prefix of its labels: ``l0``, or ``l0b3`` where the layer
            has several blocks.
        place: Row and column of the block in the layer's grid of blocks.
        rows: Rows of the layer's optical matrix in the block, see :meth:`optinc_pdk.onn.Onn.detector_rows`.
        columns: Columns of the weight matrix in the block.
        modes: Number of modes of the mesh for unitary × diagonal (mesh, attenuators); modes beyond the block's columns
            carry no light, and modes beyond its rows are terminated. None for a singular value decomposition (mesh,
            attenuators, mesh).
    """

    name: str
    place: tuple[int, int]
    rows: range
    columns: range
    modes: int | None


def layer_blocks(onn: Onn, index: int) -> tuple[WeightBlock, ...]:
    """Return the blocks of one layer in row-major order, as :func:`optinc_pdk.factor.unitary_diagonal` orders them.

    Args:
        onn: Network.
        index: Number of the layer, from 0.

    Returns:
        Blocks; a layer that is factored by singular value decomposition has one.
    """
    rows, columns = int(onn.detector_rows(index).max()) + 1, onn.layers[index].inputs
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
