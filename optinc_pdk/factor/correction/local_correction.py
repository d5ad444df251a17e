"""Local correction of an imperfect mesh: each MZI is set to the transfer of the ideal one.

With couplers that are not 50:50 an MZI reaches field splittings from |cos(first + second)| to |cos(first - second)|
only. Within this range it equals the ideal MZI up to phases on its outputs; those move into phi of the next MZIs and
finally into the output phases. Outside the range it is clipped to the nearest splitting.
Source: Bandyopadhyay, Hamerly, Englund, Optica 8, 1247 (2021), arXiv 2103.04993.
"""

from __future__ import annotations

import numpy as np

from optinc_pdk.arrays import Bools, Complexes, Floats
from optinc_pdk.factor.devices import MeshDevices
from optinc_pdk.factor.mesh import mzi_transfer, wrap


def correct_locally(
    devices: MeshDevices, theta: Floats, phi: Floats, output_phase: Floats
) -> tuple[Floats, Floats, Floats, Bools]:
    """Computes the phases with which every MZI of an imperfect mesh is as close as possible to the ideal MZI.

    Args:
        devices: The imperfect mesh.
        theta: (MZIs,) phases of the inner heaters of the ideal mesh in rad.
        phi: (MZIs,) phases of the input heaters of the ideal mesh in rad.
        output_phase: (N,) output phases of the ideal mesh in rad.

    Returns:
        (MZIs,) theta, (MZIs,) phi and (N,) output_phase of the imperfect mesh in rad, in [0, 2 pi), and (MZIs,)
        whether the MZI cannot reach the ideal splitting and was set to the nearest one.
    """
    new_theta, clipped = _splitting(devices, theta)
    bare = _bare(devices, new_theta)
    ideal = mzi_transfer(theta, np.zeros_like(theta))
    # Both rows give the same phi where no power is lost; their sum is defined even where one row is zero.
    overlap = bare[:, :, 0].conj() * bare[:, :, 1] * ideal[:, :, 0] * ideal[:, :, 1].conj()
    shift = np.angle(overlap.sum(axis=1))
    shifted = bare.copy()
    shifted[:, :, 0] *= np.exp(1j * shift)[:, np.newaxis]
    # With phi + shift the imperfect MZI is diag(e^{i output_shift}) times the ideal one.
    output_shift = np.angle(np.sum(shifted * ideal.conj(), axis=2))
    error = np.zeros(devices.modes)
    new_phi = phi + shift - devices.phi_offset
    for mzis, upper, _ in devices.schedule:
        above, below = error[upper], error[upper + 1]
        new_phi[mzis] -= above - below
        error[upper], error[upper + 1] = below + output_shift[mzis, 0], below + output_shift[mzis, 1]
    return wrap(new_theta - devices.theta_offset), wrap(new_phi), wrap(output_phase - error), clipped


def _splitting(devices: MeshDevices, theta: Floats) -> tuple[Floats, Bools]:
    """(MZIs,) arms' phase difference in [0, pi] with the bar power sin^2(theta/2), clipped, and which were clipped."""
    cos1, sin1, cos2, sin2 = (f(x) for x in (devices.first, devices.second) for f in (np.cos, np.sin))
    hot, cold = devices.inner[:, 0], devices.inner[:, 1]
    # |bar|^2 = a^2 + b^2 - 2 a b cos, |cross|^2 = c^2 + d^2 + 2 c d cos.
    a, b, c, d = hot * cos1 * cos2, cold * sin1 * sin2, hot * cos1 * sin2, cold * sin1 * cos2
    bar = np.sin(theta / 2.0) ** 2
    offset = (1.0 - bar) * (a**2 + b**2) - bar * (c**2 + d**2)
    swing = 2.0 * ((1.0 - bar) * a * b + bar * c * d)
    safe = np.maximum(np.abs(swing), np.finfo(np.float64).tiny)
    cosine = np.where(swing >= 0.0, offset, -offset) / safe
    return np.arccos(np.clip(cosine, -1.0, 1.0)), np.abs(cosine) > 1.0 + 1e-12


def _bare(devices: MeshDevices, inner_phase: Floats) -> Complexes:
    """(MZIs, 2, 2) transfer of the imperfect MZIs with phi + phi_offset = 0."""
    cos1, sin1, cos2, sin2 = (f(x) for x in (devices.first, devices.second) for f in (np.cos, np.sin))
    hot, cold = devices.inner[:, 0] * np.exp(1j * inner_phase), devices.inner[:, 1]
    hot_in, cold_in = devices.outer[:, 0], devices.outer[:, 1]
    bare = np.empty((hot.size, 2, 2), dtype=np.complex128)
    bare[:, 0, 0] = hot_in * (hot * cos1 * cos2 - cold * sin1 * sin2)
    bare[:, 0, 1] = 1j * cold_in * (hot * sin1 * cos2 + cold * cos1 * sin2)
    bare[:, 1, 0] = 1j * hot_in * (hot * cos1 * sin2 + cold * sin1 * cos2)
    bare[:, 1, 1] = cold_in * (cold * cos1 * cos2 - hot * sin1 * sin2)
    return bare
