"""A whole run: every sample measured once, kept at once, and summed up in tables, numbers and plots."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from optinc_pdk.cards import Process
from optinc_pdk.files import InputError, write_atomic
from optinc_pdk.onn import Onn
from optinc_pdk.tolerance.montecarlo.records import TOLERANCE, Job, Records, Result
from optinc_pdk.tolerance.montecarlo.study import LEAST_OCTAVE, MOST_OCTAVE, Runner, Work, amounts_of, jobs_of, judged
from optinc_pdk.tolerance.montecarlo.summary import GOAL, error_values, kind_numbers, outcome_numbers, tolerated
from optinc_pdk.tolerance.montecarlo.text import caption
from optinc_pdk.tolerance.montecarlo.words import Outcome

SCHEMA = 1
COLUMNS = ("inputs", "exact", "accuracy", "words", "wrong", "word_error_rate", "margin", "saturated")
OPTIONAL = ("waterfall.png", "tolerance.csv", "tolerance.png")
"""Endings of files that runs of no imperfection, of one, or without contributions do not write."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class ChipFiles:
    """The files of one chip."""

    gds: Path
    netlist: Path
    bias: Path

    @property
    def name(self) -> str:
        """The chip's name."""
        return self.gds.stem


def chip_files(gds: Path, netlist: Path | None = None, bias: Path | None = None) -> ChipFiles:
    """A layout with the netlist and the bias that lie beside it, if no others are given.

    Raises:
        InputError: One of them is missing.
    """
    files = ChipFiles(
        gds, netlist or gds.with_name(f"{gds.stem}.pic.yml"), bias or gds.with_name(f"{gds.stem}.bias.yml")
    )
    for path, option in ((files.gds, ""), (files.netlist, "--netlist"), (files.bias, "--bias")):
        if not path.is_file():
            mend = f"give the file with {option}" if option else "give the layout of a chip"
            raise InputError(f"{path}: there is no such file; {mend}")
    return files


def header_of(files: ChipFiles, process: Process, work: Work) -> dict[str, Any]:
    """All that results depend on: runs with equal headers have equal samples."""
    paths = {"gds": files.gds, "netlist": files.netlist, "bias": files.bias}
    return {
        "version": version("optinc-pdk"),
        "chip": {"name": files.name} | {key: _digest(path.read_bytes()) for key, path in paths.items()},
        "process": {"name": process.name, "cards": _digest(b"".join(_cards(process)))},
        "task": asdict(work.task),
        "seed": work.seed,
        "target": work.target,
        "imperfections": amounts_of(work),
        "dac_bits": work.imperfections.effective_bits,
        "noise": None if work.noise is None else asdict(work.noise),
        "calibrated_to": None if work.onn is None else _digest(b"".join(_bytes_of(work.onn))),
        "rates_bd": list(work.rates_bd),
    }


def _cards(process: Process) -> Iterator[bytes]:
    """The cards, and the S-parameters in the files that they name, wherever those lie."""
    files = {name: device.model.file for name, device in process.devices.items() if device.model.file is not None}
    named = {
        name: process.devices[name].model_copy(
            update={"model": process.devices[name].model.model_copy(update={"file": Path(file.name)})}
        )
        for name, file in files.items()
    }
    cards = process.model_copy(update={"devices": {**process.devices, **named}})
    yield cards.model_dump_json(exclude={"folders"}).encode()
    for file in files.values():
        yield file.read_bytes()


def _bytes_of(onn: Onn) -> Iterator[bytes]:
    for layer in onn.layers:
        yield from (layer.weight.tobytes(), layer.bias.tobytes())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def measure(jobs: Sequence[Job], records: Records, run: Runner, progress: Progress | None = None) -> None:
    """Measure what the records lack, and keep each result as soon as it is there.

    Args:
        jobs: What is to be measured.
        records: Where results are kept.
        run: Who measures.
        progress: Called with the number of finished jobs and of all, once at the beginning and after each.
    """
    left = [job for job in jobs if job not in records.done]
    done = len(jobs) - len(left)
    if progress is not None:
        progress(done, len(jobs))
    for job, result in run(left):
        records.add(job, result)
        done += 1
        if progress is not None:
            progress(done, len(jobs))


