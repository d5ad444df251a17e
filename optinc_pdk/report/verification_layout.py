"""The layout of a verification's page as an application: of a circuit that is drawn by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.extract import Extraction
from optinc_pdk.gc_control import gc_paused
from optinc_pdk.report.extracted_names import ExtractedNames
from optinc_pdk.report.layout_application import LayoutData, layer_titles, read_process_shapes
from optinc_pdk.report.layout_guides import layout_guides
from optinc_pdk.report.layout_items import layout_items
from optinc_pdk.report.layout_markers import layout_markers
from optinc_pdk.report.layout_shapes import has_polygons
from optinc_pdk.report.pinout import pinout_of
from optinc_pdk.signoff.drawn_circuit import DrawnCircuit
from optinc_pdk.signoff.verification import Verification


@gc_paused()
def verification_layout(result: Verification, gds: Path, process: Process) -> LayoutData | None:
    """Return what the layout of a verification's page shows.

    Instances have their names in the netlist; without a netlist, or without counterpart in it, those of the extraction.

    Args:
        result: Results of all checks.
        gds: Layout.
        process: Its process.

    Returns:
        The data; None for a layout that has no polygon on the layers of the process, such as one with texts only.
    """
    drawn = result.drawn
    wiring = drawn.extraction.heater_wiring
    if wiring is None or not has_polygons(wiring.mask.layout, process.gds_layers.values()):
        return None
    if drawn.reference is None or drawn.lvs is None:
        names = ExtractedNames(drawn.circuit, drawn.circuit.instances)
    else:
        names = ExtractedNames.of(drawn.extraction, drawn.reference, drawn.lvs)
    extraction = _with_fibre_names(drawn, names)
    pinout = pinout_of(extraction, names, gds.stem, process)
    shapes = read_process_shapes(gds, process)
    guides = layout_guides(extraction, names, shapes, process)
    return LayoutData(
        shapes,
        layer_titles(shapes, process),
        layout_items(extraction, names, pinout, process),
        guides,
        layout_markers(result.drc, (), drawn.lvs, [*result.separate_faults, *result.warnings], guides),
        pinout.dies,
    )


def _with_fibre_names(drawn: DrawnCircuit, names: ExtractedNames) -> Extraction:
    """Return the extraction with the names that the circuit has for fibre couplers without a label."""
    circuit = drawn.circuit
    labels = {
        int(np.searchsorted(circuit.offset, port, side="right")) - 1: label for label, port in circuit.ports.items()
    }
    fibres = tuple(
        replace(fibre, label=fibre.label or labels.get(names.instances[fibre.kind, *fibre.position_um], ""))
        for fibre in drawn.extraction.fibres
    )
    return replace(drawn.extraction, fibres=fibres)
