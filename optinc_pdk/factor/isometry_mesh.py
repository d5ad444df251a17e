"""Meshes that realise only some orthonormal rows or columns of a unitary: one MZI per nulled entry.

A part of shape (m, n) and rank r needs r orthonormal rows of V and r orthonormal columns of U; the other modes are
free. Nulling only these takes r(2n - r - 1)/2 MZIs instead of n(n - 1)/2. With both meshes and r attenuators it takes
r(m + n - r), the number of parameters of a matrix of rank r. Entries that are already zero need no MZI. The MZIs are
in the triangle of Reck et al., Phys. Rev. Lett. 73, 58 (1994), as far to the left as possible.
"""

from __future__ import annotations

import cmath
import math

import numpy as np

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.factor.mesh import TWO_PI, Mesh, mzi_transfer, wrap

ZERO = 1e-15
"""Entries of unit vectors below this count as zero."""


def mesh_of_rows(rows: Complexes) -> Mesh:
    """Decomposes orthonormal rows into a mesh that realises them at its first r outputs.

    Args:
        rows: (r, n) complex, orthonormal rows.

    Returns:
        A mesh of n modes; ``matrix()[:r]`` is ``rows`` to rounding.
    """
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
    """Decomposes orthonormal columns into a mesh that realises them for its first r inputs.

    Args:
        columns: (m, r) complex, orthonormal columns.

    Returns:
        A mesh of m modes; ``matrix()[:, :r]`` is ``columns`` to rounding.
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
