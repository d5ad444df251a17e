"""Perimeter wiring: strips alternate below and above a die's middle; signals leave outwards, grounds meet between."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from optinc_pdk.cards import Process, Quantity
from optinc_pdk.cards.process import Die as DieSize
from optinc_pdk.files import InputError
from optinc_pdk.layout.canvas import Canvas, snap
from optinc_pdk.layout.carrier import carrier_block, oscillator_tree
from optinc_pdk.layout.chip import GAP_UM, LIMITLESS_UM, NOT_BUILDABLE, Die, strips_of
from optinc_pdk.layout.frames import Frames, Point
from optinc_pdk.layout.netlist import Netlist
from optinc_pdk.layout.strips import Strip, StripBuilder
from optinc_pdk.layout.wiring import (
    Heater,
    PadRows,
    Signal,
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
        if not self.canvas.placed:
            return 0.0
        _, bottom, _, top = self.canvas.box()
        return -bottom if self.outward > 0 else top


@dataclass(frozen=True)
class Oscillators:
    """Where the oscillators' feed leaves the carrier block, facing right, and each layer's root port."""

    feed: Point
    roots: dict[int, str]


@dataclass(frozen=True)
class _Plan:
    """A die: its halves, its size, where its content starts, its pads and the depth of each pad side, its bus."""

    halves: dict[int, _Half]
    oscillators: Oscillators | None
    width: float
    height: float
    fit: str
    left: float
    rows: PadRows
    depths: dict[int, float]
    bus: float
    grounds: tuple[str, ...]


def perimeter_dies(netlist: Netlist, process: Process, frames: Frames) -> list[Die]:
    """Place strips, in the light's order, on one die with the oscillators' tree, or on as many as they need."""
    strips = [StripBuilder(netlist, process, *strip, frames).build() for strip in strips_of(netlist)]
    block: Canvas | None = None
    if netlist.section("carrier"):
        block = Canvas(frames)
        feed = carrier_block(block, netlist, process)
        if feed is not None:
            return [_one_die(netlist, process, strips, block, feed)]
    dies: list[Die] = []
    pending = strips
    while pending or block is not None:
        plan, left = _filled(netlist, process, pending, block)
        placed = pending[: len(pending) - len(left)]
        dies.append(_draw(netlist, process, plan, tuple(strip.name for strip in placed)))
        pending = left
        block = None
    return dies


def _one_die(netlist: Netlist, process: Process, strips: list[Strip], block: Canvas, feed: Point) -> Die:
    """Everything on one die, whatever its size, with the oscillators' tree in its middle."""
    halves = _halves(process, block.frames)
    dx, dy = halves[+1].append(block)
    # the oscillators' feed comes down beside the block
    halves[+1].right += GAP_UM
    for index, strip in enumerate(strips):
        halves[+1 if index % 2 else -1].append(strip.canvas)
    roots = {index: strip.root for index, strip in enumerate(strips) if strip.root is not None}
    oscillators = Oscillators((feed[0] + dx, feed[1] + dy), roots)
    plan = _planned(netlist, process, halves, oscillators, _offered(process))
    plan = plan or _own_size(netlist, process, halves, oscillators)
    return _draw(netlist, process, plan, tuple(strip.name for strip in strips))


def _filled(netlist: Netlist, process: Process, strips: list[Strip], block: Canvas | None) -> tuple[_Plan, list[Strip]]:
    """One die with as many of the strips, in order, as its halves hold; and the strips that are left."""
    canvases = ([] if block is None else [block]) + [strip.canvas for strip in strips]
    plan: _Plan | None = None
    taken = 1
    for count in range(1, len(canvases) + 1):
        larger = _planned(netlist, process, _shared(process, canvases[:count]), None, _offered(process))
        if larger is None:
            break
        plan, taken = larger, count
    plan = plan or _own_size(netlist, process, _shared(process, canvases[:1]), None)
    return plan, strips[taken - (block is not None) :]


def _offered(process: Process) -> list[DieSize]:
    """The sizes of dies; one that is turned by 90° is the same die."""
    turned = [die.model_copy(update={"width_um": die.height_um, "height_um": die.width_um}) for die in process.dies]
    return [size for pair in zip(process.dies, turned, strict=True) for size in pair]


def _shared(process: Process, canvases: Sequence[Canvas]) -> dict[int, _Half]:
    """Both halves of a die, filled about equally."""
    halves = _halves(process, canvases[0].frames)
    for canvas in canvases:
        min(halves.values(), key=lambda half: (half.right, half.outward)).append(canvas)
    return halves


def _halves(process: Process, frames: Frames) -> dict[int, _Half]:
    # gratings of neighbouring strips keep their pitch too
    gap = max(GAP_UM, float(process.floorplan.fibre_pitch_um))
    return {side: _Half(Canvas(frames), side, gap) for side in (+1, -1)}


def _own_size(netlist: Netlist, process: Process, halves: dict[int, _Half], oscillators: Oscillators | None) -> _Plan:
    """A die as large as its content: no one makes it, but it can be looked at, checked and simulated."""
    largest = process.dies[-1]
    endless = Quantity(LIMITLESS_UM, largest.width_um.source)
    die = largest.model_copy(update={"width_um": endless, "height_um": endless, "own_size": True})
    plan = _planned(netlist, process, halves, oscillators, (die,))
    if plan is None:
        raise InputError(f"the chip is larger than {LIMITLESS_UM / 1e3:g} mm; use narrower or fewer layers")
    return replace(plan, fit=NOT_BUILDABLE)


