"""What the samples of a run say together: yield, words, errors, contributions and tolerances."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optinc_pdk.tolerance.montecarlo.words import Outcome

SIGMAS = 1.959963984540054
"""Standard deviations of a normal distribution on either side that hold 95 %."""
GOAL = 0.9
"""Share of the samples that have to reach the target where a tolerance is asked for."""


@dataclass(frozen=True)
class Share:
    """A share of samples with its confidence interval of 95 %.

    Attributes:
        passed: Samples that count.
        samples: All samples.
        low: Lower end of the interval.
        high: Upper end.
    """

    passed: int
    samples: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """The share itself."""
        return self.passed / self.samples


def interval(share: float, trials: int) -> tuple[float, float]:
    """The 95 % score interval of a probability (Wilson, J. Am. Stat. Assoc. 22, 209 (1927)).

    Args:
        share: What was found.
        trials: In so many independent trials.
    """
    square = SIGMAS**2
    scale = 1.0 + square / trials
    middle = (share + square / (2 * trials)) / scale
    half = SIGMAS / scale * math.sqrt(share * (1 - share) / trials + square / (4 * trials**2))
    # of none or all, the interval ends at 0 or 1; rounding must not move it beyond
    return 0.0 if share == 0.0 else max(middle - half, 0.0), 1.0 if share == 1.0 else min(middle + half, 1.0)


def wilson(passed: int, samples: int) -> Share:
    """The share of passed samples with Wilson's interval.

    Args:
        passed: Samples that passed.
        samples: All samples.

    Raises:
        ValueError: No samples, or more passed than there are.
    """
    if not 0 <= passed <= samples or samples < 1:
        raise ValueError(f"{passed} of {samples} samples passed; give at least one sample and no more than all")
    return Share(passed, samples, *interval(passed / samples, samples))


def yield_of(outcomes: Sequence[Outcome], target: float) -> Share:
    """Share of samples whose words are exact to the target share or better."""
    return wilson(sum(outcome.accuracy >= target for outcome in outcomes), len(outcomes))


def words_lost(outcomes: Iterable[Outcome]) -> float:
    """Mean share of inputs that are not exact."""
    return float(np.mean([1.0 - outcome.accuracy for outcome in outcomes]))


def error_values(outcomes: Iterable[Outcome]) -> dict[int, int]:
    """Error of a word to the number of words that have it, most frequent first."""
    total: Counter[int] = Counter()
    for outcome in outcomes:
        total.update(outcome.errors)
    return dict(sorted(total.items(), key=lambda item: (-item[1], abs(item[0]), item[0])))


def outcome_numbers(outcomes: Sequence[Outcome], target: float) -> dict[str, Any]:
    """The numbers of some samples: yield, mean and worst words, errors, and why some could not be used."""
    reached = yield_of(outcomes, target)
    accuracy = [outcome.accuracy for outcome in outcomes]
    rate = [outcome.word_error_rate for outcome in outcomes]
    margin = [outcome.margin for outcome in outcomes]
    errors = error_values(outcomes)
    wrong = sum(errors.values())
    faults = Counter(outcome.fault for outcome in outcomes if outcome.fault)
    return {
        "yield": share_numbers(reached),
        "accuracy": {"mean": float(np.mean(accuracy)), "worst": min(accuracy)},
        "word_error_rate": {"mean": float(np.mean(rate)), "worst": max(rate)},
        "margin": {"mean": float(np.mean(margin)), "worst": min(margin)},
        "errors": [{"value": value, "count": count, "share": count / wrong} for value, count in errors.items()],
        "faults": [{"fault": fault, "count": count} for fault, count in faults.most_common()],
    }


def share_numbers(reached: Share) -> dict[str, Any]:
    """A share as plain data."""
    return {
        "share": reached.share,
        "low": reached.low,
        "high": reached.high,
        "passed": reached.passed,
        "samples": reached.samples,
    }


def tolerated(factors: Sequence[float], goal: float = GOAL) -> float:
    """Largest factor that at least a goal share of the samples bears.

    Args:
        factors: Per sample the largest factor with which it reaches the target.
        goal: Share of the samples.

    Raises:
        ValueError: No factors, or a goal that is no share above 0.
    """
    if not factors or not 0.0 < goal <= 1.0:
        raise ValueError(f"{len(factors)} factors and the goal {goal}: give at least one factor, a goal within 0 … 1")
    needed = math.ceil(goal * len(factors) - 1e-9)
    return sorted(factors, reverse=True)[needed - 1]


def kind_numbers(
    alone: Mapping[str, Sequence[Outcome]],
    without: Mapping[str, Sequence[Outcome]],
    upto: Mapping[str, Sequence[Outcome]],
    target: float,
) -> list[dict[str, Any]]:
    """Per imperfection what it does alone, what is left without it, and what comes up to it in their order."""
    studies = {"alone": alone, "without": without, "upto": upto}
    return [
        {"imperfection": kind}
        | {
            study: {"words_lost": words_lost(found[kind]), "yield": share_numbers(yield_of(found[kind], target))}
            for study, found in studies.items()
        }
        for kind in alone
    ]
