"""The floorplan: strips alternate below and above the die's middle; signals leave outwards, grounds meet between."""

from __future__ import annotations

import math
from dataclasses import dataclass

from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit
from optinc_pdk.files import InputError
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
    gap: float
    right: float = 0.0

    def append(self, part: Canvas) -> tuple[float, float]:
        """Put a part right of the others, its outer edge at y = 0; returns the shift."""
        left, bottom, right, top = part.box()
        dx = snap(self.right - left)
        dy = snap(-top if self.outward > 0 else -bottom)
        self.canvas.add(part, dx, dy)
        self.right = snap(right + dx + self.gap)
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
        The chip.

    Raises:
        InputError: It fits no die of the process.
    """
    netlist, frames = Netlist(circuit), cell_frames(process)
    # gratings of neighbouring strips keep their pitch too
    gap = max(GAP_UM, float(process.floorplan.fibre_pitch_um))
    halves = {side: _Half(Canvas(frames), side, gap) for side in (+1, -1)}
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
    netlist: Netlist,
    process: Process,
    halves: dict[int, _Half],
    feed: tuple[float, float],
    roots: dict[int, str],
) -> Chip:
    """Choose the die, put the halves into it, wire them."""
    keepout, pad = float(process.floorplan.keepout_um), float(process.pads.size_um)
    sides = keepout + pad + GAP_UM
    groups = {side: heaters(half.canvas, netlist, set(half.canvas.placed)) for side, half in halves.items()}
    count = sum(len(group) for group in groups.values())
    # every heater at 2π at once, drained to both ends, where the ground pads stand in a column
    bus = max(width_for(process, full_current_a(process) * count / 2), _ground_pads_height(netlist, process))
    content = max(half.right for half in halves.values())
    tracks = (len(roots) + 2) * 6 * float(process.guide.radius_um)
    middle = max(bus, tracks) + 2 * GAP_UM
    for die in process.dies:
        width, height = float(die.width_um), float(die.height_um)
        if die.own_size:
            width = min(width, snap(math.ceil(max(content + 2 * sides, _pads_width(process, groups) + 2 * keepout))))
        rows = pad_rows(process, max(map(len, groups.values())), width - 2 * keepout - pad)
        if rows is None or content + 2 * sides > width:
            continue
        left = snap((width - content) / 2)
        depths = {side: _pad_depth(process, groups[side], side, rows, left, width) for side in halves}
        needed = 2 * keepout + middle + sum(depths[side] + half.height for side, half in halves.items())
        if needed <= height:
            height = snap(math.ceil(needed)) if die.own_size else height
            return _draw(netlist, process, halves, feed, roots, _Die(width, height, die.fit, left, rows, depths, bus))
    largest = process.dies[-1]
    raise InputError(
        f"{count} heaters and {content / 1e3:.1f} mm of meshes fit no die up to {largest.width_um / 1e3:g} × "
        f"{largest.height_um / 1e3:g} mm; several dies have no layout yet, use narrower or fewer layers"
    )


@dataclass(frozen=True)
class _Die:
    """The die chosen: its size, where its content starts, its pads, the depth of each pad side, the ground bus."""

    width: float
    height: float
    fit: str
    left: float
    rows: PadRows
    depths: dict[int, float]
    bus: float


def _pads_width(process: Process, groups: dict[int, list[Heater]]) -> float:
    """Width in which the longer side's pads fit, as deep as they may be."""
    rows = int(process.pads.rows_max)
    pitch = float(process.pads.size_um) + rows * float(process.metal.wire_width_um + process.metal.space_um)
    return (math.ceil(max(map(len, groups.values())) / rows) + 1) * pitch


def _pad_depth(process: Process, group: list[Heater], side: int, rows: PadRows, left: float, width: float) -> float:
    """Depth of one side's pads and the channel before them, for content that starts at ``left``."""
    keepout = float(process.floorplan.keepout_um)
    drawn = signal_wires(Canvas({}), process, group, side, 0.0)
    wires = [Wire(wire.label, snap(wire.x + left)) for wire in drawn]
    targets = pad_targets(process, wires, rows, keepout, width - keepout)
    pads = float(process.pads.size_um) + (rows.rows - 1) * float(process.pads.pitch_um)
    return channel_height(process, wires, targets) + pads


def _draw(
    netlist: Netlist,
    process: Process,
    halves: dict[int, _Half],
    feed: tuple[float, float],
    roots: dict[int, str],
    die: _Die,
) -> Chip:
    width, left = die.width, die.left
    keepout = float(process.floorplan.keepout_um)
    canvas = Canvas(halves[+1].canvas.frames)
    outer = {+1: snap(die.height - keepout - die.depths[+1]), -1: snap(keepout + die.depths[-1])}
    for side, half in halves.items():
        canvas.add(half.canvas, left, outer[side])
    inner = {side: outer[side] - side * half.height for side, half in halves.items()}
    middle = snap((inner[+1] + inner[-1]) / 2)
    oscillator_tree(canvas, netlist, process, (snap(feed[0] + left), snap(feed[1] + outer[+1])), middle, roots)
    for side, half in halves.items():
        group = heaters(canvas, netlist, set(half.canvas.placed))
        wires = signal_wires(canvas, process, group, side, outer[side])
        ground_trunks(canvas, process, group, side, middle)
        targets = pad_targets(process, wires, die.rows, keepout, width - keepout)
        fan_to_pads(canvas, process, wires, targets, die.rows, side, outer[side])
    _ground_bus(canvas, process, netlist, width, middle, die.bus)
    _fibre_texts(canvas, netlist)
    canvas.texts.append((netlist.circuit.name, width / 2, keepout / 2))
    return Chip(canvas, width, die.height, die.fit, die.rows.rows)


def _ground_bus(canvas: Canvas, process: Process, netlist: Netlist, width: float, middle: float, bus: float) -> None:
    """The bus across the middle and its pads at both ends."""
    size, pitch, keepout = (
        float(process.pads.size_um),
        float(process.pads.pitch_um),
        float(process.floorplan.keepout_um),
    )
    labels = _grounds(netlist)
    each = (len(labels) + 1) // 2
    canvas.metal.append((keepout, middle - bus / 2, width - keepout, middle + bus / 2))
    for i, label in enumerate(labels):
        right, place = divmod(i, each)
        x = width - keepout - size / 2 if right else keepout + size / 2
        canvas.texts.append((label, x, snap(middle + (place - (each - 1) / 2) * pitch)))


def _grounds(netlist: Netlist) -> list[str]:
    """Labels of the ground pads, in their order."""
    return sorted((label for label in netlist.circuit.ports if label.startswith("GND")), key=lambda t: int(t[3:]))


def _ground_pads_height(netlist: Netlist, process: Process) -> float:
    """Height of the ground pads' column at either end of the bus."""
    each = (len(_grounds(netlist)) + 1) // 2
    return (each - 1) * float(process.pads.pitch_um) + float(process.pads.size_um)


def _fibre_texts(canvas: Canvas, netlist: Netlist) -> None:
    for port, label in netlist.label.items():
        instance = port.rpartition(",")[0]
        if netlist.component[instance] == "grating_coupler":
            at = canvas.port(port)
            canvas.texts.append((label, at.x, at.y))
