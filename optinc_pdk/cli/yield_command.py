"""The command ``yield``: share of chips that work under the imperfections of a process."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from click.core import ParameterSource

from optinc_pdk.cli.app import app, progress_counter, stage_progress
from optinc_pdk.cli.chip_targets import TaskOptions, WordTarget, process_of, read_target, read_target_chip
from optinc_pdk.cli.drift_options import check_drift, drift_progress, print_drift
from optinc_pdk.cli.imperfection_options import sampled_amounts
from optinc_pdk.cli.layout_faults import exit_code, faults_explaining_errors, print_faults
from optinc_pdk.cli.network_files import REPLACE_REPORT, parse_report, report_path
from optinc_pdk.cli.options import (
    DEFAULT,
    LARGEST_SEED,
    MOST,
    MOST_UNITS,
    Accuracy,
    ActivationName,
    Agreement,
    Bits,
    ChipBias,
    DataFile,
    Groups,
    Json,
    OscillatorW,
    ProcessName,
    Reading,
    Servers,
    TargetFile,
    Tolerance,
    parse_output,
)
from optinc_pdk.cli.paths import output_folder, warn_of_changed_cards
from optinc_pdk.cli.yield_studies import LaserOptions, check_study, word_study
from optinc_pdk.errors import InputError

if TYPE_CHECKING:
    from optinc_pdk.chip_files import ChipFiles
    from optinc_pdk.tolerance.montecarlo.sample_study import AnyStudy


@app.command("yield")
def yield_(
    context: typer.Context,
    chip: Annotated[
        Path,
        typer.Argument(
            dir_okay=False, help="Layout file, GDS2 or OASIS; the chip's other files are looked for beside it."
        ),
    ],
    netlist: Annotated[
        Path | None, typer.Option(help="Netlist file with the board, .pic.yml. Default: beside the layout.")
    ] = None,
    bias: ChipBias = None,
    weights: TargetFile = None,
    bits: Bits = None,
    servers: Servers = None,
    groups: Groups = None,
    activation: ActivationName = None,
    data: DataFile = None,
    agreement: Agreement = None,
    accuracy: Accuracy = None,
    tolerance: Tolerance = None,
    read: Reading = None,
    samples: Annotated[int, typer.Option(max=MOST, help="Number of sampled chips, 1 or more.")] = 1000,
    seed: Annotated[
        int,
        typer.Option(
            max=LARGEST_SEED, help="Seed of the random numbers, from 0; sample i depends on the seed and i only."
        ),
    ] = 0,
    target: Annotated[
        float,
        typer.Option(help="For words: share of them that a chip has to compute exactly, above 0 and up to 1."),
    ] = 1.0,
    imperfection: Annotated[
        list[str] | None,
        typer.Option(help="Kind of imperfection to sample; may be given several times. Default: all kinds."),
    ] = None,
    scale: Annotated[
        list[str] | None,
        typer.Option(
            help="KIND=FACTOR, such as coupler=0.5: sample this multiple of the card's imperfection; may be given "
            "several times."
        ),
    ] = None,
    dac_bits: Annotated[
        float | None, typer.Option(help="Effective bits of the heater drive. Default: those of the process card.")
    ] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Calibrate every sample on a virtual bench; needs --weights.")
    ] = False,
    drift: Annotated[
        float | None,
        typer.Option(
            metavar="HOURS",
            help="Let calibrated chips drift for this time: words against time, with and without tracking; needs "
            "--calibrate. A chip takes minutes.",
        ),
    ] = None,
    noise: Annotated[
        bool,
        typer.Option(
            "--noise",
            help="Include the noise of lasers and detectors when words are read and in the readings of --calibrate and "
            "--drift, and estimate the word-error rate of every sample.",
        ),
    ] = False,
    laser_w: Annotated[
        float | None,
        typer.Option(
            help="Optical power launched into every guide, in W; that of local oscillators is scaled with it; with "
            "--noise. Default: the process card's."
        ),
    ] = None,
    oscillator_w: OscillatorW = None,
    symbol_rate: Annotated[
        float | None, typer.Option(help="Symbols per second; with --noise. Default: the process card's.")
    ] = None,
    contributions: Annotated[
        bool,
        typer.Option(
            "--contributions/--no-contributions",
            help="Also measure contributions and tolerances of every imperfection; they take most of the time.",
        ),
    ] = True,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            parser=parse_output,
            metavar="PATH",
            help="Folder for the results. Default: the layout's folder.",
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="local for the processes of a Dask cluster on this machine, or the address of a Dask scheduler, "
            "tcp://HOST:PORT. Default: this process."
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            max=MOST_UNITS, help="Number of processes with --scheduler local. Default: one for each processor."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an earlier run with the same options.")] = False,
    process: ProcessName = DEFAULT,
    as_json: Json = False,
) -> None:
    """Sample the yield of the extracted chip under its process's imperfections; writes tables, numbers and plots.

    Every sample is measured with all imperfections. The first 50 are also measured with each imperfection alone and
    with all but this one (contributions); for the first 20, the largest amount of each imperfection alone that they
    tolerate is found (tolerances). These two take most of the time; --no-contributions skips both. Exit code 1 if the
    layout has faults that can affect the function and that the simulation does not include.

    Samples of a matrix's chip are compared with the matrix, those of a general network's chip with the network over the
    data; a sample that keeps the limits of optinc build works.
    """
    _check_numbers(samples, seed, target)
    if not noise and (laser_w, oscillator_w, symbol_rate) != (None, None, None):
        raise InputError(
            "--laser-w, --oscillator-w and --symbol-rate have no effect without noise: add --noise, or leave them out"
        )
    if drift is not None:
        check_drift(context, drift, calibrate)
    if calibrate and weights is None:
        raise InputError(
            "--calibrate fits a chip to the weights of its network, which no report contains: give the weight file "
            "with --weights"
        )
    if output is not None:
        output_folder(output)

    from optinc_pdk.cards import load_process
    from optinc_pdk.chip_files import chip_files
    from optinc_pdk.chip_tasks.sources import CheckOptions
    from optinc_pdk.tolerance.montecarlo.executors import check_scheduler, open_executor
    from optinc_pdk.tolerance.montecarlo.yield_run import header_of, run_yield
    from optinc_pdk.tolerance.variation.imperfections import imperfections

    check_scheduler(scheduler, workers)
    files, card = chip_files(chip, netlist, bias), load_process(process)
    described = TaskOptions(bits, servers, groups, activation)
    options = CheckOptions(read, tolerance, data, agreement, accuracy)
    found = read_target(files.gds, weights, described, options)
    if not isinstance(found, WordTarget):
        _refuse_for_checks(context, weights or chip, noise, drift)
    _check_report(files)
    warn_of_changed_cards(files.gds, card)
    card = process_of(found, card)
    lasers = LaserOptions(noise, laser_w, oscillator_w, symbol_rate)
    lasers.check(card)
    drawn = replace(imperfections(card), amount=sampled_amounts(card, imperfection or [], scale or [], dac_bits, noise))
    with faults_explaining_errors(as_json) as faults, stage_progress(("extract",)) as report_stage:
        report_stage("extract")
        built = read_target_chip(files, found, card, weights)
        faults += built.faults
        work: AnyStudy
        if isinstance(found, WordTarget):
            work = words = word_study(found, built, card, drawn, seed, target, calibrate, lasers)
        else:
            work = check_study(found, built, card, drawn, seed, calibrate)
    directory = chip.parent if output is None else output
    if drift is not None:
        from optinc_pdk.tolerance.drift.drift_run import run_drift

        with faults_explaining_errors(as_json) as explained, drift_progress() as report_drift:
            explained += faults
            header = header_of(files, card, work)
            drifted = run_drift(words, header, drift, samples, directory, report_drift, faults)
        if as_json:
            print(json.dumps(drifted, indent=2))
        else:
            print_drift(drifted, directory / files.name)
            print_faults(faults)
        raise typer.Exit(exit_code(True, faults))
    with faults_explaining_errors(as_json) as explained, _samples() as report_samples:
        explained += faults
        run, header = open_executor(work, scheduler, workers), header_of(files, card, work)
        numbers = run_yield(work, header, samples, directory, run, resume, report_samples, contributions, faults)
    if as_json:
        print(json.dumps(numbers, indent=2))
    else:
        _print_summary(numbers, directory / files.name)
        print_faults(faults)
    raise typer.Exit(exit_code(True, faults))


def _refuse_for_checks(context: typer.Context, weights: Path, noise: bool, drift: float | None) -> None:
    """Refuse options that are about words for a matrix or a general network.

    Raises:
        InputError: One of them is given.
    """
    stated = context.get_parameter_source("target") is not ParameterSource.DEFAULT
    given = {"--target": stated, "--noise": noise, "--drift": drift is not None}
    for name in [name for name, there in given.items() if there]:
        raise InputError(
            f"{weights}: {name} is about words, and this is a matrix or a general network: leave it out; --tolerance, "
            "--agreement and --accuracy say which chips work"
        )


def _check_numbers(samples: int, seed: int, target: float) -> None:
    if samples < 1:
        raise InputError(f"--samples {samples}: give 1 or more")
    if seed < 0:
        raise InputError(f"--seed {seed}: give a whole number from 0")
    if not 0.0 < target <= 1.0:
        raise InputError(f"--target {target}: give a share of the words, above 0 and up to 1")


def _check_report(files: ChipFiles) -> None:
    """Check that the report beside a layout, if it lists the layout, holds for the chip's files and has passed.

    Raises:
        InputError: The report cannot be used, describes other files, or states that the chip failed.
    """
    from optinc_pdk.report.build_files import changed_files

    path = report_path(files.gds)
    if not path.exists():
        return
    report = parse_report(path, REPLACE_REPORT)
    if files.gds.name not in report.files:
        return
    for changed, _ in changed_files((files.gds, files.netlist, files.bias)):
        raise InputError(f"{changed}: is not the file that {path} describes (another SHA-256); {REPLACE_REPORT}")
    if report.verdict == "fail":
        raise InputError(f"{path}: the chip failed: {'; '.join(report.failures())}; correct it, or {REPLACE_REPORT}")


@contextmanager
def _samples() -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar over the samples; an interruption reports how many are kept."""
    kept = 0
    try:
        with progress_counter(remaining=True) as report:

            def report_samples(done: int, total: int) -> None:
                nonlocal kept
                kept = done
                report("samples", done, total)

            yield report_samples
    except KeyboardInterrupt:
        print(f"optinc: {kept} samples are kept; give --resume as well to continue", file=sys.stderr)
        raise


def _print_summary(numbers: Mapping[str, Any], stem: Path) -> None:
    from optinc_pdk.tolerance.montecarlo.summary_text import summary_lines
    from optinc_pdk.tolerance.montecarlo.yield_run import FILES, OPTIONAL_FILES, RECORDS, REPORT

    for line in summary_lines(numbers):
        print(line)
    print("written:")
    for ending in (REPORT, RECORDS, *FILES, *OPTIONAL_FILES):
        path = Path(f"{stem}.{ending}")
        # a run deletes optional files that it does not write
        if path.exists():
            print(path)
