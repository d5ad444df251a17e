"""The command ``noise``: word-error rate against symbol rate, and the highest rate."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from optinc_pdk.cli import arguments as opt
from optinc_pdk.cli.app import app, stage_progress
from optinc_pdk.cli.chip_inputs import ChipInputs, print_findings
from optinc_pdk.cli.fault_output import faults_explaining_errors
from optinc_pdk.cli.paths import errors_naming
from optinc_pdk.cli.records import with_records
from optinc_pdk.cli.symbol_rates import warn_of_rates
from optinc_pdk.errors import InputError
from optinc_pdk.io.file_sets import write_files
from optinc_pdk.options import CheckOptions


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

    from optinc_pdk.simulate import noise_of
    from optinc_pdk.simulate.transmission.noise import missing_bandwidths, relative_oscillator_power
    from optinc_pdk.tasks.chip_task import Measurement

    files, card = chip.read()
    task = chip.task(checks, card)
    with errors_naming(chip.weights or chip.gds):
        task.refuse(oscillator_w=oscillator_w)
        task.refuse_for_noise(checks.tolerance)
    # refuses optical powers that the card does not allow
    noise_of(card, laser_w)
    ratio = None if oscillator_w is None else relative_oscillator_power(card, laser_w, oscillator_w)

    from optinc_pdk.studies.noise_curves import parse_rates

    rates = parse_rates(symbol_rates, card)
    warn_of_rates(card, rates)
    for device in missing_bandwidths(card):
        print(
            f"optinc: process {card.name!r} states no bandwidth of its {device} (model.parameters.bandwidth_hz in "
            f"devices/{device}.yml), which is taken as unlimited: the rates are too high",
            file=sys.stderr,
        )
    how = Measurement(laser_w, ratio, seed, tuple(rates), passes)
    with (
        faults_explaining_errors(as_json) as faults,
        stage_progress(("extract", *task.noise_stages(how))) as begin,
    ):
        begin("extract")
        task, extracted = task.read_chip(files)
        faults += extracted.faults
        found = task.noise(extracted, how, files.name, begin)
    write_files({picture: found.picture, table: found.table})
    print_findings(found, (table, picture), faults, as_json)
