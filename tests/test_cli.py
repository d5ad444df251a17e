"""The command line as a user meets it: exit codes, messages, and nothing written on refusal."""

from __future__ import annotations

import inspect
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import typing
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import NamedTuple
from unittest import mock

import klayout.db as kdb
import numpy as np
import pytest
import torch
import typer
from safetensors.torch import save_file

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.cards.loader import components_folder
from optinc_pdk.circuit import read_bias
from optinc_pdk.cli import main
from optinc_pdk.cli.app import GROUPS, progress_counter, stage_progress
from optinc_pdk.cli.commands import app
from optinc_pdk.cli.process_commands import process_app
from optinc_pdk.networks import AveragingNetwork, bundled_weights, carry_chain
from optinc_pdk.report.build_files import report_page
from optinc_pdk.report.installation import Part

NETLISTS = Path(__file__).parent.parent / "netlists"

COMMANDS = (
    "build",
    "cascade",
    "check",
    "compare",
    "doctor",
    "drc",
    "eye",
    "factor",
    "lvs",
    "noise",
    *(f"process {name}" for name in ("cells", "deck", "golden", "klayout", "stack")),
    "program",
    "search",
    "simulate",
    "size",
    "spectrum",
    "synth",
    "task",
    "train",
    "verify",
    "view",
    "yield",
)
REGISTERED = (*app.registered_commands, *process_app.registered_commands)
SYNTH = ("synth", "--bits", 4, "--servers", 4, "-o", "never.npz")
TASK = json.dumps({"bits": 4, "servers": 4, "groups": 2, "remainder": False, "finer_input": False})


HEAVY = ("gdsfactory", "klayout", "matplotlib", "numba", "onnx", "safetensors", "scipy", "torch")
"""Packages that take long to import."""


class Run(NamedTuple):
    """What a command leaves behind."""

    returncode: int
    stdout: str
    stderr: str


def run(*arguments: object) -> Run:
    """Run a command in this process, as the installed script runs it."""
    with (
        redirect_stdout(StringIO()) as out,
        redirect_stderr(StringIO()) as err,
        mock.patch.object(sys, "argv", ["optinc", *map(str, arguments)]),
        pytest.raises(SystemExit) as end,
    ):
        main()
        # a command that ends without an exit code passes
        sys.exit(0)
    return Run(int(end.value.code or 0), out.getvalue(), err.getvalue())


