"""What pads drive and the room that its metal takes, in either wiring; wires and pads of the perimeter.

Wires lie on one metal: every signal leaves outwards beside its column, every ground inwards to a bus.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from optinc_pdk.assemble import strip_names
from optinc_pdk.cards import Process
from optinc_pdk.cards.rules import PadSizeRule
from optinc_pdk.layout.canvas import Canvas, snap
from optinc_pdk.layout.frames import Box, Frames, Point, Port
from optinc_pdk.layout.netlist import Netlist
from optinc_pdk.layout.river import river_levels, spread

BLACK_BOXES = ("modulator", "photodiode")
"""Devices whose two pins lie above each other."""


@dataclass(frozen=True)
class Signal:
    """A signal wire that leaves the strips vertically: its corners from the contact to their edge."""

    label: str
    corners: tuple[Point, ...]

    @property
    def x(self) -> float:
        """Where it leaves."""
        return self.corners[-1][0]


class Heater(NamedTuple):
    """What a pad drives: a heater between its two metal ends, or a photodiode or modulator between its pins.

    Attributes:
        label: Its pad's label.
        instance: The instance that it belongs to.
        signal: The outer edge of the signal's contact, facing left or right.
        ground: The outer edge of the ground's contact.
        landing: Middle of a bump's landing that covers the signal's contact and nothing else.
        stub: Metal from a pin to where its ground stands clear of the other pin.
        heats: Whether it takes a heater's current.
    """

    label: str
    instance: str
    signal: Port
    ground: Port
    landing: Point
    stub: Box | None
    heats: bool


def heaters(canvas: Canvas, netlist: Netlist, process: Process) -> list[Heater]:
    """What pads drive of all that is placed on a canvas, in the order in which it was."""
    found: list[Heater] = []
    # a heater's landing covers the signal's contact and reaches away from it
    inward = process.device("phase_shifter").size("contact_width_um") - float(process.pads.size_um) / 2
    for name in canvas.placed:
        for label, end, other in netlist.heaters.get(name, ()):
            signal, ground = canvas.port(f"{name},{end}"), canvas.port(f"{name},{other}")
            if netlist.component[name] in BLACK_BOXES:
                pin = process.device(netlist.component[name]).size("contact_width_um")
                found.append(_pinned(process, label, name, signal, ground, pin))
                continue
            landing = snap(signal.x + (inward if signal.angle == 180 else -inward)), signal.y
            found.append(Heater(label, name, signal, ground, landing, None, True))
    return found


def _pinned(process: Process, label: str, instance: str, signal: Port, ground: Port, pin: float) -> Heater:
    """A black box whose pins lie above each other: the signal leaves to the left, the ground to the right."""
    contact = process.device("phase_shifter").size("contact_width_um")
    half, away = pin / 2, 1 if signal.angle == 90 else -1
    clear = snap(ground.x + pin_room(process) - ground_room(process, 0) - contact)
    return Heater(
        label,
        instance,
        Port(snap(signal.x - half), signal.y, 180),
        Port(snap(clear + contact), ground.y, 0),
        (signal.x, snap(signal.y + away * (float(process.pads.size_um) / 2 - half))),
        (snap(ground.x - half), snap(ground.y - half), snap(clear + contact), snap(ground.y + half)),
        False,
    )


def pin_room(process: Process) -> float:
    """Room right of a column of pins' middles for their common ground, spaces included."""
    contact, space = process.device("phase_shifter").size("contact_width_um"), float(process.metal.space_um)
    pins = [process.device(name).size("contact_width_um") for name in BLACK_BOXES if name in process.devices]
    reach = float(process.pads.size_um) if process.pads.wiring == "flipchip" else max(pins, default=0.0)
    return reach / 2 + space + contact + ground_room(process, 0)


def room_beside(process: Process, signals: int) -> float:
    """Room beside a column of contacts for the signals that leave it there, up to but without a space."""
    if process.pads.wiring == "flipchip":
        return (float(process.pads.size_um) - process.device("phase_shifter").size("contact_width_um")) * bool(signals)
    return signals * float(process.metal.wire_width_um + process.metal.space_um)


def facing_space(process: Process) -> float:
    """Space between the signals of two columns that face each other; bumps keep their pitch too."""
    space, pads = float(process.metal.space_um), process.pads
    return max(space, float(pads.pitch_um - pads.size_um)) if pads.wiring == "flipchip" else space


