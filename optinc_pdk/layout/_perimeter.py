"""Perimeter dies: strips above and below the middle, signal wires to pads at the edges, a ground bus between."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optinc_pdk.cards import Process, Quantity
from optinc_pdk.cards.technology import DieCard as DieSize
from optinc_pdk.layout._heater_wiring import (
    DrivenDevice,
    SignalWire,
    driven_devices,
    full_current_a,
    ground_trunks,
    signal_wires,
    straight_metal,
    width_for_current,
)
from optinc_pdk.layout._routing import river_levels, spaced_positions
from optinc_pdk.layout._strips import PlacedStrip, StripBuilder
from optinc_pdk.layout._trees import carrier_block, oscillator_tree
from optinc_pdk.layout.canvas import Canvas, CellFrames, Point, snap
from optinc_pdk.layout.chip_layout import (
    GAP_UM,
    LIMITLESS_UM,
    NOT_BUILDABLE,
    DieLayout,
    OversizeError,
    PlacementView,
    strips_of,
)


@dataclass
class HalfDie:
    """Strips on one side of a die's middle, side by side from x = 0, with their outer edges at y = 0.

    Attributes:
        canvas: Drawing of the strips.
        outward: +1 for the half above the middle, -1 for the half below.
        gap: Distance between strips in µm.
        right: x in µm at which the next strip starts.
    """

    canvas: Canvas
    outward: int
    gap: float
    right: float = 0.0

    def append(self, part: Canvas) -> tuple[float, float]:
        """Place a part on the right of the others, its outer edge at y = 0; return its shift (dx, dy) in µm."""
        left, bottom, right, top = part.box()
        dx = snap(self.right - left)
        dy = snap(-top if self.outward > 0 else -bottom)
        self.canvas.add(part, dx, dy)
        self.right = snap(right + dx + self.gap)
        return dx, dy

    @property
    def height(self) -> float:
        """Distance in µm from the outer edge to the inner edge of the deepest strip."""
        if not self.canvas.placed:
            return 0.0
        _, bottom, _, top = self.canvas.box()
        return -bottom if self.outward > 0 else top


@dataclass(frozen=True)
class OscillatorFeed:
    """Ends of the local-oscillator tree across a die.

    Attributes:
        start: Position in µm at which the guide to the tree leaves the carrier block to the right.
        roots: Index of each layer to the port at the root of its strip's local-oscillator tree.
    """

    start: Point
    roots: dict[int, str]


@dataclass(frozen=True)
class PlannedDie:
    """A die whose strips are placed and whose size is decided, without wires and pads.

    Attributes:
        strips: Names of its strips.
        halves: Strips above (key +1) and below (key -1) the middle, each with its outer edge at y = 0.
        oscillators: Ends of the local-oscillator tree; None if fibres feed the local oscillators.
        width: Width of the die in µm.
        height: Height of the die in µm.
        fit: Name of the die size in the process card that it fits, or ``not buildable``.
        left: x in µm at which the halves start.
        rows: Number of rows of pads, the same on both sides.
        depths: Height in µm of pads and channel on each side, with the keys of ``halves``.
        bus: Width of the ground bus in µm.
    """

    strips: tuple[str, ...]
    halves: dict[int, HalfDie]
    oscillators: OscillatorFeed | None
    width: float
    height: float
    fit: str
    left: float
    rows: int
    depths: dict[int, float]
    bus: float


def plan_dies(netlist: PlacementView, process: Process, frames: CellFrames) -> list[PlannedDie]:
    """Place the strips of a circuit, which has all ground pads, and distribute them over dies.

    A circuit with a carrier tree gets one die of any size. Otherwise strips are distributed in the order in which light
    passes them, with as many strips on each die as fit.

    Raises:
        InputError: A die would be larger than the largest file that is read back.
    """
    strips = [StripBuilder(netlist, process, *strip, frames).build() for strip in strips_of(netlist)]
    block: Canvas | None = None
    if netlist.section("carrier"):
        block = Canvas(frames)
        feed = carrier_block(block, netlist, process)
        if feed is not None:
            return [_one_die(netlist, process, strips, block, feed)]
    dies: list[PlannedDie] = []
    while strips or block is not None:
        die = _filled(netlist, process, strips, block)
        dies.append(die)
        strips = strips[len(die.strips) :]
        block = None
    return dies


def _one_die(
    netlist: PlacementView, process: Process, strips: list[PlacedStrip], block: Canvas, feed: Point
) -> PlannedDie:
    """Plan one die of any size for all strips, with the oscillators' tree in its middle."""
    halves = _halves(process, block.frames)
    dx, dy = halves[+1].append(block)
    # the oscillators' feed runs down right of the block
    halves[+1].right += GAP_UM
    for index, strip in enumerate(strips):
        halves[+1 if index % 2 else -1].append(strip.canvas)
    roots = {index: strip.root for index, strip in enumerate(strips) if strip.root is not None}
    oscillators = OscillatorFeed((feed[0] + dx, feed[1] + dy), roots)
    names = tuple(strip.name for strip in strips)
    die = _first_fit(netlist, process, names, halves, oscillators, _offered(process))
    return die or _own_size(netlist, process, names, halves, oscillators)


