"""What surrounds circuits: fibre arrays, bumps, the die's frame; and structures that calibrate the process."""

from __future__ import annotations

import math
import re
from typing import Any

import gdsfactory as gf
import klayout.db as kdb
import numpy as np

from optinc_pdk.cells.cached import cell
from optinc_pdk.cells.curves import GRID_PER_UM, Points, rounded
from optinc_pdk.cells.curves import length_um as guide_length
from optinc_pdk.cells.devices import grating_coupler, pad, phase_shifter, terminator
from optinc_pdk.cells.draw import (
    LIMIT_UM,
    add_electrical,
    check_count,
    check_length,
    guide,
    place,
    polygon,
    rectangle,
)
from optinc_pdk.cells.routes import bent_guide
from optinc_pdk.tech import active_process


@cell
def bump() -> gf.Component:
    """Landing of a flip-chip bump: metal with an octagonal opening, e1 at its centre."""
    c = gf.Component()
    card = active_process().device("bump")
    size, half = card.size("size_um"), card.size("opening_um") / 2
    rectangle(c, (-size / 2, -size / 2, size / 2, size / 2), active_process().metal.layer)
    # the flats lie on the grid, and the short sides at 45°
    short = round(half * math.tan(math.pi / 8), 3)
    quarter = np.array([[-half, short], [-short, half]])
    turn = np.array([[0, -1], [1, 0]])
    corners = np.concatenate([quarter, quarter @ turn, -quarter, -quarter @ turn])
    polygon(c, np.rint(corners * GRID_PER_UM).astype(np.int64), "bump")
    add_electrical(c, "e1", (0.0, 0.0), 270, size)
    return c


@cell
def fibre_array(count: int = 4) -> gf.Component:
    """Grating couplers for ``count`` fibres in a column; light joins the first and the last, to align the array.

    o1, o2, … are the guides of those between, from below; their fibres follow in the same order.
    """
    process = active_process()
    pitch = float(process.floorplan.fibre_pitch_um)
    check_count("count", count, 3, int(LIMIT_UM / pitch), "fibre_array")
    c = gf.Component()
    gratings = [place(c, grating_coupler(), (0.0, i * pitch), rotation=180) for i in range(count)]
    box = gratings[0].dbbox()
    room = float(process.floorplan.guide_space_um) + float(process.guide.width_um) / 2
    # twice the radius, so that a guide can turn up and back
    turn = 2 * float(process.guide.radius_um)
    left, top = round(box.left - room - turn, 3), (count - 1) * pitch
    beyond = max(turn, math.ceil(box.top + room))
    loop = [(0.0, 0.0), (turn, 0.0), (turn, -beyond), (left, -beyond)]
    bent_guide(c, *loop, *((x, top - y) for x, y in reversed(loop)))
    inner = gratings[1:-1]
    for i, grating in enumerate(inner):
        c.add_port(name=f"o{i + 1}", port=grating["o1"])
    for i, grating in enumerate(inner):
        c.add_port(name=f"o{len(inner) + i + 1}", port=grating["o2"])
    return c


@cell
def heater_test(length_um: float | None = None) -> gf.Component:
    """A phase shifter with two pads per contact, which measures its resistance without that of the wires.

    Args:
        length_um: Length of the heater (card value by default); its pads need room.

    e1 and e2 are the pads of the left contact, e3 and e4 of the right one, clockwise from the lower left.
    """
    process = active_process()
    card = process.device("phase_shifter")
    side, half, space = card.size("contact_width_um"), process.device("pad").size("size_um") / 2, process.metal.space_um
    pitch = max(float(process.pads.pitch_um), 2 * half + space)
    length = card.size("length_um") if length_um is None else length_um
    length = check_length("length_um", length, pitch - side, "heater_test")
    c = gf.Component()
    place(c, phase_shifter(length), (0.0, 0.0))
    place(c, terminator(), (0.0, 0.0), rotation=180)
    place(c, terminator(), (length + 2 * side, 0.0))
    wire = float(process.metal.wire_width_um) / 2
    height = side / 2 + space + half
    left, right = side / 2, length + 3 * side / 2
    for name, x, y in (("e1", left, -height), ("e2", left, height), ("e3", right, height), ("e4", right, -height)):
        place(c, pad(), (x, y))
        low, high = sorted((0.0, y))
        rectangle(c, (x - wire, low, x + wire, high), process.metal.layer)
        add_electrical(c, name, (x, y), 270, 2 * half)
    return c


