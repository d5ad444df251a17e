"""Outcomes of sampled chips that are compared with a matrix or a general network, and their statistics."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.studies.montecarlo.summary import share_numbers, wilson

LABEL = 26
"""Characters of a line of an axis label."""
LARGEST = 1e30
"""Largest magnitude of a value in a file; summaries add them up in double precision."""


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
    """What one sampled chip computes, compared with its target.

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
        """Build an outcome from the data of :meth:`to_json`.

        Raises:
            TypeError: A key is missing or unknown, or a value has the wrong type.
            ValueError: A number is out of range, or an unusable chip passes.
        """
        outcome = cls(**{**data, "values": dict(data["values"])})
        if not isinstance(outcome.passed, bool) or not isinstance(outcome.fault, str):
            raise TypeError("passed is not a bool, or the fault is not a string")
        for value in outcome.values.values():
            # compared instead of converted: an integer may be too large for a float
            if type(value) not in (int, float) or not abs(value) <= LARGEST:
                raise ValueError("a value is not finite")
        if bool(outcome.fault) == bool(outcome.values) or (outcome.fault and outcome.passed):
            raise ValueError("the fault contradicts the values")
        return outcome


@dataclass(frozen=True)
class CheckSummary:
    """Statistics of the outcomes of sampled chips that are compared with a target.

    Attributes:
        quantities: The quantities; the first one decides first.
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
        faults = Counter(outcome.fault for outcome in outcomes if outcome.fault)
        return {
            "yield": share_numbers(wilson(self.passed(outcomes), len(outcomes))),
            "quantities": {quantity.key: _statistics(quantity, outcomes) for quantity in self.quantities},
            "faults": [{"fault": fault, "count": count} for fault, count in faults.most_common()],
        }

    def pictures(self, stages: Mapping[str, Sequence[CheckOutcome]], caption: str) -> dict[str, bytes]:
        """Return the picture of the cumulative shares of the samples."""
        # matplotlib takes long to import, and a run that is refused draws nothing
        from optinc_pdk.studies.montecarlo.check_plots import quantities_png

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
