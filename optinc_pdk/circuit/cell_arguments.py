"""Arguments of the package's cells, for schematics, which state those that differ from their default values.

A netlist of a layout states all arguments, and ``info`` besides; see :class:`SchematicInstance`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from optinc_pdk.circuit.errors import NetlistError
from optinc_pdk.circuit.schematic_cells import SchematicInstance

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

    Args:
        instance: Full name of the instance, for messages.
        part: Instance of a cell of the package.
        further: Settings that a netlist may state besides the arguments.

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