def run_yield(
    work: Work,
    header: Mapping[str, Any],
    samples: int,
    directory: Path,
    runner: AbstractContextManager[Runner],
    resume: bool = False,
    progress: Progress | None = None,
    contributions: bool = True,
) -> dict[str, Any]:
    """Measure a chip's yield and write all that was found into a folder.

    Args:
        work: What is measured.
        header: By :func:`header_of`.
        samples: Number of samples.
        directory: Folder of the results.
        runner: Who measures.
        resume: Whether to go on with what the folder holds of an earlier run.
        progress: As for :func:`measure`.
        contributions: Whether parts of the imperfections are measured too, and how much of each is borne.

    Returns:
        The numbers, as in ``.yield.json``.

    Raises:
        InputError: The folder holds another run, or a sample cannot be calculated.
    """
    stem = directory / header["chip"]["name"]
    jobs = jobs_of(samples, tuple(amounts_of(work)) if contributions else (), work.onn is not None)
    # who measures comes first: a scheduler that does not answer leaves an earlier run's file as it is
    with runner as run, Records(Path(f"{stem}.yield.jsonl"), header, resume) as records:
        measure(jobs, records, run, progress)
        found = Found.of(work, jobs, records.done)
    numbers = found.numbers(header, work.target)
    files = found.files(numbers, work.target)
    for ending, data in files.items():
        write_atomic(Path(f"{stem}.{ending}"), data)
    # an earlier run's would be taken for this one's
    for ending in OPTIONAL:
        if ending not in files:
            Path(f"{stem}.{ending}").unlink(missing_ok=True)
    return numbers


