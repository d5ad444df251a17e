"""``optinc verify`` of a circuit drawn by hand: files, exit codes, and what the report says."""

from __future__ import annotations

import hashlib
import html
import json
import re
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import gdsfactory as gf
import klayout.db as kdb
import pytest
from drawn_link import HEATER_UM, LENGTH_UM, PROCESS, draw, netlist

from optinc_pdk.cli import main
from optinc_pdk.io.yaml_files import dump_yaml
from optinc_pdk.pdk import active_pdk

Run = Callable[..., tuple[int, str, str]]
FILES = {f"link.verify{ending}" for ending in (".html", ".json", ".drc.lyrdb", ".lvs.lyrdb", ".s.npz")}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def optinc(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["optinc", "verify", *map(str, arguments), "--wavelengths", "1549:1551:1"])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return int(end.value.code or 0), said.out, said.err

    return optinc


@pytest.fixture
def gds(tmp_path: Path) -> Path:
    dump_yaml(tmp_path / "link.pic.yml", netlist())
    return draw(tmp_path)


def written(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.verify.*")}


def test_a_sound_circuit_passes_and_states_what_was_not_run(gds: Path, tmp_path: Path, run: Run) -> None:
    code, out, err = run(gds)
    assert (code, written(tmp_path)) == (0, FILES)
    assert f"compared with {tmp_path / 'link.pic.yml'}" in err
    assert "chip.outline" in out
    assert "verdict   pass" in out
    numbers = json.loads((tmp_path / "link.verify.json").read_text())
    assert numbers["verdict"] == "pass"
    assert {row["id"] for row in numbers["drc"]["rules"] if not row["run"]} >= {"chip.outline", "chip.edge"}
    page = (tmp_path / "link.verify.html").read_text()
    assert "chip.outline" in page
    assert "<strong>pass</strong>" in page


def test_the_netlist_of_another_circuit_is_named_as_such(gds: Path, tmp_path: Path, run: Run) -> None:
    dump_yaml(tmp_path / "other.pic.yml", {"instances": {"guide": {"component": "crossing"}}, "name": "other"})
    code, out, _ = run(gds, tmp_path / "other.pic.yml")
    assert code == 1 and "no net agrees: this may be the netlist of another circuit" in out
    assert "no net agrees" not in run(gds)[1]


def test_the_report_says_what_the_netlist_does_not_state(gds: Path, tmp_path: Path, run: Run) -> None:
    text = "not stated by the netlist, and not compared: the lengths of 2 guides"
    assert "not stated" not in run(gds)[1]
    schematic = netlist()
    for part in schematic["instances"].values():
        part.pop("info")
    dump_yaml(tmp_path / "link.pic.yml", schematic)
    code, out, _ = run(gds)
    assert code == 0
    assert text in out
    assert text in (tmp_path / "link.verify.html").read_text()
    assert "function  not compared: link: the netlist does not state the length" in out
    assert "verdict   pass (function not compared with the netlist)" in out
    numbers = json.loads((tmp_path / "link.verify.json").read_text())
    assert "does not state the length" in numbers["function"]["not_compared"]
    lvs = numbers["lvs"]
    assert (lvs["guides_of_unstated_length"], lvs["unstated_settings"], lvs["match"]) == (2, 0, True)


def test_the_report_states_what_was_verified(gds: Path, tmp_path: Path, run: Run) -> None:
    beside = tmp_path / "link.pic.yml"
    assert run(gds, "--set", "pad1=0.5rad")[0] == 0
    page = (tmp_path / "link.verify.html").read_text()
    numbers = json.loads((tmp_path / "link.verify.json").read_text())
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (gds, beside)]
    assert (numbers["layout"], numbers["netlist"]) == ("link.gds", "link.pic.yml")
    assert [numbers["layout_sha256"], numbers["netlist_sha256"]] == digests
    assert numbers["heaters_set"] == [{"label": "pad1", "value": 0.5, "unit": "rad"}]
    assert numbers["optinc_version"] == version("optinc-pdk")
    words = ("link.gds", "link.pic.yml", *digests, "pad1", "0.5 rad", version("optinc-pdk"))
    assert all(word in page for word in words)
    beside.unlink()
    assert run(gds)[0] == 0
    numbers = json.loads((tmp_path / "link.verify.json").read_text())
    assert (numbers["netlist"], numbers["netlist_sha256"], numbers["heaters_set"]) == (None, None, [])


