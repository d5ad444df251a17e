"""The schema of the report: order of fields, round trip, and values that it refuses."""

import json
from typing import Any

import pytest

from optinc_pdk.report.schema import Report

KEYS = [
    "schema",
    "name",
    "verdict",
    "task",
    "process",
    "onn",
    "factor",
    "chip",
    "drc",
    "lvs",
    "function",
    "speed",
    "spectrum",
    "faults",
    "files",
    "seconds",
]


def test_json_has_the_fields_in_the_order_of_the_schema(numbers: dict[str, Any]) -> None:
    data = json.loads(Report.model_validate(numbers).to_json())
    assert list(data) == KEYS
    assert data == numbers
    assert list(data["files"]) == ["invented.gds", "invented.pic.yml"]


def test_json_round_trip(numbers: dict[str, Any]) -> None:
    report = Report.model_validate(numbers)
    assert Report.from_json(report.to_json()) == report
    assert report.to_json() == Report.from_json(report.to_json()).to_json()


def test_a_report_without_limits_is_read(numbers: dict[str, Any]) -> None:
    del numbers["chip"]["limits"], numbers["chip"]["light"]
    report = Report.from_json(json.dumps(numbers))
    assert report.chip is not None and report.chip.limits is None and report.chip.light is None


def test_limits_of_earlier_versions_do_not_contradict_the_verdict(numbers: dict[str, Any]) -> None:
    limits = numbers["chip"]["limits"]
    for key in ("accepted", "detail", "minimum"):
        del limits["pads"][key]
    report = Report.from_json(json.dumps(numbers))
    assert report.verdict_text == "pass" and report.accepted == []


def test_only_a_pass_lists_what_was_accepted(numbers: dict[str, Any]) -> None:
    assert Report.model_validate(numbers).verdict_text == "pass, accepted: pads 1,230 of 688"
    assert Report.model_validate(numbers | {"verdict": "fail"}).verdict_text == "fail"


def test_stage_not_reached_is_null_and_named(numbers: dict[str, Any]) -> None:
    report = Report.model_validate(numbers | {"verdict": "fail", "lvs": None, "function": None})
    assert json.loads(report.to_json())["lvs"] is None
    assert report.failures() == ["lvs: not run", "function: not run"]


@pytest.mark.parametrize(
    ("stage", "result", "values"),
    [
        ("drc", {"rules": 24, "violations": 1}, "1 violations of 24 rules"),
        (
            "faults",
            [{"kind": "stray", "place_um": None, "text": "silicon", "affects_function": True}],
            "1 faults that can affect the function",
        ),
        ("drc", {"rules": 0, "violations": 0}, "no rule ran"),
        ("drc", {"rules": 24, "violations": 0, "not_run": 2}, "2 of 24 rules not run"),
        ("lvs", {"devices": 400, "nets": 900, "match": False}, "netlist"),
        (
            "function",
            {"inputs": 65536, "exact": 65535, "accuracy": 0.99998, "margin": -0.01},
            "1 of 65,536 words",
        ),
        ("function", {"inputs": 0, "exact": 0, "accuracy": 1.0, "margin": 0.5}, "no input"),
        ("limits", {"pads": {"holds": False, "accepted": False}}, "budget: pads 1,230 of 688"),
        ("limits", {"size": {"holds": False, "detail": "2 dies"}}, r"budget: size 56.2 of 858 mm² \(2 dies\)"),
        ("limits", {"rate": {"holds": False, "value": 0.0}}, "budget: rate 0 Bd of at least 1 MBd"),
        ("chip", None, "chip: not run"),
    ],
)
def test_pass_with_a_failed_check_is_refused(numbers: dict[str, Any], stage: str, result: object, values: str) -> None:
    if stage == "limits":
        limits = numbers["chip"]["limits"]
        changed = {name: limits[name] | change for name, change in result.items()}  # type: ignore[attr-defined]
        stage, result = "chip", numbers["chip"] | {"limits": limits | changed}
    with pytest.raises(ValueError, match=f"'pass'.*{values}"):
        Report.model_validate(numbers | {stage: result})
    report = Report.model_validate(numbers | {stage: result, "verdict": "fail"})
    assert len(report.failures()) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schema", 2),
        ("verdict", "PASS"),
        ("drc", {"rules": 24, "violations": -1}),
        ("drc", {"rules": 24, "violations": 0.0}),
        ("drc", {"rules": 24}),
        ("lvs", {"devices": 1, "nets": 1, "match": 1}),
        ("function", {"inputs": 1, "exact": 1, "accuracy": float("nan"), "margin": 0.5}),
        ("function", {"inputs": 1, "exact": 1, "accuracy": 1.5, "margin": 0.5}),
        ("files", {"x.gds": "no digest"}),
        ("yield", 0.5),
    ],
)
def test_values_outside_the_schema_are_refused(numbers: dict[str, Any], field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        Report.model_validate(numbers | {field: value})
