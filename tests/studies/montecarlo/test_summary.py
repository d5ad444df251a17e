"""Statistics against values from the literature and by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optinc_pdk.studies.montecarlo.summary_text import percent, rate_text
from optinc_pdk.studies.montecarlo.yield_run import largest_tolerated_by_goal
from optinc_pdk.studies.outcomes import WordOutcome, WordSummary, error_values, wilson


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


def test_the_goal_share_of_samples_tolerates_the_factor() -> None:
    factors = [float(i) for i in range(1, 21)]
    # 18 of 20 samples tolerate 3 or more
    assert largest_tolerated_by_goal(factors, 0.9) == 3.0
    assert largest_tolerated_by_goal(factors, 1.0) == 1.0
    assert largest_tolerated_by_goal([2.0], 0.9) == 2.0
    with pytest.raises(ValueError, match=r"0 factors .*0\.9"):
        largest_tolerated_by_goal([], 0.9)


@pytest.mark.parametrize(
    ("share", "text"),
    [(1.0, "100 %"), (0.0, "0 %"), (0.5, "50.00 %"), (1 - 1 / 65536, "99.998 %"), (1e-9, "0.000000 %")],
)
def test_shares_are_not_rounded_to_0_or_100_percent(share: float, text: str) -> None:
    assert percent(share) == text


def test_estimated_rates_are_not_printed_as_zero() -> None:
    assert rate_text(0.0) == rate_text(1e-305) == "below 1e-300"
    assert rate_text(2.34e-120) == "2.3e-120"
