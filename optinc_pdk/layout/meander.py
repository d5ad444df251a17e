"""Meanders that lengthen a guide by a given amount, and the lengths of Manhattan guides.

A tooth is one period of a meander: up, over and down, with four bends.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from optinc_pdk.layout.canvas import simplified_path, snap
from optinc_pdk.layout.cell_frames import Point

Key = TypeVar("Key", bound=Hashable)


def path_length(corners: Iterable[Point], r: float) -> float:
    """Return the length in µm of a Manhattan guide through corner points, whose bends have the radius ``r`` in µm.

    Each bend shortens the sum of the legs by (2 - π/2)r.
    """
    path = simplified_path(corners)
    legs = sum(abs(b[0] - a[0]) + abs(b[1] - a[1]) for a, b in itertools.pairwise(path))
    return legs - max(len(path) - 2, 0) * (2 - math.pi / 2) * r


def tooth_gain(height: float, r: float) -> float:
    """Return the length in µm by which one tooth of height h makes a guide longer: 2h - (8 - 2π)r.

    A tooth has two vertical legs, 2r apart, and four bends of radius ``r`` in µm.
    """
    return 2 * height - (8 - 2 * math.pi) * r


def least_gain(r: float) -> float:
    """Return the gain in µm of the lowest possible tooth, whose height is 2r: each leg consists of two bends."""
    return tooth_gain(2 * r, r)


def length_gains(lengths: Mapping[Key, float], matched: float, least: float) -> dict[Key, float]:
    """Return the length in µm that must be added to each path so that all paths have the same length.

    Args:
        lengths: Length of each path in µm.
        matched: Tolerated difference in µm.
        least: Smallest length in µm that can be added, see ``least_gain``. If a path would need less, this length is
            added to all paths in addition.

    Returns:
        Length to add by path, with the keys of ``lengths``; 0 for paths that already match.
    """
    longest = max(lengths.values())
    if any(matched < longest - length < least for length in lengths.values()):
        longest += least
    # rounding errors must not push a gain below the smallest possible one
    gains = {path: longest - length for path, length in lengths.items()}
    return {path: max(gain, least) if gain > matched else 0.0 for path, gain in gains.items()}


def tooth_heights(gain: float, tallest: float, r: float) -> list[float]:
    """Return the heights in µm of teeth that together lengthen a guide by a given amount.

    All teeth except the last two have the largest height, so that most teeth of a turn are equal. The last two share
    the rest, and the last one also compensates rounding to the grid.

    Args:
        gain: Length to add in µm; below ``least_gain`` the result is empty.
        tallest: Largest possible height in µm. If it is at least πr, no tooth is lower than 2r, whatever the gain.
        r: Bend radius in µm.
    """
    if gain < least_gain(r):
        return []
    count = math.ceil(gain / tooth_gain(tallest, r) - 1e-9)
    left = gain - (count - 2) * tooth_gain(tallest, r)
    if count == 1:
        return [snap(gain / 2 + (4 - math.pi) * r)]
    half = snap(left / 4 + (4 - math.pi) * r)
    return [tallest] * (count - 2) + [half, snap((left - tooth_gain(half, r)) / 2 + (4 - math.pi) * r)]


def teeth(start: Point, side: int, heights: Sequence[float], r: float) -> list[Point]:
    """Return the corner points of teeth above a horizontal guide.

    Args:
        start: Position at which the first tooth starts, in µm.
        side: Direction of the guide: +1 for right, -1 for left.
        heights: Height of each tooth in µm.
        r: Bend radius in µm; each tooth occupies 4r of the guide.
    """
    x, y = start
    corners: list[Point] = []
    for i, height in enumerate(heights):
        near, far = x + side * (4 * i + 1) * r, x + side * (4 * i + 3) * r
        corners += [(near, y), (near, y + height), (far, y + height), (far, y)]
    return corners
