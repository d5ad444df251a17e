"""Homodyne detection and activations, and the trees that carry light to them."""

from __future__ import annotations

from typing import Any

import gdsfactory as gf

from optinc_pdk.cells.blackboxes import modulator, photodiode
from optinc_pdk.cells.cached import cell
from optinc_pdk.cells.devices import grating_coupler, mmi1x2, mmi2x2, phase_shifter
from optinc_pdk.cells.draw import LIMIT_UM, add_optical, check_count, place
from optinc_pdk.cells.interferometers import half_pitch, mzi_frame
from optinc_pdk.cells.routes import bent_guide, s_guide, straight_guide
from optinc_pdk.tech import active_process


@cell
def splitter_tree(leaves: int = 4) -> gf.Component:
    """A balanced tree of 1×2 splitters, a mode's height per leaf; backwards, a combiner. All ways are equally long.

    Args:
        leaves: 2, 4, 8, …

    o1 is the root; o2, o3, … are the leaves from above.

    Raises:
        ValueError: No power of two: its leaves would not be balanced.
    """
    process = active_process()
    pitch, radius = float(process.floorplan.mode_pitch_um), float(process.guide.radius_um)
    check_count("leaves", leaves, 2, int(LIMIT_UM / pitch), "splitter_tree")
    if leaves & (leaves - 1):
        raise ValueError(f"splitter_tree: leaves is {leaves}; balanced trees have 2, 4, 8, … leaves, take one of these")
    c = gf.Component()
    card, splitter = process.device("mmi1x2"), mmi1x2()
    length = card.size("length_um") + 2 * card.size("taper_length_um")
    port = (card.size("gap_um") + card.size("taper_width_um")) / 2
    add_optical(c, "o1", (0.0, 0.0), 180)
    x, nodes = 0.0, [0.0]
    while len(nodes) < leaves:
        # half the distance of the nodes that follow
        half = pitch * leaves / len(nodes) / 4
        for y in nodes:
            place(c, splitter, (x, y))
            for side in (1, -1):
                s_guide(c, (x + length, y + side * port), (x + length + 2 * radius, y + side * half))
        x += length + 2 * radius
        nodes = [y + side * half for y in nodes for side in (1, -1)]
    for i, y in enumerate(nodes):
        add_optical(c, f"o{i + 2}", (x, y), 0)
    return c


@cell
def homodyne_mixer() -> gf.Component:
    """Signal and local oscillator in a 2×2 coupler; a heater trims the oscillator's phase. All arms are equally long.

    o1 local oscillator, o2 signal at y = 0, o3 and o4 to two balanced detectors; e1 signal, e2 ground of the trim.
    """
    c = gf.Component()
    process = active_process()
    f = mzi_frame(process)
    half, port = half_pitch(process)
    upper, lower, high, low = 0.0, -2 * half, -half + port, -half - port
    trim = place(c, phase_shifter(), (f.shifter, lower), rotation=180, mirror=True)
    straight_guide(c, 0.0, f.shifter, upper)
    s_guide(c, (f.shifter, upper), (f.first, high))
    s_guide(c, (f.shifter, lower), (f.first, low))
    place(c, mmi2x2(), (f.first, -half))
    # a straight between these bends and what follows, else two bends together would be too tight
    end = f.theta + float(process.floorplan.guide_space_um)
    s_guide(c, (f.first + f.coupler, high), (end, upper))
    s_guide(c, (f.first + f.coupler, low), (end, lower))
    for name, at, side in (
        ("o1", (0.0, lower), 180),
        ("o2", (0.0, upper), 180),
        ("o3", (end, upper), 0),
        ("o4", (end, lower), 0),
    ):
        add_optical(c, name, at, side)
    c.add_port(name="e1", port=trim["e1"])
    c.add_port(name="e2", port=trim["e2"])
    return c


def _mixer(c: gf.Component) -> Any:
    """Place the mixer with its inputs and its trim as ports."""
    mixer = place(c, homodyne_mixer(), (0.0, 0.0))
    for name in ("o1", "o2", "e1", "e2"):
        c.add_port(name=name, port=mixer[name])
    return mixer


@cell
def activation_offchip() -> gf.Component:
    """The part of an activation that is on the die if detectors and modulators are off it: mixer, two fibres.

    o1 local oscillator, o2 signal, o3 and o4 the upper and lower fibre; e1, e2 the trim's.
    """
    c = gf.Component()
    process = active_process()
    mixer = _mixer(c)
    spread = float(process.floorplan.fibre_pitch_um - process.floorplan.mode_pitch_um) / 2
    length = 2 * float(process.guide.radius_um) + float(process.floorplan.guide_space_um)
    for name, side in (("o3", 1), ("o4", -1)):
        x, y = mixer[name].center
        end = (x + length, y + side * spread)
        s_guide(c, (x, y), end)
        grating = place(c, grating_coupler(), end)
        c.add_port(name=name, port=grating["o2"])
    return c


@cell
def activation_onchip() -> gf.Component:
    """An activation with its light on the die: mixer, two photodiodes, and a modulator on a fresh carrier.

    o1 local oscillator, o2 signal, o3 carrier from below, o4 modulated light at y = 0. e1, e2 the trim's; e3, e4 and
    e5, e6 the upper and lower photodiode's; e7, e8 the modulator's.
    """
    c = gf.Component()
    process = active_process()
    mixer = _mixer(c)
    for name, first in (("o3", 3), ("o4", 5)):
        diode = place(c, photodiode(), mixer[name].center)
        c.add_port(name=f"e{first}", port=diode["e1"])
        c.add_port(name=f"e{first + 1}", port=diode["e2"])
    pitch, radius = float(process.floorplan.mode_pitch_um), float(process.guide.radius_um)
    room = float(process.floorplan.guide_space_um)
    carrier = mixer["o3"].center[0] + process.device("photodiode").size("box_length_um") + 2 * room
    # half a mode below the lower photodiode, where the next row begins
    bottom = -1.5 * pitch
    bent_guide(c, (carrier, bottom), (carrier, 0.0), (carrier + radius + room, 0.0))
    add_optical(c, "o3", (carrier, bottom), 270)
    driven = place(c, modulator(), (carrier + radius + room, 0.0))
    c.add_port(name="o4", port=driven["o2"])
    c.add_port(name="e7", port=driven["e1"])
    c.add_port(name="e8", port=driven["e2"])
    return c
