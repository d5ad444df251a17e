"""Cells of single devices, with dimensions from the cards."""

from __future__ import annotations

import math

import gdsfactory as gf
import numpy as np
from gdsfactory.typings import CrossSectionSpec, LayerSpec

from optinc_pdk.arrays import Ints
from optinc_pdk.cards import CardError, DeviceCard
from optinc_pdk.cells.curves import GRID_PER_UM, ribbon, s_bend, s_bend_reach
from optinc_pdk.cells.drawing import (
    add_contact,
    add_corner_ports,
    add_electrical,
    add_guide,
    add_optical,
    add_polygon,
    add_rectangle,
    cell,
    check_length,
    device_section,
    layer_index,
    place_cell,
    plain_section,
    to_grid,
)
from optinc_pdk.tech import active_process


def _taper(c: gf.Component, x0: float, y: float, w0: float, x1: float, w1: float) -> None:
    """Add a silicon taper along y from width ``w0`` at ``x0`` to width ``w1`` at ``x1``, all in µm."""
    points = np.array([[x0, y - w0 / 2], [x0, y + w0 / 2], [x1, y + w1 / 2], [x1, y - w1 / 2]])
    add_polygon(c, to_grid(points), "core")


def _mmi(name: str, left: tuple[float, ...]) -> gf.Component:
    """Draw an MMI with two output tapers; ``left`` are the heights of its input tapers in port pitches."""
    c = gf.Component()
    process = active_process()
    card, width = process.device(name), float(process.guide.width_um)
    taper, wide = card.size("taper_length_um"), card.size("taper_width_um")
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

    The cross-section must have the width and layer of the process's guides.
    """
    device_section("mmi2x2", cross_section)
    return _mmi("mmi2x2", (-0.5, 0.5))


@cell
def mmi1x2(cross_section: CrossSectionSpec = "strip") -> gf.Component:
    """1×2 multimode interference (MMI) splitter; o1 is the input, o2 the upper and o3 the lower output.

    The cross-section must have the width and layer of the process's guides.
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
    overlap, side = card.size("contact_overlap_um"), card.size("contact_width_um")
    heater = card.size("heater_width_um")
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
def straight_heater_metal(length: float | None = None, cross_section: CrossSectionSpec = "strip") -> gf.Component:
    """Straight guide under a heater, as long as gdsfactory's cell of this name: a phase shifter.

    The cross-section must have the width and layer of the process's guides.

    Args:
        length: Length from o1 to o2 in µm, including the contacts (that of the card's phase shifter by default).

    Raises:
        ValueError: The length is not on the 1 nm grid, or too short for contacts and 1 µm of heater.
    """
    device_section("straight_heater_metal", cross_section)
    card = active_process().device("phase_shifter")
    contacts = 2 * card.size("contact_width_um")
    if length is not None:
        length = check_length("length", length, contacts + 1.0, "straight_heater_metal")
    shifter = phase_shifter(None if length is None else round(length - contacts, 3))
    c = gf.Component()
    c.add_ports(place_cell(c, shifter, (0.0, 0.0)).ports)
    c.info["length"] = length or card.size("length_um") + contacts
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

    The cross-section must have the width and layer of the process's guides.
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
    add_polygon(c, to_grid(sector), "core")
    for i in range(int(card.size("periods"))):
        inner = first + i * period
        # the etch extends beyond the sector, so that misalignment leaves no unetched rim
        margin = card.size("etch_beyond_um") / inner
        beyond = np.linspace(half + margin, -half - margin, 33)
        ray = np.stack([np.cos(beyond), np.sin(beyond)], axis=1)
        tooth = np.concatenate([ray * (inner + etch), (ray * inner)[::-1]]) + np.array([apex, 0.0])
        add_polygon(c, to_grid(tooth), process.grating.layer)
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


def _coupled(name: str) -> gf.Component:
    """Draw a directional coupler: two guides side by side, with arcs to the ports.

    The arcs end at the ports, so the outline has a corner there and the extractor distinguishes the device from a
    guide. A rectangle on the layer ``coupled`` marks where guides may be closer than the design rules allow elsewhere.
    """
    c = gf.Component()
    card = active_process().device(name)
    lower, end = _coupled_guide(card)
    add_polygon(c, lower, "core")
    add_polygon(c, lower * np.array([1, -1]), "core")
    half, width = card.size("port_pitch_um") / 2, float(active_process().guide.width_um)
    add_rectangle(c, (0.0, -half - width / 2, end, half + width / 2), "coupled")
    add_corner_ports(c, 0.0, end, -half, half)
    return c


