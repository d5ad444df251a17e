"""A matrix factored part by part: what its structure saves is not built.

The assembled chip does not use it yet: it lays out the whole meshes of :func:`optinc_pdk.factor.svd`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.factor.checks import as_matrix
from optinc_pdk.factor.counts import dense_mzis, svd_mzis
from optinc_pdk.factor.mesh import Mesh
from optinc_pdk.factor.rectangular import rectangular
from optinc_pdk.factor.structure import NULL, Part, structure
from optinc_pdk.factor.structure_mesh import mesh_of_columns, mesh_of_rows


@dataclass(frozen=True, eq=False)
class PartFactor:
    """One part as u diag(s) v; the null modes of its meshes are dark or dumped.

    Attributes:
        part: Its rows, columns and rank r.
        u: Mesh of its m rows' modes; its first r inputs are lit.
        s: (r,) field transmission of the attenuators, in (0, 1].
        v: Mesh of its n columns' modes; its first r outputs go on, with no output phases (they are in ``u``).
    """

    part: Part
    u: Mesh
    s: NDArray[np.float64]
    v: Mesh

    @property
    def mzis(self) -> int:
        """MZIs of both meshes, and the attenuators that attenuate."""
        return int(self.u.row.size + self.v.row.size + np.count_nonzero(self.s < 1.0))


@dataclass(frozen=True, eq=False)
class StructuredFactor:
    """W = scale times its parts, each on rows and columns of its own.

    Attributes:
        shape: (out, in) of W.
        parts: One factor per part.
        scale: The largest singular value.
    """

    shape: tuple[int, int]
    parts: tuple[PartFactor, ...]
    scale: float

    @property
    def mzis(self) -> int:
        """MZIs that are needed. A part's strongest singular value of 1 needs no attenuator."""
        return sum(part.mzis for part in self.parts)

    @property
    def saved(self) -> int:
        """MZIs fewer than those that the convention of arXiv 2603.28290 counts for W, unused modes included."""
        return svd_mzis(*self.shape) - self.mzis

    @property
    def saved_by_structure(self) -> int:
        """MZIs fewer than a dense matrix of the same shape needs: what zeros, rank and orthogonality save."""
        return dense_mzis(*self.shape) - self.mzis

    def matrix(self) -> NDArray[np.complex128]:
        """The (out, in) matrix that the parts realize, the scale included."""
        whole = np.zeros(self.shape, dtype=np.complex128)
        for factor in self.parts:
            rank = factor.part.rank
            made = (factor.u.matrix()[:, :rank] * factor.s) @ factor.v.matrix()[:rank]
            whole[np.ix_(factor.part.rows, factor.part.columns)] = self.scale * made
        return whole


def structured(W: ArrayLike) -> StructuredFactor:
    """Factors a matrix part by part, each with the MZIs that its rank needs.

    A permutation with weights 0, 1 and -1 needs none, a part of shape (m, n) and rank r at most r(m + n - r).
    A part whose rows or columns are orthogonal needs one mesh and attenuators, an orthogonal one the mesh only.

    Args:
        W: (out, in), real or complex.

    Raises:
        ValueError: Not a matrix of finite numbers, all zero, or a largest singular value out of range.
    """
    matrix = as_matrix("W", W)
    if not np.any(matrix):
        raise ValueError(f"W, shape {matrix.shape}, is all zero; drop the layer, it has no scale")
    found = structure(matrix)
    peak = float(np.max(np.abs(matrix)))
    thin = [_thin(matrix / peak, part) for part in found.parts]
    largest = max(float(singular.max()) for _, singular, _ in thin)
    if not largest * peak < np.inf:
        raise ValueError(f"W has entries up to {peak:g}; rescale it, its norm overflows double precision")
    return StructuredFactor(
        shape=found.shape,
        parts=tuple(_meshes(part, *factors, largest) for part, factors in zip(found.parts, thin, strict=True)),
        scale=largest * peak,
    )


_Thin = tuple[NDArray[np.complex128], NDArray[np.float64], NDArray[np.complex128]]


def _thin(matrix: NDArray[Any], part: Part) -> _Thin:
    piece, rank = matrix[np.ix_(part.rows, part.columns)].astype(np.complex128), part.rank
    # Orthogonal columns, or rows, are singular vectors as they stand; those of the other side then cost nothing.
    if _orthogonal(piece):
        norms = np.linalg.norm(piece, axis=0)
        return piece / norms, norms, np.eye(rank, dtype=np.complex128)
    if _orthogonal(piece.T):
        norms = np.linalg.norm(piece, axis=1)
        return np.eye(rank, dtype=np.complex128), norms, piece / norms[:, np.newaxis]
    left, singular, right = np.linalg.svd(piece, full_matrices=False)
    return left[:, :rank], singular[:rank], right[:rank]


def _orthogonal(piece: NDArray[np.complex128]) -> bool:
    """Whether the columns are orthogonal, to rounding."""
    unit = piece / np.linalg.norm(piece, axis=0)
    gram = np.abs(unit.conj().T @ unit)
    return bool(np.all(gram - np.diag(np.diagonal(gram)) <= NULL))


def _meshes(
    part: Part,
    left: NDArray[np.complex128],
    singular: NDArray[np.float64],
    right: NDArray[np.complex128],
    largest: float,
) -> PartFactor:
    """The part's meshes; phases behind v commute with the attenuators and go into u."""
    v = rectangular(right) if _fills_a_mesh(right) else mesh_of_rows(right)
    left = left * np.exp(1j * v.output_phase[: part.rank])
    u = rectangular(left) if _fills_a_mesh(left) else mesh_of_columns(left)
    bare = Mesh(v.modes, v.row, v.column, v.theta, v.phi, np.zeros(v.modes))
    # Rounding of a singular value that is the largest is no attenuation.
    share = singular / largest
    return PartFactor(part, u, np.where(share > 1.0 - 1e-12, 1.0, share), bare)


def _fills_a_mesh(vectors: NDArray[np.complex128]) -> bool:
    """Whether they are all vectors of a unitary that is more than phases; the rectangle is the shortest mesh."""
    return vectors.shape[0] == vectors.shape[1] and bool(np.any(vectors - np.diag(np.diagonal(vectors))))
