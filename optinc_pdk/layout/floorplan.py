"""Circuit to chip, by the wiring that the process card asks for."""

from __future__ import annotations

from optinc_pdk.assemble import assemble, layer_blocks, strip_names
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit, NetlistError, check_complete
from optinc_pdk.collector import collector_paused
from optinc_pdk.layout.chip import NOT_BUILDABLE, Chip, side_by_side
from optinc_pdk.layout.frames import Frames
from optinc_pdk.layout.netlist import Netlist
from optinc_pdk.layout.perimeter import perimeter_dies
from optinc_pdk.layout.shelves import flipchip_dies
from optinc_pdk.layout.wiring import stretch_um
from optinc_pdk.onn import Onn

CARRIER = ("carrier", "lo")
"""Sections that belong to no strip: the carrier's fibres and supply, and the oscillators' tree across a die."""


def first_circuit(onn: Onn, process: Process, name: str) -> Circuit:
    """What a network's floorplan begins with: a circuit for one die with wires to the perimeter, or of local strips."""
    alone = all(len(layer_blocks(onn, index)) == 1 for index in range(len(onn.layers)))
    one_die = alone and process.pads.wiring == "perimeter" and process.activation.realisation == "offchip"
    return assemble(onn, process, name, local=not one_die)


def chip_of(onn: Onn, process: Process, name: str, circuit: Circuit | None = None) -> tuple[Circuit, Chip]:
    """The circuit of a network and its floorplan.

    With wires to the perimeter a network of one block a layer first gets a carrier tree across one die. Where no die
    holds that, and in every other case, strips stand on their own, each with its carriers by fibre, on as many dies as
    they need; strips whose wires share a die's ground bus are then assembled with common grounds.

    Args:
        onn: Network; see :func:`optinc_pdk.assemble.assemble`.
        process: Process; its PDK must be active.
        name: Chip name.
        circuit: What ``first_circuit`` gives, if it is there already.
    """
    circuit = circuit or first_circuit(onn, process, name)
    local = bool(circuit.board and circuit.board.oscillators)
    if not local or process.pads.wiring == "flipchip":
        chip = floorplan(circuit, process)
        if local or chip.fit != NOT_BUILDABLE:
            return circuit, chip
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
        NetlistError: A port is open or used twice, an instance has no place, or a heater no ground pad; names it.
    """
    check_complete(circuit)
    with collector_paused():
        netlist = Netlist(circuit)
        _check_placeable(netlist)
        frames = Frames(stretch_um(netlist, process))
        dies = (flipchip_dies if process.pads.wiring == "flipchip" else perimeter_dies)(netlist, process, frames)
        return side_by_side(dies, netlist, process)


def _check_placeable(netlist: Netlist) -> None:
    """Refuse what has no place or no ground, before anything is drawn."""
    known = {*strip_names(netlist.circuit.sections), *CARRIER}
    for name, component in netlist.component.items():
        if component != "pad" and (name not in netlist.grid or netlist.grid[name][0] not in known):
            raise NetlistError(
                f"{netlist.circuit.name}: instance {name!r} has no place: give it a section of the floorplan, column "
                "and row, as assemble does"
            )
        if name in netlist.heaters and not netlist.grounds([name]):
            raise NetlistError(
                f"{netlist.circuit.name}: instance {name!r} has a heater whose other end is on no ground pad; "
                "join it to a pad labelled GND…"
            )
