"""Structure of a matrix that saves MZIs: zero rows and columns, independent parts, permutations, rank.

Counts and factors use it. The assembled chip uses the parts, with whole meshes for each of them.

A zero row needs no output mode and a zero column no input mode. The other entries form parts that share no row and no
column (connected components of the non-zero entries). A part of one entry is a waveguide with an attenuator; a
permutation of such guides is routing only. A part of shape (m, n) and rank r needs two meshes of which only r modes
are fixed (:mod:`optinc_pdk.factor.isometry_mesh`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.arrays import Bools, Ints
from optinc_pdk.factor.checks import as_matrix

RELATIVE_ZERO = 1e-12
"""Entries and singular values below this fraction of the largest singular value count as zero."""


@dataclass(frozen=True, eq=False)
class MatrixPart:
    """Independent part of a matrix: rows and columns whose non-zero entries all lie where these rows and columns meet.

    Attributes:
        rows: (m,) row indices.
        columns: (n,) column indices.
        rank: Numerical rank, 1 to min(m, n).
    """

    rows: Ints
    columns: Ints
    rank: int

    @property
    def is_guide(self) -> bool:
        """Whether the part is a single entry, which a waveguide with an attenuator realises without a mesh."""
        return self.rows.size == self.columns.size == 1


@dataclass(frozen=True, eq=False)
class MatrixStructure:
    """Independent parts and zero rows and columns of a matrix.

    Attributes:
        shape: (out, in) of the matrix.
        parts: The parts in order of their first row.
        zero_rows: Indices of rows without a non-zero entry.
        zero_columns: Indices of columns without a non-zero entry.
    """

    shape: tuple[int, int]
    parts: tuple[MatrixPart, ...]
    zero_rows: Ints
    zero_columns: Ints

    @property
    def rank(self) -> int:
        """Numerical rank of the whole matrix."""
        return sum(part.rank for part in self.parts)

    @property
    def is_permutation(self) -> bool:
        """Whether every row and every column has at most one non-zero entry."""
        return all(part.is_guide for part in self.parts)


def find_structure(W: ArrayLike) -> MatrixStructure:
    """Finds the independent parts of a matrix, their ranks, and zero rows and columns.

    Args:
        W: (out, in), real or complex. A matrix of zeros has no parts.

    Raises:
        ValueError: W is not a matrix of finite numbers.
    """
    matrix = as_matrix("W", W)
    peak = float(np.max(np.abs(matrix)))
    scaled = matrix / peak if peak > 0.0 else matrix
    nonzero = np.abs(scaled) > RELATIVE_ZERO * (np.linalg.norm(scaled, 2) if peak > 0.0 else 1.0)
    return MatrixStructure(
        shape=(matrix.shape[0], matrix.shape[1]),
        parts=tuple(_part(scaled, rows, columns) for rows, columns in _connected(nonzero)),
        zero_rows=np.flatnonzero(~nonzero.any(axis=1)),
        zero_columns=np.flatnonzero(~nonzero.any(axis=0)),
    )


def _part(matrix: NDArray[Any], rows: Ints, columns: Ints) -> MatrixPart:
    singular = np.linalg.svd(matrix[np.ix_(rows, columns)], compute_uv=False)
    return MatrixPart(rows, columns, int(np.count_nonzero(singular > RELATIVE_ZERO * singular[0])))


def _connected(nonzero: Bools) -> list[tuple[Ints, Ints]]:
    """Rows and columns of each connected component, in order of the first row."""
    unassigned = np.any(nonzero, axis=1)
    components: list[tuple[Ints, Ints]] = []
    while np.any(unassigned):
        rows, columns = np.array([np.argmax(unassigned)]), np.zeros(0, dtype=np.int64)
        size = 0
        while rows.size > size:
            size = rows.size
            columns = np.flatnonzero(np.any(nonzero[rows], axis=0))
            rows = np.flatnonzero(np.any(nonzero[:, columns], axis=1))
        unassigned[rows] = False
        components.append((rows, columns))
    return components
