"""Drift of chips that average words, with and without tracking: words against time, statistics, table and text."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optinc_pdk.circuit import Bias
from optinc_pdk.errors import InputError
from optinc_pdk.networks import AveragingNetwork
from optinc_pdk.simulate.modulator_drive import modulator_of
from optinc_pdk.simulate.programming.targets import layer_targets
from optinc_pdk.studies.calibration._heater_model import design_heater_model
from optinc_pdk.studies.calibration._measurement import bench_layers
from optinc_pdk.studies.calibration._procedure import ChipSetting, calibrate, programming_problem
from optinc_pdk.studies.calibration._virtual_bench import VirtualBench
from optinc_pdk.studies.calibration._word_transmission import electronics_of, sample_words, with_electronics
from optinc_pdk.studies.chip_checks import BENCH_AVERAGES
from optinc_pdk.studies.drift.drift_picture import DriftPanel
from optinc_pdk.studies.drift.scenarios import DriftPoint, DriftScenario, outcomes_in_time, samples_in_time
from optinc_pdk.studies.drift.tracking import (
    ServiceSetting,
    TrackingModel,
    choose_pilots,
    learn_again,
    learn_tracking,
    track,
)
from optinc_pdk.studies.montecarlo.study import YieldStudy, sample_seed, scaled_noise
from optinc_pdk.studies.montecarlo.summary_text import percent, rate_text
from optinc_pdk.studies.outcomes import WordOutcome
from optinc_pdk.studies.variation.sampling import ChipSample, draw_sample

CHECKS = 25
"""Times in a scenario, besides its start, at which all words are read."""
PANELS = (
    DriftPanel("exact words / %", 100.0, (-3.0, 103.0)),
    DriftPanel("margin in levels", 1.0, (-0.52, 0.52), 0.0, -0.5),
)
"""Share of exact words, and margin."""


@dataclass(frozen=True)
class ServiceEffort:
    """Effort of tracking one chip in one scenario.

    Attributes:
        steps: Number of tracking steps.
        pilots: Number of pilot words.
        transmissions: Number of settings at which they are sent in one round.
        rounds: Number of rounds of all steps.
        learnt: Number of times that the linear model was measured again.
        turns: Number of whole turns of heaters.
        processor_s: Processor time of all steps, without the simulation of the chip.
    """

    steps: int
    pilots: int
    transmissions: int
    rounds: int
    learnt: int
    turns: int
    processor_s: float


@dataclass(frozen=True, eq=False)
class ServiceChip:
    """A sampled and calibrated chip at the start of its service.

    Attributes:
        work: Parameters of the samples.
        index: Index of the sample.
        sample: Its parameters, which tracking must not use.
        bench: The bench with the chip, for what tracking reads.
        model: What tracking knows of the chip.
        setting: The calibrated setting.
        bias: Bias with this setting.
    """

    work: YieldStudy
    index: int
    sample: ChipSample
    bench: VirtualBench
    model: TrackingModel
    setting: ServiceSetting
    bias: Bias

    def words(self, sample: ChipSample, setting: ServiceSetting, step: int = 0) -> WordOutcome:
        """Return the words that servers read of a chip at a setting, with the noise of the study.

        The random numbers of the noise depend on the tracking step.
        """
        work, chip = self.work, self.work.chip
        bias = with_electronics(self.bias, chip.board, self.model.layers, setting.electronics)
        conditions = work.conditions(work.imperfections, sample_seed(self.sample.seed, step))
        outcome: WordOutcome = work.outcome_of(sample, ChipSetting(setting.voltage_v, bias, np.zeros(0)), conditions)
        return outcome


def start_service(work: YieldStudy, index: int) -> ServiceChip:
    """Sample a chip, calibrate it, and measure what tracking needs.

    Raises:
        InputError: The study has no network.
        RangeError: The chip cannot be calibrated within the range of its drive and its electronics.
    """
    chip, process = work.chip, work.chip.process
    onn: AveragingNetwork | None = getattr(work.check, "onn", None)
    if onn is None:
        raise InputError("drift is that of calibrated chips: give a network")
    seed, bits = sample_seed(work.seed, index), work.imperfections.effective_bits
    sample = draw_sample(chip, work.imperfections, seed)
    noise = scaled_noise(work.noise, work.imperfections)
    bench = VirtualBench(chip, sample, bits, noise, seed, BENCH_AVERAGES)
    found = calibrate(bench, chip, onn)
    layers = bench_layers(
        programming_problem(chip, layer_targets(onn, chip.board, swing=process.activation.analogue_swing)), bench
    )
    pilots = choose_pilots(sample_words(onn.task, layers, modulator_of(chip.process)))
    electronics = electronics_of(found.tuned.bias, chip.board, layers)
    voltage_v = found.tuned.voltage_v
    setting = ServiceSetting(voltage_v, electronics, np.zeros_like(voltage_v))
    heaters = design_heater_model(chip, bench)
    # tracking sends the same pilots at several settings
    bench.reuses_batches = True
    model = learn_tracking(bench, layers, heaters, 2.0 * np.pi / found.efficiency, process, pilots, setting)
    return ServiceChip(work, index, sample, bench, model, setting, found.tuned.bias)


def drift_points(
    service: ServiceChip, scenario: DriftScenario, hours: float, tracked: bool
) -> tuple[list[DriftPoint[WordOutcome]], ServiceEffort]:
    """Let a chip drift, from the start of its service, and read its words in time.

    Returns:
        Words in time, the start included, and the effort of tracking.

    Raises:
        InputError: The time is not positive, or the card has no temperature coefficient.
    """
    work, bench = service.work, service.bench
    states = samples_in_time(work.chip, service.sample, work.imperfections, scenario, hours)
    setting, model = service.setting, service.model
    rounds = learnt = turns = 0
    spent = 0.0

    def words(state: ChipSample, step: int) -> WordOutcome:
        return service.words(state, setting, step)

    def follow(state: ChipSample, step: int) -> None:
        nonlocal setting, model, rounds, learnt, turns, spent
        bench.hold(state)
        start, simulated = time.process_time(), bench.simulated_s
        setting, effort = track(bench, model, setting)
        spent += time.process_time() - start - (bench.simulated_s - simulated)
        rounds, turns = rounds + effort.rounds, turns + effort.turns
        if not effort.settled and not effort.turns:
            model, learnt = learn_again(bench, model, setting), learnt + 1

    found = [(0.0, [words(service.sample, 0)])]
    found += outcomes_in_time(states, CHECKS, words, follow if tracked else None, True)
    bench.hold(service.sample)
    points = [
        DriftPoint(service.index, scenario.name, tracked, share, min(some, key=lambda one: (one.exact, one.margin)))
        for share, some in found
    ]
    sent = (len(states), len(model.pilots.amplitude), len(model.references)) if tracked else (0, 0, 0)
    return points, ServiceEffort(*sent, rounds, learnt, turns, max(spent, 0.0))


@dataclass(frozen=True, eq=False)
class WordDrift:
    """Drift of the samples of a study of words, with a network."""

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
    """Return the table of the results of a run with words, and the effort of tracking."""
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
