"""Meshes for orthonormal rows or columns only: one MZI per entry that has to vanish.

A part of shape (m, n) and rank r needs r orthonormal rows of V and r orthonormal columns of U; what the
other modes do is free. Nulling only those costs r(2n - r - 1)/2 MZIs instead of n(n - 1)/2, r(m + n - r)
with both meshes and r attenuators, which is the number of a rank-r matrix's parameters. Entries that vanish
by themselves cost nothing. The MZIs are in the triangle of Reck et al., Phys. Rev. Lett. 73, 58 (1994), as
far to the left as they can be.
"""

from __future__ import annotations

import cmath
import math

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.factor.mesh import TWO_PI, Mesh, mzi_transfer, wrap

Complexes = NDArray[np.complex128]

ZERO = 1e-15
"""Entries of unit vectors below this are rounding."""


def mesh_of_rows(rows: NDArray[np.complex128]) -> Mesh:
    """A mesh whose first r outputs are given rows.

    Args:
        rows: (r, n), orthonormal.

    Returns:
        A mesh of n modes; ``matrix()[:r]`` is ``rows`` to rounding.
    """
    left = np.array(rows, dtype=np.complex128)
    count, modes = left.shape
    placed: list[tuple[int, float, float]] = []
    for row in range(count):
        for upper in range(modes - 2, row - 1, -1):
            keep, null = complex(left[row, upper]), complex(left[row, upper + 1])
            if abs(null) <= ZERO:
                continue
            theta = 2.0 * math.atan2(abs(keep), abs(null))
            phi = (cmath.phase(keep) - cmath.phase(null)) % TWO_PI
            left[:, upper : upper + 2] = left[:, upper : upper + 2] @ mzi_transfer(theta, phi).conj().T
            placed.append((upper, theta, phi))
    phases = np.zeros(modes)
    phases[:count] = np.angle(np.diagonal(left)[:count])
    return _mesh(modes, placed, phases)


def mesh_of_columns(columns: NDArray[np.complex128]) -> Mesh:
    """A mesh that answers its first r inputs with given columns.

    Args:
        columns: (m, r), orthonormal.

    Returns:
        A mesh of m modes; ``matrix()[:, :r]`` is ``columns`` to rounding.
    """
    left = np.array(columns, dtype=np.complex128)
    modes, count = left.shape
    outer: list[tuple[int, float, float]] = []
    for column in range(count):
        for upper in range(modes - 2, column - 1, -1):
            keep, null = complex(left[upper, column]), complex(left[upper + 1, column])
            if abs(null) <= ZERO:
                continue
            theta = 2.0 * math.atan2(abs(keep), abs(null))
            psi = (cmath.phase(keep) - cmath.phase(null)) % TWO_PI
            turned = mzi_transfer(theta, 0.0).conj().T
            turned[:, 0] *= cmath.exp(-1j * psi)
            left[upper : upper + 2] = turned @ left[upper : upper + 2]
            outer.append((upper, theta, psi))
    phases = np.zeros(modes)
    phases[:count] = np.angle(np.diagonal(left)[:count])
    placed: list[tuple[int, float, float]] = []
    # diag(e^{i psi}, 1) MZI(theta, 0) diag(e^{ia}, e^{ib}) = diag(e^{i(psi + b)}, e^{ib}) MZI(theta, a - b)
    for upper, theta, psi in reversed(outer):
        placed.append((upper, theta, float(phases[upper] - phases[upper + 1])))
        phases[upper] = psi + phases[upper + 1]
    return _mesh(modes, placed, phases)


def _mesh(modes: int, placed: list[tuple[int, float, float]], phases: NDArray[np.float64]) -> Mesh:
    """MZIs in the order in which light meets them, each in the first column free on both its modes."""
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
