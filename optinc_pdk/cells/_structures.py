"""Cells that surround a circuit (bump, fibre array, die frame), and test structures (heater test, cutback)."""

from __future__ import annotations

import math
import re
from typing import Any

import gdsfactory as gf
import klayout.db as kdb
import numpy as np

from optinc_pdk.cells._devices import grating_coupler, pad, phase_shifter, terminator
from optinc_pdk.cells._guides import add_bent_guide
from optinc_pdk.cells.curves import GRID_PER_UM, Points, polyline_length_um, round_corners
from optinc_pdk.cells.drawing import (
    LIMIT_UM,
    add_electrical,
    add_guide,
    add_polygon,
    add_rectangle,
    cell,
    check_count,
    check_length,
    place_cell,
    to_grid,
)
from optinc_pdk.tech import active_process


@cell
def bump() -> gf.Component:
    """Landing of a flip-chip bump: a metal square with an octagonal opening, e1 at its centre."""
    c = gf.Component()
    card = active_process().device("bump")
    size, half = card.size("size_um"), card.size("opening_um") / 2
    add_rectangle(c, (-size / 2, -size / 2, size / 2, size / 2), active_process().metal.layer)
    # the horizontal and vertical sides are on the grid; the others are at 45°
    short = round(half * math.tan(math.pi / 8), 3)
    quarter = np.array([[-half, short], [-short, half]])
    turn = np.array([[0, -1], [1, 0]])
    corners = np.concatenate([quarter, quarter @ turn, -quarter, -quarter @ turn])
    add_polygon(c, to_grid(corners), "bump")
    add_electrical(c, "e1", (0.0, 0.0), 270)
    return c


@cell
def fibre_array(count: int = 4) -> gf.Component:
    """Column of grating couplers for a fibre array; a guide joins the first and the last, for the alignment.

    o1, o2, … are the guide ports of the couplers between them from bottom to top; the fibre ports follow in the same
    order.

    Args:
        count: Number of fibres, 3 or more.

    Raises:
        ValueError: ``count`` is below 3, or the array would be larger than 1 m.
    """
    process = active_process()
    pitch = float(process.floorplan.fibre_pitch_um)
    check_count("count", count, 3, int(LIMIT_UM / pitch), "fibre_array")
    c = gf.Component()
    gratings = [place_cell(c, grating_coupler(), (0.0, i * pitch), rotation=180) for i in range(count)]
    box = gratings[0].dbbox()
    space = float(process.floorplan.guide_space_um) + float(process.guide.width_um) / 2
    # twice the radius: space for two bends in opposite directions
    turn = 2 * float(process.guide.radius_um)
    left, top = round(box.left - space - turn, 3), (count - 1) * pitch
    beyond = max(turn, math.ceil(box.top + space))
    loop = [(0.0, 0.0), (turn, 0.0), (turn, -beyond), (left, -beyond)]
    add_bent_guide(c, *loop, *((x, top - y) for x, y in reversed(loop)))
    inner = gratings[1:-1]
    for i, grating in enumerate(inner):
        c.add_port(name=f"o{i + 1}", port=grating["o1"])
    for i, grating in enumerate(inner):
        c.add_port(name=f"o{len(inner) + i + 1}", port=grating["o2"])
    return c


@cell
def heater_test(length_um: float | None = None) -> gf.Component:
    """Heater test structure: a phase shifter with two pads per contact, for a four-terminal resistance measurement.

    e1 and e2 are the pads of the left contact, e3 and e4 those of the right one, clockwise from the lower left.

    Args:
        length_um: Length of the heater in µm (card value by default).

    Raises:
        ValueError: The length is not on the 1 nm grid, or too short for the pads beside each other.
    """
    process = active_process()
    card = process.device("phase_shifter")
    side, half, space = card.size("contact_width_um"), process.device("pad").size("size_um") / 2, process.metal.space_um
    pitch = max(float(process.pads.pitch_um), 2 * half + space)
    length = card.size("length_um") if length_um is None else length_um
    length = check_length("length_um", length, pitch - side, "heater_test")
    c = gf.Component()
    place_cell(c, phase_shifter(length), (0.0, 0.0))
    place_cell(c, terminator(), (0.0, 0.0), rotation=180)
    place_cell(c, terminator(), (length + 2 * side, 0.0))
    wire = float(process.metal.wire_width_um) / 2
    height = side / 2 + space + half
    left, right = side / 2, length + 3 * side / 2
    for name, x, y in (("e1", left, -height), ("e2", left, height), ("e3", right, height), ("e4", right, -height)):
        place_cell(c, pad(), (x, y))
        low, high = sorted((0.0, y))
        add_rectangle(c, (x - wire, low, x + wire, high), process.metal.layer)
        add_electrical(c, name, (x, y), 270)
    return c


