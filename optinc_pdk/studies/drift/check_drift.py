"""Drift of chips that are compared with a matrix or a general network, with and without calibration in service.

Such chips send no pilot words. From time to time the bench tunes the chip in the loop instead, from the setting in use.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from optinc_pdk.drive import RangeError
from optinc_pdk.simulate import UnsettledError
from optinc_pdk.studies.chip_checks import AFTER, BiasedSetting, SampleConditions
from optinc_pdk.studies.drift.drift_picture import DriftPanel
from optinc_pdk.studies.drift.scenarios import DriftPoint, DriftScenario, outcomes_in_time, samples_in_time
from optinc_pdk.studies.montecarlo.study import YieldStudy, sample_seed
from optinc_pdk.studies.montecarlo.summary_text import percent
from optinc_pdk.studies.outcomes import CheckOutcome, CheckSummary, Quantity
from optinc_pdk.studies.variation.sampling import ChipSample, draw_sample

CALIBRATIONS = 10
"""Times in a scenario, besides its start, at which a chip is checked and calibrated again."""


@dataclass(frozen=True, eq=False)
class CalibratedChip:
    """A sampled and calibrated chip, by its index, at the start of its service, with its drive and noise."""

    index: int
    sample: ChipSample
    setting: BiasedSetting
    conditions: SampleConditions


@dataclass(frozen=True)
class CalibrationEffort:
    """Effort of calibrating one chip in service in one scenario.

    Attributes:
        calibrations: Number of calibrations.
        settings: Number of heater settings that they applied.
        failed: Number of calibrations that the range of the drive or of the electronics did not allow; the chip keeps
            its setting.
    """

    calibrations: int
    settings: int
    failed: int


@dataclass(frozen=True, eq=False)
class CheckDrift:
    """Drift of the samples of a study with a matrix or a general network."""

    work: YieldStudy

    tracking = "calibration in service"

    @property
    def columns(self) -> tuple[str, ...]:
        """Verdict, quantities and fault."""
        return (*self.work.summary.columns, "fault")

    @property
    def _shown(self) -> tuple[Quantity, ...]:
        """The first two quantities."""
        return cast("CheckSummary", self.work.summary).quantities[:2]

    @property
    def panels(self) -> tuple[DriftPanel, ...]:
        """The first two quantities, with their limits."""
        return tuple(DriftPanel(one.label, one.factor, None, one.limit) for one in self._shown)

    def start(self, index: int) -> CalibratedChip:
        """Sample and calibrate a chip.

        Raises:
            RangeError: It cannot be calibrated within the range of its drive and its electronics.
        """
        work, seed = self.work, sample_seed(self.work.seed, index)
        sample, conditions = draw_sample(work.chip, work.imperfections, seed), work.conditions(work.imperfections, seed)
        try:
            setting = work.check.calibrated(sample, conditions)[AFTER]
        except (UnsettledError, np.linalg.LinAlgError) as fault:
            raise RangeError(str(fault)) from fault
        return CalibratedChip(index, sample, setting, conditions)

    def run(
        self, service: CalibratedChip, scenario: DriftScenario, hours: float, tracked: bool
    ) -> tuple[list[DriftPoint[CheckOutcome]], CalibrationEffort]:
        """Let a chip drift and compare it with its target in time, before and after each calibration."""
        work, setting = self.work, service.setting
        # only checks of matrices and general networks tune chips in service
        check: Any = work.check
        states = samples_in_time(work.chip, service.sample, work.imperfections, scenario, hours)
        applied = failed = 0

        def conditions(step: int) -> SampleConditions:
            return replace(service.conditions, seed=sample_seed(service.conditions.seed, step))

        def outcome(state: ChipSample, step: int) -> CheckOutcome:
            found: CheckOutcome = work.outcome_of(state, setting, conditions(step))
            return found

        def calibrate(state: ChipSample, step: int) -> None:
            nonlocal setting, applied, failed
            try:
                setting, count = check.recalibrated(state, conditions(step), setting)
            except (RangeError, UnsettledError, np.linalg.LinAlgError):
                failed += 1
            else:
                applied += count

        found = [(0.0, [work.outcome_of(service.sample, setting, service.conditions)])]
        found += outcomes_in_time(states, CALIBRATIONS, outcome, calibrate if tracked else None, False)
        points = [
            DriftPoint(service.index, scenario.name, tracked, share, each) for share, some in found for each in some
        ]
        return points, CalibrationEffort(len(found) - 1 if tracked else 0, applied, failed)

    def row(self, outcome: CheckOutcome) -> tuple[Any, ...]:
        """Return the values of the columns."""
        return (*self.work.summary.row(outcome), outcome.fault)

    def values(self, outcome: CheckOutcome) -> tuple[float, ...]:
        """Return the values of the panels."""
        return tuple(outcome.values.get(one.key, math.nan) for one in self._shown)

    def statistics(self, points: Sequence[DriftPoint[CheckOutcome]]) -> dict[str, Any]:
        """Return the statistics of all chips in one scenario: at the end, after the last calibration; at any time."""
        failed = {one.sample for one in points if not one.outcome.passed}
        last = {one.sample: one.outcome for one in points if one.share == 1.0}
        ever = self.work.summary.numbers([one.outcome for one in points])["quantities"]
        return {
            **self.work.summary.numbers(list(last.values())),
            "passed_at_start": sum(one.outcome.passed for one in points if one.share == 0.0),
            "always_passed": len({one.sample for one in points} - failed),
            "worst_ever": {key: one["worst"] for key, one in ever.items()},
        }

    def effort(self, efforts: Sequence[CalibrationEffort]) -> dict[str, Any]:
        """Return the effort of the calibrations in one scenario, averaged over chips."""
        count = sum(one.calibrations for one in efforts)
        return {
            "calibrations": efforts[0].calibrations,
            "settings_per_calibration": sum(one.settings for one in efforts) / count,
            "failed_calibrations": sum(one.failed for one in efforts),
        }


def checked_lines(numbers: Mapping[str, Any]) -> list[str]:
    """Return the table of the results of a run, and the effort of the calibrations."""
    first = next(iter(numbers["scenarios"][0]["tracked"]["quantities"].values()))
    start = numbers["scenarios"][0]["untracked"]["passed_at_start"]
    lines = [
        f"before the drift, {start} of {numbers['samples']} pass",
        "scenario   calibrated in service  pass at the end  pass throughout  "
        f"{first['text']}: worst at the end, at any time",
    ]
    for row in numbers["scenarios"]:
        for key, text in (("untracked", "no"), ("tracked", "yes")):
            one = row[key]
            passed, always = (
                f"{count} of {numbers['samples']}" for count in (one["yield"]["passed"], one["always_passed"])
            )
            end = next(iter(one["quantities"].values()))["worst"]
            worst = (end, next(iter(one["worst_ever"].values())))
            shown = ", ".join("unusable" if each is None else percent(each) for each in worst)
            lines.append(f"{row['name']:<10} {text:<22} {passed:<16} {always:<16} {shown}")
    rows = numbers["scenarios"]
    most = max(row["settings_per_calibration"] for row in rows)
    failed = sum(row["failed_calibrations"] for row in rows)
    lines.append(
        f"calibration in service: {rows[0]['calibrations']} times in each scenario; a calibration applies {most:.0f} "
        f"heater settings in the mean of the scenario that needs most; {failed} failed"
    )
    return lines
