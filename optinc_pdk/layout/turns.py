"""Turns from one row of a folded mesh to the next: nested, so that nothing crosses, and all of one length."""

from __future__ import annotations

import math

from optinc_pdk.cards import Process
from optinc_pdk.files import InputError
from optinc_pdk.layout.canvas import Canvas, guide_track, snap
from optinc_pdk.layout.frames import Point, Port


def turn(canvas: Canvas, process: Process, pairs: list[tuple[Port, Port]], side: int) -> float:
    """Join the end of an upper row to the start of the row below it.

    The guides of a mesh interfere further on, so the inner ones, which are shorter, meander by what they lack: half
    of it on either leg. A tooth of the meander is two legs of height h, 2R apart, and four bends; it is longer than
    the straight by 2h - (8 - 2π)R.

    Args:
        canvas: The strip, with both rows in place.
        process: Gives radius, spacing and mode pitch.
        pairs: Port of the upper row and port of the lower row for each guide, in any order.
        side: +1 to turn on the right, -1 on the left.

    Returns:
        The x that the turn reaches.

    Raises:
        InputError: The mode pitch leaves no room for a tooth.
    """
    r, track = float(process.guide.radius_um), guide_track(process)
    pairs = sorted(pairs, key=lambda pair: pair[0].y - pair[1].y)
    tallest = _tallest(process)
    least = _gain(2 * r, r)
    if tallest < 2 * r:
        raise InputError(
            f"floorplan.mode_pitch_um is {float(process.floorplan.mode_pitch_um):g}: a mesh is folded through bends of "
            f"{r:g} µm, which need a pitch of {2 * r + guide_track(process):g} µm; raise the pitch"
        )
    start = side * max(side * port.x for pair in pairs for port in pair)
    lengths = [(a.y - b.y) + 2 * track * i - side * (a.x + b.x - 2 * start) for i, (a, b) in enumerate(pairs)]
    missing = [(max(lengths) - length) / 2 for length in lengths]
    teeth = [0 if gain < least else math.ceil(gain / _gain(tallest, r) - 1e-9) for gain in missing]
    reach = start + side * (4 * r * max(teeth) + r + 0.5)
    for i, ((a, b), gain, count) in enumerate(zip(pairs, missing, teeth, strict=True)):
        x = reach + side * (r + track * i)
        there = _meander((start, a.y), side, _heights(gain, count, tallest, r), r)
        back = _meander((start, b.y), side, _heights(gain, count, tallest, r), r)
        canvas.guide((a.x, a.y), *there, (x, a.y), (x, b.y), *back[::-1], (b.x, b.y))
    return snap(reach + side * (r + track * (len(pairs) - 1)))


def _tallest(process: Process) -> float:
    """The highest tooth that keeps clear of the next mode."""
    return snap(float(process.floorplan.mode_pitch_um) - guide_track(process))


def _gain(height: float, r: float) -> float:
    """By how much a tooth is longer than the straight."""
    return 2 * height - (8 - 2 * math.pi) * r


def _heights(gain: float, count: int, tallest: float, r: float) -> list[float]:
    """Heights of so many teeth that gain a length together: all equal but for what rounding leaves to the last."""
    if not count:
        return []
    each = snap(gain / count / 2 + (4 - math.pi) * r)
    return [each] * (count - 1) + [snap((gain - (count - 1) * _gain(each, r)) / 2 + (4 - math.pi) * r)]


def _meander(start: Point, side: int, heights: list[float], r: float) -> list[Point]:
    """Corners of teeth, upwards from a guide that runs to one side."""
    x, y = start
    corners: list[Point] = []
    for i, height in enumerate(heights):
        near, far = x + side * (4 * i + 1) * r, x + side * (4 * i + 3) * r
        corners += [(near, y), (near, y + height), (far, y + height), (far, y)]
    return corners
