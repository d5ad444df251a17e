"""Cost in MZIs by the convention of arXiv 2603.28290: weights only, no dummies, no trees, no biases.

The trees that blocks need are counted here too, on their own, and priced in loss.
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
    """The MZIs of a network.

    Attributes:
        mzis: With the approximated layers.
        mzis_full_svd: The same network with every layer factored by SVD.
    """

    mzis: int
    mzis_full_svd: int

    @property
    def ratio(self) -> float:
        """Area against full SVD, as in the paper's tables."""
        return self.mzis / self.mzis_full_svd


def unitary_mzis(modes: int) -> int:
    """MZIs of a mesh of N modes: N(N - 1)/2.

    Raises:
        ValueError: Fewer than one mode.
    """
    _refuse_sizes_below_one(modes=modes)
    return modes * (modes - 1) // 2


def svd_mzis(out: int, inputs: int) -> int:
    """MZIs of an (out, inputs) = (m, n) matrix by SVD: m(m + 1)/2 + n(n - 1)/2 (arXiv 2603.28290).

    The attenuators are MZIs too; the paper counts m of them.

    Raises:
        ValueError: A size below one.
    """
    _refuse_sizes_below_one(out=out, inputs=inputs)
    return unitary_mzis(out) + out + unitary_mzis(inputs)


def dense_mzis(out: int, inputs: int) -> int:
    """MZIs that a dense (out, inputs) = (m, n) matrix of full rank r needs: mn - 1, one a parameter but the scale.

    What a matrix's own structure saves is counted from here; the convention of :func:`svd_mzis` also counts
    MZIs between modes that no matrix of this shape uses, and an attenuator for the largest singular value.

    Raises:
        ValueError: A size below one.
    """
    _refuse_sizes_below_one(out=out, inputs=inputs)
    return out * inputs - 1


def unitary_diagonal_mzis(out: int, inputs: int, block: int | None = None) -> int:
    """MZIs of an (out, inputs) matrix in blocks of size s, each s(s + 1)/2.

    The paper does not write this count down; it reproduces all ratios of its Tables I and II to 0.2 points.

    Args:
        out: Rows.
        inputs: Columns.
        block: s; min(out, inputs) where left out. Blocks at the edge count whole.

    Raises:
        ValueError: A size below one.
    """
    size = min(out, inputs) if block is None else block
    _refuse_sizes_below_one(out=out, inputs=inputs, block=size)
    blocks = -(-out // size) * -(-inputs // size)
    return blocks * (unitary_mzis(size) + size)


@dataclass(frozen=True)
class TreeCount:
    """The 1x2 splitters that join the blocks of a matrix.

    Attributes:
        splitters: At the inputs: blocks of one column of blocks share their inputs.
        combiners: At the outputs: blocks of one row of blocks add theirs.
        split_db: Loss of the wanted field through the deepest splitter tree, in dB of power.
        combine_db: The same of the deepest combiner tree: half of what meets in a combiner is lost, unless
            its other input carries the same field.
    """

    splitters: int
    combiners: int
    split_db: float
    combine_db: float

    @property
    def loss_db(self) -> float:
        """Loss of the whole layer against one mesh, in dB of power."""
        return self.split_db + self.combine_db


def block_trees(
    out: int, inputs: int, block: int | None = None, excess_db: float = 0.0, lit: ArrayLike | None = None
) -> TreeCount:
    """Splitter and combiner trees of an (out, inputs) matrix in blocks of size s.

    An input that k blocks share takes k - 1 splitters in ceil(log2 k) levels, each of which halves the power;
    an output that k blocks add to takes as many. Leaves nearer to the root are attenuated to the deepest
    one's power, so that depth is the price. An entry of one block sees both prices: its field is what the
    passive matrix would give times 10^(-loss_db / 20).

    Args:
        out: Rows.
        inputs: Columns.
        block: s; min(out, inputs) where left out.
        excess_db: Loss of one splitter beyond its halving, in dB; from its card.
        lit: (rows of blocks, columns of blocks), which blocks are not zero; all where left out.

    Raises:
        ValueError: A size below one, a negative loss, or lit of another shape.
    """
    size = min(out, inputs) if block is None else block
    _refuse_sizes_below_one(out=out, inputs=inputs, block=size)
    if not 0.0 <= excess_db < math.inf:
        raise ValueError(f"excess_db is {excess_db}; a splitter loses 0 dB or more")
    grid = (-(-out // size), -(-inputs // size))
    used = np.ones(grid, dtype=bool) if lit is None else np.asarray(lit, dtype=bool)
    if used.shape != grid:
        raise ValueError(f"lit has shape {used.shape}; blocks of {size} in ({out}, {inputs}) make {grid}")
    widths = [min(size, inputs - start) for start in range(0, inputs, size)]
    heights = [min(size, out - top) for top in range(0, out, size)]
    share, add = used.sum(axis=0).tolist(), used.sum(axis=1).tolist()
    level = _HALF_DB + excess_db
    return TreeCount(
        splitters=sum(width * max(k - 1, 0) for width, k in zip(widths, share, strict=True)),
        combiners=sum(height * max(k - 1, 0) for height, k in zip(heights, add, strict=True)),
        split_db=level * max((max(k, 1) - 1).bit_length() for k in share),
        combine_db=level * max((max(k, 1) - 1).bit_length() for k in add),
    )


def structure_mzis(widths: Sequence[int], approximated: Collection[int] = ()) -> MziCount:
    """MZIs of a multilayer perceptron.

    Args:
        widths: Signals from input to output, such as (4, 64, 4): two layers.
        approximated: Layers in blocks of min(out, in), **numbered from 1 as in the paper's tables**; the
            others are factored by SVD.

    Raises:
        ValueError: Fewer than two widths, a width below one, or a layer that does not exist.
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


def _refuse_sizes_below_one(**sizes: int) -> None:
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise ValueError(f"{name} is {size!r}; give a whole number of at least 1")