def test_a_fault_fails_and_is_reported_with_its_place(gds: Path, tmp_path: Path, run: Run) -> None:
    dump_yaml(tmp_path / "other.pic.yml", netlist(LENGTH_UM + 1.0))
    code, out, _ = run(gds, tmp_path / "other.pic.yml")
    assert code == 1
    assert "heater,o2" in out
    page = (tmp_path / "link.verify.html").read_text()
    assert "<strong>fail: LVS, function</strong>" in page and "verdict   fail: LVS, function\n" in out
    assert "heater,o2" in page
    numbers = json.loads((tmp_path / "link.verify.json").read_text())
    assert [each["kind"] for each in numbers["lvs"]["differences"]] == ["length"]


def test_without_a_netlist_the_comparison_of_an_earlier_run_is_removed(gds: Path, tmp_path: Path, run: Run) -> None:
    assert run(gds)[0] == 0
    (tmp_path / "link.pic.yml").unlink()
    code, out, err = run(gds)
    assert (code, written(tmp_path)) == (0, FILES - {"link.verify.lvs.lyrdb"})
    assert "lvs       not run" in out
    assert "verdict   pass (no netlist: LVS not run)" in out
    assert "<strong>pass (no netlist: LVS not run)</strong>" in (tmp_path / "link.verify.html").read_text()
    assert json.loads((tmp_path / "link.verify.json").read_text())["verdict"] == "pass"
    assert "grating_coupler_0" in err


@pytest.mark.parametrize(
    ("change", "value"),
    [
        (("instances", "west", {"component": "mine"}), "'west'"),
        (("nets", 0, {"p1": "west,o1", "p2": "heater,o9"}), "'o9'"),
        # a cell of gdsfactory's generic PDK
        (("instances", "heater", {"component": "straight_heater_meander"}), "'heater'"),
        (("ports", "laser", "west,o2"), "west,o2"),
        (("ports", "laser", "guide,o2"), "'laser'"),
    ],
)
def test_an_unusable_netlist_is_refused_and_nothing_is_written(
    gds: Path, tmp_path: Path, run: Run, change: tuple[str, object, object], value: str
) -> None:
    data = netlist()
    data[change[0]][change[1]] = change[2]
    dump_yaml(tmp_path / "link.pic.yml", data)
    code, out, err = run(gds)
    assert (code, out, written(tmp_path)) == (2, "", set())
    assert str(tmp_path / "link.pic.yml") in err
    assert value in err


def test_a_label_that_is_drawn_twice_fails_with_label_and_place(tmp_path: Path, run: Run) -> None:
    dump_yaml(tmp_path / "link.pic.yml", netlist())
    code, _, _ = run(draw(tmp_path, labels=(("in", -10.0), ("in", HEATER_UM + LENGTH_UM + 10.0))))
    assert code == 1
    found = json.loads((tmp_path / "link.verify.json").read_text())["lvs"]["differences"]
    (twice,) = (each for each in found if each["kind"] == "extraction.label")
    assert "'in'" in twice["message"]
    assert twice["position_um"] == pytest.approx([HEATER_UM + LENGTH_UM + 10.0, 0.0], abs=30.0)


def test_a_layout_of_another_pdk_is_refused(tmp_path: Path, run: Run) -> None:
    layout = kdb.Layout()
    layout.create_cell("link").shapes(layout.layer(1, 0)).insert(kdb.Box(0, 0, 10_000, 500))
    layout.write(str(tmp_path / "link.gds"))
    code, out, err = run(tmp_path / "link.gds")
    assert (code, out, written(tmp_path)) == (2, "", set())
    assert "1/0" in err
    assert "--process" in err


def test_a_pad_without_a_heater_is_refused(gds: Path, tmp_path: Path, run: Run) -> None:
    code, _, err = run(gds, "--set", "in=1")
    assert code == 2
    assert "pad1" in err
    assert not written(tmp_path)


SCHEMATIC = """
name: splitter
instances:
  split: {component: mmi1x2}
  up: {component: bend_s, settings: {size: [40, 20]}}
  down: {component: bend_s, settings: {size: [40, -20]}}
  in: {component: grating_coupler}
  bar: {component: grating_coupler}
  cross: {component: grating_coupler}
placements:
  split: {x: 0, y: 0}
  in: {x: -100, y: 0, rotation: 180}
  bar: {x: 300, y: 100}
  cross: {x: 300, y: -100}
connections:
  up,o1: split,o2
  down,o1: split,o3
routes:
  input:
    settings: {cross_section: strip, bend: bend_circular, start_straight_length: 3}
    links: {"in,o1": "split,o1"}
  outputs:
    settings: {cross_section: strip, bend: bend_circular, start_straight_length: 3}
    links: {"up,o2": "bar,o1", "down,o2": "cross,o1"}
ports: {in: "in,o2", bar: "bar,o2", cross: "cross,o2"}
"""


