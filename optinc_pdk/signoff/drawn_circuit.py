"""A circuit that is drawn by hand, as extracted from its layout: named fibre couplers and pads, and faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit, PlacedCircuit, open_ports
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.extract.golden_devices import read_golden
from optinc_pdk.signoff.extracted_chip import open_port_faults
from optinc_pdk.signoff.layout_faults import LayoutFault, layout_faults_of
from optinc_pdk.signoff.lvs.label_binding import extract_for


@dataclass(frozen=True, eq=False)
class DrawnCircuit:
    """A circuit that is drawn by hand.

    Attributes:
        extraction: Extraction of the layout. Its circuit has labels for all fibre couplers.
        reference: Circuit of the netlist with the same labels; None without a netlist.
        faults: Faults of the layout, which a simulation of the circuit does not include.
        named: Labels that neither the layout nor the netlist states: the names of extracted fibre couplers.
    """

    extraction: Extraction
    reference: Circuit | None
    faults: tuple[LayoutFault, ...]
    named: tuple[str, ...]


def read_drawn_circuit(
    gds_path: str | Path, reference: Circuit | PlacedCircuit | None, process: Process
) -> DrawnCircuit:
    """Extract a layout that is drawn by hand, and name its fibre couplers.

    Args:
        gds_path: Layout file.
        reference: Circuit of its netlist; None if there is none.
        process: Process of both.

    Raises:
        GdsError: The layout cannot be used.
        CardError: The process has no golden files, or one of them is not valid.
    """
    if reference is None:
        bound, extraction = None, extract(gds_path, process)
    else:
        bound, extraction = extract_for(reference, gds_path, process)
    names = _unnamed_fibres(extraction.circuit, process)
    circuit = replace(extraction.circuit, ports={**extraction.circuit.ports, **names})
    faults = (*layout_faults_of(extraction.faults), *open_port_faults(circuit))
    return DrawnCircuit(replace(extraction, circuit=circuit), bound, faults, tuple(names))


def _unnamed_fibres(circuit: Circuit, process: Process) -> Mapping[str, int]:
    """Return a label for each fibre coupler without one: the name of its extracted instance."""
    guided = {variant.name: set(variant.port_edges) for variant in read_golden(process) if variant.meets_fibre}
    names: dict[str, int] = {}
    for port in open_ports(circuit).tolist():
        instance, name = circuit.port_name(port).split(",")
        component = instance.rpartition("_")[0]
        if component in guided and name not in guided[component]:
            names[instance if instance not in circuit.ports else f"{instance}.fibre"] = port
    return names
