"""Structure of a matrix that saves MZIs (zero rows and columns, independent parts, rank), and factors part by part.

A zero row needs no output mode and a zero column no input mode. The other entries form parts that share no row and no
column (connected components of the non-zero entries). A part of one entry is a waveguide with an attenuator; a
permutation of such guides is routing only.

A part of shape (m, n) and rank r needs r orthonormal rows of V and r orthonormal columns of U; the other modes are
free. Nulling only these takes r(2n - r - 1)/2 MZIs instead of n(n - 1)/2. With both meshes and r attenuators it takes
r(m + n - r), the number of parameters of a matrix of rank r. Entries that are already zero need no MZI. The MZIs are
in the triangle of Reck et al., Phys. Rev. Lett. 73, 58 (1994), as far to the left as possible. The assembled chip uses
the parts, with whole meshes for each of them.
"""

from __future__ import annotations

import cmath
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.arrays import Bools, Complexes, Floats, Ints
from optinc_pdk.factor._decomposition import rectangular
from optinc_pdk.factor.checks import as_matrix
from optinc_pdk.factor.counts import dense_mzis
from optinc_pdk.factor.mesh import TWO_PI, Mesh, mzi_transfer, wrap

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
    """Find the independent parts of an (out, in) matrix, their ranks, and zero rows and columns; zeros have no parts.

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


ZERO = 1e-15
"""Entries of unit vectors below this count as zero."""


def mesh_of_rows(rows: Complexes) -> Mesh:
    """Decompose (r, n) orthonormal rows into a mesh of n modes whose ``matrix()[:r]`` is these rows to rounding."""
    remainder = np.array(rows, dtype=np.complex128)
    count, modes = remainder.shape
    placed: list[tuple[int, float, float]] = []
    for row in range(count):
        for upper in range(modes - 2, row - 1, -1):
            keep, null = complex(remainder[row, upper]), complex(remainder[row, upper + 1])
            if abs(null) <= ZERO:
                continue
            theta = 2.0 * math.atan2(abs(keep), abs(null))
            phi = (cmath.phase(keep) - cmath.phase(null)) % TWO_PI
            remainder[:, upper : upper + 2] = remainder[:, upper : upper + 2] @ mzi_transfer(theta, phi).conj().T
            placed.append((upper, theta, phi))
    phases = np.zeros(modes)
    phases[:count] = np.angle(np.diagonal(remainder)[:count])
    return _mesh(modes, placed, phases)


def mesh_of_columns(columns: Complexes) -> Mesh:
    """Decompose (m, r) orthonormal columns into a mesh of m modes whose ``matrix()[:, :r]`` is these columns to
    rounding.
    """
    remainder = np.array(columns, dtype=np.complex128)
    modes, count = remainder.shape
    outer: list[tuple[int, float, float]] = []
    for column in range(count):
        for upper in range(modes - 2, column - 1, -1):
            keep, null = complex(remainder[upper, column]), complex(remainder[upper + 1, column])
            if abs(null) <= ZERO:
                continue
            theta = 2.0 * math.atan2(abs(keep), abs(null))
            psi = (cmath.phase(keep) - cmath.phase(null)) % TWO_PI
            inverse = mzi_transfer(theta, 0.0).conj().T
            inverse[:, 0] *= cmath.exp(-1j * psi)
            remainder[upper : upper + 2] = inverse @ remainder[upper : upper + 2]
            outer.append((upper, theta, psi))
    phases = np.zeros(modes)
    phases[:count] = np.angle(np.diagonal(remainder)[:count])
    placed: list[tuple[int, float, float]] = []
    # diag(e^{i psi}, 1) MZI(theta, 0) diag(e^{ia}, e^{ib}) = diag(e^{i(psi + b)}, e^{ib}) MZI(theta, a - b)
    for upper, theta, psi in reversed(outer):
        placed.append((upper, theta, float(phases[upper] - phases[upper + 1])))
        phases[upper] = psi + phases[upper + 1]
    return _mesh(modes, placed, phases)


def _mesh(modes: int, placed: list[tuple[int, float, float]], phases: Floats) -> Mesh:
    """Mesh of MZIs given in the order of the light, each in the first column that is free on both of its modes."""
    free = np.zeros(modes, dtype=np.int64)
    column = np.zeros(len(placed), dtype=np.int64)
    for index, (upper, _, _) in enumerate(placed):
        column[index] = free[upper : upper + 2].max()
        free[upper : upper + 2] = column[index] + 1
    table = np.array(placed, dtype=np.float64).reshape(-1, 3)
    return Mesh(
        modes=modes,
        row=table[:, 0].astype(np.int64),
        column=column,
        theta=wrap(table[:, 1]),
        phi=wrap(table[:, 2]),
        output_phase=wrap(phases),
    )


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
    """Factorisation of an (out, in) matrix into its largest singular value ``scale`` and independent parts."""

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
    """Factor each independent part of an (out, in) matrix with only as many MZIs as its rank needs.

    A permutation with weights 0, 1 and -1 needs no MZI, a part of shape (m, n) and rank r at most r(m + n - r) MZIs. A
    part with orthogonal rows or columns needs one mesh and attenuators, an orthogonal part only one mesh.

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