def _filled(netlist: PlacementView, process: Process, strips: list[PlacedStrip], block: Canvas | None) -> PlannedDie:
    """Plan one die with as many of the strips, in order, as its halves hold."""
    parts = ([] if block is None else [("", block)]) + [(strip.name, strip.canvas) for strip in strips]

    def contents(count: int) -> tuple[tuple[str, ...], dict[int, HalfDie]]:
        names = tuple(name for name, _ in parts[:count] if name)
        return names, _balanced(process, [canvas for _, canvas in parts[:count]])

    die: PlannedDie | None = None
    for count in range(1, len(parts) + 1):
        larger = _first_fit(netlist, process, *contents(count), None, _offered(process))
        if larger is None:
            break
        die = larger
    return die or _own_size(netlist, process, *contents(1), None)


def _offered(process: Process) -> list[DieSize]:
    """Return the sizes of dies of the process, each also rotated by 90°."""
    turned = [die.model_copy(update={"width_um": die.height_um, "height_um": die.width_um}) for die in process.dies]
    return [size for pair in zip(process.dies, turned, strict=True) for size in pair]


def _balanced(process: Process, canvases: Sequence[Canvas]) -> dict[int, HalfDie]:
    """Distribute parts over both halves of a die, each to the shorter half."""
    halves = _halves(process, canvases[0].frames)
    for canvas in canvases:
        min(halves.values(), key=lambda half: (half.right, half.outward)).append(canvas)
    return halves


def _halves(process: Process, frames: CellFrames) -> dict[int, HalfDie]:
    # gratings of neighbouring strips keep their pitch, and the guide to the oscillators' tree turns down beside the
    # carrier block
    gap = max(GAP_UM, float(process.floorplan.fibre_pitch_um), 4 * float(process.guide.radius_um))
    return {side: HalfDie(Canvas(frames), side, gap) for side in (+1, -1)}


def _own_size(
    netlist: PlacementView,
    process: Process,
    strips: tuple[str, ...],
    halves: dict[int, HalfDie],
    oscillators: OscillatorFeed | None,
) -> PlannedDie:
    """Plan a die as large as its content, which no foundry makes, to be viewed, checked and simulated."""
    largest = process.dies[-1]
    unlimited = Quantity(LIMITLESS_UM, largest.width_um.source)
    die = largest.model_copy(update={"width_um": unlimited, "height_um": unlimited, "own_size": True})
    planned = _first_fit(netlist, process, strips, halves, oscillators, (die,))
    if planned is None:
        raise OversizeError(
            f"the chip would be larger than {LIMITLESS_UM / 1e3:g} mm, the limit of a die; use narrower or fewer layers"
        )
    return replace(planned, fit=NOT_BUILDABLE)


def _first_fit(
    netlist: PlacementView,
    process: Process,
    strips: tuple[str, ...],
    halves: dict[int, HalfDie],
    oscillators: OscillatorFeed | None,
    sizes: Sequence[DieSize],
) -> PlannedDie | None:
    """Plan a die of the first size that holds the halves; None where no size does."""
    keepout, pad = float(process.floorplan.keepout_um), float(process.pads.size_um)
    sides = keepout + pad + GAP_UM
    groups = {side: driven_devices(half.canvas, netlist, process) for side, half in halves.items()}
    grounds = netlist.grounds(name for half in halves.values() for name in half.canvas.placed)
    content = max(half.right for half in halves.values())
    tracks = 0.0 if oscillators is None else (len(oscillators.roots) + 2) * 6 * float(process.guide.radius_um)
    for die in sizes:
        width, height = float(die.width_um), float(die.height_um)
        if die.own_size:
            width = min(width, snap(math.ceil(max(content + 2 * sides, _pads_width(process, groups) + 2 * keepout))))
        if content + 2 * sides > width:
            continue
        left = snap((width - content) / 2)
        bus = max(_bus_width(process, groups, left, width), _ground_pads_height(grounds, process))
        middle = max(bus, tracks) + 2 * GAP_UM
        # few rows of pads are wide, and wires that fan out to them take height: more rows may fit where few do not
        for rows in pad_rows(process, max(map(len, groups.values())), width - 2 * keepout - pad):
            depths = {side: _pad_depth(process, groups[side], side, rows, left, width) for side in halves}
            needed = 2 * keepout + middle + sum(depths[side] + half.height for side, half in halves.items())
            if needed <= height:
                height = snap(math.ceil(needed)) if die.own_size else height
                return PlannedDie(strips, halves, oscillators, width, height, die.fit, left, rows, depths, bus)
    return None


