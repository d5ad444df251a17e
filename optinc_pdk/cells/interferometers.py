"""Interferometers of a mesh: MZI, its dummy for idle slots, attenuator. All arms are drawn equally long."""

from __future__ import annotations

from dataclasses import dataclass

import gdsfactory as gf

from optinc_pdk.cards import Process
from optinc_pdk.cells.cached import cell
from optinc_pdk.cells.devices import mmi2x2, phase_shifter, terminator
from optinc_pdk.cells.draw import add_optical, place
from optinc_pdk.cells.routes import bent_guide, s_guide, s_guide_back, straight_guide
from optinc_pdk.tech import active_process


@dataclass(frozen=True)
class MziFrame:
    """Positions along an MZI's column, in µm from the column's start."""

    phi: float
    first: float
    theta: float
    second: float
    end: float
    shifter: float
    bend: float
    coupler: float


def mzi_frame(process: Process) -> MziFrame:
    """The frame of the MZI: phi heater, S, coupler, S, theta heater, S, coupler, S."""
    heater, mmi = process.device("phase_shifter"), process.device("mmi2x2")
    shifter = heater.size("length_um") + 2 * heater.size("contact_width_um")
    coupler = mmi.size("length_um") + 2 * mmi.size("taper_length_um")
    bend = 2 * float(process.guide.radius_um)
    first = shifter + bend
    theta = first + coupler + bend
    second = theta + shifter + bend
    return MziFrame(0.0, first, theta, second, second + coupler + bend, shifter, bend, coupler)


def half_pitch(process: Process) -> tuple[float, float]:
    """Half the distance of two modes, and of two coupler ports."""
    mmi = process.device("mmi2x2")
    return float(process.floorplan.mode_pitch_um) / 2, (mmi.size("gap_um") + mmi.size("taper_width_um")) / 2


@cell
def mzi() -> gf.Component:
    """Mach-Zehnder interferometer between two modes; o2 and o3 on the upper mode at y = 0.

    Internal phase theta on the upper arm, external phase phi on the upper input arm.
    e1, e2: phi signal and ground; e3, e4: theta signal and ground.
    """
    c = gf.Component()
    process = active_process()
    f = mzi_frame(process)
    half, port = half_pitch(process)
    heater, coupler = phase_shifter(), mmi2x2()
    upper, lower, high, low = 0.0, -2 * half, -half + port, -half - port
    phi = place(c, heater, (0.0, upper))
    straight_guide(c, 0.0, f.shifter, lower)
    s_guide(c, (f.shifter, upper), (f.first, high))
    s_guide(c, (f.shifter, lower), (f.first, low))
    place(c, coupler, (f.first, -half))
    s_guide(c, (f.first + f.coupler, high), (f.theta, upper))
    s_guide(c, (f.first + f.coupler, low), (f.theta, lower))
    theta = place(c, heater, (f.theta + f.shifter, upper), rotation=180, mirror=True)
    straight_guide(c, f.theta, f.theta + f.shifter, lower)
    s_guide(c, (f.theta + f.shifter, upper), (f.second, high))
    s_guide(c, (f.theta + f.shifter, lower), (f.second, low))
    place(c, coupler, (f.second, -half))
    s_guide(c, (f.second + f.coupler, high), (f.end, upper))
    s_guide(c, (f.second + f.coupler, low), (f.end, lower))
    for name, at, side in (
        ("o1", (0.0, lower), 180),
        ("o2", (0.0, upper), 180),
        ("o3", (f.end, upper), 0),
        ("o4", (f.end, lower), 0),
    ):
        add_optical(c, name, at, side)
    for name, source in (("e1", phi["e1"]), ("e2", phi["e2"]), ("e3", theta["e1"]), ("e4", theta["e2"])):
        c.add_port(name=name, port=source)
    return c


