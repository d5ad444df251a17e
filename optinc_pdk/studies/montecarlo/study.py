"""Monte-Carlo study of the samples of one chip, whatever the chip is for, and the evaluation of its jobs.

Sample i depends only on the seed and on i. Results therefore do not depend on the number of samples, the executor or
interruptions. All jobs use the same random numbers: one kind of imperfection alone has the same values as in the
sample with all kinds.

Without calibration, samples differ in their parameters only. Their S-parameters are then calculated as batches: every
job is a generator that requests the S-parameters of samples, and several jobs run at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from optinc_pdk.cards import KINDS
from optinc_pdk.drive import RangeError
from optinc_pdk.errors import InputError
from optinc_pdk.matrices.target import NoLightError
from optinc_pdk.simulate import Scattering, UnsettledError
from optinc_pdk.simulate.transmission.noise import Noise, noise_of
from optinc_pdk.studies.chip_checks import AFTER, BEFORE, DRIFTED, BiasedSetting, ChipCheck, SampleConditions
from optinc_pdk.studies.montecarlo.sample_records import TOLERANCE, Result, SampleJob
from optinc_pdk.studies.outcomes import OutcomeSummary, SampleOutcome
from optinc_pdk.studies.variation.nominal_chip import NominalChip
from optinc_pdk.studies.variation.sampled_response import sample_scattering, sample_scatterings
from optinc_pdk.studies.variation.sampling import ChipSample, Imperfections, aged_sample, draw_sample

Runner = Callable[[Iterable[SampleJob]], Iterator[tuple[SampleJob, Result]]]

CONTRIBUTION_SAMPLES, CONTRIBUTION_SAMPLES_CALIBRATED = 50, 3
"""Largest numbers of samples with each kind alone, all but it, and up to it; fewer with calibration, which is slow."""
TOLERANCE_SAMPLES, TOLERANCE_SAMPLES_CALIBRATED = 20, 2
"""Largest numbers of samples whose tolerance of each kind is searched for."""
NOISE_KINDS = ("laser", "detector")
"""Kinds that are part of the noise and not of a sample's parameters."""
TOGETHER = 16
"""Samples whose S-parameters are calculated as one batch."""
STEPS_PER_OCTAVE = 8
MIN_OCTAVE, MAX_OCTAVE = -16, 8
"""Factors tried in tolerance searches: 2^-16 … 2^8 in steps of 9 %."""


