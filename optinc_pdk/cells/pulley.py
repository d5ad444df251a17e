"""Pulley couplers, in which the guide follows the ring for an angle, and rings with one; names are gdsfactory's."""

from __future__ import annotations

import math
from typing import Any

import gdsfactory as gf
import numpy as np

from optinc_pdk.cells.cell_cache import cell
from optinc_pdk.cells.couplers import check_strip, coupler_settings, guide_pitch, mark_margin
from optinc_pdk.cells.curves import GRID_PER_UM, Points, circular_arc
from optinc_pdk.cells.drawing import add_guide, add_optical, add_rectangle, check_length
from optinc_pdk.cells.guides import bend_circular
from optinc_pdk.cells.guides import straight as straight_guide
from optinc_pdk.cells.sections import chords_per_quarter
from optinc_pdk.models.coupled_guides import distances_um
from optinc_pdk.tech import active_process

BEND = "bend_circular"


@cell
def coupler_ring_bend(
    radius: float | None = None,
    coupler_gap: float = 0.21,
    coupling_angle_coverage: float = 60.0,
    length_x: float = 0.0,
    cross_section_inner: Any = "strip",
    cross_section_outer: Any = "strip",
    bend: Any = BEND,
    bend_output: Any = BEND,
    straight: Any = "straight",
) -> gf.Component:
    """Lower half of a ring, and below it a guide from o1 to o4 that follows it for an angle; o2 and o3 are the ring's.

    Light in the guide travels farther and gets out of phase with that in the ring, so that less couples than between
    parallel straights of the same length. The model takes coupling and phase mismatch as even along the guides. Against
    integrated coupled-mode equations, at a gap of 200 nm and radii of 10 to 40 µm, the power that couples is 0 to 14 %
    too high at 15 to 40 degrees, 34 to 44 % too high at 10 degrees, and 16 to 47 % too low at 60 degrees.

    Args:
        radius: Radius of the ring in µm; that of the process if None.
        coupler_gap: Gap between the guide and the ring in µm.
        coupling_angle_coverage: Angle in degrees for which the guide follows the ring.
        length_x: Length of the ring's straight part in µm.
        cross_section_inner: Cross-section of the ring, that of the process.
        cross_section_outer: The same.
        bend: Bends of the ring, ``"bend_circular"``.
        bend_output: Bends behind the coupler, ``"bend_circular"``, with the radius of the process.
        straight: Straight guide, ``"straight"``.

    Raises:
        ValueError: A length is negative or off the 1 nm grid, the radius is below that of the process, the guide
            would end as high as the ring, or a bend, straight or cross-section is another one.
    """
    name, strip = "coupler_ring_bend", active_process().guide
    least = float(strip.radius_um)
    pitch, length_x = guide_pitch(name, coupler_gap), check_length("length_x", length_x, 0.0, name)
    radius = check_length("radius", least if radius is None else radius, least, name)
    for section in (cross_section_inner, cross_section_outer):
        check_strip(name, section)
    for key, value, only in (
        ("bend", bend, BEND),
        ("bend_output", bend_output, BEND),
        ("straight", straight, "straight"),
    ):
        if value != only:
            raise ValueError(f"{name}: {key} is {value!r}; give {only!r}")
    angle = coupling_angle_coverage
    if isinstance(angle, bool) or not isinstance(angle, int | float | np.number) or not 1.0 <= angle <= 180.0:
        raise ValueError(f"{name}: coupling_angle_coverage is {angle!r}, outside 1 to 180 degrees")
    side, chords = outer_half(radius, pitch, float(angle) / 2, least)
    ring = mirrored(quarter(radius, float(angle) / 2, chords), length_x)
    height, top = float(side[-1, 1]), radius
    if height + mark_margin() > top:
        raise ValueError(
            f"{name}: coupling_angle_coverage is {angle:g} degrees; the guide would end {height:.3f} µm above the "
            f"ring's lowest point, at most {top - mark_margin():.3f} µm are possible; reduce it or enlarge the radius"
        )
    end = _uncoupled_from(ring, side[-1] + [length_x, 0.0])
    outer = mirrored(np.concatenate([side, [[end - length_x, height]]]), length_x)
    c = gf.Component()
    for line in (outer, ring):
        add_guide(c, line)
    left = length_x - end
    add_rectangle(c, (left, -pitch - mark_margin(), end, top), "coupled")
    for port, at, turn in (
        ("o1", (left, height), 180),
        ("o2", (-radius, top), 90),
        ("o3", (length_x + radius, top), 90),
        ("o4", (end, height), 0),
    ):
        add_optical(c, port, at, turn)
    c.info.update({**coupler_settings(outer, ring), "radius": radius})
    return c


