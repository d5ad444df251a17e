"""Rectangular meshes composed of the coupler, heater and guide of any gdsfactory PDK."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any

import gdsfactory as gf
import klayout.db as kdb
import numpy as np
from gdsfactory.typings import ComponentSpec, CrossSectionSpec

from optinc_pdk.assemble.mesh_circuit import MeshSlot, rectangular_slots
from optinc_pdk.cells.curves import GRID_PER_UM, Points, s_bend
from optinc_pdk.cells.mzi_parts import MziParts, check_mzi_parts


def foreign_mesh(
    modes: int,
    coupler: ComponentSpec = "coupler",
    heater: ComponentSpec = "straight_heater_metal",
    guide: CrossSectionSpec = "strip",
    mode_pitch_um: float | None = None,
) -> gf.Component:
    """Draw a rectangular mesh of MZIs (Clements et al., Optica 3, 1460 (2016)) from the cells of the active PDK.

    Each MZI has a heater phi on its upper input arm and a heater theta on the upper arm between its couplers; both arms
    have the same length. At an edge, a mode without a partner passes along guides instead of couplers and heaters.
    Equal MZIs are placed as arrays. Any PDK may be active; its cells are used unchanged. gdsfactory caches cells by
    name only, so call ``gf.clear_cache()`` if another PDK was active before.

    Args:
        modes: Number of modes, 2 or more.
        coupler: 2×2 coupler with two ports on the left and two on the right, at the same two heights.
        heater: Heater with one straight guide from left to right and two or more electrical ports.
        guide: Cross-section of the guides. Coupler and heater must have its width and layer.
        mode_pitch_um: Distance between adjacent modes in µm. The default is the larger of twice the heater's height
            and the coupler's height, rounded up so that the S-bends rise by a whole number of µm.

    Returns:
        The mesh with optical ports ``in_r0`` ... and ``out_r0`` ..., where row 0 is the uppermost, and a port
        ``phi_c0_r0_E`` or ``theta_c0_r0_E`` (column, upper row) for every electrical port E of a heater.

    Raises:
        ValueError: ``modes`` or ``mode_pitch_um`` is not valid, or a port of coupler or heater is not where an MZI
            needs it; the message names the port.
    """
    if isinstance(modes, bool) or not isinstance(modes, int) or modes < 2:
        raise ValueError(f"modes is {modes!r}; a mesh has 2 or more modes, give a whole number from 2")
    parts = check_mzi_parts(gf.get_component(coupler), gf.get_component(heater), guide, mode_pitch_um)
    return _cell(f"mesh{modes}", parts, lambda: _mesh(modes, parts))


def _cell(name: str, parts: MziParts, draw: Callable[[], gf.Component]) -> gf.Component:
    """Return the component of this name for these parts; ``draw`` is called only if it does not exist yet."""
    section = parts.section
    guide = (section.name, section.width, section.radius, str(section.layer))
    key = (gf.get_active_pdk().name, parts.coupler.name, parts.heater.name, guide, parts.pitch_um)
    # a hash, because a name with all parameters would be longer than mask shops accept
    name = f"{name}_{hashlib.sha256(repr(key).encode()).hexdigest()[:8]}"
    drawn = gf.kcl.layout_cell(name)
    if drawn is not None:
        return gf.kcl.get_cell(drawn.cell_index(), gf.Component)
    component = draw()
    component.name = name
    component.base.lock()
    return component


def _mesh(modes: int, parts: MziParts) -> gf.Component:
    """Draw the mesh as arrays of MZIs and of guides for modes without a partner."""
    c = gf.Component()
    mzi, idle = _cell("mzi", parts, lambda: _mzi(parts)), _cell("idle", parts, lambda: _idle(parts))
    length = float(mzi.ports["o3"].center[0])
    slots = rectangular_slots(modes)
    groups: dict[tuple[int, bool, bool], list[MeshSlot]] = {}
    for slot in slots:
        groups.setdefault((slot.column % 2, slot.dummy, slot.dummy and slot.row > 0), []).append(slot)
    ends: dict[tuple[int, int], tuple[Any, Any]] = {}
    for (_, dummy, last), group in groups.items():
        columns, rows = (sorted({getattr(slot, key) for slot in group}) for key in ("column", "row"))
        array = c.add_ref(
            idle if dummy else mzi,
            columns=len(columns),
            rows=len(rows),
            column_pitch=2 * length,
            row_pitch=-2 * parts.pitch_um,
        )
        array.dcplx_trans = kdb.DCplxTrans(1.0, 0.0, last, columns[0] * length, -rows[0] * parts.pitch_um)
        for slot in group:
            port = _ports_at(array, columns.index(slot.column), rows.index(slot.row))
            if dummy:
                ends[slot.column, slot.row] = port("o1"), port("o2")
                continue
            ends[slot.column, slot.row] = port("o2"), port("o3")
            ends[slot.column, slot.row + 1] = port("o1"), port("o4")
            for name in (str(port.name) for port in mzi.ports if port.port_type == "electrical"):
                heater, _, port_name = name.partition("_")
                c.add_port(f"{heater}_c{slot.column}_r{slot.row}_{port_name}", port=port(name))
    for row in range(modes):
        c.add_port(f"in_r{row}", port=ends[0, row][0])
        c.add_port(f"out_r{row}", port=ends[slots[-1].column, row][1])
    c.info["mzis"] = sum(not slot.dummy for slot in slots)
    c.info["mode_pitch_um"] = parts.pitch_um
    c.info["column_um"] = length
    return c


def _ports_at(array: Any, column: int, row: int) -> Callable[[str], Any]:
    """Return a function from port name to port for one member of an array.

    gdsfactory indexes the ports of a 1×1 array like those of a single instance.
    """
    if array.na * array.nb <= 1:
        return lambda name: array.ports[name]
    return lambda name: array.ports[name, column, row]


def _guide(parts: MziParts, name: str, line: Points) -> gf.Component:
    """Draw a guide of the cross-section along a centreline that starts and ends horizontally.

    gdsfactory's own straights and bends are not used: it caches them by name, whichever PDK they were drawn for.
    """

    def draw() -> gf.Component:
        path = gf.Path(line)
        path.start_angle = path.end_angle = 0.0
        return path.extrude(parts.section)

    return _cell(name, parts, draw)


def _s(parts: MziParts) -> gf.Component:
    """Draw the S-bend from a mode up to a port of the coupler; behind its arcs it is straight."""
    radius = float(parts.section.radius)
    # so many chords that they deviate from the arc by at most half a grid step
    chords = math.ceil(math.pi / 4 / math.acos(1 - 0.5 / GRID_PER_UM / radius))
    return _guide(parts, "bend_s", s_bend(*parts.s_um, radius, chords))


def _straight(parts: MziParts, name: str, cell: gf.Component, left: str, right: str) -> gf.Component:
    """Draw a straight guide as long as a cell is from its left to its right port."""
    length = float(cell.ports[right].center[0] - cell.ports[left].center[0])
    return _guide(parts, name, np.array([[0.0, 0.0], [round(length, 3), 0.0]]))


def _mzi(parts: MziParts) -> gf.Component:
    """Draw one MZI; o2 and o3 are on the upper mode at y = 0, o1 and o4 one mode pitch below."""
    c = gf.Component()
    phi, first, up, _ = _stage(c, parts, 0.0)
    theta, _, above, below = _stage(c, parts, float(up.center[0]))
    c.add_port("o1", port=first)
    c.add_port("o2", port=phi.ports[parts.heater_ports[0]])
    c.add_port("o3", port=above)
    c.add_port("o4", port=below)
    for label, heater in (("phi", phi), ("theta", theta)):
        for port in heater.ports:
            if port.port_type == "electrical":
                c.add_port(f"{label}_{port.name}", port=port)
    return c


def _stage(c: gf.Component, parts: MziParts, x: float) -> tuple[Any, Any, Any, Any]:
    """Add half an MZI from ``x``: a heater at y = 0, a straight one mode pitch below, and a coupler between S-bends.

    Returns:
        The heater, the straight's left port, and the two ports at the right end, the upper one first.
    """
    _, upper_left, upper_right, lower_right = parts.coupler_ports
    start, end = parts.heater_ports
    heater, coupler = c << parts.heater, c << parts.coupler
    arm = c << _straight(parts, "arm", parts.heater, start, end)
    heater.dmove(heater.ports[start].center, (x, 0.0))
    arm.dmove(arm.ports["o1"].center, (x, -parts.pitch_um))
    falls, rises, up, down = (c << _s(parts) for _ in range(4))
    falls.connect("o1", heater.ports[end], mirror=True)
    rises.connect("o1", arm.ports["o2"])
    coupler.connect(upper_left, falls.ports["o2"])
    up.connect("o1", coupler.ports[upper_right])
    down.connect("o1", coupler.ports[lower_right], mirror=True)
    return heater, arm.ports["o1"], up.ports["o2"], down.ports["o2"]


def _idle(parts: MziParts) -> gf.Component:
    """Draw the path of a mode without a partner at y = 0: an MZI's guides without couplers and heaters, below it."""
    c = gf.Component()
    arm, bend = _straight(parts, "arm", parts.heater, *parts.heater_ports), _s(parts)
    through = _straight(parts, "through", parts.coupler, *parts.coupler_ports[1:3])
    pieces = [c << arm]
    for cell in (bend, through, bend, arm, bend, through, bend):
        piece = c << cell
        # the first S-bend of each half goes down
        piece.connect("o1", pieces[-1].ports["o2"], mirror=cell is bend and len(pieces) % 4 == 1)
        pieces.append(piece)
    c.add_port("o1", port=pieces[0].ports["o1"])
    c.add_port("o2", port=pieces[-1].ports["o2"])
    return c
