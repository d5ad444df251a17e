"""The matrix approximation of arXiv 2603.28290: square blocks, each one diagonal times one unitary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.factor.checks import as_matrix, refuse_gain
from optinc_pdk.factor.counts import TreeCount, block_trees, unitary_diagonal_mzis, unitary_mzis
from optinc_pdk.factor.mesh import Mesh
from optinc_pdk.factor.rectangular import rectangular
from optinc_pdk.factor.structure import structure

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BlockFactor:
    """W as square blocks, each scale diag(attenuation) U_a.

    Blocks of one row of blocks (side by side) have their outputs added, blocks of one column of blocks
    (stacked) share their input. A block that sticks out over W's edge is a full block on the chip: its inputs
    beyond the edge stay dark, its outputs beyond the edge have attenuation 0.

    Attributes:
        shape: (out, in) of W.
        block: Size s of a block.
        block_row: (blocks,) place of each block, counted in blocks from the top.
        block_column: (blocks,) the same, from the left.
        unitary: One mesh of s modes per block. Its output phases have to be driven: they set the signs.
        attenuation: (blocks, s) field transmission after each mesh, in [0, 1], the largest of all 1.
        scale: The largest diagonal entry; the chip is passive, so a later gain carries it.
        block_error: (blocks,) Frobenius norm of the block's error over that of the block; 0 for a zero block.
        error: Frobenius norm of the whole error over that of W.
        needed: (blocks,) MZIs that each block needs: zero blocks none, the others a mesh per connected part of
            their unitary (:mod:`optinc_pdk.factor.structure`) and an attenuator per output with
            0 < attenuation < 1. The meshes here and the assembled chip are whole.

    Raises:
        ValueError: An attenuation outside [0, 1].
    """

    shape: tuple[int, int]
    block: int
    block_row: NDArray[np.int64]
    block_column: NDArray[np.int64]
    unitary: tuple[Mesh, ...]
    attenuation: NDArray[np.float64]
    scale: float
    block_error: NDArray[np.float64]
    error: float
    needed: NDArray[np.int64]

    def __post_init__(self) -> None:
        """Refuses what attenuators cannot make."""
        refuse_gain("attenuation", self.attenuation, 1.0)

    @property
    def mzis(self) -> int:
        """MZIs by the convention of arXiv 2603.28290."""
        return unitary_diagonal_mzis(*self.shape, self.block)

    @property
    def saved(self) -> int:
        """MZIs of these that are needless, those of modes beyond W's edges included."""
        return self.mzis - int(self.needed.sum())

    @property
    def saved_by_structure(self) -> int:
        """MZIs fewer than dense blocks of the same shape need: what zeros, permutations and orthogonality save.

        A dense block of (m, n) entries needs a mesh of max(m, n) modes and m attenuators, one of all blocks one
        attenuator less.
        """
        rows, columns = (
            np.minimum(self.block, length - self.block * place)
            for length, place in zip(self.shape, (self.block_row, self.block_column), strict=True)
        )
        modes = np.maximum(rows, columns)
        return int(np.sum(modes * (modes - 1) // 2 + rows)) - 1 - int(self.needed.sum())

    def trees(self, excess_db: float = 0.0) -> TreeCount:
        """The splitter and combiner trees that join the blocks; zero blocks are left out.

        Args:
            excess_db: Loss of one splitter beyond its halving, in dB; from its card.
        """
        lit = np.zeros((self.block_row.max() + 1, self.block_column.max() + 1), dtype=bool)
        lit[self.block_row, self.block_column] = np.any(self.attenuation > 0.0, axis=1)
        return block_trees(*self.shape, self.block, excess_db, lit)

    def matrix(self) -> NDArray[np.float64]:
        """The (out, in) approximation, real, the scale included; homodyne detection reads the real part."""
        size = self.block
        whole = np.zeros(((self.block_row.max() + 1) * size, (self.block_column.max() + 1) * size))
        places = zip(self.block_row, self.block_column, self.unitary, self.attenuation, strict=True)
        for row, column, mesh, attenuation in places:
            piece = self.scale * attenuation[:, np.newaxis] * mesh.matrix().real
            whole[row * size : (row + 1) * size, column * size : (column + 1) * size] = piece
        return whole[: self.shape[0], : self.shape[1]]


def unitary_diagonal(W: ArrayLike, block: int | None = None) -> BlockFactor:
    """Approximates a matrix by blocks, each a diagonal times a unitary.

    Args:
        W: (out, in), real.
        block: Size s of the square blocks, 1 to max(out, in); min(out, in) where left out. It need not divide
            W: blocks at the edge are completed with dark inputs and dumped outputs.

    Returns:
        The factors, blocks in row-major order. Where a block falls apart its unitary falls apart alike; the
        polar factor leaves that open where the block is not of full rank.

    Raises:
        ValueError: Not a matrix of finite real numbers, all zero, or a block size out of range.

    Source:
        arXiv 2603.28290, "Matrix approximation": U_a = U_s V_s^T, d_i = argmin ||W_s,i - d_i U_a,i||^2.
    """
    matrix = _as_weights(W)
    rows, columns = matrix.shape
    size = _as_block_size(block, rows, columns)
    peak = float(np.max(np.abs(matrix)))
    matrix = matrix / peak  # so that no norm underflows or overflows
    places = [(top, start) for top in range(0, rows, size) for start in range(0, columns, size)]
    pieces = [matrix[top : top + size, start : start + size] for top, start in places]
    parts = [_polar_and_diagonal(piece, size) for piece in pieces]
    diagonal = np.array([part[1] for part in parts])
    largest = float(diagonal.max())
    if not largest * peak < np.inf:
        raise ValueError(f"W has entries up to {peak:g}; rescale it, its norm overflows double precision")
    missed = np.array([part[2] for part in parts])
    norms = np.array([np.linalg.norm(piece) for piece in pieces])
    attenuation = diagonal / largest
    return BlockFactor(
        shape=(rows, columns),
        block=size,
        block_row=np.array([top // size for top, _ in places], dtype=np.int64),
        block_column=np.array([start // size for _, start in places], dtype=np.int64),
        unitary=tuple(rectangular(part[0]) for part in parts),
        attenuation=attenuation,
        scale=largest * peak,
        block_error=np.divide(missed, norms, out=np.zeros_like(missed), where=norms > 0.0),
        error=float(np.linalg.norm(missed) / np.linalg.norm(norms)),
        needed=np.array([_needed(part[0], row) for part, row in zip(parts, attenuation, strict=True)], dtype=np.int64),
    )


def _as_weights(W: ArrayLike) -> NDArray[np.float64]:
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
            f"or leave it out for {min(rows, columns)}"
        )
    return int(block)


def _needed(unitary: NDArray[np.float64], attenuation: NDArray[np.float64]) -> int:
    """MZIs of one block: a mesh per connected part of its unitary, and the attenuators."""
    if not np.any(attenuation):
        return 0
    meshes = sum(unitary_mzis(part.rows.size) for part in structure(unitary).parts)
    return meshes + int(np.count_nonzero((attenuation > 0.0) & (attenuation < 1.0 - 1e-12)))


def _polar_and_diagonal(
    piece: NDArray[np.float64], size: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """The (s, s) unitary, the (s,) diagonal, and the Frobenius norm of the error of one block.

    The best d_i over the lit inputs is <W_i, U_i> / |U_i|^2: <W_i, U_i> of the paper where the block is whole,
    and never negative, so that an attenuator can make it; the signs are in the unitary.
    """
    rows, columns = piece.shape
    whole = np.zeros((size, size))
    whole[:rows, :columns] = piece
    unitary = np.zeros((size, size))
    for outputs, inputs in _square_parts(whole, columns):
        place = np.ix_(outputs, inputs)
        left, _, right = np.linalg.svd(whole[place])
        unitary[place] = left @ right
    lit = unitary[:rows, :columns]
    overlap, power = np.sum(piece * lit, axis=1), np.sum(lit**2, axis=1)
    diagonal = np.zeros(size)
    np.divide(overlap, power, out=diagonal[:rows], where=(power > 0.0) & (overlap > 0.0))
    missed = np.linalg.norm(piece - diagonal[:rows, np.newaxis] * lit)
    return unitary, diagonal, float(missed)


def _square_parts(whole: NDArray[np.float64], lit: int) -> list[tuple[Ints, Ints]]:
    """Rows and columns of square pieces that cover a square block, so that W's zeros between them stay zero.

    A part of more columns than rows is filled up with zero rows, one of more rows than columns with zero
    columns, those from ``lit`` on first, which are dark anyway. What cannot be filled up is joined, as no
    unitary can keep it apart; what is left are guides.
    """
    found = structure(whole)
    spare_rows = found.zero_rows.tolist()
    spare_columns = sorted(found.zero_columns.tolist(), key=lambda column: (column < lit, column))
    square, odd_rows, odd_columns = [], [], []
    for part in found.parts:
        rows, columns = part.rows.tolist(), part.columns.tolist()
        while len(rows) < len(columns) and spare_rows:
            rows.append(spare_rows.pop(0))
        while len(columns) < len(rows) and spare_columns:
            columns.append(spare_columns.pop(0))
        if len(rows) == len(columns):
            square.append((rows, columns))
        else:
            odd_rows += rows
            odd_columns += columns
    square += [([row], [column]) for row, column in zip(spare_rows, spare_columns, strict=True)]
    if odd_rows:
        square.append((odd_rows, odd_columns))
    return [(np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64)) for rows, columns in square]
