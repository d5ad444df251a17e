"""Passive devices whose silicon is more than a guide: couplers of two guides, crossing, tapers."""

from __future__ import annotations

import math

import gdsfactory as gf
import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import Device
from optinc_pdk.cells.cached import cell
from optinc_pdk.cells.curves import GRID_PER_UM, ribbon, s_bend
from optinc_pdk.cells.draw import add_optical, polygon, rectangle
from optinc_pdk.tech import active_process


def _coupled(name: str) -> gf.Component:
    """Two guides that run side by side; their arms are arcs, so that a guide at a port makes a corner there.

    The layer of coupled guides marks where they may be closer than guides are.
    """
    c = gf.Component()
    card = active_process().device(name)
    lower, end = _coupled_guide(card)
    polygon(c, lower, "core")
    polygon(c, lower * np.array([1, -1]), "core")
    half, width = card.size("port_pitch_um") / 2, float(active_process().guide.width_um)
    rectangle(c, (0.0, -half - width / 2, end, half + width / 2), "coupled")
    ports = (("o1", 0.0, -half, 180), ("o2", 0.0, half, 180), ("o3", end, half, 0), ("o4", end, -half, 0))
    for port, x, y, side in ports:
        add_optical(c, port, (x, y), side)
    return c


def _coupled_guide(card: Device) -> tuple[NDArray[np.int64], float]:
    """The lower guide, its right half the mirror image of its left, and the device's length."""
    strip = active_process().guide
    radius, width = float(strip.radius_um), float(strip.width_um)
    rise = (card.size("port_pitch_um") - card.size("gap_um") - width) / 2
    reach = 2 * radius * math.sin(math.acos(1 - rise / (2 * radius)))
    arm = s_bend(reach, rise, radius, int(strip.arc_segments)) - [0.0, card.size("port_pitch_um") / 2]
    middle = arm[-1] + [card.size("length_um") / 2, 0.0]
    sides = ribbon(np.concatenate([arm, middle[None]]), width)
    total = round((2 * reach + card.size("length_um")) * GRID_PER_UM)
    # without the points in the middle
    upper, lower = sides[: len(arm)], sides[len(arm) + 2 :]
    mirror = np.array([-1, 1])
    right = [side[::-1] * mirror + [total, 0] for side in (upper, lower)]
    return np.concatenate([upper, *right, lower]), total / GRID_PER_UM


@cell
def directional_coupler() -> gf.Component:
    """Directional coupler of two guides; ports clockwise from the lower left."""
    return _coupled("directional_coupler")


@cell
def monitor_tap() -> gf.Component:
    """Weak directional coupler; light in o2 goes on to o3, the tapped share to o4."""
    return _coupled("monitor_tap")


@cell
def crossing() -> gf.Component:
    """Crossing of two guides that widen towards it; ports clockwise from the left."""
    c = gf.Component()
    process = active_process()
    card = process.device("crossing")
    half, wide = float(process.guide.width_um) / 2, card.size("waist_um") / 2
    # the wide part goes on beyond the crossing, so that sides meet at right angles
    start = card.size("taper_length_um")
    middle = start + card.size("shoulder_um") + wide
    arm = np.array([[-middle, -half], [-middle, half], [start - middle, wide], [-wide, wide]])
    turns = [np.array(turn) for turn in ([[1, 0], [0, 1]], [[0, -1], [1, 0]], [[-1, 0], [0, -1]], [[0, 1], [-1, 0]])]
    # the lower side of an arm is the upper side of the arm before it, turned back
    lower = np.array([[start - middle, -wide]])
    around = np.concatenate([np.concatenate([lower, arm]) @ turn for turn in turns])
    around += np.array([middle, 0.0])
    polygon(c, np.rint(around * GRID_PER_UM).astype(np.int64), "core")
    for name, at, side in (
        ("o1", (0.0, 0.0), 180),
        ("o2", (middle, middle), 90),
        ("o3", (2 * middle, 0.0), 0),
        ("o4", (middle, -middle), 270),
    ):
        add_optical(c, name, at, side)
    return c


def _tapered(c: gf.Component, length: float, width: float) -> None:
    """Silicon from the guide's width at x = 0 to another."""
    near, far = float(active_process().guide.width_um) / 2, width / 2
    corners = np.array([[0.0, -near], [0.0, near], [length, far], [length, -far]])
    polygon(c, np.rint(corners * GRID_PER_UM).astype(np.int64), "core")


@cell
def taper() -> gf.Component:
    """Taper from a guide at o1 to a wide guide at o2."""
    c = gf.Component()
    card = active_process().device("taper")
    length, width = card.size("length_um"), card.size("width_um")
    _tapered(c, length, width)
    add_optical(c, "o1", (0.0, 0.0), 180)
    c.add_port(name="o2", center=(length, 0.0), orientation=0, width=width, layer="core", port_type="optical")
    return c


@cell
def edge_coupler() -> gf.Component:
    """Inverse taper: the guide at o1 narrows to its tip at o2, which faces a fibre at the edge of the die."""
    c = gf.Component()
    card = active_process().device("edge_coupler")
    length, tip = card.size("length_um"), card.size("tip_width_um")
    _tapered(c, length, tip)
    add_optical(c, "o1", (0.0, 0.0), 180)
    c.add_port(name="o2", center=(length, 0.0), orientation=0, width=tip, layer="core", port_type="edge_coupler")
    return c
