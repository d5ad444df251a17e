"""Command ``verify``: all checks that apply to a layout, in one report."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optinc_pdk.cli.app import app, stage_progress
from optinc_pdk.cli.arguments import DEFAULT, Gds, Json, PadSettings, ProcessName, TopNetlist, parse_output
from optinc_pdk.cli.exit_codes import FAILED, PASSED
from optinc_pdk.cli.paths import output_path, read_layout_netlist, warn_of_changed_cards, warn_of_changes
from optinc_pdk.cli.process_hints import errors_hinting_at_process, hint_at_process
from optinc_pdk.errors import InputError
from optinc_pdk.io.json_files import json_text

if TYPE_CHECKING:
    from optinc_pdk.cards import Process
    from optinc_pdk.report.verification_page import VerifiedFiles
    from optinc_pdk.signoff.verification import Verification

SHOWN = 20
"""Number of faults and differences, and of warnings, that the command prints; the report has all."""
HALF_RANGE_NM, STEP_NM = 5.0, 0.1
"""Wavelengths by default: this far to both sides of the process's wavelength, and the step between them."""


@app.command()
def verify(
    gds: Gds,
    netlist: Annotated[
        Path | None,
        typer.Argument(
            dir_okay=False,
            help="Netlist file, .pic.yml. Default: the file of the layout's name beside it, if there is one; "
            "without a netlist, layout and netlist are not compared.",
        ),
    ] = None,
    top: TopNetlist = "",
    settings: PadSettings = None,
    wavelengths: Annotated[
        str | None,
        typer.Option(
            help="Wavelengths of the simulation in nm: 1550, 1549,1550 or first:last:step. "
            f"Default: {HALF_RANGE_NM:g} nm to both sides of the process's wavelength, in steps of {STEP_NM:g}."
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="Largest accepted deviation of the layout's S-parameters from those of the netlist: of the "
            "transmitted power, as a share of the largest one between two ports, and of the phase in rad. Default: "
            "0.3, or more where guides within the tolerance of LVS cause more.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            parser=parse_output,
            metavar="PATH",
            help="Report to write, .html; the other files get its name. Default: <layout>.verify.html.",
        ),
    ] = None,
    process: ProcessName = DEFAULT,
    as_json: Json = False,
) -> None:
    """Check a layout: design rules, layout against netlist in parts and in function; writes one report.

    Works on layouts that are drawn by hand in gdsfactory or KLayout with the devices of the process. Writes
    .verify.html, .verify.json, .verify.drc.lyrdb and .verify.lvs.lyrdb for KLayout's marker browser, and .verify.s.npz.
    Exit code 1 if a check fails.
    """
    page = output or gds.with_suffix(".verify.html")
    if page.suffix.lower() != ".html":
        raise InputError(f"{page}: the report is an HTML page; give it the ending .html")
    beside = gds.with_suffix(".pic.yml")
    if netlist is None and beside.is_file():
        netlist = beside
        print(f"optinc: compared with {beside}", file=sys.stderr)
    if top and netlist is None:
        raise InputError(f"--top {top} names a netlist of a file, and none was given; give NETLIST, or leave --top out")
    endings = (".drc.lyrdb", ".lvs.lyrdb", ".s.npz", ".json", ".html")
    paths = {ending: output_path(page.with_suffix(ending), gds, netlist) for ending in endings}
    warn_of_changes(gds, netlist)

    from optinc_pdk.cards import load_process
    from optinc_pdk.models.registry import check_wavelengths
    from optinc_pdk.simulate.heater_drive import parse_settings
    from optinc_pdk.simulate.s_parameters.files import parse_wavelengths

    card = load_process(process)
    warn_of_changed_cards(gds, card)
    middle = float(card.guide.wavelength_nm)
    wavelengths_nm = parse_wavelengths(
        wavelengths or f"{middle - HALF_RANGE_NM}:{middle + HALF_RANGE_NM}:{STEP_NM}", middle
    )
    check_wavelengths(card, wavelengths_nm)
    drive = parse_settings(settings or [])
    with errors_hinting_at_process(gds, card):
        reference = None if netlist is None else read_layout_netlist(netlist, gds, card, top)

    from optinc_pdk.report.verification_page import VerifiedFiles
    from optinc_pdk.signoff.verification import STAGES
    from optinc_pdk.signoff.verification import verify as run

    with errors_hinting_at_process(gds, card), stage_progress((*STAGES, "report")) as stage:
        result = run(gds, reference, drive, wavelengths_nm, card, stage, partial(stage.within, "simulate"), tolerance)
        stage("report")
        numbers = _write(result, VerifiedFiles(gds, netlist, drive), card, paths)
    if result.drawn.named:
        print(
            f"optinc: {gds}: fibre couplers without a label are named {', '.join(result.drawn.named)}", file=sys.stderr
        )
    if as_json:
        print(json_text(numbers), end="")
    else:
        _print(result)
        print(f"report: {paths['.html']}")
    hint_at_process(result.passed, gds, card)
    raise typer.Exit(PASSED if result.passed else FAILED)


