"""Models of guides and phase shifters."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Complexes, Floats

UM_PER_CM = 1e4


def effective_index(
    wavelengths_nm: ArrayLike, index: ArrayLike, group_index: ArrayLike, reference_nm: ArrayLike
) -> Floats:
    """Return the effective index of a guide's mode, to first order in the wavelength.

    Args:
        wavelengths_nm: Wavelengths in nm, any shape.
        index: Effective index at the reference wavelength.
        group_index: Group index at the reference wavelength; n_g = n - wavelength · dn/dwavelength.
        reference_nm: Reference wavelength in nm.

    Returns:
        Effective index, broadcast over the arguments.
    """
    reference = np.asarray(reference_nm, dtype=np.float64)
    slope = (np.asarray(index, dtype=np.float64) - np.asarray(group_index, dtype=np.float64)) / reference
    shifted: Floats = np.asarray(index, dtype=np.float64) + slope * (np.asarray(wavelengths_nm) - reference)
    return shifted


def guide_transmission(
    length_um: ArrayLike,
    wavelengths_nm: ArrayLike,
    *,
    index: float,
    group_index: float,
    reference_nm: float,
    loss_db_per_cm: float,
) -> Complexes:
    """Return the field transmission of a guide, 10^(-loss/20) · exp(+i 2π n L / wavelength).

    The sign is that of the time dependence exp(-i ω t): a longer path or a hotter guide has a larger phase.

    Args:
        length_um: Length in µm, any shape.
        wavelengths_nm: Wavelengths in nm, any shape.
        index: Effective index at the reference wavelength.
        group_index: Group index at the reference wavelength.
        reference_nm: Reference wavelength in nm.
        loss_db_per_cm: Propagation loss in dB/cm.

    Returns:
        Complex transmission, broadcast over lengths and wavelengths.
    """
    length = np.asarray(length_um, dtype=np.float64)
    wavelength_um = np.asarray(wavelengths_nm, dtype=np.float64) * 1e-3
    phase = 2.0 * np.pi * effective_index(wavelengths_nm, index, group_index, reference_nm) * length / wavelength_um
    field: Complexes = 10.0 ** (-loss_db_per_cm * length / UM_PER_CM / 20.0) * np.exp(1j * phase)
    return field


def two_port(transmission: ArrayLike) -> Complexes:
    """Return the S-matrix of a matched, reciprocal two-port::

        o1 ---- t ---- o2

    Args:
        transmission: Field transmission t, shape (...).

    Returns:
        S, shape (..., 2, 2).
    """
    t = np.asarray(transmission, dtype=np.complex128)
    s = np.zeros((*t.shape, 2, 2), dtype=np.complex128)
    s[..., 0, 1] = s[..., 1, 0] = t
    return s


def guide(
    length_um: ArrayLike,
    wavelengths_nm: ArrayLike,
    *,
    index: float,
    group_index: float,
    reference_nm: float,
    loss_db_per_cm: float,
) -> Complexes:
    """Return the S-matrix of a strip guide without reflection; arguments as for :func:`guide_transmission`.

    Returns:
        S of ports o1, o2, shape (..., 2, 2).
    """
    return two_port(
        guide_transmission(
            length_um,
            wavelengths_nm,
            index=index,
            group_index=group_index,
            reference_nm=reference_nm,
            loss_db_per_cm=loss_db_per_cm,
        )
    )


def phase_shifter(transmission: ArrayLike, phase_rad: ArrayLike, loss_db: ArrayLike = 0.0) -> Complexes:
    """Return the S-matrix of a guide under a heater, which adds a phase and no loss::

               e1 ==heater== e2
        o1 ---------- t ---------- o2        t · 10^(-loss/20) · e^{i phase}

    Args:
        transmission: Field transmission of the guide, shape (...).
        phase_rad: Phase added by the heater in rad, broadcast against the transmission.
        loss_db: Excess loss in dB, broadcast against the transmission.

    Returns:
        S of ports o1, o2, shape (..., 2, 2).

    Source:
        The thermo-optic phase is linear in the heater's power, see :mod:`optinc_pdk.drive`.
    """
    excess = 10.0 ** (-np.asarray(loss_db, dtype=np.float64) / 20.0)
    heated = np.exp(1j * np.asarray(phase_rad, dtype=np.float64)) * excess
    return two_port(np.asarray(transmission) * heated)
