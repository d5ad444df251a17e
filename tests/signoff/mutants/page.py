"""Data of a run, and its page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from mutants.clean import Clean
from mutants.judge import CAUGHT, EQUIVALENT, HOLE, SAME, Verdict

# Number of rules and kinds of differences that are listed per kind of fault, the most frequent first.
LISTED = 4
INTRODUCTION = """# Mutation tests of sign-off

Faults are injected into the written GDS files of four chips, and sign-off runs on every mutant
(`tests/signoff/mutants/`; chip, kind and number seed a mutant). The checks run in this order:

1. *Same geometry*: a mutant is not checked further if no merged layer and no text differs from the original.
2. *LVS*: the mutant is extracted and compared with the netlist.
3. *DRC*: a mutant that passes LVS is checked against every design rule. On one chip, the first mutant of every kind is
   checked in any case.
4. *Function*: a mutant that passes both is driven with the original's bias, and every word that its servers read is
   compared with the ideal average.
5. *Equivalent*: a mutant that passes all checks must be equivalent by measurement: it has the same devices in the same
   nets and the same heaters, its wires are not narrower than the process's wires, and its guides have the same lengths
   within 50 nm, whose phase of 0.5 rad the heaters compensate, or do not change the margin. The phase by changed
   widths, `imperfections.width.rad_per_nm` times width error times length, is at most the static phase error that the
   card states for every guide (`imperfections.phase.rms_rad`), and so is that by slab and drawn labels beside guides,
   0.4 rad per µm at contact, which falls as the intensity in oxide. Any other survivor is a hole in sign-off.

Arms and trees whose lengths differ by less than `guide.length_match_um`, 20 nm, pass LVS by design. The netlist of a
build states no lengths of other guides; their phases are programmed with the lengths of the layout, and calibration of
the chip compensates for it. The change of the margin at the original's bias is listed for every such survivor.
"""


def data_of(chips: Sequence[Mapping[str, str]], verdicts: Sequence[Verdict], clean: Sequence[Clean]) -> dict[str, Any]:
    """Data of a run: a line of values for each mutant and each clean chip."""
    return {
        "chips": list(chips),
        "mutants": [list(asdict(one).values()) for one in verdicts],
        "clean": [list(asdict(one).values()) for one in clean],
    }


def read_verdicts(data: Mapping[str, Any]) -> list[Verdict]:
    """The mutants of a run."""
    return [Verdict(*(tuple(value) if isinstance(value, list) else value for value in one)) for one in data["mutants"]]


def read_clean(data: Mapping[str, Any]) -> list[Clean]:
    """The clean chips of a run."""
    return [Clean(*(tuple(value) if isinstance(value, list) else value for value in one)) for one in data["clean"]]


def catcher(verdict: Verdict) -> str:
    """The check that caught a mutant: LVS, DRC if LVS is clean, or function if both are clean."""
    if verdict.refused:
        return "file"
    return "LVS" if verdict.lvs else "DRC" if verdict.drc else "function"


def page(data: Mapping[str, Any]) -> str:
    """The page in Markdown."""
    verdicts, clean = read_verdicts(data), read_clean(data)
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
        *_chips(data["chips"]),
        *_clean(clean),
        "## Kinds",
        "",
        "| kind | mutants | same geometry | LVS | DRC, LVS clean | function | file | equivalent | reported |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_kind([v for v in verdicts if v.kind == kind]) for kind in kinds),
        "",
        *_survivors(verdicts),
    ]
    return "\n".join(lines)


def _chips(chips: Sequence[Mapping[str, str]]) -> list[str]:
    lines = ["| chip | process | network | contents |", "|---|---|---|---|"]
    return [*lines, *(f"| {' | '.join(chip.values())} |" for chip in chips), ""]


def _clean(clean: Sequence[Clean]) -> list[str]:
    flagged = [c for c in clean if c.drc or c.lvs]
    lines = [
        "## False alarms",
        "",
        f"{len(clean)} clean chips of random process, size, wiring and realisation, at random rotated, mirrored, "
        f"moved, renamed, flattened, regrouped and cut into pieces: {len(flagged)} flagged by DRC or LVS.",
        "",
    ]
    lines += [f"- {c.number}, {c.process}, {c.description}: {' '.join((*c.drc, *c.lvs))}" for c in flagged]
    return [*lines, ""] if flagged else lines


def _kind(verdicts: Sequence[Verdict]) -> str:
    count = Counter(catcher(v) if v.outcome == CAUGHT else v.outcome for v in verdicts)
    reported = Counter(name for v in verdicts for name in (*v.drc, *v.lvs))
    cells = [
        verdicts[0].kind,
        len(verdicts),
        *(count[k] for k in (SAME, "LVS", "DRC", "function", "file", EQUIVALENT)),
        ", ".join(name for name, _ in reported.most_common(LISTED)),
    ]
    return f"| {' | '.join(str(cell) if cell != 0 else '' for cell in cells)} |"


def _survivors(verdicts: Sequence[Verdict]) -> list[str]:
    lines = ["## Survivors", ""]
    for outcome, head in ((HOLE, "Holes"), (EQUIVALENT, "Equivalent")):
        survivors = [v for v in verdicts if v.outcome == outcome]
        lines += [f"{head}: {len(survivors)}", ""]
        lines += [f"- {v.chip}, {v.kind}, {v.number}: {v.reason}" for v in survivors]
        lines += [""] if survivors else []
    return lines
