"""A complete drift run: what sampled chips compute against time, with and without correction, as table and picture."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from optinc_pdk.drive import RangeError
from optinc_pdk.errors import InputError
from optinc_pdk.io.file_sets import output_targets, write_files
from optinc_pdk.io.writing import csv_text
from optinc_pdk.signoff.layout_faults import LayoutFault
from optinc_pdk.studies.drift.check_drift import CheckDrift, checked_lines
from optinc_pdk.studies.drift.drift_picture import DriftTrack
from optinc_pdk.studies.drift.scenarios import SCENARIOS, DriftPoint, DriftScenario, changes, check_hours
from optinc_pdk.studies.drift.word_drift import WordDrift, word_lines
from optinc_pdk.studies.montecarlo.summary_text import noise_text

SCHEMA = 1
REPORT, TABLE, PICTURE = "drift.json", "drift.csv", "drift.png"
"""Endings of the files of a run."""
Progress = Callable[[int, int], None]
DriftStudy = WordDrift | CheckDrift
"""Samples that drift: columns of the table, panels of the picture, what corrects the chips, and statistics."""


def run_drift(
    study: DriftStudy,
    header: Mapping[str, Any],
    hours: float,
    samples: int,
    directory: Path,
    progress: Progress | None = None,
    faults: Sequence[LayoutFault] = (),
    scenarios: Sequence[DriftScenario] = SCENARIOS,
) -> dict[str, Any]:
    """Let sampled and calibrated chips drift, and write what they compute against time into a folder.

    Args:
        study: Samples, and what they compute.
        header: Header of the run, see :func:`optinc_pdk.studies.montecarlo.yield_run.header_of`.
        hours: Time in service.
        samples: Number of samples.
        directory: Folder of the results.
        progress: Called with the numbers of finished and of all runs of a chip in a scenario, at the start and after
            each.
        faults: Faults of the layout, which the samples do not include.
        scenarios: What changes.

    Returns:
        The results, as written to ``.drift.json``.

    Raises:
        InputError: The time or the number of samples is not positive, or a sample cannot be computed or calibrated.
    """
    check_hours(hours)
    if samples < 1:
        raise InputError(f"samples is {samples}; give 1 or more")
    name = header["chip"]["name"]
    output_targets(directory, [f"{name}.{ending}" for ending in (REPORT, TABLE, PICTURE)])
    points, efforts = list[DriftPoint[Any]](), list[tuple[str, Any]]()
    total, done = samples * len(scenarios) * 2, 0
    report = progress if progress is not None else _silent
    report(done, total)
    for index in range(samples):
        try:
            service: Any = study.start(index)
            for scenario in scenarios:
                for tracked in (False, True):
                    some, effort = study.run(service, scenario, hours, tracked)
                    points += some
                    efforts += [(scenario.name, effort)] if tracked else []
                    done += 1
                    report(done, total)
        except (RangeError, ArithmeticError) as fault:
            raise InputError(
                f"sample {index} of {study.work.chip.name!r} cannot be calibrated or tracked: {fault}"
            ) from fault
    numbers = {
        "schema": SCHEMA,
        **header,
        "hours": hours,
        "holds": study.work.chip.process.drive.holds,
        "samples": samples,
        "scenarios": [_numbers(study, scenario, points, efforts) for scenario in scenarios],
        "faults": [fault.to_json() for fault in faults],
    }
    # matplotlib takes long to import, and a run that is refused draws nothing
    from optinc_pdk.studies.drift.drift_picture import drift_png

    caption = f"{name}, {samples} calibrated sample{'s' * (samples != 1)}, seed {study.work.seed}"
    tracks = list(_tracks(study, points))
    files = {
        directory / f"{name}.{TABLE}": _table(study, points, hours),
        directory / f"{name}.{PICTURE}": drift_png(tracks, study.panels, study.tracking, hours, caption),
    }
    numbers["files"] = {path.name: hashlib.sha256(data).hexdigest() for path, data in files.items()}
    files[directory / f"{name}.{REPORT}"] = (json.dumps(numbers, indent=2, allow_nan=False) + "\n").encode()
    write_files(files)
    return numbers


def _silent(done: int, total: int) -> None:
    """Ignore progress."""


def _numbers(
    study: DriftStudy,
    scenario: DriftScenario,
    points: Sequence[DriftPoint[Any]],
    efforts: Sequence[tuple[str, Any]],
) -> dict[str, Any]:
    """Return the statistics of one scenario."""
    some = [one for one in points if one.scenario == scenario.name]
    return {
        **asdict(scenario),
        "steps": scenario.steps,
        "untracked": study.statistics([one for one in some if not one.tracked]),
        "tracked": study.statistics([one for one in some if one.tracked]),
        **study.effort([effort for name, effort in efforts if name == scenario.name]),
    }


def summary_lines(numbers: Mapping[str, Any]) -> list[str]:
    """Return the table that the command prints, from the results of :func:`run_drift`."""
    checked = "quantities" in numbers["scenarios"][0]["tracked"]
    return [
        f"{numbers['samples']} calibrated chip{'s' * (numbers['samples'] != 1)}, {numbers['hours']:g} hours, "
        f"drive holds {numbers['holds']}",
        noise_text(numbers),
        *(checked_lines(numbers) if checked else word_lines(numbers)),
        *(f"{row['name']}: {changes(row['walk'], row['kelvin'])}" for row in numbers["scenarios"]),
    ]


def _tracks(study: DriftStudy, points: Sequence[DriftPoint[Any]]) -> Iterator[DriftTrack]:
    """Yield the values of every chip in every scenario."""
    for (scenario, tracked, _), some in itertools.groupby(points, lambda one: (one.scenario, one.tracked, one.sample)):
        rows = [(one.share, *study.values(one.outcome)) for one in some]
        share, *values = (list(column) for column in zip(*rows, strict=True))
        yield DriftTrack(scenario, tracked, share, values)


def _table(study: DriftStudy, points: Sequence[DriftPoint[Any]], hours: float) -> bytes:
    rows = (
        [one.scenario, int(one.tracked), one.sample, f"{one.share * hours:.9g}", *study.row(one.outcome)]
        for one in points
    )
    return csv_text(["scenario", "tracked", "sample", "hours", *study.columns], rows).encode()
