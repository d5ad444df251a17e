"""Every design rule of every process on generated layouts; see `rule_cases`.

Layouts are drawn at the limit, one step above and one step below, at several angles, in several cells, in arrays,
rotated and mirrored.
"""

from pathlib import Path

import pytest
from rule_cases import Sheet, Subject, apart_nm, cases_of, count_violations, mutants, sheets, subjects
from rule_cases.registry import SCENES
from rule_cases.table import Outcome, tables
from studies import read_data

from optinc_pdk.cards import load_process
from optinc_pdk.cards.rules import LineRule, Rule
from optinc_pdk.signoff.drc.design_rule_check import CHECKS, ELECTRICAL_KINDS

# a kind that no card has yet
NOTCH = LineRule(
    id="metal.notch", kind="notch", layers=("metal",), value_um=3.0, ignore_angle_deg=80.0, angled_tolerance_um=0.002,
    text="Notches", source="none", severity="error",
)  # fmt: skip
RULES = [*subjects(), Subject(NOTCH, load_process(), ("no process",))]
IDS = [f"{subject.processes[0]}-{subject.rule.id}" for subject in RULES]


def drawn(subject: Subject, plain: bool = False) -> list[Sheet]:
    found = [case for case in cases_of(subject.rule, subject.process) if not plain or case.placement == "plain"]
    return sheets(found, apart_nm(subject.rule))


def wrong(sheet: Sheet, found: list[int]) -> list[str]:
    return [
        f"{case.name}, {case.placement}, {case.delta_nm:+g}: {count} violations instead of {case.fails}"
        for case, count in zip(sheet.cases, found, strict=True)
        if count != case.fails
    ]


def test_every_kind_of_rule_has_cases() -> None:
    assert {subject.rule.kind for subject in RULES} == {*CHECKS, *ELECTRICAL_KINDS} == SCENES.keys()


@pytest.mark.parametrize("subject", [one for one in RULES if one.processes[0] == "soi220"], ids=lambda one: one.rule.id)
def test_limits_of_the_default_process_are_exact(subject: Subject, tmp_path: Path) -> None:
    for sheet in drawn(subject, plain=True):
        assert wrong(sheet, count_violations(sheet, subject.rule, subject.process, tmp_path)) == []


@pytest.mark.full(every=27)
@pytest.mark.parametrize("subject", RULES, ids=IDS)
def test_every_case_has_the_expected_number_of_violations(subject: Subject, tmp_path: Path) -> None:
    for sheet in drawn(subject):
        assert wrong(sheet, count_violations(sheet, subject.rule, subject.process, tmp_path)) == []
        if subject.condensed_with:
            # rules of guides are checked on a condensed layout if the run has a rule of guide space
            assert (
                wrong(sheet, count_violations(sheet, subject.rule, subject.process, tmp_path, subject.condensed_with))
                == []
            )


@pytest.mark.full(every=9)
@pytest.mark.parametrize("subject", RULES, ids=IDS)
def test_every_changed_limit_changes_a_result(subject: Subject, tmp_path: Path) -> None:
    plain = drawn(subject, plain=True)
    found = {case.fails > 0 for sheet in plain for case in sheet.cases}
    assert found == {True, False}, "a rule needs cases that pass and cases that fail"
    for mutant in mutants(subject.rule):
        flips = [flip for sheet in plain for flip in flipped(sheet, mutant.rule, subject, tmp_path)]
        assert flips, f"no case of {subject.rule.id} sees {mutant.name}"
        if mutant.limit:
            # with a stricter limit a passing case fails, with a looser one a failing case passes
            assert mutant.stricter in flips, mutant.name


def flipped(sheet: Sheet, mutant: Rule, subject: Subject, folder: Path) -> list[bool]:
    """For each case with another result than the rule: whether the mutant fails it."""
    counts = count_violations(sheet, mutant, subject.process, folder)
    changed = [
        (case, count) for case, count in zip(sheet.cases, counts, strict=True) if (count > 0) != (case.fails > 0)
    ]
    return [count > 0 for _, count in changed]


def test_the_recorded_results_are_those_of_the_cards() -> None:
    # the other tests check that no result is wrong and that every changed limit is detected
    assert tables([Outcome(subject) for subject in subjects()]) == read_data("rules", []), "run `make rules`"
