"""Outcomes of samples and their statistics, against values from the literature and by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optinc_pdk.studies.montecarlo.summary_text import compared_text
from optinc_pdk.studies.montecarlo.yield_plots import quantities_png
from optinc_pdk.studies.outcomes import (
    CheckOutcome,
    CheckSummary,
    Quantity,
    WordOutcome,
    WordSummary,
    error_values,
    wilson,
)


def outcome(exact: int, errors: dict[int, int], margin: float = 0.1) -> WordOutcome:
    return WordOutcome(100, exact, 400, sum(errors.values()), margin, errors, 0)


@pytest.mark.parametrize(
    ("passed", "samples", "low", "high"),
    # the first three: Newcombe, Statistics in Medicine 17, 857 (1998), table I, method 3
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (20, 20, 0.8389, 1.0),
    ],
)
def test_intervals_agree_with_published_wilson_intervals(passed: int, samples: int, low: float, high: float) -> None:
    found = wilson(passed, samples)
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)
    assert found.share == passed / samples


@pytest.mark.parametrize(("passed", "samples"), [(0, 0), (-1, 5), (6, 5)])
def test_intervals_of_invalid_counts_are_refused(passed: int, samples: int) -> None:
    with pytest.raises(ValueError, match=f"{passed} of {samples} "):
        wilson(passed, samples)


def test_statistics_of_three_samples() -> None:
    found = [outcome(100, {}, 0.2), outcome(99, {1: 2, -64: 1}, -0.1), outcome(50, {1: 97, 4: 100}, -1.5)]
    assert WordSummary(1.0).passed(found) == 1 and WordSummary(0.99).passed(found) == 2
    assert error_values(found) == {4: 100, 1: 99, -64: 1}
    numbers = WordSummary(1.0).numbers(found)
    assert numbers["accuracy"] == {"mean": pytest.approx(0.83), "worst": 0.5}
    assert numbers["word_error_rate"] == {"mean": pytest.approx(200 / 1200), "worst": 197 / 400}
    assert numbers["margin"] == {"mean": pytest.approx(-1.4 / 3), "worst": -1.5}
    assert [(row["value"], row["share"]) for row in numbers["errors"]] == [(4, 0.5), (1, 0.495), (-64, 0.005)]
    assert numbers["estimated_word_error_rate"] is None
    estimated = [
        replace(one, estimated_word_error_rate=rate) for one, rate in zip(found, (0.0, 1e-9, 0.3), strict=True)
    ]
    assert WordSummary(1.0).numbers(estimated)["estimated_word_error_rate"] == {"median": 1e-9, "worst": 0.3}
    unusable = replace(found[2], fault="no light")
    assert numbers["faults"] == [] and WordSummary(1.0).numbers([unusable, *found, unusable])["faults"] == [
        {"fault": "no light", "count": 2}
    ]


QUANTITIES = (Quantity("error", "error", "%", True, 0.01), Quantity("loss", "loss", "dB"))
OUTCOMES = [
    CheckOutcome(True, {"error": 0.002, "loss": 10.0}),
    CheckOutcome(True, {"error": 0.004, "loss": 12.0}),
    CheckOutcome(False, {"error": 0.03, "loss": 11.0}),
    CheckOutcome(False, {}, "no light"),
]


def test_statistics_of_outcomes() -> None:
    summary = CheckSummary(QUANTITIES)
    numbers = summary.numbers(OUTCOMES)
    assert numbers["yield"]["passed"] == 2 and numbers["yield"]["samples"] == 4
    assert numbers["quantities"]["error"]["median"] == 0.004 and numbers["quantities"]["error"]["worst"] == 0.03
    assert numbers["faults"] == [{"fault": "no light", "count": 1}]
    assert summary.mean_lost(OUTCOMES) == pytest.approx((0.002 + 0.004 + 0.03 + 1.0) / 4)
    assert summary.columns == ("passed", "error", "loss") and summary.row(OUTCOMES[0]) == (1, 0.002, 10.0)
    text = compared_text(numbers)
    assert "median 0.4 %, worst 3 %, limit 1 %" in text and "11 dB" in text
    falling = CheckSummary((Quantity("share", "share", "%", False, 0.9),))
    assert falling.mean_lost([CheckOutcome(True, {"share": 0.95})]) == pytest.approx(0.05)
    assert falling.numbers([CheckOutcome(False, {"share": share}) for share in (0.5, 0.8)])["quantities"]["share"][
        "worst"
    ] == (0.5)
    assert quantities_png(QUANTITIES, {"before": OUTCOMES, "after": OUTCOMES[3:]}, "caption").startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "change",
    [
        {"passed": 1},
        {"fault": 1},
        {"fault": "dark"},
        {"values": {"error": float("nan")}},
        {"values": {"error": 1e31}},
        {"values": {}},
        {"values": 3},
        {"more": 1},
    ],
)
def test_damaged_outcomes_are_refused(change: dict[str, object]) -> None:
    data = OUTCOMES[0].to_json()
    assert CheckOutcome.from_json(data) == OUTCOMES[0]
    with pytest.raises((TypeError, ValueError)):
        CheckOutcome.from_json(data | change)
