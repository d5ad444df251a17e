"""The page of a build: one HTML file that needs no other file."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

from optinc_pdk.io.formatting import format_si
from optinc_pdk.io.writing import write_atomic
from optinc_pdk.options import ACTIVATION_NAMES
from optinc_pdk.report.eye_diagrams import RateEyes, eye_rows, eyes_text
from optinc_pdk.report.layout_application import LayoutData, application_parts
from optinc_pdk.report.layout_pictures import COLORS
from optinc_pdk.report.matrix_pictures import MatrixMap, maps_text
from optinc_pdk.report.rendering import base64_text, render
from optinc_pdk.report.schema import (
    FactorNumbers,
    FunctionNumbers,
    MatrixTaskNumbers,
    NetworkNumbers,
    OnnNumbers,
    Report,
    SpectrumNumbers,
    SystemEffectNumbers,
)
from optinc_pdk.report.sign_off_results import page_rows
from optinc_pdk.report.spectra import spectrum_png, spectrum_rows
from optinc_pdk.report.summary import limit_text, matrix_line, matrix_task_text, network_line, task_text
from optinc_pdk.signoff.drc.design_rule_check import RuleResult

MAX_ERRORS = 16
"""Values of wrong words with a row of their own; the others share one row."""
_LEGEND = {"core": "silicon guide", "etch70": "grating etch", "heater": "heater", "metal": "metal"}


@dataclass(frozen=True, eq=False)
class PageResults:
    """Results of the checks that the page shows in detail; eye diagrams are those at the highest symbol rate."""

    rules: Sequence[RuleResult]
    matrices: Sequence[MatrixMap]
    eyes: RateEyes | None = None


class PageContent(TypedDict, total=False):
    """What a page shows beside the numbers.

    Attributes:
        layout: PNG of the whole layout.
        detail: PNG of a part of it.
        outputs: PNG of the outputs against their ideal levels.
        matrix: PNG of a matrix, its target and their difference.
        network: PNG of the outputs of a general network.
        notes: Findings and warnings as text, shown under the verdict.
        application: What the layout as an application shows; without it, the page has no script.
        results: Results of the checks in detail.
    """

    layout: bytes
    detail: bytes
    outputs: bytes
    matrix: bytes
    network: bytes
    notes: Sequence[str]
    application: LayoutData
    results: PageResults


def render_page(report: Report, **content: Unpack[PageContent]) -> str:
    """Render the report of a build as one HTML page.

    Pictures are embedded, the page loads no other file, and every string is escaped. In a browser that runs scripts,
    the layout as an application takes the place of its pictures.
    """
    pictures = {
        "layout": content.get("layout"),
        "detail": content.get("detail"),
        "outputs": content.get("outputs"),
        "matrix": content.get("matrix"),
        "network": content.get("network"),
    }
    application, results = content.get("application"), content.get("results")
    light = None if report.chip is None else report.chip.light
    return render(
        "page.html.j2",
        report=report,
        summary=_summary(report),
        lines=[*report.failures(), *content.get("notes", ())],
        legend=[(text, COLORS[name]) for name, text in _LEGEND.items()],
        words=_words(report.function),
        limited_by=None if report.speed is None else limit_text(report.speed),
        effects=[] if report.speed is None else [_effect(each) for each in report.speed.system or ()],
        losses="" if light is None else ", ".join(f"{loss:.1f}" for loss in light.hop_loss_db),
        application=application and application_parts(application, report.name),
        rules=[] if results is None else page_rows(results.rules),
        spectrum=None if report.spectrum is None else _spectrum(report.spectrum),
        eyes=None if results is None or results.eyes is None else _eyes(results.eyes),
        matrices=None if results is None or not results.matrices else _matrices(report, results.matrices),
        facts={"averaging": _averaging, "network": _network, "matrix": _matrix}[report.kind](report),
        **{name: png and base64_text(png) for name, png in pictures.items()},
    )


LONGEST = 1000.0
"""Ratio of tolerated and stated size whose bar is full."""


def _effect(effect: SystemEffectNumbers) -> tuple[str, str, str, str, float | None]:
    """Name, stated and tolerated size, their ratio, and the length of its bar in per cent, of an imperfection."""

    def text(size: float) -> str:
        return f"{size:.2g} of the field" if not effect.unit else format_si(size, effect.unit)

    stated = "not stated" if effect.size is None else text(effect.size)
    tolerated = "any" if effect.tolerated is None else text(effect.tolerated)
    if effect.ratio is None:
        return effect.name, stated, tolerated, "–", None
    width = 100.0 * min(max(math.log(max(effect.ratio, 1.0)) / math.log(LONGEST), 0.0), 1.0)
    return effect.name, stated, tolerated, f"{effect.ratio:.3g}", round(width, 1)


def write_report(
    directory: str | Path, name: str, numbers: Mapping[str, Any], **content: Unpack[PageContent]
) -> Report:
    """Write `<name>.report.html` and then `<name>.report.json`, each atomically.

    ``numbers`` are the fields of `report.json`. Its ``files`` contains the SHA-256 of the other files; that of the page
    is added here.

    Raises:
        ValueError: The numbers do not match the schema (pydantic names the field), or belong to another build.
    """
    report = Report.model_validate(numbers)
    if report.name != name:
        raise ValueError(f"name: {name!r}, but the numbers are of {report.name!r}; give the numbers of one build")
    html = render_page(report, **content).encode()
    write_atomic(Path(directory, f"{name}.report.html"), html)
    files = {**report.files, f"{name}.report.html": hashlib.sha256(html).hexdigest()}
    report = report.model_copy(update={"files": files})
    write_atomic(Path(directory, f"{name}.report.json"), report.to_json().encode())
    return report


def _summary(report: Report) -> str:
    """One sentence on what the verdict covers, and what it does not; without its full stop."""
    parts = []
    if (function := report.function) is not None:
        parts.append(f"{function.exact:,} of {function.inputs:,} words exact, margin {function.margin:.3f} levels")
        if function.basis is not None:
            parts.append(function.basis)
    if report.network is not None:
        parts.append(network_line(report.network))
    if report.matrix is not None:
        parts.append(matrix_line(report.matrix))
    if report.drc is not None:
        parts.append(f"{report.drc.violations:,} violations of {report.drc.rules} design rules")
    if report.lvs is not None:
        parts.append(f"extracted circuit {'equal to' if report.lvs.match else 'differs from'} the netlist")
    if report.chip is not None:
        offchip = ", ".join(f"{count:,} {name}" for name, count in report.chip.offchip.items())
        parts.append(f"off-chip, as modelled: {offchip}" if offchip else "nothing off-chip")
    return "; ".join(parts)


def _matrices(report: Report, matrices: Sequence[MatrixMap]) -> dict[str, str]:
    """Text and data of the section about the chip's matrices."""
    scale = (
        "The chip's fields are divided by the common scale."
        if report.kind == "matrix"
        else "Rows are divided by their free factors, which the electronics provide."
    )
    return {"text": scale, "data": maps_text(matrices)}


