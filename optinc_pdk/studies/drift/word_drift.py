"""Drift of chips that average words, with and without tracking: statistics, table and text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optinc_pdk.studies.drift.drift_points import DriftPoint
from optinc_pdk.studies.drift.plots import DriftPanel
from optinc_pdk.studies.drift.scenarios import DriftScenario
from optinc_pdk.studies.drift.service import ServiceChip, ServiceEffort, drift_points, start_service
from optinc_pdk.studies.montecarlo.study import YieldStudy
from optinc_pdk.studies.montecarlo.summary_text import percent, rate_text
from optinc_pdk.studies.outcomes import WordOutcome

PANELS = (
    DriftPanel("exact words / %", 100.0, (-3.0, 103.0)),
    DriftPanel("margin in levels", 1.0, (-0.52, 0.52), 0.0, -0.5),
)
"""Share of exact words, and margin."""


@dataclass(frozen=True, eq=False)
class WordDrift:
    """Drift of the samples of a study of words, see :class:`optinc_pdk.studies.drift.drift_run.DriftStudy`.

    Attributes:
        work: Parameters of the samples, with a network.
    """

    work: YieldStudy

    columns = ("inputs", "exact", "accuracy", "words", "wrong", "margin", "fault", "estimated_word_error_rate")
    panels = PANELS
    tracking = "tracking"

    def start(self, index: int) -> ServiceChip:
        """Sample and calibrate a chip, and measure what tracking needs."""
        return start_service(self.work, index)

    def run(
        self, service: ServiceChip, scenario: DriftScenario, hours: float, tracked: bool
    ) -> tuple[list[DriftPoint[WordOutcome]], ServiceEffort]:
        """Let a chip drift and read its words in time."""
        return drift_points(service, scenario, hours, tracked)

    def row(self, outcome: WordOutcome) -> tuple[Any, ...]:
        """Return the values of the columns."""
        return tuple(getattr(outcome, column) for column in self.columns)

    def values(self, outcome: WordOutcome) -> tuple[float, ...]:
        """Return the values of the panels."""
        return outcome.accuracy, outcome.margin

    def statistics(self, points: Sequence[DriftPoint[WordOutcome]]) -> dict[str, Any]:
        """Return the statistics of all chips in one scenario, with or without tracking."""

        end = [one.outcome for one in points if one.share == 1.0]
        chips = {one.sample for one in points}
        lost = {one.sample for one in points if one.outcome.exact < one.outcome.inputs}
        estimates = [each for one in points if (each := one.outcome.estimated_word_error_rate) is not None]
        return {
            "accuracy_mean": sum(one.accuracy for one in end) / len(end),
            "accuracy_worst": min(one.accuracy for one in end),
            "word_error_rate_mean": sum(one.wrong / one.words for one in end) / len(end),
            "accuracy_worst_ever": min(one.outcome.accuracy for one in points),
            "margin_worst_ever": min(one.outcome.margin for one in points),
            "exact_at_start": sum(one.outcome.exact == one.outcome.inputs for one in points if one.share == 0.0),
            "always_exact": len(chips) - len(lost),
            "words_ever": sum(one.outcome.words for one in points),
            "wrong_ever": sum(one.outcome.wrong for one in points),
            "estimated_word_error_rate_worst_ever": max(estimates, default=None),
        }

    def effort(self, efforts: Sequence[ServiceEffort]) -> dict[str, Any]:
        """Return the effort of tracking in one scenario, averaged over chips."""
        steps = sum(one.steps for one in efforts)
        return {
            "pilots": efforts[0].pilots,
            "transmissions": efforts[0].transmissions,
            "rounds_per_step": sum(one.rounds for one in efforts) / steps,
            "processor_s_per_step": sum(one.processor_s for one in efforts) / steps,
            "learnt_again": sum(one.learnt for one in efforts) / len(efforts),
            "whole_turns": sum(one.turns for one in efforts) / len(efforts),
        }


def word_lines(numbers: Mapping[str, Any]) -> list[str]:
    """Return the table of a run with words, and the effort of tracking.

    Args:
        numbers: Result of a run.
    """
    start = numbers["scenarios"][0]["untracked"]["exact_at_start"]
    lines = [
        f"before the drift, all words are exact on {start} of {numbers['samples']}",
        "scenario   tracking  words exact at the end: mean, worst  chips exact throughout  margin, worst  "
        "words wrong at any time",
    ]
    for row in numbers["scenarios"]:
        for key, text in (("untracked", "no"), ("tracked", "yes")):
            one = row[key]
            share = f"{percent(one['accuracy_mean'])}, {percent(one['accuracy_worst'])}"
            chips = f"{one['always_exact']} of {numbers['samples']}"
            wrong, margin = f"{one['wrong_ever']:,} of {one['words_ever']:,}", f"{one['margin_worst_ever']:.2f}"
            if (estimate := one["estimated_word_error_rate_worst_ever"]) is not None:
                wrong += f", estimate at most {rate_text(estimate)}"
            lines.append(f"{row['name']:<10} {text:<9} {share:<36} {chips:<23} {margin:<14} {wrong}")
    first = numbers["scenarios"][0]
    most = max(row["processor_s_per_step"] for row in numbers["scenarios"])
    lines.append(
        f"tracking: {first['pilots']} pilot words at {first['transmissions']} settings; at most {1e3 * most:.1f} ms of "
        "processor time per step"
    )
    return lines
