"""The command ``eye``: eye diagrams of hidden signals and outputs at a symbol rate."""

from __future__ import annotations

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
from optinc_pdk.io.writing import write_atomic
from optinc_pdk.options import SampleOptions


@app.command()
@with_records
def eye(
    *,
    chip: ChipInputs,
    symbol_rate: Annotated[float, typer.Option(help="Symbols per second.")],
    checks: SampleOptions,
    laser_w: opt.LaserW = None,
    oscillator_w: opt.OscillatorW = None,
    seed: opt.Seed = 0,
    output: opt.Out = None,
    as_json: opt.Json = False,
) -> None:
    """Draw eye diagrams of the extracted layout at a symbol rate; writes .eye.png.

    For every hidden layer the row with the smallest opening, and the first server's outputs, with the noise and the
    bandwidths of the cards. An eye of an opening below 0 is closed; a signal of one level has no eye. Exit code 1 if
    the layout has faults that can affect the function and that the simulation does not include.

    For a classifier with labelled data, by how much each output exceeds the largest of the others: open where the
    receivers read the network's class for the share of the samples that --agreement states. Outputs of regressors and
    of matrices have no levels and no eye: use optinc noise.
    """
    picture = chip.output(output or chip.gds.with_suffix(".eye.png"), checks.data)
    if picture.suffix.lower() != ".png":
        raise InputError(f"{picture}: the picture is a PNG file; give it the ending .png")

    from optinc_pdk.simulate.transmission.noise import missing_bandwidths, noise_choices, relative_oscillator_power
    from optinc_pdk.tasks.chip_task import Measurement

    files, card = chip.read()
    task = chip.task(checks, card)
    with errors_naming(chip.weights or chip.gds):
        task.check_levels()
    # refuses powers and rates that the card does not allow
    noise_choices(card, laser_w, symbol_rate)
    warn_of_rates(card, [symbol_rate])
    ratio = None if oscillator_w is None else relative_oscillator_power(card, laser_w, oscillator_w)
    if missing := missing_bandwidths(card):
        raise InputError(
            f"process {card.name!r} states no bandwidth of its {missing[0]}, without which symbols have no shape: add "
            f"model.parameters.bandwidth_hz to devices/{missing[0]}.yml"
        )
    with faults_explaining_errors(as_json) as faults, stage_progress(("extract", "eyes")) as begin:
        begin("extract")
        task, extracted = task.read_chip(files)
        faults += extracted.faults
        begin("eyes")
        found = task.eyes_at(extracted, Measurement(laser_w, ratio, seed, (symbol_rate,)), chip.gds.stem)
    write_atomic(picture, found.picture)
    print_findings(found, (picture,), faults, as_json)
