"""What the rectangle and the triangle share: the check of the unitary, the order of the light, the mesh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.factor.checks import as_matrix
from optinc_pdk.factor.mesh import Mesh

UNITARITY_LIMIT = 1e-10


@dataclass(frozen=True, eq=False)
class Arrangement:
    """Where the MZIs of a full mesh sit and in which order light meets them.

    Attributes:
        row: (MZIs,) upper mode, sorted by column, then row.
        column: (MZIs,) column.
        order: (MZIs,) indices into the two, a possible order of the light; in its reverse, or from both ends
            inwards, the nullings find them.
        inner: How many of them light meets before the diagonal of phases that nulling leaves over.
    """

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    order: NDArray[np.int64]
    inner: int


def arrange(row: NDArray[np.int64], column: NDArray[np.int64], inner: int) -> Arrangement:
    """The arrangement whose MZIs are given in the order of the light.

    Args:
        row: (MZIs,) upper mode.
        column: (MZIs,) column; no two MZIs share row and column.
        inner: How many of them come before the diagonal.
    """
    if not row.size:
        return Arrangement(row, column, np.zeros(0, dtype=np.int64), inner)
    taken = np.zeros((column.max() + 1, row.max() + 1), dtype=np.bool_)
    taken[column, row] = True
    slot = np.cumsum(taken.ravel(), dtype=np.int64) - 1
    columns, rows = np.nonzero(taken)
    return Arrangement(rows, columns, slot[column * taken.shape[1] + row], inner)


def as_unitary(U: ArrayLike) -> NDArray[Any]:
    """A square matrix or a batch of them in double precision; :func:`program` finds out whether unitary.

    Raises:
        ValueError: Not square, or not finite numbers.
    """
    matrix = as_matrix("U", U, batch=True)
    if matrix.shape[-1] != matrix.shape[-2]:
        raise ValueError(f"U has shape {matrix.shape}; a unitary is square")
    return matrix


def program(unitary: NDArray[Any], arrangement: Arrangement, kind: Literal["rectangle", "triangle"]) -> Mesh:
    """The mesh of an arrangement that realises a unitary, or each of a batch.

    Args:
        unitary: (N, N) or (batch, N, N).
        arrangement: The slots for N modes.
        kind: Which nulling they belong to.

    Raises:
        ValueError: Not unitary.
    """
    from optinc_pdk.factor import kernels

    lead, modes = unitary.shape[:-2], unitary.shape[-1]
    stack = unitary.reshape(-1, modes, modes)
    real, imag = np.array(stack.real, order="C"), np.array(stack.imag, order="C")
    rotations = np.empty((len(stack), arrangement.row.size, 3))
    null = kernels.null_rectangular if kind == "rectangle" else kernels.null_triangular
    null(real, imag, arrangement.order, rotations)
    diagonal = _left_over(stack, real, imag, "U[{}]" if lead else "U")
    theta, phi = np.empty(rotations.shape[:2]), np.empty(rotations.shape[:2])
    output_phase = np.empty(diagonal.shape)
    kernels.phases(rotations, arrangement.row, arrangement.order, arrangement.inner, diagonal, theta, phi, output_phase)
    return Mesh(
        modes=modes,
        row=arrangement.row,
        column=arrangement.column,
        theta=theta.reshape(*lead, theta.shape[1]),
        phi=phi.reshape(*lead, phi.shape[1]),
        output_phase=output_phase.reshape(*lead, modes),
    )


def _left_over(
    stack: NDArray[Any], real: NDArray[np.float64], imag: NDArray[np.float64], name: str
) -> NDArray[np.complex128]:
    """The (batch, N) phasors on the diagonal after nulling; refuses what was not unitary.

    R^H R - I of the remainder R, upper triangular, has the Frobenius norm of U^H U - I, and it takes no
    product of matrices to see that it is small. Only a suspect is multiplied out.
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
            if not deviation <= UNITARITY_LIMIT:  # also refuses the NaN of an overflow
                raise ValueError(
                    f"{name.format(suspect)} is not unitary: max|U^H U - I| is {deviation:.3g}, at most "
                    f"{UNITARITY_LIMIT:g} is allowed; factor a general matrix with svd, or take its polar "
                    "factor in double precision"
                )
    return np.asarray(diagonal / np.abs(diagonal), dtype=np.complex128)
