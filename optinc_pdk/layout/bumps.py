"""Flip-chip wiring: a bump at every heater's signal contact, and a metal plate over the ground contacts of a column.

A strip's plates are joined by a bus along each row of its mesh, the buses by a spine right of the mesh, and everything
by a bar at the top, on which the labelled ground bumps lie. Bumps on the plates take the current of the nearest
heaters, so that no wide trunk is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from optinc_pdk.cards import Process
from optinc_pdk.errors import InputError
from optinc_pdk.layout.canvas import Canvas, snap
from optinc_pdk.layout.cell_frames import Box
from optinc_pdk.layout.heater_wiring import DrivenDevice, driven_devices, facing_columns
from optinc_pdk.layout.placement_view import PlacementView
from optinc_pdk.layout.strips import PlacedStrip


def bump_wiring(strip: PlacedStrip, netlist: PlacementView, process: Process, grounds: Sequence[str]) -> None:
    """Draw the flip-chip wiring of a strip: bumps at all heaters, ground plates, and labelled ground bumps.

    A strip without heaters is not changed.

    Args:
        strip: The strip; its canvas receives plates, bumps and labels.
        netlist: The circuit.
        process: Process; its card states the size, pitch and spacing of pads and metal.
        grounds: Labels of the strip's ground pads.

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