def ground_room(process: Process, heaters: int) -> float:
    """Room beside a column of contacts for their common ground, spaces included."""
    contact, space = process.device("phase_shifter").size("contact_width_um"), float(process.metal.space_um)
    return trunk_width(process, heaters) - contact + 2 * space


def trunk_width(process: Process, heaters: int) -> float:
    """Width of the ground of so many heaters, all at 2π; bumps of flip-chip wiring take the current where it arises."""
    if process.pads.wiring == "flipchip":
        return float(process.pads.size_um)
    contact = process.device("phase_shifter").size("contact_width_um")
    width = max(contact, width_for(process, full_current_a(process) * heaters))
    pads = [rule for rule in process.rules if isinstance(rule, PadSizeRule)]
    # metal as wide as what the rules take for a pad has to be as wide as a pad
    taken = any(rule.recognize_um < width < rule.value_um for rule in pads)
    return max([width, *(rule.value_um for rule in pads)]) if taken else width


def stretch_um(netlist: Netlist, process: Process) -> float:
    """How much longer MZIs have to be so that a column's ground fits between its heaters."""
    strips = strip_names(netlist.circuit.sections)
    # the blocks of a strip lie below each other, so their columns share a trunk
    places = (netlist.grid[name] for name, kind in netlist.component.items() if kind == "mzi")
    columns = Counter((strips[section], column) for section, column, _ in places)
    ports = Frames()["mzi"].ports
    contact = process.device("phase_shifter").size("contact_width_um")
    between = ports["e4"].x - ports["e2"].x + 2 * contact
    return float(max(0, math.ceil(trunk_width(process, 2 * max(columns.values(), default=0)) - between)))


def full_current_a(process: Process) -> float:
    """Current of one heater at a phase of 2π."""
    card = process.device("phase_shifter")
    squares = card.size("length_um") / card.size("heater_width_um")
    resistance = card.parameter("sheet_ohm") * squares
    return math.sqrt(2 * card.parameter("power_pi_w") / resistance)


def width_for(process: Process, current_a: float) -> float:
    """Metal width that carries a current, at least a wire's."""
    width = 1e3 * current_a / float(process.metal.current_ma_per_um)
    return max(float(process.metal.wire_width_um), float(math.ceil(width)))


def signal_wires(process: Process, group: Sequence[Heater], outward: int, edge: float) -> list[Signal]:
    """Every signal's way from its contact to ``edge``; heaters of a column take tracks from the outermost in."""
    width, space = float(process.metal.wire_width_um), float(process.metal.space_um)
    wires: list[Signal] = []
    columns: dict[tuple[float, int], list[Heater]] = {}
    for heater in group:
        columns.setdefault((heater.signal.x, heater.signal.angle), []).append(heater)
    for (x, angle), column in columns.items():
        side = -1 if angle == 180 else 1
        for i, heater in enumerate(sorted(column, key=lambda h: -outward * h.signal.y)):
            track = snap(x + side * (space + width / 2 + i * (width + space)))
            y = heater.signal.y
            wires.append(Signal(heater.label, ((x, y), (track, y), (track, edge))))
    return sorted(wires, key=lambda wire: wire.x)


def facing_columns(group: Sequence[Heater]) -> list[list[Heater]]:
    """Heaters whose grounds lie in one column, or in two of the same MZIs, which face each other."""
    columns: dict[tuple[float, int], list[Heater]] = {}
    for heater in group:
        columns.setdefault((heater.ground.x, heater.ground.angle), []).append(heater)
    shared: list[list[Heater]] = []
    for place in sorted(columns):
        column = columns[place]
        before = {heater.instance for heater in shared[-1]} if shared else set()
        if column[0].instance in before:
            shared[-1] = shared[-1] + column
        else:
            shared.append(column)
    return shared


def ground_trunks(canvas: Canvas, process: Process, group: Sequence[Heater], outward: int, bus: float) -> None:
    """Draw the grounds of every column to ``bus``; facing columns share a trunk between them."""
    contact = process.device("phase_shifter").size("contact_width_um")
    for column in facing_columns(group):
        grounds = [heater.ground for heater in column]
        canvas.metal += [heater.stub for heater in column if heater.stub is not None]
        width = trunk_width(process, sum(heater.heats for heater in column))
        far = max((ground.y for ground in grounds), key=lambda y: outward * y) + outward * contact / 2
        ends = sorted({ground.x for ground in grounds})
        if len(ends) == 2:
            middle = (ends[0] + ends[1]) / 2
            canvas.metal += [_bar(ground.x, ground.y, middle, ground.y, contact) for ground in grounds]
        else:
            # over the contacts themselves, growing away from the heater
            middle = ends[0] + (width / 2 - contact) * (1 if grounds[0].angle == 0 else -1)
        canvas.metal.append(_bar(middle, far, middle, bus, width))


