"""Cells of single devices: couplers, phase shifter, terminator, grating coupler, pad; sizes from the cards."""

from __future__ import annotations

import math

import gdsfactory as gf
import numpy as np
from gdsfactory.typings import CrossSectionSpec

from optinc_pdk.cards import CardError
from optinc_pdk.cells.cell_cache import cell
from optinc_pdk.cells.curves import GRID_PER_UM
from optinc_pdk.cells.drawing import (
    add_contact,
    add_electrical,
    add_guide,
    add_optical,
    add_polygon,
    add_rectangle,
    check_length,
)
from optinc_pdk.cells.sections import device_section
from optinc_pdk.tech import active_process


def _taper(c: gf.Component, x0: float, y: float, w0: float, x1: float, w1: float) -> None:
    """Add a silicon taper along y from width ``w0`` at ``x0`` to width ``w1`` at ``x1``, all in µm."""
    points = np.array([[x0, y - w0 / 2], [x0, y + w0 / 2], [x1, y + w1 / 2], [x1, y - w1 / 2]])
    add_polygon(c, np.rint(points * GRID_PER_UM).astype(np.int64), "core")


def _mmi(name: str, left: tuple[float, ...]) -> gf.Component:
    """Draw an MMI with two output tapers.

    Args:
        name: Name of its card.
        left: Heights of the input tapers in port pitches; their ports are at x = 0.
    """
    c = gf.Component()
    process = active_process()
    card = process.device(name)
    width, taper, wide = (
        float(process.guide.width_um),
        card.size("taper_length_um"),
        card.size("taper_width_um"),
    )
    length, pitch = card.size("length_um"), card.size("gap_um") + wide
    add_rectangle(c, (taper, -card.size("width_um") / 2, taper + length, card.size("width_um") / 2), "core")
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
def mmi2x2(cross_section: CrossSectionSpec = "strip") -> gf.Component:
    """2×2 multimode interference (MMI) coupler; ports clockwise from the lower left.

    Args:
        cross_section: Cross-section of the guides that it joins; its width and layer are those of the process's guides.

    Raises:
        ValueError: The cross-section has another width or layer.
    """
    device_section("mmi2x2", cross_section)
    return _mmi("mmi2x2", (-0.5, 0.5))


@cell
def mmi1x2(cross_section: CrossSectionSpec = "strip") -> gf.Component:
    """1×2 multimode interference (MMI) splitter; o1 is the input, o2 the upper and o3 the lower output.

    Args:
        cross_section: Cross-section of the guides that it joins; its width and layer are those of the process's guides.

    Raises:
        ValueError: The cross-section has another width or layer.
    """
    device_section("mmi1x2", cross_section)
    return _mmi("mmi1x2", (0.0,))


@cell
def phase_shifter(length_um: float | None = None) -> gf.Component:
    """Thermo-optic phase shifter: a straight strip guide under a heater with a contact at each end.

    e1 is the contact over o1, e2 the one over o2.

    Args:
        length_um: Length of the heater between its contacts in µm (card value by default).

    Raises:
        ValueError: The length is below 1 µm or not on the 1 nm grid.
        CardError: The process describes heaters of another PDK, with tapers or with vias to the metal.
    """
    card = active_process().device("phase_shifter")
    if active_process().has_foreign_heaters:
        raise CardError(
            f"process {active_process().name!r} describes heaters that this package does not draw (contact.heater_via "
            "or geometry.heater_taper_um); draw the circuit with the cells of the PDK they are from"
        )
    active = check_length("length_um", card.size("length_um") if length_um is None else length_um, 1.0, "phase_shifter")
    c = gf.Component()
    overlap, side, heater = (
        card.size("contact_overlap_um"),
        card.size("contact_width_um"),
        card.size("heater_width_um"),
    )
    end = active + 2 * side
    add_guide(c, np.array([[0.0, 0.0], [end, 0.0]]))
    add_rectangle(c, (side - overlap, -heater / 2, end - side + overlap, heater / 2), "heater")
    add_contact(c, (0.0, -side / 2, side, side / 2))
    add_contact(c, (end - side, -side / 2, end, side / 2))
    add_optical(c, "o1", (0, 0), 180)
    add_optical(c, "o2", (end, 0), 0)
    add_electrical(c, "e1", (0.0, 0.0), 180)
    add_electrical(c, "e2", (end, 0.0), 0)
    return c


@cell
def terminator() -> gf.Component:
    """Terminator: a taper from the guide's width to a narrow tip, where the light leaves the guide."""
    c = gf.Component()
    card = active_process().device("terminator")
    _taper(c, 0.0, 0.0, float(active_process().guide.width_um), card.size("length_um"), card.size("tip_width_um"))
    add_optical(c, "o1", (0, 0), 180)
    return c


@cell
def grating_coupler(cross_section: CrossSectionSpec = "strip") -> gf.Component:
    """Focusing grating coupler: a sector of silicon with etched arcs around its apex; o1 guide, o2 fibre.

    Args:
        cross_section: Cross-section of the guide that it joins; its width and layer are those of the process's guides.

    Raises:
        ValueError: The cross-section has another width or layer.
    """
    device_section("grating_coupler", cross_section)
    c = gf.Component()
    process = active_process()
    card = process.device("grating_coupler")
    half, width = math.radians(card.size("half_angle_deg")), float(process.guide.width_um)
    apex = -width / 2 / math.tan(half)
    first, period, etch = card.size("taper_length_um"), card.size("period_um"), card.size("etch_um")
    outer = first + card.size("periods") * period + period
    arc = np.linspace(half, -half, 33)
    front = np.stack([apex + outer * np.cos(arc), outer * np.sin(arc)], axis=1)
    sector = np.concatenate([np.array([[0.0, -width / 2], [0.0, width / 2]]), front])
    add_polygon(c, np.rint(sector * GRID_PER_UM).astype(np.int64), "core")
    for i in range(int(card.size("periods"))):
        inner = first + i * period
        # the etch extends beyond the sector, so that misalignment leaves no unetched rim
        margin = card.size("etch_beyond_um") / inner
        beyond = np.linspace(half + margin, -half - margin, 33)
        ray = np.stack([np.cos(beyond), np.sin(beyond)], axis=1)
        tooth = np.concatenate([ray * (inner + etch), (ray * inner)[::-1]]) + np.array([apex, 0.0])
        add_polygon(c, np.rint(tooth * GRID_PER_UM).astype(np.int64), process.grating.layer)
    add_optical(c, "o1", (0, 0), 180)
    middle = apex + first + card.size("periods") * period / 2
    c.add_port(name="o2", center=(round(middle, 3), 0), orientation=0, cross_section="strip", port_type="vertical_te")
    return c


@cell
def pad(size: float | tuple[float, float] | None = None) -> gf.Component:
    """Square bond pad with e1 at its centre.

    Args:
        size: Width and height in µm, or one value for both (those of the device card by default).

    Raises:
        ValueError: A size is not a positive number on the 1 nm grid.
    """
    process = active_process()
    card = process.device("pad").size("size_um")
    sides = (card, card) if size is None else size if isinstance(size, tuple | list) else (size, size)
    if len(sides) != 2:
        raise ValueError(f"pad: size is {size!r}, not a width and a height in µm; give two numbers, or one for both")
    width, height = (check_length("size", side, 2 / GRID_PER_UM, "pad") for side in sides)
    c = gf.Component()
    add_rectangle(c, (-width / 2, -height / 2, width / 2, height / 2), process.metal.layer)
    add_electrical(c, "e1", (0.0, 0.0), 270)
    return c
