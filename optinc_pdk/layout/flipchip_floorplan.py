"""Floorplan of flip-chip dies: strips with their own bumps, placed in rows from the top to the bottom of a die.

With edge couplers, every strip has a row of its own: its fibres leave to the left and right, with nothing in their way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from optinc_pdk.cards import Process
from optinc_pdk.layout.bumps import bump_wiring
from optinc_pdk.layout.canvas import Canvas, snap
from optinc_pdk.layout.carrier import carrier_block
from optinc_pdk.layout.cell_frames import CellFrames
from optinc_pdk.layout.chip_edges import reach_edges
from optinc_pdk.layout.chip_layout import GAP_UM, NOT_BUILDABLE, DieLayout, strips_of
from optinc_pdk.layout.placement_view import PlacementView
from optinc_pdk.layout.strips import PlacedStrip, StripBuilder

_Part = tuple[str, Canvas]
FOLDS = (1, 3, 5, 7)
"""Numbers of rows into which a mesh is folded; odd, so that light leaves on the right. More exceed any reticle."""


def flipchip_dies(netlist: PlacementView, process: Process, frames: CellFrames) -> list[DieLayout]:
    """Place the strips of a circuit in rows on flip-chip dies and wire their heaters to bumps.

    All strips are on one die of the smallest size of the process card that holds them. If none does, they are
    distributed over dies of the largest size, in the order in which light passes them.

    Args:
        netlist: Circuit in which every strip with heaters has its own ground pads.
        process: Process; its PDK must be active.
        frames: Ports and bounding boxes of components.

    Returns:
        The finished dies.
    """
    largest = process.dies[-1]
    margin = 2 * float(process.floorplan.keepout_um)
    width, height = float(largest.width_um) - margin, float(largest.height_um) - margin
    parts: list[_Part] = []
    if netlist.section("carrier"):
        parts.append(("", _carrier(netlist, process, frames)))
    for name, sections in strips_of(netlist):
        strip = _folded(netlist, process, name, sections, frames, width, height)
        parts.append((name, strip.canvas))
    for die in process.dies:
        stacks = _stacked(parts, float(die.width_um) - margin, float(die.height_um) - margin, process)
        if len(stacks) == 1 and stacks[0].fits:
            return [_die(stacks[0], process)]
    return [_die(stack, process) for stack in _stacked(parts, width, height, process)]


def _carrier(netlist: PlacementView, process: Process, frames: CellFrames) -> Canvas:
    canvas = Canvas(frames)
    carrier_block(canvas, netlist, process)
    return canvas


def _folded(
    netlist: PlacementView,
    process: Process,
    name: str,
    sections: Sequence[str],
    frames: CellFrames,
    width: float,
    height: float,
) -> PlacedStrip:
    """Build a strip with bumps, folded into the fewest rows that fit into the width and the height.

    If no number of rows fits, it gets the fewest rows that fit into the width.
    """

    def wired(rows: int) -> PlacedStrip:
        strip = StripBuilder(netlist, process, name, sections, frames).build(rows)
        bump_wiring(strip, netlist, process, netlist.grounds(strip.canvas.placed))
        return strip

    builder = StripBuilder(netlist, process, name, sections, frames)
    folds = [rows for rows in FOLDS if builder.columns_length(rows) <= width] or [FOLDS[-1]]
    strip = wired(folds[0])
    for rows in folds[1:]:
        left, bottom, right, top = strip.canvas.outer_box()
        if right - left <= width or top - bottom > height:
            break
        strip = wired(rows)
    return strip


@dataclass
class _Stack:
    """Content of one die in rows (shelves), its upper left corner at the origin.

    Attributes:
        canvas: The content.
        strips: Names of its strips.
        x: Where the next part goes in the lowest row.
        top: Top of the lowest row.
        bottom: y of its lowest shape.
        fits: Whether everything is within the die.
    """

    canvas: Canvas
    strips: list[str] = field(default_factory=list)
    x: float = 0.0
    top: float = 0.0
    bottom: float = 0.0
    fits: bool = True


def _stacked(parts: Sequence[_Part], width: float, height: float, process: Process) -> list[_Stack]:
    """Stack parts in rows: right of the previous part, else in a new row, else on a new die.

    With edge couplers, every part is in a new row.
    """
    gap = max(GAP_UM, float(process.floorplan.fibre_pitch_um))
    alone = process.fibres.coupler == "edge_coupler"
    stacks: list[_Stack] = []
    for name, part in parts:
        left, bottom, right, top = part.outer_box()
        wide, high = right - left, top - bottom
        stack = stacks[-1] if stacks else None
        if stack is not None and (alone or stack.x + wide > width):
            stack.x, stack.top = 0.0, snap(stack.bottom - gap)
        if stack is None or high - stack.top > height:
            stack = _Stack(Canvas(part.frames))
            stacks.append(stack)
        stack.strips += [name] if name else []
        stack.canvas.add(part, snap(stack.x - left), snap(stack.top - top))
        stack.fits = stack.fits and wide <= width and high - stack.top <= height
        stack.x = snap(stack.x + wide + gap)
        stack.bottom = min(stack.bottom, snap(stack.top - high))
    return stacks


def _die(stack: _Stack, process: Process) -> DieLayout:
    """Put a stack on the first die size that holds it, cut to its content if the process allows that size."""
    keepout = float(process.floorplan.keepout_um)
    left, bottom, right, top = stack.canvas.outer_box()
    width, height = -(-(right - left + 2 * keepout) // 1), -(-(top - bottom + 2 * keepout) // 1)
    fit = NOT_BUILDABLE
    for die in process.dies:
        if width <= die.width_um and height <= die.height_um:
            fit = die.fit
            if not die.own_size:
                width, height = float(die.width_um), float(die.height_um)
            break
    canvas = Canvas(stack.canvas.frames)
    canvas.add(stack.canvas, snap((width - right - left) / 2), snap((height - top - bottom) / 2))
    reach_edges(canvas, process, width)
    return DieLayout(canvas, tuple(stack.strips), width, height, fit)
