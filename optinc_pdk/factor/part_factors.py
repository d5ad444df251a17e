"""Factors of a matrix part by part, without the MZIs that its structure makes unnecessary.

The assembled chip does not use them: each part has the whole meshes of :func:`optinc_pdk.factor.svd`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.factor.checks import as_matrix
from optinc_pdk.factor.counts import dense_mzis
from optinc_pdk.factor.isometry_mesh import mesh_of_columns, mesh_of_rows
from optinc_pdk.factor.matrix_structure import RELATIVE_ZERO, MatrixPart, find_structure
from optinc_pdk.factor.mesh import Mesh
from optinc_pdk.factor.rectangular import rectangular


@dataclass(frozen=True, eq=False)
class PartFactor:
    """Factorisation u diag(s) v of one independent part of a matrix: mesh, attenuators, mesh.

    Attributes:
        part: The part: its m rows, n columns and rank r.
        u: Mesh of m modes, one per row; only its first r inputs carry light.
        s: (r,) field transmission of the attenuators, in (0, 1].
        v: Mesh of n modes, one per column; its first r outputs are used, the others are dumped. Its output phases are
            0, because they are included in ``u``.
    """

    part: MatrixPart
    u: Mesh
    s: Floats
    v: Mesh

    @property
    def mzis(self) -> int:
        """Number of MZIs: those of both meshes, and one for each attenuator with a transmission below 1."""
        return int(self.u.row.size + self.v.row.size + np.count_nonzero(self.s < 1.0))


@dataclass(frozen=True, eq=False)
class StructuredFactor:
    """Factorisation of a matrix W into a scale and independent parts, each with its own rows and columns.

    Attributes:
        shape: (out, in) of W.
        parts: One factor per part.
        scale: Largest singular value of W.
    """

    shape: tuple[int, int]
    parts: tuple[PartFactor, ...]
    scale: float

    @property
    def mzis(self) -> int:
        """Number of MZIs of all parts. An attenuator with transmission 1 is not needed and not counted."""
        return sum(part.mzis for part in self.parts)

    @property
    def mzis_saved_by_structure(self) -> int:
        """MZIs saved relative to :func:`optinc_pdk.factor.counts.dense_mzis`, by zeros, low rank and orthogonality."""
        return dense_mzis(*self.shape) - self.mzis

    def matrix(self) -> Complexes:
        """Returns the (out, in) complex matrix that the parts realise, including the scale."""
        whole = np.zeros(self.shape, dtype=np.complex128)
        for factor in self.parts:
            rank = factor.part.rank
            passive = (factor.u.matrix()[:, :rank] * factor.s) @ factor.v.matrix()[:rank]
            whole[np.ix_(factor.part.rows, factor.part.columns)] = self.scale * passive
        return whole


def factor_by_parts(W: ArrayLike) -> StructuredFactor:
    """Factors each independent part of a matrix with only as many MZIs as its rank needs.

    A permutation with weights 0, 1 and -1 needs no MZI, a part of shape (m, n) and rank r at most r(m + n - r) MZIs. A
    part with orthogonal rows or columns needs one mesh and attenuators, an orthogonal part only one mesh.

    Args:
        W: (out, in), real or complex.

    Raises:
        ValueError: W is not a matrix of finite numbers, is all zero, or its largest singular value is out of range.
    """
    matrix = as_matrix("W", W)
    if not np.any(matrix):
        raise ValueError(f"W, shape {matrix.shape}, is all zero; drop the layer, it has no scale")
    parts = find_structure(matrix).parts
    peak = float(np.max(np.abs(matrix)))
    thin = [_thin_svd(matrix / peak, part) for part in parts]
    largest = max(float(singular.max()) for _, singular, _ in thin)
    if not largest * peak < np.inf:
        raise ValueError(f"W has entries up to {peak:g}; rescale it, its norm overflows double precision")
    return StructuredFactor(
        shape=(matrix.shape[0], matrix.shape[1]),
        parts=tuple(_meshes(part, *factors, largest) for part, factors in zip(parts, thin, strict=True)),
        scale=largest * peak,
    )


_Thin = tuple[Complexes, Floats, Complexes]


def _thin_svd(matrix: NDArray[Any], part: MatrixPart) -> _Thin:
    """(m, r) left vectors, (r,) singular values and (r, n) right vectors of a part."""
    entries, rank = matrix[np.ix_(part.rows, part.columns)].astype(np.complex128), part.rank
    # Normalised orthogonal columns, or rows, are singular vectors already; the mesh of the other side is not needed.
    if _has_orthogonal_columns(entries):
        norms = np.linalg.norm(entries, axis=0)
        return entries / norms, norms, np.eye(rank, dtype=np.complex128)
    if _has_orthogonal_columns(entries.T):
        norms = np.linalg.norm(entries, axis=1)
        return np.eye(rank, dtype=np.complex128), norms, entries / norms[:, np.newaxis]
    left, singular, right = np.linalg.svd(entries, full_matrices=False)
    return left[:, :rank], singular[:rank], right[:rank]


def _has_orthogonal_columns(entries: Complexes) -> bool:
    """Whether the columns are orthogonal to rounding."""
    unit = entries / np.linalg.norm(entries, axis=0)
    gram = np.abs(unit.conj().T @ unit)
    return bool(np.all(gram - np.diag(np.diagonal(gram)) <= RELATIVE_ZERO))


def _meshes(
    part: MatrixPart,
    left: Complexes,
    singular: Floats,
    right: Complexes,
    largest: float,
) -> PartFactor:
    """Meshes of a part; the output phases of v commute with the attenuators and move into u."""
    v = rectangular(right) if _fills_a_mesh(right) else mesh_of_rows(right)
    left = left * np.exp(1j * v.output_phase[: part.rank])
    u = rectangular(left) if _fills_a_mesh(left) else mesh_of_columns(left)
    bare = Mesh(v.modes, v.row, v.column, v.theta, v.phi, np.zeros(v.modes))
    # A value that differs from the largest by rounding needs no attenuator.
    transmission = singular / largest
    return PartFactor(part, u, np.where(transmission > 1.0 - 1e-12, 1.0, transmission), bare)


def _fills_a_mesh(vectors: Complexes) -> bool:
    """Whether the vectors form a whole unitary that is not diagonal; a rectangle is then the shortest mesh."""
    return vectors.shape[0] == vectors.shape[1] and bool(np.any(vectors - np.diag(np.diagonal(vectors))))
