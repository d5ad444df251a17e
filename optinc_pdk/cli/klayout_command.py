"""Command ``klayout``: technology, DRC script and a menu entry for KLayout's application."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from optinc_pdk.cli.app import app
from optinc_pdk.cli.options import DEFAULT, ProcessName, parse_output
from optinc_pdk.cli.paths import output_folder


@app.command()
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
    """Install a process in the KLayout application as a package: technology, DRC script, and the menu entry Verify.

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
