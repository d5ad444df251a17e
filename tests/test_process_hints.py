"""Failures of a layout whose layers match another bundled process better name that process."""

from __future__ import annotations

import sys
from pathlib import Path

import klayout.db as kdb
import pytest
from drawn_link import draw, netlist

from optinc_pdk.cards import load_process
from optinc_pdk.cli import main
from optinc_pdk.io.yaml_files import dump_yaml


@pytest.fixture
def gds(tmp_path: Path) -> Path:
    """A circuit of soi220 with the opening of a bump, which only processes of flip chips have."""
    path = draw(tmp_path)
    layout = kdb.Layout()
    layout.read(str(path))
    bump = layout.layer(*load_process("soi220_flipchip").gds_layers["bump"])
    layout.top_cell().shapes(bump).insert(kdb.DBox(0, 400, 40, 440))
    layout.write(str(path))
    return path


def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["optinc", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0), capsys.readouterr().err


HINT = "soi220 does not have layers 45/0; was the layout drawn for --process soi220_fast or soi220_flipchip or"


def test_a_layout_that_fails_names_the_process(
    gds: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dump_yaml(gds.with_suffix(".pic.yml"), netlist())
    code, error = said(monkeypatch, capsys, "verify", gds, "--wavelengths", "1550")
    assert (code, error.count(HINT)) == (1, 1)
    code, error = said(monkeypatch, capsys, "lvs", gds)
    assert (code, error.count(HINT)) == (0, 0)


@pytest.mark.parametrize("command", ["verify", "lvs", "simulate"])
def test_a_netlist_that_does_not_fit_names_the_process(
    command: str, gds: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = netlist()
    data["instances"]["west"]["component"] = "mine"
    dump_yaml(gds.with_suffix(".pic.yml"), data)
    code, error = said(monkeypatch, capsys, command, gds, gds.with_suffix(".pic.yml"))
    assert (code, error.count(HINT)) == (2, 1)
    assert "'mine'" in error


@pytest.mark.parametrize("command", ["verify", "drc"])
def test_a_layout_of_another_pdk_names_no_bundled_process(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # soi220_two_metal has one of these layers of gdsfactory's generic PDK by chance
    layout = kdb.Layout()
    top, gds = layout.create_cell("generic"), tmp_path / "generic.gds"
    for layer in (1, 2):
        top.shapes(layout.layer(layer, 0)).insert(kdb.DBox(0, 0, 10, 10))
    layout.write(str(gds))
    data = netlist()
    data["instances"]["west"]["component"] = "mine"
    dump_yaml(gds.with_suffix(".pic.yml"), data)
    code, error = said(monkeypatch, capsys, command, gds)
    assert code == 2
    assert "soi220_two_metal" not in error
    assert "no bundled process has these layers" in error
    assert "--process FOLDER" in error
