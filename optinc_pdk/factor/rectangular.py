"""Programming a rectangular mesh: Clements et al., Optica 3, 1460 (2016).

Zeros are made below the diagonal, one antidiagonal after the other from the lower left corner, by turns from
the right (inputs) and from the left (outputs). Each zero is one MZI. An MZI on the left comes out in
front of the diagonal that is left over, and is then carried through it.
"""

from __future__ import annotations

import cmath
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.factor.checks import as_matrix
from optinc_pdk.factor.mesh import TWO_PI, Mesh, mzi_transfer, wrap

UNITARITY_LIMIT = 1e-10

# row, column, theta, phase: of the upper input arm for an MZI on the right of the diagonal, of the upper
# output arm for one on the left.
_Placed = tuple[int, int, float, float]


def rectangular(U: ArrayLike) -> Mesh:
    """The rectangular mesh that realises a unitary.

    All N(N - 1)/2 slots are filled; the MZI on rows (k, k + 1) sits in columns of k's parity (dummies that a
    layout adds to even out the loss are no part of it). Theta comes out in [0, pi]. Work grows as N^3.

    Args:
        U: (N, N) unitary, real or complex, N >= 1.

    Returns:
        A mesh with ``max|U - mesh.matrix()|`` at most 1e-13 for N up to 64, or the deviation of U from
        unitary where that is larger.

    Raises:
        ValueError: Not a square matrix of finite numbers, or ``max|U^H U - I|`` above 1e-10.

    Source:
        Clements et al., Optica 3, 1460 (2016), with the MZI of :mod:`optinc_pdk.factor.mesh`.
    """
    remainder = _as_unitary(U)
    modes = remainder.shape[0]
    inner: list[_Placed] = []
    outer: list[_Placed] = []
    for diagonal in range(1, modes):
        for step in range(diagonal):
            if diagonal % 2:
                upper = diagonal - 1 - step
                theta, phi = _null_from_right(remainder, modes - 1 - step, upper)
                inner.append((upper, step, theta, phi))
            else:
                upper = modes - 1 - diagonal + step
                theta, psi = _null_from_left(remainder, upper + 1, step)
                outer.append((upper, modes - 1 - step, theta, psi))
    phases = np.angle(np.diagonal(remainder)).copy()
    placed = inner + _carry_through_diagonal(outer, phases)
    return _mesh(modes, placed, phases)


def _as_unitary(U: ArrayLike) -> NDArray[np.complex128]:
    matrix = as_matrix("U", U).astype(np.complex128)
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"U has shape {matrix.shape}; a unitary is square")
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = float(np.max(np.abs(matrix.conj().T @ matrix - np.eye(matrix.shape[0]))))
    if not deviation <= UNITARITY_LIMIT:  # also refuses the NaN of an overflow
        raise ValueError(
            f"U is not unitary: max|U^H U - I| is {deviation:.3g}, at most {UNITARITY_LIMIT:g} is allowed; "
            "factor a general matrix with svd, or take its polar factor in double precision"
        )
    return matrix


def _null_from_right(remainder: NDArray[np.complex128], row: int, upper: int) -> tuple[float, float]:
    """Multiplies by MZI^H from the right so that [row, upper] is zero; returns theta and phi."""
    target, partner = complex(remainder[row, upper]), complex(remainder[row, upper + 1])
    theta = 2.0 * math.atan2(abs(partner), abs(target))
    phi = (cmath.phase(target) - cmath.phase(partner) + math.pi) % TWO_PI
    # Both columns are already zero below this row.
    pair = remainder[: row + 1, upper : upper + 2]
    pair[...] = pair @ mzi_transfer(theta, phi).conj().T
    remainder[row, upper] = 0.0
    return theta, phi


def _null_from_left(remainder: NDArray[np.complex128], row: int, column: int) -> tuple[float, float]:
    """Multiplies by G^H from the left so that [row, column] is zero; returns theta and psi.

    G = diag(e^{i psi}, 1) MZI(theta, 0): the outer phase on the output, where it meets the next MZI's input.
    """
    partner, target = complex(remainder[row - 1, column]), complex(remainder[row, column])
    theta = 2.0 * math.atan2(abs(partner), abs(target))
    psi = (cmath.phase(partner) - cmath.phase(target)) % TWO_PI
    # Both rows are already zero left of this column.
    pair = remainder[row - 1 : row + 1, column:]
    turned = mzi_transfer(theta, 0.0).conj().T
    turned[:, 0] *= cmath.exp(-1j * psi)
    pair[...] = turned @ pair
    remainder[row, column] = 0.0
    return theta, psi


def _carry_through_diagonal(outer: list[_Placed], phases: NDArray[np.float64]) -> list[_Placed]:
    """Rewrites G diag(e^{i phases}) as diag(e^{i phases'}) MZI, the innermost G first; updates phases.

    diag(e^{i psi}, 1) MZI(theta, 0) diag(e^{ia}, e^{ib}) = diag(e^{i(psi + b)}, e^{ib}) MZI(theta, a - b).
    """
    carried: list[_Placed] = []
    for upper, column, theta, psi in reversed(outer):
        carried.append((upper, column, theta, float(phases[upper] - phases[upper + 1])))
        phases[upper] = (psi + phases[upper + 1]) % TWO_PI
    return carried


def _mesh(modes: int, placed: list[_Placed], phases: NDArray[np.float64]) -> Mesh:
    """The MZIs sorted by column, then row."""
    table = np.array(placed, dtype=np.float64).reshape(-1, 4)
    table = table[np.lexsort((table[:, 0], table[:, 1]))]
    return Mesh(
        modes=modes,
        row=table[:, 0].astype(np.int64),
        column=table[:, 1].astype(np.int64),
        theta=wrap(table[:, 2]),
        phi=wrap(table[:, 3]),
        output_phase=wrap(phases),
    )