@dataclass(frozen=True, eq=False)
class Found:
    """What a run found, in the order of its jobs.

    Attributes:
        outcomes: Study, imperfection and stage to the outcome of every sample.
        factors: Imperfection to the largest factor that each sample bears; None where it bears all that was tried.
        judged: The stage that contributions are of.
    """

    outcomes: Mapping[tuple[str, str, str], Sequence[Outcome]]
    factors: Mapping[str, Sequence[float | None]]
    judged: str

    @staticmethod
    def of(work: Work, jobs: Sequence[Job], done: Mapping[Job, Result]) -> Found:
        """The results of some jobs.

        Raises:
            InputError: Some samples were read at fewer stages than others, which no run leaves so.
        """
        outcomes: dict[tuple[str, str, str], list[Outcome]] = {}
        factors: dict[str, list[float | None]] = {}
        for job in jobs:
            result = done[job]
            if job.study == TOLERANCE:
                factors.setdefault(job.imperfection, []).append(result["factor"])
                continue
            for stage, data in result.items():
                key = (job.study, job.imperfection, stage)
                outcomes.setdefault(key, []).append(Outcome.from_json(data))
        some = {key: len(found) for key, found in outcomes.items()}
        for (study, kind, stage), count in some.items():
            if count != max(some[key] for key in some if key[:2] == (study, kind)):
                raise InputError(
                    f"stage {stage!r} is missing from some finished samples; the same command with --resume names the "
                    "line that differs, without it all are measured again"
                )
        return Found(outcomes, factors, judged(work))

    @property
    def stages(self) -> dict[str, Sequence[Outcome]]:
        """Stage to the outcomes with all imperfections."""
        return {stage: found for (study, _, stage), found in self.outcomes.items() if study == "all"}

    @property
    def parts(self) -> int:
        """Samples that were measured with each imperfection alone."""
        return max((len(found) for found in self.kinds("alone").values()), default=0)

    def kinds(self, study: str) -> dict[str, Sequence[Outcome]]:
        """Imperfection to the outcomes of one study, at the stage that is judged."""
        key = (study, self.judged)
        return {kind: found for (name, kind, stage), found in self.outcomes.items() if (name, stage) == key}

    def numbers(self, header: Mapping[str, Any], target: float) -> dict[str, Any]:
        """The numbers for machines."""
        stages = self.stages
        return {
            "schema": SCHEMA,
            **header,
            "samples": len(next(iter(stages.values()))),
            "stages": {stage: outcome_numbers(found, target) for stage, found in stages.items()},
            "contributions": self._contributions(target),
            "tolerances": [_tolerance(kind, found, header) for kind, found in self.factors.items()],
        }

    def _contributions(self, target: float) -> list[dict[str, Any]]:
        alone = self.kinds("alone")
        if not alone:
            return []
        kinds = list(alone)
        every = self.stages[self.judged][: len(alone[kinds[0]])]
        upto = {kinds[0]: alone[kinds[0]], **self.kinds("upto"), kinds[-1]: every}
        return kind_numbers(alone, self.kinds("without"), upto, target)

    def files(self, numbers: Mapping[str, Any], target: float) -> dict[str, bytes]:
        """Ending of a file to its bytes."""
        # matplotlib takes long to import, and a run that is refused draws nothing
        from optinc_pdk.tolerance.montecarlo.plots import errors_png, tolerance_png, waterfall_png, yield_png

        stages, told = self.stages, caption(numbers, numbers["samples"])
        files = {
            "yield.json": (json.dumps(numbers, indent=2, allow_nan=False) + "\n").encode(),
            "yield.csv": self._table(),
            "yield.png": yield_png(stages, target, told),
            "errors.png": errors_png({stage: error_values(found) for stage, found in stages.items()}, told),
        }
        if numbers["contributions"]:
            files["waterfall.png"] = waterfall_png(numbers["contributions"], caption(numbers, self.parts))
        if self.factors:
            tried = max(len(found) for found in self.factors.values())
            files |= {
                "tolerance.csv": self._factors(),
                "tolerance.png": tolerance_png(self.factors, GOAL, caption(numbers, tried)),
            }
        return files

    def _table(self) -> bytes:
        rows = [
            (
                study,
                kind,
                stage,
                sample,
                *(getattr(outcome, column) for column in COLUMNS),
                _errors_text(outcome),
                outcome.fault,
            )
            for (study, kind, stage), found in self.outcomes.items()
            for sample, outcome in enumerate(found)
        ]
        return _csv(["study", "imperfection", "stage", "sample", *COLUMNS, "errors", "fault"], rows)

    def _factors(self) -> bytes:
        rows = [
            (kind, sample, "" if factor is None else factor)
            for kind, found in self.factors.items()
            for sample, factor in enumerate(found)
        ]
        return _csv(["imperfection", "sample", "largest_factor"], rows)


def _errors_text(outcome: Outcome) -> str:
    return " ".join(f"{value:+d}:{count}" for value, count in outcome.errors.items())


def _tolerance(kind: str, factors: Sequence[float | None], header: Mapping[str, Any]) -> dict[str, Any]:
    """How often the card's imperfection the goal's share of the samples bears.

    Args:
        kind: Kind of the imperfection.
        factors: Of the run's amount, by sample; None where a sample bears all that was tried.
        header: The run's.
    """
    amount = header["imperfections"][kind]
    least = tolerated([math.inf if factor is None else factor for factor in factors])
    row = {
        "imperfection": kind,
        "samples": len(factors),
        "goal": GOAL,
        "factor": None if least == math.inf else least * amount,
        "least_tried": amount * 2.0**LEAST_OCTAVE,
        "most_tried": amount * 2.0**MOST_OCTAVE,
    }
    if kind == "dac" and 0.0 < least < math.inf:
        row["effective_bits"] = header["dac_bits"] - math.log2(least)
    return row


def _csv(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    return stream.getvalue().encode()
