"""Models of couplers, splitters, grating couplers and terminators."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.cards.device_models import amplitude, check_passive


def coupler(wavelengths_nm: ArrayLike, loss_db: ArrayLike, imbalance: ArrayLike, reflection_db: ArrayLike) -> Complexes:
    """Return the S-matrix of a 2×2 coupler; bar is real, cross leads by 90° at any imbalance, as unitarity requires::

        o2 ---\\   /--- o3        bar   o2-o3, o1-o4:   A sqrt((1 + imbalance) / 2)
               ===               cross o2-o4, o1-o3: i A sqrt((1 - imbalance) / 2)
        o1 ---/   \\--- o4        A = 10^(-loss/20)

    Args:
        wavelengths_nm: Wavelengths in nm, shape (...); the S-matrix does not depend on them.
        loss_db: Excess loss in dB.
        imbalance: (P_bar - P_cross) / (P_bar + P_cross), within -1 … 1.
        reflection_db: Power reflected at each port, in dB, negative.

    Returns:
        S of ports o1 … o4, shape (..., 4, 4), reciprocal and passive.

    Raises:
        ValueError: The device would have gain.

    Source:
        Soldano and Pennings, J. Lightwave Technol. 13, 615 (1995): a 2×2 MMI's outputs are in quadrature.
    """
    wide, narrow, back = _shares(loss_db, imbalance, reflection_db)
    s = np.zeros((*_shape(wavelengths_nm, wide, back), 4, 4), dtype=np.complex128)
    for a, b in ((1, 2), (0, 3)):
        s[..., a, b] = s[..., b, a] = wide
    for a, b in ((1, 3), (0, 2)):
        s[..., a, b] = s[..., b, a] = 1j * narrow
    for port in range(4):
        s[..., port, port] = back
    return s


def splitter(
    wavelengths_nm: ArrayLike, loss_db: ArrayLike, imbalance: ArrayLike, reflection_db: ArrayLike
) -> Complexes:
    """Return the S-matrix of a 1×2 splitter; in reverse, half of a branch's power reaches o1 and the rest is radiated::

                 /--- o2        o1-o2: A sqrt((1 + imbalance) / 2)
        o1 -----<
                 \\--- o3        o1-o3: A sqrt((1 - imbalance) / 2)

    Args:
        wavelengths_nm: Wavelengths in nm, shape (...); the S-matrix does not depend on them.
        loss_db: Excess loss in dB.
        imbalance: (P_o2 - P_o3) / (P_o2 + P_o3), within -1 … 1.
        reflection_db: Power reflected at each port, in dB, negative.

    Returns:
        S of ports o1 … o3, shape (..., 3, 3), reciprocal and passive.

    Raises:
        ValueError: The device would have gain.

    Source:
        Soldano and Pennings, J. Lightwave Technol. 13, 615 (1995): a symmetrically fed MMI splits in phase.
    """
    upper, lower, back = _shares(loss_db, imbalance, reflection_db)
    s = np.zeros((*_shape(wavelengths_nm, upper, back), 3, 3), dtype=np.complex128)
    s[..., 0, 1] = s[..., 1, 0] = upper
    s[..., 0, 2] = s[..., 2, 0] = lower
    for port in range(3):
        s[..., port, port] = back
    return s


def grating_coupler(
    wavelengths_nm: ArrayLike,
    loss_db: ArrayLike,
    bandwidth_3db_nm: ArrayLike,
    center_nm: ArrayLike,
    reflection_db: ArrayLike,
) -> Complexes:
    """Return the S-matrix of a grating coupler with a Gaussian band; it reflects into the guide, not into the fibre::

        guide o1 ---|||||||--- o2 fibre        power 10^(-loss/10) · 2^(-((wavelength - center) /
        (bandwidth/2))²)

    Args:
        wavelengths_nm: Wavelengths in nm, shape (...).
        loss_db: Insertion loss at the centre wavelength in dB.
        bandwidth_3db_nm: Full width of the band at half power, in nm.
        center_nm: Centre wavelength in nm.
        reflection_db: Power reflected into the guide, in dB, negative.

    Returns:
        S of ports o1, o2, shape (..., 2, 2), reciprocal and passive.

    Raises:
        ValueError: The device would have gain.

    Source:
        Taillaert et al., Jpn. J. Appl. Phys. 45, 6071 (2006): the spectrum of a uniform grating is near
        Gaussian.
    """
    detuning = (np.asarray(wavelengths_nm) - np.asarray(center_nm)) / (np.asarray(bandwidth_3db_nm) / 2.0)
    best, back = amplitude(loss_db), amplitude(-np.asarray(reflection_db))
    check_passive(best, back)
    s = np.zeros((*np.broadcast_shapes(detuning.shape, best.shape, back.shape), 2, 2), dtype=np.complex128)
    s[..., 0, 1] = s[..., 1, 0] = best * 2.0 ** (-(detuning**2) / 2.0)
    s[..., 0, 0] = back
    return s


def terminator(wavelengths_nm: ArrayLike, reflection_db: ArrayLike) -> Complexes:
    """Return the S-matrix of a terminated guide::

        o1 ----->        light that is not reflected is radiated

    Args:
        wavelengths_nm: Wavelengths in nm, shape (...); the S-matrix does not depend on them.
        reflection_db: Power reflected, in dB, negative.

    Returns:
        S of port o1, shape (..., 1, 1).

    Raises:
        ValueError: The reflection exceeds 1.

    Source:
        The device card; a taper to the minimum width radiates nearly all of its light.
    """
    back = amplitude(-np.asarray(reflection_db))
    check_passive(np.zeros(1), back)
    s = np.zeros((*_shape(wavelengths_nm, back), 1, 1), dtype=np.complex128)
    s[..., 0, 0] = back
    return s


def _shape(wavelengths_nm: ArrayLike, *parameters: Floats) -> tuple[int, ...]:
    return np.broadcast_shapes(np.shape(wavelengths_nm), *(np.shape(p) for p in parameters))


def _shares(loss_db: ArrayLike, imbalance: ArrayLike, reflection_db: ArrayLike) -> tuple[Floats, Floats, Floats]:
    through, back = amplitude(loss_db), amplitude(-np.asarray(reflection_db))
    uneven = np.asarray(imbalance, dtype=np.float64)
    if np.any(~(np.abs(uneven) <= 1.0)):
        raise ValueError(f"imbalance is {imbalance!r}; it must lie within -1 … 1")
    check_passive(through, back)
    return through * np.sqrt((1.0 + uneven) / 2.0), through * np.sqrt((1.0 - uneven) / 2.0), back
