"""``optinc golden``: what it writes, what it says, and its exit codes."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards.loader import _loaded_process, components_folder
from optinc_pdk.cli import main
from optinc_pdk.onn import carry_chain

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
        monkeypatch.setattr(sys, "argv", ["optinc", "golden", *map(str, arguments)])
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
    assert all(word in said for word in ("'mmi2x2'", f"optinc golden --process {folder}"))
    assert not list(folder.glob("o/*"))
    assert run("--process", folder)[1].splitlines()[0] == "mmi2x2: changed"


def test_a_file_that_was_out_of_date_is_replaced_though_the_inherited_one_is_right(folder: Path, run: Run) -> None:
    (folder / "golden").mkdir()
    (folder / "golden" / "taper.json").write_text("{}")
    assert run("--process", folder)[1].splitlines()[0] == "taper: changed"
    assert files(folder)["taper.json"] != b"{}"
    assert run("--process", folder, "--check")[0] == 0
