"""A complete yield run: evaluate and record every sample once, and write tables, numbers and plots."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from optinc_pdk.cards import Process, card_digests
from optinc_pdk.errors import InputError
from optinc_pdk.io.chip_files import ChipFiles
from optinc_pdk.io.file_sets import output_targets, write_files
from optinc_pdk.io.reading import LAYOUT, NETLIST, read_bytes
from optinc_pdk.io.writing import csv_text
from optinc_pdk.signoff.layout_faults import LayoutFault
from optinc_pdk.studies.chip_checks import digest
from optinc_pdk.studies.montecarlo.sample_records import TOLERANCE, Records, Result, SampleJob
from optinc_pdk.studies.montecarlo.study import MAX_OCTAVE, MIN_OCTAVE, Runner, YieldStudy, amounts_of, jobs_of
from optinc_pdk.studies.montecarlo.summary_text import caption
from optinc_pdk.studies.outcomes import OutcomeSummary, wilson

SCHEMA = 1
GOAL = 0.9
"""Share of the samples that must reach the target at a tolerance."""
FILES = ("yield.csv", "yield.png")
"""Endings of the files that every run writes, besides its report and its records."""
OPTIONAL_FILES = ("errors.png", "waterfall.png", "tolerance.csv", "tolerance.png")
"""Endings of files that are written only for words, or only with contributions of imperfections."""
REPORT, RECORDS = "yield.json", "yield.jsonl"
"""Endings of the report, which states the digests of the other files, and of the finished samples."""
Progress = Callable[[int, int], None]


def header_of(files: ChipFiles, process: Process, work: YieldStudy) -> dict[str, Any]:
    """Return everything on which the results of a run depend, as JSON-compatible data; equal headers give equal
    samples.
    """
    paths = {"gds": (files.gds, LAYOUT), "netlist": (files.netlist, NETLIST), "bias": (files.bias, NETLIST)}
    return {
        "version": version("optinc-pdk"),
        "chip": {"name": files.name} | {key: digest(read_bytes(path, kind)) for key, (path, kind) in paths.items()},
        "process": {"name": process.name, "cards": digest(json.dumps(card_digests(process)).encode())},
        "seed": work.seed,
        "imperfections": amounts_of(work),
        "dac_bits": work.imperfections.effective_bits,
        "oscillator_power": work.chip.board.oscillator_power,
        **work.header(),
    }


def run_jobs(jobs: Sequence[SampleJob], records: Records, run: Runner, progress: Progress | None = None) -> None:
    """Evaluate all jobs that the records do not contain, and record each result as soon as it is available.

    ``progress`` is called with the numbers of finished and of all jobs, at the start and after each job.
    """
    remaining = [job for job in jobs if job not in records.done]
    done = len(jobs) - len(remaining)
    if progress is not None:
        progress(done, len(jobs))
    for job, result in run(remaining):
        records.add(job, result)
        done += 1
        if progress is not None:
            progress(done, len(jobs))


def run_yield(
    work: YieldStudy,
    header: Mapping[str, Any],
    samples: int,
    directory: Path,
    runner: AbstractContextManager[Runner],
    resume: bool = False,
    progress: Progress | None = None,
    contributions: bool = True,
    faults: Sequence[LayoutFault] = (),
) -> dict[str, Any]:
    """Run the yield analysis of a chip, write all results into a folder, and return those of ``.yield.json``.

    Args:
        work: Parameters of the analysis.
        header: Header of the run, from :func:`header_of`.
        samples: Number of samples.
        directory: Folder of the results.
        runner: Context manager of the executor.
        resume: Continue an earlier run in the folder.
        progress: See :func:`run_jobs`.
        contributions: Whether single imperfections, their combinations and the tolerance of each are evaluated as well.
        faults: Faults of the layout, which the samples do not include.

    Raises:
        InputError: The folder holds another run, or a sample cannot be computed.
    """
    name = header["chip"]["name"]
    # refused before anything is computed
    output_targets(directory, [f"{name}.{ending}" for ending in (*FILES, *OPTIONAL_FILES, REPORT, RECORDS)])
    report, records_file = directory / f"{name}.{REPORT}", directory / f"{name}.{RECORDS}"
    jobs = jobs_of(samples, tuple(amounts_of(work)) if contributions else (), work.calibrated)
    # start the executor first: if a scheduler does not answer, the file of an earlier run stays unchanged
    with runner as run, Records(records_file, header, resume, report, work.check.outcome.from_json) as records:
        run_jobs(jobs, records, run, progress)
        results = YieldResults.of(work, jobs, records.done)
        numbers = results.numbers(header) | {"faults": [fault.to_json() for fault in faults]}
        files = {directory / f"{name}.{ending}": data for ending, data in results.files(numbers).items()}
        numbers["files"] = {path.name: hashlib.sha256(data).hexdigest() for path, data in files.items()}
        files[report] = (json.dumps(numbers, indent=2, allow_nan=False) + "\n").encode()
        # the records stay locked until their report is there
        records.sync()
        write_files(files, stale=[directory / f"{name}.{ending}" for ending in OPTIONAL_FILES])
    return numbers


@dataclass(frozen=True, eq=False)
class YieldResults:
    """Results of a run in the order of its jobs.

    Attributes:
        outcomes: (study, imperfection, stage) to the outcomes of all samples.
        factors: Imperfection to the largest factor that each sample tolerates; None if it tolerates all factors tried.
        judged: Name of the stage that contributions and tolerances refer to.
        summary: Statistics of the outcomes.
    """

    outcomes: Mapping[tuple[str, str, str], Sequence[Any]]
    factors: Mapping[str, Sequence[float | None]]
    judged: str
    summary: OutcomeSummary

    @staticmethod
    def of(work: YieldStudy, jobs: Sequence[SampleJob], done: Mapping[SampleJob, Result]) -> YieldResults:
        """Collect the results of jobs.

        Raises:
            InputError: A stage is missing from some samples, so the records are damaged.
        """
        outcomes: dict[tuple[str, str, str], list[Any]] = {}
        factors: dict[str, list[float | None]] = {}
        for job in jobs:
            result = done[job]
            if job.study == TOLERANCE:
                factors.setdefault(job.imperfection, []).append(result["factor"])
                continue
            for stage, data in result.items():
                key = (job.study, job.imperfection, stage)
                outcomes.setdefault(key, []).append(work.check.outcome.from_json(data))
        sample_counts = {key: len(values) for key, values in outcomes.items()}
        for (study, kind, stage), count in sample_counts.items():
            if count != max(sample_counts[key] for key in sample_counts if key[:2] == (study, kind)):
                raise InputError(
                    f"stage {stage!r} is missing from some finished samples; run with --resume to find the line, or "
                    "without it to evaluate all samples again"
                )
        return YieldResults(outcomes, factors, work.judged_stage, work.summary)

    @property
    def stages(self) -> dict[str, Sequence[Any]]:
        """Name of each stage to the outcomes of all samples with all imperfections."""
        return {stage: values for (study, _, stage), values in self.outcomes.items() if study == "all"}

    @property
    def parts(self) -> int:
        """Number of samples that were evaluated with each imperfection alone."""
        return max((len(values) for values in self.kinds("alone").values()), default=0)

    def kinds(self, study: str) -> dict[str, Sequence[Any]]:
        """Return, for each imperfection, the outcomes of one study at the stage ``judged``."""
        key = (study, self.judged)
        return {kind: values for (name, kind, stage), values in self.outcomes.items() if (name, stage) == key}

    def numbers(self, header: Mapping[str, Any]) -> dict[str, Any]:
        """Return all statistics as JSON-compatible data, with the header, as written to ``.yield.json``."""
        stages = self.stages
        return {
            "schema": SCHEMA,
            **header,
            "samples": len(next(iter(stages.values()))),
            "stages": {stage: self.summary.numbers(values) for stage, values in stages.items()},
            "contributions": self._contributions(),
            "tolerances": [_tolerance(kind, values, header) for kind, values in self.factors.items()],
        }

    def _contributions(self) -> list[dict[str, Any]]:
        alone = self.kinds("alone")
        if not alone:
            return []
        kinds = list(alone)
        every = self.stages[self.judged][: len(alone[kinds[0]])]
        upto = {kinds[0]: alone[kinds[0]], **self.kinds("upto"), kinds[-1]: every}
        return kind_numbers(alone, self.kinds("without"), upto, self.summary)

    def files(self, numbers: Mapping[str, Any]) -> dict[str, bytes]:
        """Return the contents of all result files but the report by the endings of their names."""
        # matplotlib takes long to import, and a run that is refused draws nothing
        from optinc_pdk.studies.montecarlo.yield_plots import tolerance_png, waterfall_png

        files = {"yield.csv": self._table()}
        files |= self.summary.pictures(self.stages, caption(numbers, numbers["samples"]))
        if numbers["contributions"]:
            title = caption(numbers, self.parts)
            files["waterfall.png"] = waterfall_png(numbers["contributions"], self.summary.lost, title)
        if self.factors:
            count = max(len(values) for values in self.factors.values())
            files |= {
                "tolerance.csv": self._factors(),
                "tolerance.png": tolerance_png(self.factors, GOAL, caption(numbers, count)),
            }
        return files

    def _table(self) -> bytes:
        rows = [
            (study, kind, stage, sample, *self.summary.row(outcome), outcome.fault)
            for (study, kind, stage), values in self.outcomes.items()
            for sample, outcome in enumerate(values)
        ]
        return csv_text(["study", "imperfection", "stage", "sample", *self.summary.columns, "fault"], rows).encode()

    def _factors(self) -> bytes:
        rows = [
            (kind, sample, "" if factor is None else factor)
            for kind, values in self.factors.items()
            for sample, factor in enumerate(values)
        ]
        return csv_text(["imperfection", "sample", "largest_factor"], rows).encode()


def _tolerance(kind: str, factors: Sequence[float | None], header: Mapping[str, Any]) -> dict[str, Any]:
    """Return the multiple of the card's imperfection that the goal's share of the samples tolerates.

    ``factors`` are the largest tolerated factors on the run's amount by sample; None if all factors tried are
    tolerated.
    """
    amount = header["imperfections"][kind]
    least = largest_tolerated_by_goal([math.inf if factor is None else factor for factor in factors])
    row = {
        "imperfection": kind,
        "samples": len(factors),
        "goal": GOAL,
        "factor": None if least == math.inf else least * amount,
        "least_tried": amount * 2.0**MIN_OCTAVE,
        "most_tried": amount * 2.0**MAX_OCTAVE,
    }
    if kind == "dac" and 0.0 < least < math.inf:
        row["effective_bits"] = header["dac_bits"] - math.log2(least)
    return row


def largest_tolerated_by_goal(factors: Sequence[float], goal: float = GOAL) -> float:
    """Return the largest of the samples' tolerated factors that at least the share ``goal`` of the samples tolerates.

    Raises:
        ValueError: There are no factors, or the goal is not above 0 and up to 1.
    """
    if not factors or not 0.0 < goal <= 1.0:
        raise ValueError(f"{len(factors)} factors and the goal {goal}: give at least one factor, a goal within 0 … 1")
    needed = math.ceil(goal * len(factors) - 1e-9)
    return sorted(factors, reverse=True)[needed - 1]


def kind_numbers(
    alone: Mapping[str, Sequence[Any]],
    without: Mapping[str, Sequence[Any]],
    upto: Mapping[str, Sequence[Any]],
    summary: OutcomeSummary,
) -> list[dict[str, Any]]:
    """Return what is lost and the yield for each imperfection alone, without it, and with all kinds up to it.

    Each argument maps imperfections to the outcomes of samples; the result has one entry for each imperfection,
    JSON-compatible.
    """
    studies, key = {"alone": alone, "without": without, "upto": upto}, summary.lost[0]

    def numbers(outcomes: Sequence[Any]) -> dict[str, Any]:
        share = wilson(summary.passed(outcomes), len(outcomes))
        return {key: summary.mean_lost(outcomes), "yield": share.to_json()}

    return [
        {"imperfection": kind} | {study: numbers(outcomes[kind]) for study, outcomes in studies.items()}
        for kind in alone
    ]
