"""Evaluation of the jobs of a Monte-Carlo analysis.

Without calibration, samples differ in their parameters only. Their S-parameters are calculated as batches: every job
is a generator that requests the S-parameters of samples, and several jobs run at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

import numpy as np

from optinc_pdk.drive import RangeError
from optinc_pdk.errors import InputError
from optinc_pdk.simulate import Scattering, UnsettledError
from optinc_pdk.studies.montecarlo.records import TOLERANCE, Result, SampleJob
from optinc_pdk.studies.montecarlo.sample_study import AnyStudy, amounts_of, sample_seed
from optinc_pdk.studies.variation.imperfections import Imperfections
from optinc_pdk.studies.variation.nominal_chip import NominalChip
from optinc_pdk.studies.variation.sampled_response import sample_scatterings
from optinc_pdk.studies.variation.sampling import ChipSample, draw_sample

TOGETHER = 16
"""Samples whose S-parameters are calculated as one batch."""
STEPS_PER_OCTAVE = 8
MIN_OCTAVE, MAX_OCTAVE = -16, 8
"""Factors tried in tolerance searches: 2^-16 … 2^8 in steps of 9 %."""


class SampleRequest(NamedTuple):
    """Request for the S-parameters of a sample with the bias of the file.

    Attributes:
        sample: Sampled device parameters.
        effective_bits: Effective bits of the drive; None if voltages are not rounded.
    """

    sample: ChipSample
    effective_bits: float | None


Evaluation = Generator[SampleRequest, "Scattering | ValueError", Result]
"""Evaluation of a job: it requests S-parameters, which are sent back, or the error of a sample that has none."""


def run_serially(work: AnyStudy, jobs: Iterable[SampleJob]) -> Iterator[tuple[SampleJob, Result]]:
    """Evaluate jobs in this process, and yield each job with its result as soon as it is finished."""
    if not work.calibrated:
        yield from evaluate_together(work, jobs)
        return
    for job in jobs:
        yield job, evaluate(work, job)


def evaluate(work: AnyStudy, job: SampleJob) -> Result:
    """Evaluate one job.

    Returns:
        JSON-compatible data: for the study ``tolerance``, ``factor`` with the largest tolerated factor; otherwise the
        outcome of each stage by its name.

    Raises:
        InputError: The sample cannot be computed.
    """
    if not work.calibrated:
        ((_, result),) = evaluate_together(work, [job])
        return result
    part = work.imperfections.only(*_kinds_in(job, tuple(amounts_of(work))))
    with _named_errors(work, job):
        if job.study == TOLERANCE:
            return {"factor": largest_tolerated(lambda factor: _reaches(work, part, job, factor))}
        return {stage: outcome.to_json() for stage, outcome in work.outcomes(part, job.sample).items()}


@contextmanager
def _named_errors(work: AnyStudy, job: SampleJob) -> Iterator[None]:
    """Name the sample in errors of its evaluation."""
    try:
        yield
    except ValueError as fault:
        about = f" ({job.study} {job.imperfection!r})" if job.imperfection else ""
        raise InputError(f"sample {job.sample}{about} of {work.chip.name!r} cannot be computed: {fault}") from fault


def evaluate_together(work: AnyStudy, jobs: Iterable[SampleJob]) -> Iterator[tuple[SampleJob, Result]]:
    """Evaluate jobs without calibration, the S-parameters of up to ``TOGETHER`` samples as one batch.

    Args:
        work: Parameters of the analysis, without a network.
        jobs: The jobs.

    Yields:
        Each job with its result, see :func:`evaluate`, in the order of completion.

    Raises:
        InputError: A sample cannot be computed.
    """
    waiting = iter(jobs)
    running: list[tuple[SampleJob, Evaluation, SampleRequest]] = []
    while True:
        for job in islice(waiting, TOGETHER - len(running)):
            evaluation = _evaluation(work, job)
            running.append((job, evaluation, next(evaluation)))
        if not running:
            return
        answers = _scatterings(work.chip, [request for _, _, request in running])
        continuing = []
        for (job, evaluation, _), answer in zip(running, answers, strict=True):
            try:
                continuing.append((job, evaluation, evaluation.send(answer)))
            except StopIteration as end:
                yield job, end.value
        running = continuing


def _scatterings(chip: NominalChip, requests: Sequence[SampleRequest]) -> list[Scattering | ValueError]:
    """Return the S-parameters of samples with the bias of the file, or the error of those that have none."""
    answers: list[Scattering | ValueError] = [ValueError()] * len(requests)
    for bits in {request.effective_bits for request in requests}:
        members = [i for i, request in enumerate(requests) if request.effective_bits == bits]
        samples = [requests[i].sample for i in members]
        # overflowing losses raise an error
        with np.errstate(over="ignore", invalid="ignore"):
            for i, answer in zip(members, _together(chip, samples, bits), strict=True):
                answers[i] = answer
    return answers


def _together(
    chip: NominalChip, samples: Sequence[ChipSample], bits: float | None
) -> Sequence[Scattering | ValueError]:
    try:
        return sample_scatterings(chip, samples, chip.voltage_v, bits)
    except ValueError as fault:
        if len(samples) == 1:
            return [fault]
        # find the samples that fail
        return [answer for sample in samples for answer in _together(chip, [sample], bits)]


def _evaluation(work: AnyStudy, job: SampleJob) -> Evaluation:
    """Evaluate one job without calibration; S-parameters are requested and sent back."""
    part = work.imperfections.only(*_kinds_in(job, tuple(amounts_of(work))))
    with _named_errors(work, job):
        if job.study != TOLERANCE:
            seed = sample_seed(work.seed, job.sample)
            answer = yield SampleRequest(draw_sample(work.chip, part, seed), part.effective_bits)
            outcomes = work.uncalibrated_outcomes(answer, part, seed)
            return {stage: outcome.to_json() for stage, outcome in outcomes.items()}
        search = tolerance_search()
        factor = next(search)
        while True:
            reaches = yield from _reaches_uncalibrated(work, part, job, factor)
            try:
                factor = search.send(reaches)
            except StopIteration as end:
                return {"factor": end.value}


def _reaches_uncalibrated(
    work: AnyStudy, imperfections: Imperfections, job: SampleJob, factor: float
) -> Generator[SampleRequest, Scattering | ValueError, bool]:
    """Return whether a sample with a multiple of one imperfection reaches its target, as :func:`_reaches`."""
    scaled, seed = imperfections.scaled(job.imperfection, factor), sample_seed(work.seed, job.sample)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            sample = draw_sample(work.chip, scaled, seed)
        answer = yield SampleRequest(sample, scaled.effective_bits)
        return work.reached_uncalibrated(answer, scaled, seed)
    except (RangeError, UnsettledError):
        return False
    except InputError:
        if factor <= 1.0:
            raise
        # this factor exceeds the range of the drive or the models
        return False


def _kinds_in(job: SampleJob, kinds: Sequence[str]) -> Sequence[str]:
    """Return the kinds of imperfections in a job."""
    if job.study == "all":
        return kinds
    if job.study == "without":
        return [kind for kind in kinds if kind != job.imperfection]
    if job.study == "upto":
        return kinds[: kinds.index(job.imperfection) + 1]
    return [job.imperfection]


def _reaches(work: AnyStudy, imperfections: Imperfections, job: SampleJob, factor: float) -> bool:
    """Return whether a sample with a multiple of one imperfection reaches its target."""
    scaled = imperfections.scaled(job.imperfection, factor)
    try:
        # overflowing losses raise an error below
        with np.errstate(over="ignore", invalid="ignore"):
            return work.reached(work.outcomes(scaled, job.sample)[work.judged_stage])
    except InputError:
        if factor <= 1.0:
            raise
        # this factor exceeds the range of the drive or the models
        return False


def tolerance_search() -> Generator[float, bool, float | None]:
    """Search by bisection for the largest factor with which a sample reaches its target.

    The search assumes that a larger factor is never better.

    Yields:
        A factor; whether the sample reaches its target with it is sent back.

    Returns:
        The largest tolerated factor of those tried; 0 if none is tolerated, None if all are.
    """
    low, high = MIN_OCTAVE * STEPS_PER_OCTAVE - 1, MAX_OCTAVE * STEPS_PER_OCTAVE + 1
    while high - low > 1:
        middle = (low + high) // 2
        reaches = yield 2.0 ** (middle / STEPS_PER_OCTAVE)
        low, high = (middle, high) if reaches else (low, middle)
    if low == MAX_OCTAVE * STEPS_PER_OCTAVE:
        return None
    return 0.0 if low < MIN_OCTAVE * STEPS_PER_OCTAVE else 2.0 ** (low / STEPS_PER_OCTAVE)


def largest_tolerated(reaches: Callable[[float], bool]) -> float | None:
    """Return the result of :func:`tolerance_search` for a sample.

    Args:
        reaches: Function that states whether the sample reaches its target with a given factor.
    """
    search = tolerance_search()
    factor = next(search)
    while True:
        try:
            factor = search.send(reaches(factor))
        except StopIteration as end:
            result: float | None = end.value
            return result
