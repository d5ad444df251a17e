"""The command ``noise``: word-error rate against symbol rate, and the highest rate."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from optinc_pdk.cli import arguments as opt
from optinc_pdk.cli.app import app, print_table, stage_progress
from optinc_pdk.cli.chip_inputs import ChipInputs, LightRun, WordTarget, process_of, read_target_chip
from optinc_pdk.cli.fault_output import exit_code, faults_explaining_errors, faults_json, print_faults
from optinc_pdk.cli.paths import errors_naming
from optinc_pdk.cli.records import with_records
from optinc_pdk.cli.symbol_rates import warn_of_rates
from optinc_pdk.errors import InputError
from optinc_pdk.options import CheckOptions

if TYPE_CHECKING:
    from optinc_pdk.matrices import MatrixTarget
    from optinc_pdk.pipeline.tasks.sources import CheckedNetwork
    from optinc_pdk.studies.link_energy import LinkEnergy
    from optinc_pdk.studies.noise_curves import NoiseCurve
    from optinc_pdk.studies.oscillators import OscillatorRates


@app.command()
@with_records
def noise(
    *,
    chip: ChipInputs,
    checks: CheckOptions,
    laser_w: opt.LaserW = None,
    oscillator_w: opt.OscillatorW = None,
    symbol_rates: Annotated[
        str | None,
        typer.Option(
            help="Symbols per second: one, a list such as 1e6,1e7, or a logarithmic series first:last:number such as "
            "1e5:1e9:17. Default: 13 rates from the lowest useful one of the process card to the highest."
        ),
    ] = None,
    passes: Annotated[int, typer.Option(min=1, max=opt.MOST, help="Number of times that every input is sent.")] = 1,
    seed: opt.Seed = 0,
    output: opt.Out = None,
    as_json: opt.Json = False,
) -> None:
    """Measure the word-error rate of the extracted layout against the symbol rate; writes .noise.csv and .noise.png.

    Noise and bandwidths are those of the cards. Words are counted at every rate. The highest rate at a word-error rate
    of 1e-9, what limits it, and the highest rates with other powers of the local oscillators are estimated. Exit code 1
    if the layout has faults that can affect the function and that the simulation does not include.

    The chip of a general network is compared with the network over the data: agreement and accuracy against the symbol
    rate. That of a matrix multiplies random vectors: signal-to-noise ratio and error of the outputs.
    """
    table = chip.output(output or chip.gds.with_suffix(".noise.csv"), checks.data)
    if table.suffix.lower() != ".csv":
        raise InputError(f"{table}: the table is written as .csv, and a .png beside it; give a name that ends in .csv")
    picture = chip.output(table.with_suffix(".png"), checks.data)

    from optinc_pdk.matrices import MatrixTarget
    from optinc_pdk.pipeline.tasks.sources import refuse_options
    from optinc_pdk.simulate import noise_of
    from optinc_pdk.simulate.transmission.noise import relative_oscillator_power

    files, card = chip.read()
    target = chip.target(checks)
    if isinstance(target, MatrixTarget):
        with errors_naming(chip.weights or chip.gds):
            refuse_options("a network, whose chip has local oscillators", oscillator_w=oscillator_w)
            # signal-to-noise ratios have no limit
            refuse_options("a general network", tolerance=checks.tolerance)
    # refuses optical powers that the card does not allow
    noise_of(card, laser_w)
    ratio = None if oscillator_w is None else relative_oscillator_power(card, laser_w, oscillator_w)

    from optinc_pdk.simulate.transmission.noise import missing_bandwidths
    from optinc_pdk.studies.noise_curves import parse_rates

    rates = parse_rates(symbol_rates, card)
    warn_of_rates(card, rates)
    for device in missing_bandwidths(card):
        print(
            f"optinc: process {card.name!r} states no bandwidth of its {device} (model.parameters.bandwidth_hz in "
            f"devices/{device}.yml), which is taken as unlimited: the rates are too high",
            file=sys.stderr,
        )
    run = _Run(
        files, process_of(target, card), chip.weights, laser_w, ratio, seed, picture, as_json, rates, passes, table
    )
    if isinstance(target, WordTarget):
        _noise_of_words(run, target)
    _noise_of_check(run, target)


@dataclass(frozen=True)
class _Run(LightRun):
    """Inputs and output of a curve.

    Attributes:
        rates: Symbols per second.
        passes: Number of times that every input is sent.
        table: The table to write.
    """

    rates: Sequence[float]
    passes: int
    table: Path


def _noise_of_words(run: _Run, target: WordTarget) -> NoReturn:
    """Count wrong words at symbol rates, estimate the highest rate, and end with the exit code."""
    from optinc_pdk.io.formatting import format_si
    from optinc_pdk.signoff.function import check_board, function_inputs
    from optinc_pdk.studies.link_energy import link_energy
    from optinc_pdk.studies.noise_curves import word_error_curve
    from optinc_pdk.studies.oscillators import oscillator_rates

    card = run.card
    task = target.task
    stages = (
        "extract",
        "light",
        *(format_si(rate, "Bd") for rate in sorted(set(run.rates))),
        "highest rate",
        "oscillators",
    )
    with faults_explaining_errors(run.as_json) as faults, stage_progress(stages) as report_stage:
        report_stage("extract")
        chip = read_target_chip(run.files, target, card, run.weights)
        faults += chip.faults
        check_board(chip.board, task)
        report_stage("light")
        s, board, electronics = run.light(chip)
        curve = word_error_curve(
            s,
            board,
            electronics,
            task,
            card,
            run.rates,
            run.laser_w,
            run.passes,
            run.seed,
            lambda bd: report_stage("highest rate" if bd is None else format_si(bd, "Bd")),
        )
        report_stage("oscillators")
        against = oscillator_rates(s, function_inputs(task), board, electronics, card, run.laser_w)

    from optinc_pdk.io.file_sets import write_files
    from optinc_pdk.report.noise_curve import curve_csv, curve_png

    write_files({run.picture: curve_png(curve, run.files.gds.stem), run.table: curve_csv(curve)})
    limits, energy = curve.limits, None
    if limits.symbol_rate_bd is not None:
        energy = link_energy(board, electronics, task, card, limits.noise)
    if run.as_json:
        numbers = {"schema": 1, "files": [str(run.table), str(run.picture)]} | curve.to_json() | faults_json(faults)
        numbers |= {
            "energy": None if energy is None else energy.to_json(),
            "oscillators": against.to_json(),
        }
        print(json.dumps(numbers, indent=2))
    else:
        _print_words(curve, against, energy)
        print(f"{run.table}, {run.picture}")
        print_faults(faults)
    raise typer.Exit(exit_code(True, faults))


def _print_words(curve: NoiseCurve, against: OscillatorRates, energy: LinkEnergy | None) -> None:
    """Print counted and estimated errors by rate, the limits of the rate, oscillators and energy."""
    from optinc_pdk.io.formatting import light_text
    from optinc_pdk.report.noise_curve import energy_line, limits_line, limits_table, oscillator_table, point_line
    from optinc_pdk.report.summary import oscillator_line

    print(light_text(curve.laser_w, curve.oscillator_w))
    for point in curve.points:
        print(point_line(point))
    print(limits_line(curve.limits))
    print_table(limits_table(curve))
    if against.light is not None:
        print(f"local oscillators: {oscillator_line(against.light)}")
        print_table(oscillator_table(against))
    if energy is not None:
        print(energy_line(energy))


def _noise_of_check(run: _Run, target: CheckedNetwork | MatrixTarget) -> NoReturn:
    """Compare a chip with a matrix or a general network at symbol rates, and end with the exit code."""
    from optinc_pdk.io.file_sets import write_files
    from optinc_pdk.io.formatting import format_si
    from optinc_pdk.matrices import MatrixTarget
    from optinc_pdk.report.noise_curve import checked_csv, checked_lines, checked_png
    from optinc_pdk.simulate import scattering
    from optinc_pdk.studies.noise_curves import checked_noise_curve
    from optinc_pdk.studies.noisy_outputs import NoisyMatrix, NoisyNetwork

    card = run.card
    names = tuple(format_si(rate, "Bd") for rate in sorted(set(run.rates)))
    with faults_explaining_errors(run.as_json) as faults, stage_progress(("extract", "light", *names)) as stages:
        stages("extract")
        chip = read_target_chip(run.files, target, card, run.weights)
        faults += chip.faults
        stages("light")
        outputs: NoisyMatrix | NoisyNetwork
        if isinstance(target, MatrixTarget):
            s = scattering(chip.circuit, chip.bias, float(card.guide.wavelength_nm), card, ground=chip.ground)
            outputs = NoisyMatrix.of(s, target)
        else:
            light = run.light(chip)
            outputs = NoisyNetwork(*light, target.network, target.data, target.limits)
        curve = checked_noise_curve(
            outputs, card, run.rates, run.laser_w, run.passes, run.seed, lambda bd: stages(format_si(bd, "Bd"))
        )
    write_files({run.picture: checked_png(curve, run.files.name), run.table: checked_csv(curve)})
    written = [str(run.table), str(run.picture)]
    if run.as_json:
        print(json.dumps({"schema": 1, "files": written} | curve.to_json() | faults_json(faults), indent=2))
    else:
        for line in checked_lines(curve, card):
            print(line)
        print(", ".join(written))
        print_faults(faults)
    raise typer.Exit(exit_code(True, faults))
