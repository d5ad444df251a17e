"""Command ``stack``: the cross-section of a process as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from optinc_pdk.cli.app import app
from optinc_pdk.cli.options import DEFAULT, ProcessName, parse_output
from optinc_pdk.cli.paths import output_path


@app.command()
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
