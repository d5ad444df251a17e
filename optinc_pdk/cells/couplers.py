"""Cells of couplers with any gap and length, and of rings; names and arguments are those of gdsfactory.

A rectangle on the layer ``coupled`` marks where two guides couple. Both cross its border at right angles, and nothing
else lies in it. Extraction recognises the coupler by the mark.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import gdsfactory as gf
import numpy as np

from optinc_pdk.cards.device_models import PATH_DIFFERENCE
from optinc_pdk.cells._guides import bend_circular, bend_euler
from optinc_pdk.cells._guides import straight as straight_guide
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
    add_corner_ports,
    add_guide,
    add_optical,
    add_rectangle,
    cell,
    check_length,
    chords_per_quarter,
    place_cell,
)
from optinc_pdk.models.coupled_guides import coupled_length_um, distances_um, path_difference_um
from optinc_pdk.tech import active_process

DEVICE = "coupler"
"""Name of the device, and of its card, that every coupler of this module is."""
COUPLERS = ("coupler", "coupler_ring", "coupler_ring_bend", "coupler_straight")
"""Cells that are this device."""
# Distance of a mark's border from the sides of the guides along it, in µm.
MARGIN_UM = 0.5
EXTENSION_UM = 3.0
EULER_SHARE = inspect.signature(bend_euler).parameters["p"].default
"""Share of an Euler bend in which its curvature changes."""
BEND = "bend_circular"


@cell
def coupler_straight(length: float = 10.0, gap: float = 0.27, cross_section: Any = "strip") -> gf.Component:
    """Two parallel straight guides; ports are numbered clockwise from the lower left.

    Args:
        length: Length in µm.
        gap: Gap between the guides in µm.
        cross_section: Cross-section of the guides, that of the process.

    Raises:
        ValueError: A length is not positive or off the 1 nm grid, or the cross-section is another one.
    """
    name = "coupler_straight"
    length, pitch = check_length("length", length, 0.001, name), _guide_pitch(name, gap)
    _check_strip(name, cross_section)
    lower = np.array([[0.0, 0.0], [length, 0.0]])
    return _side_by_side(lower, lower + np.array([0.0, pitch]))


@cell
def coupler(
    gap: float = 0.236,
    length: float = 20.0,
    dy: float = 6.0,
    dx: float = 12.0,
    cross_section: Any = "strip",
    allow_min_radius_violation: bool = False,
    bend: Any = "bend_s",
) -> gf.Component:
    """Coupler with S-bends at its four ports, which are numbered clockwise from the lower left.

    An S-bend consists of two arcs, with the largest radius that fits ``dx``. With the default ``dy``, which is larger
    than gdsfactory's, guides that go straight on at the ports are uncoupled.

    Args:
        gap: Gap between the straight guides in µm.
        length: Length of the straight guides in µm; 0 for none.
        dy: Distance of the ports of one side in µm.
        dx: Length of the S-bends in µm.
        cross_section: Cross-section of the guides, that of the process.
        allow_min_radius_violation: Whether S-bends may have a smaller radius than that of the process.
        bend: S-bend, ``"bend_s"``.

    Raises:
        ValueError: A length is negative or off the 1 nm grid, ``dx`` is too short for the process's bend radius, or the
            cross-section or the bend is another one.
    """
    name, strip = "coupler", active_process().guide
    pitch, length = _guide_pitch(name, gap), check_length("length", length, 0.0, name)
    dx, dy = check_length("dx", dx, 0.001, name), check_length("dy", dy, 0.001, name)
    _check_strip(name, cross_section)
    if bend != "bend_s":
        raise ValueError(f"{name}: bend is {bend!r}; give 'bend_s'")
    # both in nm; the upper guide takes the odd one
    apart = round((dy - pitch) * GRID_PER_UM)
    rises = apart // 2 / GRID_PER_UM, (apart - apart // 2) / GRID_PER_UM
    if rises[0] <= 0:
        raise ValueError(f"{name}: dy is {dy:g} µm, the centres of the guides are {pitch:g} µm apart; enlarge it")
    # the radius is (dx² + rise²) / (4 rise)
    least = max(4 * rises[1] * float(strip.radius_um) - rises[1] ** 2, 0.0) ** 0.5
    if dx < least and not allow_min_radius_violation:
        raise ValueError(
            f"{name}: dx is {dx:g} µm; S-bends with the process's radius of {strip.radius_um:g} µm need "
            f"{least:.3f} µm; enlarge it"
        )
    lower, upper = (_arms(length, dx, rise, strip.chords) for rise in rises)
    return _side_by_side(lower * [1, -1], upper + np.array([0.0, pitch]))


@cell
def coupler_ring(
    gap: float = 0.2,
    radius: float | None = None,
    length_x: float = 4.0,
    bend: Any = "bend_euler",
    straight: Any = "straight",
    cross_section: Any = "strip",
    cross_section_bend: Any = None,
    length_extension: float | None = None,
) -> gf.Component:
    """Lower half of a ring over a straight guide from o1 to o4; the ring's ends are o2 and o3.

    Args:
        gap: Gap between the straight guide and the ring in µm.
        radius: Smallest bend radius of the ring in µm; that of the process if None.
        length_x: Length of the straight part of the ring in µm.
        bend: Bends of the ring, ``"bend_euler"`` or ``"bend_circular"``.
        straight: Straight guide, ``"straight"``.
        cross_section: Cross-section of the guides, that of the process.
        cross_section_bend: The same.
        length_extension: Length of the lower guide beyond the ring's straight part in µm; 3 µm more than its mark if
            None.

    Raises:
        ValueError: A length is negative or off the 1 nm grid, the lower guide is shorter than the mark, or bend,
            straight or cross-section is another one.
    """
    name = "coupler_ring"
    pitch, length_x = _guide_pitch(name, gap), check_length("length_x", length_x, 0.0, name)
    _check_strip(name, cross_section)
    _check_strip(name, cross_section if cross_section_bend is None else cross_section_bend)
    if straight != "straight":
        raise ValueError(f"{name}: straight is {straight!r}; give 'straight'")
    ring = _half_ring(name, bend, radius, length_x) + np.array([0.0, pitch])
    reach, top = float(-ring[0, 0]), float(ring[0, 1])
    beyond = _uncoupled_from(ring)
    extension = beyond + EXTENSION_UM
    if length_extension is not None:
        extension = check_length("length_extension", length_extension, 0.0, name)
    if extension < beyond:
        raise ValueError(
            f"{name}: length_extension is {extension:g} µm, the ring's mark reaches {beyond:g} µm; enlarge it"
        )
    c = gf.Component()
    add_guide(c, np.array([[-extension, 0.0], [length_x + extension, 0.0]]))
    add_guide(c, ring)
    left, right = -beyond, length_x + beyond
    add_rectangle(c, (left, -_mark_margin(), right, top), "coupled")
    add_optical(c, "o1", (-extension, 0.0), 180)
    add_optical(c, "o2", (-reach, top), 90)
    add_optical(c, "o3", (length_x + reach, top), 90)
    add_optical(c, "o4", (length_x + extension, 0.0), 0)
    c.info.update({**_coupler_settings(np.array([[left, 0.0], [right, 0.0]]), ring)})
    c.info["radius"] = reach
    # guide 1 from each port to the mark, which belongs to the guide that continues it
    c.info["lead_um"] = round(extension - beyond, 3)
    return c


_COUPLER_RING = coupler_ring
"""The coupler where an argument has the name of its cell."""
_BENDS: dict[str, Any] = {"bend_euler": bend_euler, "bend_circular": bend_circular}
"""Bends of rings."""


@cell
def ring_single(
    gap: float = 0.2,
    radius: float | None = None,
    length_x: float = 4.0,
    length_y: float = 0.6,
    bend: Any = "bend_euler",
    straight: Any = "straight",
    coupler_ring: Any = "coupler_ring",
    cross_section: Any = "strip",
    length_extension: float | None = None,
) -> gf.Component:
    """Ring with one straight guide, from o1 to o2; see :func:`coupler_ring` for further arguments.

    Args:
        length_x: Length of the ring's horizontal straights in µm.
        length_y: Length of the ring's vertical straights in µm.
        coupler_ring: Coupler, ``"coupler_ring"``.

    Raises:
        ValueError: See :func:`coupler_ring`; also if ``length_y`` is negative or the coupler is another one.
    """
    name = "ring_single"
    length_y = check_length("length_y", length_y, 0.0, name)
    _check_coupler(name, coupler_ring)
    half = _COUPLER_RING(gap, radius, length_x, bend, straight, cross_section, length_extension=length_extension)
    return _ring(half, _BENDS[bend](radius=radius), length_x, length_y)


@cell
def ring_double(
    gap: float = 0.2,
    gap_top: float | None = None,
    gap_bot: float | None = None,
    radius: float | None = None,
    length_x: float = 0.01,
    length_y: float = 0.01,
    bend: Any = "bend_euler",
    straight: Any = "straight",
    coupler_ring: Any = "coupler_ring",
    coupler_ring_top: Any = None,
    cross_section: Any = "strip",
    length_extension: float | None = None,
) -> gf.Component:
    """Ring between two straight guides, from o1 to o2 below and from o3 to o4 above it.

    See :func:`coupler_ring` for further arguments.

    Args:
        gap_top: Gap above the ring in µm; ``gap`` if None.
        gap_bot: Gap below the ring in µm; ``gap`` if None.
        length_x: Length of the ring's horizontal straights in µm.
        length_y: Length of the ring's vertical straights in µm; at least 1 nm, so that the marks of the couplers are
            apart.
        coupler_ring: Coupler, ``"coupler_ring"``.
        coupler_ring_top: The same.

    Raises:
        ValueError: See :func:`coupler_ring`; also if ``length_y`` is not positive or a coupler is another one.
    """
    name = "ring_double"
    length_y = check_length("length_y", length_y, 0.001, name)
    _check_coupler(name, coupler_ring)
    _check_coupler(name, coupler_ring if coupler_ring_top is None else coupler_ring_top)
    gaps = (gap if gap_bot is None else gap_bot, gap if gap_top is None else gap_top)
    below, above = (
        _COUPLER_RING(value, radius, length_x, bend, straight, cross_section, length_extension=length_extension)
        for value in gaps
    )
    c = gf.Component()
    place_cell(c, below, (0.0, 0.0))
    left, right = (below.ports[port].center for port in ("o2", "o3"))
    turned = place_cell(c, above, (length_x, left[1] + length_y + above.ports["o2"].center[1]), rotation=180)
    for x, y in (left, right):
        place_cell(c, straight_guide(length_y), (x, y), rotation=90)
    c.add_port(name="o1", port=below.ports["o1"])
    c.add_port(name="o2", port=below.ports["o4"])
    c.add_port(name="o3", port=turned.ports["o4"])
    c.add_port(name="o4", port=turned.ports["o1"])
    c.info["radius"] = below.info["radius"]
    return c


def _ring(half: gf.Component, quarter: gf.Component, length_x: float, length_y: float) -> gf.Component:
    """Complete a ring, with one guide from o1 to o2, whose lower half with its coupler is drawn."""
    c = gf.Component()
    below = place_cell(c, half, (0.0, 0.0))
    up, across = (straight_guide(length) if length else None for length in (length_y, length_x))
    end = below["o2"]
    # from the left end of the lower half clockwise to its right end
    parts = ((up, "o1", "o2"), (quarter, "o2", "o1"), (across, "o1", "o2"), (quarter, "o2", "o1"), (up, "o1", "o2"))
    for part, first, last in parts:
        if part is not None:
            placed = c << part
            placed.connect(first, end)
            end = placed[last]
    c.add_port(name="o1", port=below["o1"])
    c.add_port(name="o2", port=below["o4"])
    c.info["radius"] = half.info["radius"]
    return c


def _coupler_settings(first_um: Points, second_um: Points) -> dict[str, float]:
    """Return the settings ``cards.device_models.SETTINGS`` of two coupled guides, from the centre lines as drawn.

    ``first_um`` (n, 2) is the guide from o1 to o4, ``second_um`` (m, 2) the one from o2 to o3.
    """
    process = active_process()
    card = process.device(DEVICE)
    width = float(process.guide.width_um)
    apart = min(float(distances_um(*pair).min()) for pair in ((first_um, second_um), (second_um, first_um)))
    keys = ("reference_gap_um", "decay_um")
    return {
        "gap_um": apart - width,
        "coupled_length_um": coupled_length_um(first_um, second_um, width, *(card.parameter(key) for key in keys)),
        PATH_DIFFERENCE: path_difference_um(first_um, second_um, card.parameter("decay_um")),
        "guide_1_um": polyline_length_um(first_um),
        "guide_2_um": polyline_length_um(second_um),
    }


def _side_by_side(lower: Points, upper: Points) -> gf.Component:
    """Draw two guides from left to right with their mark, which ends at the ports."""
    c, margin = gf.Component(), _mark_margin()
    for line in (lower, upper):
        add_guide(c, line)
    left, right = float(lower[0, 0]), float(lower[-1, 0])
    low, high = float(lower[0, 1]), float(upper[0, 1])
    add_rectangle(c, (left, low - margin, right, high + margin), "coupled")
    add_corner_ports(c, left, right, low, high)
    c.info.update({**_coupler_settings(lower, upper)})
    return c


def _arms(length: float, dx: float, rise: float, segments: int) -> Points:
    """Return a centre line that comes down by ``rise`` to y = 0 within ``dx``, runs for ``length`` and goes up."""
    left = s_bend(dx, -rise, (dx**2 + rise**2) / (4 * rise), segments) + np.array([0.0, rise])
    # the arcs end within a rounding error of dx
    left = np.concatenate([left[np.hypot(*(left - left[-1]).T) > 1e-6], [[dx, 0.0]]])
    right = (left * [-1, 1] + np.array([2 * dx + length, 0.0]))[::-1]
    return np.concatenate([left, right if length else right[1:]])


def _half_ring(name: str, bend: Any, radius: float | None, length_x: float) -> Points:
    """Return the lower half of a ring from left to right, with its straight part from (0, 0) to (length_x, 0)."""
    strip = active_process().guide
    radius = check_length("radius", float(strip.radius_um) if radius is None else radius, 0.001, name)
    segments = strip.chords
    if bend == "bend_euler":
        # as the cell bend_euler draws it
        quarter, _ = euler_bend(radius, chords_per_quarter(radius), 90.0, EULER_SHARE)
    elif bend == "bend_circular":
        quarter = round_corners(np.array([[0.0, 0.0], [radius, 0.0], [radius, radius]]), radius, segments)
    else:
        raise ValueError(f"{name}: bend is {bend!r}; give 'bend_euler' or 'bend_circular'")
    return mirrored(quarter, length_x)


def _uncoupled_from(ring: Points) -> float:
    """Return the distance in µm from a ring's straight part at which the guide under it is uncoupled.

    The mark reaches that far: beyond it, the guide is at least ``floorplan.guide_space_um`` from the ring.
    """
    process = active_process()
    first, apart = -ring[0, 0] + _mark_margin(), float(process.floorplan.guide_space_um + process.guide.width_um)
    places = first + np.arange(0.0, apart, 1 / GRID_PER_UM)
    near = distances_um(np.stack([-places, np.zeros_like(places)], axis=1), ring) < apart
    return round(float(places[np.count_nonzero(near)]), 3)


def _guide_pitch(name: str, gap: Any) -> float:
    """Return the distance of the centres of two guides in µm."""
    return check_length("gap", gap, 0.001, name) + float(active_process().guide.width_um)


def _mark_margin() -> float:
    """Return the distance of a mark's border from the centre line of a guide along it, in µm."""
    return float(active_process().guide.width_um) / 2 + MARGIN_UM