def _write(result: Verification, verified: VerifiedFiles, card: Process, paths: dict[str, Path]) -> dict[str, object]:
    """Write the report, the marker databases and the S-parameters together, and return the report's numbers."""
    from optinc_pdk.io.file_sets import StagedFiles
    from optinc_pdk.io.writing import write_atomic
    from optinc_pdk.report.verification_page import render_verification, verification_numbers
    from optinc_pdk.signoff.drc.marker_database import write_lyrdb
    from optinc_pdk.signoff.lvs.comparison import write_lvs_lyrdb
    from optinc_pdk.simulate.s_parameters.files import write_scattering

    numbers = verification_numbers(result, verified, card)
    with StagedFiles(paths[".html"].parent) as staged:
        write_lyrdb(result.drc, staged.path(paths[".drc.lyrdb"].name))
        if result.lvs is not None or result.separate_faults:
            path = staged.path(paths[".lvs.lyrdb"].name)
            write_lvs_lyrdb(result.lvs, verified.layout, result.drc.top_cell, path, result.separate_faults)
        if result.scattering is not None:
            write_scattering(result.scattering.wavelengths_nm, [result.scattering], staged.path(paths[".s.npz"].name))
        files = [name for name in staged.names() if not name.endswith(".json")]
        text = json_text(numbers, indent=1)
        write_atomic(staged.path(paths[".json"].name), text.encode())
        html = render_verification(result, verified, card, [*files, paths[".json"].name])
        write_atomic(staged.path(paths[".html"].name), html.encode())
        staged.publish([paths[".html"].name], [path.name for path in paths.values()])
    return numbers


def _print(result: Verification) -> None:
    """Print the findings, a line for every check, and the verdict."""
    from optinc_pdk.io.formatting import count_text
    from optinc_pdk.report.sign_off_results import lvs_lines, violation_line
    from optinc_pdk.report.verification_page import circuit_findings, function_text, verdict_text

    # first what is wrong with the circuit, which is often the cause of violations of design rules
    listed = circuit_findings(result)
    for text, _ in listed[:SHOWN]:
        print(text)
    _print_more(len(listed), "differences and faults")
    for rule in result.drc.rules:
        if rule.violations:
            print(violation_line(rule))
    for warning in result.warnings[:SHOWN]:
        print(f"warning {warning}")
    _print_more(len(result.warnings), "warnings")
    drc, lvs, s = result.drc, result.lvs, result.scattering
    warnings = f" and {count_text(drc.warnings, 'warning')}" if drc.warnings else ""
    print(f"drc       {count_text(drc.violations, 'violation')}{warnings} of {len(drc.rules)} geometric rules")
    for reason, ids in result.rules_not_run.items():
        print(f"          not run, because {reason}: {', '.join(ids)}")
    if lvs is None:
        print(f"lvs       not run, no netlist was given; {count_text(len(result.faults), 'fault')} of the layout")
    else:
        differing = count_text(lvs.total_differences, "difference")
        verdict = "match:" if lvs.match else f"{differing}; the other"
        print(f"lvs       {verdict} {count_text(lvs.devices, 'device')} and {count_text(lvs.nets, 'net')} agree")
        for text in lvs_lines(lvs):
            print(f"          {text}")
    if s is None:
        print(f"simulate  not run: {result.not_simulated}")
    else:
        print(f"simulate  {count_text(len(s.labels), 'port')} at {count_text(len(s.wavelengths_nm), 'wavelength')}")
    if result.drawn.reference is not None:
        print("function  " + function_text(result).replace("; ", "\n          "))
    print(f"verdict   {verdict_text(result)}")


def _print_more(count: int, nouns: str) -> None:
    """Print how many of several findings were not printed, if there are some."""
    if count > SHOWN:
        print(f"{count - SHOWN} more {nouns} are in the report")
