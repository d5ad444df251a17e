"""Commands of sign-off: ``drc``, ``lvs``, ``check`` and ``compare``; ``verify`` has a module of its own."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from optinc_pdk.cli import arguments as opt
from optinc_pdk.cli.app import app, print_table, progress_counter, stage_progress
from optinc_pdk.cli.arguments import DEFAULT, Json, ProcessName, parse_output
from optinc_pdk.cli.chip_inputs import ChipInputs, print_findings
from optinc_pdk.cli.exit_codes import FAILED, PASSED
from optinc_pdk.cli.fault_output import faults_explaining_errors, faults_json
from optinc_pdk.cli.paths import (
    default_output,
    errors_naming,
    output_folder,
    output_path,
    read_layout_netlist,
    warn_of_changed_cards,
    warn_of_changes,
)
from optinc_pdk.cli.process_hints import errors_hinting_at_process, hint_at_process
from optinc_pdk.cli.records import named_file, with_records
from optinc_pdk.errors import InputError, printable_line
from optinc_pdk.io.chip_files import chip_paths
from optinc_pdk.io.json_files import json_text
from optinc_pdk.io.reading import check_readable
from optinc_pdk.options import CheckOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optinc_pdk.cards import Process
    from optinc_pdk.signoff.drc.design_rule_check import DrcResult
    from optinc_pdk.signoff.electrical.electrical_check import ElectricalResult
    from optinc_pdk.signoff.layout_difference import Label, LayoutDifference, OneSided

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
    """Check what the extracted layout computes: every word, a general network over its data, or a matrix.

    Writes .function.npz, .network.npz or .matrix.npz, as optinc build does. If there are too many words to try each,
    random words and corner cases are tried; networks of comparators are certified for all words besides. Exit code 1
    if a word is wrong or a limit is missed, or if the layout has faults that can affect the function and that the
    simulation does not include.
    """
    path = None if output is None else chip.output(output, checks.data, in_place=True)
    files, card = chip.read()
    task = chip.task(checks, card)
    path = path or chip.output(default_output(chip.gds, task.ending), checks.data, in_place=True)
    with faults_explaining_errors(as_json) as faults, stage_progress(STAGES) as report_stage:
        report_stage("extract")
        task, extracted = task.read_chip(files)
        faults += extracted.faults
        report_stage("function")
        result = task.check(extracted, partial(report_stage.within, "function"))
    task.write(result, path)
    print_findings(task.check_findings(result), (path,), faults, as_json)


SHOWN = 3
"""Number of places, labels and cells that a line states; JSON has ten places, and all labels and cells."""
LISTED = 10


@app.command()
def compare(
    a: Annotated[
        Path,
        typer.Argument(dir_okay=False, callback=named_file, metavar="A", help="First layout file, GDS2 or OASIS."),
    ],
    b: Annotated[
        Path,
        typer.Argument(dir_okay=False, callback=named_file, metavar="B", help="Second layout file, GDS2 or OASIS."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            parser=parse_output,
            metavar="PATH",
            help="Folder for A.compare.png and A.compare.json. Default: the folder of A.",
        ),
    ] = None,
    process: ProcessName = DEFAULT,
    as_json: Json = False,
) -> None:
    """Compare two layouts; writes a picture of what only one of them has, .compare.png, and .compare.json.

    Masks and labels are compared, in whatever shapes and cells they are drawn; of several top cells, those of the same
    name. Cells that only one layout has are listed as well and do not count. The process names the layers. Exit code 1
    if masks or labels differ.
    """
    folder = output_folder(output) if output is not None else a.parent
    picture, numbers = (output_path(folder / f"{a.stem}.compare{ending}", a, b) for ending in (".png", ".json"))
    for layout in (a, b):
        check_readable(layout)

    from optinc_pdk.cards import load_process

    card = load_process(process)

    from optinc_pdk.signoff.layout_difference import compare_layouts

    with progress_counter() as report:
        difference = compare_layouts(a, b, report)
        report("picture", 0, None)

        from optinc_pdk.io.file_sets import write_files
        from optinc_pdk.report.difference_picture import difference_png

        content = difference_png(a, b, difference, card)
    found = _numbers(a, b, difference, card)
    text = json_text(found)
    write_files({picture: content, numbers: text.encode()})
    if as_json:
        print(text, end="")
    else:
        _print(found, (a.name, b.name) if a.name != b.name else (str(a), str(b)), picture)
    raise typer.Exit(PASSED if difference.equal else FAILED)


def _numbers(a: Path, b: Path, difference: LayoutDifference, card: Process) -> dict[str, Any]:
    names = {pair: name for name, pair in card.gds_layers.items()}
    tops = [
        {
            "a": top.name_a,
            "b": top.name_b,
            "equal": top.equal,
            "layers": [
                {
                    "layer": list(one.layer),
                    "name": names.get(one.layer),
                    "equal": one.equal,
                    "only_a": _side(one.only_a),
                    "only_b": _side(one.only_b),
                }
                for one in top.layers
            ],
            "labels": {"only_a": _labels(top.labels_a), "only_b": _labels(top.labels_b)},
        }
        for top in difference.tops
    ]
    cells = {"only_a": difference.cells_a, "only_b": difference.cells_b}
    return {"schema": 2, "a": str(a), "b": str(b), "equal": difference.equal, "tops": tops, "cells": cells}


def _side(side: OneSided) -> dict[str, Any]:
    boxes = side.boxes_um()[:LISTED].round(6)
    return {"area_um2": round(side.area_um2, 6), "polygons": len(side.polygons), "boxes_um": boxes.tolist()}


def _labels(labels: Sequence[Label]) -> list[dict[str, Any]]:
    return [
        {"layer": list(label.layer), "text": label.text, "place_um": [round(label.x_um, 6), round(label.y_um, 6)]}
        for label in labels
    ]


def _print(found: dict[str, Any], files: tuple[str, str], picture: Path) -> None:
    """Print a line for everything that only one layout has, the path of the picture, and a summary."""
    from optinc_pdk.io.formatting import count_text

    sides = tuple(zip(("only_a", "only_b"), files, strict=True))
    for top in found["tops"]:
        for file, other in zip(files, (top["b"], top["a"]), strict=True):
            if other is None:
                print(f"top cell only in {file}: {printable_line(top['a'] or top['b'])}")
        where = f"{_pair_text(top)}: " if len(found["tops"]) > 1 else ""
        for layer in top["layers"]:
            number = "/".join(map(str, layer["layer"]))
            name = f"{layer['name']} ({number})" if layer["name"] else number
            for side, file in sides:
                if count := layer[side]["polygons"]:
                    boxes = [
                        f"({box[0]:.3f}, {box[1]:.3f})–({box[2]:.3f}, {box[3]:.3f})" for box in layer[side]["boxes_um"]
                    ]
                    area = f"{layer[side]['area_um2']:,.6g} µm² in {count_text(count, 'polygon')}"
                    print(f"{where}{name}: {area} only in {file}, at {_first(boxes, count)} µm")
        for side, file in sides:
            texts = [
                f"{one['text']} ({one['place_um'][0]:.3f}, {one['place_um'][1]:.3f})" for one in top["labels"][side]
            ]
            if texts:
                print(f"{where}{count_text(len(texts), 'label')} only in {file}: {_first(texts, len(texts))} µm")
    for side, file in sides:
        if cells := found["cells"][side]:
            print(f"{count_text(len(cells), 'cell')} only in {file}: {_first(cells, len(cells))}")
    print(f"picture: {picture}")
    print(_summary(found["tops"]))


def _summary(tops: Sequence[dict[str, Any]]) -> str:
    from optinc_pdk.io.formatting import count_text

    of_tops = f" of {count_text(len(tops), 'top cell')}" if len(tops) > 1 else ""
    layers = count_text(sum(len(top["layers"]) for top in tops), "layer")
    if all(top["equal"] for top in tops):
        return f"equal: masks of {layers} and all labels{of_tops}"
    alone = sum(top["a"] is None or top["b"] is None for top in tops)
    differing = sum(not layer["equal"] for top in tops for layer in top["layers"])
    labels = count_text(sum(len(labels) for top in tops for labels in top["labels"].values()), "label")
    return f"different: {f'{alone}{of_tops} without counterpart, ' * bool(alone)}{differing} of {layers}, {labels}"


def _pair_text(top: dict[str, Any]) -> str:
    names = [printable_line(top[side]) for side in ("a", "b") if top[side] is not None]
    return " / ".join(dict.fromkeys(names))


def _first(texts: Sequence[str], count: int) -> str:
    return ", ".join(map(printable_line, texts[:SHOWN])) + (", …" if count > SHOWN else "")
