"""The report page: facts, escaping, structure, files, and the sections with scripts."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import klayout.db as kdb
import numpy as np
import pytest
from chromium_driver import CHROMIUM, Browser

import optinc_pdk as op
from optinc_pdk.cards import load_process
from optinc_pdk.report.eye_diagrams import HIGH, WIDE, eye_density, eye_rows
from optinc_pdk.report.matrix_pictures import MatrixMap
from optinc_pdk.report.page import render_page, write_report
from optinc_pdk.report.schema import Report
from optinc_pdk.report.sign_off_results import page_rows
from optinc_pdk.signoff.drc.design_rule_check import RuleResult
from optinc_pdk.simulate.transmission.symbol_shape import SAMPLES
from optinc_pdk.studies.eyes import Eye

PNG = b"\x89PNG made up for the tests"
VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """Collects the text, the tags and the addresses of a page; fails where tags do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text: list[str] = []
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def text_of(html: str) -> str:
    return " ".join(" ".join(Page(html).text).split())


def test_page_states_the_numbers(numbers: dict[str, Any]) -> None:
    html = render_page(Report.model_validate(numbers), notes=["metal: 1.9 of 2.0 mA/µm"])
    text = text_of(html)
    for fact in (
        "65,536 of 65,536 words exact, margin 0.210 levels",
        "0 violations of 24 design rules",
        "13 neuron",
        "fits one die",
        "2-6-7-2",
        "3.25 W",
        "a" * 64,
        "metal: 1.9 of 2.0 mA/µm",
        "size 56.2 mm² 858 mm² holds a reticle",
        "pads 1,230 pads 688 pads accepted four rows",
        "rate 300 MBd at least 1 MBd holds the slowest useful link",
        "pass, accepted: pads 1,230 of 688",
        "power 0.06 W/mm² none not judged no cooling",
        "Loss by layer 14.0, 25.1 dB",
        "9.5 MBd",
    ):
        assert fact in text
    assert "banner pass" in html
    assert Page(html).open == []


def test_page_states_margins_by_symbol_and_errors_by_value(numbers: dict[str, Any]) -> None:
    done = {"words": 8000, "margins": [0.31, 0.21], "errors": []}
    right = text_of(render_page(Report.model_validate(numbers | {"function": numbers["function"] | done})))
    assert "Symbol 0 Symbol 1 Margin, levels 0.310 0.210" in right
    assert "8,000 words" in right and "Share of the errors" not in right
    done["errors"] = [{"value": 1, "count": 9, "share": 0.9}, {"value": -64, "count": 1, "share": 0.1}]
    wrong = text_of(render_page(Report.model_validate(numbers | {"function": numbers["function"] | done})))
    assert "Of 8,000 words Share of the errors +1 9 90.000% -64 1 10.000%" in wrong


def test_page_states_the_thermal_crosstalk(numbers: dict[str, Any]) -> None:
    crosstalk = text_of(render_page(Report.model_validate(numbers)))
    assert "Thermal crosstalk" in crosstalk and " 0.029 " in crosstalk and " 25 µm" in crosstalk
    assert "No thermal crosstalk" not in crosstalk
    numbers["chip"]["crosstalk"] = None
    without = text_of(render_page(Report.model_validate(numbers)))
    assert "No thermal crosstalk" in without


def test_page_needs_no_other_file(numbers: dict[str, Any]) -> None:
    html = render_page(Report.model_validate(numbers), layout=PNG, detail=PNG, outputs=PNG)
    found = Page(html)
    assert found.tags.count("img") == 4
    assert not {"script", "link", "iframe"} & set(found.tags)
    assert not [address for address in found.addresses if "//" in address.partition(",")[0]]
    assert "url(" not in html and "@import" not in html


def test_page_of_a_failed_build_states_the_failures(numbers: dict[str, Any]) -> None:
    numbers |= {"verdict": "fail", "drc": {"rules": 24, "violations": 3}, "lvs": None, "function": None}
    html = render_page(Report.model_validate(numbers), notes=["metal.space at (120.0, 40.5) µm"])
    text = text_of(html)
    assert "banner fail" in html
    assert "drc: 3 violations of 24 rules" in text
    assert "metal.space at (120.0, 40.5) µm" in text
    assert text.count("not run") == 4


