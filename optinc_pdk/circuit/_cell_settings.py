"""What instances of the package's cells state in netlists: arguments, lengths, widths and cross-sections.

Schematics state the arguments that differ from their default values. A netlist of a layout states all arguments, and
``info`` besides; see :class:`SchematicInstance`. Names that the PDK does not have are refused: what they would draw is
unknown.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from optinc_pdk.cards.device import GUIDE_CELLS
from optinc_pdk.cards.device_models import PATH_DIFFERENCE
from optinc_pdk.circuit.checked_values import NetlistError, number_of
from optinc_pdk.circuit.schematic_cells import RouteStatement, SchematicInstance

_WIRE = ("cross_section", "width")
_BEND = ("radius", "angle", "npoints", "angular_step", "layer", "allow_min_radius_violation", *_WIRE)
_RING = ("radius", "length_x", "bend", "straight")
_PORTS = ("port_names", "port_types")
ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "bend_circular": _BEND,
    "bend_euler": (*_BEND, "p", "with_arc_floorplan"),
    "bend_s": ("size", "npoints", "allow_min_radius_violation", *_WIRE),
    "bump": (),
    "coupler": ("gap", "length", "dy", "dx", "cross_section", "allow_min_radius_violation", "bend"),
    "coupler_ring": (*_RING, "gap", "cross_section", "cross_section_bend", "length_extension"),
    "coupler_ring_bend": (
        *_RING,
        "coupler_gap",
        "coupling_angle_coverage",
        "cross_section_inner",
        "cross_section_outer",
        "bend_output",
    ),
    "coupler_straight": ("length", "gap", "cross_section"),
    "crossing": (),
    "directional_coupler": (),
    "edge_coupler": (),
    "grating_coupler": ("cross_section",),
    "mmi1x2": ("cross_section",),
    "mmi2x2": ("cross_section",),
    "modulator": (),
    "monitor_tap": (),
    "pad": ("size",),
    "phase_shifter": ("length_um",),
    "photodiode": (),
    "straight": ("length", "npoints", *_WIRE),
    "taper": ("length", "width1", "width2", "layer", "with_two_ports", "cross_section", *_PORTS, "with_bbox"),
    "terminator": (),
    "wire_corner": (*_PORTS, *_WIRE, "radius"),
    "wire_straight": ("length", "npoints", *_WIRE),
}
"""Names of the arguments of each cell."""
DEFAULTS: Mapping[str, Mapping[str, float]] = {
    "coupler": {"gap": 0.236},
    "coupler_ring": {"gap": 0.2},
    "coupler_ring_bend": {"coupler_gap": 0.21},
    "coupler_straight": {"gap": 0.27, "length": 10.0},
    "straight": {"length": 10.0},
}
"""Default values of the arguments that LVS compares, in µm."""


def complete_instance(instance: str, part: SchematicInstance, further: Collection[str] = ()) -> SchematicInstance:
    """Return an instance of a schematic with the default values of the arguments that it does not state.

    ``further`` are settings that a netlist may state besides the arguments.

    Raises:
        NetlistError: The cell has no argument of the name of a setting; the message names instance and setting.
    """
    known = ARGUMENTS.get(part.component)
    if known is None:
        return part
    unknown = sorted(set(part.settings) - set(known) - set(further))
    if unknown:
        listed = ", ".join(sorted({*known, *further})) or "none"
        raise NetlistError(
            f"instance {instance!r}: {part.component} has no setting {unknown[0]!r}, it has {listed}; correct or "
            "remove it"
        )
    stated = {key: value for key, value in part.settings.items() if value is not None}
    return replace(part, settings={**DEFAULTS.get(part.component, {}), **stated})


TOLERANCE_UM = 0.0011
"""Difference of a length in ``settings`` and in ``info`` that rounding explains: 1 nm, and the rounding of numbers."""
LONGEST_UM = 1.0e9
"""Longest part of a guide."""
LENGTH_ARGUMENTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "straight": {"length": ("length",)},
    "wire_straight": {"length": ("length",)},
    "coupler": {"gap": ("gap_um",)},
    "coupler_ring": {"gap": ("gap_um",)},
    "coupler_ring_bend": {"coupler_gap": ("gap_um",)},
    "coupler_straight": {"gap": ("gap_um",), "length": ("guide_1_um", "guide_2_um")},
}
"""Arguments of cells, and the entries of ``info`` that are the same quantity.

