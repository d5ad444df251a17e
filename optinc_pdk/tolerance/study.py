"""Monte-Carlo on an extracted chip: what every sample reads, with all imperfections, one alone and all but one.

Sample i depends on the seed and i only, so neither the number of samples, nor who measures them, nor a break changes
a result. All studies draw from the same random numbers: a sample that has one kind of imperfection alone has it as
in the sample with all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import KINDS
from optinc_pdk.files import InputError
from optinc_pdk.onn import Onn
from optinc_pdk.signoff.function import Inputs, inputs_of
from optinc_pdk.simulate.noise import Noise
from optinc_pdk.tolerance.chip import Chip
from optinc_pdk.tolerance.draw import draw
from optinc_pdk.tolerance.imperfections import Imperfections
from optinc_pdk.tolerance.records import Job, Result
from optinc_pdk.tolerance.truth import light
from optinc_pdk.tolerance.words import Outcome, read_words

Runner = Callable[[Iterable[Job]], Iterator[tuple[Job, Result]]]

CONTRIBUTION_SAMPLES = 50
"""Samples at most, from the first, with each imperfection alone and with all but it."""
NOISE_KINDS = ("laser", "detector")
"""Kinds that no sample is drawn with: they are in its noise."""
TOLERANCE_SAMPLES = 20
"""Samples at most, from the first, whose tolerance of each imperfection is searched for."""
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
    """

    chip: Chip
    task: Averaging
    imperfections: Imperfections
    seed: int
    target: float
    noise: Noise | None = None
    onn: Onn | None = None


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


def jobs_of(samples: int, kinds: Sequence[str]) -> list[Job]:
    """All that is to be measured, in the order of its worth.

    Args:
        samples: Number of samples.
        kinds: Imperfections whose contributions and tolerances are asked for.
    """
    jobs = [Job("all", "", sample) for sample in range(samples)]
    first = range(min(samples, CONTRIBUTION_SAMPLES))
    if len(kinds) > 1:
        jobs += [Job(study, kind, sample) for study in ("alone", "without") for kind in kinds for sample in first]
        # the first of them is alone, the last one with all
        jobs += [Job("upto", kind, sample) for kind in kinds[1:-1] for sample in first]
    jobs += [Job("tolerance", kind, sample) for kind in kinds for sample in range(min(samples, TOLERANCE_SAMPLES))]
    return jobs


def evaluate(work: Work, job: Job) -> Result:
    """Measure one sample.

    Raises:
        InputError: The sample cannot be calculated.
    """
    part = work.imperfections.only(*_kinds_in(job, tuple(amounts_of(work))))
    try:
        if job.study == "tolerance":
            return {
                "factor": bearable(lambda factor: _reaches(work, part.scaled(job.imperfection, factor), job.sample))
            }
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
    """What one sample reads with the bias of its file, by the name of the stage."""
    seed = sample_seed(work.seed, sample)
    drawn = draw(work.chip, imperfections, seed)
    s = light(work.chip, drawn, work.chip.voltage_v, imperfections.effective_bits)
    noise = noise_in(work, imperfections)
    return {"before": read_words(s, _tried(work.task), work.chip.board, work.chip.bias, noise, seed)}


def noise_in(work: Work, imperfections: Imperfections) -> Noise | None:
    """The noise of a sample: amounts of lasers and detectors multiply standard deviations; None without both."""
    laser, detector = (imperfections.of(kind) for kind in NOISE_KINDS)
    if work.noise is None or laser == detector == 0.0:
        return None
    return replace(
        work.noise,
        intensity_per_hz=laser**2 * work.noise.intensity_per_hz,
        linewidth_hz=laser**2 * work.noise.linewidth_hz,
        fibre_phase_rad=laser * work.noise.fibre_phase_rad,
        receiver_a_per_sqrt_hz=detector * work.noise.receiver_a_per_sqrt_hz,
        shot=work.noise.shot and detector > 0.0,
    )


def _reaches(work: Work, imperfections: Imperfections, sample: int) -> bool:
    *_, last = stages(work, imperfections, sample).values()
    return last.accuracy >= work.target


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
