"""Programming a rectangular mesh: Clements et al., Optica 3, 1460 (2016).

Zeros are made below the diagonal, one antidiagonal after the other from the lower left corner, by turns from
the right (inputs) and from the left (outputs). Each zero is one MZI. An MZI on the left comes out in
front of the diagonal that is left over, and is then carried through it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.factor.mesh import Mesh
from optinc_pdk.factor.nulling import Arrangement, arrange, as_unitary, program


def rectangular(U: ArrayLike) -> Mesh:
    """The rectangular mesh that realises a unitary.

    All N(N - 1)/2 slots are filled; the MZI on rows (k, k + 1) sits in columns of k's parity (dummies that a
    layout adds to even out the loss are no part of it). Theta comes out in [0, pi]; an MZI that is wholly bar
    or cross gets phi = 0. Work grows as N^3.

    The first call on a machine compiles for some six seconds (:mod:`optinc_pdk.factor.kernels`), the first
    call of a process takes half a second.

    Args:
        U: (N, N) unitary, real or complex, N >= 1, or (batch, N, N).

    Returns:
        A mesh, its phases with the batch's leading axis, with ``max|U - mesh.matrix()|`` at most 1e-13 for N
        up to 512, plus the Frobenius norm of U^H U - I where U is not unitary to rounding.

    Raises:
        ValueError: Not square matrices of finite numbers, or ``max|U^H U - I|`` above 1e-10.

    Source:
        Clements et al., Optica 3, 1460 (2016), with the MZI of :mod:`optinc_pdk.factor.mesh`.
    """
    unitary = as_unitary(U)
    return program(unitary, _rectangle(unitary.shape[-1]), "rectangle")


def _rectangle(modes: int) -> Arrangement:
    """N columns; odd antidiagonals are inner MZIs, even ones outer, found from the outputs inwards."""
    below, step = np.tril_indices(modes - 1)
    diagonal = below + 1
    inner = diagonal % 2 == 1
    row = np.where(inner, diagonal - 1 - step, modes - 1 - diagonal + step)
    column = np.where(inner, step, modes - 1 - step)
    light = np.concatenate([np.flatnonzero(inner), np.flatnonzero(~inner)[::-1]])
    return arrange(row[light], column[light], int(np.count_nonzero(inner)))
