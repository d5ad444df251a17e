"""What sampled chips compute compared with their targets: outcomes of single chips, and statistics over many.

There are two kinds of outcomes: scores of the words that servers read, and quantities of the comparison with a matrix
or a general network.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.averaging.score import WordScore

SIGMAS = 1.959963984540054
"""Half-width of the central 95 % of a normal distribution, in standard deviations."""
LARGEST = 1e30
"""Largest magnitude of a value or margin in a file; summaries add them up in double precision, as the counts."""
MAX_COUNT = 2**53
LABEL = 26
"""Characters of a line of an axis label."""


class SampleOutcome(Protocol):
    """What one sampled chip computes, compared with its target."""

    @property
    def fault(self) -> str:
        """Why the chip is unusable; empty if it is usable."""

    @property
    def form(self) -> tuple[Any, ...]:
        """What is equal in all outcomes of a run, such as the number of inputs."""

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as JSON-compatible data."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Build an outcome from the data of :meth:`to_json`.

        Raises:
            TypeError: A key is missing or unknown, or a value has the wrong type.
            ValueError: A number is out of range, or values contradict each other.
        """


Outcome = TypeVar("Outcome", bound=SampleOutcome)


class OutcomeSummary(Protocol):
    """Statistics of the outcomes of samples, as numbers, table and pictures."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of an outcome in a table."""

    @property
    def lost(self) -> tuple[str, str]:
        """What an imperfection costs: its name in files, and the label of its axis, in %."""

    def row(self, outcome: Any) -> tuple[Any, ...]:
        """Return the values of the columns for one outcome."""

    def passed(self, outcomes: Sequence[Any]) -> int:
        """Return the number of samples that reach the target."""

    def mean_lost(self, outcomes: Sequence[Any]) -> float:
        """Return what the samples lose, as a share, averaged over samples; an unusable one loses everything."""

    def numbers(self, outcomes: Sequence[Any]) -> dict[str, Any]:
        """Return statistics of a stage as JSON-compatible data."""

    def pictures(self, stages: Mapping[str, Sequence[Any]], caption: str) -> dict[str, bytes]:
        """Return plots as PNG by the ending of their file names."""


@dataclass(frozen=True)
class WordOutcome(WordScore):
    """Score of the words that the servers of one chip read.

    It extends :class:`optinc_pdk.averaging.score.WordScore` by:

    Attributes:
        saturated: Number of modulator amplitudes that were clipped to full scale.
        fault: Why the chip is unusable; empty if it is usable. The servers of an unusable chip read zeros only.
        estimated_word_error_rate: Estimate for the noise with which words were read, which reaches far below what can
            be counted; see :mod:`optinc_pdk.studies.error_estimate`. None if there was no noise.
        symbol_rate_bd: Highest symbol rate at which an estimate is accepted, 0 if there is none; None if none was
            searched.
    """

    saturated: int
    fault: str = ""
    estimated_word_error_rate: float | None = None
    symbol_rate_bd: float | None = None

    @property
    def form(self) -> tuple[int, int]:
        """Numbers of inputs and of words, which are equal for all samples of a run."""
        return self.inputs, self.words

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as JSON-compatible data."""
        plain = ("inputs", "exact", "words", "wrong", "margin", "saturated", "fault", "estimated_word_error_rate")
        rated = {} if self.symbol_rate_bd is None else {"symbol_rate_bd": self.symbol_rate_bd}
        errors = {str(error): count for error, count in self.errors.items()}
        return {key: getattr(self, key) for key in plain} | rated | {"errors": errors}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> WordOutcome:
        """Build an outcome from the data of :meth:`to_json`, see :meth:`SampleOutcome.from_json`."""
        outcome = cls(**{**data, "errors": {int(error): count for error, count in dict(data["errors"]).items()}})
        inputs, exact, words, wrong = outcome.inputs, outcome.exact, outcome.words, outcome.wrong
        counts = (inputs, exact, words, wrong, outcome.saturated, *outcome.errors.values())
        if not all(type(count) is int for count in counts) or not isinstance(outcome.fault, str):
            raise TypeError("a count is not an integer, or the fault is not a string")
        if not (0 <= exact <= inputs > 0 and 0 <= wrong <= words > 0 and min(counts) >= 0 and max(counts) <= MAX_COUNT):
            raise ValueError("the counts contradict each other")
        inexact = inputs - exact
        if wrong != sum(outcome.errors.values()) or not inexact <= wrong <= inexact * (words // inputs):
            raise ValueError("the errors contradict the counts")
        _check_number(outcome.margin)
        rate = outcome.estimated_word_error_rate
        if rate is not None and (type(rate) not in (int, float) or not 0.0 <= rate <= 1.0):
            raise ValueError("the estimated word-error rate is not a probability")
        highest = outcome.symbol_rate_bd
        if highest is not None and (type(highest) not in (int, float) or not 0.0 <= highest < math.inf):
            raise ValueError("the symbol rate is not a number of at least 0")
        return outcome


@dataclass(frozen=True)
class Quantity:
    """A quantity of the comparison of a chip with its target.

    Attributes:
        key: Name in files.
        text: What it is, for summaries and axes.
        unit: Unit as which it is written: ``%`` for shares, ``dB``, or nothing.
        rising: Whether a larger value is worse.
        limit: Value that a chip must keep to pass; None for no limit.
    """

    key: str
    text: str
    unit: str = ""
    rising: bool = True
    limit: float | None = None

    @property
    def label(self) -> str:
        """Label of a vertical axis, in lines that are short enough for it."""
        return "\n".join(textwrap.wrap(f"{self.text} / {self.unit}" if self.unit else self.text, LABEL))

    @property
    def factor(self) -> float:
        """Factor from values to the unit."""
        return 100.0 if self.unit == "%" else 1.0

    def format(self, value: float) -> str:
        """Return a value as text."""
        return f"{self.factor * value:.4g}{self.unit and ' ' + self.unit}"


@dataclass(frozen=True)
class CheckOutcome:
    """Quantities of one sampled chip that is compared with a matrix or a general network.

    Attributes:
        passed: Whether it keeps all limits.
        values: The quantities by key; empty for an unusable chip.
        fault: Why the chip is unusable; empty if it is usable.
    """

    passed: bool
    values: Mapping[str, float]
    fault: str = ""

    @property
    def form(self) -> tuple[str, ...]:
        """Nothing: unusable chips have no quantities."""
        return ()

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as JSON-compatible data."""
        return {"passed": self.passed, "values": dict(self.values), "fault": self.fault}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CheckOutcome:
        """Build an outcome from the data of :meth:`to_json`, see :meth:`SampleOutcome.from_json`."""
        outcome = cls(**{**data, "values": dict(data["values"])})
        if not isinstance(outcome.passed, bool) or not isinstance(outcome.fault, str):
            raise TypeError("passed is not a bool, or the fault is not a string")
        for value in outcome.values.values():
            _check_number(value)
        if bool(outcome.fault) == bool(outcome.values) or (outcome.fault and outcome.passed):
            raise ValueError("the fault contradicts the values")
        return outcome


