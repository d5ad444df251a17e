"""Meanders that lengthen a guide by a given amount, and the lengths of Manhattan guides.

A tooth is one period of a meander: up, over and down, with four bends.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from optinc_pdk.layout.canvas import simplified, snap
from optinc_pdk.layout.cell_frames import Point

Key = TypeVar("Key", bound=Hashable)


def path_length(corners: Iterable[Point], r: float) -> float:
    """Return the length in µm of a guide through corner points; each bend of radius ``r`` shortens it by (2 - π/2)r."""
    path = simplified(corners)
    legs = sum(abs(b[0] - a[0]) + abs(b[1] - a[1]) for a, b in itertools.pairwise(path))
    return legs - max(len(path) - 2, 0) * (2 - math.pi / 2) * r


def tooth_gain(height: float, r: float) -> float:
    """Return how much longer a tooth, two legs 2r apart with four bends, is than a straight: 2h - (8 - 2π)r."""
    return 2 * height - (8 - 2 * math.pi) * r


def least_gain(r: float) -> float:
    """Return the smallest gain of a tooth, whose legs consist of two bends each."""
    return tooth_gain(2 * r, r)


def length_gains(lengths: Mapping[Key, float], matched: float, least: float) -> dict[Key, float]:
    """Return the length in µm that each path has to gain so that all paths have the same length.

    Args:
        lengths: Length of each path in µm.
        matched: Tolerated difference in µm.
        least: Smallest possible gain in µm, see ``least_gain``. If a path would have to gain less, all paths gain that
            much more.
    """
    longest = max(lengths.values())
    if any(matched < longest - length < least for length in lengths.values()):
        longest += least
    # rounding errors must not push a gain below the smallest possible one
    gains = {path: longest - length for path, length in lengths.items()}
    return {path: max(gain, least) if gain > matched else 0.0 for path, gain in gains.items()}


def tooth_heights(gain: float, tallest: float, r: float) -> list[float]:
    """Return the heights in µm of teeth that together gain a given length.

    All but the last two have the largest height, so that most teeth of a turn are equal and are drawn and checked once.
    The last two share the rest, and the last one also compensates rounding to the grid.

    Args:
        gain: Length to gain in µm; below ``least_gain`` there are no teeth.
        tallest: Largest height that fits, in µm; from πr on, every gain has teeth of 2r or more.
        r: Bend radius.
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
    """Return the corners of teeth above a guide that runs to ``side`` (+1 right, -1 left); each is 4r long."""
    x, y = start
    corners: list[Point] = []
    for i, height in enumerate(heights):
        near, far = x + side * (4 * i + 1) * r, x + side * (4 * i + 3) * r
        corners += [(near, y), (near, y + height), (far, y + height), (far, y)]
    return corners