def _eyes(found: RateEyes) -> dict[str, Any]:
    """Text, rows and data of the section about eye diagrams."""
    return {
        "words": f"{len(found.eyes[0].readings):,}",
        "rate": found.noise.symbol_rate_bd,
        "rows": eye_rows(found.eyes),
        "data": eyes_text(found.eyes, found.noise.shape.window),
    }


def _spectrum(found: SpectrumNumbers) -> dict[str, Any]:
    """Picture and rows of the section about spectra; none if its curves were left out."""
    if not found.curves:
        return {"png": None, "rows": []}
    return {"png": base64_text(spectrum_png(found)), "rows": spectrum_rows(found)}


def _words(function: FunctionNumbers | None) -> dict[str, Any] | None:
    """Margins by symbol and the most frequent errors; None where the report does not have them."""
    if function is None or function.margins is None or function.errors is None or function.words is None:
        return None
    errors = [(f"{error.value:+d}", error.count, error.share) for error in function.errors[:MAX_ERRORS]]
    if rest := function.errors[MAX_ERRORS:]:
        total = sum(error.count for error in rest)
        errors.append((f"{len(rest)} more values", total, sum(error.share for error in rest)))
    return {
        "columns": [f"Symbol {place}" for place in range(len(function.margins))],
        "margins": function.margins,
        "total": function.words,
        "errors": errors,
    }