def test_a_circuit_that_gdsfactory_draws_from_yaml_passes(tmp_path: Path, run: Run) -> None:
    """gdsfactory writes a text at every instance, on a layer that the process does not have."""
    with active_pdk():
        circuit = gf.read.from_yaml(SCHEMATIC)
        # an iterator that is kept locks the layout database
        labels = circuit.shapes(circuit.kcl.layer(206, 0))
        assert {"split", "bar"} <= {text.text_string for text in labels.each(kdb.Shapes.STexts)}
        circuit.write_gds(tmp_path / "splitter.gds", with_metadata=False)
        circuit.write_netlist(circuit.get_netlist(recursive=True), tmp_path / "splitter.pic.yml")
    code, out, _ = run(tmp_path / "splitter.gds")
    assert (code, "verdict   pass" in out) == (0, True), out


def test_labels_that_name_nothing_are_warnings(tmp_path: Path, run: Run) -> None:
    data = netlist()
    dump_yaml(tmp_path / "link.pic.yml", data)
    # the second is on a coupler; the third is the name of a die in the margin of its outline
    gds = draw(tmp_path, labels=(("astray", 500.0), ("in", -10.0), ("link_die", 900.0)))
    layout = kdb.Layout()
    layout.read(str(gds))
    outline = PROCESS.gds_layers["outline"]
    layout.top_cell().shapes(layout.layer(*outline)).insert(kdb.DBox(800.0, 0.0, 1200.0, 400.0))
    layout.write(str(gds))
    _, out, _ = run(gds)
    (line,) = [line for line in out.splitlines() if "unused_label" in line]
    assert line.startswith("warning unused_label at (500.000, 0.000) µm: label 'astray'")
    (warning,) = json.loads((tmp_path / "link.verify.json").read_text())["warnings"]
    assert (warning["kind"], warning["place_um"], warning["affects_function"]) == ("unused_label", [500.0, 0.0], False)
    assert line in html.unescape((tmp_path / "link.verify.html").read_text())


def test_a_warning_does_not_fail(gds: Path, tmp_path: Path, run: Run) -> None:
    assert run(gds)[0] == 0
    code, out, _ = run(draw(tmp_path, labels=(("astray", 500.0),)))
    assert (code, "'astray'" in out) == (0, True)


def test_differences_come_before_design_rules_which_have_a_line_each(gds: Path, tmp_path: Path, run: Run) -> None:
    layout = kdb.Layout()
    layout.read(str(gds))
    metal = layout.top_cell().shapes(layout.layer(*PROCESS.gds_layers["metal"]))
    for i in range(30):
        metal.insert(kdb.DBox(500.0, 100.0 * i, 500.5, 100.0 * i + 50.0))
    layout.write(str(gds))
    dump_yaml(tmp_path / "link.pic.yml", netlist(LENGTH_UM + 1.0))
    code, out, _ = run(gds)
    lines = out.splitlines()
    assert code == 1
    assert lines[0].startswith("length at ")
    (width,) = [line for line in lines if "metal.width" in line]
    assert lines.index(width) > 0
    assert width.count("metal.width") == 1
    assert ": 30 " in width
    devices, nets = re.findall(r"^lvs       1 difference; the other (\d+) devices and (\d+) nets? agree$", out, re.M)[0]
    assert int(devices) > 0 and int(nets) >= 0
    # the page has the same line
    assert html.unescape((tmp_path / "link.verify.html").read_text()).count(f"<li>{width}</li>") == 1


def test_a_guide_that_the_netlist_states_otherwise_fails(gds: Path, tmp_path: Path, run: Run) -> None:
    data = netlist()
    data["instances"]["guide"]["settings"] = {"width": 0.8}
    data["instances"]["spare"] = {"component": "straight"}
    dump_yaml(tmp_path / "link.pic.yml", data)
    code, out, _ = run(gds)
    assert code == 1
    lines = out.splitlines()
    assert lines[0].startswith(f"guide_width at ({HEATER_UM:.3f}, 0.000) µm: guide 'guide'")
    assert lines[1].startswith("open_guide: guide 'spare'")
