"""Decomposition of a unitary into a rectangular mesh: Clements et al., Optica 3, 1460 (2016).

The entries below the diagonal are nulled antidiagonal by antidiagonal, from the lower left corner, alternately by
rotations from the right (inputs) and from the left (outputs). Each nulled entry is one MZI. The MZIs from the left
then stand behind the remaining diagonal, whose phases are moved through them to the outputs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.factor.mesh import Mesh
from optinc_pdk.factor.nulling import Arrangement, arrange, as_square, decompose


def rectangular(U: ArrayLike, free_phi: float = 0.0) -> Mesh:
    """Decomposes a unitary into a rectangular mesh of MZIs.

    The mesh has all N(N - 1)/2 MZIs; those on modes (k, k + 1) are in the columns with the parity of k. Dummy MZIs that
    a layout adds for equal loss are not included. Theta is in [0, pi]; an MZI in the full bar or cross state, to
    rounding, gets phi = ``free_phi``, because its phi has no effect of its own. Work grows as N^3.

    The first call on a machine compiles for about six seconds (:mod:`optinc_pdk.factor.kernels`), the first call of a
    process takes half a second.

    Args:
        U: (N, N) unitary, real or complex, N >= 1, or (batch, N, N).
        free_phi: Phi of MZIs in the bar or cross state in rad, in [0, 2 pi). 0 needs no heater power; pi is the middle
            of the range, from which corrections can go both ways.

    Returns:
        The mesh, its phases with the batch's leading axis. ``max|U - mesh.matrix()|`` is at most 1e-13 for N up to
        512, plus the Frobenius norm of U^H U - I where U is not unitary to rounding.

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
