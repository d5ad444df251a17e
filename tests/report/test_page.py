"""The report page: facts, escaping, structure, and the files that are written."""

import hashlib
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from optinc_pdk.report.page import render_page, write_report
from optinc_pdk.report.schema import Report

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
