"""Cells of guides and wires with gdsfactory's names and arguments, and guides between the devices of a cell."""

from __future__ import annotations

import math

import gdsfactory as gf
import numpy as np
from gdsfactory.cross_section import CrossSection
from gdsfactory.typings import CrossSectionSpec, LayerSpec

from optinc_pdk.cells.curves import (
    GRID_PER_UM,
    Points,
    circular_arc,
    euler_bend,
    polyline_length_um,
    round_corners,
    s_bend,
)
from optinc_pdk.cells.drawing import (
    LIMIT_UM,
    add_guide,
    add_optical,
    add_rectangle,
    add_section_port,
    cell,
    check_count,
    check_length,
    check_radius,
    chords_per_quarter,
    draw_along,
    layer_index,
    place_cell,
    plain_section,
)
from optinc_pdk.tech import active_process

MAX_POINTS = 4000
"""Most points of a polygon's side that is drawn; mask shops accept no larger polygons."""


@cell
def straight(
    length: float = 10.0, npoints: int = 2, cross_section: CrossSectionSpec = "strip", width: float | None = None
) -> gf.Component:
    """Straight guide from o1 to o2, or straight wire from e1 to e2.

    Args:
        length: Length in µm.
        npoints: Number of points of the centreline, 2 or more. They lie on one line, so the polygon has four corners.
        cross_section: Cross-section.
        width: Width in µm instead of that of the cross-section.

    Raises:
        ValueError: A length is not a positive number on the 1 nm grid, or the cross-section has several strips.
    """
    return _straight("straight", length, npoints, cross_section, width)


@cell
def wire_straight(
    length: float = 10.0,
    npoints: int = 2,
    cross_section: CrossSectionSpec = "metal_routing",
    width: float | None = None,
) -> gf.Component:
    """Straight wire from e1 to e2; see :func:`straight`."""
    return _straight("wire_straight", length, npoints, cross_section, width)


def _straight(
    name: str, length: float, npoints: int, cross_section: CrossSectionSpec, width: float | None
) -> gf.Component:
    """Draw a straight; the arguments are those of :func:`straight`, after the cell's name for messages."""
    length = check_length("length", length, 1 / GRID_PER_UM, name)
    points = check_count("npoints", npoints, 2, MAX_POINTS, name)
    section = plain_section(name, cross_section, width)
    c = gf.Component()
    draw_along(c, section, np.stack([np.linspace(0.0, length, points), np.zeros(points)], axis=1))
    add_section_port(c, section, 0, (0.0, 0.0), 180)
    add_section_port(c, section, 1, (length, 0.0), 0)
    c.info["length"] = length
    c.info["width"] = section.width
    c.add_route_info(cross_section=section, length=length)
    return c


@cell
def wire_corner(
    cross_section: CrossSectionSpec = "metal_routing",
    port_names: tuple[str, str] = ("e1", "e2"),
    port_types: tuple[str, str] = ("electrical", "electrical"),
    width: float | None = None,
    radius: float | None = None,
) -> gf.Component:
    """Square corner of a wire, from e1 on its left side to e2 on its upper side.

    Args:
        cross_section: Cross-section.
        port_names: Names of the ports.
        port_types: Types of the ports.
        width: Width in µm instead of that of the cross-section.
        radius: Not used, because the corner is square; gdsfactory's routers pass it to every bend.

    Raises:
        ValueError: The width is not on the grid, or the cross-section has several strips.
    """
    section = plain_section("wire_corner", cross_section, width)
    half, layer = section.width / 2, layer_index(section)
    c = gf.Component()
    add_rectangle(c, (-half, -half, half, half), layer)
    for name, kind, at, side in zip(port_names, port_types, ((-half, 0.0), (0.0, half)), (180, 90), strict=True):
        c.add_port(name=name, center=at, orientation=side, width=section.width, layer=layer, port_type=kind)
    c.info["length"] = c.info["dy"] = section.width
    section.add_bbox(c)
    return c


