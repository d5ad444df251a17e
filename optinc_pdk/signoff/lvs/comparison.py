"""Layout versus schematic (LVS): comparison of the circuit extracted from a layout with its reference netlist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import klayout.db as kdb
import klayout.rdb as rdb
import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED, Circuit, flatten
from optinc_pdk.extract import Extraction
from optinc_pdk.extract.golden_devices import device_symmetries
from optinc_pdk.gc_control import gc_paused
from optinc_pdk.io.json_files import json_text
from optinc_pdk.io.writing import saved_bytes, write_atomic
from optinc_pdk.signoff.layout_faults import LayoutFault
from optinc_pdk.signoff.lvs import _lengths as lengths
from optinc_pdk.signoff.lvs import differences
from optinc_pdk.signoff.lvs._lengths import ComparedLengths
from optinc_pdk.signoff.lvs.differences import Difference
from optinc_pdk.validation import validate_api

__all__ = ["Difference", "LvsResult", "compare", "write_lvs", "write_lvs_lyrdb"]

SCHEMA = 1
# Number of differences that are reported in full; more of them have few causes, which show among the first.
MAX_DIFFERENCES = 200
# Half the size of a marker.
MARKER_UM = 2.0


@dataclass(frozen=True)
class LvsResult:
    """Result of a comparison of layout and reference.

    Attributes:
        match: Whether layout and reference are the same circuit.
        devices: Number of matched devices, pads included.
        nets: Number of matched nets, optical and electrical.
        differences: The first differences, at most 200.
        total_differences: Number of all differences.
        device_map: (I,) extracted instance of each instance of the flat reference, -1 if there is none.
        port_map: (P,) extracted port of each optical port and pad of the flat reference, -1 for other ports and if
            there is none.
        unstated: Instances of the flat reference that are heaters whose wires the netlist does not state, so that they
            are not compared.
        unstated_settings: Number of settings of couplers that the netlist does not state, so that they are not
            compared.
        unstated_lengths: Number of guides whose length the netlist does not state, so that it is not compared.
        lengths: The lengths that were compared, a summary for each kind.
    """

    match: bool
    devices: int
    nets: int
    differences: tuple[Difference, ...]
    total_differences: int
    device_map: Ints
    port_map: Ints
    unstated: tuple[int, ...] = ()
    unstated_settings: int = 0
    unstated_lengths: int = 0
    lengths: tuple[ComparedLengths, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the result as dicts and lists, as written to ``.lvs.json``."""
        return {
            "match": self.match,
            "devices": self.devices,
            "nets": self.nets,
            # what the netlist does not state, so that it is not compared
            "heaters_of_unstated_wiring": len(self.unstated),
            "unstated_settings": self.unstated_settings,
            "guides_of_unstated_length": self.unstated_lengths,
            "lengths": [each.to_json() for each in self.lengths],
            "total_differences": self.total_differences,
            "differences": [asdict(difference) for difference in self.differences],
        }


@gc_paused()
def compare(
    reference: Circuit, extraction: Extraction, process: Process, further: Sequence[Difference] = ()
) -> LvsResult:
    """Compare a reference circuit with an extracted one.

    Args:
        reference: Reference circuit, with or without hierarchy.
        extraction: Extracted circuit, and the faults of its layout, which count as differences.
        process: Process with the devices' symmetries, parameters and tolerances.
        further: Differences that the circuits do not show, see `label_binding.BoundLabels`; they come first.

    Raises:
        NetlistError: The reference's cells contain each other.
        CardError: A golden device cannot be used.
    """
    symmetries = {**device_symmetries(process), **lengths.coupler_symmetries(process)}
    pair = differences.match_circuits(flatten(reference), extraction.circuit, process, symmetries)
    found = [*further, *differences.extraction_faults(pair, extraction.faults)]
    for check in (
        differences.labels,
        differences.wires,
        differences.heaters,
        differences.pins,
        differences.nets_without_pad,
        differences.devices,
        differences.nets,
        differences.parameters,
        lengths.couplers,
    ):
        found += check(pair)
    # the arms of a drawn interferometer may differ on purpose; its netlist states their lengths
    of_guides = lengths.guide_lengths if pair.ref.circuit.net_length_um.size else lengths.arms
    checks = [of_guides(pair), lengths.trees(pair)]
    found += [difference for check in checks for difference in check.differences]
    compared = [*(check.compared for check in checks), lengths.coupler_lengths(pair)]
    return LvsResult(
        match=not found,
        devices=int(np.sum(pair.map.device != UNCONNECTED)),
        nets=differences.matched_nets(pair),
        differences=tuple(found[:MAX_DIFFERENCES]),
        total_differences=len(found),
        device_map=pair.map.device,
        port_map=pair.map.port,
        unstated=tuple(sorted(pair.unstated)),
        unstated_settings=lengths.unstated_settings(pair),
        unstated_lengths=lengths.unstated_lengths(pair),
        lengths=tuple(filter(None, compared)),
    )


def write_lvs(result: LvsResult, path: Path) -> None:
    """Write ``.lvs.json``, atomically.

    Raises:
        OSError: The file cannot be written.
    """
    write_atomic(path, json_text({"schema": SCHEMA} | result.to_json(), indent=1).encode())


def write_lvs_lyrdb(
    result: LvsResult | None, gds_path: str | Path, top_cell: str, path: Path, faults: Sequence[LayoutFault] = ()
) -> None:
    """Write the differences as a marker database for KLayout's browser, atomically.

    A difference or fault without a position has texts and no marker.

    Args:
        result: Result of the comparison; None without a netlist.
        top_cell: Name of its top cell.
        faults: Faults of the layout besides the differences.

    Raises:
        OSError: The file cannot be written.
    """
    report = rdb.ReportDatabase("LVS")
    report.generator = "optinc lvs"
    report.original_file = str(gds_path)
    report.top_cell_name = top_cell
    cell = report.create_cell(top_cell)
    categories: dict[str, rdb.RdbCategory] = {}

    def mark(kind: str, position_um: tuple[float, float] | None, *texts: str) -> None:
        if kind not in categories:
            categories[kind] = report.create_category(kind)
        item = report.create_item(cell, categories[kind])
        for text in texts:
            item.add_value(text)
        if position_um is not None:
            x, y = position_um
            item.add_value(kdb.DBox(x - MARKER_UM, y - MARKER_UM, x + MARKER_UM, y + MARKER_UM))

    for each in () if result is None else result.differences:
        names = f"reference: {each.reference or 'nothing'}; layout: {each.extracted or 'nothing'}"
        mark(each.kind, each.position_um, each.message, names)
    for fault in faults:
        mark(fault.kind, fault.place_um, fault.text)
    write_atomic(path, saved_bytes(report.save))


validate_api(__name__)
