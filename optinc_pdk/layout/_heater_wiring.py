"""Electrically driven devices, metal widths for both kinds of wiring, and the wires of perimeter wiring.

Perimeter wires are on one metal: every signal runs outwards next to its column, every ground inwards to a bus.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from optinc_pdk.assemble import strip_names
from optinc_pdk.cards import Process
from optinc_pdk.cards.rules import PadSizeRule
from optinc_pdk.layout.canvas import Box, Canvas, CellFrames, Point, Port, snap
from optinc_pdk.layout.chip_layout import PlacementView

BLACK_BOXES = ("modulator", "photodiode")
"""Devices of the foundry with two pins, one above the other."""


@dataclass(frozen=True)
class SignalWire:
    """Signal wire of perimeter wiring, from a signal contact to the edge of the strips, where it runs vertically.

    Attributes:
        label: Label of its pad.
        corners: Corner points in µm, from the contact to the edge.
    """

    label: str
    corners: tuple[Point, ...]

    @property
    def x(self) -> float:
        """x in µm at which the wire leaves the strips."""
        return self.corners[-1][0]


class DrivenDevice(NamedTuple):
    """Device that a signal pad drives or reads: a heater, photodiode or modulator with a signal and a ground contact.

    Attributes:
        label: Label of its signal pad.
        instance: Name of the instance that contains it.
        signal: Middle of the outer edge of the signal contact; faces left or right.
        ground: Middle of the outer edge of the ground contact.
        landing: Centre of the bump landing that covers the signal contact and no other contact, in µm.
        stub: Metal box from a ground pin to the ground trunk, at sufficient distance from the signal pin; None for a
            heater.
        heats: Whether it is a heater, whose current determines the width of metal.
    """

    label: str
    instance: str
    signal: Port
    ground: Port
    landing: Point
    stub: Box | None
    heats: bool


def driven_devices(canvas: Canvas, netlist: PlacementView, process: Process) -> list[DrivenDevice]:
    """Return the devices on a canvas that signal pads drive or read, in the order in which instances were placed."""
    devices: list[DrivenDevice] = []
    # a heater's landing covers the signal contact and extends away from the heater
    inward = process.device("phase_shifter").size("contact_width_um") - float(process.pads.size_um) / 2
    for name in canvas.placed:
        for label, end, other in netlist.heaters.get(name, ()):
            signal, ground = canvas.port(f"{name},{end}"), canvas.port(f"{name},{other}")
            if netlist.component[name] in BLACK_BOXES:
                pin = process.device(netlist.component[name]).size("contact_width_um")
                devices.append(_pinned(process, label, name, signal, ground, pin))
                continue
            landing = snap(signal.x + (inward if signal.angle == 180 else -inward)), signal.y
            devices.append(DrivenDevice(label, name, signal, ground, landing, None, True))
    return devices


def _pinned(process: Process, label: str, instance: str, signal: Port, ground: Port, pin: float) -> DrivenDevice:
    """Describe a black box with one pin above the other: the signal leaves to the left, the ground to the right."""
    contact = process.device("phase_shifter").size("contact_width_um")
    half, away = pin / 2, 1 if signal.angle == 90 else -1
    clear = snap(ground.x + pin_width(process) - ground_width(process, 0) - contact)
    return DrivenDevice(
        label,
        instance,
        Port(snap(signal.x - half), signal.y, 180),
        Port(snap(clear + contact), ground.y, 0),
        (signal.x, snap(signal.y + away * (float(process.pads.size_um) / 2 - half))),
        (snap(ground.x - half), snap(ground.y - half), snap(clear + contact), snap(ground.y + half)),
        False,
    )


def pin_width(process: Process) -> float:
    """Return the width in µm that the ground trunk of a column of photodiodes or modulators needs.

    It is measured to the right from the centres of the pins and includes the spaces on both sides of the trunk.
    """
    contact, space = process.device("phase_shifter").size("contact_width_um"), float(process.metal.space_um)
    pins = [process.device(name).size("contact_width_um") for name in BLACK_BOXES if name in process.devices]
    reach = float(process.pads.size_um) if process.pads.wiring == "flipchip" else max(pins, default=0.0)
    return reach / 2 + space + contact + ground_width(process, 0)


def signals_width(process: Process, signals: int) -> float:
    """Return the width in µm that signals need beside a column of contacts.

    With perimeter wiring it is the width of ``signals`` wires, each with the space before it. With flip-chip wiring it
    is the part of a bump landing beyond the contact, or 0 without signals.
    """
    if process.pads.wiring == "flipchip":
        return (float(process.pads.size_um) - process.device("phase_shifter").size("contact_width_um")) * bool(signals)
    return signals * float(process.metal.wire_width_um + process.metal.space_um)


def facing_space(process: Process) -> float:
    """Return the smallest space in µm between the signal metal of two neighbouring columns of MZIs.

    It is the metal space; with flip-chip wiring it also keeps the pitch of bumps.
    """
    space, pads = float(process.metal.space_um), process.pads
    return max(space, float(pads.pitch_um - pads.size_um)) if pads.wiring == "flipchip" else space


def ground_width(process: Process, heaters: int) -> float:
    """Return the width in µm that the ground trunk of a column of ``heaters`` heaters needs beside their contacts.

    The trunk covers the contacts; the width includes the spaces on both of its sides.
    """
    contact, space = process.device("phase_shifter").size("contact_width_um"), float(process.metal.space_um)
    return trunk_width(process, heaters) - contact + 2 * space


def trunk_width(process: Process, heaters: int) -> float:
    """Return the width in µm of a ground trunk that carries the current of ``heaters`` heaters, all at a phase of 2π.

    With flip-chip wiring a bump at every heater takes the current, so the trunk is as wide as a bump landing.
    """
    if process.pads.wiring == "flipchip":
        return float(process.pads.size_um)
    contact = process.device("phase_shifter").size("contact_width_um")
    width = max(contact, width_for_current(process, full_current_a(process) * heaters))
    pads = [rule for rule in process.rules if isinstance(rule, PadSizeRule)]
    # metal that the rules recognise as a pad has to be as wide as a pad
    recognised = any(rule.recognize_um < width < rule.value_um for rule in pads)
    return max([width, *(rule.value_um for rule in pads)]) if recognised else width


def stretch_um(netlist: PlacementView, process: Process) -> float:
    """Return the length in µm by which MZIs are extended so that a column's ground trunk fits between its heaters."""
    strips = strip_names(netlist.circuit.sections)
    # the blocks of a strip are below each other, so their columns share a trunk
    places = (netlist.grid[name] for name, kind in netlist.component.items() if kind == "mzi_unit")
    columns = Counter((strips[section], column) for section, column, _ in places)
    ports = CellFrames()["mzi_unit"].ports
    contact = process.device("phase_shifter").size("contact_width_um")
    between = ports["e4"].x - ports["e2"].x + 2 * contact
    return float(max(0, math.ceil(trunk_width(process, 2 * max(columns.values(), default=0)) - between)))