@cell
def bend_circular(
    radius: float | None = None,
    angle: float = 90.0,
    npoints: int | None = None,
    angular_step: float | None = None,
    layer: LayerSpec | None = None,
    width: float | None = None,
    cross_section: CrossSectionSpec = "strip",
    allow_min_radius_violation: bool = False,
) -> gf.Component:
    """Circular bend from o1 to the left, or to the right if the angle is negative.

    Args:
        radius: Bend radius in µm (that of the cross-section by default).
        angle: 90, 180, -90 or -180 degrees.
        npoints: Number of points of the centreline (as fine as the process card states by default).
        angular_step: Angle of a chord in degrees, instead of ``npoints``.
        layer: Layer instead of that of the cross-section.
        width: Width in µm instead of that of the cross-section.
        allow_min_radius_violation: Whether a smaller radius than that of the cross-section is drawn.

    Raises:
        ValueError: A value is not valid, or the radius is too small.
    """
    section = plain_section("bend_circular", cross_section, width, layer)
    radius = _radius("bend_circular", radius, section)
    turn = _angle("bend_circular", angle)
    check_radius("bend_circular", "radius", radius, section, allow_min_radius_violation)
    chords = _chords("bend_circular", npoints, angular_step, turn)
    line = circular_arc(radius, abs(turn), chords or math.ceil(chords_per_quarter(radius) * abs(turn) / 90))
    return _bend(section, line, turn, radius, radius)


@cell
def bend_euler(
    radius: float | None = None,
    angle: float = 90.0,
    p: float = 0.5,
    with_arc_floorplan: bool = False,
    npoints: int | None = None,
    angular_step: float | None = None,
    layer: LayerSpec | None = None,
    width: float | None = None,
    cross_section: CrossSectionSpec = "strip",
    allow_min_radius_violation: bool = False,
) -> gf.Component:
    """Euler bend from o1 to the left, or to the right if the angle is negative; its curvature is continuous.

    By default the smallest radius of curvature is that of the process, so the bend is larger than a circular one. See
    :func:`bend_circular` for further arguments.

    Args:
        radius: Smallest radius of curvature in µm (that of the cross-section by default); enlarged by less than 1 nm,
            so that the bend ends on the grid.
        p: Share of the angle in which the curvature changes, 0 to 1; the rest is an arc in the middle.
        with_arc_floorplan: Whether ``radius`` is instead that of the circular bend with the same ends.

    Raises:
        ValueError: A value is not valid, or the smallest radius of curvature is too small.
    """
    section = plain_section("bend_euler", cross_section, width, layer)
    radius = _radius("bend_euler", radius, section)
    turn = _angle("bend_euler", angle)
    if isinstance(p, bool) or not isinstance(p, int | float | np.number) or not 0 <= p <= 1:
        raise ValueError(f"bend_euler: p is {p!r}, outside 0 to 1; give a share of the angle")
    chords = _chords("bend_euler", npoints, angular_step, turn)
    # a clothoid is twice as long as an arc of its end's curvature that turns by the same angle
    per_quarter = chords_per_quarter(radius) if chords is None else math.ceil(chords * 90 / abs(turn) / (1 + p))
    line, tightest = euler_bend(radius, per_quarter, abs(turn), float(p), with_arc_floorplan)
    check_radius("bend_euler", "the smallest radius of curvature", tightest, section, allow_min_radius_violation)
    return _bend(section, line, turn, radius, tightest)


def _radius(name: str, radius: float | None, section: CrossSection) -> float:
    """Return the radius of a bend, that of the cross-section if none is given."""
    radius = section.radius if radius is None else radius
    if radius is None:
        raise ValueError(f"{name}: radius is None, and cross_section {section.name!r} has no radius; give one in µm")
    return check_length("radius", radius, 1 / GRID_PER_UM, name)


