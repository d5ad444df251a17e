"""Meshes from the cells of another PDK, which says what its coupler, heater and guide are."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gdsfactory as gf
import klayout.db as kdb
import numpy as np
from gdsfactory.typings import ComponentSpec, CrossSectionSpec

from optinc_pdk.assemble.mesh import Slot, rectangular_slots
from optinc_pdk.cells.curves import GRID_PER_UM, Points, s_bend


@dataclass(frozen=True)
class _Parts:
    """What an MZI is put together from, with their ports by place.

    Attributes:
        coupler: 2×2 coupler.
        coupler_ports: Its ports: lower left, upper left, upper right, lower right.
        heater: Straight guide under a heater.
        heater_ports: Its guide's ports: left, right.
        section: Cross-section of the guides between them.
        s_um: Length and height of the S between a mode and a coupler's port.
        pitch_um: Distance of two modes.
    """

    coupler: gf.Component
    coupler_ports: tuple[str, str, str, str]
    heater: gf.Component
    heater_ports: tuple[str, str]
    section: Any
    s_um: tuple[float, float]
    pitch_um: float


def mesh_of(
    modes: int,
    coupler: ComponentSpec = "coupler",
    heater: ComponentSpec = "straight_heater_metal",
    guide: CrossSectionSpec = "strip",
    mode_pitch_um: float | None = None,
) -> gf.Component:
    """A rectangular mesh of MZIs (Clements, Optica 3, 1460 (2016)) from the active PDK's cells.

    Each MZI has a heater phi on its upper input arm and a heater theta between its couplers, on the upper arm; the
    other arms are as long. A mode without partner at an edge runs along guides in place of couplers and heaters.
    Equal MZIs are arrays. Any PDK may be active; its cells are used as they are. gdsfactory finds cells that it has
    drawn again by their names, so call ``gf.clear_cache()`` when another PDK was active before.

    Args:
        modes: Number of modes, 2 or more.
        coupler: 2×2 coupler: two ports left, two right, at the same two heights.
        heater: Heater: one straight guide from left to right, and electrical ports.
        guide: Cross-section of the guides; coupler and heater have its width.
        mode_pitch_um: Distance of two modes; by default twice the heater's height, so that a heater is as far from
            the neighbours' contacts as these are high, and no less than the coupler's height.

    Returns:
        The mesh with ports ``in_r0`` ... and ``out_r0`` ..., row 0 uppermost, and for every electrical port E of a
        heater ``phi_c0_r0_E`` or ``theta_c0_r0_E``, by column and upper row.

    Raises:
        ValueError: The cells make no MZI; says which port is not where one needs it.
    """
    if isinstance(modes, bool) or not isinstance(modes, int) or modes < 2:
        raise ValueError(f"modes is {modes!r}; a mesh has two modes or more")
    parts = _parts(gf.get_component(coupler), gf.get_component(heater), guide, mode_pitch_um)
    return _cell(f"mesh{modes}", parts, lambda: _mesh(modes, parts))


def _cell(name: str, parts: _Parts, draw: Callable[[], gf.Component]) -> gf.Component:
    """The component of that name from these parts, drawn once."""
    section = parts.section
    guide = (section.name, section.width, section.radius, str(section.layer))
    key = (gf.get_active_pdk().name, parts.coupler.name, parts.heater.name, guide, parts.pitch_um)
    # short, because gdsfactory would write everything out, longer than mask shops take
    name = f"{name}_{hashlib.sha256(repr(key).encode()).hexdigest()[:8]}"
    drawn = gf.kcl.layout_cell(name)
    if drawn is not None:
        return gf.kcl.get_cell(drawn.cell_index(), gf.Component)
    component = draw()
    component.name = name
    component.base.lock()
    return component


def _mesh(modes: int, parts: _Parts) -> gf.Component:
    c = gf.Component()
    mzi, idle = _cell("mzi", parts, lambda: _mzi(parts)), _cell("idle", parts, lambda: _idle(parts))
    length = float(mzi.ports["o3"].center[0])
    slots = rectangular_slots(modes)
    groups: dict[tuple[int, bool, bool], list[Slot]] = {}
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
                which, _, own = name.partition("_")
                c.add_port(f"{which}_c{slot.column}_r{slot.row}_{own}", port=port(name))
    for row in range(modes):
        c.add_port(f"in_r{row}", port=ends[0, row][0])
        c.add_port(f"out_r{row}", port=ends[slots[-1].column, row][1])
    c.info["mzis"] = sum(not slot.dummy for slot in slots)
    c.info["mode_pitch_um"] = parts.pitch_um
    c.info["column_um"] = length
    return c


def _ports_at(array: Any, column: int, row: int) -> Callable[[str], Any]:
    """The ports of one member of an array; gdsfactory takes an array of one for none."""
    if array.na * array.nb <= 1:
        return lambda name: array.ports[name]
    return lambda name: array.ports[name, column, row]


def _parts(coupler: gf.Component, heater: gf.Component, guide: CrossSectionSpec, mode_pitch_um: float | None) -> _Parts:
    """Check that coupler and heater make an MZI, and choose the S between them."""
    section = gf.get_cross_section(guide)
    if section.radius is None:
        raise ValueError(f"guide {guide!r} has no bend radius; name a cross-section of guides")
    coupler_ports = _coupler_ports(coupler, section)
    heater_ports = _heater_ports(heater, section)
    box, heights = heater.dbbox(), [float(coupler.ports[name].center[1]) for name in coupler_ports[:2]]
    ports_pitch = heights[1] - heights[0]
    if mode_pitch_um is None:
        least = max(2 * box.height(), coupler.dbbox().height())
        mode_pitch_um = ports_pitch + 2 * math.ceil(max(least - ports_pitch, 0) / 2)
    offset = _on_grid("half of mode_pitch_um less the coupler's pitch", (mode_pitch_um - ports_pitch) / 2)
    if offset <= 0 or mode_pitch_um <= box.height():
        raise ValueError(
            f"mode_pitch_um is {mode_pitch_um:g}; heaters {box.height():g} µm high and coupler ports "
            f"{ports_pitch:g} µm apart need more"
        )
    start, end = (float(heater.ports[name].center[0]) for name in heater_ports)
    # contacts that reach beyond the heater's guide end within the S beside it
    overhang = max(start - box.left, box.right - end)
    radius = float(section.radius)
    reach = 2 * radius if offset >= 2 * radius else math.sqrt(offset * (4 * radius - offset))
    s_um = float(math.ceil(max(reach, overhang))), offset
    return _Parts(coupler, coupler_ports, heater, heater_ports, section, s_um, float(mode_pitch_um))


def _coupler_ports(coupler: gf.Component, section: Any) -> tuple[str, str, str, str]:
    optical = [port for port in coupler.ports if port.port_type == "optical"]
    sides = {angle: [p for p in optical if round(p.orientation) % 360 == angle] for angle in (180, 0)}
    told = ", ".join(f"{p.name} at {p.center} facing {p.orientation:g}°" for p in optical)
    if len(optical) != 4 or any(len(ports) != 2 for ports in sides.values()):
        raise ValueError(f"coupler {coupler.name!r}: a 2×2 coupler has two ports left and two right; it has {told}")
    left, right = (sorted(ports, key=lambda p: p.center[1]) for ports in sides.values())
    in_line: list[tuple[Any, Any, int]] = [(left[0], left[1], 0), (right[0], right[1], 0)]
    in_line += [(a, b, 1) for a, b in zip(left, right, strict=True)]
    for a, b, axis in in_line:
        if not math.isclose(a.center[axis], b.center[axis], abs_tol=0.5 / GRID_PER_UM):
            raise ValueError(
                f"coupler {coupler.name!r}: {a.name} and {b.name} differ in {'xy'[axis]}, an MZI needs them in line; "
                f"it has {told}"
            )
    _check_guides(coupler, optical, section)
    return str(left[0].name), str(left[1].name), str(right[1].name), str(right[0].name)


def _heater_ports(heater: gf.Component, section: Any) -> tuple[str, str]:
    optical = [port for port in heater.ports if port.port_type == "optical"]
    told = ", ".join(f"{p.name} at {p.center} facing {p.orientation:g}°" for p in optical)
    left, right = ([p for p in optical if round(p.orientation) % 360 == angle] for angle in (180, 0))
    if len(optical) != 2 or len(left) != 1 or len(right) != 1:
        raise ValueError(f"heater {heater.name!r}: needs one guide from left to right; its ports are {told}")
    (a,), (b,) = left, right
    if not math.isclose(a.center[1], b.center[1], abs_tol=0.5 / GRID_PER_UM) or a.center[0] >= b.center[0]:
        raise ValueError(f"heater {heater.name!r}: its guide's ends are not in line from left to right: {told}")
    if len([port for port in heater.ports if port.port_type == "electrical"]) < 2:
        raise ValueError(f"heater {heater.name!r} has fewer than two electrical ports; name a heater with contacts")
    _check_guides(heater, optical, section)
    _check_straight(heater, a, b, section)
    return str(a.name), str(b.name)


def _check_guides(cell: gf.Component, ports: list[Any], section: Any) -> None:
    """Ports have the guide's width and layer."""
    layer = gf.get_layer_info(section.layer)
    for port in ports:
        if not math.isclose(port.width, section.width, abs_tol=0.5 / GRID_PER_UM):
            raise ValueError(
                f"{cell.name!r}: port {port.name} is {port.width:g} µm wide, the guide {section.width:g}; name others"
            )
        if not port.layer_info.is_equivalent(layer):
            raise ValueError(
                f"{cell.name!r}: port {port.name} is on {port.layer_info}, the guide on {layer}; name others"
            )


