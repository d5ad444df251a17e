"""Correction of a whole layer, two imperfect meshes and attenuators: Re(M_U A M_V) is W up to a scale per row.

The imaginary part is free, so the factored matrix is W + iY, Y random and small. Its singular vectors are complex and
generic, whereas real ones need many MZIs at cross, which imperfect couplers cannot reach; and its small singular
values are larger. Of V's mesh only the r = min(m, n) outputs count that are not dumped. The fit of U's mesh takes the
fields X = A M_V that V's mesh really emits, and homodyne detection reads only the real part of the result. With
m >= n, U can compensate the remaining error of V's mesh. With m < n it cannot leave the row space of X, but then V's
mesh has the free phases of the dumped modes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.factor.checks import as_matrix
from optinc_pdk.factor.correction.ideal_phases import ideal_phases
from optinc_pdk.factor.correction.least_squares import CorrectionProblem
from optinc_pdk.factor.correction.mesh_correction import (
    STEPS,
    Correction,
    check_amplitude,
    check_steps,
    fit,
    local_error,
)
from optinc_pdk.factor.devices import MeshDevices

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]

SMALLEST = 1e-300
"""Smallest magnitude of the largest entry for which row scales are normal numbers; the largest is its inverse."""
DRAWS = 8
"""Random imaginary parts of which the one with the smallest error after local correction is used."""


@dataclass(frozen=True, eq=False)
class LayerCorrection:
    """Corrected phases of a layer's two meshes, and the transmissions of its attenuators.

    Light passes mesh V (n modes), r = min(m, n) attenuators and mesh U (m modes).

    Attributes:
        u: Correction of mesh U. Its errors and row scales refer to the whole layer: they compare the real part of the
            layer's matrix, rows divided by their scales, with W (Frobenius norm relative to that of W).
            ``error_before`` and ``error_local`` assume that mesh V is already corrected. The row scale of a zero row
            of W is 0; the electronics do not read this row.
        attenuation: (r,) field transmission of the attenuators; the maximum is 1.
        v: Correction of mesh V. Its errors refer to the r outputs that are used.
    """

    u: Correction
    attenuation: Floats
    v: Correction

    @property
    def error(self) -> float:
        """Frobenius norm of the layer's error relative to that of W."""
        return self.u.error

    def matrix(self) -> Floats:
        """Returns the (m, n) real matrix that the layer computes, with division by row scales: W up to the error."""
        rank = self.attenuation.size
        fields = self.attenuation[:, np.newaxis] * self.v.matrix[:rank]
        read, scale = (self.u.matrix[:, :rank] @ fields).real, self.u.row_scale[:, np.newaxis]
        return np.divide(read, scale, out=np.zeros_like(read), where=scale != 0.0)


def correct_layer(
    W: ArrayLike, left: MeshDevices, right: MeshDevices, *, amplitude: float = 0.95, steps: int = STEPS, seed: int = 0
) -> LayerCorrection:
    """Finds the phases with which two imperfect meshes and attenuators best compute a real matrix.

    Args:
        W: (m, n) = (out, in), real.
        left: Devices of mesh U, m modes, behind the attenuators.
        right: Devices of mesh V, n modes, in front of the attenuators.
        amplitude: Fraction a of the field that the starting point W + iY has at least in its real part, above 0 and
            at most 1: Y is random with the 2-norm of W times sqrt(1 / a^2 - 1).
        steps: Largest number of Newton factorisations for each mesh, see :func:`optinc_pdk.factor.correct`.
        seed: Seed of the random imaginary part Y and of the starting points of the fits.

    Returns:
        The phases of both meshes, the attenuations and the errors.

    Raises:
        ValueError: W is not a real matrix of the meshes' sizes, is all zero, or has a largest entry above 1e300 or
            below 1e-300; amplitude or steps are out of range, or the devices form neither a rectangular nor a
            triangular mesh.
    """
    check_steps(steps)
    check_amplitude(amplitude)
    weights = as_matrix("W", W)
    if weights.dtype.kind == "c":
        raise ValueError("W is complex; homodyne detection reads real weights")
    if weights.shape != (left.modes, right.modes):
        raise ValueError(f"W has shape {weights.shape}; these devices realise {(left.modes, right.modes)}")
    peak = float(np.max(np.abs(weights)))
    if peak == 0.0:
        raise ValueError(f"W, shape {weights.shape}, is all zero; drop the layer, it has no scale")
    if not SMALLEST < peak < 1.0 / SMALLEST:
        raise ValueError(
            f"W has {peak:g} as its largest entry; its row scales leave double precision, rescale it to between "
            f"{SMALLEST:g} and {1 / SMALLEST:g}"
        )
    # Sums of squares would overflow or underflow without this division.
    weights = weights / peak
    rng = np.random.default_rng(seed)
    starts = [_start(weights, left, right, amplitude, rng) for _ in range(DRAWS)]
    best = min(starts, key=lambda start: start.local_error)
    v = fit(best.inner, best.inner_phases, steps, rng)
    outer = replace(best.outer, inputs=_fields(best.attenuation, v.matrix, left.modes))
    u = fit(outer, best.outer_phases, steps, rng)
    return LayerCorrection(replace(u, row_scale=u.row_scale / peak), best.attenuation, v)


@dataclass(frozen=True, eq=False)
class _Start:
    """One W + iY as fits of V's mesh (inner) and U's (outer), with the phases of ideal meshes."""

    inner: CorrectionProblem
    inner_phases: Floats
    attenuation: Floats
    outer: CorrectionProblem
    outer_phases: Floats

    @cached_property
    def local_error(self) -> float:
        """Error of both meshes after local correction."""
        return float(np.hypot(local_error(self.inner, self.inner_phases), local_error(self.outer, self.outer_phases)))


def _start(W: Floats, left: MeshDevices, right: MeshDevices, amplitude: float, rng: np.random.Generator) -> _Start:
    unitary, singular, inner = np.linalg.svd(_with_imaginary(W, amplitude, rng))
    attenuation = singular / singular[0]
    return _Start(
        inner=CorrectionProblem(right, inner[: singular.size], homodyne=False),
        inner_phases=ideal_phases(inner, right, rng),
        attenuation=attenuation,
        outer=CorrectionProblem(left, W, homodyne=True, inputs=_fields(attenuation, inner, left.modes)),
        outer_phases=ideal_phases(unitary, left, rng),
    )


def _fields(attenuation: Floats, inner: Complexes, modes: int) -> Complexes:
    """(m, n) fields at the inputs of U's mesh; modes without an attenuator carry no light."""
    rank = attenuation.size
    fields = np.zeros((modes, len(inner)), dtype=np.complex128)
    fields[:rank] = attenuation[:, np.newaxis] * inner[:rank]
    return fields


def _with_imaginary(W: Floats, amplitude: float, rng: np.random.Generator) -> Complexes:
    """(m, n) W + iY with |Y|_2 = |W|_2 sqrt(1 / amplitude^2 - 1): W keeps at least this amplitude."""
    share = np.sqrt(1.0 / amplitude**2 - 1.0)
    gauss = rng.standard_normal(W.shape)
    imaginary = share * np.linalg.norm(W, 2) / np.linalg.norm(gauss, 2) * gauss
    return np.asarray(W + 1j * imaginary, dtype=np.complex128)
