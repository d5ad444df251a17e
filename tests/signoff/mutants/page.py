"""The table of a run: docs/mutants.csv and docs/mutants.md."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from mutants.chips import Base
from mutants.clean import Clean
from mutants.judge import CAUGHT, EQUIVALENT, HOLE, SAME, Verdict

COLUMNS = (
    "chip",
    "kind",
    "number",
    "outcome",
    "refused",
    "drc",
    "lvs",
    "function",
    "reason",
    "x_um",
    "y_um",
    "description",
)
CLEAN_COLUMNS = ("number", "process", "description", "drc", "lvs")
# Rules and kinds of differences told per kind of fault, the most frequent first.
TOLD = 4
INTRODUCTION = """# Proof by mutation

Faults injected into the written GDS files of three chips, and what sign-off says of each, by `make mutants`
(`tests/signoff/mutants/`; every mutant is seeded by chip, kind and number). A mutant is compared with the original
first: where no merged layer and no text differs, it is none. All others are extracted and compared with the netlist.
What LVS passes goes through every design rule (on one chip the first mutant of every kind does so in any case),
and what passes both is driven with the original's bias: every word that its servers read is compared with the
ideal average. What passes that too must be shown equivalent by what was measured on it: the same devices
in the same nets, the same heaters, wires no narrower than the process's, guides as long as the process asks
or without effect on the margin. Anything else would be a hole. "As long as the process asks" is
`guide.length_match_um` of its card: a path that differs by less passes LVS by design and is made good when a chip is
calibrated; what it does to the margin of the bias as shipped stands beside every such survivor.
"""


def row(verdict: Verdict) -> dict[str, object]:
    """One line of the CSV."""
    x, y = verdict.place_um
    told = {key: getattr(verdict, key) for key in COLUMNS if key not in ("drc", "lvs", "x_um", "y_um")}
    return {**told, "drc": " ".join(verdict.drc), "lvs": " ".join(verdict.lvs), "x_um": f"{x:.3f}", "y_um": f"{y:.3f}"}


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[dict[str, object]]) -> None:
    """Write mutants, or clean chips."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of an earlier run, none where there was no run."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def read_verdicts(path: Path) -> list[Verdict]:
    """The mutants of an earlier run."""
    return [
        Verdict(
            r["chip"],
            r["kind"],
            int(r["number"]),
            r["description"],
            (float(r["x_um"]), float(r["y_um"])),
            r["outcome"],
            r["refused"],
            tuple(r["drc"].split()),
            tuple(r["lvs"].split()),
            r["function"],
            r["reason"],
        )
        for r in read_csv(path)
    ]


def clean_row(clean: Clean) -> dict[str, object]:
    """One line of the CSV of clean chips."""
    return {**asdict(clean), "drc": " ".join(clean.drc), "lvs": " ".join(clean.lvs)}


def read_clean(path: Path) -> list[Clean]:
    """The clean chips of an earlier run."""
    return [
        Clean(int(r["number"]), r["process"], r["description"], tuple(r["drc"].split()), tuple(r["lvs"].split()))
        for r in read_csv(path)
    ]


def catcher(verdict: Verdict) -> str:
    """Who caught a mutant: LVS, the rules where LVS is clean, the function where both are."""
    if verdict.refused:
        return "file"
    return "LVS" if verdict.lvs else "DRC" if verdict.drc else "function"


def page(bases: Sequence[Base], verdicts: Sequence[Verdict], clean: Sequence[Clean]) -> str:
    """The page in Markdown."""
    outcomes = Counter(v.outcome for v in verdicts)
    kinds = list(dict.fromkeys(v.kind for v in verdicts))
    by = Counter(catcher(v) for v in verdicts if v.outcome == CAUGHT)
    differing = len(verdicts) - outcomes[SAME]
    lines = [
        INTRODUCTION,
        f"{len(kinds)} kinds, {len(verdicts):,} mutants: {outcomes[SAME]:,} have the original's geometry; of the other "
        f"{differing:,}, {outcomes[CAUGHT]:,} are caught ("
        + ", ".join(f"{count:,} by {name}" for name, count in by.most_common())
        + f"), {outcomes[EQUIVALENT]:,} are equivalent, {outcomes[HOLE]:,} are holes.",
        "",
        *_chips(bases),
        *_clean(clean),
        "## Kinds",
        "",
        "| kind | mutants | same geometry | LVS | DRC, LVS clean | function | file | equivalent | told |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_kind([v for v in verdicts if v.kind == kind]) for kind in kinds),
        "",
        *_survivors(verdicts),
    ]
    return "\n".join(lines)


def _chips(bases: Sequence[Base]) -> list[str]:
    lines = ["| chip | process | network | what is on it |", "|---|---|---|---|"]
    for base in bases:
        counts = (
            f"{n:g} {kind.replace('_', ' ')}" for kind, n in base.extraction.silicon.items() if "length" not in kind
        )
        structure = "-".join(map(str, base.onn.structure))
        lines.append(f"| {base.name} | {base.process.name} | {structure} | {', '.join(counts)} |")
    return [*lines, ""]


def _clean(clean: Sequence[Clean]) -> list[str]:
    flagged = [c for c in clean if c.drc or c.lvs]
    lines = [
        "## False alarms",
        "",
        f"{len(clean)} clean chips of random process, size, wiring and realisation, turned, mirrored, moved, renamed, "
        f"flattened, regrouped and cut into pieces at random: {len(flagged)} flagged by DRC or LVS.",
        "",
    ]
    lines += [f"- {c.number}, {c.process}, {c.description}: {' '.join((*c.drc, *c.lvs))}" for c in flagged]
    return [*lines, ""] if flagged else lines


def _kind(verdicts: Sequence[Verdict]) -> str:
    count = Counter(catcher(v) if v.outcome == CAUGHT else v.outcome for v in verdicts)
    told = Counter(name for v in verdicts for name in (*v.drc, *v.lvs))
    cells = [
        verdicts[0].kind,
        len(verdicts),
        *(count[k] for k in (SAME, "LVS", "DRC", "function", "file", EQUIVALENT)),
        ", ".join(name for name, _ in told.most_common(TOLD)),
    ]
    return f"| {' | '.join(str(cell) if cell != 0 else '' for cell in cells)} |"


def _survivors(verdicts: Sequence[Verdict]) -> list[str]:
    lines = ["## Survivors", ""]
    for outcome, head in ((HOLE, "Holes"), (EQUIVALENT, "Equivalent")):
        found = [v for v in verdicts if v.outcome == outcome]
        lines += [f"{head}: {len(found)}", "", *(f"- {v.chip}, {v.kind}, {v.number}: {v.reason}" for v in found)]
        lines += [""] if found else []
    return lines
