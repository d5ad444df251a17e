"""The table of all rules with what their tests found, as markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from optinc_pdk.cards.rules import Rule
from rule_cases.case import plans
from rule_cases.mutants import mutants
from rule_cases.registry import Subject, scenes_of

HEAD = """# Design rules and their tests

Every rule of every process is tested on generated layouts, as foundries test theirs (`tests/signoff/rule_cases`): they
lie at the limit, a step above it and a step below it, at 0°, at 45°, at the angles of 3-4-5 and 5-12-13 triangles and
at 7°, 33.3° and 63.1°, with all vertices on the grid, so that every distance is known exactly. Each is drawn plain, cut
into two cells that meet across the border, as an array of 3 by 2, rotated by 90°, 180° and 270°, mirrored and, where
rounding leaves no doubt, as a cell rotated by 45° and 33.3°; others are arrays whose copies meet each other. The number
of faults must be right, too. Rules of guides are asked twice: alone, and proved on the condensed layout as in a run of
all rules.

- *Cases*: those that must pass and those that must fail. A *false positive* is a case with more faults than it has, a
  *false negative* one with fewer.
- *Resolution*: from what surely fails to what surely passes. Off the axes, layers with a tolerance of rounding are held
  to their value less that tolerance. Where it says *at worst*, the coarsest case is named.
- *Limits*: every number of the rule is moved by its smallest step, up and down; so many of these changed rules were
  told from the card's by some case.

Rules on currents are tested on a heater with a wire, a ground and two pads, driven by the current that the limit
allows; a step of a ground's rise is a millionth of that current.

`make rules` measures it all again and writes this page.
"""
COLUMNS = (
    "rule",
    "value",
    "text (lengths in µm)",
    "source",
    "severity",
    "cases",
    "false positives",
    "false negatives",
    "resolution",
    "limits",
)
STEPS = {"area": "nm²", "ir_drop": "millionth"}
UNITS = {"um": " µm", "um^2": " µm²", "deg": "°", "mA/um": " mA/µm"}


@dataclass(frozen=True)
class Outcome:
    """What the tests of a rule found.

    Attributes:
        subject: The rule.
        false_positives: Cases with more faults than they have.
        false_negatives: Cases with fewer.
        unseen: Names of the changed rules that no case told from the card's.
    """

    subject: Subject
    false_positives: int = 0
    false_negatives: int = 0
    unseen: tuple[str, ...] = ()


def markdown(outcomes: Sequence[Outcome]) -> str:
    """The page: one table for each set of processes that share rules."""
    parts = [HEAD]
    for processes, rules in groupby(outcomes, key=lambda one: one.subject.processes):
        parts += [
            f"\n## {', '.join(processes)}\n\n",
            "| " + " | ".join(COLUMNS) + " |\n",
            "|---" * len(COLUMNS) + "|\n",
        ]
        parts += ["| " + " | ".join(row(one)) + " |\n" for one in rules]
    return "".join(parts)


def row(outcome: Outcome) -> list[str]:
    """One line of the table."""
    rule = outcome.subject.rule
    expected = [plan.fails for scene in scenes_of(rule, outcome.subject.process) for plan in plans(scene)]
    changed = len(list(mutants(rule)))
    return [
        *_named(rule),
        f"{expected.count(0)} pass, {len(expected) - expected.count(0)} fail",
        str(outcome.false_positives),
        str(outcome.false_negatives),
        resolution(outcome.subject),
        f"{changed - len(outcome.unseen)} of {changed}" if changed else "none",
    ]


def _named(rule: Rule) -> list[str]:
    """The columns that are the card's."""
    limit = rule.limit
    for unit, written in UNITS.items():
        limit = limit.replace(f" {unit}", written) if limit.endswith(f" {unit}") else limit
    return [rule.id, limit.replace(" um ", " µm "), rule.text, rule.source, rule.severity]


def resolution(subject: Subject) -> str:
    """How far what surely passes is from what surely fails, at best and at worst."""
    steps: dict[str, int] = {}
    for scene in scenes_of(subject.rule, subject.process):
        passing = [delta for delta, faults in scene.verdicts.items() if not faults]
        failing = [delta for delta, faults in scene.verdicts.items() if faults]
        if passing and failing:
            steps[scene.name] = min(abs(good - bad) for good in passing for bad in failing)
    if not steps:
        return "exact"
    worst = max(steps, key=lambda name: steps[name])
    best, unit = min(steps.values()), STEPS.get(subject.rule.kind, "nm")
    return f"{best} {unit}" + (f"; at worst {steps[worst]} {unit}: {worst}" if steps[worst] > best else "")
