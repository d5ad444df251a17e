"""Cells of the activation function: splitter tree, homodyne mixer, off-chip and on-chip activation."""

from __future__ import annotations

from typing import Any

import gdsfactory as gf

from optinc_pdk.cells._devices import grating_coupler, mmi1x2, mmi2x2, modulator, phase_shifter, photodiode
from optinc_pdk.cells._guides import add_bent_guide, add_s_guide, add_s_guides, add_straight_guide
from optinc_pdk.cells.drawing import LIMIT_UM, add_corner_ports, add_optical, cell, check_count, place_cell
from optinc_pdk.cells.interferometers import half_pitches_um, mzi_positions
from optinc_pdk.tech import active_process


@cell
def splitter_tree(leaves: int = 4) -> gf.Component:
    """Balanced tree of 1×2 splitters whose paths all have the same length; used backwards, it is a combiner.

    The leaves are one mode pitch apart. o1 is the root; o2, o3, … are the leaves from top to bottom.

    Args:
        leaves: Number of leaves, a power of two from 2.

    Raises:
        ValueError: ``leaves`` is not a power of two, or the tree would be larger than 1 m.
    """
    process = active_process()
    pitch, radius = float(process.floorplan.mode_pitch_um), float(process.guide.radius_um)
    check_count("leaves", leaves, 2, int(LIMIT_UM / pitch), "splitter_tree")
    if leaves & (leaves - 1):
        raise ValueError(
            f"splitter_tree: leaves is {leaves}; a balanced tree has 2, 4, 8, … leaves, give one of these numbers"
        )
    c = gf.Component()
    card, splitter = process.device("mmi1x2"), mmi1x2()
    length = card.size("length_um") + 2 * card.size("taper_length_um")
    port = (card.size("gap_um") + card.size("taper_width_um")) / 2
    add_optical(c, "o1", (0.0, 0.0), 180)
    x, nodes = 0.0, [0.0]
    while len(nodes) < leaves:
        # half the distance between the nodes of the next level
        half = pitch * leaves / len(nodes) / 4
        for y in nodes:
            place_cell(c, splitter, (x, y))
            for side in (1, -1):
                add_s_guide(c, (x + length, y + side * port), (x + length + 2 * radius, y + side * half))
        x += length + 2 * radius
        nodes = [y + side * half for y in nodes for side in (1, -1)]
    for i, y in enumerate(nodes):
        add_optical(c, f"o{i + 2}", (x, y), 0)
    return c


@cell
def homodyne_mixer() -> gf.Component:
    """Homodyne mixer: a 2×2 coupler that superposes signal and local oscillator, with arms of equal length.

    A trim heater sets the phase of the local oscillator. Ports: o1 local oscillator, o2 signal at y = 0, o3 and o4
    to the two balanced detectors; e1 signal and e2 ground of the trim heater.
    """
    c = gf.Component()
    process = active_process()
    f = mzi_positions(process)
    half, port = half_pitches_um(process)
    modes, ports = (0.0, -2 * half), (-half + port, -half - port)
    upper, lower = modes
    trim = place_cell(c, phase_shifter(), (f.shifter, lower), rotation=180, mirror=True)
    before = f.first - f.bend
    add_straight_guide(c, 0.0, before, upper)
    add_straight_guide(c, f.shifter, before, lower)
    add_s_guides(c, before, modes, f.first, ports)
    place_cell(c, mmi2x2(), (f.first, -half))
    # a straight behind these bends: directly after them, the bend of another cell would be too tight
    end = f.theta + float(process.floorplan.guide_space_um)
    add_s_guides(c, f.first + f.coupler, ports, end, modes)
    add_corner_ports(c, 0.0, end, lower, upper)
    c.add_port(name="e1", port=trim["e1"])
    c.add_port(name="e2", port=trim["e2"])
    return c


def _mixer(c: gf.Component) -> Any:
    """Place the homodyne mixer, and export its inputs and the contacts of its trim heater as ports."""
    mixer = place_cell(c, homodyne_mixer(), (0.0, 0.0))
    for name in ("o1", "o2", "e1", "e2"):
        c.add_port(name=name, port=mixer[name])
    return mixer


@cell
def activation_offchip() -> gf.Component:
    """On-die part of an activation with off-chip detectors and modulator: a homodyne mixer and two fibre couplers.

    Ports: o1 local oscillator, o2 signal, o3 and o4 upper and lower fibre; e1 and e2 signal and ground of the trim
    heater.
    """
    c = gf.Component()
    process = active_process()
    mixer = _mixer(c)
    spread = float(process.floorplan.fibre_pitch_um - process.floorplan.mode_pitch_um) / 2
    length = 2 * float(process.guide.radius_um) + float(process.floorplan.guide_space_um)
    for name, side in (("o3", 1), ("o4", -1)):
        x, y = mixer[name].center
        end = (x + length, y + side * spread)
        add_s_guide(c, (x, y), end)
        grating = place_cell(c, grating_coupler(), end)
        c.add_port(name=name, port=grating["o2"])
    return c


@cell
def activation_onchip() -> gf.Component:
    """On-chip activation: homodyne mixer, two photodiodes, and a modulator on a fresh carrier.

    Ports: o1 local oscillator, o2 signal, o3 carrier from below, o4 modulated light at y = 0; e1 and e2 of the trim
    heater, e3 and e4 of the upper photodiode, e5 and e6 of the lower one, e7 and e8 of the modulator.
    """
    c = gf.Component()
    process = active_process()
    mixer = _mixer(c)
    for name, first in (("o3", 3), ("o4", 5)):
        diode = place_cell(c, photodiode(), mixer[name].center)
        c.add_port(name=f"e{first}", port=diode["e1"])
        c.add_port(name=f"e{first + 1}", port=diode["e2"])
    pitch, radius = float(process.floorplan.mode_pitch_um), float(process.guide.radius_um)
    space = float(process.floorplan.guide_space_um)
    carrier = mixer["o3"].center[0] + process.device("photodiode").size("box_length_um") + 2 * space
    # half a mode below the lower photodiode, where the next row begins
    bottom = -1.5 * pitch
    add_bent_guide(c, (carrier, bottom), (carrier, 0.0), (carrier + radius + space, 0.0))
    add_optical(c, "o3", (carrier, bottom), 270)
    driven = place_cell(c, modulator(), (carrier + radius + space, 0.0))
    c.add_port(name="o4", port=driven["o2"])
    c.add_port(name="e7", port=driven["e1"])
    c.add_port(name="e8", port=driven["e2"])
    return c
