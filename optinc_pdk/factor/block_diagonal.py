"""Factors of a matrix that consists of independent parts: meshes and attenuators for each part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Complexes
from optinc_pdk.factor.svd import SvdFactor


@dataclass(frozen=True, eq=False)
class BlockDiagonalFactor:
    """Factors of a matrix whose rows and columns fall into parts that share no weight: one SVD for each part.

    Attributes:
        parts: Factors of each part.
        rows: Rows of each part.
        columns: Columns of each part.
        shape: Numbers of rows and of columns of the matrix.
    """

    parts: tuple[SvdFactor, ...]
    rows: tuple[range, ...]
    columns: tuple[tuple[int, ...], ...]
    shape: tuple[int, int]

    @property
    def mzis(self) -> int:
        """Number of MZIs by the convention of arXiv 2603.28290, summed over the parts."""
        return sum(part.mzis for part in self.parts)

    def matrix(self) -> Complexes:
        """Returns the complex matrix, of shape ``shape``, that meshes and attenuators realise, including the scales."""
        total = np.zeros(self.shape, dtype=np.complex128)
        for part, rows, columns in zip(self.parts, self.rows, self.columns, strict=True):
            total[np.ix_(rows, columns)] = part.matrix()
        return total
