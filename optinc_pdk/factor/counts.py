"""Numbers of MZIs by the convention of arXiv 2603.28290: weights only, no dummies, no trees, no biases.

The splitter and combiner trees that blocks need are counted separately, with their loss.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

_HALF_DB = 10.0 * math.log10(2.0)


@dataclass(frozen=True)
class MziCount:
    """Number of MZIs of a network, with and without approximated layers.

    Attributes:
        mzis: Number of MZIs if some layers are approximated by unitary × diagonal blocks.
        mzis_full_svd: Number of MZIs if every layer is factored by SVD.
    """

    mzis: int
    mzis_full_svd: int

    @property
    def ratio(self) -> float:
        """``mzis`` / ``mzis_full_svd``, the area ratio in Tables I and II of arXiv 2603.28290."""
        return self.mzis / self.mzis_full_svd


def unitary_mzis(modes: int) -> int:
    """Computes the number of MZIs of a mesh of N modes: N(N - 1)/2.

    Raises:
        ValueError: modes is not a whole number of at least 1.
    """
    _check_sizes(modes=modes)
    return modes * (modes - 1) // 2


def svd_mzis(out: int, inputs: int) -> int:
    """Computes the number of MZIs of an (out, inputs) = (m, n) matrix by SVD: m(m + 1)/2 + n(n - 1)/2.

    This is the convention of arXiv 2603.28290: two meshes, and m attenuators, each of which is an MZI.

    Raises:
        ValueError: A size is not a whole number of at least 1.
    """
    _check_sizes(out=out, inputs=inputs)
    return unitary_mzis(out) + out + unitary_mzis(inputs)


def dense_mzis(out: int, inputs: int) -> int:
    """Compute the number of MZIs that a dense (out, inputs) = (m, n) matrix needs: mn - 1, as the scale is electronic.

    Savings by a matrix's structure are relative to this number. The convention of :func:`svd_mzis` also counts MZIs
    between modes that no matrix of this shape uses, and an attenuator for the largest singular value.

    Raises:
        ValueError: A size is not a whole number of at least 1.
    """
    _check_sizes(out=out, inputs=inputs)
    return out * inputs - 1


def unitary_diagonal_mzis(out: int, inputs: int, block: int | None = None) -> int:
    """Compute the number of MZIs of an (out, inputs) matrix in square blocks of size s, each s(s + 1)/2.

    The formula is not in the paper; it reproduces all ratios of its Tables I and II to 0.2 percentage points. Blocks at
    the edge count as complete blocks; their size is min(out, inputs) by default.

    Raises:
        ValueError: A size is not a whole number of at least 1.
    """
    size = min(out, inputs) if block is None else block
    _check_sizes(out=out, inputs=inputs, block=size)
    blocks = -(-out // size) * -(-inputs // size)
    return blocks * (unitary_mzis(size) + size)


@dataclass(frozen=True)
class TreeCount:
    """Number and loss of the 1x2 splitters and combiners that join the blocks of a matrix.

    Attributes:
        splitters: Number of splitters at the inputs, which the blocks of one column of blocks share.
        combiners: Number of combiners at the outputs, which add the outputs of one row of blocks.
        split_db: Power loss of the signal in the deepest splitter tree, in dB.
        combine_db: Power loss of the signal in the deepest combiner tree, in dB. A combiner loses half of the power of
            an input unless its other input carries the same field.
    """

    splitters: int
    combiners: int
    split_db: float
    combine_db: float

    @property
    def loss_db(self) -> float:
        """Power loss of the splitter and combiner trees together, in dB, relative to a layer of one block."""
        return self.split_db + self.combine_db


def block_trees(
    out: int, inputs: int, block: int | None = None, excess_db: float = 0.0, nonzero: ArrayLike | None = None
) -> TreeCount:
    """Count the splitter and combiner trees of an (out, inputs) matrix in blocks of size s, and their loss.

    An input that k blocks share needs k - 1 splitters in ceil(log2 k) levels, each of which halves the power; an output
    that k blocks contribute to needs as many combiners. Shallower branches are attenuated to the power of the deepest
    one, so the depth defines the loss. Every entry has the loss of both trees: its field is that of the passive matrix
    times 10^(-loss_db / 20).

    Args:
        out: Rows.
        inputs: Columns.
        block: Block size s; min(out, inputs) by default.
        excess_db: Excess loss of one splitter in dB, from its card.
        nonzero: (rows of blocks, columns of blocks) mask of the blocks that are not zero; by default all blocks.

    Raises:
        ValueError: A size is below 1, the loss is negative, or nonzero has another shape.
    """
    size = min(out, inputs) if block is None else block
    _check_sizes(out=out, inputs=inputs, block=size)
    if not 0.0 <= excess_db < math.inf:
        raise ValueError(f"excess_db is {excess_db}; a splitter loses 0 dB or more")
    grid = (-(-out // size), -(-inputs // size))
    used = np.ones(grid, dtype=bool) if nonzero is None else np.asarray(nonzero, dtype=bool)
    if used.shape != grid:
        raise ValueError(f"nonzero has shape {used.shape}; blocks of {size} in ({out}, {inputs}) need {grid}")
    widths = [min(size, inputs - start) for start in range(0, inputs, size)]
    heights = [min(size, out - top) for top in range(0, out, size)]
    sharing, adding = used.sum(axis=0).tolist(), used.sum(axis=1).tolist()
    level = _HALF_DB + excess_db
    return TreeCount(
        splitters=sum(width * max(k - 1, 0) for width, k in zip(widths, sharing, strict=True)),
        combiners=sum(height * max(k - 1, 0) for height, k in zip(heights, adding, strict=True)),
        split_db=level * max((max(k, 1) - 1).bit_length() for k in sharing),
        combine_db=level * max((max(k, 1) - 1).bit_length() for k in adding),
    )


def network_mzis(widths: Sequence[int], approximated: Collection[int] = ()) -> MziCount:
    """Count the MZIs of a multilayer perceptron with some layers approximated by blocks, and with SVD for all layers.

    Args:
        widths: Numbers of signals from input to output, such as (4, 64, 4) for two layers.
        approximated: Numbers of the layers that are approximated by blocks of size min(out, in), **counted from 1 as in
            the tables of arXiv 2603.28290**.

    Raises:
        ValueError: There are fewer than two widths, a width is below 1, or a layer does not exist.
    """
    if len(widths) < 2:
        raise ValueError(f"widths is {tuple(widths)}; give at least the inputs and the outputs")
    layers = range(1, len(widths))
    unknown = sorted(set(approximated) - set(layers))
    if unknown:
        raise ValueError(f"approximated names layer {unknown[0]}; there are layers 1 to {layers[-1]}")
    shapes = {layer: (widths[layer], widths[layer - 1]) for layer in layers}
    full = {layer: svd_mzis(*shape) for layer, shape in shapes.items()}
    mzis = sum(unitary_diagonal_mzis(*shapes[layer]) if layer in approximated else full[layer] for layer in layers)
    return MziCount(mzis=mzis, mzis_full_svd=sum(full.values()))


def _check_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise ValueError(f"{name} is {size!r}; give a whole number of at least 1")