def _check_number(value: Any) -> None:
    # compared instead of converted: an integer may be too large for a float
    if type(value) not in (int, float) or not abs(value) <= LARGEST:
        raise ValueError("a value is not finite")


@dataclass(frozen=True)
class SampleShare:
    """Share of samples that passed, with the ends of its 95 % confidence interval, 0 … 1."""

    passed: int
    samples: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """Number of passed samples over number of all samples, 0 … 1."""
        return self.passed / self.samples

    def to_json(self) -> dict[str, Any]:
        """Return the share as JSON-compatible data."""
        return {"share": self.share, "low": self.low, "high": self.high, "passed": self.passed, "samples": self.samples}


def wilson_interval(share: float, trials: int) -> tuple[float, float]:
    """Return the ends of the 95 % interval of a probability from the share of successes of a number of independent
    trials.

    Source:
        Score interval of Wilson, J. Am. Stat. Assoc. 22, 209 (1927).
    """
    square = SIGMAS**2
    scale = 1.0 + square / trials
    middle = (share + square / (2 * trials)) / scale
    half = SIGMAS / scale * math.sqrt(share * (1 - share) / trials + square / (4 * trials**2))
    # for a share of 0 or 1 the interval ends there exactly, in spite of rounding
    return 0.0 if share == 0.0 else max(middle - half, 0.0), 1.0 if share == 1.0 else min(middle + half, 1.0)


def wilson(passed: int, samples: int) -> SampleShare:
    """Return the share of passed samples with Wilson's interval.

    Raises:
        ValueError: There are no samples, or ``passed`` is not within 0 … ``samples``.
    """
    if not 0 <= passed <= samples or samples < 1:
        raise ValueError(f"{passed} of {samples} samples passed; give at least one sample and no more than all")
    return SampleShare(passed, samples, *wilson_interval(passed / samples, samples))


def error_values(outcomes: Iterable[WordOutcome]) -> dict[int, int]:
    """Count the wrong words of all samples by their error, read minus ideal; the most frequent error is first."""
    total: Counter[int] = Counter()
    for outcome in outcomes:
        total.update(outcome.errors)
    return dict(sorted(total.items(), key=lambda item: (-item[1], abs(item[0]), item[0])))


def _faults(outcomes: Iterable[SampleOutcome]) -> list[dict[str, Any]]:
    faults = Counter(outcome.fault for outcome in outcomes if outcome.fault)
    return [{"fault": fault, "count": count} for fault, count in faults.most_common()]


