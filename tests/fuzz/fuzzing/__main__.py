"""Run the fuzzer and write its results: ``make fuzz``.

python -m fuzzing                        # a million inputs
python -m fuzzing --inputs 20000         # fewer
python -m fuzzing --only netlist         # readers whose names contain a text
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from studies import read_data, write_study

from fuzzing.commands import command_targets
from fuzzing.corpus import build_chip, smallest
from fuzzing.page import page
from fuzzing.targets import Target, by_family, targets
from fuzzing.worker import Finding, Tally, run

ROOT = Path(__file__).resolve().parents[3]
MEMORY_FOLDER = Path("/dev/shm")
"""Files in memory, where there is such a folder: a disk would be the slowest part."""
COMMANDS_EACH = 20
"""Commands of one worker: threads of KLayout leave some 50 MB of unused address space behind at every run, which count
towards the limit on memory."""
SILENT_S = 300
"""Seconds without a result of a worker, which sends one every second between inputs, after which it is ended."""


class Supervisor:
    """Runs targets in worker processes, which it starts again behind an input that ends one.

    Args:
        seed: Seed of all inputs.
        folder: Folder for the files of inputs.
        out: Folder for findings.
    """

    def __init__(self, seed: int, folder: Path, out: Path) -> None:
        self.seed, self.folder, self.out = seed, folder, out
        self.tallies: dict[str, Tally] = {}
        self.kinds: dict[tuple[str, str], int] = {}

    def run(self, target: Target, count: int) -> None:
        """Read inputs 0 to ``count`` - 1 of a target."""
        context = multiprocessing.get_context("fork")
        at = context.Value("q", 0, lock=False)
        start, tally = 0, self.tallies.setdefault(by_family(target.name), Tally())
        while start < count:
            ours, theirs = context.Pipe(duplex=False)
            folder = Path(tempfile.mkdtemp(dir=self.folder))
            stop = min(count, start + COMMANDS_EACH) if target.name.startswith("optinc ") else count
            process = context.Process(target=run, args=(target, self.seed, start, stop, folder, at, theirs))
            process.start()
            theirs.close()
            counted, hangs = 0, False
            while True:
                if not ours.poll(SILENT_S):
                    # the limit on CPU time does not end a process that waits for ever
                    hangs = True
                    process.kill()
                    break
                try:
                    result = ours.recv()
                except EOFError:
                    break
                if result is None:
                    break
                if isinstance(result, Finding):
                    self.keep(result)
                else:
                    tally.add(result)
                    counted += result.inputs
            process.join()
            if process.exitcode == 0:
                start = stop
                continue
            # the tally of the last second is lost with the process: those inputs were read, and are counted as refused
            number, how = at.value, f"no result in {SILENT_S} s" if hangs else _ending(process.exitcode)
            data = target.input(self.seed, number)
            self.keep(Finding(target.name, number, how, how, data))
            lost = number - start - counted
            tally.add(
                Tally(
                    inputs=lost + 1,
                    refused=lost,
                    findings=1,
                    slowest_s=target.seconds if "time" in how else 0.0,
                    slowest=number,
                )
            )
            start = number + 1

    def keep(self, finding: Finding) -> None:
        """Keep the shortest input of every kind of finding."""
        family = by_family(finding.target)
        key = family, finding.kind
        name = f"{family.replace(' ', '_').replace('.', '')}-{hashlib.sha256(finding.kind.encode()).hexdigest()[:8]}"
        self.out.mkdir(parents=True, exist_ok=True)
        old = self.out / f"{name}.input"
        self.kinds[key] = self.kinds.get(key, 0) + 1
        if not old.exists() or len(finding.data) < old.stat().st_size:
            old.write_bytes(finding.data)
            (self.out / f"{name}.txt").write_text(
                f"{finding.target}, seed {self.seed}, number {finding.number}\n{finding.kind}\n\n{finding.detail}\n",
                encoding="utf-8", errors="backslashreplace",
            )  # fmt: skip
        if self.kinds[key] == 1:
            print(f"  finding: {finding.target}: {finding.kind}: {old}", file=sys.stderr)


def _ending(code: int | None) -> str:
    """How a process ended."""
    if code == -signal.SIGPROF:
        return "too much CPU time"
    return f"ended by {signal.Signals(-code).name}" if code is not None and code < 0 else f"ended with code {code}"


def main(
    inputs: Annotated[int, typer.Option(help="Inputs of all readers together.")] = 1_000_000,
    commands: Annotated[int, typer.Option(help="Inputs of whole commands.")] = 2_000,
    seed: Annotated[int, typer.Option(help="Seed of all inputs.")] = 1,
    only: Annotated[str, typer.Option(help="Part of the names of the targets to run.")] = "",
    out: Annotated[Path, typer.Option(help="Folder of the findings.")] = ROOT / "fuzz_out",
    record: Annotated[bool, typer.Option("--record", help="Write results/fuzzing.json.")] = False,
) -> None:
    """Read mutated files; exit with 1 if one ends in anything but acceptance or a refusal."""
    base = MEMORY_FOLDER if os.access(MEMORY_FOLDER, os.W_OK) else None
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(dir=base) as text:
        folder = Path(text)
        (folder / "corpus").mkdir()
        # standard output belongs to the table
        supervisor = Supervisor(seed, folder, out.resolve())
        chip = build_chip(smallest(), folder / "corpus")
        for group, count in ((targets(chip, folder / "corpus"), inputs), (command_targets(chip), commands)):
            shares = sum(target.share for target in group.values())
            for name, target in group.items():
                if only in name:
                    number = max(1, round(count * target.share / shares))
                    print(f"{name}: {number:,} inputs", file=sys.stderr)
                    supervisor.run(target, number)
    print(page(data_of(supervisor, seed)))
    print(f"{time.monotonic() - begun:,.0f} s", file=sys.stderr)
    if record:
        _record(data_of(supervisor, seed), only)
    lines = [f"{n:8d} {name}: {m}" for name, t in supervisor.tallies.items() for m, n in t.messages.most_common(40)]
    out.mkdir(parents=True, exist_ok=True)
    (out / "messages.txt").write_text("\n".join(lines) + "\n", encoding="utf-8", errors="backslashreplace")
    raise typer.Exit(1 if supervisor.kinds else 0)


def data_of(supervisor: Supervisor, seed: int) -> dict[str, Any]:
    """The data of the study."""
    plain = {n: {k: v for k, v in asdict(t).items() if k != "messages"} for n, t in supervisor.tallies.items()}
    return {
        "seed": seed,
        "targets": plain,
        "findings": [[n, kind, count] for (n, kind), count in supervisor.kinds.items()],
    }


def _record(data: dict[str, Any], only: str) -> None:
    """Write the results; rows of targets that a part of a run leaves out are kept."""
    if only:
        before, ran = read_data("fuzzing", {"targets": {}, "findings": []}), set(data["targets"])
        data["targets"] = before["targets"] | data["targets"]
        data["findings"] += [one for one in before["findings"] if one[0] not in ran]
    write_study("fuzzing", data | {"findings": sorted(data["findings"])}, "make fuzz", whole=not only)


if __name__ == "__main__":
    typer.run(main)
