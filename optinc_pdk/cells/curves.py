"""Centrelines of guides as arrays, and the polygons (ribbons) along them.

Coordinates are floats in µm; only the finished ribbon is rounded to the 1 nm grid.
"""

from __future__ import annotations

import math

import numpy as np

from optinc_pdk.arrays import Floats, Ints

Points = Floats
GRID_PER_UM = 1000
# Slope to an axis below which both sides of a ribbon are rounded together. Apart, their distance may be wrong by 1 nm
# over a chord that is almost parallel to an axis, like that of a taper. Extraction takes chords below 0.5° for such
# ones; the corners at their ends have slopes of at most twice that.
SHALLOW = math.sin(math.radians(1.0))


def round_corners(corners: Points, radius_um: float, segments: int) -> Points:
    """Replace the corners of a polyline (n, 2) by circular arcs of ``segments`` chords per 90°; return (m, 2) in µm.

    Raises:
        ValueError: Two consecutive corners are too close for the radius; the message states the required distance.
    """
    corners = np.asarray(corners, dtype=float)
    legs = np.diff(corners, axis=0)
    lengths = np.hypot(legs[:, 0], legs[:, 1])
    directions = legs / lengths[:, None]
    turns = np.arctan2(_cross(directions[:-1], directions[1:]), np.sum(directions[:-1] * directions[1:], axis=1))
    setback = np.concatenate([[0.0], radius_um * np.abs(np.tan(turns / 2)), [0.0]])
    short = lengths - setback[:-1] - setback[1:]
    if np.any(short < -1e-9):
        i = int(np.argmin(short))
        raise ValueError(
            f"corners {corners[i].tolist()} and {corners[i + 1].tolist()} are {lengths[i]:.3f} µm apart, "
            f"bends of radius {radius_um} µm need {setback[i] + setback[i + 1]:.3f} µm; move them apart"
        )
    pieces = [corners[:1]]
    for i, turn in enumerate(turns):
        start = corners[i + 1] - directions[i] * setback[i + 1]
        pieces.append(_arc(start, directions[i], float(turn), radius_um, segments))
    pieces.append(corners[-1:])
    return _distinct(np.concatenate(pieces))


def s_bend(length_um: float, offset_um: float, radius_um: float, segments: float) -> Points:
    """Return the centreline of an S-bend from the origin to (``length_um``, ``offset_um``).

    It consists of two circular arcs, with a vertical straight between them if the offset exceeds twice the radius,
    followed by a horizontal straight to the full length. ``segments`` is the number of chords per 90° of turn.

    Raises:
        ValueError: The length is too short for the offset; the message states the required length.
    """
    height = abs(offset_um)
    sign = math.copysign(1.0, offset_um)
    angle = _s_angle(height, radius_um)
    reach = s_bend_reach(offset_um, radius_um)
    # the arcs of an S with an offset of a few nm may have a radius of kilometres: rounding errors scale with it
    if reach > length_um + 1e-9 + 1e-12 * radius_um:
        raise ValueError(
            f"length_um is {length_um} µm; an S of {offset_um} µm with radius {radius_um} µm needs {reach:.3f} µm; "
            "lengthen it"
        )
    first = _arc(np.zeros(2), np.array([1.0, 0.0]), sign * angle, radius_um, segments)
    rise = max(height - 2 * radius_um, 0.0)
    direction = np.array([math.cos(angle), sign * math.sin(angle)])
    start = first[-1] + np.array([0.0, sign * rise])
    second = _arc(start, direction, -sign * angle, radius_um, segments)
    if length_um - reach < 1 / GRID_PER_UM:
        # a straight of less than the grid would turn the end of the ribbon
        second = second[:-1]
    return _distinct(np.concatenate([first, second, [[length_um, offset_um]]]))


def s_bend_reach(offset_um: float, radius_um: float) -> float:
    """Return the smallest length in µm along x of an S-bend that extends by ``offset_um`` along y."""
    return 2 * radius_um * math.sin(_s_angle(abs(offset_um), radius_um))


def _s_angle(height: float, radius: float) -> float:
    """Return the angle in rad by which each arc of an S-bend turns."""
    return math.pi / 2 if height >= 2 * radius else math.acos(1 - height / (2 * radius))


def circular_arc(radius_um: float, angle_deg: float, chords: int) -> Points:
    """Return the (``chords`` + 1, 2) centreline in µm of an arc from the origin along x that turns left."""
    turn = math.radians(angle_deg)
    # the number of chords per quarter may be a fraction
    return _arc(np.zeros(2), np.array([1.0, 0.0]), turn, radius_um, chords * math.pi / 2 / turn)


