"""The floorplan: strips alternate below and above the die's middle; wires leave to the far edges, grounds meet between."""

from __future__ import annotations

import math
from dataclasses import dataclass

from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit
from optinc_pdk.layout.canvas import Canvas, Netlist, cell_frames, snap
from optinc_pdk.layout.carrier import carrier_block, oscillator_tree
from optinc_pdk.layout.strips import StripBuilder
from optinc_pdk.layout.wiring import (
    Heater,
    PadRows,
    Wire,
    channel_height,
    fan_to_pads,
    full_current_a,
    ground_trunks,
    heaters,
    pad_rows,
    pad_targets,
    signal_wires,
    width_for,
)

GAP_UM = 60.0


@dataclass(frozen=True)
class Chip:
    """A finished floorplan.

    Attributes:
        canvas: Everything drawn, in µm, with the die's lower left corner at the origin.
        width_um: Die width.
        height_um: Die height.
        fit: What a chip of this size is called.
        pad_rows: How deep the pads are staggered at most.
    """

    canvas: Canvas
    width_um: float
    height_um: float
    fit: str
    pad_rows: int


@dataclass
class _Half:
    """The strips on one side of the middle, left-aligned at 0."""

    canvas: Canvas
    outward: int
    right: float = 0.0

    def append(self, part: Canvas) -> tuple[float, float]:
        """Put a part right of the others, its outer edge at y = 0; returns the shift."""
        left, bottom, right, top = part.box()
        dx = snap(self.right - left)
        dy = snap(-top if self.outward > 0 else -bottom)
        self.canvas.add(part, dx, dy)
        self.right = snap(right + dx + GAP_UM)
        return dx, dy

    @property
    def height(self) -> float:
        """From the outer edge to the innermost shape."""
        _, bottom, _, top = self.canvas.box()
        return -bottom if self.outward > 0 else top


def floorplan(circuit: Circuit, process: Process) -> Chip:
    """Place and route a circuit on the first die size that holds it.

    Args:
        circuit: Hierarchical circuit with floorplan grid.
        process: Process; its PDK must be active.

    Returns:
        The chip; one that exceeds every die size gets an outline of its own and ``fit`` says so.
    """
    netlist, frames = Netlist(circuit), cell_frames(process)
    halves = {+1: _Half(Canvas(frames), +1), -1: _Half(Canvas(frames), -1)}
    block = Canvas(frames)
    feed = carrier_block(block, netlist, process)
    shift = halves[+1].append(block)
    feed = (feed[0] + shift[0], feed[1] + shift[1])
    # the oscillators' feed comes down beside the block
    halves[+1].right += GAP_UM
    roots: dict[int, str] = {}
    layers = sum(1 for section in circuit.sections if section.startswith("l") and section[1:].isdigit())
    for index in range(layers):
        strip = Canvas(frames)
        root = StripBuilder(strip, netlist, process, index).build(last=index == layers - 1)
        halves[+1 if index % 2 else -1].append(strip)
        if root is not None:
            roots[index] = root
    return _assemble(netlist, process, halves, feed, roots)


def _assemble(
    netlist: Netlist, process: Process, halves: dict[int, _Half], feed: tuple[float, float], roots: dict[int, str]
) -> Chip:
    """Choose the die, put the halves into it, wire them."""
    keepout, pad = float(process.floorplan.keepout_um), float(process.pads.size_um)
    sides = keepout + pad + GAP_UM
    groups = {side: heaters(half.canvas, netlist, set(half.canvas.placed)) for side, half in halves.items()}
    count = sum(len(group) for group in groups.values())
    # every heater at 2π at once, drained to both ends
    bus = width_for(process, full_current_a(process) * count / 2)
    content = max(half.right for half in halves.values())
    tracks = (len(roots) + 2) * 6 * float(process.guide.radius_um)
    middle = max(bus, tracks) + 2 * GAP_UM
    plans: dict[int, tuple[PadRows, float]] = {}
    choices = [(float(d.width_um), float(d.height_um), d.fit) for d in process.dies]
    own = max(content + 2 * sides, *(_pads_width(process, len(g)) + 2 * keepout for g in groups.values()))
    choices.append((snap(math.ceil(own)), math.inf, "multi-die"))
    for width, height, fit in choices:
        room = width - 2 * keepout
        rows = {side: pad_rows(process, len(group), room - pad) for side, group in groups.items()}
        if content + 2 * sides > width or None in rows.values():
            continue
        left = snap((width - content) / 2)
        wires = {side: _wires(process, groups[side], side, left) for side in halves}
        plans = {}
        needed = 2 * keepout + middle
        for side, half in halves.items():
            found = rows[side]
            if found is None:
                continue
            targets = pad_targets(process, wires[side], found, keepout, width - keepout)
            channel = channel_height(process, wires[side], targets)
            depth = channel + pad + (found.rows - 1) * float(process.pads.pitch_um)
            plans[side] = (found, depth)
            needed += depth + half.height
        if needed <= height:
            height = snap(math.ceil(needed)) if math.isinf(height) else height
            return _draw(netlist, process, halves, feed, roots, (width, height, fit, left), plans, bus)
    raise ValueError(f"{count} heaters find no pads even {int(process.pads.rows_max)} rows deep; use fewer modes")


