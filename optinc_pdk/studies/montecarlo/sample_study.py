"""Interface of a Monte-Carlo study of sampled chips, whatever they compute, and the jobs of a run.

Sample i depends only on the seed and on i. Results therefore do not depend on the number of samples, the executor or
interruptions. All studies use the same random numbers: one kind of imperfection alone has the same values as in the
sample with all kinds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from optinc_pdk.cards import KINDS
from optinc_pdk.simulate import Scattering
from optinc_pdk.simulate.transmission.noise import Noise
from optinc_pdk.studies.montecarlo.records import TOLERANCE, Result, SampleJob
from optinc_pdk.studies.variation.imperfections import Imperfections
from optinc_pdk.studies.variation.nominal_chip import NominalChip

Runner = Callable[[Iterable[SampleJob]], Iterator[tuple[SampleJob, Result]]]

CONTRIBUTION_SAMPLES, CONTRIBUTION_SAMPLES_CALIBRATED = 50, 3
"""Largest numbers of samples with each kind alone, all but it, and up to it; fewer with calibration, which is slow."""
TOLERANCE_SAMPLES, TOLERANCE_SAMPLES_CALIBRATED = 20, 2
"""Largest numbers of samples whose tolerance of each kind is searched for."""
BEFORE, BETWEEN, AFTER, DRIFTED = "before", "between", "after", "drifted"
"""Stages of a sample: bias file; programmed by the digital twin; tuned in the loop; after drift of the resistances."""
NOISE_KINDS = ("laser", "detector")
"""Kinds that are part of the noise and not of a sample's parameters."""


class SampleOutcome(Protocol):
    """What one sampled chip computes, compared with what it shall compute."""

    @property
    def fault(self) -> str:
        """Why the chip is unusable; empty if it is usable."""
        ...

    @property
    def form(self) -> tuple[Any, ...]:
        """What is equal in all outcomes of a run, such as the number of inputs."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as JSON-compatible data."""
        ...

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Build an outcome from the data of :meth:`to_json`.

        Raises:
            TypeError: A key is missing or unknown, or a value has the wrong type.
            ValueError: A number is out of range.
        """
        ...


Outcome = TypeVar("Outcome", bound=SampleOutcome)
Summarised = TypeVar("Summarised", bound=SampleOutcome, contravariant=True)


class OutcomeSummary(Protocol[Summarised]):
    """Statistics of the outcomes of samples, as numbers, table and pictures."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of an outcome in a table."""
        ...

    @property
    def lost(self) -> tuple[str, str]:
        """What an imperfection costs: its name in files, and the label of its axis, in %."""
        ...

    def row(self, outcome: Summarised) -> tuple[Any, ...]:
        """Return the values of the columns for one outcome."""
        ...

    def passed(self, outcomes: Sequence[Summarised]) -> int:
        """Return the number of samples that reach the target."""
        ...

    def mean_lost(self, outcomes: Sequence[Summarised]) -> float:
        """Return what the samples lose, as a share, averaged over samples."""
        ...

    def numbers(self, outcomes: Sequence[Summarised]) -> dict[str, Any]:
        """Return statistics of a stage as JSON-compatible data."""
        ...

    def pictures(self, stages: Mapping[str, Sequence[Summarised]], caption: str) -> dict[str, bytes]:
        """Return plots as PNG by the ending of their file names."""
        ...


class SampleStudy(Protocol[Outcome]):
    """Parameters of a study of samples of one chip; sent once to workers in other processes."""

    @property
    def chip(self) -> NominalChip:
        """The nominal chip with its bias."""
        ...

    @property
    def imperfections(self) -> Imperfections:
        """Imperfections of the samples."""
        ...

    @property
    def seed(self) -> int:
        """Seed of all samples."""
        ...

    @property
    def noise(self) -> Noise | None:
        """Noise in operation; None for no noise."""
        ...

    @property
    def calibrated(self) -> bool:
        """Whether samples are calibrated."""
        ...

    @property
    def judged_stage(self) -> str:
        """Name of the stage that contributions and tolerances refer to."""
        ...

    @property
    def outcome(self) -> type[Outcome]:
        """Class of the outcomes."""
        ...

    @property
    def summary(self) -> OutcomeSummary[Outcome]:
        """Statistics of the outcomes."""
        ...

    def header(self) -> dict[str, Any]:
        """Return what the results depend on besides chip, process and imperfections, as JSON-compatible data."""
        ...

    def outcomes(self, imperfections: Imperfections, sample: int) -> dict[str, Outcome]:
        """Sample a chip and evaluate it at each stage of its calibration.

        Args:
            imperfections: Imperfections of the sample.
            sample: Index of the sample.

        Returns:
            Name of the stage to its outcome.
        """
        ...

    def uncalibrated_outcomes(
        self, s: Scattering | ValueError, imperfections: Imperfections, seed: int
    ) -> dict[str, Outcome]:
        """Evaluate a sample with the bias of the file.

        Args:
            s: S-parameters of the sample, or the error if it has none.
            imperfections: Imperfections of the sample.
            seed: Seed of the sample.

        Raises:
            ValueError: The sample has no S-parameters, and its drive is not the reason.
        """
        ...

    def reached(self, outcome: Outcome) -> bool:
        """Return whether a sample reaches its target."""
        ...

    def reached_uncalibrated(self, s: Scattering | ValueError, imperfections: Imperfections, seed: int) -> bool:
        """Return whether a sample with the bias of the file reaches its target.

        Raises:
            ValueError: The sample has no S-parameters.
        """
        ...


AnyStudy = SampleStudy[Any]


def sample_seed(seed: int, sample: int) -> int:
    """Return the seed of one sample, derived from the run's seed and the sample's index."""
    return int(np.random.SeedSequence((seed, sample)).generate_state(1, np.uint64)[0])


def amounts_of(work: AnyStudy) -> dict[str, float]:
    """Return the factor on the card's spread for each kind of imperfection in a study.

    Kinds with factor 0 are left out. Kinds that are noise are left out if the study has no noise.
    """
    kinds = [kind for kind in KINDS if work.noise is not None or kind not in NOISE_KINDS]
    return {kind: work.imperfections.of(kind) for kind in kinds if work.imperfections.of(kind) > 0.0}


def jobs_of(samples: int, kinds: Sequence[str], calibrated: bool = False) -> list[SampleJob]:
    """Return all jobs of a run, first those with all imperfections, then contributions, then tolerances.

    Args:
        samples: Number of samples.
        kinds: Imperfections whose contributions and tolerances are evaluated.
        calibrated: Whether samples are calibrated; fewer samples are then used for contributions and tolerances.
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


def digest(data: bytes) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of some data."""
    return hashlib.sha256(data).hexdigest()[:16]
