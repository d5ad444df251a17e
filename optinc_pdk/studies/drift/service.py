"""A sampled chip in service: calibrated, then drifting, with and without tracking; words against time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Floats
from optinc_pdk.circuit import Bias
from optinc_pdk.errors import InputError
from optinc_pdk.networks import AveragingNetwork
from optinc_pdk.simulate.programming.phase_fit import ProgrammingProblem
from optinc_pdk.simulate.programming.targets import layer_targets
from optinc_pdk.studies.calibration.end_to_end import electronics_of, sample_words, with_electronics
from optinc_pdk.studies.calibration.heater_model import design_heater_model
from optinc_pdk.studies.calibration.measurement import bench_layers
from optinc_pdk.studies.calibration.procedure import ChipSetting, calibrate
from optinc_pdk.studies.calibration.virtual_bench import VirtualBench
from optinc_pdk.studies.chip_checks import BENCH_AVERAGES, WordCheck
from optinc_pdk.studies.drift.drift_points import DriftPoint, check_steps
from optinc_pdk.studies.drift.pilot_words import choose_pilots
from optinc_pdk.studies.drift.scenarios import DriftScenario, samples_in_time
from optinc_pdk.studies.drift.tracking import track
from optinc_pdk.studies.drift.tracking_learning import learn_again, learn_tracking
from optinc_pdk.studies.drift.tracking_model import ServiceSetting, TrackingModel
from optinc_pdk.studies.montecarlo.study import YieldStudy, sample_seed, scaled_noise
from optinc_pdk.studies.outcomes import WordOutcome
from optinc_pdk.studies.variation.sampling import ChipSample, draw_sample

Progress = Callable[[], None]

CHECKS = 25
"""Times in a scenario, besides its start, at which all words are read."""


@dataclass(frozen=True)
class ServiceEffort:
    """Effort of tracking one chip in one scenario.

    Attributes:
        sample: Index of the sample.
        scenario: Name of the scenario.
        steps: Number of tracking steps.
        pilots: Number of pilot words.
        transmissions: Number of settings at which they are sent in one round.
        rounds: Number of rounds of all steps.
        learnt: Number of times that the linear model was measured again.
        turns: Number of whole turns of heaters.
        processor_s: Processor time of all steps, without the simulation of the chip.
    """

    sample: int
    scenario: str
    steps: int
    pilots: int
    transmissions: int
    rounds: int
    learnt: int
    turns: int
    processor_s: float


class TimedBench:
    """A virtual bench that measures the processor time of its simulation.

    Attributes:
        channels: See :class:`optinc_pdk.studies.calibration.measurement.BenchProtocol`; so are the next ones.
        sources: As above.
        detectors: As above.
        full_scale_v: As above.
        step_v: As above.
        averages: As above.
        bench: The bench.
        simulated_s: Processor time of its readings so far.
    """

    def __init__(self, bench: VirtualBench) -> None:
        """Wrap a bench."""
        self.bench, self.simulated_s = bench, 0.0
        self.channels, self.sources, self.detectors = bench.channels, bench.sources, bench.detectors
        self.full_scale_v, self.step_v = bench.full_scale_v, bench.step_v

    @property
    def averages(self) -> int:
        """Number of readings that each returned reading is the mean of."""
        return self.bench.averages

    @averages.setter
    def averages(self, count: int) -> None:
        self.bench.averages = count

    @property
    def settings(self) -> int:
        """Number of heater settings applied so far."""
        return self.bench.settings

    @settings.setter
    def settings(self, count: int) -> None:
        self.bench.settings = count

    @property
    def readings(self) -> int:
        """Number of single photodiode readings taken so far."""
        return self.bench.readings

    @readings.setter
    def readings(self, count: int) -> None:
        self.bench.readings = count

    def read(self, voltage_v: ArrayLike, amplitude: ArrayLike) -> Floats:
        """Read the photodiodes, see :meth:`VirtualBench.read`."""
        start = time.process_time()
        read = self.bench.read(voltage_v, amplitude)
        self.simulated_s += time.process_time() - start
        return read


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
    bench: TimedBench
    model: TrackingModel
    setting: ServiceSetting
    bias: Bias

    def words(self, sample: ChipSample, setting: ServiceSetting, step: int = 0) -> WordOutcome:
        """Return the words that servers read of a chip at a setting, with the noise of the study.

        Args:
            sample: The chip.
            setting: The setting.
            step: Number of the tracking step, on which the random numbers of the noise depend.
        """
        work, chip = self.work, self.work.chip
        bias = with_electronics(self.bias, chip.board, self.model.layers, setting.electronics)
        conditions = work.conditions(work.imperfections, sample_seed(self.sample.seed, step))
        outcome: WordOutcome = work.outcome_of(sample, ChipSetting(setting.voltage_v, bias, np.zeros(0)), conditions)
        return outcome


def start_service(work: YieldStudy, index: int) -> ServiceChip:
    """Sample a chip, calibrate it, and measure what tracking needs.

    Args:
        work: Parameters of the samples, with a network.
        index: Index of the sample.

    Raises:
        InputError: The study has no network.
        RangeError: The chip cannot be calibrated within the range of its drive and its electronics.
    """
    onn, chip, process = _network(work), work.chip, work.chip.process
    seed, bits = sample_seed(work.seed, index), work.imperfections.effective_bits
    sample = draw_sample(chip, work.imperfections, seed)
    noise = scaled_noise(work.noise, work.imperfections)
    bench = TimedBench(VirtualBench(chip, sample, bits, noise, seed, BENCH_AVERAGES))
    found = calibrate(bench, chip, onn, process)
    problem = ProgrammingProblem(
        chip.structure, chip.board, layer_targets(onn, chip.board), float(process.guide.wavelength_nm), process
    )
    layers = bench_layers(problem, bench)
    pilots = choose_pilots(sample_words(onn.task, layers), layers)
    electronics = electronics_of(found.tuned.bias, chip.board, layers)
    voltage_v = found.tuned.voltage_v
    setting = ServiceSetting(voltage_v, electronics, np.zeros_like(voltage_v))
    heaters = design_heater_model(chip, bench)
    # tracking sends the same pilots at several settings
    bench.bench.reuses_batches = True
    model = learn_tracking(bench, layers, heaters, 2.0 * np.pi / found.efficiency, process, pilots, setting)
    return ServiceChip(work, index, sample, bench, model, setting, found.tuned.bias)


def _network(work: YieldStudy) -> AveragingNetwork:
    onn: AveragingNetwork | None = work.check.onn if isinstance(work.check, WordCheck) else None
    if onn is None:
        raise InputError("drift is that of calibrated chips: give a network")
    return onn


def drift_points(
    service: ServiceChip, scenario: DriftScenario, hours: float, tracked: bool, progress: Progress | None = None
) -> tuple[list[DriftPoint[WordOutcome]], ServiceEffort]:
    """Let a chip drift and read its words in time.

    Args:
        service: The chip at the start of its service.
        scenario: What changes.
        hours: Whole time.
        tracked: Whether the chip is tracked.
        progress: Called after each time at which words are read.

    Returns:
        Words in time, the start included, and the effort of tracking.

    Raises:
        InputError: The time is not positive, or the card has no temperature coefficient.
    """
    work = service.work
    states = samples_in_time(work.chip, service.sample, work.imperfections, scenario, hours)
    checks = check_steps(len(states), CHECKS)
    points: list[DriftPoint[WordOutcome]] = []

    def add(step: int, outcomes: Iterable[WordOutcome]) -> None:
        worst = min(outcomes, key=lambda one: (one.exact, one.margin))
        points.append(DriftPoint(service.index, scenario.name, tracked, step / len(states), worst))
        if progress is not None:
            progress()

    setting, model = service.setting, service.model
    rounds = learnt = turns = 0
    spent = 0.0
    add(0, [service.words(service.sample, setting, 0)])
    for step, state in enumerate(states, start=1):
        before = [service.words(state, setting, step)] if step in checks else []
        if tracked:
            service.bench.bench.hold(state)
            start, simulated = time.process_time(), service.bench.simulated_s
            setting, effort = track(service.bench, model, setting)
            spent += time.process_time() - start - (service.bench.simulated_s - simulated)
            rounds, turns = rounds + effort.rounds, turns + effort.turns
            if not effort.settled and not effort.turns:
                model, learnt = learn_again(service.bench, model, setting), learnt + 1
            if before:
                before.append(service.words(state, setting, step))
        if before:
            add(step, before)
    service.bench.bench.hold(service.sample)
    pilots = len(model.pilots.amplitude)
    sent = (pilots, len(model.references)) if tracked else (0, 0)
    steps = len(states) if tracked else 0
    return points, ServiceEffort(service.index, scenario.name, steps, *sent, rounds, learnt, turns, max(spent, 0.0))