def _coupled_guide(card: DeviceCard) -> tuple[Ints, float]:
    """Return the lower guide of a coupler as (n, 2) vertices in nm, symmetric left to right, and its length in µm."""
    strip = active_process().guide
    radius, width = float(strip.radius_um), float(strip.width_um)
    rise = (card.size("port_pitch_um") - card.size("gap_um") - width) / 2
    reach = s_bend_reach(rise, radius)
    arm = s_bend(reach, rise, radius, strip.chords) - [0.0, card.size("port_pitch_um") / 2]
    middle = arm[-1] + [card.size("length_um") / 2, 0.0]
    sides = ribbon(np.concatenate([arm, middle[None]]), width)
    total = round((2 * reach + card.size("length_um")) * GRID_PER_UM)
    # drop the points in the middle, which would be doubled
    upper, lower = sides[: len(arm)], sides[len(arm) + 2 :]
    mirror = np.array([-1, 1])
    right = [side[::-1] * mirror + [total, 0] for side in (upper, lower)]
    return np.concatenate([upper, *right, lower]), total / GRID_PER_UM


@cell
def directional_coupler() -> gf.Component:
    """Directional coupler of two guides; ports are numbered clockwise from the lower left."""
    return _coupled("directional_coupler")


@cell
def monitor_tap() -> gf.Component:
    """Monitor tap: a weak directional coupler; light from o2 continues to o3, the tapped share leaves at o4."""
    return _coupled("monitor_tap")


@cell
def crossing() -> gf.Component:
    """Crossing of two guides, which widen towards it; ports are numbered clockwise from the left."""
    c = gf.Component()
    process = active_process()
    card = process.device("crossing")
    half, wide = float(process.guide.width_um) / 2, card.size("waist_um") / 2
    # the wide part extends beyond the crossing, so that its sides meet at right angles
    start = card.size("taper_length_um")
    middle = start + card.size("shoulder_um") + wide
    arm = np.array([[-middle, -half], [-middle, half], [start - middle, wide], [-wide, wide]])
    turns = [[1, 0], [0, 1]], [[0, -1], [1, 0]], [[-1, 0], [0, -1]], [[0, 1], [-1, 0]]
    # each arm starts with the corner on its lower side, where the previous arm ends
    lower = np.array([[start - middle, -wide]])
    outline = np.concatenate([np.concatenate([lower, arm]) @ np.array(turn) for turn in turns])
    outline += np.array([middle, 0.0])
    add_polygon(c, to_grid(outline), "core")
    add_optical(c, "o1", (0.0, 0.0), 180)
    add_optical(c, "o2", (middle, middle), 90)
    add_optical(c, "o3", (2 * middle, 0.0), 0)
    add_optical(c, "o4", (middle, -middle), 270)
    return c


@cell
def taper(
    length: float | None = None,
    width1: float | None = None,
    width2: float | None = None,
    layer: LayerSpec | None = None,
    with_two_ports: bool = True,
    cross_section: CrossSectionSpec = "strip",
    port_names: tuple[str, str] = ("o1", "o2"),
    port_types: tuple[str, str] = ("optical", "optical"),
    with_bbox: bool = True,
) -> gf.Component:
    """Taper from a guide of the standard width at o1 to a wide guide at o2.

    The device of the card, which the extractor recognises, is the one with the default lengths and widths.

    Args:
        length: Length in µm (that of the card by default; for a wire half the difference of its widths).
        width1: Width at o1 in µm (that of the cross-section by default).
        width2: Width at o2 in µm (that of the card by default; for a wire ``width1``).
        layer: Layer instead of that of the cross-section.
        with_two_ports: Whether the taper has a port o2.
        cross_section: Cross-section.
        port_names: Names of the ports.
        port_types: Types of the ports.
        with_bbox: Whether the bounding boxes of the cross-section are drawn.

    Raises:
        ValueError: A value is not a positive length on the grid, or the cross-section has several strips.
    """
    near = plain_section("taper", cross_section, width1, layer, "width1")
    card: dict[str, float] = {}
    if layer_index(near) == gf.get_layer("core") and None in (length, width2):
        device = active_process().device("taper")
        card = {"length": device.size("length_um"), "width2": device.size("width_um")}
    width2 = card.get("width2", near.width) if width2 is None else width2
    far = plain_section("taper", cross_section, width2, layer, "width2")
    if length is None:
        length = card.get("length", max(abs(far.width - near.width) / 2, 1 / GRID_PER_UM))
    length = check_length("length", length, 1 / GRID_PER_UM, "taper")
    c = gf.Component()
    corners = np.array([[0.0, -near.width], [0.0, near.width], [2 * length, far.width], [2 * length, -far.width]]) / 2
    add_polygon(c, to_grid(corners), layer_index(near))
    ends = ((near, (0.0, 0.0), 180), (far, (length, 0.0), 0))
    for (section, at, side), name, kind in zip(ends[: 1 + with_two_ports], port_names, port_types, strict=False):
        c.add_port(name=name, center=at, orientation=side, width=section.width, layer=layer_index(near), port_type=kind)
    if with_bbox:
        (near if near.width > far.width else far).add_bbox(c)
    c.info["length"] = length
    c.info["width1"], c.info["width2"] = near.width, far.width
    return c