def _check_straight(heater: gf.Component, left: Any, right: Any, section: Any) -> None:
    """The other arm is a straight: a heater whose guide winds would make an MZI of unequal arms."""
    drawn = kdb.Region(heater.begin_shapes_rec(gf.get_layer(section.layer))).merged()
    half = section.width / 2
    straight = kdb.DBox(left.center[0], left.center[1] - half, right.center[0], right.center[1] + half)
    other = drawn ^ kdb.Region(straight.to_itype(heater.kcl.dbu))
    if not other.is_empty():
        raise ValueError(
            f"heater {heater.name!r}: its guide is no straight of the cross-section from {left.name} to {right.name}, "
            f"it differs at {other.bbox().to_dtype(heater.kcl.dbu)} µm; arms would not be equally long"
        )


def _on_grid(what: str, value: float) -> float:
    if not math.isfinite(value) or abs(value * GRID_PER_UM - round(value * GRID_PER_UM)) > 1e-6:
        raise ValueError(f"{what} is {value} µm, off the 1 nm grid; give another mode_pitch_um")
    return round(value, 3)


def _guide(parts: _Parts, name: str, line: Points) -> gf.Component:
    """A guide of the cross-section along a centreline that starts and ends horizontally.

    Extruded here: gdsfactory finds its own straights and bends again by name, whichever PDK they were drawn for.
    """

    def draw() -> gf.Component:
        path = gf.Path(line)
        path.start_angle = path.end_angle = 0.0
        return path.extrude(parts.section)

    return _cell(name, parts, draw)