@cell
def cutback(lengths: tuple[float, ...] = (2000.0, 4000.0, 8000.0)) -> gf.Component:
    """Guides of several lengths with equally many bends, between gratings: the slope of their losses is a guide's.

    Args:
        lengths: Length of each guide from grating to grating, µm, ascending from below; at least two.

    Ports o1, o2 are the left and right fibre of the first guide, o3 and o4 those of the second, and so on.

    Raises:
        ValueError: A length is refused, or is too short beside the longest to have as many bends.
    """
    process = active_process()
    given: Any = lengths
    if not isinstance(given, tuple | list) or len(given) < 2:
        raise ValueError(f"cutback: lengths is {given!r}; give two or more lengths in µm")
    for i, length in enumerate(given):
        check_length(f"lengths[{i}]", length, 0.001, "cutback")
    radius = float(process.guide.radius_um)
    step = 2 * radius + float(process.floorplan.guide_space_um)
    # the longest is about as high as it is wide
    folds = max(1, round(math.sqrt(max(lengths) / (4 * step))))
    lines = [_fold(float(length), folds, step) for length in lengths]
    c = gf.Component()
    pitch, room = float(process.floorplan.fibre_pitch_um), float(process.floorplan.guide_space_um)
    y, end = 0.0, 2 * folds * step
    for i, line in enumerate(lines):
        # fold by fold, as one polygon would have more corners than mask shops take
        for fold in range(folds):
            guide(c, line + np.array([2 * fold * step, y]))
        for port, at, turn in ((2 * i + 1, (0.0, y), 180), (2 * i + 2, (end, y), 0)):
            grating = place(c, grating_coupler(), at, rotation=turn)
            c.add_port(name=f"o{port}", port=grating["o2"])
        y += max(pitch, math.ceil(line[:, 1].max() + room + 1.0))
    return c


def _fold(length: float, folds: int, step: float) -> Points:
    """One of several equal folds upwards of a guide of a given length, which is met within 1 nm per fold.

    Raises:
        ValueError: The folds would be lower than two bends.
    """
    strip = active_process().guide
    radius, segments = float(strip.radius_um), int(strip.arc_segments)

    def line(height: float) -> Points:
        left, right = step / 2, 3 * step / 2
        corners = [(0.0, 0.0), (left, 0.0), (left, height), (right, height), (right, 0.0), (2 * step, 0.0)]
        return rounded(np.array(corners), radius, segments)

    shortest = folds * guide_length(line(2 * radius))
    height = round(2 * radius + (length - shortest) / (2 * folds), 3)
    if height < 2 * radius:
        raise ValueError(
            f"cutback: lengths has {length} µm, at least {math.ceil(shortest)} µm are needed for as many bends as "
            "the longest has"
        )
    return line(height)


@cell
def die_frame(width_um: float | None = None, height_um: float | None = None, name: str = "die") -> gf.Component:
    """Outline of a die from the origin, and its name as a text in the lower left corner.

    Args:
        width_um: Width (the process's first die by default).
        height_um: Height (the process's first die by default).
        name: Letters, digits and underscores, at most 32.
    """
    process = active_process()
    die = process.dies[0]
    width = check_length("width_um", float(die.width_um) if width_um is None else width_um, 1.0, "die_frame")
    height = check_length("height_um", float(die.height_um) if height_um is None else height_um, 1.0, "die_frame")
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_]{1,32}", name):
        raise ValueError(f"die_frame: name is {name!r}; give 1 to 32 letters, digits and underscores")
    c = gf.Component()
    rectangle(c, (0.0, 0.0, width, height), "outline")
    keepout = round(float(process.floorplan.keepout_um) * GRID_PER_UM)
    c.shapes(c.kcl.layer(*process.layers["label"].gds)).insert(kdb.Text(name, kdb.Trans(keepout, keepout)))
    return c
