"""The command ``yield``: share of chips that work under the imperfections of a process."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from click.core import ParameterSource

from optinc_pdk.cli import arguments as opt
from optinc_pdk.cli.app import app, progress_counter, stage_progress
from optinc_pdk.cli.chip_inputs import ChipInputs
from optinc_pdk.cli.drift_options import check_drift, drift_progress, print_drift
from optinc_pdk.cli.fault_output import exit_code, faults_explaining_errors, print_faults
from optinc_pdk.cli.imperfection_options import sampled_amounts
from optinc_pdk.cli.paths import errors_naming, output_folder
from optinc_pdk.cli.records import with_records
from optinc_pdk.cli.symbol_rates import warn_of_rates
from optinc_pdk.errors import InputError
from optinc_pdk.options import CheckOptions

if TYPE_CHECKING:
    from optinc_pdk.cards import Process
    from optinc_pdk.io.chip_files import ChipFiles
    from optinc_pdk.signoff.layout_faults import LayoutFault
    from optinc_pdk.studies.drift.drift_run import DriftStudy
    from optinc_pdk.studies.montecarlo.study import YieldStudy


@app.command("yield")
@with_records
def yield_(
    *,
    context: typer.Context,
    chip: ChipInputs,
    checks: CheckOptions,
    samples: Annotated[int, typer.Option(max=opt.MOST, help="Number of sampled chips, 1 or more.")] = 1000,
    seed: Annotated[
        int,
        typer.Option(
            max=opt.LARGEST_SEED, help="Seed of the random numbers, from 0; sample i depends on the seed and i only."
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
            help="Let calibrated chips drift for this time, with and without tracking (words) or calibration in "
            "service (matrices, general networks); needs --calibrate. A chip takes minutes.",
        ),
    ] = None,
    noise: Annotated[
        bool,
        typer.Option(
            "--noise",
            help="Include the noise of lasers and detectors in operation and in the readings of --calibrate and "
            "--drift; for words, estimate the word-error rate of every sample.",
        ),
    ] = False,
    laser_w: Annotated[
        float | None,
        typer.Option(
            help="Optical power launched into every guide, in W; that of local oscillators is scaled with it; with "
            "--noise. Default: the process card's."
        ),
    ] = None,
    oscillator_w: opt.OscillatorW = None,
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
            parser=opt.parse_output,
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
            max=opt.MOST_UNITS, help="Number of processes with --scheduler local. Default: one for each processor."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an earlier run with the same options.")] = False,
    as_json: opt.Json = False,
) -> None:
    """Sample the yield of the extracted chip under its process's imperfections; writes tables, numbers and plots.

    Every sample is measured with all imperfections. The first 50 are also measured with each imperfection alone and
    with all but this one (contributions); for the first 20, the largest amount of each imperfection alone that they
    tolerate is found (tolerances). These two take most of the time; --no-contributions skips both. Exit code 1 if the
    layout has faults that can affect the function and that the simulation does not include.

    Samples of a matrix's chip are compared with the matrix, those of a general network's chip with the network over the
    data; a sample that keeps the limits of optinc build works. Noise disturbs the outputs of a network; for a matrix,
    signal-to-noise ratios of the outputs are reported.
    """
    _check_numbers(samples, seed, target)
    lasers = _LaserOptions(noise, laser_w, oscillator_w, symbol_rate)
    lasers.refuse_without_noise()
    if drift is not None:
        check_drift(context, drift, calibrate)
    if calibrate and chip.weights is None:
        raise InputError(
            "--calibrate fits a chip to the weights of its network, which no report contains: give the weight file "
            "with --weights"
        )
    if output is not None:
        output_folder(output)

    from optinc_pdk.studies.montecarlo.executors import check_scheduler
    from optinc_pdk.studies.montecarlo.study import YieldStudy
    from optinc_pdk.studies.oscillators import chip_with_oscillators
    from optinc_pdk.studies.variation.sampling import imperfections

    check_scheduler(scheduler, workers)
    files, card = chip.read(warn=False)
    task = chip.task(checks, card)
    stated = context.get_parameter_source("target") is not ParameterSource.DEFAULT
    with errors_naming(chip.weights or chip.gds):
        task.refuse(target=target if stated else None, oscillator_w=oscillator_w)
    _check_report(files)
    card = task.process
    lasers.check(card)
    drawn = replace(imperfections(card), amount=sampled_amounts(card, imperfection or [], scale or [], dac_bits, noise))
    with faults_explaining_errors(as_json) as faults, stage_progress(("extract",)) as report_stage:
        report_stage("extract")
        task, built = task.read_chip(files)
        faults += built.faults
        nominal = task.nominal(built)
        if oscillator_w is not None:
            nominal = chip_with_oscillators(nominal, laser_w, oscillator_w)
        check = task.nominal_check(nominal, target)
        in_use = check.operating_noise(laser_w, symbol_rate) if noise else None
        work = YieldStudy(check, drawn, seed, calibrate, in_use)
    directory = chip.gds.parent if output is None else output
    run = _YieldRun(files, card, work, samples, directory, faults, as_json)
    if drift is not None:
        run.drift(drift, task.drift(work))
    else:
        run.sample(scheduler, workers, resume, contributions)
    raise typer.Exit(exit_code(True, faults))


def _check_numbers(samples: int, seed: int, target: float) -> None:
    if samples < 1:
        raise InputError(f"--samples {samples}: give 1 or more")
    if seed < 0:
        raise InputError(f"--seed {seed}: give a whole number from 0")
    if not 0.0 < target <= 1.0:
        raise InputError(f"--target {target}: give a share of the words, above 0 and up to 1")


def _check_report(files: ChipFiles) -> None:
    """Check that the report beside a layout, if it lists the layout, holds for the chip's files and states no failure.

    A chip that only misses budgets of its process computes correctly, so that its yield can be studied.

    Raises:
        InputError: The report cannot be used, describes other files, or states that a check of the chip failed.
    """
    from optinc_pdk.report.build_files import REPLACE_REPORT, changed_files, parse_report, report_path

    path = report_path(files.gds)
    if not path.exists():
        return
    report = parse_report(path, REPLACE_REPORT)
    if files.gds.name not in report.files:
        return
    for changed, _ in changed_files((files.gds, files.netlist, files.bias)):
        raise InputError(f"{changed}: is not the file that {path} describes (another SHA-256); {REPLACE_REPORT}")
    if failures := report.check_failures():
        raise InputError(f"{path}: the chip failed: {'; '.join(failures)}; correct it, or {REPLACE_REPORT}")


@dataclass(frozen=True)
class _LaserOptions:
    """Options of ``--noise``: whether there is noise, optical powers and symbol rate; None for the card's."""

    noise: bool
    laser_w: float | None
    oscillator_w: float | None
    symbol_rate: float | None

    def refuse_without_noise(self) -> None:
        """Refuse powers and rates if there is no noise.

        Raises:
            InputError: One of them is given.
        """
        if not self.noise and (self.laser_w, self.oscillator_w, self.symbol_rate) != (None, None, None):
            raise InputError(
                "--laser-w, --oscillator-w and --symbol-rate have no effect without noise: add --noise, or leave them "
                "out"
            )

    def check(self, card: Process) -> None:
        """Refuse powers and rates that the process does not allow, before the layout is read."""
        from optinc_pdk.simulate.transmission.noise import noise_choices, relative_oscillator_power

        if self.noise:
            noise_choices(card, self.laser_w, self.symbol_rate)
            warn_of_rates(card, () if self.symbol_rate is None else [self.symbol_rate])
        if self.oscillator_w is not None:
            relative_oscillator_power(card, self.laser_w, self.oscillator_w)