def _bus_width(process: Process, groups: dict[int, list[DrivenDevice]], left: float, width: float) -> float:
    """Return the width of the bus in µm for all heaters at 2π.

    Ground pads are at both ends of the bus. A heater's current divides between them by its distances to the ends.
    """
    pads = float(process.floorplan.keepout_um + process.pads.size_um)
    places = np.array([heater.ground.x + left for group in groups.values() for heater in group if heater.heats])
    right = float(np.sum((places - pads) / (width - 2 * pads)))
    return width_for_current(process, full_current_a(process) * max(right, len(places) - right))


def _pads_width(process: Process, groups: dict[int, list[DrivenDevice]]) -> float:
    """Return the width in µm of the pads of the longer side, in as many rows as the process allows."""
    rows = int(process.pads.rows_max)
    return (math.ceil(max(map(len, groups.values())) / rows) + 1) * process.pad_pitch_um(rows)


def _pad_depth(process: Process, group: list[DrivenDevice], side: int, rows: int, left: float, width: float) -> float:
    """Return the depth in µm of one side's pads and their channel, for content that starts at ``left``."""
    keepout = float(process.floorplan.keepout_um)
    drawn = signal_wires(process, group, side, 0.0)
    wires = [SignalWire(wire.label, ((snap(wire.x + left), 0.0),)) for wire in drawn]
    targets = pad_targets(process, wires, rows, keepout, width - keepout)
    pads = float(process.pads.size_um) + (rows - 1) * float(process.pads.pitch_um)
    return channel_height(process, wires, targets) + pads


def _ground_pads_height(grounds: Sequence[str], process: Process) -> float:
    """Return the height in µm of the column of ground pads at either end of the bus."""
    each = (len(grounds) + 1) // 2
    return (each - 1) * float(process.pads.pitch_um) + float(process.pads.size_um)


def pad_rows(process: Process, count: int, width: float) -> Iterator[int]:
    """Yield the numbers of rows in which ``count`` pads fit along an edge of ``width`` µm, in ascending order.

    Wires to outer rows pass between the inner pads.
    """
    for rows in range(1, int(process.pads.rows_max) + 1):
        if math.ceil(count / rows) * process.pad_pitch_um(rows) <= width:
            yield rows


def channel_height(process: Process, wires: Sequence[SignalWire], targets: Sequence[float]) -> float:
    """Return the height in µm of the channel in which wires, in ascending order of x, change to their targets (µm)."""
    track = float(process.metal.wire_width_um + process.metal.space_um)
    levels = river_levels(np.array([w.x for w in wires]), np.array(targets), track)
    return (float(levels.max(initial=0)) + 2) * track


