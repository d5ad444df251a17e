"""A complete drift run: words of sampled chips against time, with and without tracking, as tables and a picture."""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from optinc_pdk.drive import RangeError
from optinc_pdk.errors import InputError
from optinc_pdk.file_sets import output_targets, write_files
from optinc_pdk.signoff.layout_faults import LayoutFault
from optinc_pdk.tolerance.drift.scenarios import SCENARIOS, DriftScenario, check_hours
from optinc_pdk.tolerance.drift.service import DriftPoint, ServiceEffort, drift_points, start_service
from optinc_pdk.tolerance.montecarlo.study import YieldStudy
from optinc_pdk.tolerance.montecarlo.summary_text import noise_text, percent, rate_text

SCHEMA = 1
REPORT, TABLE, PICTURE = "drift.json", "drift.csv", "drift.png"
"""Endings of the files of a run."""
COLUMNS = ("inputs", "exact", "accuracy", "words", "wrong", "margin", "fault", "estimated_word_error_rate")
Progress = Callable[[int, int], None]


def run_drift(
    work: YieldStudy,
    header: Mapping[str, Any],
    hours: float,
    samples: int,
    directory: Path,
    progress: Progress | None = None,
    faults: Sequence[LayoutFault] = (),
    scenarios: Sequence[DriftScenario] = SCENARIOS,
) -> dict[str, Any]:
    """Let sampled and calibrated chips drift, and write words against time into a folder.

    Args:
        work: Parameters of the samples, with a network.
        header: Header of the run, see :func:`optinc_pdk.tolerance.montecarlo.yield_run.header_of`.
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
    points, efforts = list[DriftPoint](), list[ServiceEffort]()
    total, done = samples * len(scenarios) * 2, 0
    report = progress if progress is not None else _silent
    report(done, total)
    for index in range(samples):
        try:
            service = start_service(work, index)
            for scenario in scenarios:
                for tracked in (False, True):
                    some, effort = drift_points(service, scenario, hours, tracked)
                    points += some
                    efforts += [effort] if tracked else []
                    done += 1
                    report(done, total)
        except (RangeError, ArithmeticError) as fault:
            raise InputError(
                f"sample {index} of {work.chip.name!r} cannot be calibrated or tracked: {fault}"
            ) from fault
    numbers = {
        "schema": SCHEMA,
        **header,
        "hours": hours,
        "holds": work.chip.process.drive.holds,
        "samples": samples,
        "scenarios": [_numbers(scenario, points, efforts) for scenario in scenarios],
        "faults": [fault.to_json() for fault in faults],
    }
    # matplotlib takes long to import, and a run that is refused draws nothing
    from optinc_pdk.tolerance.drift.plots import DriftTrack, drift_png

    caption = f"{name}, {samples} calibrated samples, seed {work.seed}"
    files = {
        directory / f"{name}.{TABLE}": _table(points, hours),
        directory / f"{name}.{PICTURE}": drift_png([DriftTrack(*one) for one in _tracks(points)], hours, caption),
    }
    numbers["files"] = {path.name: hashlib.sha256(data).hexdigest() for path, data in files.items()}
    files[directory / f"{name}.{REPORT}"] = (json.dumps(numbers, indent=2, allow_nan=False) + "\n").encode()
    write_files(files)
    return numbers


def _silent(done: int, total: int) -> None:
    """Ignore progress."""


def _numbers(scenario: DriftScenario, points: Sequence[DriftPoint], efforts: Sequence[ServiceEffort]) -> dict[str, Any]:
    """Return the statistics of one scenario."""
    effort = [one for one in efforts if one.scenario == scenario.name]
    steps = sum(one.steps for one in effort)
    return {
        **asdict(scenario),
        "steps": scenario.steps,
        "untracked": _statistics([one for one in points if one.scenario == scenario.name and not one.tracked]),
        "tracked": _statistics([one for one in points if one.scenario == scenario.name and one.tracked]),
        "pilots": effort[0].pilots,
        "transmissions": effort[0].transmissions,
        "rounds_per_step": sum(one.rounds for one in effort) / steps,
        "processor_s_per_step": sum(one.processor_s for one in effort) / steps,
        "learnt_again": sum(one.learnt for one in effort) / len(effort),
        "whole_turns": sum(one.turns for one in effort) / len(effort),
    }


def _statistics(points: Sequence[DriftPoint]) -> dict[str, Any]:
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
        "always_exact": len(chips) - len(lost),
        "words_ever": sum(one.outcome.words for one in points),
        "wrong_ever": sum(one.outcome.wrong for one in points),
        "estimated_word_error_rate_worst_ever": max(estimates, default=None),
    }


def summary_lines(numbers: Mapping[str, Any]) -> list[str]:
    """Return the table that the command prints.

    Args:
        numbers: Result of :func:`run_drift`.
    """
    lines = [
        f"{numbers['samples']} calibrated chips, {numbers['hours']:g} hours, drive holds {numbers['holds']}",
        noise_text(numbers),
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


def _tracks(points: Sequence[DriftPoint]) -> Iterator[tuple[str, bool, list[float], list[float], list[float]]]:
    """Yield scenario, tracking, times, accuracies and margins of every chip in every scenario."""
    for (scenario, tracked, _), some in itertools.groupby(points, lambda one: (one.scenario, one.tracked, one.sample)):
        rows = [(one.share, one.outcome.accuracy, one.outcome.margin) for one in some]
        share, accuracy, margin = (list(column) for column in zip(*rows, strict=True))
        yield scenario, tracked, share, accuracy, margin


def _table(points: Sequence[DriftPoint], hours: float) -> bytes:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["scenario", "tracked", "sample", "hours", *COLUMNS])
    for one in points:
        outcome = (getattr(one.outcome, column) for column in COLUMNS)
        writer.writerow([one.scenario, int(one.tracked), one.sample, f"{one.share * hours:.9g}", *outcome])
    return stream.getvalue().encode()
