"""Failures of the power: what a disk may hold of the operations that were not synchronised with it.

The model is the worst that POSIX allows. Of the changes of names in a folder since its last ``fsync``, any may be on
the disk and any may be missing. The data of a file since its last ``fsync`` may be missing, half there or there. A name
that is on the disk leads to its file, whatever happened to the other names of this file.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from file_faults import states
from file_faults.operations import Step, run_forked
from file_faults.scenarios import Scenario, copy_start
from file_faults.states import ViolationError
from file_faults.sweep import Row


@dataclass
class _File:
    """Data of a file: as programs see it, and as it is on the disk for certain."""

    data: bytes = b""
    synced: bytes = b""


@dataclass
class Disk:
    """Names and data as programs see them, names on the disk for certain, and changes of names that may be lost.

    Attributes:
        seen: Files by path, as programs see them.
        kept: Files by path, as they are on the disk for certain.
        pending: Changes of names since the last ``fsync`` of the folder of each: path, and its file or None.
    """

    seen: dict[str, _File]
    kept: dict[str, _File] = field(default_factory=dict)
    pending: list[tuple[str, _File | None]] = field(default_factory=list)

    @staticmethod
    def of(folder: Path) -> Disk:
        """Disk that holds the files of a folder."""
        files = {name: _File(content, content) for name, content in states.contents(folder).items()}
        return Disk(files, dict(files))

    def apply(self, step: Step) -> None:
        """Carry an operation out."""
        kind, path, *more = step
        if kind == "open" and path not in self.seen:
            self._name(path, _File())
        elif kind == "write":
            self.seen[path].data += more[0]
        elif kind == "truncate":
            self.seen[path].data = self.seen[path].data[: more[0]]
        elif kind == "rename":
            self._name(more[0], self.seen[path])
            self._name(path, None)
        elif kind == "delete" and path in self.seen:
            self._name(path, None)
        elif kind == "fsync" and path in self.seen:
            self.seen[path].synced = self.seen[path].data
        elif kind == "fsync":
            self._keep(path)

    def _name(self, path: str, file: _File | None) -> None:
        self.pending.append((path, file))
        _set(self.seen, path, file)

    def _keep(self, folder: str) -> None:
        """Take over the changes of names in a folder; a rename is one change of two folders."""
        rest = []
        for path, file in self.pending:
            if str(PurePath(path).parent) == folder:
                _set(self.kept, path, file)
            else:
                rest.append((path, file))
        self.pending = rest

    def after_failure(self, choice: random.Random) -> dict[str, bytes]:
        """One of the possible contents of the disk after a failure of the power."""
        names = dict(self.kept)
        share = choice.random()
        for path, file in self.pending:
            if choice.random() < share:
                _set(names, path, file)
        return {path: _on_disk(file, choice) for path, file in names.items()}


def _set(names: dict[str, _File], path: str, file: _File | None) -> None:
    if file is None:
        names.pop(path, None)
    else:
        names[path] = file


def _on_disk(file: _File, choice: random.Random) -> bytes:
    if file.data == file.synced:
        return file.data
    return choice.choice((file.synced, file.data, file.data[: len(file.data) // 2]))


def fail_power(scenario: Scenario, folder: Path, tries: int, rerun_every: int = 50) -> Row:
    """Let the power fail after every operation of a scenario.

    Args:
        scenario: The scenario.
        folder: Folder to work in; it is deleted first.
        tries: Possible contents of the disk that are tried after each operation.
        rerun_every: The scenario runs again after every this many failures.
    """
    copy_start(scenario, folder)
    disk = Disk.of(folder)
    clean = run_forked(lambda: scenario.run(folder), folder)
    row, choice = Row(scenario.name, "power", clean.kinds), random.Random(0)
    for number, step in enumerate(clean.steps):
        disk.apply(step)
        for _ in range(tries):
            label = f"power failure after operation {number} ({step[0]} {step[1]})"
            _materialise(disk.after_failure(choice), folder)
            try:
                row.outcomes[scenario.state(folder)] += 1
            except ViolationError as fault:
                row.violations.append(f"{label}: {fault}")
                row.outcomes["violation"] += 1
            row.left += bool(states.hidden(folder))
            if row.outcomes.total() % rerun_every == 0:
                again = run_forked(lambda: scenario.run(folder), folder)
                found = set(states.contents(folder)) | set(states.hidden(folder))
                if again.code or scenario.state(folder) != "new" or found != scenario.whole:
                    row.violations.append(f"run after {label}: exit code {again.code}, {again.error}, {sorted(found)}")
    if {path: file.data for path, file in disk.seen.items()}.keys() != scenario.whole:
        row.violations.append("the operations that were seen do not explain the files")
    return row


def _materialise(contents: dict[str, bytes], folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, data in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