def _angle(name: str, angle: float) -> float:
    """Check that a bend ends parallel to an axis."""
    if angle not in (90, 180, -90, -180):
        raise ValueError(
            f"{name}: angle is {angle!r}; ports lie on the grid and face along an axis; give 90, 180, -90 or -180, or "
            f"use gdsfactory.components.{name}_all_angle"
        )
    return float(angle)


def _chords(name: str, npoints: int | None, angular_step: float | None, turn: float) -> int | None:
    """Return the number of chords that a caller asks for, or None."""
    if npoints is not None and angular_step is not None:
        raise ValueError(f"{name}: npoints is {npoints} and angular_step is {angular_step}; give one of them")
    if npoints is not None:
        return check_count("npoints", npoints, 3, MAX_POINTS, name) - 1
    if angular_step is None:
        return None
    least = abs(turn) / MAX_POINTS
    if isinstance(angular_step, bool) or not least <= angular_step <= abs(turn) / 2:
        raise ValueError(f"{name}: angular_step is {angular_step}°, outside {least:.3f}° to {abs(turn) / 2:g}°")
    return math.ceil(abs(turn) / angular_step - 1e-9)


def _bend(section: CrossSection, line: Points, turn: float, radius: float, tightest: float) -> gf.Component:
    """Draw a bend along a centreline to the left, mirrored if it turns right, with gdsfactory's entries of ``info``."""
    line = line * [1, math.copysign(1, turn)]
    end = np.round(line[-1], 3) + 0.0
    c = gf.Component()
    draw_along(c, section, line)
    add_section_port(c, section, 0, (0.0, 0.0), 180)
    add_section_port(c, section, 1, (float(end[0]), float(end[1])), turn % 360)
    length = round(polyline_length_um(line), 6)
    c.info["length"] = length
    c.info["dy"] = abs(float(end[0]))
    c.info["radius"] = radius
    c.info["min_bend_radius"] = round(tightest, 3)
    c.info["width"] = section.width
    c.add_route_info(
        cross_section=section, length=length, n_bend_90=abs(turn / 90.0), min_bend_radius=round(tightest, 3)
    )
    return c


@cell
def bend_s(
    size: tuple[float, float] | None = None,
    npoints: int | None = None,
    cross_section: CrossSectionSpec = "strip",
    allow_min_radius_violation: bool = False,
    width: float | None = None,
) -> gf.Component:
    """S-bend from o1 at the origin to o2 at ``size``: two arcs of the largest radius that fits.

    An S that is higher than long has a straight between its arcs.

    Args:
        size: Extent along x and y in µm (three and one bend radii by default); a negative y leads down. With y = 0,
            the bend is a straight.
        npoints: Number of points of the centreline (as fine as the process card states by default).
        cross_section: Cross-section.
        allow_min_radius_violation: Whether a smaller radius than that of the cross-section is drawn.
        width: Width in µm instead of that of the cross-section.

    Raises:
        ValueError: A value is not a length on the 1 nm grid, or the length is too short for the height.
    """
    section = plain_section("bend_s", cross_section, width)
    default = float(active_process().guide.radius_um)
    length, height = _size((3 * default, default) if size is None else size)
    points = None if npoints is None else check_count("npoints", npoints, 5, MAX_POINTS, "bend_s")
    if not height:
        return straight(length=length, npoints=points or 2, cross_section=cross_section, width=width).dup()
    rise = abs(height)
    radius = (length**2 + rise**2) / (4 * rise) if rise <= length else length / 2
    check_radius("bend_s", "the bend radius", radius, section, allow_min_radius_violation)
    turn = math.acos(max(1 - rise / (2 * radius), 0.0))
    per_quarter = chords_per_quarter(radius) if points is None else (points - 1) // 2 * math.pi / 2 / turn
    line = s_bend(length, height, radius, per_quarter)
    c = gf.Component()
    draw_along(c, section, line)
    add_section_port(c, section, 0, (0.0, 0.0), 180)
    add_section_port(c, section, 1, (length, height), 0)
    c.info["length"] = round(polyline_length_um(line), 6)
    c.info["min_bend_radius"] = round(radius, 3)
    c.info["start_angle"] = c.info["end_angle"] = 0.0
    c.add_route_info(
        cross_section=section, length=c.info["length"], n_bend_s=1, min_bend_radius=c.info["min_bend_radius"]
    )
    return c