def _pads_width(process: Process, count: int) -> float:
    rows = int(process.pads.rows_max)
    pitch = float(process.pads.size_um) + rows * float(process.metal.wire_width_um + process.metal.space_um)
    return math.ceil(count / rows + 1) * pitch


def _wires(process: Process, group: list[Heater], side: int, left: float) -> list[Wire]:
    """The wires' positions at the outer edge; the drawing itself comes when the die is known."""
    scratch = Canvas({})
    return [Wire(w.label, snap(w.x + left)) for w in signal_wires(scratch, process, group, side, 0.0)]


def _draw(
    netlist: Netlist,
    process: Process,
    halves: dict[int, _Half],
    feed: tuple[float, float],
    roots: dict[int, str],
    die: tuple[float, float, str, float],
    plans: dict[int, tuple[PadRows, float]],
    bus: float,
) -> Chip:
    width, height, fit, left = die
    keepout = float(process.floorplan.keepout_um)
    canvas = Canvas(halves[+1].canvas.frames)
    outer = {+1: snap(height - keepout - plans[+1][1]), -1: snap(keepout + plans[-1][1])}
    for side, half in halves.items():
        canvas.add(half.canvas, left, outer[side])
    inner = {side: outer[side] - side * half.height for side, half in halves.items()}
    middle = snap((inner[+1] + inner[-1]) / 2)
    oscillator_tree(canvas, netlist, process, (snap(feed[0] + left), snap(feed[1] + outer[+1])), middle, roots)
    for side, half in halves.items():
        group = heaters(canvas, netlist, set(half.canvas.placed))
        wires = signal_wires(canvas, process, group, side, outer[side])
        ground_trunks(canvas, process, group, side, middle)
        rows = plans[side][0]
        targets = pad_targets(process, wires, rows, keepout, width - keepout)
        fan_to_pads(canvas, process, wires, targets, rows, side, outer[side])
    _ground_bus(canvas, process, netlist, width, middle, bus)
    _fibre_texts(canvas, netlist)
    canvas.texts.append((netlist.circuit.name, width / 2, keepout / 2))
    return Chip(canvas, width, height, fit, max(rows.rows for rows, _ in plans.values()))


def _ground_bus(canvas: Canvas, process: Process, netlist: Netlist, width: float, middle: float, bus: float) -> None:
    """The bus across the middle and its pads at both ends."""
    size, pitch, keepout = float(process.pads.size_um), float(process.pads.pitch_um), float(process.floorplan.keepout_um)
    labels = sorted((label for label in netlist.circuit.ports if label.startswith("GND")), key=lambda t: int(t[3:]))
    each = (len(labels) + 1) // 2
    half = max(bus, (each - 1) * pitch + size) / 2
    canvas.metal.append((keepout, middle - half, width - keepout, middle + half))
    for i, label in enumerate(labels):
        right, place = divmod(i, each)
        x = width - keepout - size / 2 if right else keepout + size / 2
        canvas.texts.append((label, x, snap(middle + (place - (each - 1) / 2) * pitch)))


def _fibre_texts(canvas: Canvas, netlist: Netlist) -> None:
    for port, label in netlist.label.items():
        instance = port.rpartition(",")[0]
        if netlist.component[instance] == "grating_coupler":
            at = canvas.port(port)
            canvas.texts.append((label, at.x, at.y))
