"""Faults at every file operation of a scenario; the folder is checked after each, and again after a run without."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from file_faults import states
from file_faults.operations import Ended, applies, run_forked
from file_faults.scenarios import Scenario, copy_start
from file_faults.states import ViolationError


@dataclass
class Row:
    """Results of one kind of fault in one scenario.

    Attributes:
        scenario: Name of the scenario.
        fault: Kind of fault.
        operations: File operations of the scenario without faults.
        outcomes: Number of runs by the state in which they left the folder.
        left: Number of runs that left a hidden file or folder until the next run.
        violations: What was wrong, one line for each run.
    """

    scenario: str
    fault: str
    operations: Counter[str]
    outcomes: Counter[str] = field(default_factory=Counter)
    left: int = 0
    violations: list[str] = field(default_factory=list)


def sweep(scenario: Scenario, folder: Path, faults: Iterable[str], every: int = 1) -> Iterator[Row]:
    """Run a scenario with each fault at each of its file operations.

    Args:
        scenario: The scenario.
        folder: Folder to work in; it is deleted first.
        faults: Kinds of faults.
        every: Of the operations to which a fault applies, try every this many, at least one.

    Yields:
        The results of the run without faults, and of each kind of fault.
    """
    copy_start(scenario, folder)
    clean = run_forked(lambda: scenario.run(folder), folder)
    row = Row(scenario.name, "none", clean.kinds)
    _check(scenario, folder, clean, row, "without a fault")
    yield row
    for first, fault in enumerate(faults):
        row = Row(scenario.name, fault, clean.kinds)
        steps = [(number, step) for number, step in enumerate(clean.steps) if applies(fault, step[0])]
        for number, (kind, path, *_) in steps[first % max(1, min(every, len(steps))) :: every]:
            _try(scenario, folder, row, f"{fault} at operation {number} ({kind} {path})", fault, number)
        yield row


def _try(scenario: Scenario, folder: Path, row: Row, label: str, fault: str, number: int) -> None:
    copy_start(scenario, folder)
    ended = run_forked(lambda: scenario.run(folder), folder, fault, number)
    if fault in ("kill", "torn") and ended.killed != signal.SIGKILL:
        row.violations.append(f"{label}: the process was not killed")
    check_after(scenario, folder, ended, row, label)


def check_after(scenario: Scenario, folder: Path, ended: Ended, row: Row, label: str) -> None:
    """Check the folder as the fault left it, then run without faults and check it again."""
    try:
        state = scenario.state(folder)
    except ViolationError as fault:
        row.violations.append(f"{label}: {fault}")
        state = "violation"
    row.outcomes[state] += 1
    row.left += bool(states.hidden(folder))
    if ended.code == 3:
        row.violations.append(f"{label}: internal error, {ended.error}")
    elif ended.code == 0 and state != "new":
        row.violations.append(f"{label}: exit code 0, but {state}")
    _check(scenario, folder, run_forked(lambda: scenario.run(folder), folder), row, f"run after {label}")


def _check(scenario: Scenario, folder: Path, ended: Ended, row: Row, label: str) -> None:
    """Check the folder after a run without faults."""
    try:
        state = scenario.state(folder)
    except ViolationError as fault:
        state = str(fault)
    found = set(states.contents(folder)) | set(states.hidden(folder))
    if ended.killed or ended.code or state != "new":
        row.violations.append(f"{label}: exit code {ended.code}, {ended.error or state}")
    elif found != scenario.whole:
        row.violations.append(f"{label}: other files than {sorted(scenario.whole)}: {sorted(found ^ scenario.whole)}")