def _s(parts: _Parts) -> gf.Component:
    """The S from a mode up to a coupler's port, straight after its bends."""
    radius = float(parts.section.radius)
    # chords stay within half a step of the grid of their arc
    chords = math.ceil(math.pi / 4 / math.acos(1 - 0.5 / GRID_PER_UM / radius))
    return _guide(parts, "bend_s", s_bend(*parts.s_um, radius, chords))


def _straight(parts: _Parts, name: str, cell: gf.Component, left: str, right: str) -> gf.Component:
    """A straight as long as a cell is from port to port."""
    length = float(cell.ports[right].center[0] - cell.ports[left].center[0])
    return _guide(parts, name, np.array([[0.0, 0.0], [round(length, 3), 0.0]]))


def _mzi(parts: _Parts) -> gf.Component:
    """One MZI; o2 and o3 on the upper mode at y = 0, o1 and o4 a mode pitch below."""
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


def _stage(c: gf.Component, parts: _Parts, x: float) -> tuple[Any, Any, Any, Any]:
    """Add a heater over a straight, and a coupler between S-bends; they start at ``x``, the heater at y = 0.

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


def _idle(parts: _Parts) -> gf.Component:
    """The way through an MZI without couplers and heaters, for a mode at y = 0; it reaches below the mode."""
    c = gf.Component()
    arm, bend = _straight(parts, "arm", parts.heater, *parts.heater_ports), _s(parts)
    through = _straight(parts, "through", parts.coupler, *parts.coupler_ports[1:3])
    way = [c << arm]
    for cell in (bend, through, bend, arm, bend, through, bend):
        piece = c << cell
        # the first S of either half goes down
        piece.connect("o1", way[-1].ports["o2"], mirror=cell is bend and len(way) % 4 == 1)
        way.append(piece)
    c.add_port("o1", port=way[0].ports["o1"])
    c.add_port("o2", port=way[-1].ports["o2"])
    return c
