"""Coupling of two guides that run close to each other, with any gap along their paths, and its S-matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.cards.device_models import amplitude, check_passive

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]

# Chords are divided into parts of at most this length, with four Gauss points each. The gap changes the coupling by a
# factor e per decay length, which is about 0.1 µm, and a bend of 10 µm changes the gap by 3 nm over this length.
PART_UM = 0.25
NODES, WEIGHTS = np.polynomial.legendre.leggauss(4)
# Points whose distances to a line are calculated at once.
BATCH = 1024


def coupled_length_um(
    first_um: ArrayLike, second_um: ArrayLike, width_um: float, reference_gap_um: float, decay_um: float
) -> float:
    """Return the length of parallel guides at a reference gap that couple as strongly as two given guides.

    The coupling per length decays exponentially with the gap, so the length is::

        ∫ exp(-(gap(z) - reference_gap) / decay) dz,      gap(z) = distance of the centre lines - width

    For guides that are not parallel, the distance from a point of one guide is that to the nearest point of the other.
    The two integrals, along each of the guides, are averaged, which makes the result symmetric.

    Args:
        first_um: (n, 2) centre line of the first guide in µm.
        second_um: (m, 2) centre line of the second guide in µm.
        width_um: Width of both guides in µm.
        reference_gap_um: Reference gap in µm.
        decay_um: Gap in µm over which the coupling per length decreases by a factor e.

    Returns:
        The equivalent length in µm.

    Source:
        Yariv, IEEE J. Quantum Electron. 9, 919 (1973): the coupling per length is the overlap of the guides' modes,
        whose fields decay exponentially outside the guides. For slowly varying gaps, the angles of all parts add up.
    """
    lines = [np.asarray(line, dtype=np.float64) for line in (first_um, second_um)]
    total = 0.0
    for one, other in (lines, lines[::-1]):
        points, steps = _quadrature(one)
        gap = distances_um(points, other) - width_um
        total += float(np.sum(steps * np.exp((reference_gap_um - gap) / decay_um)))
    return total / 2


def _quadrature(line: Floats) -> tuple[Floats, Floats]:
    """Return Gauss points (k, 2) along a polyline and their weights (k,), which add up to its length."""
    leg = np.diff(line, axis=0)
    length = np.hypot(*leg.T)
    parts = np.maximum(1, np.ceil(length / PART_UM)).astype(np.int64)
    chord = np.repeat(np.arange(len(leg)), parts)
    part = np.arange(len(chord)) - np.repeat(np.cumsum(parts) - parts, parts)
    share = (part[:, None] + (NODES + 1) / 2) / parts[chord, None]
    points = line[chord, None] + share[:, :, None] * leg[chord, None]
    steps = (length / parts)[chord, None] * WEIGHTS / 2
    return points.reshape(-1, 2), steps.reshape(-1)


def distances_um(points_um: Floats, line_um: Floats) -> Floats:
    """Return the distance of each of n points (n, 2) to the nearest place of a polyline (m, 2), in the same unit."""
    start, leg = line_um[:-1], np.diff(line_um, axis=0)
    # points of a line may coincide
    start, leg = start[np.any(leg, axis=1)], leg[np.any(leg, axis=1)]
    square = np.sum(leg**2, axis=1)
    nearest = []
    for first in range(0, len(points_um), BATCH):
        away = points_um[first : first + BATCH, None] - start
        along = np.clip(np.sum(away * leg, axis=2) / square, 0.0, 1.0)
        nearest.append(np.min(np.hypot(*np.moveaxis(away - along[:, :, None] * leg, 2, 0)), axis=1))
    return np.concatenate(nearest)


def coupled_guides(
    wavelengths_nm: ArrayLike,
    guide_1: ArrayLike,
    guide_2: ArrayLike,
    angle_rad: ArrayLike,
    loss_db: ArrayLike,
    center_nm: ArrayLike,
    slope_per_nm: ArrayLike,
    reflection_db: ArrayLike,
) -> Complexes:
    """Return the S-matrix of two coupled guides::

        o2 ---\\_______/--- o3      bar   o1-o4:  A t1 cos angle     o2-o3:  A t2 cos angle
               _______             cross o1-o3, o2-o4:  i A √(t1 t2) sin angle
        o1 ---/       \\--- o4      angle = angle at the centre · (1 + slope · (wavelength - center))
                                   A = 10^(-loss/20)

    Coupling is distributed evenly along both guides, so light that crosses travels half of each guide.

    Args:
        wavelengths_nm: Wavelengths in nm, shape (...).
        guide_1: Field transmission of half of the guide from o1 to o4.
        guide_2: Field transmission of half of the guide from o2 to o3.
        angle_rad: Coupling angle at the centre wavelength in rad: coupling per length times coupled length.
        loss_db: Excess loss in dB, besides that of the guides.
        center_nm: Centre wavelength in nm.
        slope_per_nm: Relative change of the coupling angle per nm.
        reflection_db: Power reflected at each port, in dB, negative.

    Returns:
        S of ports o1 … o4, shape (..., 4, 4), reciprocal and passive.

    Raises:
        ValueError: The device would have gain.

    Source:
        Yariv, IEEE J. Quantum Electron. 9, 919 (1973): coupled modes of two equal guides.
    """
    through, back = amplitude(loss_db), amplitude(-np.asarray(reflection_db))
    check_passive(through, back)
    detuning = np.asarray(wavelengths_nm, dtype=np.float64) - np.asarray(center_nm)
    angle = np.asarray(angle_rad) * (1.0 + np.asarray(slope_per_nm) * detuning)
    bar, cross = through * np.cos(angle), 1j * through * np.sin(angle)
    half = [np.asarray(guide, dtype=np.complex128) for guide in (guide_1, guide_2, guide_2, guide_1)]
    shape = np.broadcast_shapes(angle.shape, through.shape, back.shape, half[0].shape, half[1].shape)
    s = np.zeros((*shape, 4, 4), dtype=np.complex128)
    for value, pairs in ((bar, ((0, 3), (1, 2))), (cross, ((0, 2), (1, 3)))):
        for a, b in pairs:
            s[..., a, b] = s[..., b, a] = value * half[a] * half[b]
    for port in range(4):
        s[..., port, port] = back
    return s
