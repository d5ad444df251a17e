"""Planar bundles of guides from left to right that change their pitch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import Process
from optinc_pdk.layout.canvas import Canvas, guide_track, snap
from optinc_pdk.layout.frames import Point
from optinc_pdk.layout.meander import path_length
from optinc_pdk.layout.river import river_levels


def fan(canvas: Canvas, process: Process, pairs: list[tuple[Point, Point]], x: float) -> float:
    """Draw a planar bundle from left to right between its ends, turning at and after ``x``.

    Returns:
        The x after the last turn.
    """
    r, track = float(process.guide.radius_um), guide_track(process)
    pairs = sorted(pairs, key=lambda pair: pair[0][1])
    # no S of 3r rises by more than that
    steepest = min(2 * r + between_bends(process), 3 * r)
    levels = _levels([a[1] for a, _ in pairs], [b[1] for _, b in pairs], r)
    for (a, b), level in zip(pairs, levels.tolist(), strict=True):
        turn = x + r + 0.5 + level * track
        if 0 < abs(a[1] - b[1]) < steepest:
            # shorter than 3R, an S is so steep that spacing checks see its two hollows face each other
            canvas.guide(a, (turn - r, a[1]))
            canvas.s_bend((turn - r, a[1]), (turn + 2 * r, b[1]))
            canvas.guide((turn + 2 * r, b[1]), b)
        else:
            canvas.guide(a, (turn, a[1]), (turn, b[1]), b)
    return _end(process, levels, x)


def fan_end(process: Process, source: Sequence[float], target: Sequence[float], x: float) -> float:
    """The x after the last turn of a bundle between ascending heights, as ``fan`` draws it."""
    return _end(process, _levels(source, target, float(process.guide.radius_um)), x)


def fan_length(process: Process, a: Point, b: Point) -> float:
    """Length in µm of a guide that ``fan`` draws between two ends, wherever it turns."""
    r, height = float(process.guide.radius_um), abs(a[1] - b[1])
    if height >= min(2 * r + between_bends(process), 3 * r) or not height:
        middle = (a[0] + b[0]) / 2
        return path_length([a, (middle, a[1]), (middle, b[1]), b], r)
    # two arcs of a height and 3r of length together
    widest = ((3 * r) ** 2 + height**2) / (4 * height)
    return b[0] - a[0] - 3 * r + 2 * widest * math.acos(1 - height / (2 * widest))


def between_bends(process: Process) -> float:
    """Straight that two bends to opposite sides need between them.

    Nearer ones have hollows that spacing checks see face each other through the guide. With radius r, width w and a
    straight g between, edges that are turned by a lie g + 2ra apart along the guide, and face each other from
    ra² + ga = w on: √(g² + 4rw) apart, which has to be the space s of guides.
    """
    guide, space = process.guide, float(process.floorplan.guide_space_um)
    return snap(math.sqrt(max(space**2 - 4 * float(guide.radius_um * guide.width_um), 0.0)))


def _levels(source: Sequence[float], target: Sequence[float], r: float) -> NDArray[np.int64]:
    return river_levels(np.array(source), np.array(target), 2 * r)


def _end(process: Process, levels: NDArray[np.int64], x: float) -> float:
    return x + 3 * float(process.guide.radius_um) + 1 + float(levels.max(initial=0)) * guide_track(process)
