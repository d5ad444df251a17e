"""Run the faults and print the tables; the exit code is 1 if a report ever stood beside files that are not its own."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from file_faults.concurrency import Rounds, builds_at_once, replays_at_once
from file_faults.operations import FAULTS
from file_faults.power import fail_power
from file_faults.scenarios import OVER_AN_EARLIER_BUILD, SCENARIOS, Scenario
from file_faults.space import fill_disk, limit_file_sizes
from file_faults.sweep import Row, sweep

STATES = ("earlier", "new", "no report", "some reports")


def main() -> int:
    """Parse the arguments, run, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", action="store_true", help="a part that takes some seconds")
    parser.add_argument("--only", default="", help="only scenarios whose name begins with this text")
    options = parser.parse_args()
    only = options.only or (OVER_AN_EARLIER_BUILD if options.sample else "")
    rows: list[Row] = []
    rounds: list[Rounds] = []
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        for make in SCENARIOS[:1] if options.sample else SCENARIOS:
            for scenario in make(scratch / make.__name__):
                if scenario.name.startswith(only):
                    for row in all_faults(scenario, scratch, options.sample):
                        runs, wrong = row.outcomes.total(), len(row.violations)
                        print(f"{scenario.name}: {row.fault}: {runs} runs, {wrong} violations", file=sys.stderr)
                        rows.append(row)
                    if scenario.name == OVER_AN_EARLIER_BUILD:
                        count = 5 if options.sample else 200
                        rounds.append(replays_at_once(scenario, scratch / "at_once", count))
        if not only:
            rounds.append(builds_at_once(scratch / "real", 25))
    print(table(rows))
    print()
    for one in rounds:
        print(f"- {one}")
    violations = [f"{row.scenario}: {line}" for row in rows for line in row.violations]
    violations += [line for one in rounds for line in one.violations]
    print(f"\n{sum(row.outcomes.total() for row in rows):,} faults, {len(violations)} violations")
    for line in violations:
        print(line)
    return 1 if violations else 0


def all_faults(scenario: Scenario, scratch: Path, sample: bool) -> Iterator[Row]:
    """Try all kinds of faults on a scenario, or a sample of them."""
    yield from sweep(scenario, scratch / "work", FAULTS, 11 if sample else 1)
    yield limit_file_sizes(scenario, scratch / "work", 3 if sample else 40)
    if not sample:
        row = fill_disk(scenario, scratch / "disk", 40)
        if row is None:
            print(f"{scenario.name}: full disk: not run, because this user may not mount file systems", file=sys.stderr)
        else:
            yield row
    yield fail_power(scenario, scratch / "work", 2 if sample else 20)


def table(rows: list[Row]) -> str:
    """Markdown tables: file operations by kind, and outcomes by fault."""
    clean = [row for row in rows if row.fault == "none"]
    kinds = sorted(sum((row.operations for row in clean), Counter[str]()))
    lines = [f"| scenario | operations | {' | '.join(kinds)} |", "|---" * (2 + len(kinds)) + "|"]
    for row in clean:
        counts = " | ".join(str(row.operations[kind]) for kind in kinds)
        lines.append(f"| {row.scenario} | {row.operations.total()} | {counts} |")
    lines += ["", f"| scenario | fault | runs | {' | '.join(STATES)} | hidden files left | violations |"]
    lines.append("|---" * (5 + len(STATES)) + "|")
    for row in rows:
        if row.fault != "none":
            counts = " | ".join(str(row.outcomes[state]) for state in STATES)
            end = f"{row.left} | {len(row.violations)}"
            lines.append(f"| {row.scenario} | {row.fault} | {row.outcomes.total()} | {counts} | {end} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
