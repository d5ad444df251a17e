"""Cells of further passive devices: directional coupler, monitor tap, crossing, taper and edge coupler."""

from __future__ import annotations

import gdsfactory as gf
import numpy as np
from gdsfactory.typings import CrossSectionSpec, LayerSpec

from optinc_pdk.arrays import Ints
from optinc_pdk.cards import DeviceCard
from optinc_pdk.cells.cell_cache import cell
from optinc_pdk.cells.curves import GRID_PER_UM, ribbon, s_bend, s_bend_reach
from optinc_pdk.cells.drawing import add_optical, add_polygon, add_polygon_on, add_rectangle, check_length
from optinc_pdk.cells.sections import layer_index, plain_section
from optinc_pdk.tech import active_process


def _coupled(name: str) -> gf.Component:
    """Draw a directional coupler: two guides side by side, with arcs to the ports.

    The arcs end at the ports, so the outline has a corner there and the extractor distinguishes the device from a
    guide. A rectangle on the layer ``coupled`` marks where guides may be closer than the design rules allow elsewhere.

    Args:
        name: Name of its card.
    """
    c = gf.Component()
    card = active_process().device(name)
    lower, end = _coupled_guide(card)
    add_polygon(c, lower, "core")
    add_polygon(c, lower * np.array([1, -1]), "core")
    half, width = card.size("port_pitch_um") / 2, float(active_process().guide.width_um)
    add_rectangle(c, (0.0, -half - width / 2, end, half + width / 2), "coupled")
    ports = (("o1", 0.0, -half, 180), ("o2", 0.0, half, 180), ("o3", end, half, 0), ("o4", end, -half, 0))
    for port, x, y, side in ports:
        add_optical(c, port, (x, y), side)
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
    rotations = [
        np.array(turn) for turn in ([[1, 0], [0, 1]], [[0, -1], [1, 0]], [[-1, 0], [0, -1]], [[0, 1], [-1, 0]])
    ]
    # each arm starts with the corner on its lower side, where the previous arm ends
    lower = np.array([[start - middle, -wide]])
    outline = np.concatenate([np.concatenate([lower, arm]) @ rotation for rotation in rotations])
    outline += np.array([middle, 0.0])
    add_polygon(c, np.rint(outline * GRID_PER_UM).astype(np.int64), "core")
    for name, at, side in (
        ("o1", (0.0, 0.0), 180),
        ("o2", (middle, middle), 90),
        ("o3", (2 * middle, 0.0), 0),
        ("o4", (middle, -middle), 270),
    ):
        add_optical(c, name, at, side)
    return c


def _tapered(c: gf.Component, length: float, width: float) -> None:
    """Add silicon that tapers from the guide's width at x = 0 to ``width`` at ``length``, in µm."""
    near, far = float(active_process().guide.width_um) / 2, width / 2
    corners = np.array([[0.0, -near], [0.0, near], [length, far], [length, -far]])
    add_polygon(c, np.rint(corners * GRID_PER_UM).astype(np.int64), "core")


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
    add_polygon_on(c, np.rint(corners * GRID_PER_UM).astype(np.int64), layer_index(near))
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
    _tapered(c, length, tip)
    add_optical(c, "o1", (0.0, 0.0), 180)
    c.add_port(name="o2", center=(length, 0.0), orientation=0, width=tip, layer="core", port_type="edge_coupler")
    return c
