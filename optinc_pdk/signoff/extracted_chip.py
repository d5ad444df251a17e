"""Circuits as extracted from written layouts: chips with their board and bias, and circuits that are drawn by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED, Bias, Board, Circuit, PlacedCircuit, open_ports, read_netlist
from optinc_pdk.drive import SharedGround
from optinc_pdk.errors import InputError
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.extract.golden_devices import read_golden
from optinc_pdk.signoff.electrical.wiring import connection_faults, wiring_of
from optinc_pdk.signoff.layout_faults import LayoutFault, layout_faults_of
from optinc_pdk.signoff.lvs.comparison import LvsResult, compare
from optinc_pdk.signoff.lvs.input_consistency import check_netlist
from optinc_pdk.signoff.lvs.label_binding import extract_for, free_label
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
        netlist: Netlist file of the whole chip.
        bias: Bias file of the same circuit.

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
        bias: Bias of the circuit; channels that do not belong to the layout are faults.

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


@dataclass(frozen=True, eq=False)
class DrawnCircuit:
    """A circuit that is drawn by hand.

    Attributes:
        extraction: Extraction of the layout.
        reference: Circuit of the netlist; None without a netlist.
        lvs: Comparison of both; None without a netlist.
        circuit: Extracted circuit with labels for all fibre couplers.
        faults: Faults of the layout, which a simulation of the circuit does not include.
        named: Labels that neither the layout nor the netlist states: the names of extracted fibre couplers.
    """

    extraction: Extraction
    reference: Circuit | None
    lvs: LvsResult | None
    circuit: Circuit
    faults: tuple[LayoutFault, ...]
    named: tuple[str, ...]

    @property
    def separate_faults(self) -> tuple[LayoutFault, ...]:
        """Faults that are no differences from the netlist: LVS reports those of the extraction."""
        return self.faults if self.lvs is None else tuple(each for each in self.faults if each.kind == "open_port")


def read_drawn_circuit(gds_path: str | Path, netlist: Circuit | PlacedCircuit | None, process: Process) -> DrawnCircuit:
    """Extract a layout that is drawn by hand, compare it with its netlist, and name its fibre couplers.

    Args:
        netlist: Circuit of its netlist; None if there is none.

    Raises:
        InputError: A file cannot be used, or the netlist is of another chip or process.
    """
    if netlist is None:
        reference, lvs, extraction = None, None, extract(gds_path, process)
        known: dict[str, int] = {}
    else:
        bound, extraction = extract_for(netlist, gds_path, process)
        reference = bound.reference
        try:
            check_netlist(reference, extraction, process)
        except InputError as fault:
            raise InputError(f"netlist {reference.name!r} {fault}") from fault
        lvs = compare(reference, extraction, process, bound.differences)
        found = {label: int(lvs.port_map[port]) for label, port in bound.unplaced.items()}
        known = {label: port for label, port in found.items() if port != UNCONNECTED}
    labelled = replace(extraction.circuit, ports={**extraction.circuit.ports, **known})
    names = _unnamed_fibres(labelled, process)
    circuit = replace(labelled, ports={**labelled.ports, **names})
    faults = (*layout_faults_of(extraction.faults), *open_port_faults(circuit))
    return DrawnCircuit(extraction, reference, lvs, circuit, faults, tuple(names))


def _unnamed_fibres(circuit: Circuit, process: Process) -> Mapping[str, int]:
    """Return a label for each fibre coupler without one: the name of its extracted instance."""
    guided = {variant.name: set(variant.port_edges) for variant in read_golden(process) if variant.fibre is not None}
    names: dict[str, int] = {}
    for port in open_ports(circuit).tolist():
        number = int(np.searchsorted(circuit.offset, port, side="right")) - 1
        kind = circuit.kinds[int(circuit.kind[number])]
        if kind.name in guided and kind.ports[port - int(circuit.offset[number])] not in guided[kind.name]:
            names[free_label(circuit.instances[number], circuit.ports)] = port
    return names
