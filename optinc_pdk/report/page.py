"""The page of a build: one HTML file that needs nothing beside it."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from optinc_pdk.files import write_atomic
from optinc_pdk.report.numbers import CrosstalkNumbers, Report
from optinc_pdk.report.plots import COLORS
from optinc_pdk.report.text import short, si

CSS_PATH = Path(__file__).with_name("page.css")
MOST_ERRORS = 16
_KEY = {"core": "silicon guide", "etch70": "grating etch", "heater": "heater", "metal": "metal"}


def _row(head: str, *cells: str) -> str:
    return f"<tr><th scope=row>{escape(head)}</th>{''.join(cells)}</tr>\n"


def _cell(text: str, kind: str = "") -> str:
    return f"<td class='{kind}'>{escape(text)}</td>" if kind else f"<td>{escape(text)}</td>"


def _table(columns: Sequence[str], rows: Iterable[str]) -> str:
    head = "".join(f"<th scope=col>{escape(column)}</th>" for column in columns)
    body = "".join(rows)
    return f"<div class=wide><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>\n"


def _figure(png: bytes, alternative: str, caption: str) -> str:
    """An inlined picture; `caption` is HTML."""
    image = f"<img alt='{escape(alternative)}' src='data:image/png;base64,{b64encode(png).decode()}'>"
    return f"<figure>{image}<figcaption>{caption}</figcaption></figure>\n"


def _link(file: str) -> str:
    return f"<a href='{escape(quote(file))}'><code>{escape(file)}</code></a>"


def _summary(report: Report) -> str:
    """One sentence of what the verdict covers, and what it does not."""
    parts = []
    if (done := report.function) is not None:
        parts.append(f"{done.exact:,} of {done.inputs:,} words exact, margin {done.margin:.3f} levels")
    if report.drc is not None:
        parts.append(f"{report.drc.violations:,} violations of {report.drc.rules} design rules")
    if report.lvs is not None:
        found = "equal to the netlist" if report.lvs.match else "not the netlist"
        parts.append(f"extracted circuit {found}")
    if report.chip is not None:
        off = ", ".join(f"{count:,} {name}" for name, count in report.chip.offchip.items())
        parts.append(f"off-chip and taken as modeled: {off}" if off else "nothing off-chip")
    return f"<p>{escape('; '.join(parts))}.</p>" if parts else ""


def _banner(report: Report, notes: Sequence[str]) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in (*report.failures(), *notes))
    verdict = f"<strong>{report.verdict}</strong>{_summary(report)}"
    return f"<div class='banner {report.verdict}' role=status>{verdict}{lines and f'<ul>{lines}</ul>'}</div>\n"


def _check(head: str, covered: str, result: tuple[str, bool] | None, file: str) -> str:
    """A row of the sign-off table; `result` is what was found and whether it is good, None if not run."""
    text, good = result or ("not run", False)
    kind = "none" if result is None else "pass" if good else "fail"
    details = _cell("") if result is None else f"<td>{_link(file)}</td>"
    return _row(head, _cell(covered), _cell(text, f"result {kind}"), details)


def _signoff(report: Report) -> str:
    rules = circuit = words = None
    rule_count = circuit_size = input_count = ""
    if (drc := report.drc) is not None:
        rule_count = f": {drc.rules} rules"
        left = f", {drc.not_run:,} rules not run" if drc.not_run else ""
        rules = (f"{drc.violations:,} violations{left}", drc.violations == drc.not_run == 0)
    if (lvs := report.lvs) is not None:
        circuit_size = f": {lvs.devices:,} devices, {lvs.nets:,} nets"
        circuit = ("match" if lvs.match else "mismatch", lvs.match)
    if (done := report.function) is not None:
        input_count = f": {done.inputs:,} inputs"
        words = (f"{done.exact:,} exact, margin {done.margin:.3f}", done.exact == done.inputs)
    layout = f"the circuit extracted from the polygons alone{circuit_size}"
    function = f"the extracted circuit, driven by the DAC codes of the bias file{input_count}"
    rows = [
        _check("Design rules", f"the written GDS{rule_count}", rules, f"{report.name}.drc.lyrdb"),
        _check("Layout against netlist", layout, circuit, f"{report.name}.lvs.json"),
        _check("Function", function, words, f"{report.name}.function.npz"),
    ]
    return "<h2>Sign-off</h2>\n" + _table(("Check", "What it covered", "Result", "Details"), rows)


def _words(report: Report) -> str:
    """Margins of the symbols, and wrong words by value."""
    if (done := report.function) is None or done.margins is None or done.errors is None or done.words is None:
        return ""
    head = "<h2>Words</h2>\n"
    columns = [f"Symbol {place}" for place in range(len(done.margins))]
    margins = _row("Margin, levels", *(_cell(f"{margin:.3f}", "value") for margin in done.margins))
    text = head + _table(("Most significant first", *columns), [margins])
    if not done.errors:
        return text + f"<p>None of the {done.words:,} words that the servers read is wrong.</p>\n"
    rows = [
        _row(f"{each.value:+d}", _cell(f"{each.count:,}", "value"), _cell(f"{each.share:.3%}", "value"))
        for each in done.errors[:MOST_ERRORS]
    ]
    if len(done.errors) > MOST_ERRORS:
        rest = done.errors[MOST_ERRORS:]
        counts = (
            _cell(f"{sum(each.count for each in rest):,}", "value"),
            _cell(f"{sum(each.share for each in rest):.3%}", "value"),
        )
        rows.append(_row(f"{len(rest)} more values", *counts))
    return text + _table(("Error, read minus ideal", f"Of {done.words:,} words", "Share of the errors"), rows)


def _chip(report: Report) -> str:
    if report.chip is None:
        return ""
    chip = report.chip
    size = f"{chip.width_um / 1000:.3f} × {chip.height_um / 1000:.3f} mm"
    facts = [
        ("Die", size, f"{chip.area_mm2:.2f} mm²; {chip.fit}"),
        ("MZIs on the die", f"{chip.mzis:,}", "all of them, dummies on idle edge slots included"),
        ("Phase shifters", f"{chip.phase_shifters:,}", "all heaters, trims included"),
        ("Pads", f"{chip.pads:,}", "electrical, labeled"),
        ("Fibres", f"{chip.fibres:,}", "grating couplers"),
        ("Heater power", f"{chip.power_w:.2f} W", "all heaters together at this bias"),
        ("Loss", f"{chip.loss_db:.1f} dB", "worst path from a source to a detector"),
    ]
    rows = [_row(head, _cell(value, "value"), _cell(assumption)) for head, value, assumption in facts]
    return "<h2>Chip</h2>\n" + _table(("Quantity", "Value", "What is counted or assumed"), rows)


def _limits(report: Report) -> str:
    """The limits on the size with their assumptions, and the light budget."""
    if report.chip is None or report.chip.limits is None:
        return ""
    rows = []
    for name, limit in report.chip.limits.items():
        text, kind = {True: ("holds", "pass"), False: ("missed", "fail"), None: ("not judged", "none")}[limit.holds]
        most = "none" if limit.limit is None else f"{short(limit.limit)} {limit.unit}"
        value = _cell(f"{short(limit.value)} {limit.unit}", "value")
        rows.append(_row(name, value, _cell(most, "value"), _cell(text, f"result {kind}"), _cell(limit.assumption)))
    columns = ("Limit", "Chip", "At most", "Result", "What is counted or assumed")
    return "<h2>Limits on the size</h2>\n" + _table(columns, rows) + _light(report)


def _light(report: Report) -> str:
    if report.chip is None or (light := report.chip.light) is None:
        return ""
    electronics = "no limit in the process card"
    if light.electronics_bd is not None:
        electronics = f"the process card's electronics reach {si(light.electronics_bd, 'Bd')}"
    hops = ", ".join(f"{loss:.1f}" for loss in light.hop_loss_db)
    facts = [
        ("Field noise", f"{light.field_noise:.2g}", "of full scale at every detector; from the network's own margins"),
        ("Loss by layer", f"{hops} dB", "modulator to detector; fibres, couplers and splitters, not the matrix itself"),
        ("Energy", si(light.energy_j, "J"), "a symbol and guide, h ν / (4 σ² T): shot noise alone, strong oscillators"),
        ("Light", si(light.light_bd, "Bd"), f"at {si(light.laser_w, 'W')} launched by every modulator"),
        ("Symbol rate", si(light.symbol_rate_bd, "Bd"), electronics),
    ]
    rows = [_row(head, _cell(value, "value"), _cell(assumption)) for head, value, assumption in facts]
    return "<h2>Light budget</h2>\n" + _table(("Quantity", "Value", "What is counted or assumed"), rows)


def _board(report: Report) -> str:
    if report.chip is None:
        return ""
    text = (
        "<h2>Board and off-chip parts</h2>\n<p>The verdict takes these as their models say; they join what "
        "light does not (detector → neuron → modulator) and are in the netlist's board section.</p>\n"
    )
    if not report.chip.offchip:
        return text + "<p>Everything is on the die.</p>\n"
    rows = [_row(name, _cell(f"{count:,}", "value")) for name, count in report.chip.offchip.items()]
    return text + _table(("Part", "Count"), rows)


ASSUMPTIONS = (
    "Devices are nominal, as their cards say: loss, coupler imbalance and reflections are on; random variation, "
    "drift and noise are not.",
    "One carrier wavelength; every fibre is phase-locked to it.",
    "The bias is fitted to this chip's own extracted devices and rounded to DAC codes; the voltage drop along wires "
    "and shared grounds is computed from the drawn metal and driven against.",
    "Detectors, electronics, modulators and receivers are ideal but for range and resolution.",
    "Device numbers are public simulated data or engineering defaults, each marked in its card; none is a measurement.",
)


def _assumptions(report: Report) -> str:
    texts = [*ASSUMPTIONS, *([] if report.chip is None else [_crosstalk(report.chip.crosstalk)])]
    return "<h2>Assumptions</h2>\n<ul>\n" + "".join(f"<li>{escape(text)}</li>\n" for text in texts) + "</ul>\n"


def _crosstalk(crosstalk: CrosstalkNumbers | None) -> str:
    if crosstalk is None:
        return "No heater warms another's guide: the process card states no thermal crosstalk."
    return (
        f"Heaters warm each other's guides: {crosstalk.share:.3g} of a heater's phase at {crosstalk.distance_um:g} µm, "
        "falling as 1 / distance, between heaters as extracted. The bias makes good just that; how it differs from "
        "chip to chip is random variation."
    )


def _network(report: Report) -> str:
    task = report.task
    facts = [("Task", f"average of {task.servers} words of {task.bits} bits, {task.groups} inputs")]
    if report.onn is not None:
        structure = "-".join(str(width) for width in report.onn.structure)
        facts.append(("Network", f"{structure}, ReLU between layers"))
        found = f"{report.onn.accuracy:.4%} of the lattice, margin {report.onn.margin:.3f} levels"
        facts.append(("In floating point", found))
    if report.factor is not None:
        factor = report.factor
        count = f"{factor.mzis:,} of {factor.mzis_full_svd:,} for full SVD ({factor.ratio:.1%}), weights only"
        facts.append(("MZIs, the paper's convention", count))
        facts.append(("Largest error of a factored matrix", f"{factor.max_error:.2e}"))
    return "<h2>Network</h2>\n" + _table(("Quantity", "Value"), [_row(head, _cell(value)) for head, value in facts])


def _files(report: Report) -> str:
    hashes = sorted(report.files.items())
    rows = [f"<tr><td>{_link(file)}</td><td><code>{digest}</code></td></tr>\n" for file, digest in hashes]
    times = [_row(stage, _cell(f"{seconds:.2f}", "value")) for stage, seconds in report.seconds.items()]
    files = "<h2>Files</h2>\n" + _table(("File", "SHA-256"), rows) if rows else ""
    return files + ("<h2>Seconds</h2>\n" + _table(("Stage", "s"), times) if times else "")


def page(
    report: Report,
    layout: bytes | None = None,
    detail: bytes | None = None,
    outputs: bytes | None = None,
    notes: Sequence[str] = (),
) -> str:
    """The page as HTML: pictures inlined, nothing fetched, every string escaped.

    Args:
        report: The build's numbers.
        layout: The whole layout as PNG.
        detail: A part of it as PNG.
        outputs: The outputs against their ideal levels as PNG.
        notes: Findings and warnings in words, shown under the verdict.
    """
    key = "".join(f"<span class=key style='background:{COLORS[name]}'></span>{_KEY[name]}" for name in _KEY)
    body = [
        f"<h1>{escape(report.name)}</h1>\n<p class=soft>optinc-pdk build report</p>\n",
        _banner(report, notes),
    ]
    if layout is not None:
        body.append(_figure(layout, f"Layout of {report.name}", f"The written GDS, read back.{key}"))
    if detail is not None:
        caption = "The heater nearest to the middle of the die, and what is around it."
        body.append(_figure(detail, "Part of the layout, enlarged", caption))
    body.append(_signoff(report))
    if outputs is not None:
        caption = "Every input. Dashed: decision thresholds; circled: the worst point; red: a missed symbol."
        body.append(_figure(outputs, "Outputs against ideal levels", caption))
    body += [
        _words(report),
        _chip(report),
        _limits(report),
        _assumptions(report),
        _board(report),
        _network(report),
        _files(report),
    ]
    return (
        "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
        "<meta name=viewport content='width=device-width, initial-scale=1'>\n"
        f"<title>{escape(report.name)}: {report.verdict}</title>\n"
        f"<style>\n{CSS_PATH.read_text(encoding='utf-8')}</style>\n</head>\n<body>\n{''.join(body)}</body>\n</html>\n"
    )


def write_report(
    directory: str | Path,
    name: str,
    numbers: Mapping[str, Any],
    layout: bytes | None = None,
    detail: bytes | None = None,
    outputs: bytes | None = None,
    notes: Sequence[str] = (),
) -> Report:
    """Write `<name>.report.html` and then `<name>.report.json`, each atomically.

    Args:
        directory: Where the build's other files are.
        name: The build's name; must be the one in `numbers`.
        numbers: The fields of `report.json`; `files` has the other files' SHA-256, the page's is added here.
        layout: As for `page`, like the arguments after it.

    Raises:
        ValueError: The numbers are not a report (pydantic names the field), or are another build's.
    """
    report = Report.model_validate(numbers)
    if report.name != name:
        raise ValueError(f"name: {name!r}, but the numbers are of {report.name!r}; give those of one build")
    html = page(report, layout, detail, outputs, notes).encode()
    write_atomic(Path(directory, f"{name}.report.html"), html)
    files = {**report.files, f"{name}.report.html": hashlib.sha256(html).hexdigest()}
    report = report.model_copy(update={"files": files})
    write_atomic(Path(directory, f"{name}.report.json"), report.to_json().encode())
    return report
