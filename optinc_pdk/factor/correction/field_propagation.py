"""Propagation through an imperfect mesh: fields at every heater, and transfer from every heater to the outputs.

A phase p on one guide changes the mesh's matrix by the rank-one dM/dp = i b f^T, with f the field there per unit at
each input and b the transfer from there to each output. One forward pass gives all f, one backward pass all b: N^3
work in all (the adjoint method of arXiv 1805.09943, for every entry of M at once).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.factor.devices import MeshDevices

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Arms:
    """Per MZI, as columns: cosine and i times sine of each coupler, complex transmission of each arm."""

    first: tuple[Complexes, Complexes]
    second: tuple[Complexes, Complexes]
    inner: tuple[Complexes, Complexes]
    outer: tuple[Complexes, Complexes]


def _arms(devices: MeshDevices, theta: Floats, phi: Floats) -> _Arms:
    def coupler(angle: Floats) -> tuple[Complexes, Complexes]:
        cosine: Complexes = np.cos(angle).astype(np.complex128)
        sine: Complexes = 1j * np.sin(angle)
        return cosine[:, np.newaxis], sine[:, np.newaxis]

    def arms(transmission: Floats, phase: Floats) -> tuple[Complexes, Complexes]:
        upper: Complexes = transmission[:, 0] * np.exp(1j * phase)
        lower: Complexes = transmission[:, 1].astype(np.complex128)
        return upper[:, np.newaxis], lower[:, np.newaxis]

    return _Arms(
        first=coupler(devices.first),
        second=coupler(devices.second),
        inner=arms(devices.inner, theta + devices.theta_offset),
        outer=arms(devices.outer, phi + devices.phi_offset),
    )


def forward(
    devices: MeshDevices, theta: Floats, phi: Floats, fields: Complexes
) -> tuple[Complexes, Complexes, Complexes]:
    """Propagates fields forward through a mesh and records the field at every heater.

    Args:
        devices: The mesh, M MZIs on N modes.
        theta: (M,) phases of the inner heaters in rad.
        phi: (M,) phases of the input heaters in rad.
        fields: (N, vectors) fields at the inputs.

    Returns:
        (N, vectors) fields at the outputs, before the output phases; (M, vectors) fields right after each theta
        heater; (M, vectors) fields right after each phi heater.
    """
    arms = _arms(devices, theta, phi)
    light = np.array(fields, dtype=np.complex128)
    at_theta = np.empty((devices.row.size, light.shape[1]), dtype=np.complex128)
    at_phi = np.empty_like(at_theta)
    for mzis, upper, idle in devices.schedule:
        (c1, s1), (c2, s2) = (_take(pair, mzis) for pair in (arms.first, arms.second))
        (hot, cold), (hot_in, cold_in) = (_take(pair, mzis) for pair in (arms.inner, arms.outer))
        a, b = hot_in * light[upper], cold_in * light[upper + 1]
        p, q = hot * (c1 * a + s1 * b), cold * (s1 * a + c1 * b)
        at_phi[mzis], at_theta[mzis] = a, p
        light[upper], light[upper + 1] = c2 * p + s2 * q, s2 * p + c2 * q
        if devices.idle != 1.0:
            light[idle] *= devices.idle
    return light, at_theta, at_phi


def backward(
    devices: MeshDevices, theta: Floats, phi: Floats, rows: Complexes
) -> tuple[Complexes, Complexes, Complexes]:
    """Propagates linear functions of the output fields backward through a mesh (adjoint pass).

    Function v is sum_k rows[k, v] · (field at output k). The result expresses the same functions by fields at the
    inputs and at the heaters.

    Args:
        devices: The mesh, M MZIs on N modes.
        theta: (M,) phases of the inner heaters in rad.
        phi: (M,) phases of the input heaters in rad.
        rows: (N, vectors) coefficients of the output fields, before the output phases.

    Returns:
        (N, vectors) coefficients of the input fields; (M, vectors) coefficients of the field right after each theta
        heater; (M, vectors) coefficients of the field right after each phi heater.
    """
    arms = _arms(devices, theta, phi)
    carried = np.array(rows, dtype=np.complex128)
    at_theta = np.empty((devices.row.size, carried.shape[1]), dtype=np.complex128)
    at_phi = np.empty_like(at_theta)
    for mzis, upper, idle in reversed(devices.schedule):
        (c1, s1), (c2, s2) = (_take(pair, mzis) for pair in (arms.first, arms.second))
        (hot, cold), (hot_in, cold_in) = (_take(pair, mzis) for pair in (arms.inner, arms.outer))
        x, y = carried[upper], carried[upper + 1]
        p, q = c2 * x + s2 * y, cold * (s2 * x + c2 * y)
        at_theta[mzis] = p
        p = hot * p
        a, b = c1 * p + s1 * q, s1 * p + c1 * q
        at_phi[mzis] = a
        carried[upper], carried[upper + 1] = hot_in * a, cold_in * b
        if devices.idle != 1.0:
            carried[idle] *= devices.idle
    return carried, at_theta, at_phi


def _take(pair: tuple[Complexes, Complexes], mzis: NDArray[np.int64]) -> tuple[Complexes, Complexes]:
    return pair[0][mzis], pair[1][mzis]
