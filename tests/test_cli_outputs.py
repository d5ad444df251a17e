"""Outputs of the commands: files of a build are neither overwritten nor taken for another build's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.cli import main
from optinc_pdk.networks import carry_chain
from optinc_pdk.options import BuildOptions
from optinc_pdk.pipeline.building import build
from optinc_pdk.report.build_files import cascades_of, changed_files, claiming_report, file_digest

ENDINGS = (
    ".gds",
    ".pic.yml",
    ".bias.yml",
    ".drc.lyrdb",
    ".lvs.json",
    ".lvs.lyrdb",
    ".function.npz",
    ".pinout.csv",
    ".pinout.svg",
    ".report.html",
)


class Ran(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process, which saves the imports."""

    def ran(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["optinc", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
            # a command that ends without an exit code passes
            sys.exit(0)
        return Ran(int(left.value.code or 0), *capsys.readouterr())

    return ran


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a small build, with its weights."""
    folder, network = tmp_path_factory.mktemp("built"), carry_chain(Averaging(2, 4, 1))
    network.save(folder / "weights.npz")
    assert build(network, folder, BuildOptions(name="chip")).passed
    return folder


@pytest.fixture
def chip(built: Path, tmp_path: Path) -> Path:
    """Layout in a copy of the build's folder."""
    folder = tmp_path / "out"
    shutil.copytree(built, folder)
    return folder / "chip.gds"


def commands(chip: Path) -> dict[str, tuple[object, ...]]:
    gds, netlist, bias = (chip.with_name(f"chip{ending}") for ending in (".gds", ".pic.yml", ".bias.yml"))
    weights = chip.with_name("weights.npz")
    return {
        "drc": ("drc", gds),
        "lvs": ("lvs", gds, netlist),
        "check": ("check", gds, "--weights", weights, netlist, "--bias", bias),
        "simulate": ("simulate", gds, "--bias", bias),
        "noise": ("noise", gds, netlist, "--bias", bias, "--weights", weights, "--symbol-rates", "1e6"),
        "eye": ("eye", gds, netlist, "--bias", bias, "--weights", weights, "--symbol-rate", "1e6"),
        "spectrum": ("spectrum", gds, "--weights", weights, netlist, "--bias", bias, "--wavelengths", "1550"),
    }


def digests_hold(folder: Path) -> bool:
    files = json.loads((folder / "chip.report.json").read_text())["files"]
    return set(files) == {f"chip{one}" for one in ENDINGS} and all(
        file_digest(folder / name) == digest for name, digest in files.items()
    )


@pytest.mark.full
def test_checks_of_a_build_do_not_overwrite_its_files(chip: Path, run: Run) -> None:
    before = set(os.listdir(chip.parent))
    new = {"drc": ["drc.lyrdb"], "lvs": ["lvs.json", "lvs.lyrdb"], "check": ["function.npz"]}
    for name, endings in new.items():
        done = run(*commands(chip)[name])
        assert done.returncode == 0 and f"chip.rerun.{endings[0]}" in done.stderr
        before |= {f"chip.rerun.{ending}" for ending in endings}
        assert set(os.listdir(chip.parent)) == before
    assert digests_hold(chip.parent)
    # where no report claims the name, it is as documented
    alone = chip.parent.parent / "alone.gds"
    shutil.copy(chip, alone)
    assert run("drc", alone).returncode == 0 and alone.with_suffix(".drc.lyrdb").exists()


@pytest.mark.full
def test_outputs_that_belong_to_a_report_are_refused(chip: Path, run: Run) -> None:
    link = chip.parent.parent / "link.npz"
    link.symlink_to(chip.with_name("chip.function.npz"))
    before = {path: path.read_bytes() for path in chip.parent.iterdir()}
    synth = ("synth", "--bits", 2, "--servers", 4)
    for command, path in (
        (commands(chip)["drc"], chip.with_name("chip.drc.lyrdb")),
        (commands(chip)["drc"], chip.with_name("chip.report.json")),
        (commands(chip)["lvs"], chip.with_name("chip.lvs.json")),
        (synth, chip.with_name("chip.function.npz")),
        (synth, link),
    ):
        done = run(*command, "-o", path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"optinc: {path}: belongs to {chip.with_name('chip.report.json')}")
    assert {path: path.read_bytes() for path in chip.parent.iterdir()} == before


@pytest.mark.full
def test_files_that_are_not_those_of_the_report_are_named(chip: Path, run: Run) -> None:
    # a byte behind the end of a GDS changes its digest only
    chip.write_bytes(chip.read_bytes() + b"\0")
    assert changed_files([chip, chip.with_name("chip.pic.yml"), chip.with_name("missing.gds")]) == [
        (chip, chip.with_name("chip.report.json"))
    ]
    for name, command in commands(chip).items():
        done = run(*command)
        assert done.returncode == 0, (name, done)
        assert f"optinc: {chip}: is not the file that {chip.with_name('chip.report.json')} describes" in done.stderr
    yields = ("yield", chip, "--samples", 1, "--no-contributions")
    for options in ((), ("--weights", chip.with_name("weights.npz"))):
        done = run(*yields, *options)
        assert (done.returncode, done.stdout) == (2, "") and "is not the file that" in done.stderr
    # without the report, the weights state the task
    chip.with_name("chip.report.json").unlink()
    assert run(*yields, "--weights", chip.with_name("weights.npz")).returncode == 0


@pytest.mark.full
def test_cards_that_changed_since_the_build_are_named(chip: Path, tmp_path: Path, run: Run) -> None:
    card = tmp_path / "soi220"
    card.mkdir()
    changed = "noise: {linewidth_hz: {value: 2.0e+4, source: default}}\n"
    (card / "process.yml").write_text(f"schema: 1\nname: soi220\ntitle: changed\nbase: soi220\n{changed}")
    report = chip.with_name("chip.report.json")
    every = commands(chip) | {
        "yield": ("yield", chip, "--samples", 1, "--no-contributions"),
        "verify": ("verify", chip, "-o", tmp_path / "verified.html", "--wavelengths", 1550),
    }
    for name, command in every.items():
        done = run(*command, "--process", card)
        assert done.returncode == 0, (name, done)
        assert f"optinc: {report}: the chip was built with other cards" in done.stderr, name
        assert "since then, noise changed" in done.stderr, name
    assert "other cards" not in run(*every["eye"]).stderr
    # reports of earlier versions state no cards
    numbers = json.loads(report.read_text())
    del numbers["process"]
    report.write_text(json.dumps(numbers))
    done = run(*every["eye"], "--process", card)
    assert done.returncode == 0 and "other cards" not in done.stderr


def test_the_yield_of_a_chip_that_failed_is_refused(chip: Path, run: Run) -> None:
    path = chip.with_name("chip.report.json")
    report = json.loads(path.read_text())
    report["verdict"], report["lvs"]["match"] = "fail", False
    path.write_text(json.dumps(report))
    done = run("yield", chip, "--samples", 1, "--weights", chip.with_name("weights.npz"))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{path}: the chip failed: lvs" in done.stderr and "--weights" in done.stderr
    # the report of another layout says nothing about this one
    del report["files"]["chip.gds"]
    path.write_text(json.dumps(report))
    done = run("yield", chip, "--samples", 1)
    assert done.returncode == 2 and f"is not the report of {chip}" in done.stderr


def test_the_yield_of_a_chip_that_only_misses_a_budget_is_studied(chip: Path, run: Run) -> None:
    path = chip.with_name("chip.report.json")
    report = json.loads(path.read_text())
    report["verdict"], report["chip"]["limits"]["rate"]["holds"] = "fail", False
    path.write_text(json.dumps(report))
    done = run("yield", chip, "--samples", 1, "--weights", chip.with_name("weights.npz"))
    assert done.returncode == 0, done


def test_devices_are_written_in_place_and_refused_where_two_files_are_written(chip: Path, run: Run) -> None:
    device = os.stat("/dev/null")
    for name in ("drc", "check"):
        assert run(*commands(chip)[name], "-o", "/dev/null").returncode == 0
    for name in ("lvs", "noise"):
        done = run(*commands(chip)[name], "-o", "/dev/null")
        assert done.returncode == 2 and "/dev/null: is a device" in done.stderr and "-o" in done.stderr
    done = run("train", "--bits", 2, "--servers", 4, "-o", chip.with_name("t.npz"), "--checkpoint", "/dev/null")
    assert done.returncode == 2 and "--checkpoint" in done.stderr
    assert os.path.samestat(os.stat("/dev/null"), device)
    # a build whose file is a device is refused before anything is computed
    chip.with_name("chip.bias.yml").unlink()
    chip.with_name("chip.bias.yml").symlink_to("/dev/null")
    done = run("build", chip.with_name("weights.npz"), "-o", chip.parent, "--name", "chip")
    assert done.returncode == 2 and "chip.bias.yml: is a device" in done.stderr
    assert os.path.samestat(os.stat("/dev/null"), device)


@pytest.mark.parametrize(
    ("command", "ending"),
    [
        (
            ("process", "deck"),
            ".lydrc",
        ),
        (("lvs", "none", "none"), ".json"),
        (("simulate", "none", "--bias", "none"), ".npz"),
        (("spectrum", "none", "none", "--bias", "none", "--weights", "none"), ".csv"),
        (("noise", "none", "none", "--bias", "none", "--weights", "none"), ".csv"),
        (("eye", "none", "none", "--bias", "none", "--weights", "none", "--symbol-rate", "1e6"), ".png"),
        (("synth", "--bits", 4, "--servers", 4), ".npz"),
        (("train", "--bits", 4, "--servers", 4), ".npz"),
        (
            ("process", "cells"),
            ".md",
        ),
        (("build", "none"), ""),
        (("cascade", "--bits", 4, "--servers", 2), ""),
        (("view", "none"), ""),
        (("search", "--bits", 4, "--servers", 4), ""),
    ],
)
def test_every_output_refuses_what_is_neither_file_nor_folder(
    command: tuple[object, ...], ending: str, tmp_path: Path, run: Run
) -> None:
    device, pipe = tmp_path / f"device{ending}", tmp_path / f"pipe{ending}"
    device.symlink_to("/dev/null")
    os.mkfifo(pipe)
    for path in (device, pipe):
        done = run(*command, "-o", path)
        assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith(f"optinc: {path}: is a "), done
        assert "-o" in done.stderr
    assert device.is_symlink() and pipe.is_fifo() and sorted(os.listdir(tmp_path)) == sorted([device.name, pipe.name])


def test_links_to_outputs_are_followed(chip: Path, run: Run) -> None:
    target = chip.parent.parent / "elsewhere.lyrdb"
    link = chip.with_name("link.lyrdb")
    link.symlink_to(target)
    for _ in range(2):
        assert run("drc", chip, "-o", link).returncode == 0
        assert link.is_symlink() and target.read_text().startswith("<?xml")


def test_a_cascade_does_not_keep_its_report_when_one_of_its_chips_is_built_again(chip: Path) -> None:
    folder = chip.parent
    (folder / "pair.cascade.json").write_text(json.dumps({"levels": [{"name": "chip"}], "files": {}}))
    (folder / "broken.cascade.json").write_text("{")
    assert cascades_of(folder, "chip") == [folder / "pair.cascade.json"] and cascades_of(folder, "other") == []
    assert claiming_report(folder / "pair.cascade.json") == folder / "pair.cascade.json"
    assert claiming_report(folder / "broken.cascade.json") is None
    again = build(carry_chain(Averaging(2, 4, 1)), folder, BuildOptions(name="chip"))
    assert not (folder / "pair.cascade.json").exists() and (folder / "broken.cascade.json").exists()
    assert any("pair.cascade.json: deleted" in line for line in again.findings)


def test_a_terminated_process_deletes_its_hidden_folder(tmp_path: Path) -> None:
    code = (
        "import os, signal\n"
        "from optinc_pdk.cli.interrupts import signals_interrupt\n"
        "from optinc_pdk.io.file_sets import StagedFiles\n"
        f"with signals_interrupt(), StagedFiles({str(tmp_path / 'out')!r}) as staged:\n"
        "    staged.path('chip.gds').write_bytes(b'')\n"
        "    print(len(list(staged.directory.iterdir())), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    signal.pause()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "1\n" and "KeyboardInterrupt" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_eye_diagram_is_a_png_file(tmp_path: Path, run: Run) -> None:
    done = run(
        *("eye", "none", "none", "--bias", "none", "--weights", "none", "--symbol-rate", "1e6"),
        *("-o", tmp_path / "eye.pdf"),
    )
    assert done.returncode == 2 and "eye.pdf: the picture is a PNG file; give it the ending .png" in done.stderr
