"""Consistency of the inputs of LVS: whether a layout, a netlist and a process can be of one chip.

Inputs are refused only if damage of one chip cannot explain them: most labels of the layout are missing in the netlist,
and most labels of the netlist are missing in the layout. A layout without labels or without silicon is compared.
"""

from __future__ import annotations

from pathlib import Path

from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit, flatten
from optinc_pdk.errors import InputError
from optinc_pdk.extract import Extraction
from optinc_pdk.extract.layout_reader import OTHER_PROCESS, better_processes, drawn_layers
from optinc_pdk.extract.mask_layout import read_layout
from optinc_pdk.signoff.lvs.differences import GROUND_PREFIX

# Number of labels or layers that a message names.
NAMES = 3


def check_netlist(reference: Circuit, extraction: Extraction, process: Process) -> None:
    """Raise an error if a netlist is of another chip or another process than a layout.

    Labels of grounds are ignored, because all chips have them.

    Args:
        reference: Circuit of the netlist.
        extraction: Extraction of the layout.

    Raises:
        InputError: The process has no card of a device in the netlist; or more than half of the layout's labels are not
            in the netlist, and more than half of the netlist's labels are not in the layout.
    """
    unknown = sorted({kind.name for kind in flatten(reference).kinds} - set(process.devices))
    if unknown:
        text = f"has devices that process {process.name!r} does not have: {', '.join(unknown)}"
        raise InputError(f"{text}; give its own process with --process")
    expected, extracted = _labels(reference), _labels(extraction.circuit)
    extra, missing = extracted - expected, expected - extracted
    if 2 * len(extra) > len(extracted) and 2 * len(missing) > len(expected):
        text = (
            f"is of another chip: {len(missing)} of its {len(expected)} labels are not in the layout "
            f"({_some(missing)}), and {len(extra)} of the layout's {len(extracted)} labels not in it ({_some(extra)})"
        )
        raise InputError(f"{text}; give the netlist that was written with this layout")


def netlist_hint(reference: Circuit, extraction: Extraction) -> str:
    """Return a hint that the netlist may be of another chip, as text.

    The hint is given if more than half of the labels of one side are missing on the other. A badly damaged layout
    causes this too, so the netlist is not refused.

    Returns:
        The hint; empty if there is no reason for it.
    """
    expected, extracted = _labels(reference), _labels(extraction.circuit)
    extra, missing = extracted - expected, expected - extracted
    if 2 * len(missing) > len(expected):
        count = f"{len(missing)} of its {len(expected)} labels"
        return f"{count} are not in the layout ({_some(missing)}): is it the netlist of this layout?"
    if 2 * len(extra) > len(extracted):
        count = f"{len(extra)} of the layout's {len(extracted)} labels"
        return f"{count} are not in it ({_some(extra)}): is it the netlist of this layout?"
    return ""


def process_hint(gds_path: Path, process: Process) -> str:
    """Return a hint that a layout may be drawn for another process, as text.

    The hint is given if other bundled processes have more layers of the layout than the process, or if the process has
    less than half of them.

    Returns:
        The hint; empty if there is no reason for it.
    """
    drawn = drawn_layers(read_layout(gds_path)[0])
    others, unknown = better_processes(drawn, process.gds_layers), sorted(drawn - set(process.gds_layers.values()))
    if not others and 2 * len(unknown) <= len(drawn):
        return ""
    names = ", ".join(f"{layer}/{datatype}" for layer, datatype in unknown[:NAMES])
    if not others:
        return f"{process.name} does not have layers {names}; {OTHER_PROCESS}"
    return f"{process.name} does not have layers {names}; was the layout drawn for --process {' or '.join(others)}?"


def _labels(circuit: Circuit) -> set[str]:
    return {label for label in circuit.ports if not label.startswith(GROUND_PREFIX)}


def _some(labels: set[str]) -> str:
    return ", ".join(sorted(labels)[:NAMES])
