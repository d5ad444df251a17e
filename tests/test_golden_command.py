"""``optinc process golden``: what it writes, what it says, and its exit codes."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards.loader import _loaded_process, components_folder
from optinc_pdk.cli import main
from optinc_pdk.networks import carry_chain

Run = Callable[..., tuple[int, str, str]]
CARD = """schema: 1
name: short_mmi
title: Splitter
ports: {optical: [o1, o2, o3]}
cell: {function: "gdsfactory.components:mmi1x2", settings: {length_mmi: 9.0}}
sources: {}
"""


SPLITTER = {"loss_db": 0.3, "imbalance": 0.0, "reflection_db": -35.0}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def optinc(*arguments: object) -> tuple[int, str, str]:
        # as in a new process: cards are read once
        _loaded_process.cache_clear()
        monkeypatch.setattr(sys, "argv", ["optinc", "process", "golden", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return int(end.value.code or 0), said.out, said.err

    return optinc


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine" / "devices").mkdir(parents=True)
    (tmp_path / "mine" / "process.yml").write_text("schema: 1\nname: mine\nbase: soi220\n")
    return tmp_path / "mine"


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("golden/*") if path.is_file()}


def test_what_is_new_or_changed_is_written_and_listed(folder: Path, run: Run) -> None:
    card = folder / "devices" / "short_mmi.yml"
    assert run("--process", folder)[:2] == (0, f"{folder / 'golden'}: 11 devices, 0 written\n")
    assert files(folder) == {}
    card.write_text(CARD)
    assert run("--process", folder, "--check")[0] == 1
    assert files(folder) == {}
    code, out, _ = run("--process", folder)
    assert (code, out.splitlines()[0]) == (0, "short_mmi: new")
    written = files(folder)
    assert list(written) == ["short_mmi.json"]
    assert run("--process", folder, "--check")[:2] == (0, f"{folder / 'golden'}: 12 devices, 0 out of date\n")
    card.write_text(CARD.replace("9.0", "9.5"))
    code, out, _ = run("--process", folder, "--check")
    assert (code, out.splitlines()[0], files(folder)) == (1, "short_mmi: changed", written)
    assert run("--process", folder)[1].splitlines()[0] == "short_mmi: changed"
    assert files(folder) != written


def test_nothing_is_written_if_one_device_cannot_be_drawn(folder: Path, run: Run) -> None:
    (folder / "devices" / "short_mmi.yml").write_text(CARD)
    bad = CARD.replace("short_mmi", "bad").replace("length_mmi", "length")
    (folder / "devices" / "bad.yml").write_text(bad)
    code, out, err = run("--process", folder)
    assert (code, out, files(folder)) == (2, "", {})
    assert "bad.yml" in err


def test_a_card_with_another_number_of_ports_than_its_model_is_refused(folder: Path, run: Run) -> None:
    values = ", ".join(f"{key}: {{value: {value}, source: default}}" for key, value in SPLITTER.items())
    card = CARD.replace("[o1, o2, o3]", "[o1, o2, o3, o4]").replace("mmi1x2", "mmi2x2")
    card = card.replace("sources: {}", "sources: {default: engineering default}")
    (folder / "devices" / "short_mmi.yml").write_text(f"{card}model: {{name: splitter, parameters: {{{values}}}}}\n")
    code, out, err = run("--process", folder)
    assert (code, out, files(folder)) == (2, "", {})
    assert "model splitter has 3 ports, the card states 4" in err


def test_a_build_with_a_device_that_was_changed_afterwards_is_refused(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base = components_folder() / "soi220" / "devices" / "mmi2x2.yml"
    text = base.read_text()
    length = re.search(r"length_um: \{value: ([\d.]+)", text)
    assert length is not None
    (folder / "devices" / "mmi2x2.yml").write_text(text.replace(length[0], f"length_um: {{value: {length[1]}1"))
    weights = folder / "s.npz"
    carry_chain(Averaging(2, 2, 1)).save(weights)
    monkeypatch.setattr(
        sys, "argv", ["optinc", "build", str(weights), "--process", str(folder), "-o", str(folder / "o")]
    )
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert all(word in said for word in ("'mmi2x2'", f"optinc process golden --process {folder}"))
    assert not list(folder.glob("o/*"))
    assert run("--process", folder)[1].splitlines()[0] == "mmi2x2: changed"


def test_a_file_that_was_out_of_date_is_replaced_though_the_inherited_one_is_right(folder: Path, run: Run) -> None:
    (folder / "golden").mkdir()
    (folder / "golden" / "taper.json").write_text("{}")
    assert run("--process", folder)[1].splitlines()[0] == "taper: changed"
    assert files(folder)["taper.json"] != b"{}"
    assert run("--process", folder, "--check")[0] == 0


COUPLED = """import gdsfactory as gf

@gf.cell
def pair(margin: float = 0.0, island: bool = True) -> gf.Component:
    c = gf.Component()
    for y in (0.0, 0.7):
        c.add_polygon([(0, y - 0.225), (0, y + 0.225), (20, y + 0.225), (20, y - 0.225)], layer="core")
    c.add_polygon([(4, 0.225), (4, 0.475), (5, 0.475), (5, 0.225)], layer="core")
    if island:
        c.add_polygon([(8, 0.3), (8, 0.4), (9, 0.4), (9, 0.3)], layer="core")
    low, high = -0.225 - margin, 0.925 + margin
    c.add_polygon([(0, low), (0, high), (20, high), (20, low)], layer="coupled")
    for name, x, y, angle in (("o1", 0, 0, 180), ("o2", 0, 0.7, 180), ("o3", 20, 0.7, 0), ("o4", 20, 0, 0)):
        c.add_port(name, center=(x, y), width=0.45, orientation=angle, layer="core")
    return c
"""


def test_a_mark_that_is_not_the_bounding_box_of_the_silicon_is_refused_with_both_boxes(folder: Path, run: Run) -> None:
    (folder / "devices" / "cells.py").write_text(COUPLED)
    card = CARD.replace("short_mmi", "pair").replace("[o1, o2, o3]", "[o1, o2, o3, o4]")
    cell = 'cell: {function: "cells.py:pair", settings: {margin: 0.5}}'
    path = folder / "devices" / "pair.yml"
    path.write_text(re.sub("cell: .*", cell, card))
    code, _, said = run("--process", folder)
    assert code == 2
    boxes = ("(0.000, -0.725) to (20.000, 1.425) µm", "(0.000, -0.225) to (20.000, 0.925) µm")
    assert all(word in said for word in ("'pair'", "'coupled'", *boxes))
    assert files(folder) == {}
    path.write_text(path.read_text().replace("0.5", "0.0"))
    assert run("--process", folder)[0] == 0
    assert list(files(folder)) == ["pair.json"]


def test_a_mark_over_one_polygon_is_refused(folder: Path, run: Run) -> None:
    (folder / "devices" / "cells.py").write_text(COUPLED)
    card = CARD.replace("short_mmi", "pair").replace("[o1, o2, o3]", "[o1, o2, o3, o4]")
    cell = 'cell: {function: "cells.py:pair", settings: {island: false}}'
    (folder / "devices" / "pair.yml").write_text(re.sub("cell: .*", cell, card))
    code, _, said = run("--process", folder)
    assert code == 2
    assert all(word in said for word in ("'pair'", "one polygon", "draw no mark"))
    assert files(folder) == {}
