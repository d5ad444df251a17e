"""The command ``check``: what an extracted layout computes, against the words or the outputs of its network."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from optinc_pdk.cli import options as opt
from optinc_pdk.cli.app import app, stage_progress
from optinc_pdk.cli.layout_faults import exit_code, faults_explaining_errors, faults_json, print_faults
from optinc_pdk.cli.matrix_options import is_matrix
from optinc_pdk.cli.network_files import read_any_network
from optinc_pdk.cli.paths import default_output, output_path, warn_of_changed_cards, warn_of_changes
from optinc_pdk.errors import InputError
from optinc_pdk.io.chip_files import chip_files, chip_paths

if TYPE_CHECKING:
    from optinc_pdk.cards import Process
    from optinc_pdk.io.chip_files import ChipFiles
    from optinc_pdk.networks import AveragingNetwork
    from optinc_pdk.pipeline.tasks.sources import CheckedNetwork

STAGES = ("extract", "function")


@app.command()
def check(
    weights: opt.Weights,
    gds: opt.Gds,
    netlist: opt.ChipNetlist = None,
    bias: opt.ChipBias = None,
    bits: opt.Bits = None,
    servers: opt.Servers = None,
    groups: opt.Groups = None,
    activation: opt.ActivationName = None,
    data: opt.DataFile = None,
    agreement: opt.Agreement = None,
    accuracy: opt.Accuracy = None,
    tolerance: opt.Tolerance = None,
    output: opt.Out = None,
    process: opt.ProcessName = opt.DEFAULT,
    as_json: opt.Json = False,
) -> None:
    """Check that the extracted layout computes every word exactly; writes .function.npz.

    If there are too many inputs to try each, random words and corner cases are tried; networks of comparators are
    certified for all words besides. Exit code 1 if a word is wrong, or if the layout has faults that can affect the
    function and that the simulation does not include.

    A general network is checked with data as optinc build does; writes .network.npz.
    """
    # is_matrix imports NumPy, which output paths are refused without
    if weights.suffix.lower() in (".npy", ".npz") and is_matrix(weights):
        raise InputError(
            f"{weights}: contains a matrix, and optinc check is about networks; optinc program checks the chip of a "
            f"matrix; optinc noise {gds} --weights {weights} and optinc spectrum {weights} {gds} measure it"
        )
    files = chip_paths(gds, netlist, bias)
    given = (weights, gds, files.netlist, files.bias)
    read = given if data is None else (*given, data)
    path = None if output is None else output_path(output, *read, in_place=True)
    network = read_any_network(weights, bits, servers, groups, activation, gds)

    from optinc_pdk.networks import AveragingNetwork

    ending = ".function.npz" if isinstance(network, AveragingNetwork) else ".network.npz"
    path = path or output_path(default_output(gds, ending), *read, in_place=True)
    warn_of_changes(gds, files.netlist, files.bias)

    from optinc_pdk.cards import load_process
    from optinc_pdk.pipeline.tasks.sources import CheckOptions, checked_network, refuse_network_options

    files = chip_files(gds, netlist, bias)
    card = load_process(process)
    warn_of_changed_cards(gds, card)
    options = CheckOptions(tolerance=tolerance, data=data, agreement=agreement, accuracy=accuracy)
    if isinstance(network, AveragingNetwork):
        refuse_network_options(options)
        _check_words(network, files, card, path, as_json)
    else:
        _check_network(checked_network(network, options, f"{weights}: "), files, card, path, as_json)


def _check_words(onn: AveragingNetwork, files: ChipFiles, card: Process, path: Path, as_json: bool) -> None:
    """Read the words of a chip, and end with the exit code."""
    from optinc_pdk.report.build_numbers import function_basis, function_findings, function_numbers
    from optinc_pdk.signoff.extracted_chip import read_extracted_chip
    from optinc_pdk.signoff.function import check_function, write_function

    with faults_explaining_errors(as_json) as faults, stage_progress(STAGES) as report_stage:
        report_stage("extract")
        chip = read_extracted_chip(files.gds, files.netlist, files.bias, card)
        faults += chip.faults
        report_stage("function")
        result = check_function(
            chip.circuit,
            chip.board,
            chip.bias,
            onn.task,
            card,
            chip.ground,
            onn=onn,
            on_progress=partial(report_stage.within, "function"),
        )
    write_function(result, path)
    if as_json:
        print(json.dumps({"schema": 1} | (function_numbers(result) or {}) | faults_json(faults), indent=2))
    else:
        print(f"{result.exact:,}/{result.inputs:,} words exact, margin {result.margin:.3f} levels")
        print("margins by symbol: " + ", ".join(f"{margin:.3f}" for margin in result.symbol_margins))
        print(function_basis(result))
        for line in function_findings(result, onn.activation):
            print(line)
        print_faults(faults)
    raise typer.Exit(exit_code(result.passed, faults))


def _check_network(source: CheckedNetwork, files: ChipFiles, card: Process, path: Path, as_json: bool) -> None:
    """Send data through the chip of a general network, and end with the exit code."""
    from optinc_pdk.networks import factorise
    from optinc_pdk.pipeline.tasks.general_task import check_network, write_network
    from optinc_pdk.report.network_numbers import network_findings, network_numbers
    from optinc_pdk.report.schema import NetworkNumbers
    from optinc_pdk.report.terminal_tables import network_line
    from optinc_pdk.signoff.extracted_chip import read_extracted_chip

    with faults_explaining_errors(as_json) as faults, stage_progress(STAGES) as report_stage:
        report_stage("extract")
        chip = read_extracted_chip(files.gds, files.netlist, files.bias, card)
        faults += chip.faults
        report_stage("function")
        result = check_network(chip.circuit, chip.board, chip.bias, source, card, chip.ground)
    found = result.comparison
    write_network(found, path)
    numbers = network_numbers(source.network, found, result.saturated)
    if as_json:
        print(json.dumps({"schema": 1} | numbers | faults_json(faults), indent=2))
    else:
        print(network_line(NetworkNumbers.model_validate(numbers)))
        # decompositions of whole matrices are exact, and take long
        approximate = any(method != "svd" for method in source.network.factor)
        factors = factorise(source.network) if approximate else ()
        for line in network_findings(found, result.saturated, source.network, factors):
            print(line)
        print_faults(faults)
    raise typer.Exit(exit_code(found.passed, faults))
