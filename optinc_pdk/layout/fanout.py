"""Fan-outs: planar bundles of guides that run from left to right and change their pitch without crossings."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.cards import Process
from optinc_pdk.cards.consistency import LEAD_UM
from optinc_pdk.cells.curves import s_bend_reach
from optinc_pdk.layout.canvas import Canvas, guide_track, snap
from optinc_pdk.layout.cell_frames import Point
from optinc_pdk.layout.meander import path_length
from optinc_pdk.layout.river_routing import river_levels


def draw_fanout(canvas: Canvas, process: Process, pairs: list[tuple[Point, Point]], x: float) -> float:
    """Draw a planar bundle of guides from left to right, with all turns at or after ``x``.

    Args:
        canvas: Canvas that receives the guides.
        process: Process; its card states bend radius, width and spacing of guides.
        pairs: Left and right end point of each guide in µm, in any order of guides.
        x: x in µm from which guides may turn.

    Returns:
        x in µm behind the last turn.
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

    Args:
        process: Process.
        source: y of the left ends in µm, ascending.
        target: y of the right ends in µm, ascending.
        x: x in µm from which guides may turn.
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