def _averaging(report: Report) -> list[tuple[str, str]]:
    """Quantities of a network that averages words, and their values."""
    task, onn, factor = report.averaging, report.onn, report.factor
    facts = []
    if task is not None:
        facts.append(("Task", f"average of {task.servers} words of {task.bits} bits, {task.groups} inputs"))
    if onn is not None:
        facts.append(_structure(onn))
        facts.append(("In floating point", f"{onn.accuracy:.4%} of the lattice, margin {onn.margin:.3f} levels"))
    return facts + _factors(factor)


def _network(report: Report) -> list[tuple[str, str]]:
    """Quantities of a general network and their values."""
    facts = [("Task", task_text(report.task))]
    if (found := report.network) is not None:
        facts.append(_structure(found))
        facts.append(("Chip and network agree on", f"{found.agreeing:,} of {found.samples:,} samples"))
        if found.network_accuracy is not None and found.chip_accuracy is not None:
            facts.append(("Accuracy in floating point", f"{found.network_accuracy:.2%}"))
            facts.append(("Accuracy of the chip", f"{found.chip_accuracy:.2%}"))
        if found.network_rms_error is not None and found.chip_rms_error is not None:
            facts.append(("Rms error in floating point", f"{found.network_rms_error:.6g}"))
            facts.append(("Rms error of the chip", f"{found.chip_rms_error:.6g}"))
        facts.append(("Largest deviation of an output", f"{found.worst_deviation:.3%} of the largest output"))
        facts.append(("Rms deviation of the outputs", f"{found.rms_deviation:.3%} of the largest output"))
        facts.append(("Clipped modulator amplitudes", f"{found.saturated:,}"))
    return facts + _factors(report.factor)


def _structure(network: OnnNumbers | NetworkNumbers) -> tuple[str, str]:
    activation = ACTIVATION_NAMES[network.activation]
    return "Network", f"{'-'.join(map(str, network.structure))}, {activation} between layers, which count from 0"


def _factors(factor: FactorNumbers | None) -> list[tuple[str, str]]:
    """Quantities of the factors of a network's layers."""
    if factor is None:
        return []
    count = f"{factor.mzis:,} of {factor.mzis_full_svd:,} for full SVD ({factor.ratio:.1%}), weights only"
    return [
        ("MZIs, the paper's convention", count),
        ("Largest error of a factored matrix", f"{factor.max_error:.2e}"),
    ]


def _matrix(report: Report) -> list[tuple[str, str]]:
    """Quantities of a matrix and their values."""
    task, matrix, factor = report.task, report.matrix, report.factor
    facts = []
    if isinstance(task, MatrixTaskNumbers):
        phases = {
            "field": "up to one phase of all outputs",
            "real": "real parts, with the oscillator's phase at each output",
            "power": "up to one phase of each output",
        }[task.read]
        facts.append(("Task", matrix_task_text(task)))
        facts.append(("Compared", f"M / c against the target T, with one scale c > 0, {phases}"))
    if factor is not None:
        facts.append(("MZIs of the factors", f"{factor.mzis:,}, without dummies"))
        facts.append(("Largest error of the factors", f"{factor.max_error:.2e} of the 2-norm"))
    if matrix is not None:
        entry = f"output {matrix.worst_output}, input {matrix.worst_input}"
        facts += [
            ("Form", matrix.form),
            ("Fidelity |<T, M>|² / (<T, T> <M, M>)", f"{matrix.fidelity:.8f}"),
            ("Rms error of an entry", f"{100 * matrix.rms_error:.3g}% of the largest entry"),
            ("Largest error of an entry", f"{100 * matrix.worst_error:.3g}% of the largest entry, at {entry}"),
            ("Before rounding to codes, at the start", f"{matrix.fitted_error:.3%}, {matrix.start_error:.3%}"),
            ("Common scale c", f"{matrix.scale:.6g}"),
            ("Insertion loss -20 log10(c ‖T‖)", f"{matrix.insertion_loss_db:.2f} dB beyond an ideal passive chip"),
        ]
    return facts