def run_apart(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own, with these arguments of the command line."""
    command = [sys.executable, "-c", f"import sys; sys.argv[0] = 'optinc'; {code}", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


MAIN = "from optinc_pdk.cli import main; main()"
INTERRUPTED = "optinc: interrupted; every file is complete, or as it was before\n"


@pytest.mark.parametrize(
    ("code", "arguments", "exit_code", "message"),
    [
        (MAIN, ("--help",), 0, ""),
        (MAIN, ("synth", "--bits", 5, "--servers", 4, "-o", "never.npz"), 2, "optinc: bits = 5"),
        ("import optinc_pdk.averaging as a; a.Averaging = None; " + MAIN, SYNTH, 3, "optinc: internal error"),
        (
            # a shell's background job starts with SIGINT ignored
            "import signal, optinc_pdk.averaging as a; signal.signal(signal.SIGINT, signal.default_int_handler); "
            "a.Averaging.of = lambda *_, **__: signal.raise_signal(signal.SIGINT); " + MAIN,
            SYNTH,
            130,
            "optinc: interrupted",
        ),
    ],
)
def test_a_process_ends_with_the_exit_code_of_its_class(
    code: str, arguments: tuple[object, ...], exit_code: int, message: str
) -> None:
    result = run_apart(code, *arguments)
    assert result.returncode == exit_code, result.stderr
    assert message in result.stderr and ("Traceback" in result.stderr) == (exit_code == 3)


def test_a_process_that_finds_a_violation_ends_with_1(tmp_path: Path) -> None:
    layout = kdb.Layout()
    layout.create_cell("thin").shapes(layout.layer(3, 0)).insert(kdb.DBox(0, 0, 10, 0.05))
    layout.write(str(tmp_path / "thin.gds"))
    result = run_apart(MAIN, "drc", tmp_path / "thin.gds")
    assert (result.returncode, "core.width" in result.stdout) == (1, True), result.stderr
    assert (tmp_path / "thin.drc.lyrdb").is_file()


def test_drc_takes_a_layout_without_an_outline_as_part_of_a_chip(tmp_path: Path) -> None:
    layout = kdb.Layout()
    layout.create_cell("part").shapes(layout.layer(3, 0)).insert(kdb.DBox(0, 0, 10, 0.45))
    layout.write(str(tmp_path / "part.gds"))
    result = run("drc", tmp_path / "part.gds")
    assert result.returncode == 0, result.stderr
    assert "no outline" in result.stdout and "chip.outline, chip.size, chip.edge" in result.stdout
    # without a violation there is no table, only the rules that were not run and the summary
    assert "core.width" not in result.stdout
    left_out = [line for line in result.stdout.splitlines() if line.startswith("not run, because")]
    count = 48 - sum(len(line.split(": ")[1].split(", ")) for line in left_out)
    assert len(left_out) == 2 and result.stdout.splitlines()[-1] == f"0 violations of {count} rules"
    layout.top_cell().shapes(layout.layer(99, 0)).insert(kdb.DBox(-10, -10, 20, 20))
    layout.write(str(tmp_path / "part.gds"))
    result = run("drc", tmp_path / "part.gds")
    assert (result.returncode, "chip.edge" in result.stdout, "no outline" in result.stdout) == (1, True, False)
    layout.clear()
    layout.create_cell("empty")
    layout.write(str(tmp_path / "empty.gds"))
    result = run("drc", tmp_path / "empty.gds", "--json")
    rows = {row["id"]: row for row in json.loads(result.stdout)["rules"]}
    assert (result.returncode, rows["chip.outline"]["violations"], rows["chip.edge"]["run"]) == (1, 1, True)


@pytest.mark.parametrize("package", ["typer", "numpy"])
def test_an_interrupt_during_an_import_ends_with_130(package: str) -> None:
    interrupt = (
        "import os, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Interrupt:\n"
        "    @staticmethod\n"
        f"    def find_spec(name, *_): name == {package!r} and os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupt)\n"
    )
    result = run_apart(interrupt + MAIN, *SYNTH)
    assert (result.returncode, result.stdout, result.stderr) == (
        130,
        "",
        "optinc: interrupted; every file is complete, or as it was before\n",
    )


def loaded(commands: list[tuple[object, ...]]) -> tuple[list[int], set[str]]:
    """Exit codes of commands in one fresh process, and the packages of ``HEAVY`` that it has imported."""
    code = (
        "import contextlib, io, json; from optinc_pdk.cli import main\n"
        "codes = []\n"
        "for arguments in json.loads(sys.argv[1]):\n"
        "    sys.argv = ['optinc', *arguments]\n"
        "    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):\n"
        "        try:\n"
        "            main()\n"
        "        except SystemExit as end:\n"
        "            codes.append(end.code)\n"
        "print(json.dumps([codes, list(sys.modules)]))"
    )
    result = run_apart(code, json.dumps([list(map(str, command)) for command in commands]))
    assert result.returncode == 0, result.stderr
    codes, modules = json.loads(result.stdout)
    return codes, {name.partition(".")[0] for name in modules}


def test_help_and_usage_errors_import_no_numerical_package() -> None:
    codes, packages = loaded([("--help",), *((*name.split(), "--help") for name in COMMANDS), ("build", "--nonsense")])
    assert codes == [0] * (len(COMMANDS) + 1) + [2]
    assert not packages & {"numpy", "pydantic", *HEAVY}


@pytest.mark.full
def test_unusable_input_is_refused_before_slow_packages_are_imported(tmp_path: Path) -> None:
    none, out = tmp_path / "none", tmp_path / "out"
    task = ("--bits", 4, "--servers", 4)
    light: list[tuple[object, ...]] = [
        ("build", none),
        ("build", "--name", "a/b"),
        ("build", "--process", "nowhere"),
        ("build", "--accept", "loss,area"),
        ("cascade", "--accept", "all"),
        ("program", none, none, none, "--accept", ","),
        ("cascade", *task, "--process", "nowhere"),
        ("cascade", *task, "--name", "a/b"),
        ("factor", none),
        ("size", none),
        ("drc", none, "--process", "nowhere"),
        ("compare", none, none, "--process", "nowhere"),
        ("drc", none, "--bias", none),
        ("process", "deck", "-o", none),
        ("process", "deck", "--process", "nowhere"),
        ("process", "klayout", "install", "--process", "nowhere"),
        ("process", "klayout", "update"),
        ("lvs", none, none),
        ("check", none, "--weights", none, none, "--bias", none),
        ("simulate", none, "--bias", none),
        ("simulate", none, "--set", "a"),
        ("verify", none, none),
        ("verify", none, "--set", "a=b"),
        ("spectrum", none, "--weights", none, none, "--bias", none),
        ("noise", none, none, "--bias", none, "--weights", none),
        ("yield", none, "--samples", 0),
        ("synth", "--bits", 5, "--servers", 4, "-o", out),
        ("train", *task, "-o", out),
        ("train", *task, "-o", out.with_suffix(".npz"), "--loss", "mse"),
        ("train", *task, "-o", out.with_suffix(".npz"), "--device", "foo"),
        ("train", *task, "-o", out.with_suffix(".npz"), "--device", "cuda:x"),
        ("synth", *task, "-o", out),
        ("spectrum", none, "--weights", none, none, "--bias", none, "--wavelengths", 3000),
        ("search", *task, "-o", out, "--epsilon", 1),
    ]
    codes, packages = loaded(light)
    assert codes == [2] * len(light)
    assert not packages & set(HEAVY)
    geometric: list[tuple[object, ...]] = [
        ("view", none, "--png"),
        ("compare", none, none),
        ("drc", none),
        ("yield", none),
        ("process", "cells", "-o", none),
        ("process", "cells", "--process", "nowhere"),
        ("process", "golden", "--process", "nowhere"),
        ("process", "klayout", "uninstall", "--klayout-home", none),
        ("check", none, "--weights", bundled_weights(), none, "--bias", none),
    ]
    codes, packages = loaded(geometric)
    assert codes == [2] * len(geometric)
    assert packages & set(HEAVY) <= {"klayout", "scipy"}
    assert not list(tmp_path.iterdir())


def test_a_folder_in_place_of_a_layout_or_netlist_is_refused() -> None:
    commands: list[tuple[object, ...]] = [
        *((name, ".") for name in ("verify", "drc", "lvs", "simulate", "yield", "view", "check", "noise")),
        *((name, "none.gds", "tests") for name in ("verify", "lvs", "simulate")),
        ("compare", ".", "none.gds"),
        ("compare", "none.gds", "."),
    ]
    codes, packages = loaded(commands)
    assert codes == [2] * len(commands) and not packages & set(HEAVY)
    result = run("verify", ".")
    assert (result.returncode, result.stdout) == (2, "") and "'.' is a directory" in result.stderr


def test_unusable_output_paths_are_refused_before_any_work(tmp_path: Path) -> None:
    """Every other argument names a missing file, and the message is that of the output path."""
    folder, file, none = tmp_path / "folder.npz", tmp_path / "file.npz", tmp_path / "none"
    folder.mkdir()
    file.write_text("")
    task = ("--bits", 4, "--servers", 4)
    to_file: list[tuple[object, ...]] = [
        ("drc", none),
        ("process", "deck"),
        ("lvs", none, none),
        ("check", none, "--weights", none, none, "--bias", none),
        ("simulate", none, "--bias", none),
        ("spectrum", none, "--weights", none, none, "--bias", none),
        ("noise", none, none, "--bias", none, "--weights", none),
        ("synth", *task),
        ("train", *task),
        ("process", "cells"),
    ]
    to_folder: list[tuple[object, ...]] = [("build", none), ("view", none), ("compare", none, none)]
    to_folder += [("yield", none), ("search", *task)]
    codes, packages = loaded(
        [(*command, "-o", folder) for command in to_file] + [(*command, "-o", file) for command in to_folder]
    )
    assert codes == [2] * (len(to_file) + len(to_folder)) and not packages & {"numpy", "pydantic", *HEAVY}
    for commands, path, kind in ((to_file, folder, "is a folder"), (to_folder, file, "is a file")):
        for command in commands:
            result = run(*command, "-o", path)
            assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1), command
            assert result.stderr.startswith(f"optinc: {path}: {kind}; ") and "-o" in result.stderr
            empty = run(*command, "-o", "")
            assert (empty.returncode, empty.stdout, "empty path" in empty.stderr) == (2, "", True), command
    assert sorted(tmp_path.iterdir()) == [file, folder] and not list(folder.iterdir())


def test_output_folders_that_cannot_be_written_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for path in (file / "deck.lydrc", file / "new" / "deck.lydrc"):
        result = run("process", "deck", "-o", path)
        assert result.returncode == 2 and result.stderr.startswith(f"optinc: {path}: {file} ")
    result = run("process", "deck", "-o", "/dev/null")
    assert result.returncode == 2 and result.stderr.startswith("optinc: /dev/null: ")
    train = ("train", "--bits", 4, "--servers", 4, "-o", tmp_path / "w.npz")
    result = run(*train, "--checkpoint", tmp_path)
    assert result.returncode == 2 and result.stderr.startswith(f"optinc: {tmp_path}: ")
    assert "--checkpoint" in result.stderr
    # the tests may run as root, who may write everywhere
    monkeypatch.setattr("os.access", lambda path, mode: False)
    for command in (("process", "deck", "-o", tmp_path / "new" / "deck.lydrc"), ("build", "-o", tmp_path / "new")):
        result = run(*command)
        assert result.returncode == 2 and result.stderr.startswith(f"optinc: {command[-1]}: "), result.stderr
        assert str(tmp_path) in result.stderr.partition(": the folder ")[2]
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("option", "value"), [("--field-noise", "-1.0"), ("--noise", "1.0"), ("--amplitude-noise", "nan")]
)
def test_errors_in_training_out_of_range_name_option_limit_and_remedy(tmp_path: Path, option: str, value: str) -> None:
    result = run("train", "--bits", 4, "--servers", 4, "-o", tmp_path / "w.npz", option, value)
    assert result.returncode == 2 and result.stderr.startswith(f"optinc: {option} {value} ")
    assert "at least 0 and below 1" in result.stderr and "0 to train without it" in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("option", "value", "limit"),
    [
        ("--spacing", "inf", "0 GHz"),
        ("--spacing", "nan", "0 GHz"),
        ("--spacing", "0", "0 GHz"),
        ("--resolution", "nan", "1e-06 pm"),
        ("--resolution", "inf", "1e-06 pm"),
        ("--resolution", "0", "1e-06 pm"),
    ],
)
def test_numbers_of_the_spectrum_are_refused_before_files_are_read(option: str, value: str, limit: str) -> None:
    result = run("spectrum", "none", "none", "--bias", "none", option, value)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"optinc: {option} {value} ") and limit in result.stderr
    assert sum(name in result.stderr for name in ("spacing", "resolution", "channels")) == 1


@pytest.mark.full
def test_simulate_and_spectrum_refuse_what_is_known_without_the_circuit(chip: Path, tmp_path: Path) -> None:
    gds, netlist, bias = tmp_path / "empty.gds", tmp_path / "empty.pic.yml", chip.with_suffix(".bias.yml")
    for path in (gds, netlist):
        path.touch()
    simulate = ("simulate", gds, "--bias", bias)
    result = run(*simulate, "--ports", "a,b,c", "-o", tmp_path / "q.s2p")
    assert result.returncode == 2 and "q.s2p: " in result.stderr and ".s3p" in result.stderr
    spectrum = ("spectrum", gds, "--weights", bundled_weights(), netlist, "--bias", bias)
    for command in (simulate, spectrum):
        result = run(*command, "--wavelengths", "1550,3000")
        assert result.returncode == 2 and "3000 nm" in result.stderr and "1500 … 1600 nm" in result.stderr
    assert sorted(tmp_path.iterdir()) == [gds, netlist]


def test_drc_prints_violated_rules_with_first_places_and_all_rules_on_request(tmp_path: Path) -> None:
    layout = kdb.Layout()
    part = layout.create_cell("part")
    for number in range(4):
        part.shapes(layout.layer(3, 0)).insert(kdb.DBox(0, 10 * number, 10, 10 * number + 0.05))
    layout.write(str(tmp_path / "part.gds"))
    result = run("drc", tmp_path / "part.gds")
    lines = result.stdout.splitlines()
    # too narrow and too small
    width = next(line for line in lines if line.startswith("error core.width: 4 "))
    assert "at (0.0, 0.0), (0.0, 10.0), (0.0, 20.0), … µm. " in width
    assert lines[-2:] == [f"markers: {tmp_path / 'part.drc.lyrdb'}", "8 violations of 40 rules"]
    rules = load_process().rules
    listed = run("drc", tmp_path / "part.gds", "--rules").stdout
    assert listed.endswith(result.stdout) and all(rule.id in listed for rule in rules)
    assert len([line for line in lines if line.startswith(("error", "warning"))]) < len(rules)
    both = run("drc", tmp_path / "part.gds", "--rules", "--json")
    assert both.returncode == 2 and "--rules" in both.stderr and "--json" in both.stderr


@pytest.mark.full
def test_drc_counts_warnings_and_violations_alike_in_lines_and_summary(chip: Path, tmp_path: Path) -> None:
    gds, bias = chip.with_suffix(".gds"), chip.with_suffix(".bias.yml")
    result = run("drc", gds, "--bias", bias, "-o", tmp_path / "a.lyrdb")
    assert result.returncode == 0, result.stderr
    assert "warning metal.ground_rise: 46 at (" in result.stdout
    # a chip without a violation: a warning, two lines about currents, the markers and the summary
    assert len(result.stdout.splitlines()) == 5
    assert result.stdout.endswith("\n0 violations and 46 warnings of 48 rules\n")
    assert "not run" not in result.stdout
    missing = run("drc", tmp_path / "none.gds")
    assert missing.returncode == 2 and missing.stderr.count("none.gds") == 1 and "Errno" not in missing.stderr


def test_factor_warns_of_networks_that_no_chip_is_built_from(tmp_path: Path) -> None:
    biased, middle = tmp_path / "biased.npz", tmp_path / "middle.npz"
    np.savez(biased, **arrays(layers__1__bias=np.ones(2)))  # type: ignore[arg-type]
    options = ("--remainder", "--finer-input")
    assert run("synth", "--bits", 4, "--servers", 2, *options, "-o", middle).returncode == 0
    result = run("factor", middle, "--json")
    assert result.returncode == 0 and json.loads(result.stdout)["layers"]
    assert result.stderr.startswith(f"optinc: {middle}: ") and "remainder" in result.stderr
    # a constant hidden unit replaces output biases
    result = run("factor", biased, "--link", "direct")
    assert result.returncode == 0 and "gets one more unit, a constant 1" in result.stderr
    result = run("factor", bundled_weights(), "--link", "direct")
    assert (result.returncode, result.stderr) == (0, "")
    result = run("factor", bundled_weights())
    assert result.returncode == 0 and "end in 2 neurons" in result.stderr


def parameters() -> Iterator[tuple[str, str, object]]:
    """Command, name and declaration of every argument and option."""
    for command in REGISTERED:
        assert command.callback is not None
        hints = typing.get_type_hints(command.callback, include_extras=True)
        for name in inspect.signature(command.callback).parameters:
            if hints[name] is not typer.Context:
                yield command.callback.__name__, name, hints[name].__metadata__[0]


def test_the_help_lists_every_command_once_with_its_complete_summary() -> None:
    assert {name for names in GROUPS.values() for name in names} == {name.split()[0] for name in COMMANDS}
    lines = run("--help").stdout.splitlines()
    assert [line.removesuffix(":") for line in lines if line.removesuffix(":") in GROUPS] == list(GROUPS)
    text = " ".join(" ".join(lines).split())
    for name, command in typer.main.get_group(app).commands.items():
        summary = " ".join((command.help or "").partition("\n\n")[0].split())
        assert f" {name} {summary}" in text and summary.endswith(".")


def test_the_version_is_that_of_the_package() -> None:
    assert run("--version") == Run(0, f"optinc-pdk {version('optinc-pdk')}\n", "")


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("optinc dr", {"drc"}),
        ("optinc process klayout ", {"install", "uninstall"}),
        ("optinc drc --bia", {"--bias"}),
        ("optinc drc --process soi220_f", {"soi220_fast", "soi220_flipchip", "soi220_flipchip_onchip"}),
        ("optinc drc chip", set()),  # the shell completes files
    ],
)
def test_shells_complete_commands_options_choices_and_processes(words: str, completions: set[str]) -> None:
    number = str(len(words.split()) - (not words.endswith(" ")))
    with mock.patch.dict(os.environ, {"_OPTINC_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": number}):
        result = run()
    assert (result.returncode, set(result.stdout.split()), result.stderr) == (0, completions, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_of_a_shell_is_shown(shell: str) -> None:
    with mock.patch("typer.completion._get_shell_name", return_value=shell):
        result = run("--show-completion")
    assert result.returncode == 0 and f"_OPTINC_COMPLETE=complete_{shell}" in result.stdout


def test_every_command_and_parameter_has_a_help_text() -> None:
    silent = [(command, name) for command, name, declared in parameters() if not getattr(declared, "help", None)]
    assert silent == []
    assert all(inspect.getdoc(command.callback) for command in REGISTERED)
    names = {command.name or command.callback.__name__ for command in REGISTERED if command.callback}
    assert names == {name.removeprefix("process ") for name in COMMANDS}


def test_a_progress_bar_is_shown_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown(remaining: bool = False) -> str:
        with progress_counter(remaining) as watch:
            watch("samples", 3, 12)
        with stage_progress(("read", "extract")) as stage:
            stage("extract")
        printed = capsys.readouterr()
        assert printed.out == ""
        return printed.err

    # rich heeds these before it asks the stream
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    assert shown() == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    text = shown(remaining=True)
    assert all(part in text for part in ("samples", "3/12", "extract", "1/2")), text


def arrays(**changes: object) -> dict[str, object]:
    rng = np.random.default_rng(0)
    weights: dict[str, object] = {
        "layers.0.weight": rng.normal(size=(6, 2)),
        "layers.0.bias": rng.normal(size=6),
        "layers.1.weight": rng.normal(size=(2, 6)),
        "layers.1.bias": np.zeros(2),
        "activation": "relu",
        "task": np.array(TASK),
    }
    weights.update({key.replace("__", "."): value for key, value in changes.items()})
    return {key: value for key, value in weights.items() if value is not None}


def nan(path: Path) -> None:
    np.savez(path, **arrays(layers__0__bias=np.full(6, np.nan)))  # type: ignore[arg-type]


def pickled(path: Path) -> None:
    path.write_bytes(pickle.dumps({"layers.0.weight": [1, 2]}))


def text(path: Path) -> None:
    path.write_text("not a zip file")


def three_dimensional(path: Path) -> None:
    np.savez(path, **arrays(layers__0__weight=np.zeros((6, 2, 1))))  # type: ignore[arg-type]


def mismatched(path: Path) -> None:
    np.savez(path, **arrays(layers__1__weight=np.ones((2, 5))))  # type: ignore[arg-type]


def without_task(path: Path) -> None:
    np.savez(path, **arrays(task=None))  # type: ignore[arg-type]


def object_array(path: Path) -> None:
    np.savez(path, **arrays(layers__0__bias=np.array([None] * 6, dtype=object)))  # type: ignore[arg-type]


def missing(path: Path) -> None:
    path.unlink(missing_ok=True)


@pytest.mark.full
def test_a_file_without_a_task_averages_words_if_options_state_them(tmp_path: Path) -> None:
    weights = tmp_path / "weights.npz"
    without_task(weights)
    stated = tmp_path / "stated.npz"
    assert run("task", weights, "--bits", 4, "--servers", 4, "--groups", 2, "-o", stated).returncode == 0
    words = run("build", stated, "-o", tmp_path / "words", "--json")
    assert json.loads(words.stdout)["task"]["bits"] == 4, words.stderr
    general = run("build", weights, "-o", tmp_path / "general", "--json")
    assert general.returncode == 0 and json.loads(general.stdout)["task"]["kind"] == "network"
    gds = tmp_path / "general" / "weights.gds"
    refused = run("eye", gds, "--weights", weights, "--symbol-rate", "1e6")
    assert refused.returncode == 2 and "has no labels" in refused.stderr and "--data" in refused.stderr
    refused = run("yield", gds)
    assert refused.returncode == 2 and "computes a general network" in refused.stderr


def test_commands_for_weights_take_general_networks(tmp_path: Path) -> None:
    weights = tmp_path / "weights.npz"
    without_task(weights)
    sizes = json.loads(run("size", weights, bundled_weights(), "--json").stdout)["networks"]
    assert sizes[0]["structure"] == [2, 6, 2] and "loss" not in sizes[0]["limits"] and "loss" in sizes[1]["limits"]
    assert "not known" in run("size", weights).stdout
    factors = json.loads(run("factor", weights, "--json").stdout)["layers"]
    assert [layer["shape"] for layer in factors] == [[6, 2], [2, 6]]
    for command in ("size", "factor"):
        refused = run(command, weights, "--link", "neurons")
        assert refused.returncode == 2 and "signed" in refused.stderr


@pytest.mark.full
def test_check_sends_data_through_the_layout_of_a_general_network(tmp_path: Path) -> None:
    weights, data = tmp_path / "weights.npz", tmp_path / "test.npz"
    without_task(weights)
    inputs = np.random.default_rng(0).uniform(-1.0, 1.0, (50, 2))
    with np.load(weights) as stored:
        hidden = np.maximum(inputs @ stored["layers.0.weight"].T + stored["layers.0.bias"], 0.0)
        outputs = hidden @ stored["layers.1.weight"].T + stored["layers.1.bias"]
    np.savez(data, x=inputs, y=outputs)
    assert run("build", weights, "-o", tmp_path).returncode == 0
    chip = (
        "check",
        tmp_path / "weights.gds",
        "--weights",
        weights,
        "--data",
        data,
        "-o",
        tmp_path / "again.network.npz",
    )
    passed = run(*chip, "--json")
    assert passed.returncode == 0, passed.stderr
    found = json.loads(passed.stdout)
    assert found["samples"] == found["agreeing"] == 50 and found["faults"] == []
    assert found["network_rms_error"] == pytest.approx(0.0, abs=1e-12) and found["chip_rms_error"] > 0.0
    with np.load(tmp_path / "again.network.npz") as table:
        np.testing.assert_allclose(table["network"], outputs, atol=1e-12)
    failed = run(*chip, "--tolerance", 1e-7)
    assert failed.returncode == 1 and "outputs beyond the tolerance" in failed.stdout
    np.savez(data, x=2.0 * inputs, y=outputs)
    beyond = run(*chip)
    assert beyond.returncode == 2 and "the chip sends up to ±1" in beyond.stderr
    for options in (("--data", data), ("--tolerance", 0.1), ("--agreement", 0.9)):
        refused = run("check", tmp_path / "weights.gds", "--weights", bundled_weights(), *options)
        assert refused.returncode == 2 and "a general network" in refused.stderr


@pytest.mark.full
def test_options_of_general_networks_decide_the_verdict(tmp_path: Path) -> None:
    weights, data = tmp_path / "weights.npz", tmp_path / "test.npz"
    without_task(weights)
    inputs = np.random.default_rng(0).uniform(-1.0, 1.0, (50, 2))
    np.savez(data, x=inputs, y=np.arange(50) % 2)
    chip = ("build", weights, "--data", data, "-o")
    failed = run(*chip, tmp_path / "out", "--accuracy", 1.0)
    assert failed.returncode == 1 and "the network itself is the cause" in failed.stderr
    report = json.loads((tmp_path / "out" / "weights.report.json").read_text())
    assert report["verdict"] == "fail" and report["network"]["agreement"] == 1.0
    for options in (("--read", "power"), ("--link", "neurons"), ("--agreement", 2), ("--tolerance", 0.1)):
        refused = run(*chip, tmp_path / "no", *options)
        assert refused.returncode == 2 and not (tmp_path / "no").exists(), options
    np.save(tmp_path / "matrix.npy", np.eye(3))
    refused = run("build", tmp_path / "matrix.npy", "--data", data)
    assert refused.returncode == 2 and "has no effect" in refused.stderr and "--data" in refused.stderr


@pytest.mark.full
def test_a_missed_budget_fails_unless_it_is_accepted_by_name(tmp_path: Path) -> None:
    """Accepting a budget that holds changes nothing, and is not listed."""
    weights, card, out, again = (tmp_path / name for name in ("small.npz", "strict", "out", "again"))
    carry_chain(Averaging(2, 4, 1)).save(weights)
    card.mkdir()
    (card / "process.yml").write_text(
        "schema: 1\nname: strict\ntitle: no cooling\nbase: soi220\nsources: {mine: a guess}\n"
        "budget: {cooling_w_per_mm2: {value: 1.0e-6, source: mine}}\n"
    )
    missed = run("build", weights, "-o", out, "--process", card)
    assert missed.returncode == 1, missed.stderr
    assert missed.stdout.splitlines()[-1].startswith("verdict fail: ") and "MISSED" in missed.stdout
    assert "--accept power" in missed.stderr
    report = json.loads((out / "small.report.json").read_text())
    assert report["verdict"] == "fail" and report["function"]["exact"] == report["function"]["inputs"]
    assert not any(limit["accepted"] for limit in report["chip"]["limits"].values())
    chip = (out / "small.gds", out / "small.pic.yml", weights, "-o", again, "--process", card)
    accepted = run("program", *chip, "--accept", "loss,power")
    assert accepted.returncode == 0, accepted.stderr
    verdict = accepted.stdout.splitlines()[-1]
    assert re.match(r"verdict pass, accepted: power \S+ of 1e-06 W/mm²: ", verdict), verdict
    limits = json.loads((again / "small.report.json").read_text())["chip"]["limits"]
    assert [name for name, limit in limits.items() if limit["accepted"]] == ["power"]
    assert "pass, accepted: power" in (again / "small.report.html").read_text()


@pytest.mark.parametrize("write", [nan, pickled, text, three_dimensional, mismatched, object_array, missing])
def test_unusable_weights_exit_2_with_one_line_and_nothing_written(write: object, tmp_path: Path) -> None:
    weights = tmp_path / "weights.npz"
    write(weights)  # type: ignore[operator]
    out = tmp_path / "out"
    result = run("build", weights, "-o", out)
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1
    assert "weights.npz" in result.stderr
    assert not out.exists()


@pytest.mark.parametrize("name", ["../../x", "a/b", "", "x" * 33, "-x", "a b", "a\nb"])
def test_unusable_names_exit_2(name: str, tmp_path: Path) -> None:
    result = run("build", "-o", tmp_path / "out", f"--name={name}")
    assert result.returncode == 2, result.stderr
    assert list(tmp_path.iterdir()) == []


def test_lvs_asks_for_the_netlist_that_is_not_beside_the_layout(tmp_path: Path) -> None:
    (tmp_path / "c.gds").touch()
    result = run("lvs", tmp_path / "c.gds")
    assert result.returncode == 2 and "c.pic.yml beside it; give the netlist as the second argument" in result.stderr


def test_an_unknown_process_exits_2(tmp_path: Path) -> None:
    result = run("build", "-o", tmp_path / "out", "--process", "nowhere")
    assert result.returncode == 2
    assert "soi220" in result.stderr


@pytest.mark.parametrize(
    ("part", "words"), [("golden", ("golden/*.json", "optinc process golden")), ("devices", ("devices/*.yml",))]
)
def test_a_process_without_recognition_polygons_or_devices_exits_2(
    part: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    folder = tmp_path / "p1"
    copytree(components_folder() / "soi220", folder, ignore=ignore_patterns(part))
    weights, gds = tmp_path / "w.npz", tmp_path / "c.gds"
    gds.touch()
    assert run("synth", "--bits", 2, "--servers", 2, "-o", weights).returncode == 0
    netlist = NETLISTS / "average_4bit_4servers.pic.yml"
    commands = [("build", weights, "-o", tmp_path / "out"), ("lvs", gds, netlist)]
    for command in commands if part == "golden" else [*commands, ("size", weights)]:
        result = run(*command, "--process", folder)
        assert result.returncode == 2, (command, result.stderr)
        assert all(word in result.stderr for word in words) and "p1" in result.stderr
        assert str(weights) not in result.stderr
    assert not (tmp_path / "out").exists()


def test_unknown_commands_and_options_exit_2_with_one_suggestion() -> None:
    for arguments, suggestion in ((("buld",), "build"), (("drc", "--bis"), "--bias")):
        result = run(*arguments)
        assert (result.returncode, result.stdout, result.stderr.count(f"'{suggestion}'")) == (2, "", 1)


def test_unknown_options_exit_2() -> None:
    assert run("build", "--nonsense").returncode == 2


@pytest.fixture(scope="module")
def chip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chip")
    result = run("build", "-o", folder, "--name", "chip")
    assert result.returncode == 0, result.stderr
    assert "65,536/65,536 words exact" in result.stdout
    assert "pass" in result.stdout
    return folder / "chip"


def test_no_check_writes_over_what_it_reads(chip: Path, tmp_path: Path) -> None:
    gds, netlist, bias = (tmp_path / f"chip{ending}" for ending in (".gds", ".pic.yml", ".bias.yml"))
    for path in (gds, netlist, bias):
        path.write_bytes(chip.with_suffix("").with_name(path.name).read_bytes())
    kept = {path: path.read_bytes() for path in (gds, netlist, bias)}
    for command, out in (
        (("drc", gds), gds),
        (("drc", gds, "--bias", bias), bias),
        (("lvs", gds, netlist), netlist),
        (("lvs", gds, netlist), gds),
        (("simulate", gds, "--bias", bias), gds),
        (("check", gds, "--weights", bundled_weights(), netlist, "--bias", bias), netlist),
    ):
        result = run(*command, "-o", out)
        assert (result.returncode, result.stderr.count("\n")) == (2, 1)
        assert f"{out}: " in result.stderr
    assert {path: path.read_bytes() for path in kept} == kept


@pytest.mark.full
def test_separate_checks_agree_with_the_build(chip: Path, tmp_path: Path) -> None:
    gds, netlist, bias = (chip.with_suffix(ending) for ending in (".gds", ".pic.yml", ".bias.yml"))
    result = run("drc", gds, "-o", tmp_path / "a.lyrdb", "--json")
    assert result.returncode == 0 and json.loads(result.stdout)["violations"] == 0
    # rules on currents need the bias
    assert json.loads(result.stdout)["not_run"] == 2
    assert [row["id"] for row in json.loads(result.stdout)["rules"] if not row["run"]] == [
        "metal.current",
        "metal.ground_rise",
    ]
    result = run("drc", gds, "--bias", bias, "-o", tmp_path / "a.lyrdb", "--json")
    numbers, built = json.loads(result.stdout), json.loads(chip.with_suffix(".report.json").read_text())["drc"]
    assert result.returncode == 0 and all(numbers[key] == built[key] for key in built if key != "rules")
    assert built["not_run"] == 0 and 1 < built["current_ma_per_um"] < 2 and built["ground_rise_mv"] > 100
    result = run("lvs", gds, netlist, "-o", tmp_path / "a.lvs.json", "--second-opinion")
    assert result.returncode == 0 and result.stdout.startswith("match")
    assert result.stdout.endswith("KLayout's netlist comparer: match\n")
    result = run(
        "check",
        gds,
        "--weights",
        bundled_weights(),
        netlist,
        "--bias",
        bias,
        "-o",
        tmp_path / "a.function.npz",
        "--json",
    )
    numbers = json.loads(result.stdout)
    assert result.returncode == 0 and numbers["exact"] == 65_536
    assert (numbers["words"], numbers["errors"], min(numbers["margins"])) == (4 * 65_536, [], numbers["margin"])
    table = (tmp_path / "a.function.npz").read_bytes()
    assert table == chip.with_suffix(".function.npz").read_bytes()


@pytest.mark.full
def test_noise_counts_words_and_refuses_powers_beyond_the_card(chip: Path, tmp_path: Path) -> None:
    gds, netlist, bias = (chip.with_suffix(ending) for ending in (".gds", ".pic.yml", ".bias.yml"))
    command = ("noise", gds, netlist, "--bias", bias, "--weights", bundled_weights(), "-o", tmp_path / "n.csv")
    for power in ("-1", "0"):
        result = run(*command, "--laser-w", power)
        assert (
            result.returncode == 2
            and f"{power} W" in result.stderr
            and "at least 1e-12 and at most 0.1 W" in result.stderr
        )
        result = run(*command, "--oscillator-w", power)
        assert result.returncode == 2 and f"power {power} W in the fibres" in result.stderr and "0.1 W" in result.stderr
    assert not list(tmp_path.iterdir())
    result = run(*command[:-1], tmp_path / "n.png")
    assert result.returncode == 2 and "n.png: " in result.stderr and not list(tmp_path.iterdir())
    result = run(*command, "--symbol-rates", "1e8,1e9", "--laser-w", 3e-3, "--json")
    assert result.returncode == 0, result.stderr
    numbers = json.loads(result.stdout)
    slow, fast = numbers["points"]
    assert numbers["laser_w"] == 3e-3 and slow["integration_s"] == pytest.approx(
        slow["noise"]["shape"]["window"] * 1e-8
    )
    assert slow["wrong"] == 0 < slow["high"] < 1e-4 and slow["words"] == 4 * 65_536
    assert 0 < 0.5 * fast["low"] < fast["gaussian_estimate"] < 2 * fast["high"] < 0.1 and fast["wrong"] > 0
    oscillators = numbers["oscillators"]
    light, points = oscillators["light"], oscillators["points"]
    assert (light["fibres"], light["fibre_w"], light["split_carrier"]) == (1, 3e-3, True)
    assert 0.0 < light["mixer_least_w"] < light["mixer_mean_w"] < 1e-4
    rates = [each["symbol_rate_bd"] for each in points]
    assert rates == sorted(rates, reverse=True) and points[0]["oscillator_w"] == 0.1
    limits = numbers["limits"]
    assert 1e8 < limits["symbol_rate_bd"] < 1e9 and limits["main_limit"] == "amplifiers"
    assert (tmp_path / "n.csv").is_file() and (tmp_path / "n.png").is_file()


@pytest.mark.full
def test_rates_above_the_stated_limit_are_results_and_those_beyond_every_bandwidth_are_refused(
    chip: Path, tmp_path: Path
) -> None:
    gds, netlist, bias = (chip.with_suffix(ending) for ending in (".gds", ".pic.yml", ".bias.yml"))
    files = (gds, netlist, "--bias", bias, "--weights", bundled_weights(), "--json")
    refused = run("noise", *files, "--symbol-rates", "1e9,2e11", "-o", tmp_path / "n.csv")
    assert (refused.returncode, refused.stdout) == (2, "") and "beyond every bandwidth" in refused.stderr
    refused = run("eye", *files, "--symbol-rate", "2e11", "-o", tmp_path / "e.png")
    assert refused.returncode == 2 and "beyond every bandwidth" in refused.stderr
    assert not list(tmp_path.iterdir())
    # the process states 1 GBd
    done = run("noise", *files, "--symbol-rates", "1e9,4e9", "-o", tmp_path / "n.csv")
    assert done.returncode == 0 and "optinc: 4 GBd: above 1 GBd" in done.stderr
    assert "budget.symbol_rate_max_bd" in done.stderr
    numbers = json.loads(done.stdout)
    slow, fast = numbers["points"]
    assert slow["wrong"] < fast["wrong"] < fast["words"]
    assert numbers["limits"]["symbol_rate_bd"] <= numbers["limits"]["highest_bd"] == 1e9
    done = run("eye", *files, "--symbol-rate", "4e9", "-o", tmp_path / "e.png")
    assert done.returncode == 0 and "optinc: 4 GBd: above 1 GBd" in done.stderr


@pytest.mark.full
def test_eyes_need_the_bandwidths_of_both_devices(chip: Path, tmp_path: Path) -> None:
    gds, netlist, bias = (chip.with_suffix(ending) for ending in (".gds", ".pic.yml", ".bias.yml"))
    folder = tmp_path / "soi220"
    copytree(components_folder() / "soi220", folder)
    card = folder / "devices" / "photodiode.yml"
    card.write_text("".join(line for line in card.read_text().splitlines(True) if "bandwidth_hz" not in line))
    files = (gds, netlist, "--bias", bias, "--weights", bundled_weights(), "--process", folder)
    refused = run("eye", *files, "--symbol-rate", "1e6", "-o", tmp_path / "e.png")
    assert refused.returncode == 2 and "devices/photodiode.yml" in refused.stderr
    assert not (tmp_path / "e.png").exists()
    warned = run("noise", *files, "--symbol-rates", "1e6", "-o", tmp_path / "n.csv")
    assert warned.returncode == 0 and "devices/photodiode.yml" in warned.stderr


def test_simulate_reads_layouts_and_netlists_and_results_are_passive(chip: Path, tmp_path: Path) -> None:
    bias = chip.with_suffix(".bias.yml")
    out = tmp_path / "a.s.npz"
    result = run("simulate", chip.with_suffix(".gds"), "--bias", bias, "--wavelengths", "1549.9:1550.1:0.1", "-o", out)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"{out}: 3 wavelengths; 4 blocks of 13, 7, 9 and 11 ports\n"
    with np.load(out) as data:
        assert data["wavelengths_nm"] == pytest.approx([1549.9, 1550.0, 1550.1])
        for i, ports in enumerate((8 + 4 + 1, 4 + 2 + 1, 4 + 4 + 1, 2 + 8 + 1)):
            s = data[f"blocks.{i}.s"]
            assert s.shape == (3, ports, ports) == (3, *2 * (len(data[f"blocks.{i}.ports"]),))
            assert np.linalg.norm(s, 2, axis=(1, 2)).max() <= 1
    assert run("simulate", chip.with_suffix(".pic.yml"), "--bias", bias, "-o", tmp_path / "b.npz").returncode == 0


@pytest.mark.full
def test_the_spectrum_is_narrow_with_a_fixed_bias_and_wide_when_reprogrammed(chip: Path, tmp_path: Path) -> None:
    gds, netlist, bias = (chip.with_suffix(ending) for ending in (".gds", ".pic.yml", ".bias.yml"))
    files, out = (gds, netlist, "--bias", bias, "--weights", bundled_weights()), tmp_path / "a.csv"
    some = ("--wavelengths", "1545,1550", "--resolution", "0.2", "--channels", "1")
    result = run("spectrum", *files, *some, "-o", out, "--json")
    assert result.returncode == 0, result.stderr
    numbers = json.loads(result.stdout)
    assert numbers["files"] == [str(out), str(tmp_path / "a.png")]
    assert 1e-3 < numbers["fixed_window"]["drift_nm"] < 10e-3
    assert [point["exact"] for point in numbers["rebiased"]] == [65_536] * 2
    assert numbers["fixed"][0]["exact"] < 10_000
    assert out.read_text().count("rebiased,") == 2
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    for wrong, values in (
        (("-o", tmp_path / "b.txt"), ("b.txt: ", ".csv")),
        (("--wavelengths", "1620", "-o", tmp_path / "b.csv"), ("1620 nm", "1500 … 1600 nm")),
        (("--resolution", "0", "-o", tmp_path / "b.csv"), ("--resolution",)),
        (("--channels", "0", "-o", tmp_path / "b.csv"), ("--channels",)),
        (("--spacing", "0", "-o", tmp_path / "b.csv"), ("0 GHz",)),
    ):
        result = run("spectrum", *files, *wrong)
        assert (result.returncode, result.stdout) == (2, "") and all(value in result.stderr for value in values)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.png"]


@pytest.mark.full(every=3)
@pytest.mark.parametrize(
    ("command", "last"),
    [
        (("drc", "{gds}", "-o", "{out}.lyrdb"), "markers"),
        (("lvs", "{gds}", "-o", "{out}.json"), "markers"),
        (("compare", "{gds}", "{gds}", "-o", "{out}"), "picture"),
        (("factor", bundled_weights()), "layer 3 "),
        (("process", "golden", "--check"), "10/11"),
    ],
)
def test_commands_that_take_seconds_show_their_progress(
    command: tuple[object, ...], last: str, chip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {"gds": chip.with_suffix(".gds"), "out": tmp_path / "out"}
    arguments = [str(argument).format(**places) for argument in command]
    plain = run(*arguments)
    for name in ("TTY_COMPATIBLE", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    result = run(*arguments)
    assert (plain.returncode, result.returncode) == (0, 0)
    assert last in result.stderr and last not in plain.stderr


@pytest.mark.parametrize("wavelengths", ["", "x", "1550:1540:1", "1:2:0", "-3", "nan", "1e400", "2000"])
def test_unusable_wavelengths_exit_2(chip: Path, wavelengths: str, tmp_path: Path) -> None:
    bias, out = chip.with_suffix(".bias.yml"), tmp_path / "s.npz"
    result = run("simulate", chip.with_suffix(".pic.yml"), "--bias", bias, f"--wavelengths={wavelengths}", "-o", out)
    assert result.returncode == 2, result.stderr
    assert not out.exists()


def test_unusable_files_exit_2(chip: Path, tmp_path: Path) -> None:
    gds, netlist, bias = (chip.with_suffix(ending) for ending in (".gds", ".pic.yml", ".bias.yml"))
    broken = tmp_path / "broken.gds"
    broken.write_bytes(gds.read_bytes()[:1000])
    text_file = tmp_path / "text.yml"
    text_file.write_text("- 1\n")
    negative = tmp_path / "negative.bias.yml"
    negative.write_text(re.sub(r"gain: [\d.e+-]+", "gain: -1", bias.read_text(), count=1))
    other = tmp_path / "other.bias.yml"
    other.write_text(bias.read_text().replace("circuit: chip", "circuit: other"))
    assert other.read_text() != bias.read_text()
    for arguments in (
        ("drc", broken),
        ("drc", tmp_path / "none.gds"),
        ("lvs", broken, netlist),
        ("lvs", gds, text_file),
        ("lvs", gds, bias),
        ("check", gds, "--weights", bundled_weights(), netlist, "--bias", text_file),
        ("check", gds, "--weights", bundled_weights(8, 4), netlist, "--bias", bias),
        ("check", gds, "--weights", tmp_path / "none.npz", netlist, "--bias", bias),
        ("check", gds, "--weights", bundled_weights(), netlist, "--bias", other),
        ("check", gds, "--weights", bundled_weights(), netlist, "--bias", negative),
        ("simulate", gds, "--bias", negative),
        ("noise", gds, netlist, "--bias", negative, "--weights", bundled_weights()),
        ("spectrum", gds, "--weights", bundled_weights(), netlist, "--bias", negative),
        ("drc", gds, "--bias", netlist),
        ("simulate", gds, "--bias", netlist),
    ):
        result = run(*arguments)
        assert result.returncode == 2, (arguments, result.stderr, result.stdout)
        assert result.stderr.startswith("optinc: "), result.stderr
        assert "Traceback" not in result.stderr


def test_a_bias_of_another_circuit_is_refused_by_all_commands_alike(chip: Path, tmp_path: Path) -> None:
    gds, netlist, bias = (chip.with_suffix(ending) for ending in (".gds", ".pic.yml", ".bias.yml"))
    other, out = tmp_path / "other.bias.yml", tmp_path / "out"
    other.write_text(bias.read_text().replace("circuit: chip", "circuit: other"))
    messages = set()
    for command in (
        ("check", gds, "--weights", bundled_weights(), netlist),
        ("spectrum", gds, "--weights", bundled_weights(), netlist),
        ("noise", gds, netlist, "--weights", bundled_weights()),
        ("yield", gds),
    ):
        output = out.with_suffix(".csv" if command[0] in ("spectrum", "noise") else "")
        result = run(*command, "--bias", other, "-o", output)
        assert (result.returncode, result.stdout) == (2, "")
        messages.add(result.stderr)
    assert len(messages) == 1
    (message,) = messages
    assert message.startswith(f"optinc: {other}: ") and "'other'" in message and "'chip'" in message
    assert list(tmp_path.iterdir()) == [other]


def test_view_writes_pictures_without_a_display_and_refuses_a_missing_layout(
    chip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    result = run("view", chip.with_suffix(".gds"), "-o", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert [Path(line).name for line in result.stdout.split()] == [
        f"chip.{name}.png" for name in ("chip", "layer", "mesh", "mzi")
    ]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        Path(line).name for line in result.stdout.split()
    )
    result = run("view", chip.with_suffix(".gds"), "--png", "--process", "soi220_two_metal", "-o", tmp_path / "none")
    assert (result.returncode, result.stdout) == (2, "") and not (tmp_path / "none").exists()
    assert result.stderr.startswith(f"optinc: {chip.with_suffix('.gds')}: ") and "soi220" in result.stderr
    result = run("view", tmp_path / "missing.gds", "--png", "-o", tmp_path / "none")
    assert (result.returncode, result.stdout, len(result.stderr.splitlines())) == (2, "", 1)
    assert "missing.gds" in result.stderr and not (tmp_path / "none").exists()


def test_view_opens_the_report_page_where_there_is_no_klayout(
    chip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = tmp_path / "bin" / "browser"
    browser.parent.mkdir()
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    browser.chmod(0o755)
    monkeypatch.setenv("PATH", str(browser.parent))
    monkeypatch.setenv("BROWSER", str(browser))
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.delenv("QT_QPA_PLATFORM", raising=False)
    for ending in (".gds", ".report.json", ".report.html"):
        shutil.copy(chip.with_name(f"chip{ending}"), tmp_path / f"chip{ending}")
    page = tmp_path / "chip.report.html"
    result = run("view", tmp_path / "chip.gds")
    assert (result.returncode, result.stdout) == (0, f"{page}\n"), result.stderr
    assert (tmp_path / "opened").read_text() == f"{page.as_uri()}\n"
    # a page that does not belong to the layout is not shown
    assert report_page(tmp_path / "chip.gds") == page
    page.write_text(page.read_text() + " ")
    assert report_page(tmp_path / "chip.gds") is None


def test_size_compares_with_the_paper_and_refuses_a_missing_network(tmp_path: Path) -> None:
    weights = bundled_weights().with_name("average_8bit_4servers_relu.npz")
    result = run("size", bundled_weights(), weights, bundled_weights(8), "--json")
    assert result.returncode == 0, result.stderr
    networks = json.loads(result.stdout)["networks"]
    assert [network["mzis"] for network in networks] == [106_512, 41_664, 20, 365, 56]
    assert all(set(network["limits"]) == {"size", "pads", "power", "loss"} for network in networks)
    result = run("size", tmp_path / "missing.npz")
    assert (result.returncode, result.stdout) == (2, "") and "missing.npz" in result.stderr


def test_size_takes_matrices_beside_networks(tmp_path: Path) -> None:
    matrix = tmp_path / "matrix.npy"
    np.save(matrix, np.random.default_rng(0).normal(size=(5, 3)))
    result = run("size", matrix, bundled_weights(), "--json")
    assert result.returncode == 0, result.stderr
    rows = {row["name"]: row for row in json.loads(result.stdout)["networks"]}
    assert (rows["matrix"]["structure"], rows["matrix"]["mzis"], rows["matrix"]["fibres"]) == ([3, 5], 16, 8)
    refused = run("size", matrix, "--link", "direct")
    assert (refused.returncode, refused.stdout) == (2, "") and "--link direct has no effect" in refused.stderr
    # two triangles of 2N - 3 columns with one redundant column each, and attenuators
    options = ("--mesh", "triangle", "--extra-columns", 1)
    triangles = run("size", matrix, bundled_weights(), *options, "--json")
    assert triangles.returncode == 0, triangles.stderr
    row = next(row for row in json.loads(triangles.stdout)["networks"] if row["name"] == "matrix")
    assert (row["columns"], rows["matrix"]["columns"]) == (7 + 3 + 2 + 1, 5 + 3 + 1)
    refused = run("size", bundled_weights(), *options)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--mesh triangle has no effect" in refused.stderr and bundled_weights().name in refused.stderr
    np.save(matrix, np.full((2, 2), np.nan))
    refused = run("size", bundled_weights(), matrix)
    assert (refused.returncode, refused.stdout) == (2, "") and "matrix.npy" in refused.stderr


@pytest.mark.parametrize(("name", "mzis"), [("average_4bit_4servers", 18), ("average_4bit_4servers_relu", 89)])
def test_factor_prints_the_papers_count(name: str, mzis: int) -> None:
    result = run("factor", bundled_weights().with_name(f"{name}.npz"), "--link", "direct", "--json")
    assert result.returncode == 0
    layers = json.loads(result.stdout)["layers"]
    assert sum(layer["mzis"] for layer in layers) == mzis
    assert max(layer["error"] for layer in layers) < 1e-12


@pytest.mark.full
def test_search_writes_networks_front_and_picture(tmp_path: Path) -> None:
    out = tmp_path / "found"
    result = run(
        "search", "--bits", 2, "--servers", 4, "--steps", 60, "--epsilon", 1e-4, "-o", out, "--also", bundled_weights()
    )
    assert result.returncode == 2
    assert bundled_weights().name in result.stderr and "bits = 4" in result.stderr and "2" in result.stderr
    result = run("search", "--bits", 2, "--servers", 4, "--steps", 60, "--epsilon", 1e-4, "-o", out)
    assert result.returncode == 0, result.stderr
    assert "MZIs" in result.stdout
    assert (out / "front.png").read_bytes()[:4] == b"\x89PNG"
    assert (out / "front.csv").read_text().startswith("name,structure,mzis")
    assert AveragingNetwork.load(out / "best.npz").structure[0] == 1
    assert run("search", "--bits", 2, "--servers", 4, "--epsilon", 1, "-o", out).returncode == 2


def test_train_takes_starts_and_refuses_contradictions(tmp_path: Path) -> None:
    out = tmp_path / "w.npz"
    common = ("train", "--bits", 4, "--servers", 4, "--steps", 2, "-o", out)
    assert run(*common, "--start", bundled_weights(), "--checkpoint", tmp_path / "state.npz").returncode == 0
    for wrong in (
        ("--start", bundled_weights(), "--hidden", "4-4"),
        ("--hidden", "4-x"),
        ("--hidden", ""),
        ("--seed", -1),
        ("-o", tmp_path / "w.txt"),
        ("--hidden", "0"),
        ("--loss", "mse"),
        ("--approximate", "9"),
        ("--device", "nowhere"),
        ("--groups", 1, "--start", bundled_weights()),
        ("--checkpoint", tmp_path / "state.npz"),
    ):
        assert run(*common, *wrong).returncode == 2, wrong


@pytest.mark.parametrize("size", [0.0, 1e-320, 1.7e308])
def test_factor_refuses_weights_beyond_the_range_of_light(tmp_path: Path, size: float) -> None:
    path = tmp_path / "w.npz"
    np.savez(path, **arrays(layers__1__weight=np.full((2, 6), size)))  # type: ignore[arg-type]
    result = run("factor", path)
    assert result.returncode == 2
    assert result.stderr.startswith((f"optinc: {path}: layers.1.weight ", f"optinc: {path}: layer layers.1."))
    assert f"{size:g}" in result.stderr
    assert "Traceback" not in result.stderr and not result.stdout


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--servers", 1), "--servers"),
        (("--servers", 2, "--remainder", "--finer-input"), "remainder"),
    ],
)
def test_networks_without_a_chip_are_written_and_refused_by_name(
    options: tuple[object, ...], reason: str, tmp_path: Path
) -> None:
    out = tmp_path / "net.npz"
    written = run("synth", "--bits", 4, *options, "-o", out)
    assert written.returncode == 0
    assert "no chip can be built from it:" in written.stdout and reason in written.stdout
    refused = run("build", out, "-o", tmp_path / "chip")
    assert refused.returncode == 2
    assert str(out) in refused.stderr and reason in refused.stderr
    assert not (tmp_path / "chip").exists()


@pytest.mark.full
def test_synth_writes_an_exact_network(tmp_path: Path) -> None:
    out = tmp_path / "w.npz"
    assert run("synth", "--bits", 4, "--servers", 4, "-o", out).returncode == 0
    assert AveragingNetwork.load(out).activation == "clipped_relu"
    assert run("factor", out).returncode == 0
    limited = run("synth", "--bits", 4, "--servers", 4, "--mzis", 30, "--gain", 4, "-o", out)
    assert limited.returncode == 0
    assert 20 < AveragingNetwork.load(out).mzis <= 30 and AveragingNetwork.load(out).card["gain"] == 4.0
    assert run("synth", "--bits", 4, "--servers", 4, "--activation", "relu", "-o", out).returncode == 0
    assert AveragingNetwork.load(out).activation == "relu"
    for options in (("--mzis", 17), ("--gain", 0.5), ("--activation", "tanh"), ("--unary", "--gain", 4)):
        refused = run("synth", "--bits", 4, "--servers", 4, *options, "-o", tmp_path / "v.npz")
        assert refused.returncode == 2
        assert options[-2] in refused.stderr or options[0].strip("-") in refused.stderr
    assert run("synth", "--bits", 5, "--servers", 4, "-o", tmp_path / "v.npz").returncode == 2
    assert run("synth", "--bits", 4, "--servers", 0, "-o", tmp_path / "v.npz").returncode == 2
    assert run("synth", "--bits", 32, "--servers", 1, "--groups", 1, "-o", tmp_path / "v.npz").returncode == 2
    assert run("synth", "--bits", 4, "--servers", 4, "--unary", "--copies", 2, "-o", tmp_path / "v.npz").returncode == 2
    assert run("synth", "--bits", 4, "--servers", 4, "--unary", "-o", out).returncode == 0
    assert run("synth", "--bits", 8, "--servers", 1_000_000, "-o", tmp_path / "v.npz").returncode == 2
    assert run("synth", "--bits", 8, "--servers", 4, "--copies", 100_000, "-o", tmp_path / "v.npz").returncode == 2
    assert not (tmp_path / "v.npz").exists()


def test_synth_chooses_for_noise_and_shows_the_candidates(tmp_path: Path) -> None:
    out = tmp_path / "w.npz"
    found = run("synth", "--bits", 4, "--servers", 2, "--for", "noise", "--json", "-o", out)
    numbers = json.loads(found.stdout)
    sigmas = [row["sigma"] for row in numbers["candidates"]]
    assert sigmas == sorted(sigmas, reverse=True) and len(sigmas) > 1
    assert numbers["candidates"][0]["mzis"] == numbers["mzis"] == AveragingNetwork.load(out).mzis
    limit = numbers["candidates"][-1]["mzis"]
    table = run("synth", "--bits", 4, "--servers", 2, "--for", "noise", "--mzis", limit, "-o", out)
    assert "σ*" in table.stdout and AveragingNetwork.load(out).mzis <= limit
    for options in (("--for", "speed"), ("--for", "noise", "--process", "soi220"), ("--for", "rate", "--unary")):
        refused = run("synth", "--bits", 2, "--servers", 4, *options, "-o", tmp_path / "v.npz")
        assert refused.returncode == 2 and not (tmp_path / "v.npz").exists()


def test_synth_chooses_for_the_rate_on_a_process(tmp_path: Path) -> None:
    out = tmp_path / "w.npz"
    options = ("--for", "rate", "--process", "soi220_fast", "--mzis", 6, "--json")
    numbers = json.loads(run("synth", "--bits", 2, "--servers", 4, *options, "-o", out).stdout)
    assert numbers["candidates"][0]["extracted_bd"] > 1e9
    assert numbers["candidates"][0]["structure"] == list(AveragingNetwork.load(out).structure)


def test_level_1_trains_on_from_a_pytorch_file(tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1, bias=False))
    save_file(net.state_dict(), tmp_path / "net.safetensors")
    common = ("train", "--bits", 2, "--servers", 2, "--remainder", "--steps", 2, "-o", tmp_path / "w.npz")
    result = run(*common, "--start", tmp_path / "net.safetensors", "--activation", "relu")
    assert result.returncode == 1, result.stderr
    assert AveragingNetwork.load(tmp_path / "w.npz").task.remainder


def test_the_activation_of_pytorch_files_is_an_option(tmp_path: Path) -> None:
    hardtanh = torch.nn.Hardtanh(0.0, 1.0)
    net = torch.nn.Sequential(torch.nn.Linear(1, 8), hardtanh, torch.nn.Linear(8, 1))
    path, out = tmp_path / "net.safetensors", tmp_path / "w.npz"
    save_file(net.state_dict(), path)
    task = ("--bits", 2, "--servers", 2)
    steps = ("--steps", 2, "--output-bias", "--start", path, "-o", out)
    assert run("train", *task, *steps, "--activation", "clipped_relu").returncode == 1
    assert AveragingNetwork.load(out).activation == "clipped_relu"
    assert run("train", *task, *steps, "--activation", "relu").returncode == 1
    assert AveragingNetwork.load(out).activation == "relu"
    options = ("--activation", "clipped_relu", "--output-bias", "-o", tmp_path / "v.npz")
    refused = run("train", *task, "--start", out, *options)
    assert refused.returncode == 2 and "activation = relu, but clipped_relu was given" in refused.stderr
    assert not (tmp_path / "v.npz").exists()


def test_the_bias_file_has_phases_and_codes_within_range(chip: Path) -> None:
    bias = read_bias(chip.with_suffix(".bias.yml"))
    assert bias.dac_bits == 16 and len(bias.labels) == 46
    assert np.all((bias.phase_rad >= 0) & (bias.phase_rad < 2 * np.pi))
    assert np.all(bias.code < 2**16)


@pytest.mark.full
def test_compare_lists_and_draws_what_only_one_layout_has(chip: Path, tmp_path: Path) -> None:
    gds, out = chip.with_suffix(".gds"), tmp_path / "out"
    equal = run("compare", gds, gds, "-o", out)
    assert (equal.returncode, equal.stderr) == (0, "")
    assert equal.stdout.splitlines()[-1] == "equal: masks of 6 layers and all labels"
    layout = kdb.Layout()
    layout.read(str(gds))
    layout.top_cell().shapes(layout.layer(3, 0)).insert(kdb.DBox(100, 100, 101, 102))
    layout.top_cell().shapes(layout.layer(200, 0)).insert(kdb.DText("new", 5, 6))
    layout.top_cell().flatten(True)
    layout.write(str(tmp_path / "b.oas"))
    result = run("compare", gds, tmp_path / "b.oas", "-o", out)
    assert (result.returncode, result.stderr) == (1, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "core (3/0): 2 µm² in 1 polygon only in b.oas, at (100.000, 100.000)–(101.000, 102.000) µm"
    assert "1 label only in b.oas: new (5.000, 6.000) µm" in lines
    assert lines[-1] == "different: 1 of 7 layers, 1 label"
    numbers = json.loads((out / f"{gds.stem}.compare.json").read_text())
    assert numbers == json.loads(run("compare", gds, tmp_path / "b.oas", "-o", out, "--json").stdout)
    assert (numbers["schema"], numbers["equal"]) == (2, False)
    (top,) = numbers["tops"]
    assert top["a"] == top["b"] and not top["equal"]
    core = next(layer for layer in top["layers"] if layer["name"] == "core")
    assert core["only_b"] == {"area_um2": 2.0, "polygons": 1, "boxes_um": [[100.0, 100.0, 101.0, 102.0]]}
    assert top["labels"]["only_b"] == [{"layer": [200, 0], "text": "new", "place_um": [5.0, 6.0]}]
    assert numbers["cells"]["only_a"] and not numbers["cells"]["only_b"]
    assert (out / f"{gds.stem}.compare.png").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "not.gds").write_text("text")
    refused = run("compare", gds, tmp_path / "not.gds", "-o", tmp_path / "never")
    assert refused.returncode == 2 and "not.gds" in refused.stderr and not (tmp_path / "never").exists()


@pytest.mark.full
def test_compare_names_the_top_cells(tmp_path: Path) -> None:
    def tops(path: Path, **boxes: kdb.DBox) -> Path:
        layout = kdb.Layout()
        for name, box in boxes.items():
            layout.create_cell(name).shapes(layout.layer(3, 0)).insert(box)
        layout.write(str(path))
        return path

    large, small = kdb.DBox(0, 0, 10, 10), kdb.DBox(0, 0, 5, 5)
    a = tops(tmp_path / "a.gds", P=large, Q=small)
    changed = run("compare", a, tops(tmp_path / "b.gds", P=large, Q=small.moved(1, 0)))
    assert changed.returncode == 1
    assert changed.stdout.splitlines()[:2] == [
        "Q: core (3/0): 5 µm² in 1 polygon only in a.gds, at (0.000, 0.000)–(1.000, 5.000) µm",
        "Q: core (3/0): 5 µm² in 1 polygon only in b.gds, at (5.000, 0.000)–(6.000, 5.000) µm",
    ]
    missing = run("compare", a, tops(tmp_path / "c.gds", P=large))
    assert missing.returncode == 1
    assert missing.stdout.splitlines()[0] == "top cell only in a.gds: Q"
    assert "1 of 2 top cells without counterpart" in missing.stdout.splitlines()[-1]
    equal = run("compare", a, tops(tmp_path / "d.gds", Q=small, P=large))
    assert equal.returncode == 0 and equal.stdout.splitlines()[-1].endswith("all labels of 2 top cells")


def test_a_hidden_layer_that_is_always_zero_exits_2(tmp_path: Path) -> None:
    weights = tmp_path / "weights.npz"
    np.savez(weights, **arrays(layers__0__bias=np.full(6, -1e3)))  # type: ignore[arg-type]
    result = run("build", weights, "-o", tmp_path / "out")
    assert result.returncode == 2, result.stderr
    assert "weights.npz" in result.stderr and "layers.0" in result.stderr
    assert not (tmp_path / "out").exists()


def test_cells_writes_the_gallery_of_a_process(tmp_path: Path) -> None:
    result = run("process", "cells", "--process", "soi220_flipchip", "-o", tmp_path / "page.md")
    assert result.returncode == 0, result.stderr
    pictures = {path.name for path in (tmp_path / "page").iterdir()}
    assert {"mesh.png", "bump.png"} < pictures
    assert result.stdout == f"{tmp_path / 'page.md'}: {len(pictures)} cells\n"
    assert "![bump](page/bump.png)" in (tmp_path / "page.md").read_text()
    result = run("process", "cells", "-o", tmp_path / "page.html")
    assert result.returncode == 2
    assert result.stderr.startswith(f"optinc: {tmp_path / 'page.html'}: ")


def test_doctor_exits_with_1_if_something_required_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run("doctor")
    assert result.returncode == 0 and f"optinc-pdk           {version('optinc-pdk')}\n" in result.stdout
    parts = {
        "packages": (Part("numpy", "missing", "needs >=2.2", True, "pip install 'numpy>=2.2'"),),
        "extras": (Part("torch", "missing", "needs ==2", False, "pip install 'optinc-pdk[train]'"),),
    }
    monkeypatch.setattr("optinc_pdk.report.installation.installation_parts", lambda _: parts)
    result = run("doctor")
    assert (result.returncode, result.stderr) == (1, "")
    assert "  numpy  MISSING: needs >=2.2 -> pip install 'numpy>=2.2'\n" in result.stdout
    assert result.stdout.splitlines()[-2:] == [
        "required: missing or unsuitable: numpy",
        "optional: missing or unsuitable: torch",
    ]
    numbers = json.loads(run("doctor", "--json").stdout)
    assert (numbers["schema"], numbers["passed"], numbers["extras"][0]["status"]) == (1, False, "missing")


def test_klayout_installs_a_package_and_removes_it(tmp_path: Path) -> None:
    # a folder that is given is created
    folder = tmp_path / "new" / "home"
    home = ("--klayout-home", folder)
    refused = run("process", "klayout", "uninstall", *home)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert str(folder) in refused.stderr and not folder.exists()
    result = run("process", "klayout", "install", "--process", "soi220_two_metal", *home)
    assert (result.returncode, result.stderr) == (0, "")
    files = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert sorted(map(Path, result.stdout.splitlines()[:-1])) == files
    assert len(files) == 5
    assert "optinc_soi220_two_metal" in result.stdout.splitlines()[-1]
    refused = run("process", "klayout", "uninstall", *home)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert str(folder / "salt" / "optinc_soi220") in refused.stderr
    assert run("process", "klayout", "uninstall", "--process", "soi220_two_metal", *home).returncode == 0
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_klayout_creates_the_folder_that_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "new" / "home"
    monkeypatch.setenv("KLAYOUT_HOME", str(folder))
    refused = run("process", "klayout", "uninstall")
    assert (refused.returncode, folder.exists()) == (2, False)
    assert run("process", "klayout", "install").returncode == 0
    assert (folder / "salt" / "optinc_soi220").is_dir()
    assert run("process", "klayout", "uninstall").returncode == 0


def test_deck_writes_a_script_and_refuses_other_endings(tmp_path: Path) -> None:
    result = run("process", "deck", "-o", tmp_path / "new" / "a.lydrc", "--process", "soi220_two_metal")
    assert (result.returncode, result.stderr) == (0, "")
    assert "klayout -b -r" in result.stdout
    assert "drc-dsl-xml" in (tmp_path / "new" / "a.lydrc").read_text()
    refused = run("process", "deck", "-o", tmp_path / "a.txt")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert not (tmp_path / "a.txt").exists()
