"""Layout of a network: dies are planned, then the circuit is completed for them, then the chip is drawn."""

from __future__ import annotations

from optinc_pdk.assemble import (
    CARRIER_TREE,
    LOCAL_STRIPS,
    CircuitPlan,
    DiePlan,
    draft_circuit,
    strip_names,
)
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit, NetlistError, check_complete
from optinc_pdk.gc_control import gc_paused
from optinc_pdk.layout._flipchip import flipchip_dies
from optinc_pdk.layout._heater_wiring import stretch_um
from optinc_pdk.layout._perimeter import PlannedDie, draw_die, plan_dies
from optinc_pdk.layout.canvas import CellFrames
from optinc_pdk.layout.chip_layout import NOT_BUILDABLE, ChipLayout, PlacementView, side_by_side
from optinc_pdk.networks import AveragingNetwork
from optinc_pdk.pdk import active_pdk

CARRIER = ("carrier", "lo")
"""Sections that belong to no strip: the carrier's fibres and supply, and the oscillators' tree across a die."""


def lay_out_network(onn: AveragingNetwork, process: Process, name: str) -> tuple[Circuit, ChipLayout]:
    """Assemble the circuit of a network as the chip ``name``, and lay it out, see :func:`lay_out`."""
    return lay_out(draft_circuit(onn, process, name), process)


def lay_out(draft: CircuitPlan, process: Process) -> tuple[Circuit, ChipLayout]:
    """Plan the dies of a chip, complete its circuit for them and draw the chip.

    With flip-chip wiring every strip has its own bumps, so the circuit does not depend on the dies. With perimeter
    wiring the dies are planned first, because the carrier tree and the ground pads depend on them.

    Returns:
        The complete circuit and the chip layout.
    """
    if process.pads.wiring == "flipchip":
        circuit = draft.complete(LOCAL_STRIPS)
        return circuit, floorplan(circuit, process)
    with active_pdk(process), gc_paused():
        plan, dies = _planned(draft, process)
        circuit = draft.complete(plan)
        netlist = _placeable(circuit)
        return circuit, side_by_side([draw_die(die, netlist, process) for die in dies], netlist, process)


def _planned(draft: CircuitPlan, process: Process) -> tuple[DiePlan, list[PlannedDie]]:
    """Plan the dies of a chip with perimeter wiring.

    A network of one bank of mixers a layer and activations off the chip gets a carrier tree across one die. Where no
    die holds that, and for every other network, strips are local, on as many dies as they need.
    """
    if draft.shares_one_die:
        dies = _plan_dies(draft.complete(CARRIER_TREE), process)
        if dies[0].fit != NOT_BUILDABLE:
            return CARRIER_TREE, dies
    # all grounds are common here, so that every die is planned with the ground pads of a die
    dies = _plan_dies(draft.complete(DiePlan(False, dict.fromkeys(draft.strips, "d0"))), process)
    return DiePlan(False, {strip: f"d{number}" for number, die in enumerate(dies) for strip in die.strips}), dies


def _plan_dies(circuit: Circuit, process: Process) -> list[PlannedDie]:
    netlist = PlacementView(circuit)
    return plan_dies(netlist, process, CellFrames(stretch_um(netlist, process)))


def floorplan(circuit: Circuit, process: Process) -> ChipLayout:
    """Place and route a complete circuit on the first die size that holds it, or on several dies.

    Parts that are larger than every die are drawn on a die of their own size with the fit ``not buildable``.

    Args:
        circuit: Hierarchical circuit; every instance has a position in the floorplan grid.

    Returns:
        The chip layout.

    Raises:
        NetlistError: A port is open or used twice, an instance has no position, or a heater has no ground pad. The
            message names the port or instance.
    """
    with active_pdk(process), gc_paused():
        netlist = _placeable(circuit)
        frames = CellFrames(stretch_um(netlist, process))
        if process.pads.wiring == "flipchip":
            dies = flipchip_dies(netlist, process, frames)
        else:
            dies = [draw_die(die, netlist, process) for die in plan_dies(netlist, process, frames)]
        return side_by_side(dies, netlist, process)


def _placeable(circuit: Circuit) -> PlacementView:
    """Index a circuit; refuse one that has open ports, or instances without a place or a ground.

    Raises:
        NetlistError: Names the port or instance.
    """
    check_complete(circuit)
    netlist = PlacementView(circuit)
    known = {*strip_names(circuit.sections), *CARRIER}
    for name, component in netlist.component.items():
        if component != "pad" and (name not in netlist.grid or netlist.grid[name][0] not in known):
            raise NetlistError(
                f"{circuit.name}: instance {name!r} has no place: give it a section of the floorplan, column "
                "and row, as assemble does"
            )
        if name in netlist.heaters and not netlist.grounds([name]):
            raise NetlistError(
                f"{circuit.name}: instance {name!r} has a heater whose other end is on no ground pad; "
                "join it to a pad labelled GND…"
            )
    return netlist
