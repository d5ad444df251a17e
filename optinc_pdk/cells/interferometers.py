"""Cells of interferometers and of rectangular meshes of them; their arms have equal length, except in ``mzi``."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass

import gdsfactory as gf

from optinc_pdk.cards import Process
from optinc_pdk.cells._devices import mmi2x2, phase_shifter, terminator
from optinc_pdk.cells._guides import add_bent_guide, add_s_guide, add_s_guide_reversed, add_s_guides, add_straight_guide
from optinc_pdk.cells.curves import GRID_PER_UM, s_bend_reach
from optinc_pdk.cells.drawing import (
    LIMIT_UM,
    add_corner_ports,
    add_electrical,
    add_optical,
    cell,
    check_count,
    check_length,
    place_cell,
)
from optinc_pdk.errors import InputError
from optinc_pdk.tech import active_process

# gdsfactory's own function, which draws with the cells and cross-sections of the active PDK. Its cache is not used,
# because it would return the component of another process.
mzi: Callable[..., gf.Component] = cell(inspect.unwrap(gf.components.mzi))
mzi.__doc__ = f"""MZI with two splitters and arms that differ in length by ``delta_length``; gdsfactory's cell.

{inspect.cleandoc(str(gf.components.mzi.__doc__))}
"""


@dataclass(frozen=True)
class MziPositions:
    """Positions of the parts of an MZI or attenuator along x from its left end, and their lengths, in µm.

    Attributes:
        phi: Start of the phi heater; 0 and unused in an attenuator.
        first: Start of the first coupler.
        theta: Start of the theta heater.
        second: Start of the second coupler.
        end: Right end of the cell.
        shifter: Length of a phase shifter.
        bend: Length of an S-bend.
        coupler: Length of a coupler.
    """

    phi: float
    first: float
    theta: float
    second: float
    end: float
    shifter: float
    bend: float
    coupler: float


def mzi_positions(process: Process, stretch_um: float = 0.0) -> MziPositions:
    """Return the positions of the parts of an MZI, whose arms have another straight of ``stretch_um``.

    The parts are, from left to right: phi heater, optional straight, S-bend, coupler, S-bend, theta heater, S-bend,
    coupler, S-bend.
    """
    heater, mmi = process.device("phase_shifter"), process.device("mmi2x2")
    shifter = heater.size("length_um") + 2 * heater.size("contact_width_um")
    coupler = mmi.size("length_um") + 2 * mmi.size("taper_length_um")
    half, port = half_pitches_um(process)
    bend = _bend_um(process, half - port)
    # a dummy's guide from the unused port ends in front of the coupler
    first = max(shifter, _dark_um(process)) + stretch_um + bend
    theta = first + coupler + bend
    second = theta + shifter + bend
    return MziPositions(0.0, first, theta, second, second + coupler + bend, shifter, bend, coupler)


def _bend_um(process: Process, offset_um: float) -> float:
    """Return the length in µm of S-bends between modes and the ports of a coupler.

    Twice the radius suffices for any offset. Large bends need less, and a longer S-bend would lead to a coupler with
    guides side by side.
    """
    radius = float(process.guide.radius_um)
    return min(2 * radius, _on_grid(s_bend_reach(offset_um, radius)))


def _on_grid(length_um: float) -> float:
    return math.ceil(length_um * GRID_PER_UM) / GRID_PER_UM


def _turns_down(process: Process) -> bool:
    """Whether the guide from a dummy's unused port can turn down by 90° and end within half a pitch of the mode."""
    half, port = half_pitches_um(process)
    drop = float(process.guide.radius_um) + process.device("terminator").size("length_um")
    return half - 2 * port - drop >= -half


def _dark_um(process: Process) -> float:
    """Return the length in µm in front of a dummy's coupler beside the guide from its unused port."""
    space, bend = float(process.floorplan.guide_space_um), 2 * float(process.guide.radius_um)
    return bend + space + (0.0 if _turns_down(process) else process.device("terminator").size("length_um") + space)


