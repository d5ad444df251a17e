r"""Programming a triangular mesh: Reck et al., Phys. Rev. Lett. 73, 58 (1994).

Zeros are made below the diagonal column by column, from the bottom up, all of them from the left (outputs),
so the diagonal that is left over stands at the inputs and is carried through the whole mesh. N = 4::

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
from optinc_pdk.factor.nulling import Arrangement, arrange, as_unitary, program


def triangular(U: ArrayLike) -> Mesh:
    """The triangular mesh that realises a unitary.

    The MZI on rows (k, k + 1) sits in columns of the parity of N + k. Theta comes out in [0, pi]; an MZI that
    is wholly bar or cross gets phi = 0. The first call compiles, as with the rectangle.

    Args:
        U: (N, N) unitary, real or complex, N >= 1, or (batch, N, N).

    Returns:
        A mesh of N(N - 1)/2 MZIs, its phases with the batch's leading axis, as exact as the rectangular one.

    Raises:
        ValueError: Not square matrices of finite numbers, or ``max|U^H U - I|`` above 1e-10.

    Source:
        Reck et al., Phys. Rev. Lett. 73, 58 (1994), with the MZI of :mod:`optinc_pdk.factor.mesh`.
    """
    unitary = as_unitary(U)
    return program(unitary, _triangle(unitary.shape[-1]), "triangle")


def _triangle(modes: int) -> Arrangement:
    """Light meets the MZIs that made zeros in the last column first, each column's from the top."""
    turn, step = np.tril_indices(modes - 1)
    nulled = modes - 2 - turn
    return arrange(nulled + step, turn + step, 0)
