r"""Decomposition of a unitary into a triangular mesh: Reck et al., Phys. Rev. Lett. 73, 58 (1994).

The entries below the diagonal are nulled column by column, from the bottom up, all of them by rotations from the left
(outputs). The remaining diagonal is therefore at the inputs; its phases move through the whole mesh to the outputs.
N = 4::

    column  0   1   2   3   4
    row 0  ---------##---------
    row 1  -----##--##--##-----
    row 2  -##--##--##--##--##-
    row 3  -##------##------##-

It has as many MZIs as the rectangle, in 2N - 3 columns instead of N, with paths of unequal length.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.factor.mesh import Mesh
from optinc_pdk.factor.nulling import Arrangement, arrange, as_square, decompose


def triangular(U: ArrayLike, free_phi: float = 0.0) -> Mesh:
    """Decomposes a unitary into a triangular mesh of MZIs.

    MZIs on modes (k, k + 1) are in the columns with the parity of N + k. Theta is in [0, pi]. The first call compiles,
    as for :func:`optinc_pdk.factor.rectangular`.

    Args:
        U: (N, N) unitary, real or complex, N >= 1, or (batch, N, N).
        free_phi: Phi of MZIs in the bar or cross state, to rounding, in rad, in [0, 2 pi).

    Returns:
        A mesh of N(N - 1)/2 MZIs, its phases with the batch's leading axis, as accurate as that of
        :func:`optinc_pdk.factor.rectangular`.

    Raises:
        ValueError: U is not a square matrix, or batch of them, of finite numbers, or ``max|U^H U - I|`` is above 1e-10,
            or free_phi is outside [0, 2 pi).

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