def half_pitches_um(process: Process) -> tuple[float, float]:
    """Return half the distance between adjacent modes, and half the distance between adjacent coupler ports, in µm."""
    mmi = process.device("mmi2x2")
    return float(process.floorplan.mode_pitch_um) / 2, (mmi.size("gap_um") + mmi.size("taper_width_um")) / 2


@cell
def mzi_unit(stretch_um: float = 0.0) -> gf.Component:
    """Programmable Mach-Zehnder interferometer (MZI) of two modes; o2 and o3 are on the upper mode at y = 0.

    The internal phase theta is on the upper arm, the external phase phi on the upper input arm. Ports: e1 and e2
    signal and ground of phi, e3 and e4 signal and ground of theta.

    Args:
        stretch_um: Additional length in µm of both arms between phi and the first coupler, which leaves space for wide
            metal between heaters.
    """
    c = gf.Component()
    process = active_process()
    f = mzi_positions(process, check_length("stretch_um", stretch_um, 0.0, "mzi_unit"))
    half, port = half_pitches_um(process)
    heater, coupler = phase_shifter(), mmi2x2()
    modes, ports = (0.0, -2 * half), (-half + port, -half - port)
    upper, lower = modes
    phi = place_cell(c, heater, (0.0, upper))
    before = f.first - f.bend
    add_straight_guide(c, 0.0, before, lower)
    add_straight_guide(c, f.shifter, before, upper)
    add_s_guides(c, before, modes, f.first, ports)
    place_cell(c, coupler, (f.first, -half))
    add_s_guides(c, f.first + f.coupler, ports, f.theta, modes)
    theta = place_cell(c, heater, (f.theta + f.shifter, upper), rotation=180, mirror=True)
    add_straight_guide(c, f.theta, f.theta + f.shifter, lower)
    add_s_guides(c, f.theta + f.shifter, modes, f.second, ports)
    place_cell(c, coupler, (f.second, -half))
    add_s_guides(c, f.second + f.coupler, ports, f.end, modes)
    add_corner_ports(c, 0.0, f.end, lower, upper)
    c.add_port(name="e1", port=phi["e1"])
    c.add_port(name="e2", port=phi["e2"])
    c.add_port(name="e3", port=theta["e1"])
    c.add_port(name="e4", port=theta["e2"])
    return c


@cell
def mzi_dummy(stretch_um: float = 0.0, narrow: bool = False) -> gf.Component:
    """Dummy MZI for one mode at y = 0: an MZI without heaters, with the same couplers, lengths and loss.

    Arms of equal phase make it a cross: light enters the upper port of the first coupler and leaves the lower port of
    the second. The unused ports end in terminators. The cell extends above the mode; mirror it to extend below.

    Args:
        stretch_um: ``stretch_um`` of the MZIs in the same column, in µm.
        narrow: Whether the arms have the least distance of S-bends and the cell lies higher, so that dummies of
            neighbouring modes have room above each other. The path is as long.

    Raises:
        InputError: The mode pitch is too small for narrow dummies of neighbouring modes.
    """
    c = gf.Component()
    process = active_process()
    f = mzi_positions(process, check_length("stretch_um", stretch_um, 0.0, "mzi_dummy"))
    half, port = half_pitches_um(process)
    r, coupler, absorber = float(process.guide.radius_um), mmi2x2(), terminator()
    arm = _narrow_arm_um(process) if narrow else half
    # one port pitch lower than in an MZI: the S-bends up and down are then together as long as an MZI's two S-bends.
    # Arms that are nearer together have shorter S-bends, and those at the ends are longer by as much
    middle = 2 * half - port - arm
    high, low, top, bottom = middle + port, middle - port, middle + arm, middle - arm
    # the mode rises so far before the coupler that the guide from the unused port ends in between
    turn = f.first - f.bend - _dark_um(process)
    add_straight_guide(c, 0.0, turn, 0.0)
    add_s_guide(c, (turn, 0.0), (f.first, high))
    if _turns_down(process):
        add_bent_guide(c, (f.first, low), (f.first - r, low), (f.first - r, low - r))
        place_cell(c, absorber, (f.first - r, low - r), rotation=270)
    else:
        end = f.first - f.bend
        add_s_guide_reversed(c, (end, low / 2), (f.first, low))
        place_cell(c, absorber, (end, low / 2), rotation=180)
    place_cell(c, coupler, (f.first, middle))
    for y, at in ((high, top), (low, bottom)):
        add_s_guide(c, (f.first + f.coupler, y), (f.theta, at))
        add_straight_guide(c, f.theta, f.theta + f.shifter, at)
        add_s_guide(c, (f.theta + f.shifter, at), (f.second, y))
    place_cell(c, coupler, (f.second, middle))
    place_cell(c, absorber, (f.second + f.coupler, high))
    add_s_guide(c, (f.second + f.coupler, low), (f.end, 0.0))
    add_optical(c, "o1", (0.0, 0.0), 180)
    add_optical(c, "o2", (f.end, 0.0), 0)
    return c


