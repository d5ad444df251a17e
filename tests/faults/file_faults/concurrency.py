"""Several processes that build chips of one name in one folder at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from file_faults import states
from file_faults.scenarios import NAME, Scenario, copy_start
from file_faults.states import ViolationError


@dataclass
class Rounds:
    """Rounds of processes that write one set of files.

    Attributes:
        text: What the processes do.
        count: Number of rounds.
        looks: How often the folder was checked while they ran.
        violations: What was wrong.
    """

    text: str
    count: int
    looks: int = 0
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """One line for the table."""
        return f"{self.text}: {self.count} rounds, {self.looks:,} checks meanwhile, {len(self.violations)} violations"


def replays_at_once(scenario: Scenario, folder: Path, count: int, processes: int = 3) -> Rounds:
    """Write recorded builds from several processes at once."""
    rounds = Rounds(f"{processes} processes, {scenario.name} with recorded results", count)
    for number in range(count):
        copy_start(scenario, folder)
        children = [_fork(scenario.run, folder) for _ in range(processes)]
        _watch(folder, rounds, lambda running=children: [_reap(one) for one in running], number)
        _check_end(folder, scenario.whole, rounds, number)
    return rounds


def builds_at_once(folder: Path, count: int) -> Rounds:
    """Build two networks under one name by two processes of the command line at once."""
    from optinc_pdk.averaging import Averaging
    from optinc_pdk.networks import carry_chain, comparator_network

    folder.mkdir()
    weights = [folder / "one.npz", folder / "two.npz"]
    task = Averaging(2, 4, 1)
    for path, network in zip(weights, (carry_chain(task), comparator_network(task)), strict=True):
        network.save(path)
    rounds = Rounds("2 processes of optinc build, two networks under one name", count)
    code = "from optinc_pdk.cli import main; main()"
    for number in range(count):
        out = folder / f"out{number % 2}"
        options = ["-o", out, "--name", NAME]
        commands = [[sys.executable, "-c", code, "build", path, *options] for path in weights]
        running = [subprocess.Popen(one, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for one in commands]
        _watch(out, rounds, lambda running=running: [one.poll() for one in running], number)
        _check_end(out, None, rounds, number)
    return rounds


def _fork(run: Callable[[Path], None], folder: Path) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            run(folder)
            code = 0
        finally:
            os._exit(code)
    return child


def _reap(child: int) -> int | None:
    """Exit code of a forked process; None while it runs."""
    try:
        done, status = os.waitpid(child, os.WNOHANG)
    except ChildProcessError:
        return _CODES[child]
    if not done:
        return None
    return _CODES.setdefault(child, os.waitstatus_to_exitcode(status))


_CODES: dict[int, int] = {}


def _watch(folder: Path, rounds: Rounds, poll: Callable[[], list[int | None]], number: int) -> None:
    """Check the folder until all processes have ended."""
    while None in (codes := poll()):
        _look(folder, rounds, number)
        time.sleep(0.005)
    if any(codes):
        rounds.violations.append(f"round {number}: exit codes {codes}")


def _look(folder: Path, rounds: Rounds, number: int) -> None:
    """Check reports against files; a report that is replaced meanwhile is looked at in the next round."""
    report = folder / f"{NAME}.report.json"
    try:
        before = report.read_bytes()
        try:
            states.reports(folder)
            fault = None
        except ViolationError as found:
            fault = found
        same = report.read_bytes() == before
    except OSError:
        return
    rounds.looks += same
    if same and fault is not None:
        rounds.violations.append(f"round {number}: {fault}")


def _check_end(folder: Path, whole: frozenset[str] | None, rounds: Rounds, number: int) -> None:
    try:
        found = states.reports(folder)
    except ViolationError as fault:
        rounds.violations.append(f"round {number}: {fault}")
        return
    names = set(states.contents(folder)) | set(states.hidden(folder))
    if list(found) != [f"{NAME}.report.json"] or states.hidden(folder) or (whole is not None and names != whole):
        rounds.violations.append(f"round {number}: the folder has {sorted(names)}")
