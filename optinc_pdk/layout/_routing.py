"""Routes that avoid each other and match in length: bundles, meanders, turns between rows, and tracks of wires."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.cards import Process
from optinc_pdk.cards.consistency import LEAD_UM
from optinc_pdk.cells.curves import s_bend_reach
from optinc_pdk.errors import InputError
from optinc_pdk.layout.canvas import Canvas, Point, Port, guide_track, simplified_path, snap

Key = TypeVar("Key", bound=Hashable)


def river_levels(source: Floats, target: Floats, space: float) -> Ints:
    """Return the number of the track on which each wire of a planar bundle runs sideways (its level), 0 or larger.

    Wire i runs straight from ``source[i]`` to its track, along the track, and straight to ``target[i]``; both (n,)
    arrays are ascending, and centres of wires are at least ``space`` apart. Level 0 lies next to the sources. A wire
    that moves towards its neighbour's source has to turn on a later track than the neighbour.
    """
    n = len(source)
    levels = np.zeros(n, dtype=np.int64)
    up, down = target > source, target < source
    for i in range(n - 2, -1, -1):
        if up[i] and up[i + 1] and target[i] + space > source[i + 1]:
            levels[i] = levels[i + 1] + 1
    for i in range(1, n):
        if down[i] and down[i - 1] and target[i] - space < source[i - 1]:
            levels[i] = levels[i - 1] + 1
    return levels


def spaced_positions(targets: Floats, space: float, lowest: float, highest: float) -> Floats:
    """Return positions that are at least ``space`` apart and as near to (n,) ascending targets as possible.

    The result minimises the sum of squared distances (isotonic regression by the pool-adjacent-violators algorithm).

    Raises:
        ValueError: The positions do not fit between the bounds ``lowest`` and ``highest``.
    """
    n = len(targets)
    if n and (n - 1) * space > highest - lowest + 1e-9:
        raise ValueError(f"{n} pads at {space} µm need {(n - 1) * space:.0f} µm, there are {highest - lowest:.0f} µm")
    shifted = np.asarray(targets, dtype=float) - space * np.arange(n)
    means: list[float] = []
    counts: list[int] = []
    for value in shifted.tolist():
        means.append(value)
        counts.append(1)
        while len(means) > 1 and means[-2] > means[-1]:
            total = counts[-2] + counts[-1]
            means[-2:] = [(means[-2] * counts[-2] + means[-1] * counts[-1]) / total]
            counts[-2:] = [total]
    fitted = np.repeat(means, counts) if n else np.zeros(0)
    fitted = np.clip(fitted, lowest, highest - space * max(n - 1, 0))
    return np.asarray(fitted + space * np.arange(n), dtype=float)


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
    """Return the length in µm to add to each path so that all have the same length, within ``matched``.

    It is 0 for paths that already match. If a path would need less than ``least``, which is the smallest length that
    can be added (``least_gain``), this length is added to all paths in addition.
    """
    longest = max(lengths.values())
    if any(matched < longest - length < least for length in lengths.values()):
        longest += least
    # rounding errors must not push a gain below the smallest possible one
    gains = {path: longest - length for path, length in lengths.items()}
    return {path: max(gain, least) if gain > matched else 0.0 for path, gain in gains.items()}


def tooth_heights(gain: float, tallest: float, r: float) -> list[float]:
    """Return the heights in µm of teeth that together lengthen a guide by ``gain``; none below ``least_gain``.

    All teeth except the last two have the largest height, ``tallest``, so that most teeth of a turn are equal. The last
    two share the rest, and the last one also compensates rounding to the grid. If ``tallest`` is at least πr, no tooth
    is lower than 2r, whatever the gain.
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
    """Return the corners (µm) of teeth above a horizontal guide to the right (``side`` +1) or left, 4r each."""
    x, y = start
    corners: list[Point] = []
    for i, height in enumerate(heights):
        near, far = x + side * (4 * i + 1) * r, x + side * (4 * i + 3) * r
        corners += [(near, y), (near, y + height), (far, y + height), (far, y)]
    return corners


def draw_fanout(canvas: Canvas, process: Process, pairs: list[tuple[Point, Point]], x: float) -> float:
    """Draw a planar bundle of guides from left to right, with turns from ``x`` on; return the x behind the last.

    ``pairs`` are the left and right end point of each guide in µm, in any order of guides.
    """
    r, track = float(process.guide.radius_um), guide_track(process)
    pairs = sorted(pairs, key=lambda pair: pair[0][1])
    # an S-bend of length 3r rises by no more than that
    steepest = min(2 * r + straight_between_bends(process), 3 * r)
    levels = _levels([a[1] for a, _ in pairs], [b[1] for _, b in pairs], r)
    for (a, b), level in zip(pairs, levels.tolist(), strict=True):
        turn = x + r + LEAD_UM + level * track
        if 0 < abs(a[1] - b[1]) < steepest:
            end = turn - r + _s_length(abs(a[1] - b[1]), r)
            canvas.guide(a, (turn - r, a[1]))
            canvas.s_bend((turn - r, a[1]), (end, b[1]))
            canvas.guide((end, b[1]), b)
        else:
            canvas.guide(a, (turn, a[1]), (turn, b[1]), b)
    return _end(process, levels, x)