def test_page_of_a_build_that_stopped_early(numbers: dict[str, Any]) -> None:
    early = {key: numbers[key] for key in ("schema", "name", "task")} | {"verdict": "fail"}
    assert "chip: not run" in text_of(render_page(Report.model_validate(early)))


def test_every_string_is_escaped(numbers: dict[str, Any]) -> None:
    evil = "<script>alert('&\"')</script>"
    numbers["chip"]["fit"] = evil
    numbers["chip"]["offchip"] = {evil: 1}
    numbers |= {"name": evil, "files": {evil: "a" * 64}, "seconds": {evil: 1.0}}
    html = render_page(Report.model_validate(numbers), layout=PNG, notes=[evil])
    found = Page(html)
    assert "script" not in found.tags
    assert text_of(html).count(evil) >= 7
    assert found.open == []


def test_many_error_values_share_the_last_row(numbers: dict[str, Any]) -> None:
    errors = [{"value": value, "count": 1, "share": 0.05} for value in range(1, 21)]
    text = text_of(render_page(Report.model_validate(numbers | {"function": numbers["function"] | {"errors": errors}})))
    assert "+16 1 5.000%" in text and "+17" not in text and "4 more values 4 20.000%" in text


def test_write_report_lists_the_page_and_writes_json_last(numbers: dict[str, Any], tmp_path: Path) -> None:
    report = write_report(tmp_path, "invented", numbers, layout=PNG)
    html = (tmp_path / "invented.report.html").read_bytes()
    data = json.loads((tmp_path / "invented.report.json").read_text())
    assert data["files"]["invented.report.html"] == hashlib.sha256(html).hexdigest()
    assert data["files"]["invented.gds"] == "a" * 64
    assert Report.from_json((tmp_path / "invented.report.json").read_text()) == report
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "invented.report.html",
        "invented.report.json",
    ]


def test_the_same_numbers_give_the_same_bytes(numbers: dict[str, Any], tmp_path: Path) -> None:
    for folder in ("first", "second"):
        write_report(tmp_path / folder, "invented", numbers, layout=PNG, outputs=PNG)
    for file in ("invented.report.html", "invented.report.json"):
        assert (tmp_path / "first" / file).read_bytes() == (tmp_path / "second" / file).read_bytes()