def full_current_a(process: Process) -> float:
    """Return the current in A of one heater at a phase of 2π."""
    card = process.device("phase_shifter")
    squares = card.size("length_um") / card.size("heater_width_um")
    resistance = card.parameter("sheet_ohm") * squares
    return math.sqrt(2 * card.parameter("power_pi_w") / resistance)


def width_for_current(process: Process, current_a: float) -> float:
    """Return the metal width in µm for a current in A by the current density of the card; at least a wire's width."""
    width = 1e3 * current_a / float(process.metal.current_ma_per_um)
    return max(float(process.metal.wire_width_um), float(math.ceil(width)))


def signal_wires(process: Process, group: Sequence[DrivenDevice], outward: int, edge: float) -> list[SignalWire]:
    """Route a wire from the signal contact of every device to the edge of the strips, at y = ``edge`` in µm.

    The edge is above (``outward`` +1) or below (-1) the devices, which are on one side of the die's middle. The wires
    of a column run on tracks beside it; the device nearest to the edge gets the track nearest to the column.

    Returns:
        Wires in ascending order of x.
    """
    width, space = float(process.metal.wire_width_um), float(process.metal.space_um)
    wires: list[SignalWire] = []
    columns: dict[tuple[float, int], list[DrivenDevice]] = {}
    for heater in group:
        columns.setdefault((heater.signal.x, heater.signal.angle), []).append(heater)
    for (x, angle), column in columns.items():
        side = -1 if angle == 180 else 1
        for i, heater in enumerate(sorted(column, key=lambda h: -outward * h.signal.y)):
            track = snap(x + side * (space + width / 2 + i * (width + space)))
            y = heater.signal.y
            wires.append(SignalWire(heater.label, ((x, y), (track, y), (track, edge))))
    return sorted(wires, key=lambda wire: wire.x)


def facing_columns(group: Sequence[DrivenDevice]) -> list[list[DrivenDevice]]:
    """Group driven devices by the ground trunk that they share, in ascending order of x.

    A trunk serves the ground contacts of one column, or of the two columns of contacts inside the same MZIs, which face
    each other.
    """
    columns: dict[tuple[float, int], list[DrivenDevice]] = {}
    for heater in group:
        columns.setdefault((heater.ground.x, heater.ground.angle), []).append(heater)
    shared: list[list[DrivenDevice]] = []
    for place in sorted(columns):
        column = columns[place]
        before = {heater.instance for heater in shared[-1]} if shared else set()
        if column[0].instance in before:
            shared[-1] = shared[-1] + column
        else:
            shared.append(column)
    return shared


def ground_trunks(canvas: Canvas, process: Process, group: Sequence[DrivenDevice], outward: int, bus: float) -> None:
    """Draw the ground trunks of the devices on one side of the die's middle, above (``outward`` +1) or below it (-1).

    There is one for each group of ``facing_columns``; they end at the ground bus, at y = ``bus`` in µm.
    """
    contact = process.device("phase_shifter").size("contact_width_um")
    for column in facing_columns(group):
        grounds = [heater.ground for heater in column]
        canvas.metal += [heater.stub for heater in column if heater.stub is not None]
        width = trunk_width(process, sum(heater.heats for heater in column))
        far = max((ground.y for ground in grounds), key=lambda y: outward * y) + outward * contact / 2
        ends = sorted({ground.x for ground in grounds})
        if len(ends) == 2:
            middle = (ends[0] + ends[1]) / 2
            canvas.metal += [straight_metal(ground.x, ground.y, middle, ground.y, contact) for ground in grounds]
        else:
            # the trunk covers the contacts and extends away from the heater
            middle = ends[0] + (width / 2 - contact) * (1 if grounds[0].angle == 0 else -1)
        canvas.metal.append(straight_metal(middle, far, middle, bus, width))


def straight_metal(x0: float, y0: float, x1: float, y1: float, width: float) -> Box:
    """Return the box of a straight piece of metal between two points, at which it ends; all lengths are in µm.

    The line between the points is parallel to an axis.
    """
    half = width / 2
    (left, right), (bottom, top) = sorted((x0, x1)), sorted((y0, y1))
    if y0 == y1:
        return snap(left), snap(y0 - half), snap(right), snap(y0 + half)
    return snap(x0 - half), snap(bottom), snap(x0 + half), snap(top)