@cell
def mzi_dummy() -> gf.Component:
    """The MZI without heaters for one mode at y = 0: same couplers and lengths, so the same loss.

    Unheated arms of equal length are a cross: the mode enters the upper port of the first coupler and leaves the
    lower port of the second; the dark ports end in terminators. It reaches above the mode; mirror it to reach below.
    """
    c = gf.Component()
    process = active_process()
    f = mzi_frame(process)
    half, port = half_pitch(process)
    # one port pitch lower than an MZI's, which makes rise and fall together as long as an MZI's two falls
    middle = half - port
    high, low, top, bottom = middle + port, middle - port, middle + half, middle - half
    r, coupler, end_of_light = float(process.guide.radius_um), mmi2x2(), terminator()
    # the mode rises far enough before the coupler for the dark port to turn down behind it
    turn = f.first - f.bend - 2 * r - float(process.floorplan.guide_space_um)
    straight_guide(c, 0.0, turn, 0.0)
    s_guide(c, (turn, 0.0), (f.first, high))
    bent_guide(c, (f.first, low), (f.first - r, low), (f.first - r, low - r))
    place(c, end_of_light, (f.first - r, low - r), rotation=270)
    place(c, coupler, (f.first, middle))
    for y, arm in ((high, top), (low, bottom)):
        s_guide(c, (f.first + f.coupler, y), (f.theta, arm))
        straight_guide(c, f.theta, f.theta + f.shifter, arm)
        s_guide(c, (f.theta + f.shifter, arm), (f.second, y))
    place(c, coupler, (f.second, middle))
    place(c, end_of_light, (f.second + f.coupler, high))
    s_guide(c, (f.second + f.coupler, low), (f.end, 0.0))
    add_optical(c, "o1", (0.0, 0.0), 180)
    add_optical(c, "o2", (f.end, 0.0), 0)
    return c


@cell
def attenuator() -> gf.Component:
    """Mach-Zehnder attenuator within one mode's height, from o1 to o2 at y = 0; the rest goes to a dump.

    Passes i·exp(iθ/2)·sin(θ/2): closed without power. e1 signal, e2 ground.
    """
    c = gf.Component()
    process = active_process()
    f = attenuator_frame(process)
    half, port = float(process.floorplan.mode_pitch_um) / 4, half_pitch(process)[1]
    high, low, lower = -half + port, -half - port, -2 * half
    coupler, end_of_light = mmi2x2(), terminator()
    s_guide_back(c, (0.0, 0.0), (f.first, high))
    place(c, end_of_light, (f.first, low), rotation=180)
    place(c, coupler, (f.first, -half))
    s_guide(c, (f.first + f.coupler, high), (f.theta, 0.0))
    s_guide(c, (f.first + f.coupler, low), (f.theta, lower))
    theta = place(c, phase_shifter(), (f.theta, 0.0))
    straight_guide(c, f.theta, f.theta + f.shifter, lower)
    s_guide_back(c, (f.theta + f.shifter, 0.0), (f.second, high))
    s_guide_back(c, (f.theta + f.shifter, lower), (f.second, low))
    place(c, coupler, (f.second, -half))
    place(c, end_of_light, (f.second + f.coupler, low))
    s_guide(c, (f.second + f.coupler, high), (f.end, 0.0))
    add_optical(c, "o1", (0.0, 0.0), 180)
    add_optical(c, "o2", (f.end, 0.0), 0)
    c.add_port(name="e1", port=theta["e1"])
    c.add_port(name="e2", port=theta["e2"])
    return c


def attenuator_frame(process: Process) -> MziFrame:
    """The frame of the attenuator: room for a terminator, coupler, S, theta heater, S, coupler, room."""
    f = mzi_frame(process)
    room = process.device("terminator").size("length_um") + 3 * float(process.floorplan.guide_space_um)
    theta = room + f.coupler + f.bend
    second = theta + f.shifter + f.bend
    return MziFrame(0.0, room, theta, second, second + f.coupler + room, f.shifter, f.bend, f.coupler)
