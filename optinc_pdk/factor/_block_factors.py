"""Matrix approximation of arXiv 2603.28290: square blocks, each a diagonal matrix times a unitary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.factor._decomposition import rectangular
from optinc_pdk.factor._matrix_structure import find_structure
from optinc_pdk.factor.checks import as_matrix, check_passive
from optinc_pdk.factor.counts import TreeCount, block_trees, unitary_diagonal_mzis, unitary_mzis
from optinc_pdk.factor.mesh import Mesh


@dataclass(frozen=True, eq=False)
class BlockFactor:
    """Approximation of a matrix W by square blocks, each of the form scale · diag(attenuation) · U_a, U_a unitary.

    The outputs of blocks in one row (side by side) are added; blocks in one column (stacked) share their inputs. A
    block that extends beyond W's edge is a complete block on the chip: its inputs beyond the edge carry no light, and
    its outputs beyond the edge have attenuation 0.

    Attributes:
        shape: (out, in) of W.
        block: Size s of a block.
        block_row: (blocks,) row of each block, counted in blocks from the top.
        block_column: (blocks,) column of each block, counted in blocks from the left.
        unitary: One mesh of s modes per block. Its output phases must be driven: they set the signs.
        attenuation: (blocks, s) field transmission of the attenuators after each mesh, in [0, 1]; the maximum is 1.
        scale: Largest entry of all diagonals. The chip is passive, so an electronic gain multiplies its outputs by it.
        block_error: (blocks,) Frobenius norm of each block's error relative to that of the block; 0 for a zero block.
        error: Frobenius norm of the error of the whole matrix relative to that of W.
        needed_mzis: (blocks,) number of MZIs that each block needs: none for zero blocks, otherwise a mesh per
            independent part of its unitary (:mod:`optinc_pdk.factor._matrix_structure`) and an attenuator per output
            with 0 < attenuation < 1. The meshes in ``unitary`` and on the assembled chip are complete nevertheless.

    Raises:
        ValueError: An attenuation is outside [0, 1].
    """

    shape: tuple[int, int]
    block: int
    block_row: Ints
    block_column: Ints
    unitary: tuple[Mesh, ...]
    attenuation: Floats
    scale: float
    block_error: Floats
    error: float
    needed_mzis: Ints

    def __post_init__(self) -> None:
        """Checks that attenuators can realise the diagonals."""
        check_passive("attenuation", self.attenuation, 1.0)

    @property
    def mzis(self) -> int:
        """Number of MZIs of all blocks, see :func:`optinc_pdk.factor.counts.unitary_diagonal_mzis`."""
        return unitary_diagonal_mzis(*self.shape, self.block)

    @property
    def mzis_saved_by_structure(self) -> int:
        """Number of MZIs saved by zeros, permutations and orthogonality, relative to dense blocks of equal shape.

        A dense block of (m, n) entries needs a mesh of max(m, n) modes and m attenuators; one attenuator of all blocks
        has the transmission 1 and is not needed.
        """
        rows, columns = (
            np.minimum(self.block, length - self.block * index)
            for length, index in zip(self.shape, (self.block_row, self.block_column), strict=True)
        )
        modes = np.maximum(rows, columns)
        return int(np.sum(modes * (modes - 1) // 2 + rows)) - 1 - int(self.needed_mzis.sum())

    def trees(self, excess_db: float = 0.0) -> TreeCount:
        """Count the splitters and combiners of the trees that connect the blocks, without zero blocks, and their loss.

        ``excess_db`` is the excess loss of one splitter in dB, from its card.
        """
        nonzero = np.zeros((self.block_row.max() + 1, self.block_column.max() + 1), dtype=bool)
        nonzero[self.block_row, self.block_column] = np.any(self.attenuation > 0.0, axis=1)
        return block_trees(*self.shape, self.block, excess_db, nonzero)

    def matrix(self) -> Floats:
        """Return the (out, in) real approximation of W with the scale: the real part of the fields, which homodyne
        detection reads.
        """
        size = self.block
        whole = np.zeros(((self.block_row.max() + 1) * size, (self.block_column.max() + 1) * size))
        blocks = zip(self.block_row, self.block_column, self.unitary, self.attenuation, strict=True)
        for row, column, mesh, attenuation in blocks:
            entries = self.scale * attenuation[:, np.newaxis] * mesh.matrix().real
            whole[row * size : (row + 1) * size, column * size : (column + 1) * size] = entries
        return whole[: self.shape[0], : self.shape[1]]


def unitary_diagonal(W: ArrayLike, block: int | None = None) -> BlockFactor:
    """Approximate a real (out, in) matrix by square blocks, each a diagonal matrix times a unitary.

    ``block`` is the size s of the blocks, 1 to max(out, in); min(out, in) by default. It need not divide the sizes of
    W: blocks at the edge are completed with unused inputs and dumped outputs. Blocks are in row-major order. The
    unitary of a block has the same independent parts as the block, also where a rank below s leaves the polar factor
    undetermined.

    Raises:
        ValueError: W is not a matrix of finite real numbers, is all zero, or the block size is out of range.

    Source:
        arXiv 2603.28290, "Matrix approximation": U_a = U_s V_s^T, d_i = argmin ||W_s,i - d_i U_a,i||^2.
    """
    matrix = _as_weights(W)
    rows, columns = matrix.shape
    size = _as_block_size(block, rows, columns)
    peak = float(np.max(np.abs(matrix)))
    matrix = matrix / peak  # so that no norm underflows or overflows
    corners = [(top, start) for top in range(0, rows, size) for start in range(0, columns, size)]
    blocks = [matrix[top : top + size, start : start + size] for top, start in corners]
    factors = [_polar_and_diagonal(entries, size) for entries in blocks]
    diagonal = np.array([factor[1] for factor in factors])
    largest = float(diagonal.max())
    if not largest * peak < np.inf:
        raise ValueError(f"W has entries up to {peak:g}; rescale it, its norm overflows double precision")
    errors = np.array([factor[2] for factor in factors])
    norms = np.array([np.linalg.norm(entries) for entries in blocks])
    attenuation = diagonal / largest
    return BlockFactor(
        shape=(rows, columns),
        block=size,
        block_row=np.array([top // size for top, _ in corners], dtype=np.int64),
        block_column=np.array([start // size for _, start in corners], dtype=np.int64),
        unitary=tuple(rectangular(factor[0]) for factor in factors),
        attenuation=attenuation,
        scale=largest * peak,
        block_error=np.divide(errors, norms, out=np.zeros_like(errors), where=norms > 0.0),
        error=float(np.linalg.norm(errors) / np.linalg.norm(norms)),
        needed_mzis=np.array(
            [_needed_mzis(factor[0], row) for factor, row in zip(factors, attenuation, strict=True)], dtype=np.int64
        ),
    )


def _as_weights(W: ArrayLike) -> Floats:
    matrix = as_matrix("W", W)
    if matrix.dtype.kind == "c":
        raise ValueError("W is complex; weights are real, because homodyne detection reads the real part")
    if not np.any(matrix):
        raise ValueError(f"W, shape {matrix.shape}, is all zero; drop the layer, it has no scale")
    return matrix


def _as_block_size(block: int | None, rows: int, columns: int) -> int:
    if block is None:
        return min(rows, columns)
    if isinstance(block, bool) or not isinstance(block, int | np.integer):
        raise ValueError(f"block is {block!r}; give a whole number of rows")
    if not 1 <= block <= max(rows, columns):
        raise ValueError(
            f"block is {block}; for a matrix of shape ({rows}, {columns}) give 1 to {max(rows, columns)}, "
            f"or omit it for {min(rows, columns)}"
        )
    return int(block)


def _needed_mzis(unitary: Floats, attenuation: Floats) -> int:
    """Number of MZIs of one block: a mesh per independent part of its unitary, and the attenuators."""
    if not np.any(attenuation):
        return 0
    meshes = sum(unitary_mzis(part.rows.size) for part in find_structure(unitary).parts)
    return meshes + int(np.count_nonzero((attenuation > 0.0) & (attenuation < 1.0 - 1e-12)))


def _polar_and_diagonal(entries: Floats, size: int) -> tuple[Floats, Floats, float]:
    """(s, s) unitary, (s,) diagonal, and Frobenius norm of the error of one block.

    The best d_i over the used inputs is <W_i, U_i> / |U_i|^2, which is <W_i, U_i> of the paper for a whole block. It is
    never negative, so that an attenuator can realise it; the signs are in the unitary.
    """
    rows, columns = entries.shape
    whole = np.zeros((size, size))
    whole[:rows, :columns] = entries
    unitary = np.zeros((size, size))
    for outputs, inputs in _square_parts(whole, columns):
        part = np.ix_(outputs, inputs)
        left, _, right = np.linalg.svd(whole[part])
        unitary[part] = left @ right
    used = unitary[:rows, :columns]
    overlap, power = np.sum(entries * used, axis=1), np.sum(used**2, axis=1)
    diagonal = np.zeros(size)
    np.divide(overlap, power, out=diagonal[:rows], where=(power > 0.0) & (overlap > 0.0))
    error = np.linalg.norm(entries - diagonal[:rows, np.newaxis] * used)
    return unitary, diagonal, float(error)


def _square_parts(whole: Floats, used_columns: int) -> list[tuple[Ints, Ints]]:
    """Rows and columns of square parts that cover a square block, so that zeros between the parts stay zero.

    A part with more columns than rows is completed with zero rows, one with more rows than columns with zero columns,
    first with unused ones, from ``used_columns`` on. Parts that cannot be completed are joined, as no unitary can
    separate them. Remaining zero rows and columns form parts of one entry.
    """
    block = find_structure(whole)
    spare_rows = block.zero_rows.tolist()
    spare_columns = sorted(block.zero_columns.tolist(), key=lambda column: (column < used_columns, column))
    square, joined_rows, joined_columns = [], [], []
    for part in block.parts:
        rows, columns = part.rows.tolist(), part.columns.tolist()
        while len(rows) < len(columns) and spare_rows:
            rows.append(spare_rows.pop(0))
        while len(columns) < len(rows) and spare_columns:
            columns.append(spare_columns.pop(0))
        if len(rows) == len(columns):
            square.append((rows, columns))
        else:
            joined_rows += rows
            joined_columns += columns
    square += [([row], [column]) for row, column in zip(spare_rows, spare_columns, strict=True)]
    if joined_rows:
        square.append((joined_rows, joined_columns))
    return [(np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64)) for rows, columns in square]
