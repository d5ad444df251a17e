"""Circuit to chip, by the wiring that the process card asks for."""

from __future__ import annotations

from optinc_pdk.assemble import assemble, layer_blocks, strip_names
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit, check_complete
from optinc_pdk.layout.chip import NOT_BUILDABLE, Chip, side_by_side
from optinc_pdk.layout.frames import Frames
from optinc_pdk.layout.netlist import Netlist
from optinc_pdk.layout.perimeter import perimeter_dies
from optinc_pdk.layout.shelves import flipchip_dies
from optinc_pdk.layout.wiring import stretch_um
from optinc_pdk.onn import Onn


def chip_of(onn: Onn, process: Process, name: str) -> tuple[Circuit, Chip]:
    """The circuit of a network and its floorplan.

    With wires to the perimeter a network of one block a layer first gets a carrier tree across one die. Where no die
    holds that, and in every other case, strips stand on their own, each with its carriers by fibre, on as many dies as
    they need; strips whose wires share a die's ground bus are then assembled with common grounds.

    Args:
        onn: Network; see :func:`optinc_pdk.assemble.assemble`.
        process: Process; its PDK must be active.
        name: Chip name.
    """
    perimeter = process.pads.wiring == "perimeter"
    alone = all(len(layer_blocks(onn, index)) == 1 for index in range(len(onn.layers)))
    if perimeter and alone and process.activation.realisation == "offchip":
        circuit = assemble(onn, process, name)
        chip = floorplan(circuit, process)
        if chip.fit != NOT_BUILDABLE:
            return circuit, chip
    if not perimeter:
        circuit = assemble(onn, process, name, local=True)
        return circuit, floorplan(circuit, process)
    # shared out with grounds in common, so that every die has the ground pads that it will have in the end
    strips = strip_names(block.name for index in range(len(onn.layers)) for block in layer_blocks(onn, index))
    common = assemble(onn, process, name, local=True, dies=dict.fromkeys(strips.values(), "d0"))
    shared = floorplan(common, process).strips
    dies = {strip: f"d{number}" for number, names in enumerate(shared) for strip in names}
    circuit = assemble(onn, process, name, local=True, dies=dies)
    return circuit, floorplan(circuit, process)


def floorplan(circuit: Circuit, process: Process) -> Chip:
    """Place and route a circuit on the first die size that holds it, or on several dies.

    What no die holds is drawn at its own size and called not buildable.

    Args:
        circuit: Hierarchical circuit with floorplan grid.
        process: Process; its PDK must be active.

    Returns:
        The chip.

    Raises:
        NetlistError: A port is open or used twice; names instance and port.
    """
    check_complete(circuit)
    netlist = Netlist(circuit)
    frames = Frames(stretch_um(netlist, process))
    dies = (flipchip_dies if process.pads.wiring == "flipchip" else perimeter_dies)(netlist, process, frames)
    return side_by_side(dies, netlist, process)
