"""Flip-chip dies: strips in rows, a bump at every heater's signal contact, and a metal plate over its grounds.

A strip's plates are joined by a bus along each row of its mesh, the buses by a spine right of the mesh, and everything
by a bar at the top, on which the labelled ground bumps lie. Bumps on the plates take the current of the nearest
heaters, so that no wide trunk is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from optinc_pdk.cards import Process
from optinc_pdk.errors import InputError
from optinc_pdk.layout._heater_wiring import DrivenDevice, driven_devices, facing_columns
from optinc_pdk.layout._strips import PlacedStrip, StripBuilder
from optinc_pdk.layout._trees import carrier_block
from optinc_pdk.layout.canvas import Box, Canvas, CellFrames, snap
from optinc_pdk.layout.chip_layout import GAP_UM, NOT_BUILDABLE, DieLayout, PlacementView, strips_of

_Part = tuple[str, Canvas]
FOLDS = (1, 3, 5, 7)
"""Numbers of rows into which a mesh is folded; odd, so that light leaves on the right. More exceed any reticle."""


def flipchip_dies(netlist: PlacementView, process: Process, frames: CellFrames) -> list[DieLayout]:
    """Place the strips of a circuit in rows on flip-chip dies and wire their heaters to bumps.

    All strips are on one die of the smallest size of the process card that holds them. If none does, they are
    distributed over dies of the largest size, in the order in which light passes them. With edge couplers, every strip
    has a row of its own: its fibres leave to the left and right, with nothing in their way. Every strip with heaters
    has its own ground pads.
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


def reach_edges(canvas: Canvas, process: Process, width: float) -> None:
    """Move the edge couplers of a die, ``width`` µm wide from x = 0, outwards until their tips are at its edges.

    A straight guide leads from the place where a coupler was to the place where it is; there is nothing in between.
    """
    if process.fibres.facet_um is None:
        return
    inner = float(process.fibres.facet_um) + process.device("edge_coupler").size("length_um")
    for name, placed in list(canvas.placed.items()):
        if placed.component != "edge_coupler":
            continue
        x = snap(inner if placed.rotation == 180 else width - inner)
        canvas.guide((placed.x, placed.y), (x, placed.y))
        canvas.placed[name] = placed._replace(x=x)


def bump_wiring(strip: PlacedStrip, netlist: PlacementView, process: Process, grounds: Sequence[str]) -> None:
    """Draw the flip-chip wiring of a strip: bumps at all heaters, ground plates, and labelled ground bumps.

    A strip without heaters is not changed.

    Raises:
        InputError: The strip has heaters and no ground pad.
    """
    canvas = strip.canvas
    group = driven_devices(canvas, netlist, process)
    if not group:
        return
    if not grounds:
        raise InputError(f"strip {strip.name!r} has heaters and no ground pad; add one to its circuit")
    for heater in group:
        canvas.bumps.append(heater.landing)
        canvas.texts.append((heater.label, *heater.landing))
    landing, space = float(process.pads.size_um), float(process.metal.space_um)
    in_mesh: set[str] = set()
    buses = []
    for row in strip.rows:
        in_mesh |= row
        inside = [heater for heater in group if heater.instance in row]
        if inside:
            buses.append(_row(canvas, process, inside))
    # above the gratings too, because no metal may cover them
    above = max(canvas.outer_box()[3], max(h.landing[1] for h in group) + landing / 2) + space
    # bumps on the bar keep the pitch to those on the plates
    top = snap(max(above, max(h.ground.y for h in group) + float(process.pads.pitch_um)) + landing)
    outside = [heater for heater in group if heater.instance not in in_mesh]
    plates = [_plate(canvas, process, column, top) for column in facing_columns(outside)]
    if buses:
        inside = [heater for heater in group if heater.instance in in_mesh]
        left = snap(max(max(h.signal.x, h.ground.x) for h in inside) + landing + space)
        spine = (left, min(bus[1] for bus in buses), snap(left + landing), top)
        canvas.metal += [spine, *((bus[0], bus[1], spine[2], bus[3]) for bus in buses)]
        plates.append(spine)
    bar = (min(p[0] for p in plates), snap(top - landing), max(p[2] for p in plates), top)
    _ground_bumps(canvas, process, bar, grounds)


def _row(canvas: Canvas, process: Process, group: list[DrivenDevice]) -> Box:
    """Draw the ground plates of one row of a mesh; return the outline of the bus above them."""
    landing, space = float(process.pads.size_um), float(process.metal.space_um)
    bottom = snap(max(h.landing[1] for h in group) + landing / 2 + space)
    top = snap(bottom + landing)
    plates = [_plate(canvas, process, column, top) for column in facing_columns(group)]
    return min(p[0] for p in plates), bottom, max(p[2] for p in plates), top


def _plate(canvas: Canvas, process: Process, column: list[DrivenDevice], top: float) -> Box:
    """Draw a plate over the ground contacts of a column, or of two that face each other, up to ``top``."""
    contact, landing = process.device("phase_shifter").size("contact_width_um"), float(process.pads.size_um)
    # a port lies at the outer edge of its contact
    edges = [(h.ground.x, h.ground.x + (contact if h.ground.angle == 180 else -contact)) for h in column]
    left, right = min(min(edge) for edge in edges), max(max(edge) for edge in edges)
    if right - left < landing:
        outward = landing - (right - left)
        left, right = (left - outward, right) if column[0].ground.angle == 180 else (left, right + outward)
    canvas.metal += [h.stub for h in column if h.stub is not None]
    # a bump at every heater's ground takes its current
    ys = sorted({h.ground.y for h in column})
    plate = (snap(left), snap(ys[0] - landing / 2), snap(right), top)
    canvas.metal.append(plate)
    canvas.bumps += [(snap((left + right) / 2), y) for y in ys if column[0].heats]
    return plate


def _ground_bumps(canvas: Canvas, process: Process, bar: Box, grounds: Sequence[str]) -> None:
    """Draw the bar at the top and its labelled bumps, from the left."""
    left, bottom, right, top = bar
    pitch = max(float(process.pads.pitch_um), float(process.pads.size_um + process.metal.space_um))
    half = (top - bottom) / 2
    right = max(right, left + 2 * half + pitch * (len(grounds) - 1))
    canvas.metal.append((left, bottom, snap(right), top))
    for i, label in enumerate(grounds):
        x, y = snap(left + half + i * pitch), snap(bottom + half)
        canvas.bumps.append((x, y))
        canvas.texts.append((label, x, y))
