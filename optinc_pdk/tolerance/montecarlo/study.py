"""Monte-Carlo on an extracted chip: what every sample reads, with all imperfections, one alone and all but one.

Sample i depends on the seed and i only, so neither the number of samples, nor who measures them, nor a break changes
a result. All studies draw from the same random numbers: a sample that has one kind of imperfection alone has it as
in the sample with all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import KINDS
from optinc_pdk.circuit import Bias
from optinc_pdk.drive import RangeError
from optinc_pdk.files import InputError
from optinc_pdk.onn import Onn
from optinc_pdk.signoff.function import Inputs, inputs_of, refuse_other_board
from optinc_pdk.simulate import UnsettledError
from optinc_pdk.simulate.noise import Noise, noise_of
from optinc_pdk.tolerance.calibration.bench import Bench
from optinc_pdk.tolerance.calibration.calibrate import calibrate
from optinc_pdk.tolerance.montecarlo.records import TOLERANCE, Job, Result
from optinc_pdk.tolerance.montecarlo.words import Outcome, no_words, read_words
from optinc_pdk.tolerance.variation.chip import Chip
from optinc_pdk.tolerance.variation.draw import Sample, aged, draw
from optinc_pdk.tolerance.variation.imperfections import Imperfections
from optinc_pdk.tolerance.variation.truth import light

Floats = NDArray[np.float64]
Runner = Callable[[Iterable[Job]], Iterator[tuple[Job, Result]]]

CONTRIBUTION_SAMPLES, CONTRIBUTION_SAMPLES_CALIBRATED = 50, 3
"""Samples at most, from the first, with each imperfection alone, all but it and up to it; calibration takes time."""
TOLERANCE_SAMPLES, TOLERANCE_SAMPLES_CALIBRATED = 20, 2
"""Samples at most, from the first, whose tolerance of each imperfection is searched for."""
BENCH_AVERAGES = 10_000
"""Symbols whose mean is one reading of the bench, 10 ms at 1 MBd."""
BEFORE, BETWEEN, AFTER, DRIFTED = "before", "between", "after", "drifted"
"""Stages of a sample: driven as the bias file says; its heaters fitted; tuned in the loop; some time later."""
NOISE_KINDS = ("laser", "detector")
"""Kinds that no sample is drawn with: they are in its noise."""
STEPS_PER_OCTAVE = 8
LEAST_OCTAVE, MOST_OCTAVE = -16, 8
"""Factors that are tried: 2^-16 … 2^8 in steps of 9 %."""


@dataclass(frozen=True, eq=False)
class Work:
    """What is measured of every sample; workers in other processes get it once.

    Attributes:
        chip: The chip as extracted, with board and bias.
        task: What it is to compute.
        imperfections: What its samples have.
        seed: Seed of all samples.
        target: Share of the inputs that have to be exact.
        noise: Noise while words are read; none where left out.
        onn: The network; samples are calibrated to it where given.
        rates_bd: Symbol rates at which noise is looked at as well, with the laser's power of the card.

    Raises:
        InputError: The task is not the chip's.
    """

    chip: Chip
    task: Averaging
    imperfections: Imperfections
    seed: int
    target: float
    noise: Noise | None = None
    onn: Onn | None = None
    rates_bd: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Refuses a task that is not the chip's."""
        refuse_other_board(self.chip.board, self.task)


class Drive(NamedTuple):
    """What drives a chip: (H,) voltages of its heaters, and its electronics."""

    voltage_v: Floats
    bias: Bias


@lru_cache(maxsize=1)
def _tried(task: Averaging) -> Inputs:
    return inputs_of(task)


def sample_seed(seed: int, sample: int) -> int:
    """The seed of one sample."""
    return int(np.random.SeedSequence((seed, sample)).generate_state(1, np.uint64)[0])


def amounts_of(work: Work) -> dict[str, float]:
    """Kind of imperfection to what a sample has of it, in multiples of the card's; those of noise only where it is."""
    kinds = [kind for kind in KINDS if work.noise is not None or kind not in NOISE_KINDS]
    return {kind: work.imperfections.of(kind) for kind in kinds if work.imperfections.of(kind) > 0.0}


def jobs_of(samples: int, kinds: Sequence[str], calibrated: bool = False) -> list[Job]:
    """All that is to be measured, in the order of its worth.

    Args:
        samples: Number of samples.
        kinds: Imperfections whose contributions and tolerances are asked for.
        calibrated: Whether samples are calibrated, so that fewer of them have to do for these.
    """
    contributions = CONTRIBUTION_SAMPLES_CALIBRATED if calibrated else CONTRIBUTION_SAMPLES
    tolerances = TOLERANCE_SAMPLES_CALIBRATED if calibrated else TOLERANCE_SAMPLES
    jobs = [Job("all", "", sample) for sample in range(samples)]
    first = range(min(samples, contributions))
    if len(kinds) > 1:
        jobs += [Job(study, kind, sample) for study in ("alone", "without") for kind in kinds for sample in first]
        # the first of them is alone, the last one with all
        jobs += [Job("upto", kind, sample) for kind in kinds[1:-1] for sample in first]
    jobs += [Job(TOLERANCE, kind, sample) for kind in kinds for sample in range(min(samples, tolerances))]
    return jobs


def evaluate(work: Work, job: Job) -> Result:
    """Measure one sample.

    Raises:
        InputError: The sample cannot be calculated.
    """
    part = work.imperfections.only(*_kinds_in(job, tuple(amounts_of(work))))
    try:
        if job.study == TOLERANCE:
            return {"factor": bearable(lambda factor: _reaches(work, part, job, factor))}
        return {stage: outcome.to_json() for stage, outcome in stages(work, part, job.sample).items()}
    except ValueError as fault:
        about = f" ({job.study} {job.imperfection!r})" if job.imperfection else ""
        raise InputError(f"sample {job.sample}{about} of {work.chip.name!r} cannot be calculated: {fault}") from fault


