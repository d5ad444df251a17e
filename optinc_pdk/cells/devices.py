"""The devices: one cell per card, geometry from the card."""

from __future__ import annotations

import math

import gdsfactory as gf
import numpy as np

from optinc_pdk.cells.cached import cell
from optinc_pdk.cells.curves import GRID_PER_UM, euler_bend, rounded, s_bend
from optinc_pdk.cells.draw import LIMIT_UM, add_electrical, add_optical, check_length, guide, polygon, rectangle
from optinc_pdk.tech import active_process


@cell
def straight(length_um: float = 10.0) -> gf.Component:
    """A straight strip guide from o1 to o2."""
    check_length("length_um", length_um, 0.001, "straight")
    c = gf.Component()
    guide(c, np.array([[0.0, 0.0], [length_um, 0.0]]))
    add_optical(c, "o1", (0, 0), 180)
    add_optical(c, "o2", (length_um, 0), 0)
    return c


@cell
def bend() -> gf.Component:
    """A circular 90° bend to the left, at the process's radius."""
    c = gf.Component()
    strip = active_process().guide
    r = float(strip.radius_um)
    guide(c, rounded(np.array([[0.0, 0.0], [r, 0.0], [r, r]]), r, int(strip.arc_segments)))
    add_optical(c, "o1", (0, 0), 180)
    add_optical(c, "o2", (r, r), 90)
    return c


@cell
def bend_euler() -> gf.Component:
    """An Euler 90° bend to the left; its least radius is the process's."""
    c = gf.Component()
    strip = active_process().guide
    line = euler_bend(float(strip.radius_um), int(strip.arc_segments))
    r = round(float(line[-1, 0]), 3)
    guide(c, line)
    add_optical(c, "o1", (0, 0), 180)
    add_optical(c, "o2", (r, r), 90)
    return c


@cell
def bend_s(length_um: float = 20.0, offset_um: float = 25.0) -> gf.Component:
    """An S-bend from o1 at the origin to o2 at (length, offset)."""
    check_length("length_um", length_um, 0.001, "bend_s")
    down = check_length("offset_um", offset_um, 0.001 - LIMIT_UM, "bend_s") < 0
    check_length("offset_um", -offset_um if down else offset_um, 0.001, "bend_s")
    strip = active_process().guide
    line = s_bend(length_um, offset_um, float(strip.radius_um), int(strip.arc_segments))
    c = gf.Component()
    guide(c, line)
    add_optical(c, "o1", (0, 0), 180)
    add_optical(c, "o2", (length_um, offset_um), 0)
    return c


def _taper(c: gf.Component, x0: float, y: float, w0: float, x1: float, w1: float) -> None:
    points = np.array([[x0, y - w0 / 2], [x0, y + w0 / 2], [x1, y + w1 / 2], [x1, y - w1 / 2]])
    polygon(c, np.rint(points * GRID_PER_UM).astype(np.int64), "core")


def _mmi(name: str, left: tuple[float, ...]) -> gf.Component:
    """An MMI with input tapers at heights ``left`` and two output tapers; the first port is at x = 0."""
    c = gf.Component()
    process = active_process()
    card = process.device(name)
    width, taper, wide = (
        float(process.guide.width_um),
        card.size("taper_length_um"),
        card.size("taper_width_um"),
    )
    length, pitch = card.size("length_um"), card.size("gap_um") + wide
    rectangle(c, (taper, -card.size("width_um") / 2, taper + length, card.size("width_um") / 2), "core")
    end = length + 2 * taper
    names = iter(card.ports.optical)
    for y in left:
        _taper(c, 0.0, y * pitch, width, taper, wide)
        add_optical(c, next(names), (0.0, y * pitch), 180)
    for y in (0.5, -0.5):
        _taper(c, end - taper, y * pitch, wide, end, width)
        add_optical(c, next(names), (end, y * pitch), 0)
    return c


