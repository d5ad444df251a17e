"""Commands that check written files: design rules and netlist."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optinc_pdk.cli import options as opt
from optinc_pdk.cli.app import app, print_table, progress_counter, stage_progress
from optinc_pdk.cli.exit_codes import FAILED, PASSED
from optinc_pdk.cli.layout_faults import faults_json
from optinc_pdk.cli.paths import (
    default_output,
    errors_naming,
    output_path,
    read_layout_netlist,
    warn_of_changed_cards,
    warn_of_changes,
)
from optinc_pdk.cli.process_hints import errors_hinting_at_process, hint_at_process
from optinc_pdk.errors import InputError
from optinc_pdk.io.chip_files import chip_paths

if TYPE_CHECKING:
    from optinc_pdk.signoff.drc.design_rule_check import DrcResult
    from optinc_pdk.signoff.electrical.electrical_check import ElectricalResult

SHOWN = 20
"""Number of electrical faults that ``drc`` prints; JSON and markers have all."""


@app.command()
def drc(
    gds: opt.Gds,
    bias: Annotated[
        Path | None, typer.Option(help="Bias file, .bias.yml. Default: none, and the rules on currents are not run.")
    ] = None,
    output: opt.Out = None,
    process: opt.ProcessName = opt.DEFAULT,
    rules: Annotated[
        bool, typer.Option("--rules", help="Also print a table of all rules; --json lists them always.")
    ] = False,
    as_json: opt.Json = False,
) -> None:
    """Check the design rules of a layout; writes a marker database, .drc.lyrdb, which KLayout opens.

    Prints the violated rules with their first places, the rules that were not run, and a summary; --json and the marker
    database have all. Rules about whole dies are not run on a layout without the outline of a die, which is part of a
    chip. With a bias, heaters without pad, ground or channel, channels without heater, shorts and labels that are used
    twice are reported as well. Exit code 1 if there is one, or if a rule is violated.
    """
    if rules and as_json:
        raise InputError("--rules: --json lists all rules already; leave out one of the two")
    path = output_path(output or default_output(gds, ".drc.lyrdb"), gds, bias, in_place=True)
    warn_of_changes(gds, bias)

    from optinc_pdk.cards import load_process

    card = load_process(process)
    warn_of_changed_cards(gds, card)
    drive = None
    if bias is not None:
        from optinc_pdk.simulate.heater_drive import read_drive

        drive = read_drive(bias, card)

    from optinc_pdk.report.sign_off_results import drc_numbers, drc_rows
    from optinc_pdk.signoff.drc.design_rule_check import check_chip
    from optinc_pdk.signoff.drc.marker_database import write_lyrdb
    from optinc_pdk.signoff.electrical.electrical_check import check_electrical
    from optinc_pdk.signoff.electrical.wiring import read_wiring

    with progress_counter() as report:
        result = check_chip(gds, card, parts=True, on_rule=report)
        report("currents", 0, None)
        electrical = None if drive is None else check_electrical(card.rules, read_wiring(gds, card), drive)
        checked, faults = (electrical.rules, electrical.faults) if electrical else ((), ())
        report("markers", 0, None)
        write_lyrdb(result, path, checked, faults)
    numbers = drc_numbers(result, electrical)
    if as_json:
        rows = drc_rows(result.all_rules(checked))
        print(json.dumps({"schema": 1} | numbers | {"rules": rows} | faults_json(faults), indent=2))
    else:
        _print_drc(result, electrical, numbers["violations"], rules, path)
    passed = numbers["violations"] == 0 and not faults
    hint_at_process(passed, gds, card)
    raise typer.Exit(PASSED if passed else FAILED)


def _print_drc(
    result: DrcResult, electrical: ElectricalResult | None, violations: int, all_rules: bool, markers: Path
) -> None:
    """Print the violated rules, the currents, electrical faults, the rules that were not run, and a summary."""
    from optinc_pdk.io.formatting import count_text
    from optinc_pdk.report.sign_off_results import currents_lines, rules_table, violation_line
    from optinc_pdk.signoff.electrical.electrical_check import full_currents

    checked, faults = (electrical.rules, electrical.faults) if electrical else ((), ())
    results = result.all_rules(checked)
    if all_rules:
        print_table(rules_table(results))
    violated = [found for found in results if found.violations]
    for found in violated:
        print(violation_line(found))
    if electrical is not None and electrical.currents is not None:
        for line in currents_lines(electrical.currents, full_currents(electrical.currents.wiring)):
            print(line)
    for fault in faults[:SHOWN]:
        print(f"electrical {fault}")
    if len(faults) > SHOWN:
        print(f"{len(faults) - SHOWN} more electrical faults are in the markers")
    for reason, ids in result.rules_not_run(checked).items():
        print(f"not run, because {reason}: {', '.join(ids)}")
    if violated or faults:
        print(f"markers: {markers}")
    warnings = sum(found.violations for found in violated if found.rule.severity == "warning")
    also = f" and {count_text(warnings, 'warning')}" if warnings else ""
    print(
        f"{count_text(violations, 'violation')}{also} of {sum(found.run for found in results)} rules"
        + (f"; {count_text(len(faults), 'electrical fault')}" if faults else "")
    )


@app.command()
def lvs(
    gds: opt.Gds,
    netlist: opt.ChipNetlist = None,
    top: opt.TopNetlist = "",
    output: opt.Out = None,
    process: opt.ProcessName = opt.DEFAULT,
    second_opinion: Annotated[
        bool,
        typer.Option("--second-opinion", help="Also compare with KLayout's netlist comparer; slow on large chips."),
    ] = False,
    as_json: opt.Json = False,
) -> None:
    """Compare the circuit extracted from a layout with the netlist; writes .lvs.json and .lvs.lyrdb.

    The netlist is that of a build, or one in gdsfactory's format: what Component.get_netlist() or
    get_netlist(recursive=True) returns, or a schematic. Exit code 1 if they differ.
    """
    given, netlist = netlist, chip_paths(gds, netlist).netlist
    if given is None and gds.is_file() and not netlist.exists():
        raise InputError(f"{gds}: there is no {netlist.name} beside it; give the netlist as the second argument")
    path = output_path(output or default_output(gds, ".lvs.json"), gds, netlist)
    if path.suffix.lower() == ".lyrdb":
        raise InputError(f"{path}: the marker database gets this name; give the result the ending .json")
    markers = output_path(path.with_suffix(".lyrdb"), gds, netlist)
    warn_of_changes(gds, netlist)

    from optinc_pdk.cards import load_process

    card = load_process(process)
    warn_of_changed_cards(gds, card)
    with errors_hinting_at_process(gds, card):
        netlist_circuit = read_layout_netlist(netlist, gds, card, top)

    from optinc_pdk.io.file_sets import StagedFiles
    from optinc_pdk.io.formatting import count_text
    from optinc_pdk.report.sign_off_results import difference_line, lvs_lines
    from optinc_pdk.signoff.layout_faults import unused_labels
    from optinc_pdk.signoff.lvs import klayout_comparer
    from optinc_pdk.signoff.lvs.comparison import compare, write_lvs, write_lvs_lyrdb
    from optinc_pdk.signoff.lvs.input_consistency import check_netlist, netlist_hint
    from optinc_pdk.signoff.lvs.label_binding import extract_for

    stages = ("extract", "compare", "markers", *(("second opinion",) if second_opinion else ()))
    with stage_progress(stages) as stage:
        stage("extract")
        with errors_hinting_at_process(gds, card):
            bound, extraction = extract_for(netlist_circuit, gds, card)
            reference = bound.reference
            with errors_naming(netlist):
                check_netlist(reference, extraction, card)
        stage("compare")
        result = compare(reference, extraction, card, bound.differences)
        stage("markers")
        with StagedFiles(path.parent) as staged:
            write_lvs_lyrdb(result, gds, extraction.top_cell, staged.path(markers.name))
            write_lvs(result, staged.path(path.name))
            staged.publish([path.name])
        # after the files, which are complete without it
        other = None
        if second_opinion:
            stage("second opinion")
            other = klayout_comparer.compare_with_klayout(reference, extraction.circuit, card, result)
    unused = unused_labels(extraction)
    if as_json:
        opinion = {"second_opinion": asdict(other)} if other else {}
        warnings = {"warnings": [warning.to_json() for warning in unused]}
        print(json.dumps({"schema": 1} | result.to_json() | warnings | opinion, indent=2))
    else:
        for difference in result.differences:
            print(difference_line(difference))
        for warning in unused:
            print(f"warning {warning}")
        verdict = "match" if result.match else "no match"
        agree = f"{count_text(result.devices, 'device')} and {count_text(result.nets, 'net')} agree"
        print(f"{verdict}: {agree}, {count_text(result.total_differences, 'difference')}")
        for text in lvs_lines(result):
            print(text)
        if other:
            print(other)
    if not result.match and (hint := netlist_hint(reference, extraction)):
        print(f"optinc: {netlist}: {hint}", file=sys.stderr)
    hint_at_process(result.match, gds, card)
    raise typer.Exit(PASSED if result.match and (other is None or other.match) else FAILED)
