"""Commands about a process, ``optinc process …``, and about the installation, ``doctor``."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from optinc_pdk.cli.app import WrappedCommands, app, progress_counter, stage_progress
from optinc_pdk.cli.arguments import DEFAULT, Json, ProcessName, parse_output
from optinc_pdk.cli.exit_codes import FAILED, PASSED
from optinc_pdk.cli.paths import output_folder, output_path
from optinc_pdk.errors import InputError

if TYPE_CHECKING:
    from optinc_pdk.report.installation import Part

process_app = typer.Typer(cls=WrappedCommands, no_args_is_help=True, rich_markup_mode=None)
app.add_typer(
    process_app,
    name="process",
    help="Cells, layer stack and DRC script of a process; recognition polygons; installation in KLayout.",
)


@process_app.command()
def cells(
    output: Annotated[
        Path, typer.Option("-o", "--output", parser=parse_output, metavar="PATH", help="Page to write, .md.")
    ] = Path("cells.md"),
    process: ProcessName = DEFAULT,
) -> None:
    """Write a Markdown page of a process's cells: picture, ports, device card and model of each.

    The pictures go into a folder of the same name beside the page.
    """
    output_path(output)
    if output.suffix.lower() == ".md":
        output_folder(output.with_suffix(""))

    from optinc_pdk.report.cell_gallery import write_gallery

    with progress_counter() as report:
        count = write_gallery(process, output, report)
    print(f"{output}: {count} cells")


@process_app.command()
def stack(
    process: ProcessName = DEFAULT,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            parser=parse_output,
            metavar="PATH",
            help="Picture to write, .svg, .pdf or .png. Default: <process>.stack.svg in the current folder.",
        ),
    ] = None,
) -> None:
    """Draw the layer stack of a process in section: heights and thicknesses, with the card's sources.

    Layers to which the process card gives no thickness are listed below the picture.
    """
    from optinc_pdk.cards import load_process
    from optinc_pdk.io.writing import write_atomic
    from optinc_pdk.report.cross_section import cross_section_picture
    from optinc_pdk.report.rendering import figure_format

    card = load_process(process)
    path = output_path(output or Path(f"{card.name}.stack.svg"))
    picture_format = figure_format(path)
    write_atomic(path, cross_section_picture(card, picture_format))
    print(path)


@process_app.command()
def deck(
    output: Annotated[
        Path, typer.Option("-o", "--output", parser=parse_output, metavar="PATH", help="Script to write, .lydrc.")
    ] = Path("optinc.lydrc"),
    process: ProcessName = DEFAULT,
) -> None:
    """Write a process's design rules as a DRC script for the KLayout application."""
    if output_path(output).suffix.lower() != ".lydrc":
        raise InputError(f"{output}: KLayout reads DRC scripts from .lydrc files; give the file this ending")

    from optinc_pdk.cards import load_process

    card = load_process(process)

    from optinc_pdk.io.writing import write_atomic
    from optinc_pdk.signoff.drc.design_rule_check import ELECTRICAL_KINDS
    from optinc_pdk.signoff.drc.klayout_deck import deck_script

    write_atomic(output, deck_script(card.name, card.rules, card.gds_layers))
    left_out = [rule.id for rule in card.rules if rule.kind in ELECTRICAL_KINDS]
    print(f"{output}: {len(card.rules) - len(left_out)} rules of {card.name}")
    if left_out:
        print(f"not in this deck: {', '.join(left_out)}; these rules need the bias, and optinc drc --bias checks them")
    print(f"in a shell: QT_QPA_PLATFORM=offscreen klayout -b -r {output} -rd input=a.gds -rd report=a.lyrdb")
    print("in KLayout: copy it into the folder .klayout/drc; Tools > DRC then checks the layout on the screen")