def _check_strip(name: str, cross_section: Any) -> None:
    """Refuse a cross-section of another width than the guides of the process."""
    width, least = float(gf.get_cross_section(cross_section).width), float(active_process().guide.width_um)
    if abs(width - least) > 1e-6:
        raise ValueError(
            f"{name}: the cross-section is {width:g} µm wide, coupled guides are {least:g} µm; give 'strip'"
        )


def _check_coupler(name: str, coupler: Any) -> None:
    """Refuse a coupler other than the cell of this module."""
    if coupler not in ("coupler_ring", coupler_ring):
        raise ValueError(f"{name}: the coupler is {coupler!r}; give 'coupler_ring'")


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
    pitch, length_x = _guide_pitch(name, coupler_gap), check_length("length_x", length_x, 0.0, name)
    radius = check_length("radius", least if radius is None else radius, least, name)
    for section in (cross_section_inner, cross_section_outer):
        _check_strip(name, section)
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
    ring = mirrored(ring_quarter(radius, float(angle) / 2, chords), length_x)
    height, top = float(side[-1, 1]), radius
    if height + _mark_margin() > top:
        raise ValueError(
            f"{name}: coupling_angle_coverage is {angle:g} degrees; the guide would end {height:.3f} µm above the "
            f"ring's lowest point, at most {top - _mark_margin():.3f} µm are possible; reduce it or enlarge the radius"
        )
    end = _pulley_end(ring, side[-1] + [length_x, 0.0])
    outer = mirrored(np.concatenate([side, [[end - length_x, height]]]), length_x)
    c = gf.Component()
    for line in (outer, ring):
        add_guide(c, line)
    left = length_x - end
    add_rectangle(c, (left, -pitch - _mark_margin(), end, top), "coupled")
    add_optical(c, "o1", (left, height), 180)
    add_optical(c, "o2", (-radius, top), 90)
    add_optical(c, "o3", (length_x + radius, top), 90)
    add_optical(c, "o4", (end, height), 0)
    c.info.update({**_coupler_settings(outer, ring), "radius": radius})
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
    """Ring with one guide from o1 to o2 that follows it for an angle; see :func:`coupler_ring_bend`.

    Args:
        bend_all_angle: ``bend`` of :func:`coupler_ring_bend`.
        length_x: Length of the ring's horizontal straights in µm.
        length_y: Length of the ring's vertical straights in µm.

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
    return _ring(below, bend_circular(radius=below.info["radius"]), length_x, length_y)


def mirrored(half: Points, length_x: float) -> Points:
    """Return a line from left to right whose right half begins at x = 0, with a straight of a length in its middle."""
    left = (half * [-1, 1])[::-1]
    return np.concatenate([left, half[0 if length_x else 1 :] + np.array([length_x, 0.0])])


def ring_quarter(radius: float, angle_deg: float, chords: int) -> Points:
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

    The second arc is enlarged from the radius ``least`` by so much that it ends on the grid. The number of chords of
    the first arc is returned, too. The ring has as many, so that the gap is constant.
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


def _pulley_end(ring: Points, start: Points) -> float:
    """Return the x in µm from which a guide that runs to the right from a point is uncoupled from a ring."""
    process = active_process()
    apart = float(process.floorplan.guide_space_um + process.guide.width_um)
    # past the ring by the distance of guides, it is uncoupled at any height
    far = float(ring[-1, 0]) + apart
    first = math.ceil(max(float(start[0]), float(ring[-1, 0]) + _mark_margin()) * GRID_PER_UM) / GRID_PER_UM
    places = first + np.arange(0.0, max(far - first, 0.0) + 1.5 / GRID_PER_UM, 1 / GRID_PER_UM)
    near = distances_um(np.stack([places, np.full_like(places, start[1])], axis=1), ring) < apart
    return round(float(places[np.count_nonzero(near)]), 3)