@dataclass(frozen=True)
class WordSummary:
    """Statistics of the words that the servers of sampled chips read.

    Attributes:
        share: Required share of exact inputs, 0 … 1.
    """

    share: float

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
        """Return the number of samples with the required share of exact inputs."""
        return sum(outcome.accuracy >= self.share for outcome in outcomes)

    def mean_lost(self, outcomes: Sequence[WordOutcome]) -> float:
        """Return the share of inexact inputs, averaged over samples."""
        return float(np.mean([1.0 - outcome.accuracy for outcome in outcomes]))

    def numbers(self, outcomes: Sequence[WordOutcome]) -> dict[str, Any]:
        """Return yield, accuracy, word-error rates, margin, errors and faults as JSON-compatible data.

        The estimated word-error rates are None if words were read without noise.
        """
        accuracy = [outcome.accuracy for outcome in outcomes]
        rate = [outcome.word_error_rate for outcome in outcomes]
        margin = [outcome.margin for outcome in outcomes]
        errors = error_values(outcomes)
        wrong = sum(errors.values())
        estimates = [each for outcome in outcomes if (each := outcome.estimated_word_error_rate) is not None]
        estimated = {"median": float(np.median(estimates)), "worst": max(estimates)} if estimates else None
        rated = any(outcome.symbol_rate_bd is not None for outcome in outcomes)
        # an unusable chip has no rate
        rates = [outcome.symbol_rate_bd or 0.0 for outcome in outcomes]
        highest = {"median": float(np.median(rates)), "worst": min(rates)} if rated else None
        return {
            "yield": wilson(self.passed(outcomes), len(outcomes)).to_json(),
            "accuracy": {"mean": float(np.mean(accuracy)), "worst": min(accuracy)},
            "word_error_rate": {"mean": float(np.mean(rate)), "worst": max(rate)},
            "estimated_word_error_rate": estimated,
            "symbol_rate_bd": highest,
            "margin": {"mean": float(np.mean(margin)), "worst": min(margin)},
            "errors": [{"value": value, "count": count, "share": count / wrong} for value, count in errors.items()],
            "faults": _faults(outcomes),
        }

    def pictures(self, stages: Mapping[str, Sequence[WordOutcome]], caption: str) -> dict[str, bytes]:
        """Return the yield curves and the histogram of errors."""
        # matplotlib takes long to import, and a run that is refused draws nothing
        from optinc_pdk.studies.montecarlo.yield_plots import errors_png, yield_png

        return {
            "yield.png": yield_png(stages, self.share, caption),
            "errors.png": errors_png({stage: error_values(values) for stage, values in stages.items()}, caption),
        }


@dataclass(frozen=True)
class CheckSummary:
    """Statistics of the quantities of sampled chips that are compared with a matrix or a general network.

    Attributes:
        quantities: The quantities; the first one is what imperfections cost.
    """

    quantities: tuple[Quantity, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of an outcome in a table."""
        return ("passed", *(quantity.key for quantity in self.quantities))

    @property
    def lost(self) -> tuple[str, str]:
        """What an imperfection costs: the first quantity, or what it lacks to 100 %."""
        first = self.quantities[0]
        return ("lost", f"{first.text} / %" if first.rising else f"100 % - {first.text} / %")

    def row(self, outcome: CheckOutcome) -> tuple[Any, ...]:
        """Return the values of the columns for one outcome."""
        return (int(outcome.passed), *(outcome.values.get(quantity.key, "") for quantity in self.quantities))

    def passed(self, outcomes: Sequence[CheckOutcome]) -> int:
        """Return the number of samples that keep all limits."""
        return sum(outcome.passed for outcome in outcomes)

    def mean_lost(self, outcomes: Sequence[CheckOutcome]) -> float:
        """Return the mean of what the samples lose; an unusable one loses everything."""
        first = self.quantities[0]
        values = [outcome.values.get(first.key) for outcome in outcomes]
        return float(np.mean([1.0 if one is None else one if first.rising else 1.0 - one for one in values]))

    def numbers(self, outcomes: Sequence[CheckOutcome]) -> dict[str, Any]:
        """Return yield, median and worst of every quantity, and faults, as JSON-compatible data.

        Unusable chips count in the yield alone. Median and worst are None if there are no others.
        """
        return {
            "yield": wilson(self.passed(outcomes), len(outcomes)).to_json(),
            "quantities": {quantity.key: _statistics(quantity, outcomes) for quantity in self.quantities},
            "faults": _faults(outcomes),
        }

    def pictures(self, stages: Mapping[str, Sequence[CheckOutcome]], caption: str) -> dict[str, bytes]:
        """Return the picture of the cumulative shares of the samples."""
        # matplotlib takes long to import, and a run that is refused draws nothing
        from optinc_pdk.studies.montecarlo.yield_plots import quantities_png

        return {"yield.png": quantities_png(self.quantities, stages, caption)}


def values_of(quantity: Quantity, outcomes: Sequence[CheckOutcome]) -> Floats:
    """Return the values of a quantity of all usable chips."""
    return np.array([outcome.values[quantity.key] for outcome in outcomes if not outcome.fault])


def _statistics(quantity: Quantity, outcomes: Sequence[CheckOutcome]) -> dict[str, Any]:
    values = values_of(quantity, outcomes)
    found: dict[str, float | None] = {"median": None, "worst": None}
    if values.size:
        found = {"median": float(np.median(values)), "worst": float(values.max() if quantity.rising else values.min())}
    worse = "higher" if quantity.rising else "lower"
    return {"text": quantity.text, "unit": quantity.unit, "worse": worse, "limit": quantity.limit} | found