@cell
def cutback(lengths: tuple[float, ...] = (2000.0, 4000.0, 8000.0)) -> gf.Component:
    """Cutback test structure: guides of several lengths with the same number of bends, each between two gratings.

    The slope of insertion loss over length is the propagation loss of a guide. Ports o1 and o2 are the left and right
    fibre of the first (lowest) guide, o3 and o4 those of the second, and so on.

    Args:
        lengths: Length of each guide from grating to grating in µm, from bottom to top; at least two.

    Raises:
        ValueError: A length is not a positive number on the 1 nm grid, or is too short for as many bends as the longest
            guide has.
    """
    process = active_process()
    values: Any = lengths
    if not isinstance(values, tuple | list) or len(values) < 2:
        raise ValueError(f"cutback: lengths is {values!r}; give two or more lengths in µm")
    for i, length in enumerate(values):
        check_length(f"lengths[{i}]", length, 0.001, "cutback")
    radius = float(process.guide.radius_um)
    step = 2 * radius + float(process.floorplan.guide_space_um)
    # so many folds that the longest guide is about as high as it is wide
    folds = max(1, round(math.sqrt(max(lengths) / (4 * step))))
    lines = [_fold(float(length), folds, step) for length in lengths]
    c = gf.Component()
    pitch, space = float(process.floorplan.fibre_pitch_um), float(process.floorplan.guide_space_um)
    y, end = 0.0, 2 * folds * step
    for i, line in enumerate(lines):
        # one polygon per fold: a single polygon would have more corners than mask shops accept
        for fold in range(folds):
            add_guide(c, line + np.array([2 * fold * step, y]))
        for port, at, turn in ((2 * i + 1, (0.0, y), 180), (2 * i + 2, (end, y), 0)):
            grating = place_cell(c, grating_coupler(), at, rotation=turn)
            c.add_port(name=f"o{port}", port=grating["o2"])
        y += max(pitch, math.ceil(line[:, 1].max() + space + 1.0))
    return c


def _fold(length: float, folds: int, step: float) -> Points:
    """Return the centreline of one of a guide's equal folds upwards; its length in µm is met within 1 nm a fold.

    ``step`` is the distance between two vertical parts in µm.
    """
    strip = active_process().guide
    radius, segments = float(strip.radius_um), strip.chords

    def line(height: float) -> Points:
        left, right = step / 2, 3 * step / 2
        corners = [(0.0, 0.0), (left, 0.0), (left, height), (right, height), (right, 0.0), (2 * step, 0.0)]
        return round_corners(np.array(corners), radius, segments)

    shortest = folds * polyline_length_um(line(2 * radius))
    height = round(2 * radius + (length - shortest) / (2 * folds), 3)
    if height < 2 * radius:
        raise ValueError(
            f"cutback: lengths has {length} µm, too short for as many bends as the longest has; give at least "
            f"{math.ceil(shortest)} µm"
        )
    return line(height)


@cell
def die_frame(width_um: float | None = None, height_um: float | None = None, name: str = "die") -> gf.Component:
    """Die frame: the outline of a die from the origin, and its name as a text in the lower left corner.

    Args:
        width_um: Width in µm (that of the process's first die by default).
        height_um: Height in µm (that of the process's first die by default).
        name: Name of 1 to 32 letters, digits and underscores.

    Raises:
        ValueError: A size is below 1 µm or not on the 1 nm grid, or the name has other characters.
    """
    process = active_process()
    die = process.dies[0]
    width = check_length("width_um", float(die.width_um) if width_um is None else width_um, 1.0, "die_frame")
    height = check_length("height_um", float(die.height_um) if height_um is None else height_um, 1.0, "die_frame")
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_]{1,32}", name):
        raise ValueError(f"die_frame: name is {name!r}; give 1 to 32 letters, digits and underscores")
    c = gf.Component()
    add_rectangle(c, (0.0, 0.0, width, height), "outline")
    keepout = round(float(process.floorplan.keepout_um) * GRID_PER_UM)
    c.shapes(c.kcl.layer(*process.layers["label"].gds)).insert(kdb.Text(name, kdb.Trans(keepout, keepout)))
    return c
