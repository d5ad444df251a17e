"""A whole layer on two imperfect meshes: Re(M_U A M_V) is the weight matrix up to a scale per row.

The imaginary part is free, so what is factored is W + iY, Y random and small: its singular vectors are
complex and generic, where real ones want many MZIs at cross, which imperfect couplers cannot make; and its
small singular values are larger. V's mesh is corrected as a unitary. What its floor leaves is no error yet:
the fields X = A M_V that really come out of it go into the fit of U's mesh, of whose outputs homodyne
detection reads the real part only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.factor.checks import as_matrix
from optinc_pdk.factor.correct import (
    STEPS,
    Correction,
    correct,
    fit,
    ideal_phases,
    refuse_amplitude,
    refuse_steps,
)
from optinc_pdk.factor.correct_fit import Problem
from optinc_pdk.factor.devices import Devices

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LayerCorrection:
    """Phases of a layer's two meshes.

    Attributes:
        u: Mesh of m modes after the attenuators. Its errors and row scales are those of the layer: real part,
            rows scaled back, Frobenius norm over that of W; ``error_before`` and ``error_local`` are with V's
            mesh already corrected.
        attenuation: (r,) field transmission of the attenuators, the largest of all 1.
        v: Mesh of n modes before them, as a unitary.
    """

    u: Correction
    attenuation: Floats
    v: Correction

    @property
    def error(self) -> float:
        """Frobenius norm of the layer's error over that of W."""
        return self.u.error

    def matrix(self) -> Floats:
        """(m, n) what the layer computes, electronics included: W up to the error."""
        rank = self.attenuation.size
        fields = self.attenuation[:, np.newaxis] * self.v.matrix[:rank]
        weights: Floats = (self.u.matrix[:, :rank] @ fields).real / self.u.row_scale[:, np.newaxis]
        return weights


def correct_layer(
    W: ArrayLike, left: Devices, right: Devices, *, amplitude: float = 0.95, steps: int = STEPS, seed: int = 0
) -> LayerCorrection:
    """The phases with which two imperfect meshes and attenuators best compute a real matrix.

    Args:
        W: (m, n) = (out, in), real.
        left: U's mesh as it was made, m modes, after the attenuators.
        right: V's mesh as it was made, n modes.
        amplitude: Share of the field that is left to the real part at the start, above 0 and at most 1.
        steps: As for :func:`optinc_pdk.factor.correct`, for each mesh.
        seed: Draws where the fit of U starts.

    Raises:
        ValueError: W is not a real matrix of the meshes' sizes or all zero, amplitude or steps are out of
            range, or the devices are no rectangular mesh.
    """
    refuse_steps(steps)
    refuse_amplitude(amplitude)
    weights = as_matrix("W", W)
    if weights.dtype.kind == "c":
        raise ValueError("W is complex; homodyne detection reads real weights")
    if weights.shape != (left.modes, right.modes):
        raise ValueError(f"W has shape {weights.shape}; these devices make {(left.modes, right.modes)}")
    peak = float(np.max(np.abs(weights)))
    if peak == 0.0:
        raise ValueError(f"W, shape {weights.shape}, is all zero; drop the layer, it has no scale")
    rng = np.random.default_rng(seed)
    unitary, singular, inner = np.linalg.svd(_with_imaginary(weights / peak, amplitude, rng))
    attenuation = singular / singular[0]
    v = correct(inner, right, steps=steps, seed=seed)
    fields = np.zeros((left.modes, right.modes), dtype=np.complex128)
    fields[: singular.size] = attenuation[:, np.newaxis] * v.matrix[: singular.size]
    start = ideal_phases(unitary, left, rng)
    u = fit(Problem(left, weights, homodyne=True, inputs=fields), start, steps, rng)
    return LayerCorrection(u, attenuation, v)


def _with_imaginary(W: Floats, amplitude: float, rng: np.random.Generator) -> NDArray[np.complex128]:
    """(m, n) W + iY with |Y|_2 = |W|_2 sqrt(1 / amplitude^2 - 1): at least the amplitude is left to W."""
    share = np.sqrt(1.0 / amplitude**2 - 1.0)
    gauss = rng.standard_normal(W.shape)
    imaginary = share * np.linalg.norm(W, 2) / np.linalg.norm(gauss, 2) * gauss
    return np.asarray(W + 1j * imaginary, dtype=np.complex128)