@dataclass(frozen=True, eq=False)
class YieldStudy:
    """Parameters of a study of samples of one chip; sent once to workers in other processes.

    Attributes:
        check: The nominal chip, and what its samples are compared with.
        imperfections: Imperfections of the samples.
        seed: Seed of all samples.
        calibrated: Whether samples are calibrated.
        noise: Noise in operation and in the readings of the calibration; None for no noise.
        rates_bd: Further symbol rates at which samples are compared with noise, at the card's laser power.
    """

    check: ChipCheck
    imperfections: Imperfections
    seed: int
    calibrated: bool = False
    noise: Noise | None = None
    rates_bd: tuple[float, ...] = ()

    @property
    def chip(self) -> NominalChip:
        """The nominal chip with its bias."""
        return self.check.chip

    @property
    def judged_stage(self) -> str:
        """Name of the stage that contributions and tolerances refer to: ``after`` if calibrated, else ``before``."""
        return AFTER if self.calibrated else BEFORE

    @property
    def summary(self) -> OutcomeSummary:
        """Statistics of the outcomes."""
        return self.check.summary(scaled_noise(self.noise, self.imperfections) is not None)

    def header(self) -> dict[str, Any]:
        """Return what the results depend on besides chip, process and imperfections, as JSON-compatible data."""
        header = self.check.header(None if self.noise is None else self.noise.to_json(), self.calibrated)
        return header | ({"rates_bd": list(self.rates_bd)} if self.rates_bd else {})

    def conditions(self, imperfections: Imperfections, seed: int) -> SampleConditions:
        """Return drive and noise of a sample with some imperfections and a seed."""
        return SampleConditions(imperfections.effective_bits, scaled_noise(self.noise, imperfections), seed)

    def outcomes(self, imperfections: Imperfections, sample: int) -> dict[str, Any]:
        """Sample a chip and compare it with its target at each stage of its calibration.

        The stages are ``before`` (bias file); with calibration ``between`` (programmed by the digital twin, for
        networks), ``after`` (tuned in the loop), and ``drifted`` (after drift of the resistances). Further symbol rates
        add entries such as ``before at 1e+06 Bd``.
        """
        seed, check = sample_seed(self.seed, sample), self.check
        parameters, conditions = draw_sample(self.chip, imperfections, seed), self.conditions(imperfections, seed)
        found = self._staged(BEFORE, parameters, check.stated_setting(), conditions)
        if not self.calibrated:
            return found
        try:
            settings = check.calibrated(parameters, conditions)
        except (RangeError, UnsettledError, np.linalg.LinAlgError) as error:
            # this sample is unusable but must not end the run
            fault = check.calibration_fault(error)
            for stage in (*check.tuned_stages, DRIFTED):
                found |= {
                    name: check.unusable(fault, noise) for name, noise in self._noises(stage, conditions.noise).items()
                }
            return found
        for stage, setting in settings.items():
            found |= self._staged(stage, parameters, setting, conditions)
        return found | self._staged(DRIFTED, aged_sample(parameters), settings[AFTER], conditions)

    def outcome_of(self, sample: ChipSample, setting: BiasedSetting, conditions: SampleConditions) -> Any:
        """Compare a sample at a setting with the target."""
        return self._compared(self._light(sample, setting, conditions), setting, conditions.noise, conditions.seed)

    def uncalibrated_outcomes(
        self, s: Scattering | ValueError, imperfections: Imperfections, seed: int
    ) -> dict[str, Any]:
        """Compare a sample with the bias of the file, with given S-parameters or the error of a sample that has none.

        Raises:
            ValueError: The sample has no S-parameters, and its drive is not the reason.
        """
        noises, setting = self._noises(BEFORE, scaled_noise(self.noise, imperfections)), self.check.stated_setting()
        return {name: self._compared(s, setting, noise, seed) for name, noise in noises.items()}

    def passes_uncalibrated(self, s: Scattering | ValueError, imperfections: Imperfections, seed: int) -> bool:
        """Return whether a sample with the bias of the file reaches the target, see :meth:`uncalibrated_outcomes`."""
        noise = scaled_noise(self.noise, imperfections)
        if not isinstance(s, ValueError):
            try:
                return self.check.passes(s, self.check.stated_setting(), noise, seed)
            except (NoLightError, UnsettledError) as error:
                s = RangeError(str(error))
        return self.check.passed(self._compared(s, self.check.stated_setting(), noise, seed))

    def _staged(
        self, stage: str, sample: ChipSample, setting: BiasedSetting, conditions: SampleConditions
    ) -> dict[str, Any]:
        """Return the outcomes of a sample at a stage, by name of the noise."""
        s = self._light(sample, setting, conditions)
        noises = self._noises(stage, conditions.noise)
        rated = stage in (AFTER, DRIFTED)
        return {
            name: self._compared(s, setting, noise, conditions.seed, rated and name == stage)
            for name, noise in noises.items()
        }

    def _noises(self, stage: str, noise: Noise | None) -> dict[str, Noise | None]:
        """Return the noise of a stage by name: that of the sample, and at the judged stage that of further rates."""
        noises = {stage: noise}
        for rate in self.rates_bd if stage == self.judged_stage else ():
            at_rate = noise_of(self.chip.process, symbol_rate_bd=rate)
            noises[f"{stage} at {rate:.3g} Bd"] = scaled_noise(at_rate, self.imperfections)
        return noises

    def _light(
        self, sample: ChipSample, setting: BiasedSetting, conditions: SampleConditions
    ) -> Scattering | RangeError:
        try:
            return sample_scattering(self.chip, sample, setting.voltage_v, conditions.bits)
        except RangeError as fault:
            return fault

    def _compared(
        self,
        s: Scattering | ValueError,
        setting: BiasedSetting,
        noise: Noise | None,
        seed: int,
        rated: bool = False,
    ) -> Any:
        if isinstance(s, RangeError):
            return self.check.unusable(str(s), noise)
        if isinstance(s, ValueError):
            raise s
        try:
            return self.check.compared(s, setting, noise, seed, rated)
        except (NoLightError, UnsettledError) as fault:
            return self.check.unusable(str(fault), noise)


