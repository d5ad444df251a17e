"""The slope of any function of an imperfect mesh's matrix, by light that goes through and back once.

With light F at an MZI's two inputs and rows C carried back to its two outputs, what its transfer T adds to
sum C T F has the slopes sum_v C[m, v] F[o, v] by T[m, o]: one 2x2 matrix an MZI, from which those of theta and phi
follow (the adjoint method of arXiv 1805.09943). Fields inside are not kept (:mod:`optinc_pdk.factor.correct_light`
has them): N^3 work, N^2 memory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.factor.devices import Devices

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]


def transmit(devices: Devices, theta: Floats, phi: Floats, fields: Complexes) -> Complexes:
    """(N, vectors) light of fields (N, vectors) at the outputs, before output phases; phases (M,) in rad."""
    from optinc_pdk.factor import correct_kernels

    light = np.empty(fields.shape, dtype=np.complex128)
    given = np.ascontiguousarray(fields, dtype=np.complex128)
    correct_kernels.send(devices.row[devices.order], _transfers(devices, theta, phi)[0], given, light)
    light *= devices.idle**devices.columns
    return light


def slopes(devices: Devices, theta: Floats, phi: Floats, light: Complexes, rows: Complexes) -> tuple[Floats, Floats]:
    """Slopes of Re sum rows * light.

    Args:
        devices: The mesh, M MZIs on N modes.
        theta: (M,) phases in rad.
        phi: (M,) phases in rad.
        light: (N, vectors) what :func:`transmit` made with them.
        rows: (N, vectors) factors of the light.

    Returns:
        (M,) by theta and (M,) by phi.
    """
    from optinc_pdk.factor import correct_kernels

    transfer, turned = _transfers(devices, theta, phi)
    change = np.empty_like(transfer)
    through = devices.idle**devices.columns
    given, carried = np.ascontiguousarray(light) / through, np.ascontiguousarray(rows) * through
    correct_kernels.pull(devices.row[devices.order], transfer, given, carried, change)
    by_theta, by_phi = np.empty(theta.size), np.empty(theta.size)
    by_theta[devices.order] = np.sum(turned * change, axis=(1, 2)).real
    by_phi[devices.order] = -np.sum(transfer[:, :, 0] * change[:, :, 0], axis=1).imag
    return by_theta, by_phi


def _transfers(devices: Devices, theta: Floats, phi: Floats) -> tuple[Complexes, Complexes]:
    """(M, 2, 2) transfers of the MZIs in the order of light over that of an idle mode, and their slopes by theta.

    What every mode of every column loses at least so becomes one factor of the whole mesh.
    """
    order = devices.order
    (c1, c2), (s1, s2) = ((f(devices.first[order]), f(devices.second[order])) for f in (np.cos, np.sin))
    hot = devices.inner[order, 0] * np.exp(1j * (theta + devices.theta_offset)[order]) / devices.idle
    cold = devices.inner[order, 1] / devices.idle
    sides = (
        devices.outer[order, 0] * np.exp(1j * (phi + devices.phi_offset)[order]),
        devices.outer[order, 1],
    )
    transfer, turned = (np.empty((order.size, 2, 2), dtype=np.complex128) for _ in range(2))
    # bar and cross of the second coupler, for each input of the first
    for side, (up, down) in enumerate(((c1, 1j * s1), (1j * s1, c1))):
        upper, lower = hot * up * sides[side], cold * down * sides[side]
        transfer[:, 0, side] = c2 * upper + 1j * s2 * lower
        transfer[:, 1, side] = 1j * s2 * upper + c2 * lower
        turned[:, 0, side] = 1j * c2 * upper
        turned[:, 1, side] = -s2 * upper
    return transfer, turned
