"""Netlist files at the command line: which of several netlists is the top, and files without a circuit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from drawn_link import draw, netlist

from optinc_pdk.cli import main
from optinc_pdk.extract.layout_reader import top_cell_name
from optinc_pdk.io.yaml_files import dump_yaml

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def optinc(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["optinc", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return int(end.value.code or 0), said.out, said.err

    return optinc


def other() -> dict[str, Any]:
    return {"instances": {"alone": {"component": "pad", "info": {}}}}


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    """The link under another file name than that of its cell."""
    gds = draw(tmp_path)
    return gds.rename(tmp_path / "chip_v2.gds")


def test_the_top_is_the_netlist_of_the_top_cell_of_the_layout(layout: Path, tmp_path: Path, run: Run) -> None:
    dump_yaml(tmp_path / "all.pic.yml", {"another": other(), top_cell_name(layout): netlist(), "third": other()})
    code, out, _ = run("lvs", layout, tmp_path / "all.pic.yml")
    assert (code, out.split(":")[0]) == (0, "match")
    # also if it is a part of another netlist
    using = {"instances": {"part": {"component": top_cell_name(layout), "info": {}}}}
    dump_yaml(tmp_path / "all.pic.yml", {"another": using, top_cell_name(layout): netlist()})
    assert run("lvs", layout, tmp_path / "all.pic.yml")[0] == 0


def test_top_chooses_one_of_several_netlists(layout: Path, tmp_path: Path, run: Run) -> None:
    file = tmp_path / "all.pic.yml"
    dump_yaml(file, {"one": netlist(), "two": other(), "three": other()})
    code, _, err = run("lvs", layout, file)
    assert code == 2
    for word in (str(file), "3 of its 3", top_cell_name(layout), "--top", "one, two, three"):
        assert word in err
    code, _, err = run("lvs", layout, file, "--top", "four")
    assert code == 2
    assert "has no netlist 'four'" in err and "one, two, three" in err
    for command in ("lvs", "simulate"):
        assert run(command, layout, file, "--top", "one")[0] == 0
    assert run("verify", layout, file, "--top", "one", "--wavelengths", "1550")[0] == 0
    assert run("simulate", file, "--top", "one", "-o", tmp_path / "a.s.npz")[0] == 0
    # the pad alone is another circuit
    assert run("lvs", layout, file, "--top", "two")[0] == 1


def test_top_without_a_choice_is_refused(layout: Path, tmp_path: Path, run: Run) -> None:
    dump_yaml(tmp_path / "single.pic.yml", netlist())
    for arguments in (
        ("lvs", layout, tmp_path / "single.pic.yml"),
        ("verify", layout),
        ("simulate", layout),
    ):
        code, _, err = run(*arguments, "--top", "one")
        assert (code, "leave --top out" in err) == (2, True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", ("instances is missing", "get_netlist")),
        ("nets: []\nplacements: {}\n", ("instances is missing", "get_netlist")),
        ("instances: {}\n", ("no instances", "get_netlist")),
        ("top: {instances: {}}\n", ("'top'", "no instances")),
        ("top: {instances: {a: {component: part}}}\npart: {nets: []}\n", ("'part'", "instances is missing")),
        ("instances: {a: {component: pad}}\nplacements: [1]\n", ("placements", "correct it or write the file again")),
        (
            "instances: {ring: {component: ring_single, settings: {gapp: 1}}}\n",
            ("'ring'", "no setting 'gapp'", "remove"),
        ),
    ],
)
def test_a_file_without_a_circuit_says_what_is_missing(
    text: str, words: tuple[str, ...], layout: Path, tmp_path: Path, run: Run
) -> None:
    file = tmp_path / "empty.pic.yml"
    file.write_text(text)
    code, _, err = run("lvs", layout, file)
    assert (code, str(file) in err) == (2, True)
    for word in words:
        assert word in err
    assert "build again" not in err


def test_a_layout_that_cannot_be_read_is_named(tmp_path: Path, run: Run) -> None:
    gds, file = tmp_path / "broken.gds", tmp_path / "all.pic.yml"
    gds.write_bytes(b"no layout")
    dump_yaml(file, {"one": netlist(), "two": other()})
    code, _, err = run("lvs", gds, file)
    assert (code, str(gds) in err, str(file) in err) == (2, True, False)


def test_lvs_says_what_a_schematic_does_not_state(layout: Path, tmp_path: Path, run: Run) -> None:
    schematic = netlist()
    for part in schematic["instances"].values():
        part.pop("info")
    # wires that no net states
    schematic["nets"] = schematic["nets"][:3]
    dump_yaml(tmp_path / "s.pic.yml", schematic)
    code, out, _ = run("lvs", layout, tmp_path / "s.pic.yml")
    assert code == 0
    text = "not stated by the netlist, and not compared: the wires of 1 heater and the lengths of 2 guides"
    assert text in out.splitlines()
