"""Coupling of two guides that run close to each other, with any gap along their paths, and its S-matrix."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.cards.device_models import amplitude, check_passive

# Chords are divided into parts of at most this length, with four Gauss points each. The gap changes the coupling by a
# factor e per decay length, which is about 0.1 µm, and a bend of 10 µm changes the gap by 3 nm over this length.
PART_UM = 0.25
NODES, WEIGHTS = np.polynomial.legendre.leggauss(4)
# Distances between points and edges that are calculated at once, which limits the memory used.
PAIRS = 2**20


def coupled_length_um(
    first_um: ArrayLike, second_um: ArrayLike, width_um: float, reference_gap_um: float, decay_um: float
) -> float:
    """Return the length in µm of parallel guides at a reference gap that couple as strongly as two given guides.

    The coupling per length decays exponentially with the gap, by a factor e over ``decay_um``, so the length is::

        ∫ exp(-(gap(z) - reference_gap) / decay) dz,      gap(z) = distance of the centre lines - width

    For guides that are not parallel, the distance from a point of one guide is that to the nearest point of the other.
    The two integrals, along each of the guides' centre lines (n, 2) and (m, 2) in µm, are averaged, which makes the
    result symmetric.

    Source:
        Yariv, IEEE J. Quantum Electron. 9, 919 (1973): the coupling per length is the overlap of the guides' modes,
        whose fields decay exponentially outside the guides. For slowly varying gaps, the angles of all parts add up.
    """
    lines = [np.asarray(line, dtype=np.float64) for line in (first_um, second_um)]
    total = 0.0
    for one, other in (lines, lines[::-1]):
        points, _, steps = _quadrature(one)
        gap = distances_um(points, other) - width_um
        total += float(np.sum(steps * np.exp((reference_gap_um - gap) / decay_um)))
    return total / 2


def path_difference_um(first_um: ArrayLike, second_um: ArrayLike, decay_um: float) -> float:
    """Return by how much in µm the first of two coupled guides is longer than the second, where they couple.

    It is √12 times the standard deviation, weighted by the coupling, of the difference of both lengths up to a place:
    that of a difference which grows evenly over an even coupling. The place on the second guide is the nearest one to
    that on the first, or the other way round. Both directions bound the difference, which is the smallest one between
    them. It is zero for guides side by side and for a straight guide under a ring. For concentric guides it is the
    distance of their centre lines times the angle.

    The centre lines (n, 2) and (m, 2) in µm may have opposite directions; ``decay_um`` is as for
    :func:`coupled_length_um`.
    """
    lines = [np.asarray(line, dtype=np.float64) for line in (first_um, second_um)]
    found: list[float] = []
    for sign, (one, other) in ((1.0, lines), (-1.0, lines[::-1])):
        points, along, steps = _quadrature(one)
        apart, beyond = nearest_um(points, other)
        weight = steps * np.exp((np.min(apart) - apart) / decay_um)
        weight /= np.sum(weight)
        along, beyond = (each - np.sum(weight * each) for each in (along, beyond))
        # the second guide may be listed in the other direction
        beyond = math.copysign(1.0, np.sum(weight * along * beyond)) * beyond
        ahead = along - beyond
        grows = math.copysign(1.0, np.sum(weight * ahead * (along + beyond)))
        found.append(sign * grows * math.sqrt(12.0 * float(np.sum(weight * ahead**2))))
    low, high = sorted(found)
    return min(max(0.0, low), high)


def _quadrature(line: Floats) -> tuple[Floats, Floats, Floats]:
    """Return Gauss points (k, 2) along a polyline, the lengths up to them, and weights, which add up to its length."""
    leg = np.diff(line, axis=0)
    length = np.hypot(*leg.T)
    before = np.cumsum(length) - length
    parts = np.maximum(1, np.ceil(length / PART_UM)).astype(np.int64)
    chord = np.repeat(np.arange(len(leg)), parts)
    part = np.arange(len(chord)) - np.repeat(np.cumsum(parts) - parts, parts)
    share = (part[:, None] + (NODES + 1) / 2) / parts[chord, None]
    points = line[chord, None] + share[:, :, None] * leg[chord, None]
    along = before[chord, None] + share * length[chord, None]
    steps = (length / parts)[chord, None] * WEIGHTS / 2
    return points.reshape(-1, 2), along.reshape(-1), steps.reshape(-1)


def distances_um(points_um: Floats, line_um: Floats) -> Floats:
    """Return the distances (n,) of points (n, 2) to the nearest point of a polyline (m, 2); all in µm, or in one other
    unit."""
    return nearest_um(points_um, line_um)[0]


def nearest_um(points_um: Floats, line_um: Floats) -> tuple[Floats, Floats]:
    """Return the distance of each of n points to the nearest place of a polyline (m, 2), and its length up to there."""
    start, leg = line_um[:-1], np.diff(line_um, axis=0)
    # points of a line may coincide
    start, leg = start[np.any(leg, axis=1)], leg[np.any(leg, axis=1)]
    length = np.sqrt(np.sum(leg**2, axis=1))
    before = np.cumsum(length) - length
    distances, edges, along = nearest_edges(points_um, start, leg)
    return distances, before[edges] + along * length[edges]


def nearest_edges(points: Floats, start: Floats, leg: Floats) -> tuple[Floats, Ints, Floats]:
    """Return how far each of n points (n, 2) is from the nearest of m edges, the number of this edge, and where on it.

    Edges are given by their starts (m, 2) and their vectors (m, 2), not zero.

    Returns:
        (n,) distances in the unit of the points, (n,) numbers of edges, and (n,) shares of their lengths.
    """
    square, batch = np.sum(leg**2, axis=1), max(PAIRS // len(leg), 1)
    found = []
    for first in range(0, len(points), batch):
        away = points[first : first + batch, None] - start
        along = np.clip(np.sum(away * leg, axis=2) / square, 0.0, 1.0)
        apart = np.hypot(*np.moveaxis(away - along[:, :, None] * leg, 2, 0))
        best = np.arange(len(apart)), np.argmin(apart, axis=1)
        found.append((apart[best], best[1], along[best]))
    distances, edges, shares = (np.concatenate(each) for each in zip(*found, strict=True))
    return distances, edges, shares


def coupled_guides(
    wavelengths_nm: ArrayLike,
    guide_1: ArrayLike,
    guide_2: ArrayLike,
    angle_rad: ArrayLike,
    mismatch_rad: ArrayLike,
    loss_db: ArrayLike,
    center_nm: ArrayLike,
    slope_per_nm: ArrayLike,
    reflection_db: ArrayLike,
) -> Complexes:
    r"""Return the S-matrix (..., 4, 4) of two coupled guides::

        o2 ---\_______/--- o3      bar   o1-o4:  A t1 u     o2-o3:  A t2 u*
               _______             cross o1-o3, o2-o4:  i A √(t1 t2) (angle / Ω) sin Ω
        o1 ---/       \--- o4      u = exp(-i mismatch) (cos Ω + i (mismatch / Ω) sin Ω),  Ω = √(angle² + mismatch²)
                                   angle = angle at the centre · (1 + slope · (wavelength - center))
                                   A = 10^(-loss/20)

    Coupling is distributed evenly along both guides, so light that crosses travels half of each guide. Where one guide
    is longer than the other, as the outer one of two concentric bends, their light gets out of phase and less crosses.

    Args:
        wavelengths_nm: Wavelengths in nm, shape (...).
        guide_1: Field transmission of half of the guide from o1 to o4.
        guide_2: Field transmission of half of the guide from o2 to o3.
        angle_rad: Coupling angle at the centre wavelength in rad: coupling per length times coupled length.
        mismatch_rad: Half of the phase in rad by which light in the first guide gets behind where they couple.
        loss_db: Excess loss in dB, besides that of the guides.
        center_nm: Centre wavelength in nm.
        slope_per_nm: Relative change of the coupling angle per nm.
        reflection_db: Power reflected at each port, in dB, negative.

    Raises:
        ValueError: The device would have gain.

    Source:
        Yariv, IEEE J. Quantum Electron. 9, 919 (1973): coupled modes of two equal guides.
    """
    through, back = amplitude(loss_db), amplitude(-np.asarray(reflection_db))
    check_passive(through, back)
    detuning = np.asarray(wavelengths_nm, dtype=np.float64) - np.asarray(center_nm)
    angle = np.asarray(angle_rad) * (1.0 + np.asarray(slope_per_nm) * detuning)
    mismatch = np.asarray(mismatch_rad, dtype=np.float64)
    both = np.hypot(angle, mismatch)
    # sin(x) / x, without a division by zero
    share = np.sinc(both / np.pi)
    bar = through * np.exp(-1j * mismatch) * (np.cos(both) + 1j * mismatch * share)
    cross = 1j * through * angle * share
    half = [np.asarray(guide, dtype=np.complex128) for guide in (guide_1, guide_2, guide_2, guide_1)]
    shape = np.broadcast_shapes(both.shape, through.shape, back.shape, half[0].shape, half[1].shape)
    s = np.zeros((*shape, 4, 4), dtype=np.complex128)
    for value, a, b in ((bar, 0, 3), (bar.conj(), 1, 2), (cross, 0, 2), (cross, 1, 3)):
        s[..., a, b] = s[..., b, a] = value * half[a] * half[b]
    for port in range(4):
        s[..., port, port] = back
    return s