@cell
def mmi2x2() -> gf.Component:
    """2×2 multimode interference coupler; ports clockwise from the lower left."""
    return _mmi("mmi2x2", (-0.5, 0.5))


@cell
def mmi1x2() -> gf.Component:
    """1×2 multimode interference splitter; o2 is the upper output."""
    return _mmi("mmi1x2", (0.0,))


@cell
def phase_shifter(length_um: float | None = None) -> gf.Component:
    """Strip guide under a heater of ``length_um`` between its contacts (card value by default).

    e1 is the contact over o1, e2 the one over o2.
    """
    card = active_process().device("phase_shifter")
    active = check_length("length_um", card.size("length_um") if length_um is None else length_um, 1.0, "phase_shifter")
    c = gf.Component()
    overlap, contact, heater = (
        card.size("contact_overlap_um"),
        card.size("contact_width_um"),
        card.size("heater_width_um"),
    )
    end = active + 2 * contact
    guide(c, np.array([[0.0, 0.0], [end, 0.0]]))
    rectangle(c, (contact - overlap, -heater / 2, end - contact + overlap, heater / 2), "heater")
    rectangle(c, (0.0, -contact / 2, contact, contact / 2), "metal")
    rectangle(c, (end - contact, -contact / 2, end, contact / 2), "metal")
    add_optical(c, "o1", (0, 0), 180)
    add_optical(c, "o2", (end, 0), 0)
    add_electrical(c, "e1", (0.0, 0.0), 180, contact)
    add_electrical(c, "e2", (end, 0.0), 0, contact)
    return c


@cell
def terminator() -> gf.Component:
    """Taper to the minimum width, where the light leaves the guide."""
    c = gf.Component()
    card = active_process().device("terminator")
    _taper(c, 0.0, 0.0, float(active_process().guide.width_um), card.size("length_um"), card.size("tip_width_um"))
    add_optical(c, "o1", (0, 0), 180)
    return c


@cell
def grating_coupler() -> gf.Component:
    """Focusing grating coupler: a sector of silicon with etched arcs around its apex."""
    c = gf.Component()
    process = active_process()
    card = process.device("grating_coupler")
    half, width = math.radians(card.size("half_angle_deg")), float(process.guide.width_um)
    apex = -width / 2 / math.tan(half)
    first, period, etch = card.size("taper_length_um"), card.size("period_um"), card.size("etch_um")
    outer = first + card.size("periods") * period + period
    arc = np.linspace(half, -half, 33)
    rim = np.stack([apex + outer * np.cos(arc), outer * np.sin(arc)], axis=1)
    sector = np.concatenate([np.array([[0.0, -width / 2], [0.0, width / 2]]), rim])
    polygon(c, np.rint(sector * GRID_PER_UM).astype(np.int64), "core")
    for i in range(int(card.size("periods"))):
        inner = first + i * period
        # the etch ends beyond the sector's edge, so that misalignment leaves no unetched rim
        beyond = np.linspace(half + 0.3 / inner, -half - 0.3 / inner, 33)
        ray = np.stack([np.cos(beyond), np.sin(beyond)], axis=1)
        tooth = np.concatenate([ray * (inner + etch), (ray * inner)[::-1]]) + np.array([apex, 0.0])
        polygon(c, np.rint(tooth * GRID_PER_UM).astype(np.int64), "etch70")
    add_optical(c, "o1", (0, 0), 180)
    middle = apex + first + card.size("periods") * period / 2
    c.add_port(name="o2", center=(round(middle, 3), 0), orientation=0, cross_section="strip", port_type="vertical_te")
    return c


@cell
def pad() -> gf.Component:
    """Square bond pad, e1 at its centre."""
    c = gf.Component()
    size = active_process().device("pad").size("size_um")
    rectangle(c, (-size / 2, -size / 2, size / 2, size / 2), "metal")
    add_electrical(c, "e1", (0.0, 0.0), 270, size)
    return c
