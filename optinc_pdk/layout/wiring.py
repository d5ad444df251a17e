"""Heater wiring on one metal: every signal leaves outwards beside its column, every ground inwards to a bus."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.cards.rules import PadSizeRule
from optinc_pdk.layout.canvas import Box, Canvas, Netlist, Port, snap
from optinc_pdk.layout.river import river_levels, spread

SHARED_TRUNK_UM = 150.0


@dataclass(frozen=True)
class Wire:
    """A signal wire that leaves the strips vertically at ``x``."""

    label: str
    x: float


@dataclass(frozen=True)
class Heater:
    """A heater's two metal ends."""

    label: str
    signal: Port
    ground: Port


def heaters(canvas: Canvas, netlist: Netlist, names: set[str]) -> list[Heater]:
    """The heaters of the named instances."""
    found: list[Heater] = []
    for label, port in netlist.heaters.items():
        instance, _, signal = port.rpartition(",")
        if instance in names:
            ground = {"e1": "e2", "e2": "e1", "e3": "e4"}[signal]
            found.append(Heater(label, canvas.port(port), canvas.port(f"{instance},{ground}")))
    return found


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


def signal_wires(canvas: Canvas, process: Process, group: Sequence[Heater], outward: int, edge: float) -> list[Wire]:
    """Draw every signal from its contact to ``edge``; heaters of a column take tracks from the outermost in."""
    width, space = float(process.metal.wire_width_um), float(process.metal.space_um)
    wires: list[Wire] = []
    columns: dict[tuple[float, int], list[Heater]] = {}
    for heater in group:
        columns.setdefault((heater.signal.x, heater.signal.angle), []).append(heater)
    for (x, angle), column in columns.items():
        side = -1 if angle == 180 else 1
        for i, heater in enumerate(sorted(column, key=lambda h: -outward * h.signal.y)):
            track = snap(x + side * (space + width / 2 + i * (width + space)))
            y = heater.signal.y
            canvas.metal.append(_box(x, y, track, y, width))
            canvas.metal.append(_box(track, y, track, edge, width))
            wires.append(Wire(heater.label, track))
    return sorted(wires, key=lambda wire: wire.x)


def ground_trunks(canvas: Canvas, process: Process, group: Sequence[Heater], outward: int, bus: float) -> None:
    """Draw the grounds of every column to ``bus``; facing columns share a trunk between them."""
    contact = process.device("phase_shifter").size("contact_width_um")
    columns: dict[tuple[float, int], list[float]] = {}
    for heater in group:
        columns.setdefault((heater.ground.x, heater.ground.angle), []).append(heater.ground.y)
    shared: dict[float, list[tuple[float, int]]] = {}
    for x, angle in columns:
        if angle == 0:
            facing = [other for other, a in columns if a == 180 and 0 < other - x < SHARED_TRUNK_UM]
            shared[x] = [(x, 0), *((other, 180) for other in facing)]
        elif not any(a == 0 and 0 < x - other < SHARED_TRUNK_UM for other, a in columns):
            shared[x] = [(x, 180)]
    for parts in shared.values():
        ys = [y for part in parts for y in columns[part]]
        width = _trunk_width(process, max(contact, width_for(process, full_current_a(process) * len(ys))))
        far = max(ys, key=lambda y: outward * y) + outward * contact / 2
        if len(parts) == 2:
            middle = (parts[0][0] + parts[1][0]) / 2
            for x, angle in parts:
                canvas.metal += [_box(x, y, middle, y, contact, square=False) for y in columns[(x, angle)]]
        else:
            # over the contacts themselves, growing away from the heater
            (x, angle) = parts[0]
            middle = x + (width / 2 - contact) * (1 if angle == 0 else -1)
        canvas.metal.append(_box(middle, far, middle, bus, width, square=False))


def _trunk_width(process: Process, width: float) -> float:
    """The width of a trunk: metal as wide as what the rules take for a pad has to be as wide as a pad."""
    pads = [rule for rule in process.rules if isinstance(rule, PadSizeRule)]
    taken = any(rule.recognize_um < width < rule.value_um for rule in pads)
    return max([width, *(rule.value_um for rule in pads)]) if taken else width


def _box(x0: float, y0: float, x1: float, y1: float, width: float, square: bool = True) -> Box:
    """A straight wire; square ends reach half a width further, so that corners close."""
    half = width / 2
    ends = half if square else 0.0
    if y0 == y1:
        low, high = sorted((x0, x1))
        return snap(low - ends), snap(y0 - half), snap(high + ends), snap(y0 + half)
    low, high = sorted((y0, y1))
    return snap(x0 - half), snap(low - ends), snap(x0 + half), snap(high + ends)


@dataclass(frozen=True)
class PadRows:
    """Pads staggered ``rows`` deep; wires to outer rows pass between the inner pads."""

    rows: int
    pitch: float


def pad_rows(process: Process, count: int, width: float) -> PadRows | None:
    """The fewest rows in which ``count`` pads fit into ``width``, or None where even the deepest does not."""
    size, space, wire = (float(v) for v in (process.pads.size_um, process.metal.space_um, process.metal.wire_width_um))
    for rows in range(1, int(process.pads.rows_max) + 1):
        pitch = max(float(process.pads.pitch_um), size + space + (rows - 1) * (wire + space))
        if math.ceil(count / rows) * pitch <= width:
            return PadRows(rows, pitch)
    return None


def channel_height(process: Process, wires: Sequence[Wire], targets: Sequence[float]) -> float:
    """Height of the channel in which the wires reach their targets."""
    track = float(process.metal.wire_width_um + process.metal.space_um)
    levels = river_levels(np.array([w.x for w in wires]), np.array(targets), track)
    return (float(levels.max(initial=0)) + 2) * track


def pad_targets(process: Process, wires: Sequence[Wire], rows: PadRows, left: float, right: float) -> list[float]:
    """Where each wire enters the pads, nearest to where it comes from."""
    groups = [wires[i : i + rows.rows] for i in range(0, len(wires), rows.rows)]
    offsets = [_offset(process, row) for row in range(rows.rows)]
    wanted = np.array([np.mean([w.x - offsets[row] for row, w in enumerate(group)]) for group in groups])
    half = float(process.pads.size_um) / 2
    centres = spread(wanted, rows.pitch, left + half, right - half - (rows.pitch - 2 * half))
    return [snap(float(centres[i // rows.rows]) + offsets[i % rows.rows]) for i in range(len(wires))]


def _offset(process: Process, row: int) -> float:
    """How far right of its pad column's centre the wire to a row runs."""
    width, space = float(process.metal.wire_width_um), float(process.metal.space_um)
    return 0.0 if row == 0 else float(process.pads.size_um) / 2 + space + width / 2 + (row - 1) * (width + space)


def fan_to_pads(
    canvas: Canvas,
    process: Process,
    wires: Sequence[Wire],
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
        canvas.metal.append(_box(wire.x, start, wire.x, y, width))
        canvas.metal.append(_box(wire.x, y, target, y, width))
        canvas.metal.append(_box(target, y, target, pad, width))
        canvas.metal.append(_box(target, pad, centre, pad, width))
        canvas.metal.append((centre - size / 2, pad - size / 2, centre + size / 2, pad + size / 2))
        canvas.texts.append((wire.label, centre, pad))