def sample_seed(seed: int, sample: int) -> int:
    """Return the seed of one sample, derived from the run's seed and the sample's index."""
    return int(np.random.SeedSequence((seed, sample)).generate_state(1, np.uint64)[0])


def scaled_noise(noise: Noise | None, imperfections: Imperfections) -> Noise | None:
    """Scale noise by the factors of the imperfections ``laser`` and ``detector``, which act on standard deviations.

    It is None if there is no noise or both factors are 0.
    """
    laser, detector = (imperfections.of(kind) for kind in NOISE_KINDS)
    if noise is None or laser == detector == 0.0:
        return None
    return replace(
        noise,
        intensity_per_hz=laser**2 * noise.intensity_per_hz,
        linewidth_hz=laser**2 * noise.linewidth_hz,
        fibre_phase_rad=laser * noise.fibre_phase_rad,
        polarisation=laser * noise.polarisation,
        receiver_a_per_sqrt_hz=detector * noise.receiver_a_per_sqrt_hz,
        shot=noise.shot and detector > 0.0,
    )


def amounts_of(work: YieldStudy) -> dict[str, float]:
    """Return the factor on the card's spread for each kind of imperfection in a study.

    Kinds with factor 0 are left out. Kinds that are noise are left out if the study has no noise.
    """
    kinds = [kind for kind in KINDS if work.noise is not None or kind not in NOISE_KINDS]
    return {kind: work.imperfections.of(kind) for kind in kinds if work.imperfections.of(kind) > 0.0}


def jobs_of(samples: int, kinds: Sequence[str], calibrated: bool = False) -> list[SampleJob]:
    """Return all jobs of a run, first those with all imperfections, then contributions, then tolerances of the given
    kinds.

    With calibration, fewer samples are used for contributions and tolerances.
    """
    contributions = CONTRIBUTION_SAMPLES_CALIBRATED if calibrated else CONTRIBUTION_SAMPLES
    tolerances = TOLERANCE_SAMPLES_CALIBRATED if calibrated else TOLERANCE_SAMPLES
    jobs = [SampleJob("all", "", sample) for sample in range(samples)]
    first = range(min(samples, contributions))
    if len(kinds) > 1:
        jobs += [SampleJob(study, kind, sample) for study in ("alone", "without") for kind in kinds for sample in first]
        # up to the first kind equals that kind alone, up to the last kind equals all
        jobs += [SampleJob("upto", kind, sample) for kind in kinds[1:-1] for sample in first]
    jobs += [SampleJob(TOLERANCE, kind, sample) for kind in kinds for sample in range(min(samples, tolerances))]
    return jobs


class SampleRequest(NamedTuple):
    """Request for the S-parameters of a sample with the bias of the file, at the effective bits of its drive."""

    sample: ChipSample
    effective_bits: float | None


Evaluation = Generator[SampleRequest, "Scattering | ValueError", Result]
"""Evaluation of a job: it requests S-parameters, which are sent back, or the error of a sample that has none."""


def run_serially(work: YieldStudy, jobs: Iterable[SampleJob]) -> Iterator[tuple[SampleJob, Result]]:
    """Evaluate jobs in this process, and yield each job with its result as soon as it is finished."""
    if not work.calibrated:
        yield from evaluate_together(work, jobs)
        return
    for job in jobs:
        yield job, evaluate(work, job)


def evaluate(work: YieldStudy, job: SampleJob) -> Result:
    """Evaluate one job; InputError if the sample cannot be computed.

    The result is JSON-compatible: for the study ``tolerance``, ``factor`` with the largest tolerated factor; otherwise
    the outcome of each stage by its name.
    """
    if not work.calibrated:
        ((_, result),) = evaluate_together(work, [job])
        return result
    part = _part(work, job)
    with _named_errors(work, job):
        if job.study == TOLERANCE:
            return {"factor": largest_tolerated(lambda factor: _passes(work, part, job, factor))}
        return _to_json(work.outcomes(part, job.sample))


def _to_json(outcomes: dict[str, SampleOutcome]) -> Result:
    return {stage: outcome.to_json() for stage, outcome in outcomes.items()}


