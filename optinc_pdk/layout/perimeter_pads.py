"""Pads along the edges of perimeter dies, and the channels in which signal wires are routed to them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.layout.canvas import Canvas, snap
from optinc_pdk.layout.heater_wiring import SignalWire, straight_metal
from optinc_pdk.layout.river_routing import river_levels, spaced_positions


@dataclass(frozen=True)
class PadRows:
    """Arrangement of pads along one edge of a die in parallel rows; wires to outer rows pass between the inner pads.

    Attributes:
        rows: Number of rows.
        pitch: Distance between the columns of pads along the edge, in µm.
    """

    rows: int
    pitch: float


def pad_rows(process: Process, count: int, width: float) -> Iterator[PadRows]:
    """Yield the arrangements of ``count`` pads that fit along an edge of ``width`` µm, in ascending number of rows."""
    for rows in range(1, int(process.pads.rows_max) + 1):
        pitch = process.pad_pitch_um(rows)
        if math.ceil(count / rows) * pitch <= width:
            yield PadRows(rows, pitch)


def channel_height(process: Process, wires: Sequence[SignalWire], targets: Sequence[float]) -> float:
    """Return the height in µm of the channel in which wires change from their own x to their targets.

    Args:
        process: Process; its card states width and space of wires.
        wires: Signal wires in ascending order of x.
        targets: x in µm at which each wire enters the pads, ascending, see ``pad_targets``.
    """
    track = float(process.metal.wire_width_um + process.metal.space_um)
    levels = river_levels(np.array([w.x for w in wires]), np.array(targets), track)
    return (float(levels.max(initial=0)) + 2) * track


def pad_targets(process: Process, wires: Sequence[SignalWire], rows: PadRows, left: float, right: float) -> list[float]:
    """Return the x in µm at which each wire enters the pads.

    The columns of pads are as close to the x of their wires as possible, by least squares.

    Args:
        process: Process; its card states the sizes of pads and wires.
        wires: Signal wires in ascending order of x.
        rows: Arrangement of the pads.
        left: Smallest x of the pads in µm.
        right: Largest x of the pads in µm.
    """
    groups = [wires[i : i + rows.rows] for i in range(0, len(wires), rows.rows)]
    offsets = [_offset(process, row) for row in range(rows.rows)]
    targets = np.array([np.mean([w.x - offsets[row] for row, w in enumerate(group)]) for group in groups])
    half = float(process.pads.size_um) / 2
    centres = spaced_positions(targets, rows.pitch, left + half, right - half - (rows.pitch - 2 * half))
    # offsets are rounded before the pitch is added: otherwise rounding could bring neighbours 1 nm closer; columns side
    # by side have equal offsets but for rounding errors, which must not decide how half a nanometre is rounded
    apart = rows.pitch * np.arange(len(groups))
    centres = np.round(np.round(centres - apart, 9), 3) + apart
    return [snap(float(centres[i // rows.rows]) + offsets[i % rows.rows]) for i in range(len(wires))]


def _offset(process: Process, row: int) -> float:
    """Return how far right of its pad column's centre, in µm, the wire to a row runs."""
    width, space = float(process.metal.wire_width_um), float(process.metal.space_um)
    return 0.0 if row == 0 else float(process.pads.size_um) / 2 + space + width / 2 + (row - 1) * (width + space)


def fan_to_pads(
    canvas: Canvas,
    process: Process,
    wires: Sequence[SignalWire],
    targets: Sequence[float],
    rows: PadRows,
    outward: int,
    start: float,
) -> None:
    """Draw signal wires from their contacts through the channel to their pads, and the pads with their labels.

    Args:
        canvas: Canvas that receives wires, pads and labels.
        process: Process; its card states sizes and spaces of wires and pads.
        wires: Signal wires in ascending order of x, which end at y = ``start``.
        targets: x in µm at which each wire enters the pads, from ``pad_targets``.
        rows: Arrangement of the pads.
        outward: +1 if the pads are above the wires, -1 if below.
        start: y in µm at which the channel starts.
    """
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
        # two parts: the first repeats from column to column of a mesh, the second from pad to pad
        canvas.wire(width, *wire.corners)
        canvas.wire(width, (wire.x, start), (wire.x, y), (target, y), (target, pad))
        if row:
            canvas.metal.append(straight_metal(target, pad, centre, pad, width))
        canvas.metal.append((centre - size / 2, pad - size / 2, centre + size / 2, pad + size / 2))
        canvas.texts.append((wire.label, centre, pad))
