"""A circuit that is drawn by hand: extracted from its layout, compared with its netlist, with named fibre couplers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED, Circuit, PlacedCircuit, open_ports
from optinc_pdk.errors import InputError
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.extract.golden_devices import read_golden
from optinc_pdk.signoff.extracted_chip import open_port_faults
from optinc_pdk.signoff.layout_faults import LayoutFault, layout_faults_of
from optinc_pdk.signoff.lvs.comparison import LvsResult, compare
from optinc_pdk.signoff.lvs.input_consistency import check_netlist
from optinc_pdk.signoff.lvs.label_binding import extract_for, free_label


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
        gds_path: Layout file.
        netlist: Circuit of its netlist; None if there is none.
        process: Process of both.

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
