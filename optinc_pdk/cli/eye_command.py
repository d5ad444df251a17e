"""The command ``eye``: eye diagrams of hidden signals and outputs at a symbol rate."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from optinc_pdk.chip_files import chip_files, chip_paths
from optinc_pdk.cli.app import app, print_table, stage_progress
from optinc_pdk.cli.layout_faults import exit_code, faults_explaining_errors, faults_json, print_faults
from optinc_pdk.cli.network_files import read_task
from optinc_pdk.cli.options import (
    DEFAULT,
    ActivationName,
    Bits,
    ChipBias,
    ChipNetlist,
    ChipWeights,
    Gds,
    Groups,
    Json,
    LaserW,
    OscillatorW,
    Out,
    ProcessName,
    Seed,
    Servers,
)
from optinc_pdk.cli.paths import output_path, warn_of_changed_cards, warn_of_changes
from optinc_pdk.cli.symbol_rates import warn_of_rates
from optinc_pdk.errors import InputError


@app.command()
def eye(
    gds: Gds,
    symbol_rate: Annotated[float, typer.Option(help="Symbols per second.")],
    netlist: ChipNetlist = None,
    bias: ChipBias = None,
    weights: ChipWeights = None,
    bits: Bits = None,
    servers: Servers = None,
    groups: Groups = None,
    activation: ActivationName = None,
    laser_w: LaserW = None,
    oscillator_w: OscillatorW = None,
    seed: Seed = 0,
    output: Out = None,
    process: ProcessName = DEFAULT,
    as_json: Json = False,
) -> None:
    """Draw eye diagrams of the extracted layout at a symbol rate; writes .eye.png.

    For every hidden layer the row with the smallest opening, and the first server's outputs, with the noise and the
    bandwidths of the cards. An eye of an opening below 0 is closed; a signal of one level has no eye. Exit code 1 if
    the layout has faults that can affect the function and that the simulation does not include.
    """
    files = chip_paths(gds, netlist, bias)
    picture = output_path(output or gds.with_suffix(".eye.png"), gds, files.netlist, files.bias, weights)
    if picture.suffix != ".png":
        raise InputError(f"{picture}: the picture is a PNG file; give it the ending .png")
    warn_of_changes(gds, files.netlist, files.bias)

    from optinc_pdk.cards import load_process
    from optinc_pdk.simulate import scattering
    from optinc_pdk.simulate.transmission.noise import missing_bandwidths, noise_choices
    from optinc_pdk.simulate.transmission.oscillator_limits import check_oscillator_power, relative_oscillator_power

    card = load_process(process)
    warn_of_changed_cards(gds, card)
    files = chip_files(gds, netlist, bias)
    task, _ = read_task(gds, weights, bits, servers, groups, activation)
    choices = noise_choices(card, laser_w, symbol_rate)
    warn_of_rates(card, [symbol_rate])
    ratio = None if oscillator_w is None else relative_oscillator_power(card, laser_w, oscillator_w)

    from optinc_pdk.file_writing import write_atomic
    from optinc_pdk.report.eye_picture import eyes_png, eyes_table
    from optinc_pdk.report.formatting import format_si
    from optinc_pdk.signoff.extracted_chip import read_extracted_chip
    from optinc_pdk.signoff.function import check_board, function_inputs
    from optinc_pdk.tolerance.error_estimate import error_margins, estimate_errors
    from optinc_pdk.tolerance.eye_diagram import eye_diagrams, eyes_json
    from optinc_pdk.tolerance.highest_rates import best_noise
    from optinc_pdk.tolerance.oscillator_power import with_oscillator_power

    if missing := missing_bandwidths(card):
        raise InputError(
            f"process {card.name!r} states no bandwidth of its {missing[0]}, without which symbols have no shape: add "
            f"model.parameters.bandwidth_hz to devices/{missing[0]}.yml"
        )
    with faults_explaining_errors(as_json) as faults, stage_progress(("extract", "light", "words", "picture")) as stage:
        stage("extract")
        chip = read_extracted_chip(gds, files.netlist, files.bias, card)
        faults += chip.faults
        check_board(chip.board, task)
        check_oscillator_power(card, laser_w, chip.board.oscillator_power if ratio is None else ratio)
        stage("light")
        s = scattering(chip.circuit, chip.bias, float(card.guide.wavelength_nm), card, ground=chip.ground)
        board, bias_used = chip.board, chip.bias
        if ratio is not None:
            board, bias_used = with_oscillator_power(s, board, bias_used, card, ratio)
        stage("words")
        inputs = function_inputs(task)
        margins = error_margins(s, inputs, board, bias_used)
        noise = best_noise(margins, choices)
        estimate = estimate_errors(margins, noise).rate
        eyes = eye_diagrams(s, inputs, board, bias_used, noise, seed)
        fibre_w = board.oscillator_power * noise.laser_w
        stage("picture")
        drawn = eyes_png(eyes, noise, fibre_w, gds.stem)
    write_atomic(picture, drawn)
    if as_json:
        numbers = {"schema": 1, "files": [str(picture)], "word_error_rate": estimate} | eyes_json(eyes, noise, fibre_w)
        print(json.dumps(numbers | faults_json(faults), indent=2))
    else:
        print(
            f"{format_si(symbol_rate, 'Bd')}: estimated word-error rate {estimate:.2g}; relative to the distance of "
            "adjacent levels:"
        )
        print_table(eyes_table(eyes))
        print(picture)
        print_faults(faults)
    raise typer.Exit(exit_code(True, faults))
