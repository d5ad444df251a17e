"""Table of all rules with the results of their tests, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optinc_pdk.cards.rules import Rule
from rule_cases.case import plans
from rule_cases.mutants import mutants
from rule_cases.registry import Subject, scenes_of

HEAD = """# Design rules and their tests

Every rule of every process is tested on generated layouts (`tests/signoff/rule_cases`), as foundries test their rules.

Layouts are drawn at the limit, one step above it and one step below it. They are drawn at 0°, at 45°, at the angles of
3-4-5 and 5-12-13 triangles, and at 7°, 33.3° and 63.1°. All vertices are on the grid, so every distance is known
exactly. Each layout is drawn plain, cut into two cells that meet across the border, as an array of 3 by 2, rotated by
90°, 180° and 270°, and mirrored. Where rounding cannot change the result, it is also drawn as a cell rotated by 45° and
33.3°. Further layouts are arrays whose copies meet each other. The number of violations must be exact. Rules of guides
are tested twice: alone, and on the condensed layout as in a run of all rules.

- *Cases*: the numbers of cases that must pass and that must fail. A *false positive* is a case with more violations
  reported than expected, a *false negative* a case with fewer.
- *Resolution*: the distance between layouts that must fail and layouts that must pass. For slanted edges, layers with a
  tolerance for rounding are checked at their value minus that tolerance. *At worst* names the coarsest case.
- *Limits*: every number of the rule is changed by its smallest step, up and down. The column has the number of changed
  rules for which the result of some case differs.

Electrical rules are tested on a heater with a wire, a ground and two pads, at the current that the limit allows. A step
of ground rise is a millionth of that current.

`make rules` runs all tests and writes this page.
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
    """Results of the tests of a rule.

    Attributes:
        subject: The rule.
        false_positives: Number of cases with more violations reported than expected.
        false_negatives: Number of cases with fewer.
        unseen: Names of the changed rules for which no case has another result.
    """

    subject: Subject
    false_positives: int = 0
    false_negatives: int = 0
    unseen: tuple[str, ...] = ()


def markdown(outcomes: Sequence[Outcome]) -> str:
    """The page, with one table for each set of processes that share rules."""
    parts = [HEAD]
    tables: dict[tuple[str, ...], list[Outcome]] = {}
    for outcome in outcomes:
        tables.setdefault(outcome.subject.processes, []).append(outcome)
    for processes, rules in tables.items():
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
    """The columns with data of the process card."""
    limit = rule.limit
    for unit, written in UNITS.items():
        limit = limit.replace(f" {unit}", written) if limit.endswith(f" {unit}") else limit
    return [rule.id, limit.replace(" um ", " µm "), rule.text, rule.source, rule.severity]


def resolution(subject: Subject) -> str:
    """Distance between layouts that must fail and that must pass: the smallest, and the largest if it differs."""
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