def pad_targets(process: Process, wires: Sequence[SignalWire], rows: int, left: float, right: float) -> list[float]:
    """Return the x in µm at which each wire enters the pads between ``left`` and ``right``; wires are in order of x.

    The columns of pads are as close to the x of their wires as possible, by least squares.
    """
    groups = [wires[i : i + rows] for i in range(0, len(wires), rows)]
    offsets = [_offset(process, row) for row in range(rows)]
    targets = np.array([np.mean([w.x - offsets[row] for row, w in enumerate(group)]) for group in groups])
    half, pitch = float(process.pads.size_um) / 2, process.pad_pitch_um(rows)
    centres = spaced_positions(targets, pitch, left + half, right - half - (pitch - 2 * half))
    # offsets are rounded before the pitch is added: otherwise rounding could bring neighbours 1 nm closer; columns side
    # by side have equal offsets but for rounding errors, which must not decide how half a nanometre is rounded
    apart = pitch * np.arange(len(groups))
    centres = np.round(np.round(centres - apart, 9), 3) + apart
    return [snap(float(centres[i // rows]) + offsets[i % rows]) for i in range(len(wires))]


def _offset(process: Process, row: int) -> float:
    """Return how far right of its pad column's centre, in µm, the wire to a row runs."""
    width, space = float(process.metal.wire_width_um), float(process.metal.space_um)
    return 0.0 if row == 0 else float(process.pads.size_um) / 2 + space + width / 2 + (row - 1) * (width + space)


def fan_to_pads(
    canvas: Canvas,
    process: Process,
    wires: Sequence[SignalWire],
    targets: Sequence[float],
    rows: int,
    outward: int,
    start: float,
) -> None:
    """Draw signal wires from their contacts through the channel to their pads, and the pads with their labels.

    The wires are in order of x; the channel begins at y = ``start`` in µm, the pads are above (``outward`` +1) or below
    it.
    """
    width = float(process.metal.wire_width_um)
    track = width + float(process.metal.space_um)
    size, pitch = float(process.pads.size_um), float(process.pads.pitch_um)
    source = np.array([w.x for w in wires])
    levels = river_levels(source, np.array(targets), track)
    edge = start + outward * channel_height(process, wires, targets)
    for i, (wire, target, level) in enumerate(zip(wires, targets, levels.tolist(), strict=True)):
        y = snap(start + outward * (level + 1) * track)
        row = i % rows
        centre = snap(target - _offset(process, row))
        pad = snap(edge + outward * (size / 2 + row * pitch))
        # two parts: the first repeats from column to column of a mesh, the second from pad to pad
        canvas.wire(width, *wire.corners)
        canvas.wire(width, (wire.x, start), (wire.x, y), (target, y), (target, pad))
        if row:
            canvas.metal.append(straight_metal(target, pad, centre, pad, width))
        canvas.metal.append((centre - size / 2, pad - size / 2, centre + size / 2, pad + size / 2))
        canvas.texts.append((wire.label, centre, pad))


def draw_die(plan: PlannedDie, netlist: PlacementView, process: Process) -> DieLayout:
    """Draw a planned die: strips, local-oscillator tree, wires, pads and ground bus."""
    keepout = float(process.floorplan.keepout_um)
    canvas = Canvas(plan.halves[+1].canvas.frames)
    outer = {+1: snap(plan.height - keepout - plan.depths[+1]), -1: snap(keepout + plan.depths[-1])}
    for side, half in plan.halves.items():
        canvas.add(half.canvas, plan.left, outer[side])
    inner = {side: outer[side] - side * half.height for side, half in plan.halves.items()}
    middle = snap((inner[+1] + inner[-1]) / 2)
    if plan.oscillators is not None:
        feed = plan.oscillators.start
        at = (snap(feed[0] + plan.left), snap(feed[1] + outer[+1]))
        oscillator_tree(canvas, netlist, process, at, middle, plan.oscillators.roots)
    devices = driven_devices(canvas, netlist, process)
    for side, half in plan.halves.items():
        group = [heater for heater in devices if heater.instance in half.canvas.placed]
        wires = signal_wires(process, group, side, outer[side])
        ground_trunks(canvas, process, group, side, middle)
        targets = pad_targets(process, wires, plan.rows, keepout, plan.width - keepout)
        fan_to_pads(canvas, process, wires, targets, plan.rows, side, outer[side])
    grounds = netlist.grounds(canvas.placed)
    if grounds:
        _ground_bus(canvas, process, plan, middle, grounds)
    return DieLayout(canvas, plan.strips, plan.width, plan.height, plan.fit)


def _ground_bus(canvas: Canvas, process: Process, plan: PlannedDie, middle: float, grounds: Sequence[str]) -> None:
    """Draw the bus across the middle and label its pads at both ends."""
    size, pitch, keepout = (
        float(process.pads.size_um),
        float(process.pads.pitch_um),
        float(process.floorplan.keepout_um),
    )
    each = (len(grounds) + 1) // 2
    canvas.metal.append((keepout, snap(middle - plan.bus / 2), plan.width - keepout, snap(middle + plan.bus / 2)))
    for i, label in enumerate(grounds):
        right, place = divmod(i, each)
        x = plan.width - keepout - size / 2 if right else keepout + size / 2
        canvas.texts.append((label, x, snap(middle + (place - (each - 1) / 2) * pitch)))
