"""A chip as built: the circuit of its written layout, with the board and the bias that belong to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board, Circuit, read_netlist
from optinc_pdk.drive import Ground
from optinc_pdk.extract import extract
from optinc_pdk.files import InputError
from optinc_pdk.signoff.wiring import wiring_of
from optinc_pdk.simulate.heaters import read_drive


@dataclass(frozen=True, eq=False)
class Built:
    """A chip as built.

    Attributes:
        circuit: Its circuit, as extracted from the layout.
        board: What joins its fibres outside; all that counts of its netlist.
        bias: What its electronics drive.
        ground: What the heaters' currents raise their grounds by.
    """

    circuit: Circuit
    board: Board
    bias: Bias
    ground: Ground


def read_built(gds: str | Path, netlist: str | Path, bias: str | Path, process: Process) -> Built:
    """Read a chip as built; files that do not belong together are refused before the layout is read.

    Args:
        gds: Layout.
        netlist: Netlist of the whole chip.
        bias: Bias file of the same circuit.
        process: Process of all of them.

    Raises:
        InputError: A file cannot be used, the netlist has no board, or the bias is of another process or circuit.
    """
    reference = read_netlist(netlist)
    if reference.board is None:
        raise InputError(f"{netlist}: it has no board under info.board; give the netlist of a whole chip")
    drive = read_drive(bias, process)
    if drive.circuit != reference.name:
        raise InputError(
            f"{bias}: it drives circuit {drive.circuit!r}, the netlist is of {reference.name!r}; give those of one chip"
        )
    circuit, ground = read_layout_circuit(gds, process)
    return Built(circuit, reference.board, drive, ground)


def read_layout_circuit(gds: str | Path, process: Process) -> tuple[Circuit, Ground]:
    """The circuit extracted from a layout, and what currents raise the grounds by; the layout is read once.

    Raises:
        GdsError: The layout cannot be used.
    """
    extraction = extract(gds, process)
    return extraction.circuit, wiring_of(extraction, process).common