def _bar(x0: float, y0: float, x1: float, y1: float, width: float) -> Box:
    """A straight piece of metal of that width between two points, along an axis."""
    half = width / 2
    (left, right), (bottom, top) = sorted((x0, x1)), sorted((y0, y1))
    if y0 == y1:
        return snap(left), snap(y0 - half), snap(right), snap(y0 + half)
    return snap(x0 - half), snap(bottom), snap(x0 + half), snap(top)


@dataclass(frozen=True)
class PadRows:
    """Pads staggered ``rows`` deep; wires to outer rows pass between the inner pads."""

    rows: int
    pitch: float


def pad_rows(process: Process, count: int, width: float) -> Iterator[PadRows]:
    """The rows in which ``count`` pads fit into ``width``, the fewest first; none where even the deepest do not."""
    for rows in range(1, int(process.pads.rows_max) + 1):
        pitch = process.pad_pitch_um(rows)
        if math.ceil(count / rows) * pitch <= width:
            yield PadRows(rows, pitch)


def channel_height(process: Process, wires: Sequence[Signal], targets: Sequence[float]) -> float:
    """Height of the channel in which the wires reach their targets."""
    track = float(process.metal.wire_width_um + process.metal.space_um)
    levels = river_levels(np.array([w.x for w in wires]), np.array(targets), track)
    return (float(levels.max(initial=0)) + 2) * track


def pad_targets(process: Process, wires: Sequence[Signal], rows: PadRows, left: float, right: float) -> list[float]:
    """Where each wire enters the pads, nearest to where it comes from."""
    groups = [wires[i : i + rows.rows] for i in range(0, len(wires), rows.rows)]
    offsets = [_offset(process, row) for row in range(rows.rows)]
    wanted = np.array([np.mean([w.x - offsets[row] for row, w in enumerate(group)]) for group in groups])
    half = float(process.pads.size_um) / 2
    centres = spread(wanted, rows.pitch, left + half, right - half - (rows.pitch - 2 * half))
    # on the grid before they are set apart: rounded one by one, neighbours would lose a nanometre
    apart = rows.pitch * np.arange(len(groups))
    centres = np.round(centres - apart, 3) + apart
    return [snap(float(centres[i // rows.rows]) + offsets[i % rows.rows]) for i in range(len(wires))]


def _offset(process: Process, row: int) -> float:
    """How far right of its pad column's centre the wire to a row runs."""
    width, space = float(process.metal.wire_width_um), float(process.metal.space_um)
    return 0.0 if row == 0 else float(process.pads.size_um) / 2 + space + width / 2 + (row - 1) * (width + space)


def fan_to_pads(
    canvas: Canvas,
    process: Process,
    wires: Sequence[Signal],
    targets: Sequence[float],
    rows: PadRows,
    outward: int,
    start: float,
) -> None:
    """Draw wires from ``start`` through the channel to their pads, and the pads with their labels."""
    width = float(process.metal.wire_width_um)
    track = width + float(process.metal.space_um)
    size, pitch = float(process.pads.size_um), float(process.pads.pitch_um)
    source = np.array([w.x for w in wires])
    levels = river_levels(source, np.array(targets), track)
    edge = start + outward * channel_height(process, wires, targets)
    for i, (wire, target, level) in enumerate(zip(wires, targets, levels.tolist(), strict=True)):
        y = snap(start + outward * (level + 1) * track)
        row = i % rows.rows
        centre = snap(target - _offset(process, row))
        pad = snap(edge + outward * (size / 2 + row * pitch))
        # in parts, of which the first repeats in a mesh from column to column and the last from pad to pad
        canvas.wire(width, *wire.corners)
        canvas.wire(width, (wire.x, start), (wire.x, y), (target, y), (target, pad))
        if row:
            canvas.metal.append(_bar(target, pad, centre, pad, width))
        canvas.metal.append((centre - size / 2, pad - size / 2, centre + size / 2, pad + size / 2))
        canvas.texts.append((wire.label, centre, pad))
