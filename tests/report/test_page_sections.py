"""Sections of the report's page with scripts: table of design rules, and heat maps of the chip's matrices."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import klayout.db as kdb
import numpy as np
import pytest
from chromium_driver import CHROMIUM, Browser, chromium

import optinc_pdk as op
from optinc_pdk.cards import load_process
from optinc_pdk.report.eye_maps import HIGH, WIDE, eye_density, eye_rows
from optinc_pdk.report.matrix_maps import MatrixMap
from optinc_pdk.report.rule_results import page_rows
from optinc_pdk.signoff.drc.design_rule_check import RuleResult
from optinc_pdk.simulate.transmission.symbol_shape import SAMPLES
from optinc_pdk.studies.eye_diagram import Eye

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: install chromium")
RULE = "metal.ground_rise"


@pytest.fixture(scope="module")
def chip(tiny_chip: Path) -> Path:
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
def test_eyes_are_drawn_with_their_openings(browser: Browser, chip: Path) -> None:
    report = json.loads(chip.with_name("tiny.report.json").read_text())
    assert report["speed"]["symbol_rate_bd"] is not None
    for width in (1440, 390):
        browser.console.clear()
        browser.open(chip, width, 900)
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


def test_a_network_has_a_map_for_each_layer(chip: Path) -> None:
    maps = maps_of(chip)
    assert [each["name"] for each in maps] == [f"Layer {i}" for i in range(len(maps))]
    assert "between layers, which count from 0" in chip.read_text()
    for each in maps:
        errors = [error for error in each["error"] if error is not None]
        assert errors and max(errors) < 1e-3
        assert max(each["target"]) > 0


def test_a_matrix_has_one_map(matrix: Path) -> None:
    (found,) = maps_of(matrix)
    assert found["target"] == [0.6, 0.8, 0.8, 0.6]
    assert found["chip"] == pytest.approx([0.6, 0.8, 0.8, 0.6], abs=0.01)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(params=(1440, 390))
def shown(request: pytest.FixtureRequest, browser: Browser, chip: Path) -> Iterator[Browser]:
    """The page in a window of 1440 and of 390 pixels; nothing is logged."""
    browser.console.clear()
    browser.open(chip, request.param, 900)
    browser.wait("document.getElementById('layout-view').dataset.drawn === 'true'")
    yield browser
    browser.evaluate("new Promise(requestAnimationFrame)")
    assert browser.console == []


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
def test_a_cell_of_a_heat_map_states_its_values(shown: Browser, chip: Path) -> None:
    first = maps_of(chip)[0]
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
def test_the_values_are_a_table_too_and_colours_may_be_decibels(shown: Browser, chip: Path) -> None:
    first = maps_of(chip)[0]
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
