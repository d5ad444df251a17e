"""Cross-sections that the cells draw, and functions that draw guides and wires with them."""

from __future__ import annotations

import math
from typing import Any

import gdsfactory as gf
import klayout.db as kdb
from gdsfactory.cross_section import CrossSection
from gdsfactory.typings import CrossSectionSpec, LayerSpec
from pydantic import BaseModel

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
        changes["width"] = _even_width(cell, what, width)
    if layer is not None:
        changes["layer"] = layer
    section = gf.get_cross_section(cross_section, **changes)
    if not _is_one_strip(section):
        raise ValueError(
            f"{cell}: cross_section {section.name!r} is not one centred strip of constant width; "
            f"use gdsfactory.components.{cell} for it"
        )
    _even_width(cell, what, section.width)
    return section


def _even_width(cell: str, what: str, width: float) -> float:
    """Check that both sides of a centred strip of a width in µm are on the grid."""
    half = check_length(what, width, 2 / GRID_PER_UM, cell) * GRID_PER_UM / 2
    if abs(half - round(half)) > 1e-6:
        raise ValueError(f"{cell}: {what} is {width} µm, half of it is off the 1 nm grid; give an even number of nm")
    return float(width)


def _is_one_strip(section: Any) -> bool:
    """Return whether a cross-section consists of one centred strip of constant width.

    Cross-sections have strips of width and offset until gdsfactory 9, and are those of kfactory from version 10 on.
    """
    if not isinstance(section, BaseModel):
        return bool(section.is_symmetric()) and len(section.get_sections()) == 1
    first: Any = section.sections[0]  # type: ignore[attr-defined]
    varying = first.width_function or first.offset_function or first.insets
    return not (len(section.sections) > 1 or section.components_along_path or first.offset or varying)  # type: ignore[attr-defined]


def layer_index(section: CrossSection) -> int:
    """Return the index of a cross-section's layer in the layout database."""
    layer: Any = section.layer
    return int(gf.kcl.layer(layer) if isinstance(layer, kdb.LayerInfo) else gf.get_layer(layer))


def device_section(cell: str, cross_section: CrossSectionSpec) -> None:
    """Check that a device may be drawn for a cross-section: its ports have the width and layer of the process's guides.

    Args:
        cell: Name of the cell, for messages.
        cross_section: Cross-section that the caller asks for.

    Raises:
        ValueError: The cross-section has another width or layer than the guides of the process.
    """
    section, guide = plain_section(cell, cross_section), gf.get_cross_section("strip")
    layers = [layer_index(one) for one in (section, guide)]
    if section.width != guide.width or layers[0] != layers[1]:
        drawn, joined = (gf.get_layer_name(layer) for layer in layers)
        raise ValueError(
            f"{cell}: cross_section {section.name!r} is {section.width} µm wide on layer {drawn}; the device has ports "
            f"of {guide.width} µm on layer {joined}; leave cross_section out, and join a taper"
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
    return math.ceil(guide.chords * math.sqrt(max(radius / float(guide.radius_um), 1.0)) - 1e-9)


def draw_along(c: gf.Component, section: CrossSection, centreline: Points) -> None:
    """Draw a cross-section along a centreline, with its bounding boxes.

    Args:
        c: Component to draw in.
        section: Cross-section.
        centreline: (n, 2) points in µm.
    """
    add_polygon_on(c, ribbon(centreline, section.width), layer_index(section))
    section.add_bbox(c)


def add_section_port(
    c: gf.Component, section: CrossSection, end: int, at: tuple[float, float], orientation: float
) -> None:
    """Add the first (0) or second (1) port of a cross-section at a position in µm, with its outward direction.

    Ports of metal are electrical, e1 and e2; all others are optical, o1 and o2.
    """
    electrical = layer_index(section) == gf.get_layer(active_process().metal.layer)
    c.add_port(
        name=f"{'e' if electrical else 'o'}{end + 1}",
        center=at,
        orientation=orientation,
        width=section.width,
        layer=layer_index(section),
        port_type="electrical" if electrical else "optical",
        cross_section=section,
    )