def _size(size: tuple[float, float]) -> tuple[float, float]:
    """Check the extent of an S-bend in µm."""
    if not isinstance(size, tuple | list) or len(size) != 2:
        raise ValueError(f"bend_s: size is {size!r}, not two lengths in µm; give (x, y)")
    length = check_length("size[0]", size[0], 1 / GRID_PER_UM, "bend_s")
    return length, check_length("size[1]", size[1], -LIMIT_UM, "bend_s")


@cell
def s_guide(length: float, offset: float) -> gf.Component:
    """S-bend of the process's radius from o1 at the origin to o2 at (length, offset) in µm; its arcs are at o1."""
    strip = active_process().guide
    c = gf.Component()
    _draw(c, s_bend(length, offset, float(strip.radius_um), strip.chords), 180, 0)
    return c


@cell
def bent_guide(corners: tuple[tuple[float, float], ...]) -> gf.Component:
    """Guide from o1 to o2 along a polyline from the origin (µm, parallel to the axes), with rounded corners."""
    strip = active_process().guide
    c = gf.Component()
    points = np.array(corners)
    line = round_corners(points, float(strip.radius_um), strip.chords)
    _draw(c, line, _direction(points[1], points[0]), _direction(points[-2], points[-1]))
    return c


def _draw(c: gf.Component, line: Points, first: int, last: int) -> None:
    """Draw a guide along a centreline, with ports at its ends that face in two directions in degrees."""
    add_guide(c, line)
    for name, (x, y), side in (("o1", line[0].tolist(), first), ("o2", line[-1].tolist(), last)):
        add_optical(c, name, (round(x, 3), round(y, 3)), side)
    c.info["length"] = round(polyline_length_um(line), 6)


def _direction(start: Points, end: Points) -> int:
    """Return the direction in degrees from one point to another."""
    x, y = (end - start).tolist()
    return round(math.degrees(math.atan2(y, x))) % 360


def add_s_guide(c: gf.Component, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Add an S-bend guide from a point to another one on its right (µm), with its arcs at the start."""
    place_cell(c, s_guide(round(end[0] - start[0], 3), round(end[1] - start[1], 3)), start)


def add_s_guides(c: gf.Component, x0: float, from_um: tuple[float, ...], x1: float, to_um: tuple[float, ...]) -> None:
    """Add an S-bend guide from each y at ``x0`` to one at ``x1``, with its arcs at the start."""
    for a, b in zip(from_um, to_um, strict=True):
        add_s_guide(c, (x0, a), (x1, b))


def add_s_guide_reversed(c: gf.Component, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Add an S-bend guide as :func:`add_s_guide` does, but with its arcs at the end."""
    inside = s_guide(round(end[0] - start[0], 3), round(start[1] - end[1], 3))
    place_cell(c, inside, end, rotation=180, mirror=True)


def add_straight_guide(c: gf.Component, x0: float, x1: float, y: float) -> None:
    """Add a horizontal guide from ``x0`` to ``x1`` at height ``y`` (µm); one without length is not drawn."""
    if length := round(x1 - x0, 3):
        place_cell(c, straight(length=length), (x0, y))


def add_bent_guide(c: gf.Component, *corners: tuple[float, float]) -> None:
    """Add a guide along a polyline (µm) whose corners are rounded with the bend radius of the process."""
    x, y = corners[0]
    place_cell(c, bent_guide(tuple((round(a - x, 3), round(b - y, 3)) for a, b in corners)), (x, y))