@cell
def ring_single_bend_coupler(
    radius: float | None = None,
    gap: float = 0.21,
    coupling_angle_coverage: float = 60.0,
    bend_all_angle: Any = BEND,
    bend: Any = BEND,
    bend_output: Any = BEND,
    length_x: float = 0.6,
    length_y: float = 0.6,
    cross_section_inner: Any = "strip",
    cross_section_outer: Any = "strip",
) -> gf.Component:
    """Ring with one guide from o1 to o2 that follows it for an angle.

    Args:
        radius: See :func:`coupler_ring_bend`.
        gap: Gap between the guide and the ring in µm.
        coupling_angle_coverage: See :func:`coupler_ring_bend`.
        bend_all_angle: See ``bend`` of :func:`coupler_ring_bend`.
        bend: The same.
        bend_output: See :func:`coupler_ring_bend`.
        length_x: Length of the ring's horizontal straights in µm.
        length_y: Length of the ring's vertical straights in µm.
        cross_section_inner: See :func:`coupler_ring_bend`.
        cross_section_outer: See :func:`coupler_ring_bend`.

    Raises:
        ValueError: See :func:`coupler_ring_bend`; also if ``length_y`` is negative.
    """
    name = "ring_single_bend_coupler"
    length_y = check_length("length_y", length_y, 0.0, name)
    if bend != BEND:
        raise ValueError(f"{name}: bend is {bend!r}; give {BEND!r}")
    below = coupler_ring_bend(
        radius=radius,
        coupler_gap=gap,
        coupling_angle_coverage=coupling_angle_coverage,
        length_x=length_x,
        cross_section_inner=cross_section_inner,
        cross_section_outer=cross_section_outer,
        bend=bend_all_angle,
        bend_output=bend_output,
    )
    c = gf.Component()
    placed = c << below
    quarter = bend_circular(radius=below.info["radius"])
    up, across = (straight_guide(length) if length else None for length in (length_y, length_x))
    end = placed["o2"]
    # from the left end of the lower half clockwise to its right end
    parts = ((up, "o1", "o2"), (quarter, "o2", "o1"), (across, "o1", "o2"), (quarter, "o2", "o1"), (up, "o1", "o2"))
    for part, first, last in parts:
        if part is not None:
            guide = c << part
            guide.connect(first, end)
            end = guide[last]
    c.add_port(name="o1", port=placed["o1"])
    c.add_port(name="o2", port=placed["o4"])
    c.info["radius"] = below.info["radius"]
    return c


def mirrored(half: Points, length_x: float) -> Points:
    """Return a line from left to right whose right half begins at x = 0, with a straight of a length in its middle."""
    left = (half * [-1, 1])[::-1]
    return np.concatenate([left, half[0 if length_x else 1 :] + np.array([length_x, 0.0])])


def quarter(radius: float, angle_deg: float, chords: int) -> Points:
    """Return an arc of 90 degrees, of which the first ``angle_deg`` have a number of chords."""
    rest_deg = 90.0 - angle_deg
    first = circular_arc(radius, angle_deg, chords)
    if not rest_deg:
        return first
    rest = circular_arc(radius, rest_deg, math.ceil(chords_per_quarter(radius) * rest_deg / 90))
    line = np.concatenate([first, (rest @ _turn(math.radians(angle_deg)))[1:] + first[-1]])
    line[-1] = radius, radius
    return line


def _turn(angle: float) -> Points:
    """Return the (2, 2) matrix that turns row vectors to the left by an angle in rad."""
    return np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])


def outer_half(radius: float, pitch: float, angle_deg: float, least: float) -> tuple[Points, int]:
    """Return the right half of the outer guide: an arc around a ring whose lowest point is the origin, and one back.

    The second arc is enlarged by so much that it ends on the grid.

    Args:
        radius: Radius of the ring in µm.
        pitch: Distance of the centre lines in µm.
        angle_deg: Angle of each arc.
        least: Smallest radius of the second arc in µm.

    Returns:
        The centre line, and the number of chords of the first arc. The ring has as many, so that the gap is constant.
    """
    outer, angle = radius + pitch, math.radians(angle_deg)
    rise = 1.0 - math.cos(angle)
    chords = math.ceil(chords_per_quarter(outer) * angle_deg / 90)
    first = circular_arc(outer, angle_deg, chords)
    height = math.ceil((outer + least) * rise * GRID_PER_UM) / GRID_PER_UM
    back = height / rise - outer
    second = circular_arc(back, angle_deg, math.ceil(chords_per_quarter(back) * angle_deg / 90)) * [1, -1]
    line = np.concatenate([first, (second @ _turn(angle))[1:] + first[-1]]) - [0.0, pitch]
    line[-1, 1] = round(height - pitch, 3)
    return line, chords


def _uncoupled_from(ring: Points, start: Points) -> float:
    """Return the x in µm from which a guide that runs to the right from a point is uncoupled from a ring."""
    process = active_process()
    apart = float(process.floorplan.guide_space_um + process.guide.width_um)
    # past the ring by the distance of guides, it is uncoupled at any height
    far = float(ring[-1, 0]) + apart
    first = math.ceil(max(float(start[0]), float(ring[-1, 0]) + mark_margin()) * GRID_PER_UM) / GRID_PER_UM
    places = first + np.arange(0.0, max(far - first, 0.0) + 1.5 / GRID_PER_UM, 1 / GRID_PER_UM)
    near = distances_um(np.stack([places, np.full_like(places, start[1])], axis=1), ring) < apart
    return round(float(places[np.count_nonzero(near)]), 3)