@dataclass(frozen=True)
class _YieldRun:
    """Samples of a chip, and where the results go.

    Attributes:
        files: Files of the chip.
        card: Process as the target uses it.
        work: Parameters of the samples.
        samples: Number of samples.
        directory: Folder of the results.
        faults: Faults of the layout, which the samples do not include.
        as_json: Whether JSON is printed.
    """

    files: ChipFiles
    card: Process
    work: YieldStudy
    samples: int
    directory: Path
    faults: list[LayoutFault]
    as_json: bool

    def drift(self, hours: float, study: DriftStudy) -> None:
        """Let calibrated samples drift, and print the results."""
        from optinc_pdk.studies.drift.drift_run import run_drift
        from optinc_pdk.studies.montecarlo.yield_run import header_of

        with faults_explaining_errors(self.as_json) as explained, drift_progress() as progress:
            explained += self.faults
            header = header_of(self.files, self.card, self.work)
            numbers = run_drift(study, header, hours, self.samples, self.directory, progress, self.faults)
        self._print(numbers, print_drift)

    def sample(self, scheduler: str | None, workers: int | None, resume: bool, contributions: bool) -> None:
        """Evaluate samples, and print the results; arguments are options of the command."""
        from optinc_pdk.studies.montecarlo.executors import open_executor
        from optinc_pdk.studies.montecarlo.yield_run import header_of, run_yield

        with faults_explaining_errors(self.as_json) as explained, _samples() as progress:
            explained += self.faults
            run, header = open_executor(self.work, scheduler, workers), header_of(self.files, self.card, self.work)
            numbers = run_yield(
                self.work, header, self.samples, self.directory, run, resume, progress, contributions, self.faults
            )
        self._print(numbers, _print_summary)

    def _print(self, numbers: Mapping[str, Any], as_text: Callable[[Mapping[str, Any], Path], None]) -> None:
        if self.as_json:
            print(json.dumps(numbers, indent=2))
            return
        as_text(numbers, self.directory / self.files.name)
        print_faults(self.faults)


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
    from optinc_pdk.studies.montecarlo.summary_text import summary_lines
    from optinc_pdk.studies.montecarlo.yield_run import FILES, OPTIONAL_FILES, RECORDS, REPORT

    for line in summary_lines(numbers):
        print(line)
    print("written:")
    for ending in (REPORT, RECORDS, *FILES, *OPTIONAL_FILES):
        path = Path(f"{stem}.{ending}")
        # a run deletes optional files that it does not write
        if path.exists():
            print(path)
