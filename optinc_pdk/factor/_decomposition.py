"""Decomposition of a unitary into a rectangular or triangular mesh by nulling.

The entries below the diagonal are nulled by rotations, each of which is one MZI. The phases of the diagonal that
remains are moved through the MZIs behind it to the outputs.

The **rectangle** (Clements et al., Optica 3, 1460 (2016)) nulls antidiagonal by antidiagonal, from the lower left
corner, alternately by rotations from the right (inputs) and from the left (outputs).

The **triangle** (Reck et al., Phys. Rev. Lett. 73, 58 (1994)) nulls column by column, from the bottom up, by rotations
from the left only. It has as many MZIs as the rectangle, in 2N - 3 columns instead of N, with paths of unequal length.
N = 4::

    column  0   1   2   3   4
    row 0  ---------##---------
    row 1  -----##--##--##-----
    row 2  -##--##--##--##--##-
    row 3  -##------##------##-
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.factor.checks import as_matrix
from optinc_pdk.factor.mesh import Mesh

UNITARITY_LIMIT = 1e-10
"""Largest ``max|U^H U - I|`` of a matrix that counts as unitary."""


@dataclass(frozen=True, eq=False)
class Arrangement:
    """Positions of the MZIs of a full mesh, and the order in which light passes them.

    Attributes:
        row: (MZIs,) upper mode, sorted by column, then row.
        column: (MZIs,) column.
        order: (MZIs,) indices into ``row`` and ``column`` in an order in which light can pass the MZIs. Triangular
            nulling determines the MZIs in the reverse order, rectangular nulling from both ends inwards.
        inner: Number of MZIs that light passes before the diagonal of phases that remains after nulling.
    """

    row: Ints
    column: Ints
    order: Ints
    inner: int


def arrange(row: Ints, column: Ints, inner: int) -> Arrangement:
    """Create the arrangement of MZIs that are given in the order in which light passes them; no two share row and
    column.
    """
    if not row.size:
        return Arrangement(row, column, np.zeros(0, dtype=np.int64), inner)
    occupied = np.zeros((column.max() + 1, row.max() + 1), dtype=np.bool_)
    occupied[column, row] = True
    slot = np.cumsum(occupied.ravel(), dtype=np.int64) - 1
    columns, rows = np.nonzero(occupied)
    return Arrangement(rows, columns, slot[column * occupied.shape[1] + row], inner)


def as_square(U: ArrayLike) -> NDArray[Any]:
    """Convert U to a square matrix, or a batch of them, in double precision. Does not check unitarity.

    Raises:
        ValueError: U is not square, or has an entry that is not a finite number.
    """
    matrix = as_matrix("U", U, batch=True)
    if matrix.shape[-1] != matrix.shape[-2]:
        raise ValueError(f"U has shape {matrix.shape}; a unitary is square")
    return matrix


def decompose(
    unitary: NDArray[Any], arrangement: Arrangement, kind: Literal["rectangle", "triangle"], free_phi: float = 0.0
) -> Mesh:
    """Decompose a unitary (N, N), or each of a batch, into a mesh with an arrangement of MZIs that matches ``kind``.

    ``free_phi`` is phi of MZIs in the bar or cross state in rad, in [0, 2 pi).

    Raises:
        ValueError: A matrix is not unitary, or free_phi is out of range.
    """
    if not 0.0 <= free_phi < 2.0 * np.pi:
        raise ValueError(f"free_phi is {free_phi!r}; give a phase in rad, at least 0 and below 2 pi")
    from optinc_pdk.factor import kernels

    lead, modes = unitary.shape[:-2], unitary.shape[-1]
    stack = unitary.reshape(-1, modes, modes)
    real, imag = np.array(stack.real, order="C"), np.array(stack.imag, order="C")
    rotations = np.empty((len(stack), arrangement.row.size, 3))
    null = kernels.null_rectangular if kind == "rectangle" else kernels.null_triangular
    null(real, imag, arrangement.order, rotations)
    diagonal = _remaining_diagonal(stack, real, imag, "U[{}]" if lead else "U")
    theta, phi = np.empty(rotations.shape[:2]), np.empty(rotations.shape[:2])
    output_phase = np.empty(diagonal.shape)
    # one memory layout, for which the kernel is compiled once
    row = np.ascontiguousarray(arrangement.row)
    kernels.phases_from_rotations(
        rotations, row, arrangement.order, arrangement.inner, diagonal, free_phi, theta, phi, output_phase
    )
    return Mesh(
        modes=modes,
        row=arrangement.row,
        column=arrangement.column,
        theta=theta.reshape(*lead, theta.shape[1]),
        phi=phi.reshape(*lead, phi.shape[1]),
        output_phase=output_phase.reshape(*lead, modes),
    )


def _remaining_diagonal(stack: NDArray[Any], real: Floats, imag: Floats, name: str) -> Complexes:
    """(batch, N) phasors on the diagonal after nulling; raises ValueError where U was not unitary.

    R^H R - I of the upper-triangular remainder R has the Frobenius norm of U^H U - I. A bound of it needs no matrix
    product; only matrices that exceed the bound are multiplied out.
    """
    index = np.arange(stack.shape[-1])
    diagonal = real[:, index, index] + 1j * imag[:, index, index]
    real[:, index, index] = imag[:, index, index] = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        above = np.einsum("bij,bij->b", real, real) + np.einsum("bij,bij->b", imag, imag)
        excess = np.sum((np.abs(diagonal) ** 2 - 1.0) ** 2, axis=-1)
        suspects = np.flatnonzero(~(2.0 * above + excess <= UNITARITY_LIMIT**2))
        for suspect in suspects:
            U = stack[suspect]
            deviation = float(np.max(np.abs(U.conj().T @ U - np.eye(len(U)))))
            if not deviation <= UNITARITY_LIMIT:  # also true for the NaN of an overflow
                raise ValueError(
                    f"{name.format(suspect)} is not unitary: max|U^H U - I| is {deviation:.3g}, at most "
                    f"{UNITARITY_LIMIT:g} is allowed; factor a general matrix with svd, or take its polar "
                    "factor in double precision"
                )
    return np.asarray(diagonal / np.abs(diagonal), dtype=np.complex128)


def rectangular(U: ArrayLike, free_phi: float = 0.0) -> Mesh:
    """Decompose a unitary into a rectangular mesh of MZIs.

    The mesh has all N(N - 1)/2 MZIs; those on modes (k, k + 1) are in the columns with the parity of k. Dummy MZIs that
    a layout adds for equal loss are not included. Theta is in [0, pi]. Work grows as N^3. The first call on a machine
    compiles for about six seconds (:mod:`optinc_pdk.factor.kernels`), the first call of a process takes half a second.

    Examples:
        >>> import numpy as np
        >>> import optinc_pdk as op
        >>> unitary = np.eye(4)[::-1]
        >>> bool(np.allclose(op.factor.rectangular(unitary).matrix(), unitary))
        True

    Args:
        U: (N, N) unitary, real or complex, N >= 1, or (batch, N, N).
        free_phi: Phi in rad, in [0, 2 pi), of MZIs in the full bar or cross state, to rounding, where it has no effect
            of its own. 0 needs no heater power; pi is the middle of the range, from which corrections can go both ways.

    Returns:
        The mesh, its phases with the batch's leading axis. ``max|U - mesh.matrix()|`` is at most 1e-13 for N up to 512,
        plus the Frobenius norm of U^H U - I where U is not unitary to rounding.

    Raises:
        ValueError: U is not a square matrix, or batch of them, of finite numbers, or ``max|U^H U - I|`` is above 1e-10,
            or free_phi is outside [0, 2 pi).

    Source:
        Clements et al., Optica 3, 1460 (2016), with the MZI of :mod:`optinc_pdk.factor.mesh`.
    """
    unitary = as_square(U)
    return decompose(unitary, _rectangle(unitary.shape[-1]), "rectangle", free_phi)


def _rectangle(modes: int) -> Arrangement:
    """The rectangle's slots: odd antidiagonals are in front of the remaining diagonal, even ones behind it."""
    below, step = np.tril_indices(modes - 1)
    diagonal = below + 1
    inner = diagonal % 2 == 1
    row = np.where(inner, diagonal - 1 - step, modes - 1 - diagonal + step)
    column = np.where(inner, step, modes - 1 - step)
    order = np.concatenate([np.flatnonzero(inner), np.flatnonzero(~inner)[::-1]])
    return arrange(row[order], column[order], int(np.count_nonzero(inner)))


def triangular(U: ArrayLike, free_phi: float = 0.0) -> Mesh:
    """Decompose a unitary into a triangular mesh of MZIs.

    MZIs on modes (k, k + 1) are in the columns with the parity of N + k. Arguments, accuracy and errors are those of
    :func:`optinc_pdk.factor.rectangular`.

    Source:
        Reck et al., Phys. Rev. Lett. 73, 58 (1994), with the MZI of :mod:`optinc_pdk.factor.mesh`.
    """
    unitary = as_square(U)
    return decompose(unitary, _triangle(unitary.shape[-1]), "triangle", free_phi)


def _triangle(modes: int) -> Arrangement:
    """The triangle's slots: light passes the MZIs that nulled the last column first, each column's from the top."""
    number, step = np.tril_indices(modes - 1)
    nulled = modes - 2 - number
    return arrange(nulled + step, number + step, 0)
