"""The chip as extracted from its written layout: its circuit, with the board and the bias that belong to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board, Circuit, read_netlist
from optinc_pdk.drive import Ground
from optinc_pdk.errors import InputError
from optinc_pdk.extract import extract
from optinc_pdk.signoff.wiring import wiring_of
from optinc_pdk.simulate.heaters import read_drive


@dataclass(frozen=True, eq=False)
class Built:
    """A chip whose circuit is extracted from its layout.

    Attributes:
        circuit: The extracted circuit.
        board: Connections outside the chip; the only part of the netlist that is used.
        bias: Settings of its electronics.
        ground: Ground rise from the heaters' currents.
    """

    circuit: Circuit
    board: Board
    bias: Bias
    ground: Ground


def read_built(gds: str | Path, netlist: str | Path, bias: str | Path, process: Process) -> Built:
    """Read a layout, its netlist and its bias; files that do not belong together are refused before extraction.

    Args:
        gds: Layout file.
        netlist: Netlist file of the whole chip.
        bias: Bias file of the same circuit.
        process: Process of all three files.

    Raises:
        InputError: A file cannot be used, the netlist has no board, or the bias is of another process or circuit.
    """
    reference = read_netlist(netlist)
    if reference.board is None:
        raise InputError(f"{netlist}: no board under info.board; give the netlist of a whole chip")
    drive = read_drive(bias, process)
    if drive.circuit != reference.name:
        raise InputError(
            f"{bias}: it drives circuit {drive.circuit!r}, the netlist is of {reference.name!r}; give those of one chip"
        )
    circuit, ground = read_layout_circuit(gds, process)
    return Built(circuit, reference.board, drive, ground)


def read_layout_circuit(gds: str | Path, process: Process) -> tuple[Circuit, Ground]:
    """Extract the circuit of a layout and its ground rise; the layout is read once.

    Raises:
        GdsError: The layout cannot be used.
    """
    extraction = extract(gds, process)
    return extraction.circuit, wiring_of(extraction, process).common
