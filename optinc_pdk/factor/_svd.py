"""Singular value decomposition of a matrix into a mesh, attenuators and a second mesh."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.factor._decomposition import rectangular
from optinc_pdk.factor.checks import as_matrix, as_numbers, check_passive
from optinc_pdk.factor.counts import svd_mzis
from optinc_pdk.factor.mesh import Mesh


@dataclass(frozen=True, eq=False)
class SvdFactor:
    """Factors of W = scale U diag(attenuation) V^H: two meshes and a column of attenuators.

    Attributes:
        u: Mesh of m modes, after the attenuators. Its output phases must be driven: they set the signs.
        s: (r,) singular values, r = min(m, n), not divided by ``scale``; descending unless another order was given.
        v: Mesh of n modes, in front of the attenuators. Its output phases are 0: those of the first r modes are
            included in ``u``, because they commute with the attenuators; those of dumped modes have no effect.
        scale: Largest singular value. The chip is passive, so an electronic gain multiplies its outputs by it.

    Raises:
        ValueError: There are not min(m, n) singular values, or one is outside [0, scale].
    """

    u: Mesh
    s: Floats
    v: Mesh
    scale: float

    def __post_init__(self) -> None:
        """Checks that attenuators can realise the singular values."""
        rank = min(self.u.modes, self.v.modes)
        if self.s.shape != (rank,):
            raise ValueError(f"s has shape {self.s.shape}; {self.u.modes} and {self.v.modes} modes take ({rank},)")
        check_passive("s", self.s, self.scale)

    @property
    def attenuation(self) -> Floats:
        """Field transmission of the attenuators, ``s`` / ``scale``, (r,), in [0, 1]; the maximum is 1."""
        return self.s / self.scale

    @property
    def mzis(self) -> int:
        """Number of MZIs by the convention of arXiv 2603.28290: both meshes, and an attenuator per output."""
        return svd_mzis(self.u.modes, self.v.modes)

    def matrix(self) -> Complexes:
        """Returns the (m, n) complex matrix that meshes and attenuators realise, including the scale."""
        rank = self.s.size
        passive = (self.u.matrix()[:, :rank] * self.attenuation) @ self.v.matrix()[:rank]
        return np.asarray(self.scale * passive, dtype=np.complex128)


def svd(W: ArrayLike, order: ArrayLike | None = None, signs: ArrayLike | None = None) -> SvdFactor:
    """Factor an (m, n) = (out, in) matrix into two meshes and attenuators by its singular value decomposition.

    The factors have m(m + 1)/2 + n(n - 1)/2 MZIs by the count of arXiv 2603.28290. For a real W the singular vectors
    are real, so both meshes realise orthogonal matrices up to the phases that move from V to U.

    Args:
        W: (m, n), real or complex.
        order: (r,) permutation: entry k is the rank (0 is the largest) of the singular value on mode k. By default the
            singular values are in descending order.
        signs: (r,) factors 1 or -1 of both singular vectors of each mode; 1 by default. Order and signs change the
            phases of the meshes but not their product.

    Raises:
        ValueError: W is not a matrix of finite numbers, is all zero, or its largest singular value is out of range;
            order is not a permutation, or signs are not 1 and -1.
    """
    return _meshes(*_vectors(W), order, signs)


def total_heater_phase(factor: SvdFactor) -> float:
    """Returns the sum of theta and phi of all MZIs in rad. Times P_pi / pi it is the heater power of the meshes."""
    return float(sum(mesh.theta.sum() + mesh.phi.sum() for mesh in (factor.u, factor.v)))


def svd_search(
    W: ArrayLike, cost: Callable[[SvdFactor], float] = total_heater_phase, tries: int = 300, seed: int = 0
) -> SvdFactor:
    """Search orders of singular values and signs of singular vectors for the factors of lowest cost.

    Starts from the factors of :func:`svd`, exchanges two modes or changes the sign of one, and keeps every change that
    lowers the cost, such as heater power or the error of imperfect meshes.

    Raises:
        ValueError: As for :func:`svd`, or tries is not a whole number of at least 0.
    """
    if isinstance(tries, bool) or not isinstance(tries, int | np.integer) or tries < 0:
        raise ValueError(f"tries is {tries!r}; give a whole number, 0 or more")
    rng = np.random.default_rng(seed)
    vectors = _vectors(W)
    rank = vectors[1].size
    order, signs = np.arange(rank), np.ones(rank)
    best = _meshes(*vectors, order, signs)
    lowest = cost(best)
    for _ in range(tries):
        one, other = rng.integers(0, rank, 2)
        new_order, new_signs = order.copy(), signs.copy()
        if one == other:
            new_signs[one] *= -1.0
        else:
            new_order[[one, other]] = order[[other, one]]
            new_signs[[one, other]] = rng.choice((-1.0, 1.0), 2)
        candidate = _meshes(*vectors, new_order, new_signs)
        candidate_cost = cost(candidate)
        if candidate_cost < lowest:
            best, lowest, order, signs = candidate, candidate_cost, new_order, new_signs
    return best


NULL = 1e-9
"""Singular values below this share of the largest count as zero."""


def svd_generic(W: ArrayLike, rng: np.random.Generator) -> SvdFactor:
    """Factor an (m, n) = (out, in) matrix by singular value decomposition with random vectors in its null spaces.

    The product does not depend on the null vectors. Those that LAPACK returns contain many zeros, which need MZIs in
    the exact cross or bar state, and unbalanced couplers cannot realise these. With random null vectors the MZIs are
    near the middle of their range. Singular values up to `NULL` times the largest are set to 0.

    Raises:
        ValueError: W is not a matrix of finite numbers, is all zero, or its largest singular value is out of range.
    """
    return _generic(_complex_vectors(W), rng)


EQUAL = 1e-9
"""Singular values that differ by less than this share of the largest count as equal."""


def svd_mixed(
    W: ArrayLike, rng: np.random.Generator, decompose: Callable[[NDArray[Any], float], Mesh] = rectangular
) -> SvdFactor:
    """Factor a matrix by singular value decomposition with random vectors wherever singular values are equal.

    As :func:`svd_generic`, but singular vectors of equal singular values are mixed as well: the product depends on the
    space that they span only. A unitary becomes the product of two random ones, so that also a permutation needs no MZI
    at the end of its range. ``decompose`` is the decomposition of a unitary into a mesh, with phi of MZIs in the bar or
    cross state as its second argument.

    Raises:
        ValueError: As for :func:`svd_generic`.
    """
    left, singular, right = vectors = _complex_vectors(W)
    rank = np.count_nonzero(singular)
    steps = 1 + np.flatnonzero(singular[: rank - 1] - singular[1:rank] > EQUAL * singular[0])
    for members in np.split(np.arange(rank), steps):
        if members.size > 1:
            mixing = _random_unitary(members.size, rng)
            left[:, members] = left[:, members] @ mixing
            right[members] = mixing.conj().T @ right[members]
    return _generic(vectors, rng, decompose)


_Vectors = tuple[NDArray[Any], Floats, NDArray[Any]]


def _vectors(W: ArrayLike) -> _Vectors:
    matrix = as_matrix("W", W)
    if not np.any(matrix):
        raise ValueError(f"W, shape {matrix.shape}, is all zero; drop the layer, it has no scale")
    left, singular, right = np.linalg.svd(matrix, full_matrices=True)
    scale = float(singular[0])
    if not 0.0 < scale < np.inf:
        raise ValueError(f"W has the largest singular value {scale}; rescale it")
    return left, singular, right


def _complex_vectors(W: ArrayLike) -> tuple[Complexes, Floats, Complexes]:
    """Singular vectors and values; values up to `NULL` times the largest are 0."""
    left, singular, right = _vectors(W)
    kept = np.where(singular > NULL * singular[0], singular, 0.0)
    return left.astype(np.complex128), kept, right.astype(np.complex128)


def _generic(
    vectors: _Vectors, rng: np.random.Generator, decompose: Callable[[NDArray[Any], float], Mesh] = rectangular
) -> SvdFactor:
    """Factors from singular vectors, with random vectors in place of those of singular values that are 0.

    Phases that have no effect are in the middle of their range.
    """
    left, singular, right = vectors
    rank = np.count_nonzero(singular)
    left[:, rank:] = left[:, rank:] @ _random_unitary(left.shape[0] - rank, rng)
    right[rank:] = _random_unitary(right.shape[0] - rank, rng) @ right[rank:]
    return _meshes(left, singular, right, None, None, lambda unitary: decompose(unitary, np.pi))


def _meshes(
    left: NDArray[Any],
    singular: Floats,
    right: NDArray[Any],
    order: ArrayLike | None,
    signs: ArrayLike | None,
    decompose: Callable[[NDArray[Any]], Mesh] = rectangular,
) -> SvdFactor:
    rank = singular.size
    indices = np.arange(rank) if order is None else as_numbers("order", order)
    factors = np.ones(rank) if signs is None else as_numbers("signs", signs)
    is_permutation = indices.shape == (rank,) and np.array_equal(np.sort(indices), np.arange(rank))
    if indices.dtype.kind not in "iu" or not is_permutation:
        raise ValueError(f"order is {order!r}; give each of 0 to {rank - 1} once")
    if factors.dtype.kind not in "if" or factors.shape != (rank,) or not np.all(np.abs(factors) == 1.0):
        raise ValueError(f"signs is {signs!r}; give {rank} times 1 or -1")
    right, left = right.copy(), left.astype(np.complex128)
    right[:rank] = factors[:, np.newaxis] * right[indices]
    v = decompose(right)
    left[:, :rank] = left[:, indices] * factors * np.exp(1j * v.output_phase[:rank])
    return SvdFactor(
        u=decompose(left),
        s=singular[indices],
        v=replace(v, output_phase=np.zeros(v.modes)),
        scale=float(singular[0]),
    )


def _random_unitary(size: int, rng: np.random.Generator) -> Complexes:
    """A Haar-distributed unitary (Mezzadri, arXiv math-ph/0609050)."""
    gauss = rng.standard_normal((size, size)) + 1j * rng.standard_normal((size, size))
    q, r = np.linalg.qr(gauss)
    phase = np.diagonal(r) / np.abs(np.diagonal(r))
    return np.asarray(q * phase, dtype=np.complex128)


@dataclass(frozen=True, eq=False)
class BlockDiagonalFactor:
    """Factors of a matrix whose rows and columns fall into parts that share no weight: one SVD for each part."""

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