def euler_bend(
    radius_um: float, segments: int, angle_deg: float = 90.0, p: float = 1.0, effective: bool = False
) -> tuple[Points, float]:
    """Return the centreline of an Euler bend to the left, and its smallest radius of curvature in µm.

    The curvature is a linear function of the length along two clothoids, with an arc between them (Cherchi et al., Opt.
    Express 21, 17814 (2013); Vogelbacher et al., Opt. Express 27, 31394 (2019)).

    Args:
        radius_um: Smallest radius of curvature in µm. It is enlarged until the bend ends on the grid.
        segments: Number of chords that a 90° circular arc of this radius would have; it determines the chord length.
        angle_deg: Angle of the bend, 90 or 180.
        p: Share of the angle in which the curvature changes.
        effective: Whether ``radius_um`` is instead the radius of the circular bend with the same ends.

    Returns:
        (m, 2) centreline in µm from the origin to (r, r), or to (0, 2r) if the angle is 180°, where r is the effective
        radius; and the smallest radius of curvature.
    """
    half = _half_euler(math.radians(angle_deg) / 2, p, segments)
    # the second half mirrors the first about the normal in the middle
    along = np.array([math.cos(math.radians(angle_deg / 2)), math.sin(math.radians(angle_deg / 2))])
    back = half[-1] - half[-2::-1]
    other = half[-1] + back - 2 * (back - (back @ along)[:, None] * along)
    # 90°: r; 180°: 2r
    extent = float(other[-1, 1])
    target = radius_um * (angle_deg / 90.0) if effective else extent * radius_um
    scale = math.ceil(target * GRID_PER_UM - 1e-6) / GRID_PER_UM / extent
    return np.concatenate([half, other]) * scale, scale


def _half_euler(turn: float, p: float, segments: int) -> Points:
    """Return the (m, 2) first half of an Euler bend of smallest radius 1, which turns by ``turn`` rad."""
    from scipy.special import fresnel

    # a clothoid that turns by a and ends at curvature 1 is 2a long; its scale is √(2πa)
    length, rest = 2 * p * turn, (1 - p) * turn
    count = math.ceil(segments * length / (math.pi / 2) - 1e-9)
    line = np.zeros((1, 2))
    if count:
        scale = math.sqrt(length) * math.sqrt(math.pi)
        sine, cosine = fresnel(np.linspace(0.0, length, count + 1) / scale)
        line = scale * np.stack([cosine, sine], axis=1)
    if rest > 1e-12:
        direction = np.array([math.cos(p * turn), math.sin(p * turn)])
        line = np.concatenate([line, _arc(line[-1], direction, rest, 1.0, segments)[1:]])
    return line


def ribbon(centreline: Points, width_um: float) -> Ints:
    """Return the polygon of constant width along a centreline (n, 2) in µm, with vertices on the 1 nm grid.

    Returns:
        (2n, 2) vertices in nm: the left side from start to end, then the right side from end to start.
    """
    legs = np.diff(centreline, axis=0)
    legs /= np.hypot(legs[:, 0], legs[:, 1])[:, None]
    # the first and last chord of a bend are not quite parallel to an axis, but a guide must end at right angles to one
    ends = legs[[0, -1]]
    legs[[0, -1]] = np.where(np.abs(ends) > 0.99, np.sign(ends), np.where(np.abs(ends) < 0.1, 0.0, ends))
    before, after = np.concatenate([legs[:1], legs]), np.concatenate([legs, legs[-1:]])
    normal = np.stack([-(before + after)[:, 1], (before + after)[:, 0]], axis=1)
    # mitre joint: both sides of every chord are exactly `width_um` apart
    normal *= (width_um / np.sum(normal**2, axis=1))[:, None]
    left, right, across = (
        np.rint(each * GRID_PER_UM) for each in (centreline + normal, centreline - normal, 2 * normal)
    )
    # the coordinate across a chord that is nearly parallel to an axis
    shallow = np.abs(normal[:, ::-1]) < SHALLOW * np.abs(normal)
    right[shallow] = (left - across)[shallow]
    return np.concatenate([left, right[::-1]]).astype(np.int64)


def polyline_length_um(centreline: Points) -> float:
    """Return the length of a centreline (n, 2) in µm."""
    legs = np.diff(centreline, axis=0)
    return float(np.sum(np.hypot(legs[:, 0], legs[:, 1])))


def _arc(start: Points, direction: Points, turn: float, radius: float, segments: float) -> Points:
    """Return (k, 2) points of an arc that starts along ``direction`` and turns by ``turn`` rad, left positive."""
    count = max(1, math.ceil(segments * abs(turn) / (math.pi / 2) - 1e-9))
    side = math.copysign(1.0, turn)
    centre = start + side * radius * np.array([-direction[1], direction[0]])
    angles = np.linspace(0.0, turn, count + 1)
    radial = start - centre
    cos, sin = np.cos(angles), np.sin(angles)
    return np.asarray(centre + np.stack([cos * radial[0] - sin * radial[1], sin * radial[0] + cos * radial[1]], axis=1))


def _cross(a: Points, b: Points) -> Points:
    """Return (n,) z components of the cross products of vectors (n, 2)."""
    return a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]


def _distinct(points: Points) -> Points:
    """Drop points that coincide with their predecessor."""
    keep = np.ones(len(points), dtype=bool)
    keep[1:] = np.hypot(*np.diff(points, axis=0).T) > 1e-6
    return points[keep]
