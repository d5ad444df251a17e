"""The page of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fuzzing.worker import Tally

HEAD = """# Fuzzing

Seed {seed} of `tests/fuzz`. Every reader was given mutated files of a small corpus that the
project writes itself: changed bytes, words and lines; changed trees of YAML and JSON; changed members and headers of
`.npz` files; changed records of GDS2; changed messages of ONNX. An input counts as read if it is accepted, or refused
with an `InputError` that names the file, which every command turns into exit code 2. Anything else is a finding:
another exception, a warning, text on standard output, a crash, more than 2 GiB of memory, or more CPU time than 10 s
for a reader and 60 s for a command. Whole commands must exit with 0, 1 or 2.

| reader | inputs | accepted | refused | findings | slowest (s) | mean (ms) | memory (MB) |
|---|--:|--:|--:|--:|--:|--:|--:|
"""
TAIL = """
*Slowest* and *mean* are CPU times of one input. *Memory* is what the largest resident memory of the process grew by
over all inputs. Device cards of all devices are one row.
"""


def page(data: Mapping[str, Any]) -> str:
    """Text of the page, from the data of the study: the table, and the kinds of findings."""
    tallies = {name: Tally(**one) for name, one in data["targets"].items()}
    kinds = {(target, kind): count for target, kind, count in data["findings"]}
    total = Tally()
    for tally in tallies.values():
        total.add(tally)
    rows = "".join(_row(name, tally) for name, tally in [*tallies.items(), ("**all**", total)])
    listed = "".join(f"- {target}: {kind} ({count:,} inputs)\n" for (target, kind), count in sorted(kinds.items()))
    return HEAD.format(seed=data["seed"]) + rows + TAIL + (f"\nFindings:\n\n{listed}" if listed else "\nNo findings.\n")


def _row(name: str, tally: Tally) -> str:
    mean = 1e3 * tally.seconds / max(1, tally.inputs)
    return (
        f"| {name} | {tally.inputs:,} | {tally.accepted:,} | {tally.refused:,} | {tally.findings:,} | "
        f"{tally.slowest_s:.2f} | {mean:.2f} | {tally.memory / 1e6:,.0f} |\n"
    )