@process_app.command()
def golden(
    process: ProcessName = DEFAULT,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit code 1 if a file is missing or out of date.")
    ] = False,
) -> None:
    """Write the recognition polygons of a process's devices, by which extraction recognises them.

    Draws every device that extraction recognises by its polygons, and writes golden/<device>.json into the folder of
    the process where it differs from the file that is there, or inherited. Lists the devices that are new or changed.
    """
    from optinc_pdk.cards import load_process

    card = load_process(process)

    # gdsfactory takes more than a second to import
    from optinc_pdk.cells.golden_files import golden_states, write_golden
    from optinc_pdk.cells.own_devices import UNCHANGED
    from optinc_pdk.pdk import active_pdk

    with progress_counter() as report, active_pdk(process):
        states = golden_states(card, report)
        if not check:
            write_golden(card, states)
    differing = {name: state for name, (state, _) in states.items() if state != UNCHANGED}
    for name, state in differing.items():
        print(f"{name}: {state}")
    print(f"{card.folder / 'golden'}: {len(states)} devices, {len(differing)} {'out of date' if check else 'written'}")
    raise typer.Exit(FAILED if check and differing else PASSED)


@process_app.command()
def klayout(
    action: Annotated[
        Literal["install", "uninstall"], typer.Argument(help="install replaces an earlier package of the process.")
    ],
    process: ProcessName = DEFAULT,
    home: Annotated[
        Path | None,
        typer.Option(
            "--klayout-home",
            parser=parse_output,
            metavar="PATH",
            help="Folder of KLayout's settings, which install creates. Default: KLAYOUT_HOME, which it creates too, or "
            "else ~/.klayout, which must exist.",
        ),
    ] = None,
) -> None:
    """Install a process in the KLayout application, or remove it: technology, DRC script, and the menu entry Verify.

    Optinc > Verify runs optinc verify on the layout shown, with the Python that installed it, and opens the marker
    databases of design rules and LVS.
    """
    from optinc_pdk.cards import load_process

    card = load_process(process)

    from optinc_pdk.report.klayout_application import install_package, klayout_home, package_name, remove_package

    # a folder that is named is created, as every output folder; KLayout creates its own
    named = Path(variable) if home is None and (variable := os.environ.get("KLAYOUT_HOME")) else home
    folder = klayout_home(named) if named is None or action == "uninstall" else output_folder(named, "--klayout-home")
    if action == "uninstall":
        print(f"{remove_package(card, folder)}: deleted; KLayout notices it at its next start")
        return
    for path in install_package(card, folder):
        print(path)
    print(
        f"in KLayout, from its next start: technology {package_name(card)}; Optinc > Verify ({card.name}); Tools > DRC"
    )


@app.command()
def doctor(as_json: Json = False) -> None:
    """Show what is installed, what is missing, and how to get it: packages, KLayout, fonts, caches, memory.

    Imports every package, so it takes seconds. Exit code 1 if something is missing or unsuitable that commands need.
    """
    from optinc_pdk.report.installation import STEPS, installation_parts

    with stage_progress(STEPS) as report_stage:
        steps = installation_parts(report_stage)
    parts = [part for each in steps.values() for part in each]
    failed = [part.name for part in parts if part.failed]
    if as_json:
        groups = {step: [asdict(part) for part in each] for step, each in steps.items()}
        print(json.dumps({"schema": 1, "passed": not failed} | groups, indent=2))
    else:
        for step, each in steps.items():
            print(f"{step}:")
            for part in each:
                print(_line(part, width=max(len(part.name) for part in parts)))
        absent = [part.name for part in parts if part.status != "ok" and not part.required]
        print(f"required: {'missing or unsuitable: ' + ', '.join(failed) if failed else 'everything is there'}")
        if absent:
            print(f"optional: missing or unsuitable: {', '.join(absent)}")
    raise typer.Exit(FAILED if failed else PASSED)


def _line(part: Part, width: int) -> str:
    status = "" if part.status == "ok" else f"{part.status.upper() if part.required else part.status}: "
    return f"  {part.name:{width}}  {status}{part.found}" + (f" -> {part.remedy}" if part.remedy else "")