def _planned(
    netlist: Netlist,
    process: Process,
    halves: dict[int, _Half],
    oscillators: Oscillators | None,
    sizes: Sequence[DieSize],
) -> _Plan | None:
    """The first die size that holds the halves, or None."""
    keepout, pad = float(process.floorplan.keepout_um), float(process.pads.size_um)
    sides = keepout + pad + GAP_UM
    groups = {side: heaters(half.canvas, netlist, process) for side, half in halves.items()}
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
        # few rows spread over the die, and wires that fan out so far take height: more rows may fit where few do not
        for rows in pad_rows(process, max(map(len, groups.values())), width - 2 * keepout - pad):
            depths = {side: _pad_depth(process, groups[side], side, rows, left, width) for side in halves}
            needed = 2 * keepout + middle + sum(depths[side] + half.height for side, half in halves.items())
            if needed <= height:
                height = snap(math.ceil(needed)) if die.own_size else height
                return _Plan(halves, oscillators, width, height, die.fit, left, rows, depths, bus, grounds)
    return None


def _bus_width(process: Process, groups: dict[int, list[Heater]], left: float, width: float) -> float:
    """Width of the bus for every heater at 2π at once: the nearer end, where ground pads stand, drains more of each."""
    pads = float(process.floorplan.keepout_um + process.pads.size_um)
    places = np.array([heater.ground.x + left for group in groups.values() for heater in group if heater.heats])
    right = float(np.sum((places - pads) / (width - 2 * pads)))
    return width_for(process, full_current_a(process) * max(right, len(places) - right))


def _pads_width(process: Process, groups: dict[int, list[Heater]]) -> float:
    """Width in which the longer side's pads fit, as deep as they may be."""
    rows = int(process.pads.rows_max)
    return (math.ceil(max(map(len, groups.values())) / rows) + 1) * process.pad_pitch_um(rows)


def _pad_depth(process: Process, group: list[Heater], side: int, rows: PadRows, left: float, width: float) -> float:
    """Depth of one side's pads and the channel before them, for content that starts at ``left``."""
    keepout = float(process.floorplan.keepout_um)
    drawn = signal_wires(process, group, side, 0.0)
    wires = [Signal(wire.label, ((snap(wire.x + left), 0.0),)) for wire in drawn]
    targets = pad_targets(process, wires, rows, keepout, width - keepout)
    pads = float(process.pads.size_um) + (rows.rows - 1) * float(process.pads.pitch_um)
    return channel_height(process, wires, targets) + pads


def _draw(netlist: Netlist, process: Process, plan: _Plan, strips: tuple[str, ...]) -> Die:
    """Put the halves into the die and wire them."""
    keepout = float(process.floorplan.keepout_um)
    canvas = Canvas(plan.halves[+1].canvas.frames)
    outer = {+1: snap(plan.height - keepout - plan.depths[+1]), -1: snap(keepout + plan.depths[-1])}
    for side, half in plan.halves.items():
        canvas.add(half.canvas, plan.left, outer[side])
    inner = {side: outer[side] - side * half.height for side, half in plan.halves.items()}
    middle = snap((inner[+1] + inner[-1]) / 2)
    if plan.oscillators is not None:
        feed = plan.oscillators.feed
        at = (snap(feed[0] + plan.left), snap(feed[1] + outer[+1]))
        oscillator_tree(canvas, netlist, process, at, middle, plan.oscillators.roots)
    found = heaters(canvas, netlist, process)
    for side, half in plan.halves.items():
        group = [heater for heater in found if heater.instance in half.canvas.placed]
        wires = signal_wires(process, group, side, outer[side])
        ground_trunks(canvas, process, group, side, middle)
        targets = pad_targets(process, wires, plan.rows, keepout, plan.width - keepout)
        fan_to_pads(canvas, process, wires, targets, plan.rows, side, outer[side])
    if plan.grounds:
        _ground_bus(canvas, process, plan, middle)
    return Die(canvas, strips, plan.width, plan.height, plan.fit)


def _ground_bus(canvas: Canvas, process: Process, plan: _Plan, middle: float) -> None:
    """The bus across the middle and its pads at both ends."""
    size, pitch, keepout = (
        float(process.pads.size_um),
        float(process.pads.pitch_um),
        float(process.floorplan.keepout_um),
    )
    each = (len(plan.grounds) + 1) // 2
    canvas.metal.append((keepout, snap(middle - plan.bus / 2), plan.width - keepout, snap(middle + plan.bus / 2)))
    for i, label in enumerate(plan.grounds):
        right, place = divmod(i, each)
        x = plan.width - keepout - size / 2 if right else keepout + size / 2
        canvas.texts.append((label, x, snap(middle + (place - (each - 1) / 2) * pitch)))


def _ground_pads_height(grounds: Sequence[str], process: Process) -> float:
    """Height of the ground pads' column at either end of the bus."""
    each = (len(grounds) + 1) // 2
    return (each - 1) * float(process.pads.pitch_um) + float(process.pads.size_um)
