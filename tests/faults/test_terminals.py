"""Every command at every kind of terminal: no internal error, no lost exit code, no traceback.

``python tests/faults/test_terminals.py`` runs every command at every terminal; the tests run every command at one.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock

import pytest

import optinc_pdk as op
from optinc_pdk.averaging import Averaging
from optinc_pdk.cli import main as run_main
from optinc_pdk.cli.commands import app
from optinc_pdk.cli.process_commands import process_app
from optinc_pdk.cli.standard_streams import SinkStream, protect_standard_streams, protected
from optinc_pdk.networks import carry_chain

# a process keeps its standard streams until it ends, so these are not closed either
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

COMMANDS = sorted(
    f"{prefix}{command.name or command.callback.__name__}"
    for prefix, group in (("", app), ("process ", process_app))
    for command in group.registered_commands
    if command.callback is not None
)
BROKEN_PIPE, FULL = 141, 2


@pytest.fixture(scope="module", autouse=True)
def no_streams_are_left() -> Iterator[None]:
    """Free the streams of this module, whose warnings would be errors of a later test."""
    yield
    gc.collect()


def broken_pipe() -> io.FileIO:
    reading, writing = os.pipe()
    os.close(reading)
    return io.FileIO(writing, "w")


def text(raw: io.RawIOBase, encoding: str = "utf-8") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding)


def file(encoding: str = "utf-8") -> io.TextIOWrapper:
    return text(io.FileIO(os.open(os.devnull, os.O_WRONLY), "w"), encoding)


Streams = tuple[io.TextIOWrapper | None, io.TextIOWrapper | None]
TERMINALS: dict[str, tuple[Callable[[], Streams], dict[str, str]]] = {
    "stdout closed": (lambda: (None, file()), {}),
    "stdout a broken pipe": (lambda: (text(broken_pipe()), file()), {}),
    "stdout full": (lambda: (text(io.FileIO("/dev/full", "w")), file()), {}),
    "ascii": (lambda: (file("ascii"), file("ascii")), {"LC_ALL": "C"}),
    "cp1252": (lambda: (file("cp1252"), file("cp1252")), {}),
    "stderr closed": (lambda: (file(), None), {}),
    "stderr a broken pipe": (lambda: (file(), text(broken_pipe())), {}),
    "both closed": (lambda: (None, None), {}),
    "both broken pipes": (lambda: (text(broken_pipe()), text(broken_pipe())), {}),
    "dumb": (lambda: (file(), file()), {"TERM": "dumb", "NO_COLOR": "1"}),
    "narrow": (lambda: (file(), file()), {"COLUMNS": "20", "LINES": "2"}),
    "no columns": (lambda: (file(), file()), {"COLUMNS": "0", "TERM": ""}),
    "forced colours": (lambda: (file("ascii"), file("ascii")), {"FORCE_COLOR": "1", "COLUMNS": "20"}),
}
"""Standard output and error, and variables of the environment, by the name of the terminal."""


def delivered(terminal: str, code: int) -> int:
    """The exit code that a command with this exit code ends with at a terminal."""
    if "broken pipe" in terminal and not terminal.startswith("stderr"):
        return BROKEN_PIPE
    return FULL if terminal == "stdout full" else code


@contextmanager
def at(terminal: str) -> Iterator[None]:
    make, environment = TERMINALS[terminal]
    out, err = make()
    with (
        mock.patch.multiple(sys, stdout=out, stderr=err, __stdout__=out, __stderr__=err),
        mock.patch.dict(os.environ, environment),
    ):
        yield
    for stream in (out, err):
        if stream is not None:
            with suppress(OSError):
                stream.close()


def exit_code(terminal: str, *arguments: object) -> int:
    with at(terminal), mock.patch.object(sys, "argv", ["optinc", *map(str, arguments)]):
        try:
            run_main()
        except SystemExit as end:
            return int(end.code or 0)
    raise AssertionError("main returned")


def small_runs(folder: Path) -> dict[str, tuple[Sequence[object], int]]:
    """Arguments of a small run of every command, and its exit code; the chip is built into the folder."""
    weights = folder / "s.npz"
    carry_chain(Averaging(2, 2, 1)).save(weights)
    assert op.build(weights, folder).passed
    gds, netlist, bias = (folder / f"s{ending}" for ending in (".gds", ".pic.yml", ".bias.yml"))
    task, out = ("--bits", 2, "--servers", 2), folder / "out"
    (folder / "klayout").mkdir()
    return {
        "build": ((weights, "-o", out), 0),
        "cascade": ((*task, "--words", 10, "-o", out / "cascade"), 0),
        "process cells": (("-o", out / "cells.md"), 0),
        "check": ((gds, netlist, "--weights", weights, "--bias", bias), 0),
        "compare": ((gds, gds, "-o", out / "compare"), 0),
        "process deck": (("-o", out / "rules.lydrc"), 0),
        "doctor": ((), 0),
        "drc": ((gds, "-o", out / "again.drc.lyrdb"), 0),
        "factor": ((weights,), 0),
        "process golden": (("--check",), 0),
        "process klayout": (("install", "--klayout-home", folder / "klayout"), 0),
        "lvs": ((gds, netlist, "-o", out / "again.lvs.json"), 0),
        "eye": ((gds, netlist, "--bias", bias, "--weights", weights, "--symbol-rate", "1e6"), 0),
        "noise": ((gds, netlist, "--bias", bias, "--weights", weights, "--symbol-rates", "1e6"), 0),
        "program": ((gds, netlist, weights, "-o", out / "program"), 0),
        "search": ((*task, "--steps", 2, "-o", out / "search"), 0),
        "simulate": ((gds, "--bias", bias), 0),
        "size": ((weights,), 0),
        "spectrum": (
            (gds, netlist, "--weights", weights, "--bias", bias, "--wavelengths", "1550", "--resolution", 1000),
            0,
        ),
        "process stack": (("-o", out / "stack.svg"), 0),
        "synth": ((*task, "-o", out / "x.npz"), 0),
        "task": ((weights, "-o", out / "z.npz"), 0),
        "train": ((*task, "--steps", 2, "--no-stop", "-o", out / "y.npz"), 0),
        "verify": ((gds, netlist, "--wavelengths", "1550", "-o", out / "s.verify.html"), 0),
        "view": ((gds, "--png", "-o", out), 0),
        "yield": ((gds, "--weights", weights, "--samples", 1, "--no-contributions", "-o", out / "yield"), 0),
    }


@pytest.mark.full(every=10)
@pytest.mark.parametrize("terminal", TERMINALS)
def test_every_help_is_shown_or_ends_quietly(terminal: str) -> None:
    for arguments in [("--help",), *((*command.split(), "--help") for command in COMMANDS)]:
        assert exit_code(terminal, *arguments) == delivered(terminal, 0), arguments
    assert exit_code(terminal, "synth", "--bits", 5, "--servers", 4, "-o", "never.npz") == 2


SLOW = ("process cells", "cascade", "doctor", "search", "spectrum")
"""Commands whose small runs take seconds; main() runs them."""


@pytest.mark.full
@pytest.mark.parametrize(("number", "command"), list(enumerate(command for command in COMMANDS if command not in SLOW)))
def test_every_commands_exit_code_is_delivered(
    number: int, command: str, runs: dict[str, tuple[Sequence[object], int]]
) -> None:
    arguments, code = runs[command]
    terminal = list(TERMINALS)[number % len(TERMINALS)]
    assert exit_code(terminal, *command.split(), *arguments) == delivered(terminal, code)


def test_every_command_has_a_small_run(runs: dict[str, tuple[Sequence[object], int]]) -> None:
    assert sorted(runs) == COMMANDS


def test_characters_that_an_encoding_lacks_are_escaped_as_json() -> None:
    protect_standard_streams()
    written = io.BytesIO()
    below = io.TextIOWrapper(written, encoding="ascii")
    stream = protected(below)
    stream.write('{"σ": "5 µm 😀 \udcff"}')
    stream.flush()
    assert written.getvalue() == rb'{"\u03c3": "5 \u00b5m \ud83d\ude00 \udcff"}'


@pytest.mark.parametrize(
    ("buffering", "at_once"), [({"line_buffering": True}, True), ({"write_through": True}, True), ({}, False)]
)
def test_lines_leave_as_they_do_without_protection(buffering: dict[str, bool], at_once: bool) -> None:
    written = io.BytesIO()
    below = io.TextIOWrapper(written, encoding="utf-8", **buffering)
    stream = protected(below)
    stream.write("a line\n")
    assert written.getvalue() == (b"a line\n" if at_once else b"")


def test_a_pipe_that_does_not_block_gets_everything() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    data = bytes(1_000_000)
    sink = io.BufferedWriter(SinkStream(io.FileIO(writing, "w")))
    reader = subprocess.Popen(["wc", "-c"], stdin=reading, stdout=subprocess.PIPE)
    sink.write(data)
    sink.close()
    os.close(writing)
    os.close(reading)
    assert reader.communicate()[0].strip() == b"1000000"


SYNTH = "from optinc_pdk.cli import main; main()"


@pytest.mark.full(every=3)
@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_closed_descriptors_are_not_given_to_files(closed: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    command = f"exec '{sys.executable}' -c '{SYNTH}' synth --bits 2 --servers 2 -o '{path}' {closed}"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, check=False)
    assert ended.returncode == 0
    assert (ended.stdout == b"") == ("1>&-" in closed) and ended.stderr == b""
    assert op.AveragingNetwork.load(path).task == Averaging(2, 2, 1)


@pytest.mark.full(every=3)
@pytest.mark.parametrize(
    ("number", "code", "words"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "SIGTERM"), (signal.SIGHUP, 129, "SIGHUP")],
)
def test_a_signal_ends_a_command_with_a_message_and_no_files(
    number: signal.Signals, code: int, words: str, tmp_path: Path
) -> None:
    raised = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        # nohup, under which tests may run, ignores it
        "signal.signal(signal.SIGHUP, signal.SIG_DFL);"
        "import optinc_pdk.io.writing as f; replace = os.replace;"
        f"os.replace = lambda *a: (os.kill(os.getpid(), {int(number)}), replace(*a));"
    )
    command = [sys.executable, "-c", raised + SYNTH, "synth", "--bits", "2", "--servers", "2", "-o", "x.npz"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ended.returncode == code
    assert words in ended.stderr and "as it was before" in ended.stderr and "Traceback" not in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_signal_that_the_caller_ignores_remains_ignored(tmp_path: Path) -> None:
    raised = "import os, signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); "
    kill = "import optinc_pdk.averaging; os.kill(os.getpid(), signal.SIGHUP); "
    command = [sys.executable, "-c", raised + kill + SYNTH, "synth", "--bits", "2", "--servers", "2", "-o", "x.npz"]
    assert subprocess.run(command, capture_output=True, check=False, cwd=tmp_path).returncode == 0


def main() -> int:
    """Run every command at every terminal; exit code 1 if one ends with another exit code."""
    wrong, start = [], time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        runs = small_runs(Path(folder))
        for command, (arguments, code) in runs.items():
            for terminal in TERMINALS:
                ended = exit_code(terminal, *command.split(), *arguments)
                if ended != delivered(terminal, code):
                    wrong.append(f"{command}, {terminal}: exit code {ended}, not {delivered(terminal, code)}")
    count = len(runs) * len(TERMINALS)
    print(f"terminals: {count} runs, {len(wrong)} wrong, {time.perf_counter() - start:.0f} s", *wrong, sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
