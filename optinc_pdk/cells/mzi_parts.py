"""Coupler, heater and guide of another PDK, and the check that an MZI can be composed of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import gdsfactory as gf
import klayout.db as kdb
from gdsfactory.typings import CrossSectionSpec

from optinc_pdk.cells.curves import GRID_PER_UM


@dataclass(frozen=True)
class MziParts:
    """The cells that an MZI is composed of, and the names of their ports by position.

    Attributes:
        coupler: 2×2 coupler.
        coupler_ports: Ports of the coupler: lower left, upper left, upper right, lower right.
        heater: Straight guide under a heater.
        heater_ports: Optical ports of the heater: left, right.
        section: Cross-section of the guides between coupler and heater.
        s_um: Length and height (µm) of the S-bend between a mode and a port of the coupler.
        pitch_um: Distance between adjacent modes in µm.
    """

    coupler: gf.Component
    coupler_ports: tuple[str, str, str, str]
    heater: gf.Component
    heater_ports: tuple[str, str]
    section: Any
    s_um: tuple[float, float]
    pitch_um: float


def check_mzi_parts(
    coupler: gf.Component, heater: gf.Component, guide: CrossSectionSpec, mode_pitch_um: float | None
) -> MziParts:
    """Check that an MZI can be composed of a coupler and a heater, and determine the S-bend and the mode pitch.

    Args:
        coupler: 2×2 coupler.
        heater: Heater over a straight guide.
        guide: Cross-section of the guides.
        mode_pitch_um: Distance between adjacent modes in µm, or None for the smallest that leaves enough space.

    Returns:
        The cells with their port names, the cross-section, the size of the S-bend and the mode pitch.

    Raises:
        ValueError: A port of the coupler or heater is not at the position that an MZI requires, or has another width or
            layer than the guide; the heater's guide is not straight; or the mode pitch is too small or not on the 1 nm
            grid.
    """
    section = gf.get_cross_section(guide)
    if section.radius is None:
        raise ValueError(f"guide {guide!r} has no bend radius; give a cross-section with a radius")
    coupler_ports = _coupler_ports(coupler, section)
    heater_ports = _heater_ports(heater, section)
    box, heights = heater.dbbox(), [float(coupler.ports[name].center[1]) for name in coupler_ports[:2]]
    ports_pitch = heights[1] - heights[0]
    if mode_pitch_um is None:
        least = max(2 * box.height(), coupler.dbbox().height())
        mode_pitch_um = ports_pitch + 2 * math.ceil(max(least - ports_pitch, 0) / 2)
    offset = _on_grid("half of (mode_pitch_um minus the coupler's port pitch)", (mode_pitch_um - ports_pitch) / 2)
    if offset <= 0 or mode_pitch_um <= box.height():
        raise ValueError(
            f"mode_pitch_um is {mode_pitch_um:g}; the heater is {box.height():g} µm high and the coupler's ports are "
            f"{ports_pitch:g} µm apart; give a larger pitch than both"
        )
    start, end = (float(heater.ports[name].center[0]) for name in heater_ports)
    # contacts that extend beyond the heater's guide must end within the length of the S-bend beside it
    overhang = max(start - box.left, box.right - end)
    radius = float(section.radius)
    reach = 2 * radius if offset >= 2 * radius else math.sqrt(offset * (4 * radius - offset))
    s_um = float(math.ceil(max(reach, overhang))), offset
    return MziParts(coupler, coupler_ports, heater, heater_ports, section, s_um, float(mode_pitch_um))


def _coupler_ports(coupler: gf.Component, section: Any) -> tuple[str, str, str, str]:
    """Check a 2×2 coupler and return its ports: lower left, upper left, upper right, lower right."""
    optical = [port for port in coupler.ports if port.port_type == "optical"]
    sides = {angle: [p for p in optical if round(p.orientation) % 360 == angle] for angle in (180, 0)}
    listed = ", ".join(f"{p.name} at {p.center} facing {p.orientation:g}°" for p in optical)
    if len(optical) != 4 or any(len(ports) != 2 for ports in sides.values()):
        raise ValueError(
            f"coupler {coupler.name!r}: a 2×2 coupler needs two ports on the left and two on the right; it has {listed}"
        )
    left, right = (sorted(ports, key=lambda p: p.center[1]) for ports in sides.values())
    in_line: list[tuple[Any, Any, int]] = [(left[0], left[1], 0), (right[0], right[1], 0)]
    in_line += [(a, b, 1) for a, b in zip(left, right, strict=True)]
    for a, b, axis in in_line:
        if not math.isclose(a.center[axis], b.center[axis], abs_tol=0.5 / GRID_PER_UM):
            raise ValueError(
                f"coupler {coupler.name!r}: {a.name} and {b.name} differ in {'xy'[axis]}, an MZI needs them in line; "
                f"it has {listed}"
            )
    _check_guides(coupler, optical, section)
    return str(left[0].name), str(left[1].name), str(right[1].name), str(right[0].name)


def _heater_ports(heater: gf.Component, section: Any) -> tuple[str, str]:
    """Check a heater and return the ports of its guide: left, right."""
    optical = [port for port in heater.ports if port.port_type == "optical"]
    listed = ", ".join(f"{p.name} at {p.center} facing {p.orientation:g}°" for p in optical)
    left, right = ([p for p in optical if round(p.orientation) % 360 == angle] for angle in (180, 0))
    if len(optical) != 2 or len(left) != 1 or len(right) != 1:
        raise ValueError(f"heater {heater.name!r}: needs one guide from left to right; its ports are {listed}")
    (a,), (b,) = left, right
    if not math.isclose(a.center[1], b.center[1], abs_tol=0.5 / GRID_PER_UM) or a.center[0] >= b.center[0]:
        raise ValueError(f"heater {heater.name!r}: the ends of its guide are not in line from left to right: {listed}")
    if len([port for port in heater.ports if port.port_type == "electrical"]) < 2:
        raise ValueError(f"heater {heater.name!r} has fewer than 2 electrical ports; give a heater with contacts")
    _check_guides(heater, optical, section)
    _check_straight(heater, a, b, section)
    return str(a.name), str(b.name)


def _check_guides(cell: gf.Component, ports: list[Any], section: Any) -> None:
    """Check that ports have the guide's width and layer."""
    layer = gf.get_layer_info(section.layer)
    for port in ports:
        if not math.isclose(port.width, section.width, abs_tol=0.5 / GRID_PER_UM):
            raise ValueError(
                f"{cell.name!r}: port {port.name} is {port.width:g} µm wide, the guide {section.width:g}; "
                "give cells and a guide of one width"
            )
        if not port.layer_info.is_equivalent(layer):
            raise ValueError(
                f"{cell.name!r}: port {port.name} is on {port.layer_info}, the guide on {layer}; "
                "give cells and a guide of one layer"
            )


def _check_straight(heater: gf.Component, left: Any, right: Any, section: Any) -> None:
    """Check that a heater's guide is straight: the other arm of the MZI is a straight of the same extent."""
    drawn = kdb.Region(heater.begin_shapes_rec(gf.get_layer(section.layer))).merged()
    half = section.width / 2
    straight = kdb.DBox(left.center[0], left.center[1] - half, right.center[0], right.center[1] + half)
    other = drawn ^ kdb.Region(straight.to_itype(heater.kcl.dbu))
    if not other.is_empty():
        raise ValueError(
            f"heater {heater.name!r}: its guide is not a straight of the cross-section from {left.name} to "
            f"{right.name}, it differs at {other.bbox().to_dtype(heater.kcl.dbu)} µm; the arms would differ in length"
        )


def _on_grid(what: str, value: float) -> float:
    """Check that a length in µm is on the 1 nm grid, and round it to 1 nm."""
    if not math.isfinite(value) or abs(value * GRID_PER_UM - round(value * GRID_PER_UM)) > 1e-6:
        raise ValueError(f"{what} is {value} µm, not on the 1 nm grid; give another mode_pitch_um")
    return round(value, 3)