def _kinds_in(job: Job, kinds: Sequence[str]) -> Sequence[str]:
    """The kinds that the sample of a job has."""
    if job.study == "all":
        return kinds
    if job.study == "without":
        return [kind for kind in kinds if kind != job.imperfection]
    if job.study == "upto":
        return kinds[: kinds.index(job.imperfection) + 1]
    return [job.imperfection]


def stages(work: Work, imperfections: Imperfections, sample: int) -> dict[str, Outcome]:
    """What one sample reads, by the name of the stage."""
    seed = sample_seed(work.seed, sample)
    drawn = draw(work.chip, imperfections, seed)
    outcomes: dict[str, Outcome] = {}
    noise = noise_in(work.noise, imperfections)
    for stage, made, drive in _drives(work, drawn, imperfections.effective_bits, noise, seed):
        noises = {stage: noise}
        if stage == judged(work):
            for rate in work.rates_bd:
                there = noise_of(work.chip.process, symbol_rate_bd=rate)
                noises[f"{stage} at {rate:.3g} Bd"] = noise_in(there, work.imperfections)
        outcomes |= _read(work, made, drive, imperfections.effective_bits, noises, seed)
    return outcomes


def _read(
    work: Work,
    made: Sample,
    drive: Drive | RangeError,
    bits: float | None,
    noises: Mapping[str, Noise | None],
    seed: int,
) -> dict[str, Outcome]:
    """What a driven sample reads with different noise, by its name."""
    board, tried = work.chip.board, _tried(work.task)
    if isinstance(drive, RangeError):
        return {name: no_words(tried, board, str(drive)) for name in noises}
    try:
        s = light(work.chip, made, drive.voltage_v, bits)
    except RangeError as fault:
        return {name: no_words(tried, board, str(fault)) for name in noises}
    outcomes = {}
    for name, noise in noises.items():
        try:
            outcomes[name] = read_words(s, tried, board, drive.bias, noise, seed)
        except UnsettledError as fault:
            outcomes[name] = no_words(tried, board, str(fault))
    return outcomes


def judged(work: Work) -> str:
    """The stage that contributions and tolerances are of."""
    return BEFORE if work.onn is None else AFTER


def _drives(
    work: Work, drawn: Sample, bits: float | None, noise: Noise | None, seed: int
) -> Iterator[tuple[str, Sample, Drive | RangeError]]:
    """Stages of a sample: its devices, and what drives them or why nothing can."""
    chip = work.chip
    yield BEFORE, drawn, Drive(chip.voltage_v, chip.bias)
    if work.onn is None:
        return
    bench = Bench(chip, drawn, bits, noise, seed, BENCH_AVERAGES)
    fitted: Drive | RangeError
    tuned: Drive | RangeError
    try:
        found = calibrate(bench, chip, work.onn, chip.process)
        fitted, tuned = (Drive(one.voltage_v, one.bias) for one in (found.fitted, found.tuned))
    except RangeError as fault:
        fitted = tuned = fault
    except np.linalg.LinAlgError as fault:
        # readings that no equations fit lose this chip, not the run
        fitted = tuned = RangeError(f"calibration found no numbers: {fault}")
    yield BETWEEN, drawn, fitted
    yield AFTER, drawn, tuned
    yield DRIFTED, aged(drawn), tuned


def noise_in(noise: Noise | None, imperfections: Imperfections) -> Noise | None:
    """The noise of a sample: amounts of lasers and detectors multiply standard deviations; None without both."""
    laser, detector = (imperfections.of(kind) for kind in NOISE_KINDS)
    if noise is None or laser == detector == 0.0:
        return None
    return replace(
        noise,
        intensity_per_hz=laser**2 * noise.intensity_per_hz,
        linewidth_hz=laser**2 * noise.linewidth_hz,
        fibre_phase_rad=laser * noise.fibre_phase_rad,
        receiver_a_per_sqrt_hz=detector * noise.receiver_a_per_sqrt_hz,
        shot=noise.shot and detector > 0.0,
    )


def _reaches(work: Work, imperfections: Imperfections, job: Job, factor: float) -> bool:
    """Whether a sample with a multiple of one imperfection reaches its target."""
    scaled = imperfections.scaled(job.imperfection, factor)
    try:
        # of losses that overflow it is told below
        with np.errstate(over="ignore", invalid="ignore"):
            return stages(work, scaled, job.sample)[judged(work)].accuracy >= work.target
    except InputError:
        if factor <= 1.0:
            raise
        # more than the run's own amount, and beyond what drive or models can be
        return False


def bearable(reaches: Callable[[float], bool]) -> float | None:
    """Largest factor of those tried with which a sample reaches its target, by bisection; 0 where none does.

    Takes more of an imperfection to be worse. None where even the largest factor is borne.
    """
    low, high = LEAST_OCTAVE * STEPS_PER_OCTAVE - 1, MOST_OCTAVE * STEPS_PER_OCTAVE + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if reaches(2.0 ** (middle / STEPS_PER_OCTAVE)) else (low, middle)
    if low == MOST_OCTAVE * STEPS_PER_OCTAVE:
        return None
    return 0.0 if low < LEAST_OCTAVE * STEPS_PER_OCTAVE else 2.0 ** (low / STEPS_PER_OCTAVE)


def serial(work: Work, jobs: Iterable[Job]) -> Iterator[tuple[Job, Result]]:
    """Measure samples one after another, in this process."""
    for job in jobs:
        yield job, evaluate(work, job)
