"""Decomposition of a unitary by nulling, shared by rectangle and triangle: unitarity check, MZI order, phases."""

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
    """Creates the arrangement of MZIs that are given in the order in which light passes them.

    Args:
        row: (MZIs,) upper mode.
        column: (MZIs,) column; no two MZIs share row and column.
        inner: Number of MZIs that light passes before the diagonal that remains after nulling.
    """
    if not row.size:
        return Arrangement(row, column, np.zeros(0, dtype=np.int64), inner)
    occupied = np.zeros((column.max() + 1, row.max() + 1), dtype=np.bool_)
    occupied[column, row] = True
    slot = np.cumsum(occupied.ravel(), dtype=np.int64) - 1
    columns, rows = np.nonzero(occupied)
    return Arrangement(rows, columns, slot[column * occupied.shape[1] + row], inner)


def as_square(U: ArrayLike) -> NDArray[Any]:
    """Converts U to a square matrix, or a batch of square matrices, in double precision. Does not check unitarity.

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
    """Decomposes a unitary, or each unitary of a batch, into a mesh with the given arrangement of MZIs.

    Args:
        unitary: (N, N) or (batch, N, N).
        arrangement: Positions and order of the MZIs for N modes.
        kind: Order of nulling, which must match the arrangement: "rectangle" (Clements et al.) or "triangle" (Reck et
            al.).
        free_phi: Phi of MZIs in the bar or cross state in rad, in [0, 2 pi).

    Returns:
        The mesh; its phases have the leading axis of ``unitary``.

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
