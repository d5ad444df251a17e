"""The chip as extracted from its written layout: circuit and faults, with the board and the bias that belong to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board, Circuit, open_ports, read_netlist
from optinc_pdk.drive import SharedGround
from optinc_pdk.errors import InputError
from optinc_pdk.extract import extract
from optinc_pdk.signoff.electrical.wiring import wiring_of
from optinc_pdk.signoff.electrical.wiring_faults import connection_faults
from optinc_pdk.signoff.layout_faults import LayoutFault, layout_faults_of
from optinc_pdk.simulate.heater_drive import check_phases, read_drive

WITHOUT_BOARD = Board("", (), (), (), (), ())
"""Board of the chip of a matrix: nothing outside the chip belongs to it."""


@dataclass(frozen=True, eq=False)
class ExtractedLayout:
    """A circuit that is extracted from a layout.

    Attributes:
        circuit: The extracted circuit.
        ground: Ground rise that results from the heaters' currents.
        faults: Faults of the layout, which the circuit does not include.
    """

    circuit: Circuit
    ground: SharedGround
    faults: tuple[LayoutFault, ...]


@dataclass(frozen=True, eq=False)
class ExtractedChip:
    """A chip whose circuit is extracted from its layout.

    Attributes:
        circuit: The extracted circuit.
        board: Connections outside the chip, from the netlist; ``WITHOUT_BOARD`` for a matrix.
        bias: DAC codes of the heaters, and settings of neurons and receivers.
        ground: Ground rise that results from the heaters' currents.
        faults: Faults of the layout, which the circuit does not include.
    """

    circuit: Circuit
    board: Board
    bias: Bias
    ground: SharedGround
    faults: tuple[LayoutFault, ...] = ()


def read_extracted_chip(gds: str | Path, netlist: str | Path, bias: str | Path, process: Process) -> ExtractedChip:
    """Read a layout, its netlist and its bias; files that do not belong together are refused before extraction.

    Of the netlist, only the board and the names of labels are used.

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
        raise InputError(
            f"{netlist}: no board under info.board, as of the chip of a matrix; give the netlist of the network's "
            "chip, or the matrix of this one"
        )
    return _extracted(reference, reference.board, gds, netlist, bias, process)


def read_extracted_matrix_chip(
    gds: str | Path, netlist: str | Path, bias: str | Path, process: Process
) -> ExtractedChip:
    """Read the chip of a matrix, which has no board; see :func:`read_extracted_chip`.

    Raises:
        InputError: A file cannot be used, the netlist has a board, or the files do not belong together.
    """
    reference = read_netlist(netlist)
    if reference.board is not None:
        raise InputError(
            f"{netlist}: has a board under info.board, so it is the netlist of a network, not of a matrix; give the "
            "network's weight file, or the files of a matrix's chip"
        )
    return _extracted(reference, WITHOUT_BOARD, gds, netlist, bias, process)


def _extracted(
    reference: Circuit, board: Board, gds: str | Path, netlist: str | Path, bias: str | Path, process: Process
) -> ExtractedChip:
    """Read layout and bias of a circuit; files that do not belong together are refused before extraction."""
    drive = read_drive(bias, process)
    if drive.circuit != reference.name:
        raise InputError(
            f"{bias}: it drives circuit {drive.circuit!r}, the netlist is of {reference.name!r}; give those of one chip"
        )
    layout = read_extracted_layout(gds, drive, process)
    # a missing label of a channel is a fault of the wiring already
    missing = sorted(set(reference.ports) - set(layout.circuit.ports) - set(drive.labels))
    lost = tuple(LayoutFault("label", f"label {label!r} of the netlist is not in the layout") for label in missing)
    faults = layout.faults + lost
    if not faults:
        # on a faulty layout, heaters may be elsewhere than where the bias was computed for
        check_phases(bias, layout.circuit, drive, process)
    return ExtractedChip(layout.circuit, board, drive, layout.ground, faults)


def read_extracted_layout(gds: str | Path, bias: Bias, process: Process) -> ExtractedLayout:
    """Extract the circuit of a layout, its ground rise and its faults; the layout is read once.

    Args:
        gds: Layout file.
        bias: Bias of the circuit; channels that do not belong to the layout are faults.
        process: Process of both.

    Raises:
        GdsError: The layout cannot be used.
    """
    extraction = extract(gds, process)
    wiring = wiring_of(extraction, process)
    found = (
        *layout_faults_of(extraction.faults),
        *open_port_faults(extraction.circuit),
        *connection_faults(wiring, bias),
    )
    return ExtractedLayout(extraction.circuit, wiring.common_ground, found)


def open_port_faults(circuit: Circuit) -> Iterator[LayoutFault]:
    """Yield a fault for each device of a flat extracted circuit that has open optical ports."""
    ports = open_ports(circuit)
    owner = np.searchsorted(circuit.offset, ports, side="right") - 1
    for device in np.unique(owner).tolist():
        kind = circuit.kinds[int(circuit.kind[device])]
        first = int(circuit.offset[device])
        names = ", ".join(kind.ports[port - first] for port in ports[owner == device].tolist())
        x, y = circuit.position_um[device].tolist()
        text = f"port {names} of a {kind.name} leads nowhere: a device, a guide or a fibre's label is missing there"
        yield LayoutFault("open_port", text, (x, y))
