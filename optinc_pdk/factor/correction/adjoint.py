"""Gradient of a function of an imperfect mesh's matrix by the adjoint method: one forward and one backward pass.

Let F be the fields at an MZI's two inputs and C the adjoint rows at its two outputs. Its transfer T contributes
sum C T F, with the derivative sum_v C[m, v] F[o, v] by T[m, o]: one 2x2 matrix per MZI, from which the derivatives by
theta and phi follow (the adjoint method of arXiv 1805.09943). Fields inside the mesh are not stored: N^3 work, N^2
memory.
"""

from __future__ import annotations

import numpy as np

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.factor.devices import MeshDevices


def transmit(devices: MeshDevices, theta: Floats, phi: Floats, fields: Complexes) -> Complexes:
    """Computes the output fields of an imperfect mesh, without its output phases.

    Args:
        devices: The mesh, M MZIs on N modes.
        theta: (M,) phases of the inner heaters in rad.
        phi: (M,) phases of the input heaters in rad.
        fields: (N, vectors) fields at the inputs.

    Returns:
        (N, vectors) fields at the outputs, before the output phases.
    """
    from optinc_pdk.factor.correction import adjoint_kernels

    light = np.empty(fields.shape, dtype=np.complex128)
    inputs = np.ascontiguousarray(fields, dtype=np.complex128)
    adjoint_kernels.propagate_forward(devices.row[devices.order], _transfers(devices, theta, phi)[0], inputs, light)
    light *= devices.idle**devices.columns
    return light


def phase_gradients(
    devices: MeshDevices, theta: Floats, phi: Floats, light: Complexes, rows: Complexes
) -> tuple[Floats, Floats]:
    """Computes the gradient of Re sum(rows * light) with respect to the phases of all MZIs.

    Args:
        devices: The mesh, M MZIs on N modes.
        theta: (M,) phases of the inner heaters in rad.
        phi: (M,) phases of the input heaters in rad.
        light: (N, vectors) output fields, as :func:`transmit` returns them for these phases.
        rows: (N, vectors) weights of the output fields.

    Returns:
        (M,) derivatives by theta and (M,) derivatives by phi, per rad.
    """
    from optinc_pdk.factor.correction import adjoint_kernels

    transfer, by_theta_transfer = _transfers(devices, theta, phi)
    derivative = np.empty_like(transfer)
    idle_transmission = devices.idle**devices.columns
    outputs = np.ascontiguousarray(light) / idle_transmission
    adjoint = np.ascontiguousarray(rows) * idle_transmission
    adjoint_kernels.transfer_derivatives(devices.row[devices.order], transfer, outputs, adjoint, derivative)
    by_theta, by_phi = np.empty(theta.size), np.empty(theta.size)
    by_theta[devices.order] = np.sum(by_theta_transfer * derivative, axis=(1, 2)).real
    by_phi[devices.order] = -np.sum(transfer[:, :, 0] * derivative[:, :, 0], axis=1).imag
    return by_theta, by_phi


def _transfers(devices: MeshDevices, theta: Floats, phi: Floats) -> tuple[Complexes, Complexes]:
    """(M, 2, 2) transfers of the MZIs, in the order of light, and their derivatives by theta.

    Both are relative to the transmission of an idle mode, which becomes one factor of the whole mesh.
    """
    order = devices.order
    hot = devices.hot_transfers * np.exp(1j * theta[order])[:, np.newaxis, np.newaxis]
    transfer, by_theta = hot + devices.cold_transfers, 1j * hot
    heated = np.exp(1j * phi[order])[:, np.newaxis]
    transfer[:, :, 0] *= heated
    by_theta[:, :, 0] *= heated
    return transfer, by_theta
