"""Models of guides, phase shifters, couplers, crossings, tapers, terminators, modulators and photodiodes.

Arguments have any shapes (...) that broadcast: wavelengths are in nm, losses, reflected and crosstalk powers in dB, the
latter two negative. Results are S-matrices (..., ports, ports), reciprocal and passive. Models of devices raise
ValueError for parameters with which the device would have gain.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.cards.device_models import amplitude, check_passive, check_passive_crossing
from optinc_pdk.cards.device_models import amplitude as amplitude_of

UM_PER_CM = 1e4


def effective_index(
    wavelengths_nm: ArrayLike, index: ArrayLike, group_index: ArrayLike, reference_nm: ArrayLike
) -> Floats:
    """Return the effective index of a guide's mode, to first order in the wavelength.

    ``index`` and ``group_index``, n - wavelength · dn/dwavelength, are those at the wavelength ``reference_nm``.
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

    The sign is that of the time dependence exp(-i ω t): a longer path or a hotter guide has a larger phase. Indices are
    as for :func:`effective_index`; lengths and wavelengths have any shapes.
    """
    length = np.asarray(length_um, dtype=np.float64)
    wavelength_um = np.asarray(wavelengths_nm, dtype=np.float64) * 1e-3
    phase = 2.0 * np.pi * effective_index(wavelengths_nm, index, group_index, reference_nm) * length / wavelength_um
    field: Complexes = 10.0 ** (-loss_db_per_cm * length / UM_PER_CM / 20.0) * np.exp(1j * phase)
    return field


def two_port(transmission: ArrayLike) -> Complexes:
    """Return the S-matrix (..., 2, 2) of a matched, reciprocal two-port::

        o1 ---- t ---- o2

    The field transmission t has the shape (...).
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
    """Return the S-matrix (..., 2, 2) of a guide without reflection, see :func:`guide_transmission`."""
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
    """Return the S-matrix (..., 2, 2) of a guide, of transmission t, under a heater, which adds a phase and no loss::

               e1 ==heater== e2
        o1 ---------- t ---------- o2        t · 10^(-loss/20) · e^{i phase}

    Source:
        The thermo-optic phase is linear in the heater's power, see :mod:`optinc_pdk.drive`.
    """
    excess = 10.0 ** (-np.asarray(loss_db, dtype=np.float64) / 20.0)
    heated = np.exp(1j * np.asarray(phase_rad, dtype=np.float64)) * excess
    return two_port(np.asarray(transmission) * heated)


def directional_coupler(
    wavelengths_nm: ArrayLike,
    loss_db: ArrayLike,
    cross: ArrayLike,
    center_nm: ArrayLike,
    slope_per_nm: ArrayLike,
    reflection_db: ArrayLike,
) -> Complexes:
    r"""Return the S-matrix (..., 4, 4) of a directional coupler, whose coupling angle grows with the wavelength::

        o2 ---\_______/--- o3      bar   o2-o3, o1-o4:   A cos angle
               _______             cross o2-o4, o1-o3: i A sin angle
        o1 ---/       \--- o4      angle = asin(√cross) · (1 + slope · (wavelength - center))
                                   A = 10^(-loss/20)

    ``cross`` is the fraction of the power that crosses at the centre wavelength, ``slope_per_nm`` the relative change
    of the coupling angle per nm, and ``reflection_db`` the power reflected at each port.

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
    """Return the S-matrix (..., 4, 4) of a crossing; a little light couples into each crossed arm, in quadrature::

                  o2
                  |            o1-o3, o2-o4: 10^(-loss/20)
        o1 -------+------- o3  to the crossed arms: i 10^(crosstalk/20)
                  |
                  o4

    It does not depend on the wavelengths.

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
    """Return the S-matrix (..., 2, 2) of an adiabatic taper between guide widths::

        o1 ----==== o2        10^(-loss/20)

    It does not depend on the wavelengths.
    """
    through = amplitude(loss_db)
    check_passive(through, np.zeros(1))
    return two_port(np.broadcast_to(through, np.broadcast_shapes(np.shape(wavelengths_nm), through.shape)))


