"""Circuit to chip, by the wiring that the process card asks for."""

from __future__ import annotations

from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit
from optinc_pdk.layout.chip import Chip, side_by_side
from optinc_pdk.layout.frames import Frames
from optinc_pdk.layout.netlist import Netlist
from optinc_pdk.layout.perimeter import perimeter_dies
from optinc_pdk.layout.shelves import flipchip_dies
from optinc_pdk.layout.wiring import stretch_um


def floorplan(circuit: Circuit, process: Process) -> Chip:
    """Place and route a circuit on the first die size that holds it, or on several dies.

    What no die holds is drawn at its own size and called not buildable.

    Args:
        circuit: Hierarchical circuit with floorplan grid.
        process: Process; its PDK must be active.

    Returns:
        The chip.
    """
    netlist = Netlist(circuit)
    frames = Frames(stretch_um(netlist, process))
    dies = (flipchip_dies if process.pads.wiring == "flipchip" else perimeter_dies)(netlist, process, frames)
    return side_by_side(dies, netlist, process)
