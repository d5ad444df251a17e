"""Models of directional couplers, crossings, tapers and edge couplers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Complexes
from optinc_pdk.cards.device_models import amplitude, check_passive, check_passive_crossing
from optinc_pdk.models.guides import two_port


def directional_coupler(
    wavelengths_nm: ArrayLike,
    loss_db: ArrayLike,
    cross: ArrayLike,
    center_nm: ArrayLike,
    slope_per_nm: ArrayLike,
    reflection_db: ArrayLike,
) -> Complexes:
    """Return the S-matrix of a directional coupler, whose coupling angle grows with the wavelength::

        o2 ---\\_______/--- o3      bar   o2-o3, o1-o4:   A cos angle
               _______             cross o2-o4, o1-o3: i A sin angle
        o1 ---/       \\--- o4      angle = asin(√cross) · (1 + slope · (wavelength - center))
                                   A = 10^(-loss/20)

    Args:
        wavelengths_nm: Wavelengths in nm, shape (...).
        loss_db: Excess loss in dB.
        cross: Fraction of the power that crosses at the centre wavelength, 0 … 1.
        center_nm: Centre wavelength in nm.
        slope_per_nm: Relative change of the coupling angle per nm.
        reflection_db: Power reflected at each port, in dB, negative.

    Returns:
        S of ports o1 … o4, shape (..., 4, 4), reciprocal and passive.

    Raises:
        ValueError: ``cross`` lies outside 0 … 1, or the device would have gain.

    Source:
        Yariv, IEEE J. Quantum Electron. 9, 919 (1973): coupled modes of two equal guides.
    """
    share = np.asarray(cross, dtype=np.float64)
    if np.any(~((share >= 0.0) & (share <= 1.0))):
        raise ValueError(f"cross is {cross!r}; it must lie within 0 … 1")
    through, back = amplitude(loss_db), amplitude(-np.asarray(reflection_db))
    check_passive(through, back)
    detuning = np.asarray(wavelengths_nm, dtype=np.float64) - np.asarray(center_nm)
    angle = np.arcsin(np.sqrt(share)) * (1.0 + np.asarray(slope_per_nm) * detuning)
    s = np.zeros((*np.broadcast_shapes(angle.shape, through.shape, back.shape), 4, 4), dtype=np.complex128)
    for a, b in ((1, 2), (0, 3)):
        s[..., a, b] = s[..., b, a] = through * np.cos(angle)
    for a, b in ((1, 3), (0, 2)):
        s[..., a, b] = s[..., b, a] = 1j * through * np.sin(angle)
    for port in range(4):
        s[..., port, port] = back
    return s


def crossing(
    wavelengths_nm: ArrayLike, loss_db: ArrayLike, crosstalk_db: ArrayLike, reflection_db: ArrayLike
) -> Complexes:
    """Return the S-matrix of a crossing; a little light couples into each crossed arm, in quadrature::

                  o2
                  |            o1-o3, o2-o4: 10^(-loss/20)
        o1 -------+------- o3  to the crossed arms: i 10^(crosstalk/20)
                  |
                  o4

    Args:
        wavelengths_nm: Wavelengths in nm, shape (...); the S-matrix does not depend on them.
        loss_db: Insertion loss of the straight path in dB.
        crosstalk_db: Power into each crossed arm, in dB, negative.
        reflection_db: Power reflected at each port, in dB, negative.

    Returns:
        S of ports o1 … o4, shape (..., 4, 4), reciprocal and passive.

    Raises:
        ValueError: The device would have gain.

    Source:
        The device card; the symmetry of four equal arms leaves these three amplitudes.
    """
    through, leak, back = amplitude(loss_db), *(amplitude(-np.asarray(db)) for db in (crosstalk_db, reflection_db))
    check_passive_crossing(through, leak, back)
    shape = np.broadcast_shapes(np.shape(wavelengths_nm), through.shape, leak.shape, back.shape)
    s = np.zeros((*shape, 4, 4), dtype=np.complex128)
    for a in range(4):
        for b in range(4):
            s[..., a, b] = (back, 1j * leak, through)[min(abs(a - b), 4 - abs(a - b))]
    return s


def taper(wavelengths_nm: ArrayLike, loss_db: ArrayLike) -> Complexes:
    """Return the S-matrix of an adiabatic taper between guide widths::

        o1 ----==== o2        10^(-loss/20)

    Args:
        wavelengths_nm: Wavelengths in nm, shape (...); the S-matrix does not depend on them.
        loss_db: Insertion loss in dB.

    Returns:
        S of ports o1, o2, shape (..., 2, 2), reciprocal and passive.

    Raises:
        ValueError: The loss is negative.

    Source:
        The device card.
    """
    through = amplitude(loss_db)
    check_passive(through, np.zeros(1))
    return two_port(np.broadcast_to(through, np.broadcast_shapes(np.shape(wavelengths_nm), through.shape)))


def edge_coupler(wavelengths_nm: ArrayLike, loss_db: ArrayLike, reflection_db: ArrayLike) -> Complexes:
    """Return the S-matrix of an edge coupler, an inverse taper to a fibre; it reflects into the guide::

        guide o1 ====---- o2 fibre        10^(-loss/20), at all wavelengths

    Args:
        wavelengths_nm: Wavelengths in nm, shape (...); the S-matrix does not depend on them.
        loss_db: Insertion loss in dB.
        reflection_db: Power reflected into the guide, in dB, negative.

    Returns:
        S of ports o1, o2, shape (..., 2, 2), reciprocal and passive.

    Raises:
        ValueError: The device would have gain.

    Source:
        Almeida, Panepucci and Lipson, Opt. Lett. 28, 1302 (2003): the inverse taper.
    """
    through, back = amplitude(loss_db), amplitude(-np.asarray(reflection_db))
    check_passive(through, back)
    shape = np.broadcast_shapes(np.shape(wavelengths_nm), through.shape, back.shape)
    s = two_port(np.broadcast_to(through, shape))
    s[..., 0, 0] = back
    return s