@cell
def edge_coupler() -> gf.Component:
    """Edge coupler: an inverse taper from the guide at o1 to a narrow tip at o2, facing a fibre at the die's edge."""
    c = gf.Component()
    card = active_process().device("edge_coupler")
    length, tip = card.size("length_um"), card.size("tip_width_um")
    _taper(c, 0.0, 0.0, float(active_process().guide.width_um), length, tip)
    add_optical(c, "o1", (0.0, 0.0), 180)
    c.add_port(name="o2", center=(length, 0.0), orientation=0, width=tip, layer="core", port_type="edge_coupler")
    return c


def _box(c: gf.Component, card: DeviceCard, length: float, pins_at: float) -> None:
    """Add the outline from x = 0 to ``length``, and pin e1 above and e2 below the guide at x = ``pins_at`` (µm)."""
    height, side = card.size("box_height_um"), card.size("contact_width_um")
    add_rectangle(c, (0.0, -height / 2, length, height / 2), "blackbox")
    middle = (card.size("contact_space_um") + side) / 2
    for name, y, angle in (("e1", middle, 90), ("e2", -middle, 270)):
        add_contact(c, (pins_at - side / 2, y - side / 2, pins_at + side / 2, y + side / 2))
        add_electrical(c, name, (pins_at, y), angle)


@cell
def photodiode() -> gf.Component:
    """Germanium photodiode (black box): a taper from o1 to a silicon landing for the germanium.

    One corner of the landing is cut, so that the extractor recognises the orientation. e1 and e2 are the centres of the
    upper and the lower pin.
    """
    c = gf.Component()
    process = active_process()
    card = process.device("photodiode")
    narrow, wide, key = float(process.guide.width_um) / 2, card.size("landing_width_um") / 2, card.size("key_um")
    start, landing = card.size("taper_length_um"), card.size("landing_length_um")
    end = start + landing
    above = [(0.0, narrow), (start, wide), (end - key, wide), (end, wide - key)]
    add_polygon(c, to_grid(np.array([*above, (end, -wide), (start, -wide), (0.0, -narrow)])), "core")
    _box(c, card, card.size("box_length_um"), start + landing / 2)
    add_optical(c, "o1", (0.0, 0.0), 180)
    return c


@cell
def modulator() -> gf.Component:
    """Amplitude modulator (black box): a guide from o1 to o2 with a wider, asymmetric section.

    The extractor recognises the orientation by the asymmetry. e1 and e2 are the centres of the upper and the lower pin.
    """
    c = gf.Component()
    process = active_process()
    card = process.device("modulator")
    half = float(process.guide.width_um) / 2
    above, below = half + card.size("above_um"), half + card.size("below_um")
    start = card.size("taper_in_um")
    stop = start + card.size("section_length_um")
    end = stop + card.size("taper_out_um")
    upper = [(0.0, half), (start, above), (stop, above), (end, half)]
    add_polygon(c, to_grid(np.array([*upper, (end, -half), (stop, -below), (start, -below), (0.0, -half)])), "core")
    _box(c, card, end, (start + stop) / 2)
    add_optical(c, "o1", (0.0, 0.0), 180)
    add_optical(c, "o2", (end, 0.0), 0)
    return c
