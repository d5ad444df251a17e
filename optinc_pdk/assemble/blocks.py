"""A layer's matrix as square blocks: which rows and columns each one makes, and what it is called."""

from __future__ import annotations

from dataclasses import dataclass

from optinc_pdk.onn import Onn


@dataclass(frozen=True)
class Block:
    """One linear block on the chip.

    Attributes:
        name: Its section of the floorplan and the prefix of its labels: ``l0``, or ``l0b3`` of several.
        place: Row and column among the blocks.
        rows: Rows of the weight that it makes.
        columns: Columns of the weight that it makes.
        modes: Modes of its mesh, of which those beyond rows and columns stay dark; None for mesh, attenuators, mesh.
    """

    name: str
    place: tuple[int, int]
    rows: range
    columns: range
    modes: int | None


def layer_blocks(onn: Onn, index: int) -> tuple[Block, ...]:
    """The blocks of one layer in row-major order, as :func:`optinc_pdk.factor.unitary_diagonal` has them."""
    rows, columns = onn.layers[index].weight.shape
    factor, name = onn.factor[index], f"l{index}"
    if factor == "svd":
        return (Block(name, (0, 0), range(rows), range(columns), None),)
    size = factor[1]
    places = [(top, left) for top in range(0, rows, size) for left in range(0, columns, size)]
    return tuple(
        Block(
            name=f"{name}b{j}" if len(places) > 1 else name,
            place=(top // size, left // size),
            rows=range(top, min(top + size, rows)),
            columns=range(left, min(left + size, columns)),
            modes=size,
        )
        for j, (top, left) in enumerate(places)
    )
