"""Drawing of perimeter dies: strips above and below the middle, signal wires to the edges, a ground bus between."""

from __future__ import annotations

from collections.abc import Sequence

from optinc_pdk.cards import Process
from optinc_pdk.layout.canvas import Canvas, snap
from optinc_pdk.layout.carrier import oscillator_tree
from optinc_pdk.layout.chip_layout import DieLayout
from optinc_pdk.layout.heater_wiring import driven_devices, ground_trunks, signal_wires
from optinc_pdk.layout.perimeter_pads import fan_to_pads, pad_targets
from optinc_pdk.layout.perimeter_planning import PlannedDie
from optinc_pdk.layout.placement_view import PlacementView


def draw_die(plan: PlannedDie, netlist: PlacementView, process: Process) -> DieLayout:
    """Draw a planned die: strips, local-oscillator tree, wires, pads and ground bus.

    Args:
        plan: Plan of the die.
        netlist: The complete circuit, with the labels of all pads.
        process: Process; its PDK must be active.
    """
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
