"""Planar bundles of guides from left to right that change pitch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import Process
from optinc_pdk.layout.canvas import Canvas, guide_track, snap
from optinc_pdk.layout.cell_frames import Point
from optinc_pdk.layout.meander import path_length
from optinc_pdk.layout.river_routing import river_levels


def draw_fanout(canvas: Canvas, process: Process, pairs: list[tuple[Point, Point]], x: float) -> float:
    """Draw a planar bundle of guides from left to right, with all turns at or after ``x``.

    Args:
        canvas: Takes the guides.
        process: Gives radius, width and spacing of guides.
        pairs: Left and right end of each guide, in any order.
        x: Where the guides may begin to turn.

    Returns:
        The x after the last turn.
    """
    r, track = float(process.guide.radius_um), guide_track(process)
    pairs = sorted(pairs, key=lambda pair: pair[0][1])
    # an S-bend of length 3r rises by no more than that
    steepest = min(2 * r + between_bends(process), 3 * r)
    levels = _levels([a[1] for a, _ in pairs], [b[1] for _, b in pairs], r)
    for (a, b), level in zip(pairs, levels.tolist(), strict=True):
        turn = x + r + 0.5 + level * track
        if 0 < abs(a[1] - b[1]) < steepest:
            # a shorter S-bend is so steep that its concave sides face each other and fail spacing checks
            canvas.guide(a, (turn - r, a[1]))
            canvas.s_bend((turn - r, a[1]), (turn + 2 * r, b[1]))
            canvas.guide((turn + 2 * r, b[1]), b)
        else:
            canvas.guide(a, (turn, a[1]), (turn, b[1]), b)
    return _end(process, levels, x)


def fan_end(process: Process, source: Sequence[float], target: Sequence[float], x: float) -> float:
    """Return the x after the last turn of the bundle that ``draw_fanout`` draws between ascending heights."""
    return _end(process, _levels(source, target, float(process.guide.radius_um)), x)


def fan_length(process: Process, a: Point, b: Point) -> float:
    """Return the length in µm of a guide that ``draw_fanout`` draws between two ends, wherever it turns."""
    r, height = float(process.guide.radius_um), abs(a[1] - b[1])
    if height >= min(2 * r + between_bends(process), 3 * r) or not height:
        middle = (a[0] + b[0]) / 2
        return path_length([a, (middle, a[1]), (middle, b[1]), b], r)
    # two arcs that are together 3r long and one height high
    widest = ((3 * r) ** 2 + height**2) / (4 * height)
    return b[0] - a[0] - 3 * r + 2 * widest * math.acos(1 - height / (2 * widest))


def between_bends(process: Process) -> float:
    """Return the length in µm of the straight that two bends to opposite sides need between them.

    With a shorter straight the concave sides of the two bends face each other through the guide and fail spacing
    checks. With radius r, width w and a straight g, edges turned by the angle a are g + 2ra apart along the guide. They
    face each other from ra² + ga = w on, where they are √(g² + 4rw) apart; that has to be at least the space s of
    guides.
    """
    guide, space = process.guide, float(process.floorplan.guide_space_um)
    return snap(math.sqrt(max(space**2 - 4 * float(guide.radius_um * guide.width_um), 0.0)))


def _levels(source: Sequence[float], target: Sequence[float], r: float) -> NDArray[np.int64]:
    return river_levels(np.array(source), np.array(target), 2 * r)


def _end(process: Process, levels: NDArray[np.int64], x: float) -> float:
    return x + 3 * float(process.guide.radius_um) + 1 + float(levels.max(initial=0)) * guide_track(process)