def fan_end(process: Process, source: Sequence[float], target: Sequence[float], x: float) -> float:
    """Return the x behind the last turn of a bundle that ``draw_fanout`` would draw, without drawing it.

    ``source`` and ``target`` are the y of the left and right ends in µm, ascending; guides may turn from ``x`` on.
    """
    return _end(process, _levels(source, target, float(process.guide.radius_um)), x)


def fan_length(process: Process, a: Point, b: Point) -> float:
    """Return the length in µm of a guide that ``draw_fanout`` draws from ``a`` to ``b``, wherever its turns are."""
    r, height = float(process.guide.radius_um), abs(a[1] - b[1])
    if height >= min(2 * r + straight_between_bends(process), 3 * r) or not height:
        middle = (a[0] + b[0]) / 2
        return path_length([a, (middle, a[1]), (middle, b[1]), b], r)
    # two arcs that are together one length long and one height high
    length = _s_length(height, r)
    widest = (length**2 + height**2) / (4 * height)
    return b[0] - a[0] - length + 2 * widest * math.acos(1 - height / (2 * widest))


def _s_length(height: float, r: float) -> float:
    """Return the length in µm of the S-bend of a bundle that rises by ``height``, which is above 0.

    With the bend radius r itself, an S-bend that rises by nearly 2r is so steep that its concave sides face each other
    and fail spacing checks. Twice the least length for a small rise has a radius of nearly 4r. Still larger ones would
    have long chords almost parallel to an axis, whose rounding changes the guide's mean width.
    """
    return min(3 * r, math.ceil(2 * s_bend_reach(height, r)))


def straight_between_bends(process: Process) -> float:
    """Return the smallest length in µm of a straight guide between two bends in opposite directions.

    With a shorter straight the concave sides of the two bends face each other across the guide and violate the spacing
    rule. With radius r, width w and a straight of length g, edges turned by the angle a are g + 2ra apart along the
    guide. They face each other from ra² + ga = w on, where their distance is √(g² + 4rw); it has to be at least the
    minimum space s of guides, so g = √(s² - 4rw), or 0.
    """
    guide, space = process.guide, float(process.floorplan.guide_space_um)
    return snap(math.sqrt(max(space**2 - 4 * float(guide.radius_um * guide.width_um), 0.0)))


def _levels(source: Sequence[float], target: Sequence[float], r: float) -> Ints:
    return river_levels(np.array(source), np.array(target), 2 * r)


def _end(process: Process, levels: Ints, x: float) -> float:
    return x + 3 * float(process.guide.radius_um) + 1 + float(levels.max(initial=0)) * guide_track(process)


def draw_turn(canvas: Canvas, process: Process, pairs: list[tuple[Port, Port]], side: int) -> None:
    """Draw the guides that connect the end of a row of a folded mesh to the start of the row below it.

    Light in these guides interferes later, so all guides get the same length: the shorter, inner guides get meanders,
    with half of the length difference before the vertical part and half behind it. ``pairs`` are the ports of each
    guide on the upper and the lower row; the turn is on the right (``side`` +1) or left of the rows.

    Raises:
        InputError: The mode pitch is too small for one period of a meander.
    """
    r, track = float(process.guide.radius_um), guide_track(process)
    pairs = sorted(pairs, key=lambda pair: pair[0].y - pair[1].y)
    tallest = _tallest(process)
    if tallest < 2 * r:
        raise InputError(
            f"floorplan.mode_pitch_um is {float(process.floorplan.mode_pitch_um):g}: a mesh is folded through bends of "
            f"{r:g} µm, which need a pitch of {2 * r + guide_track(process):g} µm; raise the pitch"
        )
    start = snap(side * (max(side * port.x for pair in pairs for port in pair) + straight_between_bends(process)))
    # length of one leg and half of the vertical guide
    halves = {i: (a.y - b.y - side * (a.x + b.x - 2 * start)) / 2 + track * i for i, (a, b) in enumerate(pairs)}
    gains = length_gains(halves, float(process.guide.length_match_um) / 2, least_gain(r))
    heights = [tooth_heights(gain, tallest, r) for gain in gains.values()]
    reach = start + side * (4 * r * max(map(len, heights)) + r + 0.5)
    for i, ((a, b), each) in enumerate(zip(pairs, heights, strict=True)):
        x = reach + side * (r + track * i)
        upper = teeth((start, a.y), side, each, r)
        lower = teeth((start, b.y), side, each, r)
        canvas.guide((a.x, a.y), *upper, (x, a.y), (x, b.y), *lower[::-1], (b.x, b.y))


def turn_width(process: Process, modes: int) -> float:
    """Return the distance in µm by which a turn of ``modes`` guides extends beyond the rows."""
    r, track, pitch = float(process.guide.radius_um), guide_track(process), float(process.floorplan.mode_pitch_um)
    # the innermost guide has to gain most
    heights = tooth_heights((modes - 1) * (pitch + track), _tallest(process), r)
    return straight_between_bends(process) + 4 * r * len(heights) + 2 * r + track * modes


def _tallest(process: Process) -> float:
    """Return the height of the highest tooth that keeps its distance from the next mode."""
    return snap(float(process.floorplan.mode_pitch_um) - guide_track(process))
