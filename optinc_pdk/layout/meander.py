"""Meanders: teeth that lengthen a guide by a given length, and the lengths of Manhattan guides."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from optinc_pdk.layout.canvas import simplified, snap
from optinc_pdk.layout.frames import Point

Key = TypeVar("Key", bound=Hashable)


def path_length(corners: Iterable[Point], r: float) -> float:
    """Length in µm of a guide through corner points, rounded with radius ``r``: a bend cuts off (2 - π/2)r."""
    path = simplified(corners)
    legs = sum(abs(b[0] - a[0]) + abs(b[1] - a[1]) for a, b in itertools.pairwise(path))
    return legs - max(len(path) - 2, 0) * (2 - math.pi / 2) * r


def tooth_gain(height: float, r: float) -> float:
    """By how much a tooth, two legs 2r apart with four bends, is longer than the straight: 2h - (8 - 2π)r."""
    return 2 * height - (8 - 2 * math.pi) * r


def least_gain(r: float) -> float:
    """The least gain of a tooth, whose legs are two bends and nothing between."""
    return tooth_gain(2 * r, r)


def lacking(lengths: Mapping[Key, float], matched: float, least: float) -> dict[Key, float]:
    """What each of some paths has to gain, in µm, for all to be as long.

    Args:
        lengths: Length of each path in µm.
        matched: Difference that may stay.
        least: The least that a path can gain, as ``least_gain``; all gain that much more where one lacks less.
    """
    longest = max(lengths.values())
    if any(matched < longest - length < least for length in lengths.values()):
        longest += least
    # what floats take from the least must not leave a path without its tooth
    gains = {path: longest - length for path, length in lengths.items()}
    return {path: max(gain, least) if gain > matched else 0.0 for path, gain in gains.items()}


def tooth_heights(gain: float, tallest: float, r: float) -> list[float]:
    """Heights in µm of the teeth that gain a length together: as high as there is room, but for the last two.

    So most teeth of all guides of a turn are alike, and are drawn and checked as one. The last two share what is left,
    and the very last also takes what rounding to the grid leaves.

    Args:
        gain: Length to gain; none is gained below ``least_gain``.
        tallest: The highest tooth that there is room for, at least πr for every gain to have teeth of 2r or more.
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
    """Corners of teeth, upwards from a guide that runs to one side (+1 right, -1 left); each takes 4r of it."""
    x, y = start
    corners: list[Point] = []
    for i, height in enumerate(heights):
        near, far = x + side * (4 * i + 1) * r, x + side * (4 * i + 3) * r
        corners += [(near, y), (near, y + height), (far, y + height), (far, y)]
    return corners
