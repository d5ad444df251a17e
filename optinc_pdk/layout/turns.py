"""Turns from one row of a folded mesh to the next: nested, so that nothing crosses, and all of one length."""

from __future__ import annotations

from optinc_pdk.cards import Process
from optinc_pdk.files import InputError
from optinc_pdk.layout.canvas import Canvas, guide_track, snap
from optinc_pdk.layout.fan import between_bends
from optinc_pdk.layout.frames import Port
from optinc_pdk.layout.meander import lacking, least_gain, teeth, tooth_heights


def turn(canvas: Canvas, process: Process, pairs: list[tuple[Port, Port]], side: int) -> None:
    """Join the end of an upper row to the start of the row below it.

    The guides of a mesh interfere further on, so the inner ones, which are shorter, meander by what they lack: half
    of it on either leg.

    Args:
        canvas: The strip, with both rows in place.
        process: Gives radius, spacing and mode pitch.
        pairs: Port of the upper row and port of the lower row for each guide, in any order.
        side: +1 to turn on the right, -1 on the left.

    Raises:
        InputError: The mode pitch leaves no room for a tooth.
    """
    r, track = float(process.guide.radius_um), guide_track(process)
    pairs = sorted(pairs, key=lambda pair: pair[0].y - pair[1].y)
    tallest = _tallest(process)
    if tallest < 2 * r:
        raise InputError(
            f"floorplan.mode_pitch_um is {float(process.floorplan.mode_pitch_um):g}: a mesh is folded through bends of "
            f"{r:g} µm, which need a pitch of {2 * r + guide_track(process):g} µm; raise the pitch"
        )
    start = snap(side * (max(side * port.x for pair in pairs for port in pair) + between_bends(process)))
    # of either leg and half of what joins them
    halves = {i: (a.y - b.y - side * (a.x + b.x - 2 * start)) / 2 + track * i for i, (a, b) in enumerate(pairs)}
    gains = lacking(halves, float(process.guide.length_match_um) / 2, least_gain(r))
    heights = [tooth_heights(gain, tallest, r) for gain in gains.values()]
    reach = start + side * (4 * r * max(map(len, heights)) + r + 0.5)
    for i, ((a, b), each) in enumerate(zip(pairs, heights, strict=True)):
        x = reach + side * (r + track * i)
        there = teeth((start, a.y), side, each, r)
        back = teeth((start, b.y), side, each, r)
        canvas.guide((a.x, a.y), *there, (x, a.y), (x, b.y), *back[::-1], (b.x, b.y))


def turn_width(process: Process, modes: int) -> float:
    """How far a turn of so many modes of one mesh reaches beyond its rows."""
    r, track, pitch = float(process.guide.radius_um), guide_track(process), float(process.floorplan.mode_pitch_um)
    # the innermost guide lacks most
    heights = tooth_heights((modes - 1) * (pitch + track), _tallest(process), r)
    return between_bends(process) + 4 * r * len(heights) + 2 * r + track * modes


def _tallest(process: Process) -> float:
    """The highest tooth that keeps clear of the next mode."""
    return snap(float(process.floorplan.mode_pitch_um) - guide_track(process))
