"""What a matrix saves by its structure: zero rows and columns, permutations, rank.

Counts and factors use it. The assembled chip does not yet: it still lays out whole meshes.

A zero row needs no output mode and a zero column no input mode. What is left falls apart into parts that
share no row and no column (the connected parts of its non-zero entries). A part of one entry is a guide
with an attenuator; a permutation of such guides is a matter of which port is joined to which. A part of
shape (m, n) and rank r costs two meshes that need to be right in r modes only
(:mod:`optinc_pdk.factor.structure_mesh`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.factor.checks import as_matrix

Ints = NDArray[np.int64]

NULL = 1e-12
"""Entries and singular values below this share of the largest singular value are zero."""


@dataclass(frozen=True, eq=False)
class Part:
    """Rows and columns of a matrix that are joined by non-zero entries, and with nothing else.

    Attributes:
        rows: Their indices.
        columns: Their indices.
        rank: Numerical rank, 1 to min(rows, columns).
    """

    rows: Ints
    columns: Ints
    rank: int

    @property
    def is_guide(self) -> bool:
        """Whether it is a single entry, which needs no mesh."""
        return self.rows.size == self.columns.size == 1


@dataclass(frozen=True, eq=False)
class Structure:
    """How a matrix falls apart.

    Attributes:
        shape: (out, in).
        parts: The parts in order of their first row.
        zero_rows: Indices of rows without weight.
        zero_columns: Indices of columns without weight.
    """

    shape: tuple[int, int]
    parts: tuple[Part, ...]
    zero_rows: Ints
    zero_columns: Ints

    @property
    def rank(self) -> int:
        """Numerical rank of the whole."""
        return sum(part.rank for part in self.parts)

    @property
    def is_permutation(self) -> bool:
        """Whether every row and every column has at most one entry."""
        return all(part.is_guide for part in self.parts)


def structure(W: ArrayLike) -> Structure:
    """Finds the structure of a matrix.

    Args:
        W: (out, in), real or complex. All zero is allowed: no parts.

    Raises:
        ValueError: Not a matrix of finite numbers.
    """
    matrix = as_matrix("W", W)
    peak = float(np.max(np.abs(matrix)))
    scaled = matrix / peak if peak > 0.0 else matrix
    lit = np.abs(scaled) > NULL * (np.linalg.norm(scaled, 2) if peak > 0.0 else 1.0)
    return Structure(
        shape=(matrix.shape[0], matrix.shape[1]),
        parts=tuple(_part(scaled, rows, columns) for rows, columns in _connected(lit)),
        zero_rows=np.flatnonzero(~lit.any(axis=1)),
        zero_columns=np.flatnonzero(~lit.any(axis=0)),
    )


def _part(matrix: NDArray[Any], rows: Ints, columns: Ints) -> Part:
    singular = np.linalg.svd(matrix[np.ix_(rows, columns)], compute_uv=False)
    return Part(rows, columns, int(np.count_nonzero(singular > NULL * singular[0])))


def _connected(lit: NDArray[np.bool_]) -> list[tuple[Ints, Ints]]:
    """Rows and columns of each connected part, in order of the first row."""
    free = np.any(lit, axis=1)
    found: list[tuple[Ints, Ints]] = []
    while np.any(free):
        rows, columns = np.array([np.argmax(free)]), np.zeros(0, dtype=np.int64)
        size = 0
        while rows.size > size:
            size = rows.size
            columns = np.flatnonzero(np.any(lit[rows], axis=0))
            rows = np.flatnonzero(np.any(lit[:, columns], axis=1))
        free[rows] = False
        found.append((rows, columns))
    return found