def _part(work: YieldStudy, job: SampleJob) -> Imperfections:
    """Return the imperfections of a job."""
    kinds = tuple(amounts_of(work))
    if job.study == "without":
        kinds = tuple(kind for kind in kinds if kind != job.imperfection)
    elif job.study == "upto":
        kinds = kinds[: kinds.index(job.imperfection) + 1]
    elif job.study != "all":
        kinds = (job.imperfection,)
    return work.imperfections.only(*kinds)


@contextmanager
def _named_errors(work: YieldStudy, job: SampleJob) -> Iterator[None]:
    """Name the sample in errors of its evaluation."""
    try:
        yield
    except ValueError as fault:
        about = f" ({job.study} {job.imperfection!r})" if job.imperfection else ""
        raise InputError(f"sample {job.sample}{about} of {work.chip.name!r} cannot be computed: {fault}") from fault


def evaluate_together(work: YieldStudy, jobs: Iterable[SampleJob]) -> Iterator[tuple[SampleJob, Result]]:
    """Evaluate jobs without calibration, the S-parameters of up to ``TOGETHER`` samples as one batch, see
    :func:`evaluate`.

    Jobs are yielded with their results in the order of completion.
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


def _evaluation(work: YieldStudy, job: SampleJob) -> Evaluation:
    """Evaluate one job without calibration; S-parameters are requested and sent back."""
    part = _part(work, job)
    with _named_errors(work, job):
        if job.study != TOLERANCE:
            seed = sample_seed(work.seed, job.sample)
            answer = yield SampleRequest(draw_sample(work.chip, part, seed), part.effective_bits)
            return _to_json(work.uncalibrated_outcomes(answer, part, seed))
        search = tolerance_search()
        factor = next(search)
        while True:
            passes = yield from _passes_uncalibrated(work, part, job, factor)
            try:
                factor = search.send(passes)
            except StopIteration as end:
                return {"factor": end.value}


def _passes_uncalibrated(
    work: YieldStudy, imperfections: Imperfections, job: SampleJob, factor: float
) -> Generator[SampleRequest, Scattering | ValueError, bool]:
    """Return whether a sample with a multiple of one imperfection reaches its target, as :func:`_passes`."""
    scaled, seed = imperfections.scaled(job.imperfection, factor), sample_seed(work.seed, job.sample)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            sample = draw_sample(work.chip, scaled, seed)
        answer = yield SampleRequest(sample, scaled.effective_bits)
        return work.passes_uncalibrated(answer, scaled, seed)
    except RangeError:
        return False
    except InputError:
        if factor <= 1.0:
            raise
        # this factor exceeds the range of the drive or the models
        return False


def _passes(work: YieldStudy, imperfections: Imperfections, job: SampleJob, factor: float) -> bool:
    """Return whether a sample with a multiple of one imperfection reaches its target."""
    scaled = imperfections.scaled(job.imperfection, factor)
    try:
        # overflowing losses raise an error below
        with np.errstate(over="ignore", invalid="ignore"):
            return work.check.passed(work.outcomes(scaled, job.sample)[work.judged_stage])
    except InputError:
        if factor <= 1.0:
            raise
        # this factor exceeds the range of the drive or the models
        return False


def tolerance_search() -> Generator[float, bool, float | None]:
    """Search by bisection for the largest factor with which a sample reaches its target; a larger one is never better.

    Factors are yielded, and whether the sample reaches its target is sent back. The result is the largest tolerated
    factor of those tried; 0 if none is tolerated, None if all are.
    """
    low, high = MIN_OCTAVE * STEPS_PER_OCTAVE - 1, MAX_OCTAVE * STEPS_PER_OCTAVE + 1
    while high - low > 1:
        middle = (low + high) // 2
        passes = yield 2.0 ** (middle / STEPS_PER_OCTAVE)
        low, high = (middle, high) if passes else (low, middle)
    if low == MAX_OCTAVE * STEPS_PER_OCTAVE:
        return None
    return 0.0 if low < MIN_OCTAVE * STEPS_PER_OCTAVE else 2.0 ** (low / STEPS_PER_OCTAVE)


def largest_tolerated(passes: Callable[[float], bool]) -> float | None:
    """Return the result of :func:`tolerance_search`, with a function that returns whether a factor is tolerated."""
    search = tolerance_search()
    factor = next(search)
    while True:
        try:
            factor = search.send(passes(factor))
        except StopIteration as end:
            result: float | None = end.value
            return result
