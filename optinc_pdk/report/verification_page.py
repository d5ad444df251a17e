"""The report of a verification: one HTML page with pictures, and the same numbers for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import klayout.db as kdb
import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.extract import Extraction
from optinc_pdk.extract.layout_reader import read_checked
from optinc_pdk.gc_control import gc_paused
from optinc_pdk.io.formatting import count_text
from optinc_pdk.report.build_files import file_digest
from optinc_pdk.report.layout_application import (
    LayoutData,
    application_parts,
    layer_titles,
    layout_items,
    layout_markers,
    read_process_shapes,
)
from optinc_pdk.report.layout_pictures import COLORS, draw_windows
from optinc_pdk.report.layout_polygons import has_polygons, layout_guides
from optinc_pdk.report.pinout import ExtractedNames, pinout_of
from optinc_pdk.report.rendering import base64_text, render
from optinc_pdk.report.sign_off_results import difference_line, drc_rows, lvs_lines, page_rows, violation_line
from optinc_pdk.report.spectra import comparison_png, spectra_png
from optinc_pdk.signoff.extracted_chip import DrawnCircuit
from optinc_pdk.signoff.verification import Verification
from optinc_pdk.simulate.heater_drive import PadSetting

SCHEMA = 1
MOST_PICTURES = 6
"""Findings with a picture of their own."""
MOST_LINES = 200
"""Findings of each kind that the page lists; the marker databases have all."""
WINDOW_UM = 60.0
"""Width of the picture of a finding."""
MARKER_UM = 3.0
"""Half the side of the mark of a finding without a size."""
_MARK, _MARK_COLOR = "mark", "#ffe14d"

Box = tuple[float, float, float, float]


def findings(result: Verification) -> list[tuple[str, Box | None]]:
    """Return all findings of a verification as text, each with its place: left, bottom, right and top in µm.

    Those of the circuit come first, because they state the cause of many violations of design rules.
    """
    found = circuit_findings(result)
    for rule in result.drc.rules:
        notes = iter(rule.notes)
        for left, bottom, right, top in rule.boxes_um.tolist():
            note = next(notes, None)
            place = f"({left:.3f}, {bottom:.3f}) µm"
            text = f"{rule.id} at {place}: {rule.rule.severity}; {rule.rule.text}"
            found.append((text if note is None else f"{text}; {note}", (left, bottom, right, top)))
    return found + [(f"warning {each}", _around(each.place_um)) for each in result.warnings]


def circuit_findings(result: Verification) -> list[tuple[str, Box | None]]:
    """Return what is wrong with the circuit of a layout: differences of LVS, faults, and a deviation of the spectra.

    Without a netlist only faults are returned. With one, faults that are differences already are not repeated.

    Returns:
        The text of each finding, and the box (left, bottom, right, top) of its place in µm, None if it has no place.
    """
    found: list[tuple[str, Box | None]] = []
    if result.lvs is not None:
        found += [(difference_line(each), _around(each.position_um)) for each in result.lvs.differences]
    found += [(str(fault), _around(fault.place_um)) for fault in result.separate_faults]
    if result.spectra is not None and not result.spectra.within:
        found.append((f"function: {function_text(result)}", None))
    return found


def function_text(result: Verification) -> str:
    """Say how far the S-parameters of the layout deviate from those of its netlist, or why they are not compared."""
    spectra = result.spectra
    if spectra is None:
        return f"not compared: {result.not_compared}"
    (power, phase), (most, rad) = (spectra.power, spectra.phase), spectra.tolerance
    fewer = spectra.resolving > len(spectra.wavelengths_nm)
    few = f" of {spectra.resolving:,} that resolve its fringes" if fewer else ""
    faults = sum(fault.affects_function for fault in result.faults)
    left_out = f"; without the effect of {count_text(faults, 'fault')} of the layout" if faults else ""

    def bound(value: float, limit: float, text: str) -> str:
        return f"more than the {text} allowed" if value > limit else f"up to {text} is allowed"

    return (
        f"power deviates by {power.value:.1%} of the largest ({power}), {bound(power.value, most, f'{most:.1%}')}; "
        f"phase by {phase.value:.3f} rad ({phase}), {bound(phase.value, rad, f'{rad:.3f} rad')}; "
        f"{count_text(len(spectra.wavelengths_nm), 'wavelength')}{few}, heaters off{left_out}"
    )


def verdict_lines(result: Verification) -> list[str]:
    """Return what the page of `optinc verify` lists below the verdict, which itself is :func:`verdict_text`.

    First come differences of LVS, faults of the layout and a deviation of the function, one line each, then one line
    for each violated design rule, and last the warnings.
    """
    return [
        *(text for text, _ in circuit_findings(result)),
        *(violation_line(rule) for rule in result.drc.rules if rule.violations),
        *(f"warning {each}" for each in result.warnings),
    ]


def verdict_text(result: Verification) -> str:
    """Return the verdict, with the checks that failed, or that a pass does not cover.

    Examples: ``fail: design rules, LVS``, and ``pass (no netlist: LVS not run)``.
    """
    if not result.passed:
        return f"fail: {', '.join(result.failed)}"
    left_out = []
    if result.lvs is None:
        left_out.append("no netlist: LVS not run")
    if result.scattering is None:
        left_out.append("a device without model: not simulated")
    elif result.lvs is not None and result.spectra is None:
        left_out.append("function not compared with the netlist")
    return f"pass ({'; '.join(left_out)})" if left_out else "pass"


def _around(position: tuple[float, float] | None) -> Box | None:
    if position is None:
        return None
    x, y = position
    return x - MARKER_UM, y - MARKER_UM, x + MARKER_UM, y + MARKER_UM


@dataclass(frozen=True)
class VerifiedFiles:
    """What a verification was run on: files, and voltages or phases by pad label; no netlist is None."""

    layout: Path
    netlist: Path | None
    settings: Mapping[str, PadSetting]

    def to_json(self) -> dict[str, Any]:
        """Return names and SHA-256 of the files, the settings, and the version of the package."""
        return {
            "layout": self.layout.name,
            "layout_sha256": file_digest(self.layout),
            "netlist": None if self.netlist is None else self.netlist.name,
            "netlist_sha256": None if self.netlist is None else file_digest(self.netlist),
            "heaters_set": [{"label": label, **asdict(setting)} for label, setting in self.settings.items()],
            "optinc_version": version("optinc-pdk"),
        }


def verification_numbers(result: Verification, files: VerifiedFiles, process: Process) -> dict[str, Any]:
    """Return the numbers of a verification for JSON."""
    s = result.scattering
    circuit = result.drawn.circuit
    kinds = [circuit.kinds[kind].name for kind in circuit.kind.tolist()]
    return {
        "schema": SCHEMA,
        **files.to_json(),
        "process": process.name,
        "verdict": "pass" if result.passed else "fail",
        "drc": {
            "violations": result.drc.violations,
            "warnings": result.drc.warnings,
            "rules": drc_rows(result.drc.all_rules()),
        },
        "circuit": {
            "devices": {name: kinds.count(name) for name in dict.fromkeys(kinds)},
            "guides": len(circuit.nets),
            "labels": list(circuit.ports),
        },
        "lvs": None if result.lvs is None else result.lvs.to_json(),
        "function": {"not_compared": result.not_compared} if result.spectra is None else result.spectra.to_json(),
        "faults": [fault.to_json() for fault in result.faults],
        "warnings": [warning.to_json() for warning in result.warnings],
        "simulation": {"not_run": result.not_simulated}
        if s is None
        else {"wavelengths_nm": [float(s.wavelengths_nm[0]), float(s.wavelengths_nm[-1])], "ports": list(s.labels)},
    }


def render_verification(result: Verification, verified: VerifiedFiles, process: Process, files: Sequence[str]) -> str:
    """Render the report of a verification as one HTML page, which needs no other file.

    ``files`` are the names of the files that are written beside the page.
    """
    gds = verified.layout
    listed = verdict_lines(result)
    placed = [(text, box) for text, box in findings(result) if box is not None]
    whole, *parts = _pictures(gds, process, [box for _, box in placed])
    application = verification_layout(result, gds, process)
    spectra = None if result.scattering is None else spectra_png(result.scattering, gds.stem)
    return render(
        "verification.html.j2",
        name=gds.stem,
        result=result,
        verdict_text=verdict_text(result),
        process=process,
        lvs_notes=[] if result.lvs is None else lvs_lines(result.lvs),
        numbers=verification_numbers(result, verified, process),
        layout=base64_text(whole),
        pictures=[(text, base64_text(png)) for (text, _), png in zip(placed, parts, strict=False)],
        spectra=None if spectra is None else base64_text(spectra),
        function_text=function_text(result),
        comparison=None if result.spectra is None else base64_text(comparison_png(result.spectra)),
        lines=listed[:MOST_LINES],
        more=max(len(listed) - MOST_LINES, 0),
        mark=_MARK_COLOR,
        rules=page_rows(result.drc.all_rules()),
        application=application and application_parts(application, gds.stem, show_findings=True),
        files=files,
    )


def _pictures(gds: Path, process: Process, boxes: Sequence[Box]) -> list[bytes]:
    """Draw the whole layout, and the surroundings of the first findings, with a mark around every finding."""
    layout = read_checked(gds)
    layers = dict(process.gds_layers)
    # a layer that no process uses
    layers[_MARK] = (32767, 0)
    # looking the cell up after each of 50,000 shapes takes minutes
    marks = layout.top_cell().shapes(layout.layer(*layers[_MARK]))
    for box in boxes:
        marks.insert(kdb.DBox(*box).enlarged(1.0, 1.0))
    windows = [None, *(_window(box) for box in boxes[:MOST_PICTURES])]
    return list(draw_windows(layout, layers, {**COLORS, _MARK: _MARK_COLOR}, windows, 1200))


def _window(box: Box) -> Box:
    """Return a window around a finding that is at least ``WINDOW_UM`` wide."""
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    half = float(np.clip(0.75 * max(box[2] - box[0], box[3] - box[1]), WINDOW_UM / 2, 10 * WINDOW_UM))
    return x - half, y - half / 2, x + half, y + half / 2


@gc_paused()
def verification_layout(result: Verification, gds: Path, process: Process) -> LayoutData | None:
    """Return what the layout of a verification's page shows.

    Instances have their names in the netlist; without a netlist, or without counterpart in it, those of the extraction.
    None for a layout that has no polygon on the layers of the process, such as one with texts only.
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
