"""Tests every rule and writes results/rules.json: ``make rules``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from studies import write_study

from rule_cases.case import PLAIN
from rule_cases.mutants import mutants
from rule_cases.registry import Subject, apart_nm, cases_of, subjects
from rule_cases.sheets import count_violations, sheets
from rule_cases.table import Outcome, tables


def outcome(subject: Subject, folder: Path) -> Outcome:
    """Run all cases of a rule, and the plain cases with each of its numbers changed."""
    drawn = list(cases_of(subject.rule, subject.process))
    more = less = 0
    for sheet in sheets(drawn, apart_nm(subject.rule)):
        for others in ([], subject.condensed_with) if subject.condensed_with else ([],):
            found = count_violations(sheet, subject.rule, subject.process, folder, others)
            more += sum(count > case.fails for case, count in zip(sheet.cases, found, strict=True))
            less += sum(count < case.fails for case, count in zip(sheet.cases, found, strict=True))
    plain = sheets([case for case in drawn if case.placement == PLAIN], apart_nm(subject.rule))
    unseen = []
    for mutant in mutants(subject.rule):
        found = [(sheet, count_violations(sheet, mutant.rule, subject.process, folder)) for sheet in plain]
        if not any(bool(n) != bool(case.fails) for s, counts in found for case, n in zip(s.cases, counts, strict=True)):
            unseen.append(mutant.name)
    return Outcome(subject, more, less, tuple(unseen))


def main() -> None:
    """Write the results, print wrong results, and exit with 1 if there are any."""
    with tempfile.TemporaryDirectory() as folder:
        found = [outcome(subject, Path(folder)) for subject in subjects()]
    processes = sorted({name for one in found for name in one.subject.processes})
    write_study("rules", tables(found), "make rules", processes)
    wrong = [one for one in found if one.false_positives or one.false_negatives or one.unseen]
    for one in wrong:
        print(
            f"{one.subject.rule.id}: {one.false_positives} false positives, {one.false_negatives} false negatives, "
            f"unseen: {', '.join(one.unseen) or 'none'}"
        )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
