"""Whether a layout, a netlist and a process belong together at all; else their differences would tell nothing.

Only what no damage of one chip can look like is refused: most labels of each side are none of the other's. A layout
that lost its labels, or all of its silicon, is compared.
"""

from __future__ import annotations

from pathlib import Path

from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit, flatten
from optinc_pdk.extract import Extraction
from optinc_pdk.extract.gds import read_layout
from optinc_pdk.extract.reading import drawn_layers, processes_with
from optinc_pdk.files import InputError
from optinc_pdk.signoff.lvs_checks import GROUND_PREFIX

NAMES = 3


def check_netlist(reference: Circuit, extraction: Extraction, process: Process) -> None:
    """Refuse a netlist of another chip or another process.

    Raises:
        InputError: The process has no card of a device in the netlist; or more than half of the labels in the layout
            are not in the netlist, and more than half of the netlist's not in the layout, grounds aside, which
            all chips have.
    """
    unknown = sorted({kind.name for kind in flatten(reference).kinds} - set(process.devices))
    if unknown:
        text = f"has devices that process {process.name!r} does not have: {', '.join(unknown)}"
        raise InputError(f"{text}; give its own process with --process")
    wanted, found = _labels(reference), _labels(extraction.circuit)
    foreign, lacking = found - wanted, wanted - found
    if 2 * len(foreign) > len(found) and 2 * len(lacking) > len(wanted):
        text = (
            f"is of another chip: {len(lacking)} of its {len(wanted)} labels are not in the layout ({_some(lacking)}), "
            f"and {len(foreign)} of the layout's {len(found)} not in it ({_some(foreign)})"
        )
        raise InputError(f"{text}; give the netlist that was written with this layout")


def netlist_hint(reference: Circuit, extraction: Extraction) -> str:
    """Whether a netlist that differs may be another chip's: most labels of one side are none of the other's.

    A badly damaged layout looks like that too, so this is no reason to refuse it.
    """
    wanted, found = _labels(reference), _labels(extraction.circuit)
    foreign, lacking = found - wanted, wanted - found
    if 2 * len(lacking) > len(wanted):
        return (
            f"{len(lacking)} of its {len(wanted)} labels are not in the layout ({_some(lacking)}): is it this layout's?"
        )
    if 2 * len(foreign) > len(found):
        return f"it lacks {len(foreign)} of the layout's {len(found)} labels ({_some(foreign)}): is it this layout's?"
    return ""


def process_hint(gds_path: Path, process: Process) -> str:
    """Which process a layout with faults may have been drawn for instead, or nothing."""
    drawn = drawn_layers(read_layout(gds_path)[0])
    unknown = sorted(drawn - set(process.gds_layers.values()))
    others = processes_with(drawn) if unknown else []
    if not others:
        return ""
    told = ", ".join(f"{layer}/{datatype}" for layer, datatype in unknown[:NAMES])
    return f"layers {told} are none of {process.name}'s; was it drawn for {' or '.join(others)} (--process)?"


def _labels(circuit: Circuit) -> set[str]:
    return {label for label in circuit.ports if not label.startswith(GROUND_PREFIX)}


def _some(labels: set[str]) -> str:
    return ", ".join(sorted(labels)[:NAMES])
