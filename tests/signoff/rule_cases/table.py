"""Tables of all rules with the results of their tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from optinc_pdk.cards.rules import Rule
from rule_cases.case import plans
from rule_cases.mutants import mutants
from rule_cases.registry import Subject, scenes_of

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


def tables(outcomes: Sequence[Outcome]) -> list[dict[str, list[Any]]]:
    """One table for each set of processes that share rules: the processes, and rows as of :func:`row`."""
    found: dict[tuple[str, ...], list[list[str]]] = {}
    for outcome in outcomes:
        found.setdefault(outcome.subject.processes, []).append(row(outcome))
    return [{"processes": list(processes), "rows": rows} for processes, rows in found.items()]


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
