"""The rules as a script for KLayout's application report the same violations as `optinc drc` on every layout."""

import os
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import klayout.db as kdb
import klayout.rdb as rdb
import pytest
from rule_cases import apart_nm, cases_of, sheets, subjects

from optinc_pdk.cards import load_process, process_names
from optinc_pdk.cards.rules import LineRule
from optinc_pdk.signoff.drc import _violations as violations
from optinc_pdk.signoff.drc.design_rule_check import ELECTRICAL_KINDS, run_drc
from optinc_pdk.signoff.drc.klayout_deck import DeckError, deck_script

KLAYOUT = shutil.which("klayout")
needs_klayout = pytest.mark.skipif(KLAYOUT is None, reason="klayout is not installed: the cross-check is not run")
PROCESSES = {name: load_process(name) for name in process_names()}
# Checks all layouts in one run of the application; without the stub, it collects garbage after each of them.
ALL = """
def GC.start(*) end
File.readlines($list, chomp: true).each do |line|
  deck, $input, $report = line.split("\\t")
  RBA::Macro::new(deck).run
end
"""


@pytest.fixture(autouse=True)
def merged_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merge markers that overlap often as well; they are one box otherwise, which the script does not draw."""
    monkeypatch.setattr(violations, "MAX_TOUCHING", 10**9)


# KLayout 0.28 reports some slanted edges only if they are 2 nm closer than the limit: 9,998.6 nm is reported at a limit
# of 10,002, but not at 10,000. Version 0.30 reports it, so slanted markers of these kinds are compared from 0.30 on.
INEXACT = ("contact_overlap", "enclosure", "foreign_guide")


@cache
def is_old() -> bool:
    done = subprocess.run([str(KLAYOUT), "-v"], capture_output=True, text=True, check=True)
    return tuple(map(int, done.stdout.split()[1].split(".")[:2])) < (0, 30)


def script(name: str) -> str:
    process = PROCESSES[name]
    macro = ElementTree.fromstring(deck_script(process.name, process.rules, process.gds_layers))
    return str(macro.findtext("text"))


@pytest.mark.parametrize("name", PROCESSES)
def test_numbers_that_a_rule_leaves_out_are_nil(name: str) -> None:
    """Ruby knows no None: a process without larger dies leaves their size out."""
    text = script(name)
    assert "=> None" not in text
    has_none = any(getattr(rule, "reticle_um", 0) is None for rule in PROCESSES[name].rules)
    assert ('"reticle_um" => nil' in text) == has_none == (name == "cornerstone220")


def run(folder: Path, jobs: Sequence[tuple[str, Path]]) -> str:
    """Run the decks of processes on layouts; each report is written beside its layout."""
    for name in {name for name, _ in jobs}:
        process = PROCESSES[name]
        (folder / f"{name}.lydrc").write_bytes(deck_script(process.name, process.rules, process.gds_layers))
    lines = [f"{folder / name}.lydrc\t{path}\t{path.with_suffix('.lyrdb')}" for name, path in jobs]
    (folder / "list").write_text("\n".join(lines))
    (folder / "all.rb").write_text(ALL)
    done = subprocess.run(
        [str(KLAYOUT), "-b", "-r", str(folder / "all.rb"), "-rd", f"list={folder / 'list'}"],
        env=os.environ | {"QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def markers(path: Path) -> dict[str, list[kdb.DPolygon]]:
    report = rdb.ReportDatabase("")
    report.load(str(path))
    return {
        category.name(): [
            value.polygon() for item in report.each_item_per_category(category.rdb_id()) for value in item.each_value()
        ]
        for category in report.each_category()
    }


def differences(name: str, path: Path) -> list[str]:
    """Rules for which the engines differ in the number of markers, or in their positions by more than rounding."""
    process, found = PROCESSES[name], markers(path.with_suffix(".lyrdb"))
    rules = [rule for rule in process.rules if rule.kind not in ELECTRICAL_KINDS]
    assert list(found) == [rule.id for rule in rules]
    wrong, old = [], is_old()
    for result in run_drc(path, rules, process.gds_layers).rules:
        engines = [list(result.markers), found[result.id]]
        if old and result.rule.kind in INEXACT:
            engines = [[one for one in some if one.is_rectilinear()] for some in engines]
        # a tenth of a nanometre, as layouts may have finer database units than the grid
        ours, theirs = (kdb.Region([one.to_itype(1e-4) for one in some]) for some in engines)
        # versions of KLayout round united slanted markers to different neighbouring grid points
        if len(engines[0]) != len(engines[1]) or not (ours ^ theirs).sized(-10).is_empty():
            wrong.append(f"{path.name}, {result.id}: {len(engines[0])} markers, the deck has {len(engines[1])}")
    return wrong


SUBJECTS = [subject for subject in subjects() if subject.rule.kind not in ELECTRICAL_KINDS]


@pytest.mark.full
@needs_klayout
@pytest.mark.parametrize("process", sorted({subject.process.name for subject in SUBJECTS}))
def test_both_engines_agree_on_every_test_layout(tmp_path: Path, process: str) -> None:
    tested = [subject for subject in SUBJECTS if subject.process.name == process]
    jobs = []
    for subject in tested:
        drawn = sheets(list(cases_of(subject.rule, subject.process)), apart_nm(subject.rule))
        for number, sheet in enumerate(drawn):
            path = tmp_path / f"{subject.process.name}-{subject.rule.id}-{number}.gds"
            sheet.layout.write(str(path))
            jobs.append((process, path))
    assert "not in this deck: needs the bias" in run(tmp_path, jobs)
    assert [line for name, path in jobs for line in differences(name, path)] == []
    faulty = {rule for _, path in jobs for rule, found in markers(path.with_suffix(".lyrdb")).items() if found}
    assert faulty >= {subject.rule.id for subject in tested}


def write(path: Path, polygon: kdb.Polygon, name: str = "soi220", angle: float = 0) -> Path:
    layout = kdb.Layout()
    top, cell = layout.create_cell("TOP"), layout.create_cell("CELL")
    cell.shapes(layout.layer(*PROCESSES[name].gds_layers["metal"])).insert(polygon)
    top.insert(kdb.DCellInstArray(cell.cell_index(), kdb.DCplxTrans(1, angle, False, 0, 0)))
    layout.write(str(path))
    return path


@needs_klayout
def test_engines_agree_where_hierarchical_checks_may_miss_violations(tmp_path: Path) -> None:
    # a bow tie is narrow at its centre; a wire of the least width loses a nanometre when it is rotated
    bow_tie = kdb.Polygon([kdb.Point(x, y) for x, y in ((0, 0), (20_000, 20_000), (0, 20_000), (20_000, 0))], True)
    paths = [
        write(tmp_path / "bow_tie.gds", bow_tie),
        write(tmp_path / "turned.gds", kdb.Polygon(kdb.Box(0, 0, 80_000, 2_000)), angle=33.3),
    ]
    run(tmp_path, [("soi220", path) for path in paths])
    for path in paths:
        assert differences("soi220", path) == []
        assert markers(path.with_suffix(".lyrdb"))["metal.width"]


@pytest.mark.full
@needs_klayout
def test_engines_agree_which_marks_of_coupled_guides_are_valid(tmp_path: Path) -> None:
    process = PROCESSES["soi220"]
    rule = next(rule for rule in process.rules if rule.id == "core.guide_space")
    device = kdb.Region([kdb.Polygon([kdb.Point(*point) for point in polygon]) for polygon in rule.silicon_nm[-1]])
    extent = device.bbox()
    close = kdb.Region([kdb.Box(0, y, extent.right, y + 450) for y in (0, 3_000)])
    over = kdb.Box(0, -500, extent.right, 3_950)
    third = close + kdb.Region(kdb.Box(0, 3_950, extent.right, 4_400))
    drawn = {
        "exact": (device, [extent]),
        "moved": (device, [extent.moved(1, 0)]),
        "other": (close, [extent]),
        "two guides": (close, [over]),
        "third guide": (third, [over]),
        "end": (close - kdb.Region(kdb.Box(extent.right - 1, 0, extent.right, 450)), [over]),
        "everything": (close, [extent, kdb.Box(-(10**6), -(10**6), 10**6, 10**6)]),
    }
    for label, (silicon, marks) in drawn.items():
        layout = kdb.Layout()
        cell = layout.create_cell("TOP")
        cell.shapes(layout.layer(*process.gds_layers["core"])).insert(silicon)
        cell.shapes(layout.layer(*process.gds_layers["coupled"])).insert(kdb.Region(marks))
        cell.transform(kdb.Trans.M45)
        layout.write(str(tmp_path / f"{label}.gds"))
    run(tmp_path, [("soi220", tmp_path / f"{label}.gds") for label in drawn])
    found = {label: len(markers(tmp_path / f"{label}.lyrdb")[rule.id]) for label in drawn}
    assert found == {"exact": 0, "moved": 1, "other": 1, "two guides": 0, "third guide": 2, "end": 1, "everything": 1}
    assert [line for label in drawn for line in differences("soi220", tmp_path / f"{label}.gds")] == []


@pytest.mark.full
@needs_klayout
def test_engines_agree_which_devices_without_marks_are_exempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = PROCESSES["soi220"]
    rule = next(rule for rule in process.rules if rule.id == "core.guide_space")
    without = rule.model_copy(update={"layers": ("core",), "coupled_width_um": None})
    monkeypatch.setitem(PROCESSES, "soi220", process.model_copy(update={"rules": (without,)}))
    device = kdb.Region([kdb.Polygon([kdb.Point(*point) for point in polygon]) for polygon in rule.silicon_nm[0]])
    top = device.bbox().top
    drawn = {
        "device": device,
        "third guide": device + kdb.Region(kdb.Box(0, top + 400, device.bbox().right, top + 850)),
        "more silicon": device + kdb.Region(kdb.Box(0, 0, 1, 1)),
    }
    for label, silicon in drawn.items():
        layout = kdb.Layout()
        cell = layout.create_cell("TOP")
        cell.shapes(layout.layer(*process.gds_layers["core"])).insert(silicon)
        cell.transform(kdb.Trans.M45)
        layout.write(str(tmp_path / f"{label}.gds"))
    run(tmp_path, [("soi220", tmp_path / f"{label}.gds") for label in drawn])
    found = {label: len(markers(tmp_path / f"{label}.lyrdb")[rule.id]) for label in drawn}
    assert found == {"device": 0, "third guide": 1, "more silicon": 1}
    assert [line for label in drawn for line in differences("soi220", tmp_path / f"{label}.gds")] == []


@needs_klayout
def test_the_comparison_reports_a_rule_that_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "wire.gds", kdb.Polygon(kdb.Box(0, 0, 80_000, 1_999)))
    run(tmp_path, [("soi220", path)])
    process = PROCESSES["soi220"]
    looser = [
        rule.model_copy(update={"value_um": 1.9}) if isinstance(rule, LineRule) and rule.id == "metal.width" else rule
        for rule in process.rules
    ]
    monkeypatch.setitem(PROCESSES, "soi220", process.model_copy(update={"rules": tuple(looser)}))
    assert differences("soi220", path) == ["wire.gds, metal.width: 0 markers, the deck has 1"]


@pytest.mark.parametrize("name", PROCESSES)
def test_every_rule_is_in_the_script_or_named_as_left_out(name: str) -> None:
    checked, _, left_out = script(name).partition("LEFT_OUT = [")
    for rule in PROCESSES[name].rules:
        here, there = f'{{"id" => "{rule.id}"' in checked, f'{{"id" => "{rule.id}"' in left_out
        assert (here, there) == (rule.kind not in ELECTRICAL_KINDS, rule.kind in ELECTRICAL_KINDS)


def test_a_kind_without_a_check_is_refused() -> None:
    process = PROCESSES["soi220"]
    strange = process.rules[0].model_copy(update={"kind": "taste"})
    with pytest.raises(DeckError, match=r"core\.width.*'taste'"):
        deck_script("soi220", [strange], process.gds_layers)


def test_texts_of_a_card_are_not_executed() -> None:
    process = PROCESSES["soi220"]
    rule = process.rules[0].model_copy(update={"text": 'say "#{exit}" \\ µ </text>'})
    written = deck_script("soi220", [rule], process.gds_layers)
    text = str(ElementTree.fromstring(written).findtext("text"))
    assert r"say \u{22}\u{23}{exit}\u{22} \u{5c} \u{b5} </text>" in text
    assert deck_script("soi220", [rule], process.gds_layers) == written