def test_numbers_of_another_build_are_refused(numbers: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'other'.*'invented'"):
        write_report(tmp_path, "other", numbers)
    assert list(tmp_path.iterdir()) == []


needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: install chromium")
RULE = "metal.ground_rise"


@pytest.fixture(scope="module")
def page(tiny_chip: Path) -> Path:
    """Page of a chip that averages words."""
    return tiny_chip.with_suffix(".report.html")


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Page of the chip of a matrix."""
    folder = tmp_path_factory.mktemp("matrix")
    op.build(np.array([[0.6, 0.8j], [0.8j, 0.6]]), folder, op.BuildOptions(name="two"))
    return folder / "two.report.html"


def maps_of(page: Path) -> list[dict[str, Any]]:
    found = re.search(r"id=matrices-data>([^<]*)<", page.read_text())
    assert found is not None
    maps: list[dict[str, Any]] = json.loads(gzip.decompress(base64.b64decode(found[1])))
    return maps


def test_the_chip_of_a_matrix_has_the_spectrum_of_its_inputs(matrix: Path) -> None:
    spectrum = json.loads(matrix.with_name("two.report.json").read_text())["spectrum"]
    assert [(curve["name"], curve["sources"]) for curve in spectrum["curves"]] == [("inputs", 2)]
    # a matrix of norm 1: what is lost is lost in fibres, couplers and guides
    assert -20.0 < max(spectrum["curves"][0]["mean_db"]) < -5.0
    assert "id=spectra" in matrix.read_text()


def test_every_rule_has_a_row_and_violated_rules_come_first() -> None:
    rules = load_process().rules
    results = [RuleResult(rule, ()) for rule in rules[:-1]] + [RuleResult(rules[-1], (kdb.DPolygon(kdb.DBox(1)),))]
    rows = page_rows([*results, RuleResult(rules[0], (), run=False)])
    assert len(rows) == len(rules) + 1
    assert rows[0]["id"] == rules[-1].id and rows[0]["violations"] == "1"
    assert rows[0]["state"] == ("fail" if rules[-1].severity == "error" else "none")
    width = next(row for row in rows if row["id"] == "core.width")
    assert (width["value"], width["layers"], width["state"]) == ("0.35 µm", "core", "pass")
    assert rows[-1]["violations"] == "not run" and rows[-1]["state"] == "none"


def test_maps_state_magnitudes_and_relative_differences() -> None:
    target = np.array([[0.5, -0.25], [0.0, 0.125]])
    chip = np.array([[0.5, -0.25 + 0.01j], [0.005, np.nan]])
    found = MatrixMap("Layer 1", target, chip).to_json()
    assert (found["rows"], found["columns"]) == (2, 2)
    assert found["target"] == [0.5, 0.25, 0.0, 0.125]
    assert found["chip"] == [0.5, 0.2502, 0.005, None]
    assert found["error"] == [0.0, 0.02, 0.01, None]


def test_a_density_counts_the_traces_at_every_place() -> None:
    words = 13
    instants = np.zeros(words * SAMPLES)
    instants[::2] = 1.0
    eye = Eye("layer 0, row 0", instants, np.zeros(words), np.zeros(words), 0.5, 0.1)
    found = eye_density(eye)
    counts = np.array(found["counts"]).reshape(found["high_cells"], found["wide"])
    # every trace is once in every column; readings alternate between 0 and 1 from instant to instant
    assert (counts.sum(axis=0) == words - 3).all()
    assert found["low"] < 0.0 and found["high"] > 1.0
    assert counts[: HIGH // 4].any() and counts[-HIGH // 4 :].any()
    level = Eye("out", np.ones(words * SAMPLES), np.ones(words), np.ones(words), None, None)
    assert (np.array(eye_density(level)["counts"]) > 0).sum() == WIDE
    assert eye_rows([eye, level]) == [("layer 0, row 0", "0.500", "0.100"), ("out", "no eye: one level", "none")]


@needs_chromium
def test_eyes_are_drawn_with_their_openings(browser: Browser, page: Path) -> None:
    report = json.loads(page.with_name("tiny.report.json").read_text())
    assert report["speed"]["symbol_rate_bd"] is not None
    for width in (1440, 390):
        browser.console.clear()
        browser.open(page, width, 900)
        rows = "document.querySelectorAll('#eyes tbody tr')"
        browser.wait(f"document.querySelectorAll('#eyes canvas').length === {rows}.length && {rows}.length > 0")
        painted = (
            "[...document.querySelectorAll('#eyes canvas')].every((canvas) => new Set(canvas.getContext('2d')"
            ".getImageData(0, 0, canvas.width, canvas.height).data.filter((value, i) => i % 4 === 2)).size > 3)"
        )
        assert browser.evaluate(painted)
        assert browser.evaluate(f"[...{rows}].every((row) => Number(row.cells[1].textContent) <= 1)")
        assert browser.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert browser.console == []


def test_a_network_has_a_map_for_each_layer(page: Path) -> None:
    maps = maps_of(page)
    assert [each["name"] for each in maps] == [f"Layer {i}" for i in range(len(maps))]
    assert "between layers, which count from 0" in page.read_text()
    for each in maps:
        errors = [error for error in each["error"] if error is not None]
        assert errors and max(errors) < 1e-3
        assert max(each["target"]) > 0


def test_a_matrix_has_one_map(matrix: Path) -> None:
    (found,) = maps_of(matrix)
    assert found["target"] == [0.6, 0.8, 0.8, 0.6]
    assert found["chip"] == pytest.approx([0.6, 0.8, 0.8, 0.6], abs=0.01)


@needs_chromium
def test_the_rules_are_filtered_by_text(shown: Browser) -> None:
    assert shown.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    rows = "[...document.querySelectorAll('#rules tbody tr')].filter((row) => !row.hidden)"
    assert shown.evaluate(f"{rows}.length") == len(load_process().rules)
    # wide windows show every name in one line; narrow ones name what a line states, as they have no heads of columns
    narrow = shown.evaluate("window.innerWidth < 768")
    lines = "(() => { const r = document.createRange(); r.selectNodeContents(row.cells[0].firstChild);"
    lines += (
        "return new Set([...r.getClientRects()].filter((each) => each.width > 8).map((each) => each.top)).size; })()"
    )
    assert narrow or shown.evaluate(f"{rows}.filter((row) => {lines} !== 1).map((row) => row.dataset.rule)") == []
    # narrow windows leave out the rules that hold until all are asked for
    seen = f"{rows}.filter((row) => row.offsetParent).map((row) => row.dataset.rule)"
    every = shown.evaluate(f"{rows}.map((row) => row.dataset.rule)")
    button = "document.getElementById('rules-all')"
    assert shown.evaluate(f"{button}.offsetParent !== null") == narrow
    assert shown.evaluate(seen) == ([RULE] if narrow else every)
    if narrow:
        assert shown.evaluate(f"{button}.textContent") == f"Show the {len(every) - 1} rules that hold too"
        shown.evaluate(f"{button}.click()")
        assert shown.evaluate(seen) == every
        shown.evaluate(f"{button}.click()")
        assert shown.evaluate(seen) == [RULE]
    before = "getComputedStyle(document.querySelector('#rules tbody tr').cells[2], '::before').content"
    assert shown.evaluate(before) == ('"Layers: "' if narrow else "none")
    shown.evaluate(
        "(() => { const f = document.getElementById('rules-filter'); f.value = 'Ground_Rise';"
        "f.dispatchEvent(new Event('input')); })()"
    )
    assert shown.evaluate(f"{rows}.map((row) => row.dataset.rule)") == [RULE]
    assert shown.evaluate("document.getElementById('rules-count').textContent").startswith("1 of ")
    # a text is sought in all rules
    shown.evaluate(
        "(() => { const f = document.getElementById('rules-filter'); f.value = 'core.width';"
        "f.dispatchEvent(new Event('input')); })()"
    )
    assert "core.width" in shown.evaluate(seen)


@needs_chromium
def test_a_violated_rule_shows_its_markers_in_the_layout(shown: Browser) -> None:
    button = f"document.querySelector('#rules tr[data-rule=\"{RULE}\"] button')"
    assert RULE in shown.evaluate(f"{button}.getAttribute('aria-label')")
    chosen = "document.getElementById('layout-facts').textContent"
    places = "document.querySelector('.leaflet-proxy').style.transform"
    seen = set()
    for _ in range(2):
        shown.evaluate(f"{button}.click()")
        assert shown.evaluate("document.getElementById('layout-chosen').textContent").endswith(RULE)
        assert "Finding" in shown.evaluate(chosen)
        seen.add(shown.evaluate(places))
    assert len(seen) == 2
    assert shown.evaluate("document.querySelector('#layout-overlays input:checked') !== null")
    # rules without violations have no button
    assert shown.evaluate("document.querySelector('#rules tr[data-rule=\"core.width\"] button') === null")


@needs_chromium
def test_a_cell_of_a_heat_map_states_its_values(shown: Browser, page: Path) -> None:
    first = maps_of(page)[0]
    assert shown.evaluate("document.querySelectorAll('#matrices canvas').length") == 3
    shown.evaluate("document.getElementById('matrices').scrollIntoView()")
    box = shown.evaluate(
        "(() => { const box = document.querySelector('#matrices canvas').getBoundingClientRect();"
        "return [box.x, box.y, box.width, box.height]; })()"
    )
    column = first["columns"] - 1
    shown.click(box[0] + box[2] * (column + 0.5) / first["columns"], box[1] + box[3] * 0.5 / first["rows"])
    said = shown.evaluate("document.getElementById('matrices-value').textContent")
    assert said.startswith(f"Output 0, input {column}: target {first['target'][column]:g}")
    shown.evaluate("document.getElementById('matrices-maps').focus({preventScroll: true})")
    shown.press("ArrowLeft", 37)
    assert f"input {column - 1}:" in shown.evaluate("document.getElementById('matrices-value').textContent")


@needs_chromium
def test_the_values_are_a_table_too_and_colours_may_be_decibels(shown: Browser, page: Path) -> None:
    first = maps_of(page)[0]
    shown.evaluate("document.querySelector('#matrices summary').click()")
    rows = "document.querySelectorAll('#matrices-table tbody tr')"
    shown.wait(f"{rows}.length === {len(first['target'])}")
    assert shown.evaluate(f"{rows}[0].cells[2].textContent") == f"{first['target'][0]:g}"
    before = shown.evaluate("document.querySelector('#matrices .ends').textContent")
    shown.evaluate(
        "(() => { const s = document.getElementById('matrices-scale'); s.value = 'db';"
        "s.dispatchEvent(new Event('change')); })()"
    )
    after = shown.evaluate("document.querySelector('#matrices .ends').textContent")
    assert after != before and after.endswith("dB")
