"""Turns between the rows of a folded mesh: nested guides of equal length, without crossings."""

from __future__ import annotations

from optinc_pdk.cards import Process
from optinc_pdk.errors import InputError
from optinc_pdk.layout.canvas import Canvas, guide_track, snap
from optinc_pdk.layout.cell_frames import Port
from optinc_pdk.layout.fanout import straight_between_bends
from optinc_pdk.layout.meander import least_gain, length_gains, teeth, tooth_heights


def draw_turn(canvas: Canvas, process: Process, pairs: list[tuple[Port, Port]], side: int) -> None:
    """Draw the guides that connect the end of a row of a folded mesh to the start of the row below it.

    Light in these guides interferes later, so all guides get the same length: the shorter, inner guides get meanders,
    with half of the length difference before the vertical part and half behind it.

    Args:
        canvas: The strip, on which both rows are placed.
        process: Process; its card states bend radius, spacing and mode pitch.
        pairs: For each guide, its ports on the upper and the lower row, in any order of guides.
        side: +1 for a turn on the right of the rows, -1 on the left.

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
