"""The command ``check``: what an extracted layout computes, against the words or the outputs of its network."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from optinc_pdk.cli import options as opt
from optinc_pdk.cli.app import app, stage_progress
from optinc_pdk.cli.chip_inputs import ChipInputs, WordTarget
from optinc_pdk.cli.layout_faults import exit_code, faults_explaining_errors, faults_json, print_faults
from optinc_pdk.cli.paths import default_output
from optinc_pdk.cli.records import with_records
from optinc_pdk.errors import InputError
from optinc_pdk.options import CheckOptions

if TYPE_CHECKING:
    from optinc_pdk.cards import Process
    from optinc_pdk.io.chip_files import ChipFiles
    from optinc_pdk.pipeline.tasks.sources import CheckedNetwork

STAGES = ("extract", "function")


@app.command()
@with_records
def check(
    *,
    chip: ChipInputs,
    checks: CheckOptions,
    output: opt.Out = None,
    as_json: opt.Json = False,
) -> None:
    """Check that the extracted layout computes every word exactly; writes .function.npz.

    If there are too many inputs to try each, random words and corner cases are tried; networks of comparators are
    certified for all words besides. Exit code 1 if a word is wrong, or if the layout has faults that can affect the
    function and that the simulation does not include.

    A general network is checked with data as optinc build does; writes .network.npz.
    """
    path = None if output is None else chip.output(output, checks.data, in_place=True)
    target = chip.target(checks)

    from optinc_pdk.matrices import MatrixTarget

    if isinstance(target, MatrixTarget):
        raise InputError(
            f"{chip.weights}: contains a matrix, and optinc check is about networks; optinc program checks the chip of "
            f"a matrix; optinc noise and optinc spectrum measure it"
        )
    files, card = chip.read()
    words = isinstance(target, WordTarget)
    ending = ".function.npz" if words else ".network.npz"
    path = path or chip.output(default_output(chip.gds, ending), checks.data, in_place=True)
    if isinstance(target, WordTarget):
        _check_words(target, files, card, path, as_json)
    else:
        _check_network(target, files, card, path, as_json)


def _check_words(target: WordTarget, files: ChipFiles, card: Process, path: Path, as_json: bool) -> None:
    """Read the words of a chip, and end with the exit code."""
    from optinc_pdk.report.build_numbers import function_numbers
    from optinc_pdk.report.findings import function_basis, function_findings
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
            target.task,
            card,
            chip.ground,
            onn=target.onn,
            on_progress=partial(report_stage.within, "function"),
        )
    write_function(result, path)
    if as_json:
        print(json.dumps({"schema": 1} | (function_numbers(result) or {}) | faults_json(faults), indent=2))
    else:
        print(f"{result.exact:,}/{result.inputs:,} words exact, margin {result.margin:.3f} levels")
        print("margins by symbol: " + ", ".join(f"{margin:.3f}" for margin in result.symbol_margins))
        print(function_basis(result))
        for line in function_findings(result, target.activation):
            print(line)
        print_faults(faults)
    raise typer.Exit(exit_code(result.passed, faults))


def _check_network(source: CheckedNetwork, files: ChipFiles, card: Process, path: Path, as_json: bool) -> None:
    """Send data through the chip of a general network, and end with the exit code."""
    from optinc_pdk.networks import factorise
    from optinc_pdk.pipeline.tasks.general_task import check_network, write_network
    from optinc_pdk.report.build_numbers import network_numbers
    from optinc_pdk.report.findings import network_findings
    from optinc_pdk.report.schema import NetworkNumbers
    from optinc_pdk.report.summary import network_line
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
