"""Every path argument of every command, with paths that cannot be used: exit code 2, a message with the path.

``python tests/faults/test_paths.py`` tries every fault with every argument; the tests try one with each.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

import click
import numpy as np
import pytest
import typer
from test_terminals import small_runs

from optinc_pdk.cli import main as run_main
from optinc_pdk.cli.commands import app

INPUTS = (
    *("missing", "newline", "dangling", "empty", "folder"),
    *("loop", "in a loop", "in a file", "long name", "long path", "not UTF-8", "pipe", "socket", "device"),
)
"""Faults of an input file; all but the first five are also faults of an output."""
OUTPUTS = INPUTS[5:-1]
ENDINGS = {"bias": ".bias.yml", "netlist": ".pic.yml", "checkpoint": ".ckpt", "picture": ".png", "process": ""}
"""Ending of a file by the name of the option; others take weights."""


def commands() -> dict[str, click.Command]:
    """Every command by its words, those of groups included."""
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group)
    found: dict[str, click.Command] = {}
    for name, command in group.commands.items():
        inner = command.commands if isinstance(command, click.Group) else {}
        found |= {f"{name} {each}": part for each, part in inner.items()} or {name: command}
    return found


def path_parameters() -> Iterator[tuple[str, click.Parameter]]:
    for name, command in sorted(commands().items()):
        for parameter in command.params:
            if isinstance(parameter.type, click.Path) or is_output(parameter) or parameter.name == "process":
                yield name, parameter


def is_output(parameter: click.Parameter) -> bool:
    # a checkpoint that is missing is written
    return parameter.type.name == "parse_output" or parameter.name == "checkpoint"


PARAMETERS = list(path_parameters())


def faults_of(parameter: click.Parameter) -> Sequence[str]:
    return OUTPUTS if is_output(parameter) else INPUTS


def faulty_path(fault: str, folder: Path, ending: str) -> Path:
    """Make a path that cannot be used in a folder."""
    path = folder / f"bad{ending}"
    if fault == "newline":
        return folder / f"two\nlines{ending}"
    if fault == "not UTF-8":
        return folder / f"\udcff{ending}"
    if fault == "long name":
        return folder / f"{'x' * 300}{ending}"
    if fault == "long path":
        return Path(f"{folder}{'/x' * 2500}{ending}")
    if fault == "dangling":
        path.symlink_to(folder / "gone")
    if fault in ("loop", "in a loop"):
        path.symlink_to(folder / "other")
        (folder / "other").symlink_to(path)
    if fault in ("empty", "in a file"):
        path.touch()
    if fault == "folder":
        path.mkdir()
    if fault == "pipe":
        os.mkfifo(path)
    if fault == "device":
        path.symlink_to("/dev/zero")
    if fault == "socket":
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(path))
    return path / f"file{ending}" if fault.startswith("in a") else path


def arguments_with(command: str, run: Sequence[object], parameter: click.Parameter, path: Path) -> list[str]:
    """Arguments of a small run, whose positional ones come first, with a path for a parameter."""
    arguments = [str(each) for each in run]
    if isinstance(parameter, click.Option):
        return [*arguments, parameter.opts[-1], str(path)]
    place = [each.name for each in commands()[command].params if isinstance(each, click.Argument)].index(parameter.name)
    given = next((number for number, each in enumerate(arguments) if each.startswith("-")), len(arguments))
    assert place <= given, (command, parameter.name)
    return [*arguments[:place], str(path), *arguments[place + (place < given) :]]


def refused(command: str, arguments: Sequence[str]) -> tuple[object, str]:
    """Exit code and messages of a command."""
    errors = StringIO()
    with (
        mock.patch.object(sys, "argv", ["optinc", *command.split(), *arguments]),
        redirect_stdout(StringIO()),
        redirect_stderr(errors),
    ):
        try:
            run_main()
        except SystemExit as end:
            return end.code, errors.getvalue()
    raise AssertionError("main returned")


def wrong(command: str, parameter: click.Parameter, fault: str, run: Sequence[object]) -> str:
    """What is wrong with the refusal of a faulty path; empty if nothing is."""
    ending = ENDINGS.get(parameter.name or "", ".gds" if parameter.type.name == "file" else ".npz")
    if is_output(parameter):
        given = [str(each) for each in run]
        ending = "".join(Path(given[given.index("-o") + 1]).suffixes[-1:]) if "-o" in given else ENDINGS.get("x", "")
    with tempfile.TemporaryDirectory() as name:
        path = faulty_path(fault, Path(name), ending)
        if parameter.name == "picture":
            # pictures are of matrices
            run = [Path(name, "matrix.npy"), *run[1:]]
            np.save(Path(name, "matrix.npy"), np.eye(2))
        if (command, parameter.name) == ("synth", "process"):
            run = [*run, "--for", "rate"]
        before = sorted(os.listdir(name))
        code, errors = refused(command, arguments_with(command, run, parameter, path))
        words = errors.splitlines()[-1] if errors else ""
        if code != 2 or "Traceback" in errors or not ("bad" in errors or fault[:4] in ("long", "not ", "newl", "miss")):
            return f"{command} {parameter.opts[0]}, {fault}: exit code {code}, {words[:200]}"
        if sorted(os.listdir(name)) != before:
            return f"{command} {parameter.opts[0]}, {fault}: files were written: {os.listdir(name)}"
    return ""


@pytest.mark.full(every=9)
@pytest.mark.parametrize(
    ("number", "command", "parameter"),
    [(number, *each) for number, each in enumerate(PARAMETERS)],
    ids=[f"{command} {parameter.opts[0]}" for command, parameter in PARAMETERS],
)
def test_a_path_that_cannot_be_used_is_refused(
    number: int, command: str, parameter: click.Parameter, runs: dict[str, tuple[Sequence[object], int]]
) -> None:
    faults = faults_of(parameter)
    for fault in ("loop", faults[number % len(faults)]):
        assert wrong(command, parameter, fault, runs[command][0]) == ""


def main() -> int:
    """Try every fault with every argument; exit code 1 if one is not refused."""
    found, start, count = [], time.perf_counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        runs = small_runs(Path(folder))
        for command, parameter in PARAMETERS:
            for fault in faults_of(parameter):
                count += 1
                if text := wrong(command, parameter, fault, runs[command][0]):
                    found.append(text)
                    print(text, file=sys.stderr, flush=True)
    print(f"paths: {count} faults, {len(found)} wrong, {time.perf_counter() - start:.0f} s", *found, sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