def edge_coupler(wavelengths_nm: ArrayLike, loss_db: ArrayLike, reflection_db: ArrayLike) -> Complexes:
    """Return the S-matrix (..., 2, 2) of an edge coupler, an inverse taper to a fibre; it reflects into the guide::

        guide o1 ====---- o2 fibre        10^(-loss/20), at all wavelengths

    Source:
        Almeida, Panepucci and Lipson, Opt. Lett. 28, 1302 (2003): the inverse taper.
    """
    through, back = amplitude(loss_db), amplitude(-np.asarray(reflection_db))
    check_passive(through, back)
    shape = np.broadcast_shapes(np.shape(wavelengths_nm), through.shape, back.shape)
    s = two_port(np.broadcast_to(through, shape))
    s[..., 0, 0] = back
    return s


def coupler(wavelengths_nm: ArrayLike, loss_db: ArrayLike, imbalance: ArrayLike, reflection_db: ArrayLike) -> Complexes:
    r"""Return the S-matrix (..., 4, 4) of a 2×2 coupler; cross leads by 90° at any imbalance, as unitarity requires::

        o2 ---\   /--- o3        bar   o2-o3, o1-o4:   A sqrt((1 + imbalance) / 2)
               ===               cross o2-o4, o1-o3: i A sqrt((1 - imbalance) / 2)
        o1 ---/   \--- o4        A = 10^(-loss/20)

    The imbalance is (P_bar - P_cross) / (P_bar + P_cross), within -1 … 1.

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
    r"""Return the S-matrix (..., 3, 3) of a 1×2 splitter; in reverse, half of a branch's power is radiated::

                 /--- o2        o1-o2: A sqrt((1 + imbalance) / 2)
        o1 -----<
                 \--- o3        o1-o3: A sqrt((1 - imbalance) / 2)

    The imbalance is (P_o2 - P_o3) / (P_o2 + P_o3), within -1 … 1.

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
    """Return the S-matrix (..., 2, 2) of a grating coupler with a Gaussian band; it reflects into the guide only::

        guide o1 ---|||||||--- o2 fibre        power 10^(-loss/10) · 2^(-((wavelength - center) / (bandwidth/2))²)

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
    """Return the S-matrix (..., 1, 1) of a terminated guide, at all wavelengths::

        o1 ----->        light that is not reflected is radiated

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


def photodiode(wavelengths_nm: ArrayLike, reflection_db: ArrayLike) -> Complexes:
    """Return the S-matrix (..., 1, 1) of a photodiode, which absorbs all light that it does not reflect::

        o1 ----->|     current = responsivity · |field|², in the electronics behind it

    Source:
        The device card; a matched absorber.
    """
    return terminator(wavelengths_nm, reflection_db)


def modulator(
    wavelengths_nm: ArrayLike, loss_db: ArrayLike, reflection_db: ArrayLike, amplitude: ArrayLike = 1.0
) -> Complexes:
    """Return the S-matrix (..., 2, 2) of an amplitude modulator; a negative amplitude means a phase of π::

               e1 == drive == e2
        o1 ---------- t ---------- o2        t = 10^(-loss/20) · amplitude

    Raises:
        ValueError: The amplitude lies outside -1 … 1, or the device would have gain.

    Source:
        The device card; a push-pull modulator changes the amplitude of its carrier without chirp.
    """
    drive = np.asarray(amplitude, dtype=np.float64)
    if np.any(~(np.abs(drive) <= 1.0)):
        raise ValueError(f"amplitude is {amplitude!r}; it must lie within -1 … 1")
    best, back = amplitude_of(loss_db), amplitude_of(-np.asarray(reflection_db))
    check_passive(best, back)
    shape = np.broadcast_shapes(np.shape(wavelengths_nm), drive.shape, best.shape, back.shape)
    s = two_port(np.broadcast_to(best * drive, shape))
    for port in range(2):
        s[..., port, port] = back
    return s
