"""Cross-sections that the cells draw, and functions that draw guides and wires with them."""

from __future__ import annotations

import math
from typing import Any

import gdsfactory as gf
from gdsfactory.cross_section import CrossSection
from gdsfactory.typings import CrossSectionSpec, LayerSpec

from optinc_pdk.cells.curves import GRID_PER_UM, Points, ribbon
from optinc_pdk.cells.drawing import add_polygon_on, check_length
from optinc_pdk.tech import active_process


def plain_section(
    cell: str,
    cross_section: CrossSectionSpec,
    width: float | None = None,
    layer: LayerSpec | None = None,
    what: str = "width",
) -> CrossSection:
    """Return a cross-section of one centred strip, with another width or layer if these are given.

    Args:
        cell: Name of the cell, for messages.
        cross_section: Cross-section.
        width: Width in µm instead of that of the cross-section.
        layer: Layer instead of that of the cross-section.
        what: Name of the width, for messages.

    Raises:
        ValueError: The cross-section has several strips, a varying width or an offset, or the width is not on the grid.
    """
    changes: dict[str, Any] = {}
    if width is not None:
        changes["width"] = check_length(what, width, 2 / GRID_PER_UM, cell)
    if layer is not None:
        changes["layer"] = layer
    section = gf.get_cross_section(cross_section, **changes)
    first = section.sections[0]
    varying = first.width_function or first.offset_function or first.insets
    if len(section.sections) > 1 or section.components_along_path or first.offset or varying:
        raise ValueError(
            f"{cell}: cross_section {section.name!r} is not one centred strip of constant width; "
            f"use gdsfactory.components.{cell} for it"
        )
    half = check_length(what, section.width, 2 / GRID_PER_UM, cell) * GRID_PER_UM / 2
    if abs(half - round(half)) > 1e-6:
        raise ValueError(
            f"{cell}: {what} is {section.width} µm, half of it is off the 1 nm grid; give an even number of nm"
        )
    return section


def device_section(cell: str, cross_section: CrossSectionSpec) -> None:
    """Check that a device may be drawn for a cross-section: its ports have the width and layer of the process's guides.

    Args:
        cell: Name of the cell, for messages.
        cross_section: Cross-section that the caller asks for.

    Raises:
        ValueError: The cross-section has another width or layer than the guides of the process.
    """
    section, guide = plain_section(cell, cross_section), gf.get_cross_section("strip")
    if section.width != guide.width or gf.get_layer(section.layer) != gf.get_layer(guide.layer):
        raise ValueError(
            f"{cell}: cross_section {section.name!r} is {section.width} µm wide on layer {section.layer}; the device "
            f"has ports of {guide.width} µm on layer {guide.layer}; leave cross_section out, and join a taper"
        )


def check_radius(cell: str, what: str, radius: float, section: CrossSection, allowed: bool) -> None:
    """Check that a bend is not tighter than its cross-section allows.

    Args:
        cell: Name of the cell, for messages.
        what: Name of the radius, for messages.
        radius: Smallest radius of curvature in µm.
        section: Cross-section.
        allowed: Whether the caller allows a smaller radius.

    Raises:
        ValueError: The radius is smaller than ``radius_min`` of the cross-section.
    """
    least = section.radius_min
    # half a step of the grid: an Euler bend is scaled to end on it
    if least is not None and radius < least - 0.5 / GRID_PER_UM and not allowed:
        raise ValueError(
            f"{cell}: {what} is {radius:.3f} µm, guides bend with {least} µm or more; give a larger radius or size, or "
            "allow_min_radius_violation=True, which the design rule check reports"
        )


def chords_per_quarter(radius: float) -> int:
    """Return the number of chords of a 90° arc: that of the process card, and more if the radius is larger.

    The distance between arc and chord grows with the radius and falls with the square of the number of chords.
    """
    guide = active_process().guide
    return math.ceil(int(guide.arc_segments) * math.sqrt(max(radius / float(guide.radius_um), 1.0)) - 1e-9)


def draw_along(c: gf.Component, section: CrossSection, centreline: Points) -> None:
    """Draw a cross-section along a centreline, with its bounding boxes.

    Args:
        c: Component to draw in.
        section: Cross-section.
        centreline: (n, 2) points in µm.
    """
    add_polygon_on(c, ribbon(centreline, section.width), gf.get_layer(section.layer))
    section.add_bbox(c)


def add_section_port(
    c: gf.Component, section: CrossSection, end: int, at: tuple[float, float], orientation: float
) -> None:
    """Add the first (0) or second (1) port of a cross-section at a position in µm, with its outward direction."""
    first = section.sections[0]
    c.add_port(
        name=first.port_names[end],
        center=at,
        orientation=orientation,
        width=section.width,
        layer=gf.get_layer(section.layer),
        port_type=first.port_types[end],
        cross_section=section,
    )
