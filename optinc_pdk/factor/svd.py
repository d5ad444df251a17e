"""A matrix as mesh, attenuators, mesh: its singular value decomposition."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.factor.checks import as_matrix
from optinc_pdk.factor.mesh import Mesh
from optinc_pdk.factor.rectangular import rectangular


@dataclass(frozen=True, eq=False)
class SvdFactor:
    """W = scale U diag(attenuation) V^H, with two meshes and a column of attenuators.

    Attributes:
        u: Mesh of m modes, after the attenuators. Its output phases have to be driven: they set the signs.
        s: (r,) singular values, descending, r = min(m, n).
        v: Mesh of n modes, before the attenuators, with no output phases: they commute with the attenuators
            and are part of ``u``; those of dumped modes (beyond r) mean nothing.
        scale: The largest singular value; the chip is passive, so a later gain carries it.
    """

    u: Mesh
    s: NDArray[np.float64]
    v: Mesh
    scale: float

    @property
    def attenuation(self) -> NDArray[np.float64]:
        """(r,) field transmission of the attenuators, in [0, 1], the first one 1."""
        return self.s / self.scale

    def matrix(self) -> NDArray[np.complex128]:
        """The (m, n) matrix that the meshes realise, the scale included."""
        rank = self.s.size
        passive = (self.u.matrix()[:, :rank] * self.attenuation) @ self.v.matrix()[:rank]
        return np.asarray(self.scale * passive, dtype=np.complex128)


def svd(W: ArrayLike) -> SvdFactor:
    """Factors a matrix for the chip.

    Costs m(m + 1)/2 + n(n - 1)/2 MZIs by the count of arXiv 2603.28290. For a real W the singular vectors are
    real, so both meshes realise orthogonal matrices up to the phases that V hands to U.

    Args:
        W: (m, n) = (out, in), real or complex.

    Returns:
        The factors; ``matrix()`` is W to rounding.

    Raises:
        ValueError: Not a matrix of finite numbers; all zero; or a largest singular value out of range.
    """
    matrix = as_matrix("W", W)
    if not np.any(matrix):
        raise ValueError(f"W, shape {matrix.shape}, is all zero; drop the layer, it has no scale")
    left, singular, right = np.linalg.svd(matrix, full_matrices=True)
    scale = float(singular[0])
    if not 0.0 < scale < np.inf:
        raise ValueError(f"W has the largest singular value {scale}; rescale it")
    v = rectangular(right)
    left = left.astype(np.complex128)
    left[:, : singular.size] *= np.exp(1j * v.output_phase[: singular.size])
    return SvdFactor(
        u=rectangular(left),
        s=singular,
        v=replace(v, output_phase=np.zeros(v.modes)),
        scale=scale,
    )