def _narrow_arm_um(process: Process) -> float:
    """Return half the distance of the arms of a narrow dummy in µm."""
    half, port = half_pitches_um(process)
    # an S-bend of two quarter circles; longer ones grow as their offset does
    arm = 2 * float(process.guide.radius_um) + port
    free, least = 2 * (half - arm), float(process.floorplan.guide_space_um)
    if free < least:
        raise InputError(
            f"mzi_dummy: arms of narrow dummies on neighbouring modes would be {free:g} µm from each other, at least "
            f"{least:g} µm is needed; take a rectangular mesh, or a larger "
            f"floorplan.mode_pitch_um, which is {2 * half:g} µm"
        )
    return arm


@cell
def attenuator() -> gf.Component:
    """Mach-Zehnder attenuator of one mode pitch in height, from o1 to o2 at y = 0; the remaining light is absorbed.

    Its amplitude transmission is i·exp(iθ/2)·sin(θ/2), so it transmits nothing without heater power. Ports: e1 signal
    and e2 ground of the heater.
    """
    c = gf.Component()
    process = active_process()
    f = attenuator_positions(process)
    half, port = float(process.floorplan.mode_pitch_um) / 4, half_pitches_um(process)[1]
    high, low, lower = -half + port, -half - port, -2 * half
    coupler, absorber = mmi2x2(), terminator()
    add_s_guide_reversed(c, (0.0, 0.0), (f.first, high))
    place_cell(c, absorber, (f.first, low), rotation=180)
    place_cell(c, coupler, (f.first, -half))
    add_s_guides(c, f.first + f.coupler, (high, low), f.theta, (0.0, lower))
    theta = place_cell(c, phase_shifter(), (f.theta, 0.0))
    add_straight_guide(c, f.theta, f.theta + f.shifter, lower)
    add_s_guide_reversed(c, (f.theta + f.shifter, 0.0), (f.second, high))
    add_s_guide_reversed(c, (f.theta + f.shifter, lower), (f.second, low))
    place_cell(c, coupler, (f.second, -half))
    place_cell(c, absorber, (f.second + f.coupler, low))
    add_s_guide(c, (f.second + f.coupler, high), (f.end, 0.0))
    add_optical(c, "o1", (0.0, 0.0), 180)
    add_optical(c, "o2", (f.end, 0.0), 0)
    c.add_port(name="e1", port=theta["e1"])
    c.add_port(name="e2", port=theta["e2"])
    return c


def attenuator_positions(process: Process) -> MziPositions:
    """Return the positions of the parts of an attenuator.

    The parts are, from left to right: terminator, coupler, S-bend, theta heater, S-bend, coupler, terminator.
    """
    f = mzi_positions(process)
    # beside a terminator and its spaces, an S-bend leads from a mode to a port of the coupler
    absorber = process.device("terminator").size("length_um") + 3 * float(process.floorplan.guide_space_um)
    half, port = half_pitches_um(process)
    reach = s_bend_reach(half / 2 - port, float(process.guide.radius_um))
    margin = max(absorber, _on_grid(reach))
    theta = margin + f.coupler + f.bend
    second = theta + f.shifter + f.bend
    return MziPositions(0.0, margin, theta, second, second + f.coupler + margin, f.shifter, f.bend, f.coupler)


