"""The chip as extracted from its written layout: its circuit, with the board and the bias that belong to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board, Circuit, read_netlist
from optinc_pdk.drive import SharedGround
from optinc_pdk.errors import InputError
from optinc_pdk.extract import extract
from optinc_pdk.signoff.electrical.wiring import wiring_of
from optinc_pdk.simulate.heater_drive.phases import check_phases, read_drive


@dataclass(frozen=True, eq=False)
class ExtractedChip:
    """A chip whose circuit is extracted from its layout.

    Attributes:
        circuit: The extracted circuit.
        board: Connections outside the chip, from the netlist; nothing else of the netlist is used.
        bias: DAC codes of the heaters, and settings of neurons and receivers.
        ground: Ground rise that results from the heaters' currents.
    """

    circuit: Circuit
    board: Board
    bias: Bias
    ground: SharedGround


def read_extracted_chip(gds: str | Path, netlist: str | Path, bias: str | Path, process: Process) -> ExtractedChip:
    """Read a layout, its netlist and its bias; files that do not belong together are refused before extraction.

    Args:
        gds: Layout file.
        netlist: Netlist file of the whole chip.
        bias: Bias file of the same circuit.
        process: Process of all three files.

    Raises:
        InputError: A file cannot be used, the netlist has no board, or the bias is of another process or circuit, or
            its phases are not those of its powers on this layout.
    """
    reference = read_netlist(netlist)
    if reference.board is None:
        raise InputError(f"{netlist}: no board under info.board; give the netlist of a whole chip")
    drive = read_drive(bias, process)
    if drive.circuit != reference.name:
        raise InputError(
            f"{bias}: it drives circuit {drive.circuit!r}, the netlist is of {reference.name!r}; give those of one chip"
        )
    circuit, ground = extract_circuit_and_ground(gds, process)
    check_phases(bias, circuit, drive, process)
    return ExtractedChip(circuit, reference.board, drive, ground)


def extract_circuit_and_ground(gds: str | Path, process: Process) -> tuple[Circuit, SharedGround]:
    """Extract the circuit of a layout and its ground rise; the layout is read once.

    Raises:
        GdsError: The layout cannot be used.
    """
    extraction = extract(gds, process)
    return extraction.circuit, wiring_of(extraction, process).common_ground
