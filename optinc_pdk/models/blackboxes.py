"""Models of foundry black boxes: photodiode and modulator."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Complexes
from optinc_pdk.cards.device_models import amplitude as amplitude_of
from optinc_pdk.cards.device_models import check_passive
from optinc_pdk.models.couplers import terminator
from optinc_pdk.models.guides import two_port


def photodiode(wavelengths_nm: ArrayLike, reflection_db: ArrayLike) -> Complexes:
    """Return the S-matrix of a photodiode, which absorbs all light that it does not reflect::

        o1 ----->|     current = responsivity · |field|², in the electronics behind it

    Args:
        wavelengths_nm: Wavelengths, shape (...); the S-matrix does not depend on them.
        reflection_db: Power reflected, in dB, negative.

    Returns:
        S of port o1, shape (..., 1, 1).

    Raises:
        ValueError: The reflection exceeds 1.

    Source:
        The device card; a matched absorber.
    """
    return terminator(wavelengths_nm, reflection_db)


def modulator(
    wavelengths_nm: ArrayLike, loss_db: ArrayLike, reflection_db: ArrayLike, amplitude: ArrayLike = 1.0
) -> Complexes:
    """Return the S-matrix of an amplitude modulator; a negative amplitude means a phase of π::

               e1 == drive == e2
        o1 ---------- t ---------- o2        t = 10^(-loss/20) · amplitude

    Args:
        wavelengths_nm: Wavelengths, shape (...); the S-matrix does not depend on them.
        loss_db: Insertion loss in dB at the amplitude 1.
        reflection_db: Power reflected at each port, in dB, negative.
        amplitude: Field amplitude set by the drive, -1 … 1, broadcast against the wavelengths.

    Returns:
        S of ports o1, o2, shape (..., 2, 2), reciprocal and passive.

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