def column_count(modes: int) -> int:
    """Return the number of columns of a rectangular mesh: N for N ≥ 3 modes, 1 for two modes.

    Source: Clements et al., Optica 3, 1460 (2016).
    """
    return modes if modes > 2 else 1


def _check_modes(modes: int, process: Process, cell: str) -> int:
    """Check that a mesh has 2 modes or more and is smaller than 1 m."""
    longest = max(mzi_positions(process).end, float(process.floorplan.mode_pitch_um))
    return check_count("modes", modes, 2, int(LIMIT_UM / longest), cell)


@cell
def mesh_column(modes: int = 4, column: int = 0) -> gf.Component:
    """Column of a rectangular mesh: an array of MZIs, and a dummy MZI on every edge mode without a partner.

    Optical ports are numbered clockwise from the lower left. e(4i+1) to e(4i+4) are e1 to e4 of the i-th MZI from the
    top, i from 0.

    Args:
        modes: Number of modes; the first is at y = 0, the others are below.
        column: Number of the column from 0; in odd columns the MZIs start at the second mode.

    Raises:
        ValueError: ``modes`` is below 2 or the mesh would be larger than 1 m, or it has no such column.
    """
    process = active_process()
    _check_modes(modes, process, "mesh_column")
    check_count("column", column, 0, column_count(modes) - 1, "mesh_column")
    c = gf.Component()
    pitch, end = float(process.floorplan.mode_pitch_um), mzi_positions(process).end
    first = column % 2
    count = (modes - first) // 2
    inside = mzi_unit()
    array = c.add_ref(inside, rows=count, row_pitch=2 * pitch)
    array.dmove((0.0, -(first + 2 * count - 2) * pitch))
    if first:
        place_cell(c, mzi_dummy(), (0.0, 0.0))
    if (modes - first) % 2:
        # the last dummy extends away from the mesh
        place_cell(c, mzi_dummy(), (0.0, -(modes - 1) * pitch), mirror=True)
    _mode_ports(c, modes, pitch, end)
    for i in range(count):
        for k in range(1, 5):
            port = inside.ports[f"e{k}"]
            at = (port.center[0], port.center[1] - (first + 2 * i) * pitch)
            add_electrical(c, f"e{4 * i + k}", at, port.orientation)
    return c


@cell
def mesh(modes: int = 4) -> gf.Component:
    """Rectangular mesh of MZIs, with dummy MZIs in its idle edge slots, so that all paths have the same loss.

    Optical ports are numbered clockwise from the lower left. The heaters have no ports here, because a large mesh has
    tens of thousands: use the ports of its columns.

    Args:
        modes: Number of modes; the first is at y = 0, the others are below.

    Raises:
        ValueError: ``modes`` is below 2, or the mesh would be larger than 1 m.
    """
    process = active_process()
    _check_modes(modes, process, "mesh")
    c = gf.Component()
    pitch, end, columns = float(process.floorplan.mode_pitch_um), mzi_positions(process).end, column_count(modes)
    for parity in range(min(columns, 2)):
        half = c.add_ref(mesh_column(modes, parity), columns=(columns - parity + 1) // 2, column_pitch=2 * end)
        half.dmove((parity * end, 0.0))
    _mode_ports(c, modes, pitch, columns * end)
    return c


def _mode_ports(c: gf.Component, modes: int, pitch: float, end: float) -> None:
    """Add optical ports clockwise from the lower left."""
    for i in range(modes):
        add_optical(c, f"o{i + 1}", (0.0, -(modes - 1 - i) * pitch), 180)
    for i in range(modes):
        add_optical(c, f"o{modes + i + 1}", (end, -i * pitch), 0)
