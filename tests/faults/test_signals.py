"""Every command ended by SIGTERM and SIGINT at random instants: soon, with its exit code, and nothing half-written.

``python tests/faults/test_signals.py`` tries 50 instants of each signal with every command, spread over its duration;
a number as argument sets another count. The tests try a command that runs no Python when the signal comes.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from test_terminals import small_runs

from optinc_pdk.cli.interrupts import ENDING, signals_interrupt
from optinc_pdk.report.build_files import changed_files

LIMIT_S = 2.0
"""Largest time between a signal and the end of the command, in s."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)
COMMAND = [sys.executable, "-c", "from optinc_pdk.cli import main; main()"]
TAIL = 5
"""Bytes at the end of a file that show whether it is complete; a report has its last measured second before them."""


@dataclass
class Outcome:
    """How the runs of a command ended.

    Attributes:
        ends: Number of runs by exit code.
        longest_s: Largest time between the signal and the end.
        hidden: Number of runs that left a hidden file or folder, which the next run deletes.
        violations: What was wrong, one line each.
    """

    ends: Counter[int] = field(default_factory=Counter)
    longest_s: float = 0.0
    hidden: int = 0
    violations: list[str] = field(default_factory=list)


def start(arguments: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    """Start a program in a session of its own, in which no signal is ignored, as Ctrl-C is in background jobs.

    It inherits what this process ignores. A function to run before it would need a fork, which JAX refuses.
    """
    before = {number: signal.signal(number, signal.SIG_DFL) for number in ENDING}
    try:
        return subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, start_new_session=True, **options)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def members(session: int) -> list[int]:
    """Processes of a session that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def tails(folder: Path) -> dict[str, bytes]:
    """End of every file in a folder and the folders in it, without hidden ones, by its path."""
    files = (path for path in folder.rglob("*") if path.is_file())
    names = {str(path.relative_to(folder)): path for path in files}
    # finished samples are added line by line
    size = {name: 2 if path.suffix == ".jsonl" else TAIL for name, path in names.items()}
    return {name: path.read_bytes()[-size[name] :] for name, path in names.items() if not is_hidden(name)}


def is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in Path(name).parts)


def end_at(
    instant_s: float, number: signal.Signals, arguments: Sequence[str], folder: Path, whole: dict[str, bytes]
) -> tuple[int, float, bool, list[str]]:
    """Run a command and end it by a signal after some time.

    Args:
        instant_s: Time between its start and the signal.
        number: The signal.
        arguments: Its arguments.
        folder: Folder of its outputs.
        whole: Ends of the files of a complete run, by name.

    Returns:
        Exit code, time in s between the signal and the end, whether a hidden file is left, and what is wrong.
    """
    process = start([*COMMAND, *arguments], stdout=subprocess.DEVNULL)
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=instant_s)
    began = time.perf_counter()
    process.send_signal(number)
    errors = process.communicate()[1]
    took = time.perf_counter() - began
    code = process.returncode
    wrong = []
    if code not in (0, 128 + number, -number):
        wrong.append(f"exit code {code}: {errors[-300:]}")
    # Python prints one before the package gets hold of the signal
    if "Traceback" in errors and code != -number:
        wrong.append(f"traceback: {errors[-300:]}")
    if took > LIMIT_S:
        wrong.append(f"ended after {took:.2f} s")
    if left := members(process.pid):
        wrong.append(f"processes {left} still run")
    for name, tail in tails(folder).items():
        # the next run continues a training from its state
        if name not in whole and not name.endswith(".state.npz"):
            wrong.append(f"{name}: is no file of the command")
        elif tail != whole.get(name, tail):
            wrong.append(f"{name}: not complete, or of another run")
    for path, report in changed_files(path for path in folder.rglob("*") if path.is_file()):
        wrong.append(f"{path}: is not the file that {report} describes")
    hidden = any(is_hidden(str(path.relative_to(folder))) for path in folder.rglob("*"))
    return code, took, hidden, wrong


WORKS_IN_C = (
    "import itertools, os, optinc_pdk.io.writing;"
    # an endless loop in C without instructions of Python, as in KLayout; the file is complete, and not yet visible
    "os.replace = lambda *_: (print('working', flush=True), 0 in itertools.repeat(1));"
    "from optinc_pdk.cli import main; main()"
)


def all_end(group: int) -> bool:
    """Whether the processes of a group end; the system may list one for a moment after its parent has ended."""
    for _ in range(100):
        if not members(group):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.full(every=6)
@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize("repeated", [False, True])
def test_a_signal_ends_a_command_that_runs_no_python(number: signal.Signals, repeated: bool, tmp_path: Path) -> None:
    arguments = ("synth", "--bits", "2", "--servers", "2", "-o", "x.npz")
    process = start([sys.executable, "-c", WORKS_IN_C, *arguments], stdout=subprocess.PIPE, cwd=tmp_path)
    assert process.stdout is not None and process.stdout.readline() == "working\n"
    # as a terminal does, and timeout(1)
    os.killpg(process.pid, number)
    if repeated:
        os.kill(process.pid, number)
    errors = process.communicate()[1]
    assert process.returncode == 128 + number
    assert "as it was before" in errors and errors.count("optinc:") == 1 and "Traceback" not in errors
    assert not (tmp_path / "x.npz").exists() and all_end(process.pid)


def test_a_command_ends_with_its_supervisor(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WORKS_IN_C, "synth", "--bits", "2", "--servers", "2", "-o", str(tmp_path / "x.npz")],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "working\n"
    assert len(members(process.pid)) == 2
    process.kill()
    # standard output is closed by the end of the other process
    assert process.communicate()[0] == "" and all_end(process.pid)


def test_a_crash_of_a_command_is_seen_by_the_caller(tmp_path: Path) -> None:
    for number in (signal.SIGKILL, signal.SIGSEGV):
        crash = f"import os, optinc_pdk.io.writing; os.replace = lambda *_: os.kill(os.getpid(), {int(number)});"
        command = [sys.executable, "-c", crash + "from optinc_pdk.cli import main; main()"]
        ended = subprocess.run([*command, "synth", "--bits", "2", "--servers", "2", "-o", tmp_path / "x.npz"])
        assert ended.returncode == -number


def test_an_interrupt_that_a_library_wraps_is_no_internal_error() -> None:
    with signals_interrupt() as received:
        with pytest.raises(ValueError, match="own"), received.unwrapped():
            raise ValueError("own")
        with pytest.raises(KeyboardInterrupt), received.unwrapped():
            try:
                received.receive(signal.SIGTERM, None)
            except KeyboardInterrupt as fault:
                raise ValueError("wrapped") from fault
    assert received.code == 143


@pytest.mark.full
def test_signals_at_random_instants_leave_whole_files(tmp_path: Path) -> None:
    arguments = ("synth", "--bits", "2", "--servers", "2", "-o", str(tmp_path / "out" / "x.npz"))
    outcome = try_command(arguments, tmp_path / "out", 3, random.Random(0))
    assert outcome.violations == [] and outcome.ends.total() == 6


def try_command(arguments: Sequence[str], folder: Path, count: int, generator: random.Random) -> Outcome:
    """End a command by each signal at random instants of its duration.

    Args:
        arguments: Its arguments.
        folder: Folder of its outputs; it is deleted before each run.
        count: Number of instants for each signal.
        generator: Random numbers.
    """
    outcome = Outcome()
    empty(folder)
    began = time.perf_counter()
    process = start([*COMMAND, *arguments], stdout=subprocess.DEVNULL)
    errors = process.communicate()[1]
    duration = time.perf_counter() - began
    if process.returncode != 0:
        outcome.violations.append(f"without a signal: exit code {process.returncode}: {errors[-300:]}")
        return outcome
    whole = tails(folder)
    for number in SIGNALS:
        for _ in range(count):
            empty(folder)
            instant = generator.uniform(0.0, duration)
            code, took, hidden, wrong = end_at(instant, number, arguments, folder, whole)
            outcome.ends[code] += 1
            outcome.longest_s = max(outcome.longest_s, took)
            outcome.hidden += hidden
            outcome.violations += [f"{number.name} after {instant:.3f} s: {line}" for line in wrong]
    return outcome


def empty(folder: Path) -> None:
    """Delete what is in a folder, and create it if it is missing."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def main() -> int:
    """End every command at random instants; exit code 1 if one does not end as it should."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    only = sys.argv[2:]
    outcomes = {}
    with tempfile.TemporaryDirectory() as name:
        runs = small_runs(Path(name))
        for seed, (command, (arguments, _)) in enumerate(runs.items()):
            if only and command not in only:
                continue
            one = try_command([*command.split(), *map(str, arguments)], Path(name, "out"), count, random.Random(seed))
            ends = ", ".join(f"{code}: {number}" for code, number in sorted(one.ends.items()))
            print(f"{command}: {ends}; at most {one.longest_s:.2f} s; hidden files {one.hidden}", flush=True)
            print(*one.violations, sep="\n", end="\n" * bool(one.violations), flush=True)
            outcomes[command] = one
    total = sum(one.ends.total() for one in outcomes.values())
    wrong = sum(len(one.violations) for one in outcomes.values())
    longest = max(one.longest_s for one in outcomes.values())
    print(f"signals: {total} runs of {len(outcomes)} commands, {wrong} wrong, ended within {longest:.2f} s")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