The argument ``length`` of other cells is that of one of their parts.
"""


def check_contradictions(instance: str, part: SchematicInstance, keys: tuple[str, ...] = ()) -> None:
    """Check that the lengths that an instance states in ``settings`` are those in its ``info``.

    ``keys`` are entries that have the same name in both.

    Raises:
        NetlistError: A length is no number, is negative, or differs; the message names instance, keys and both values.
    """
    same = {key: (key,) for key in keys} | dict(LENGTH_ARGUMENTS.get(part.component, {}))
    for argument, entries in same.items():
        if part.settings.get(argument) is None:
            continue
        given = stated_um(f"instance {instance!r}: {argument} in settings", part.settings[argument], argument)
        for key in entries:
            if part.info.get(key) is None:
                continue
            found = stated_um(f"instance {instance!r}: {key} in info", part.info[key], key)
            if abs(found - given) > TOLERANCE_UM:
                raise NetlistError(
                    f"instance {instance!r}: {argument} is {given:.10g} µm in settings, but {key} is {found:.10g} µm "
                    "in info; correct one of them, or write the netlist again with get_netlist"
                )


def argument_settings(instance: str, part: SchematicInstance, keys: Collection[str]) -> dict[str, float]:
    """Return those of a device's settings ``keys`` that are arguments of its cell.

    Raises:
        NetlistError: An argument is no length.
    """
    return {
        entry: stated_um(f"instance {instance!r}: {argument}", part.settings[argument])
        for argument, entries in LENGTH_ARGUMENTS.get(part.component, {}).items()
        if part.settings.get(argument) is not None
        for entry in entries
        if entry in keys
    }


def stated_um(where: str, value: object, key: str = "length") -> float:
    """Return a value that is the length of a guide or part of a device in µm; only differences may be negative.

    Raises:
        NetlistError: It is not such a length; the message begins with ``where``.
    """
    length = number_of(where, value)
    least = -LONGEST_UM if key == PATH_DIFFERENCE else 0.0
    if not least <= length <= LONGEST_UM:
        raise NetlistError(f"{where} is {length:g} µm, possible are {least:g} to {LONGEST_UM:g} µm; correct it")
    return length


GUIDE_SECTION = "strip"
"""Cross-section of guides, and the default of all cells of guides."""
CROSS_SECTIONS = ("metal_routing", GUIDE_SECTION, "wire")
"""Cross-sections of the PDK of a process."""
ROUTING_STRATEGIES = ("route_bundle", "route_bundle_all_angle", "route_bundle_electrical", "route_bundle_sbend")
"""Routing strategies of the PDK of a process."""
_KEYS = ("cross_section", "cross_section_bend", "cross_section_inner", "cross_section_outer")
# gdsfactory names a cross-section that differs from a named one by a digest
_DERIVED = re.compile(r"xs_[0-9a-f]+")


def check_cross_sections(where: str, settings: Mapping[str, Any]) -> None:
    """Check that the cross-sections that settings name are those of the PDK, or derived from them by gdsfactory.

    Raises:
        NetlistError: The PDK has no such cross-section; the message names ``where``, it and those that exist.
    """
    for key in _KEYS:
        name, _ = _section(settings.get(key))
        if name is not None and name not in CROSS_SECTIONS and not _DERIVED.fullmatch(name):
            raise NetlistError(
                f"{where}: {key} {reprlib.repr(name)} is no cross-section of the PDK, which has "
                f"{', '.join(CROSS_SECTIONS)}; correct it"
            )


def check_route(where: str, route: RouteStatement) -> None:
    """Check that a route has a strategy and a cross-section of the PDK.

    Raises:
        NetlistError: The PDK does not have one of them; the message names ``where``, it and those that exist.
    """
    if route.strategy is not None and route.strategy not in ROUTING_STRATEGIES:
        raise NetlistError(
            f"{where}: routing_strategy {reprlib.repr(route.strategy)} is none of the PDK, which has "
            f"{', '.join(ROUTING_STRATEGIES)}; correct it"
        )
    check_cross_sections(where, route.settings)


def stated_width_um(instance: str, part: SchematicInstance) -> float | None:
    """Return the width in µm that a part of a guide or wire states; None if it states none.

    Raises:
        NetlistError: It is no number.
    """
    _, width = _section(part.settings.get("cross_section"))
    for value in (part.settings.get("width"), width, part.info.get("width")):
        if value is not None:
            return number_of(f"instance {instance!r}: width", value)
    return None


def is_guide(part: SchematicInstance) -> bool:
    """Return whether a part of a guide or wire of the PDK is surely a guide, by its cell and its cross-section."""
    name, _ = _section(part.settings.get("cross_section"))
    return not part.component.startswith("wire_") and name in (None, GUIDE_SECTION)


def _section(value: object) -> tuple[str | None, object]:
    """Return name and width of a cross-section: a name, or a mapping of a name and settings; None if not stated."""
    if isinstance(value, Mapping):
        settings = value.get("settings")
        inner = settings if isinstance(settings, Mapping) else value
        name = value.get("cross_section")
        return (name if isinstance(name, str) else None), inner.get("width")
    return (value if isinstance(value, str) else None), None


GUIDE_ENDS = ("o1", "o2")
"""Ports of a part of a guide."""
WIDTH_TOLERANCE_UM = 0.001


@dataclass(frozen=True)
class GuideFault:
    """A part of a guide that no layout of the process can have.

    Attributes:
        kind: ``"guide_width"`` or ``"open_guide"``.
        instance: Full name of its instance.
        message: Description.
        position_um: Origin (x, y) of its cell in the layout in µm; None if it is unknown.
    """

    kind: str
    instance: str
    message: str
    position_um: tuple[float, float] | None


def guide_faults(
    parts: Mapping[str, SchematicInstance], connected: Container[tuple[str, str]], width_um: float
) -> Iterator[GuideFault]:
    """Yield a fault for each part of a guide of another width than the process's, or with an end that leads nowhere.

    LVS compares guides as connections between devices, so that these would have no effect on it. ``parts`` are by the
    full names of their instances, and ``connected`` are ports as instance and name.

    Raises:
        NetlistError: A width is no number.
    """
    for instance, guide in parts.items():
        at = guide.transform
        position = None if at is None else (at.x_um, at.y_um)
        width = stated_width_um(instance, guide) if guide.component in GUIDE_CELLS else None
        if width is not None and abs(width - width_um) > WIDTH_TOLERANCE_UM:
            text = f"guide {instance!r} of the netlist is {width:g} µm wide, guides of the process are {width_um:g} µm"
            yield GuideFault("guide_width", instance, text, position)
        if ends := [end for end in GUIDE_ENDS if (instance, end) not in connected]:
            text = f"guide {instance!r} of the netlist is not connected at {' and '.join(ends)}"
            yield GuideFault("open_guide", instance, text, position)
