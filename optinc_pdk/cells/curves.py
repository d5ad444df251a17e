"""Centrelines and ribbons as arrays; a ribbon is computed in float and rounded to the grid once."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
GRID_PER_UM = 1000


def rounded(corners: Points, radius_um: float, segments: int) -> Points:
    """Round the corners of a polyline.

    Args:
        corners: (n, 2) corner points in µm, no two equal in a row.
        radius_um: Bend radius.
        segments: Chords per 90° of turn.

    Returns:
        (m, 2) centreline.

    Raises:
        ValueError: Two corners are too close for the radius.
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


def s_bend(length_um: float, offset_um: float, radius_um: float, segments: int) -> Points:
    """An S from the origin to (length, offset): two arcs, with a vertical straight when the offset exceeds 2R.

    The bends sit at the start; the rest of the length is straight.

    Returns:
        (m, 2) centreline.

    Raises:
        ValueError: The length is too short for the offset.
    """
    height = abs(offset_um)
    sign = math.copysign(1.0, offset_um)
    angle = math.pi / 2 if height >= 2 * radius_um else math.acos(1 - height / (2 * radius_um))
    reach = 2 * radius_um * math.sin(angle)
    # a flat S of a few nm is made of arcs of kilometres, whose length carries their rounding
    if reach > length_um + 1e-9 + 1e-12 * radius_um:
        raise ValueError(f"an S of {offset_um} µm at radius {radius_um} µm is {reach:.3f} µm long, not {length_um} µm")
    first = _arc(np.zeros(2), np.array([1.0, 0.0]), sign * angle, radius_um, segments)
    rise = max(height - 2 * radius_um, 0.0)
    direction = np.array([math.cos(angle), sign * math.sin(angle)])
    start = first[-1] + np.array([0.0, sign * rise])
    second = _arc(start, direction, -sign * angle, radius_um, segments)
    return _distinct(np.concatenate([first, second, [[length_um, offset_um]]]))


def euler_bend(radius_um: float, segments: int) -> Points:
    """A 90° bend to the left whose curvature grows evenly to its middle and falls again: two clothoids.

    Args:
        radius_um: Least radius, at the middle; it is exceeded by so much that the bend ends on the grid.
        segments: Chords per 90° of a circle of that radius; these chords are as long.

    Returns:
        (m, 2) centreline from the origin to (r, r), r the effective radius.

    Source:
        Cherchi et al., Opt. Express 21, 17814 (2013): Euler bends.
    """
    from scipy.special import fresnel

    # to 45° at curvature 1 / radius: half the length is radius · π / 2, and the clothoid's scale is radius · √(π / 2)
    scale = math.sqrt(math.pi / 2) * math.sqrt(math.pi)
    sine, cosine = fresnel(np.linspace(0.0, math.pi / 2, segments + 1) / scale)
    half = scale * np.stack([cosine, sine], axis=1)
    effective = float(np.sum(half[-1]))
    half *= math.ceil(effective * radius_um * GRID_PER_UM - 1e-6) / GRID_PER_UM / effective
    # the other half is the mirror image at the diagonal through the middle
    other = (half[-1].sum() - half[::-1])[1:, ::-1]
    return np.concatenate([half, other])


def ribbon(centreline: Points, width_um: float) -> NDArray[np.int64]:
    """The polygon of constant width along a centreline, on the 1 nm grid.

    Args:
        centreline: (n, 2) points in µm.
        width_um: Full width.

    Returns:
        (2n, 2) vertices in nm, the left side forth and the right side back.
    """
    legs = np.diff(centreline, axis=0)
    legs /= np.hypot(legs[:, 0], legs[:, 1])[:, None]
    # a guide ends square to the axes, though the last chord of a bend is not quite parallel to one
    ends = legs[[0, -1]]
    legs[[0, -1]] = np.where(np.abs(ends) > 0.99, np.sign(ends), np.where(np.abs(ends) < 0.1, 0.0, ends))
    before, after = np.concatenate([legs[:1], legs]), np.concatenate([legs, legs[-1:]])
    normal = np.stack([-(before + after)[:, 1], (before + after)[:, 0]], axis=1)
    # mitre: the sides of every chord stay exactly `width` apart
    normal *= (width_um / np.sum(normal**2, axis=1))[:, None]
    sides = np.concatenate([centreline + normal, (centreline - normal)[::-1]])
    return np.asarray(np.rint(sides * GRID_PER_UM), dtype=np.int64)


def length_um(centreline: Points) -> float:
    """Length of a centreline."""
    legs = np.diff(centreline, axis=0)
    return float(np.sum(np.hypot(legs[:, 0], legs[:, 1])))


def _arc(start: Points, direction: Points, turn: float, radius: float, segments: int) -> Points:
    count = max(1, math.ceil(segments * abs(turn) / (math.pi / 2) - 1e-9))
    side = math.copysign(1.0, turn)
    centre = start + side * radius * np.array([-direction[1], direction[0]])
    angles = np.linspace(0.0, turn, count + 1)
    spoke = start - centre
    cos, sin = np.cos(angles), np.sin(angles)
    return np.asarray(centre + np.stack([cos * spoke[0] - sin * spoke[1], sin * spoke[0] + cos * spoke[1]], axis=1))


def _cross(a: Points, b: Points) -> NDArray[np.float64]:
    return a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]


def _distinct(points: Points) -> Points:
    keep = np.ones(len(points), dtype=bool)
    keep[1:] = np.hypot(*np.diff(points, axis=0).T) > 1e-6
    return points[keep]
