"""Statistics over the samples of a run: yield, words, errors, contributions and tolerances."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optinc_pdk.studies.montecarlo.sample_study import Outcome, OutcomeSummary
from optinc_pdk.studies.montecarlo.word_statistics import WordOutcome

SIGMAS = 1.959963984540054
"""Half-width of the central 95 % of a normal distribution, in standard deviations."""
GOAL = 0.9
"""Share of the samples that must reach the target at a tolerance."""


@dataclass(frozen=True)
class SampleShare:
    """Share of samples that passed, with its 95 % confidence interval.

    Attributes:
        passed: Number of samples that passed.
        samples: Number of all samples.
        low: Lower end of the interval, 0 … 1.
        high: Upper end of the interval, 0 … 1.
    """

    passed: int
    samples: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """Number of passed samples over number of all samples, 0 … 1."""
        return self.passed / self.samples


def wilson_interval(share: float, trials: int) -> tuple[float, float]:
    """Return the 95 % score interval of a probability (Wilson, J. Am. Stat. Assoc. 22, 209 (1927)).

    Args:
        share: Observed share of successes, 0 … 1.
        trials: Number of independent trials.

    Returns:
        Lower and upper end of the interval.
    """
    square = SIGMAS**2
    scale = 1.0 + square / trials
    middle = (share + square / (2 * trials)) / scale
    half = SIGMAS / scale * math.sqrt(share * (1 - share) / trials + square / (4 * trials**2))
    # for a share of 0 or 1 the interval ends there exactly, in spite of rounding
    return 0.0 if share == 0.0 else max(middle - half, 0.0), 1.0 if share == 1.0 else min(middle + half, 1.0)


def wilson(passed: int, samples: int) -> SampleShare:
    """Return the share of passed samples with Wilson's interval.

    Args:
        passed: Number of samples that passed.
        samples: Number of all samples.

    Raises:
        ValueError: There are no samples, or ``passed`` is not within 0 … ``samples``.
    """
    if not 0 <= passed <= samples or samples < 1:
        raise ValueError(f"{passed} of {samples} samples passed; give at least one sample and no more than all")
    return SampleShare(passed, samples, *wilson_interval(passed / samples, samples))


def yield_of(outcomes: Sequence[WordOutcome], target: float) -> SampleShare:
    """Return the share of samples whose accuracy is at least the target.

    Args:
        outcomes: Outcome of each sample.
        target: Required share of exact inputs, 0 … 1.
    """
    return wilson(sum(outcome.accuracy >= target for outcome in outcomes), len(outcomes))


def words_lost(outcomes: Iterable[WordOutcome]) -> float:
    """Return the share of inexact inputs, averaged over samples."""
    return float(np.mean([1.0 - outcome.accuracy for outcome in outcomes]))


def error_values(outcomes: Iterable[WordOutcome]) -> dict[int, int]:
    """Count the wrong words of all samples by their error, read minus ideal; the most frequent error is first."""
    total: Counter[int] = Counter()
    for outcome in outcomes:
        total.update(outcome.errors)
    return dict(sorted(total.items(), key=lambda item: (-item[1], abs(item[0]), item[0])))


def outcome_numbers(outcomes: Sequence[WordOutcome], target: float) -> dict[str, Any]:
    """Return statistics of outcomes as JSON-compatible data.

    They are yield, accuracy, word-error rate, margin, errors and faults, and the estimated word-error rates: None if
    words were read without noise.

    Args:
        outcomes: Outcome of each sample.
        target: Required share of exact inputs, 0 … 1.
    """
    yield_share = yield_of(outcomes, target)
    accuracy = [outcome.accuracy for outcome in outcomes]
    rate = [outcome.word_error_rate for outcome in outcomes]
    margin = [outcome.margin for outcome in outcomes]
    errors = error_values(outcomes)
    wrong = sum(errors.values())
    estimates = [each for outcome in outcomes if (each := outcome.estimated_word_error_rate) is not None]
    faults = Counter(outcome.fault for outcome in outcomes if outcome.fault)
    return {
        "yield": share_numbers(yield_share),
        "accuracy": {"mean": float(np.mean(accuracy)), "worst": min(accuracy)},
        "word_error_rate": {"mean": float(np.mean(rate)), "worst": max(rate)},
        "estimated_word_error_rate": {"median": float(np.median(estimates)), "worst": max(estimates)}
        if estimates
        else None,
        "margin": {"mean": float(np.mean(margin)), "worst": min(margin)},
        "errors": [{"value": value, "count": count, "share": count / wrong} for value, count in errors.items()],
        "faults": [{"fault": fault, "count": count} for fault, count in faults.most_common()],
    }


def share_numbers(share: SampleShare) -> dict[str, Any]:
    """Return a share as JSON-compatible data."""
    return {
        "share": share.share,
        "low": share.low,
        "high": share.high,
        "passed": share.passed,
        "samples": share.samples,
    }


def largest_tolerated_by_goal(factors: Sequence[float], goal: float = GOAL) -> float:
    """Return the largest factor that at least the required share of the samples tolerates.

    Args:
        factors: Largest tolerated factor of each sample.
        goal: Required share of the samples, above 0 and up to 1.

    Raises:
        ValueError: There are no factors, or the goal is out of range.
    """
    if not factors or not 0.0 < goal <= 1.0:
        raise ValueError(f"{len(factors)} factors and the goal {goal}: give at least one factor, a goal within 0 … 1")
    needed = math.ceil(goal * len(factors) - 1e-9)
    return sorted(factors, reverse=True)[needed - 1]


def kind_numbers(
    alone: Mapping[str, Sequence[Outcome]],
    without: Mapping[str, Sequence[Outcome]],
    upto: Mapping[str, Sequence[Outcome]],
    summary: OutcomeSummary[Outcome],
) -> list[dict[str, Any]]:
    """Return what is lost and the yield for each imperfection alone, without it, and with all kinds up to it.

    Args:
        alone: Imperfection to the outcomes of samples with it alone.
        without: Imperfection to the outcomes of samples with all other kinds.
        upto: Imperfection to the outcomes of samples with all kinds up to it.
        summary: Statistics of the outcomes.

    Returns:
        JSON-compatible data, one entry for each imperfection.
    """
    studies, key = {"alone": alone, "without": without, "upto": upto}, summary.lost[0]

    def numbers(outcomes: Sequence[Outcome]) -> dict[str, Any]:
        share = wilson(summary.passed(outcomes), len(outcomes))
        return {key: summary.mean_lost(outcomes), "yield": share_numbers(share)}

    return [
        {"imperfection": kind} | {study: numbers(outcomes[kind]) for study, outcomes in studies.items()}
        for kind in alone
    ]


@dataclass(frozen=True)
class WordSummary:
    """Statistics of the words that the servers of sampled chips read.

    Attributes:
        target: Required share of exact inputs, 0 … 1.
    """

    target: float

    columns = (
        *("inputs", "exact", "accuracy", "words", "wrong", "word_error_rate", "margin", "saturated"),
        *("estimated_word_error_rate", "errors"),
    )
    lost = ("words_lost", "words lost / %")

    def row(self, outcome: WordOutcome) -> tuple[Any, ...]:
        """Return the values of the columns for one outcome."""
        errors = " ".join(f"{value:+d}:{count}" for value, count in outcome.errors.items())
        return (*(getattr(outcome, column) for column in self.columns[:-1]), errors)

    def passed(self, outcomes: Sequence[WordOutcome]) -> int:
        """Return the number of samples that reach the target."""
        return yield_of(outcomes, self.target).passed

    def mean_lost(self, outcomes: Sequence[WordOutcome]) -> float:
        """Return the share of inexact inputs, averaged over samples."""
        return words_lost(outcomes)

    def numbers(self, outcomes: Sequence[WordOutcome]) -> dict[str, Any]:
        """Return the statistics of a stage, see :func:`outcome_numbers`."""
        return outcome_numbers(outcomes, self.target)

    def pictures(self, stages: Mapping[str, Sequence[WordOutcome]], caption: str) -> dict[str, bytes]:
        """Return the yield curves and the histogram of errors."""
        # matplotlib takes long to import, and a run that is refused draws nothing
        from optinc_pdk.studies.montecarlo.plots import errors_png, yield_png

        return {
            "yield.png": yield_png(stages, self.target, caption),
            "errors.png": errors_png({stage: error_values(values) for stage, values in stages.items()}, caption),
        }
