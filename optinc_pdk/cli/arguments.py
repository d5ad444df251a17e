"""Arguments and options that are common to several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from optinc_pdk.cli.records import completed_processes, named_file
from optinc_pdk.options import DEFAULT_PROCESS as DEFAULT
from optinc_pdk.options import LARGEST_SEED, MOST, PROCESS

__all__ = ["DEFAULT", "LARGEST_SEED", "MOST"]

MOST_UNITS = 10_000
"""Largest number of copies, layers or processes."""


def parse_output(text: str | Path) -> Path:
    """Parse the path of ``-o``.

    Raises:
        typer.BadParameter: The text is empty; as a path it would be the current folder.
    """
    if not str(text):
        raise typer.BadParameter("empty path; give the file or folder to write")
    return Path(text)


Gds = Annotated[Path, typer.Argument(dir_okay=False, callback=named_file, help="Layout file, GDS2 or OASIS.")]
ChipNetlist = Annotated[
    Path | None, typer.Argument(dir_okay=False, help="Netlist file, .pic.yml. Default: beside the layout.")
]
Out = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        parser=parse_output,
        metavar="PATH",
        help="File to write. Default: beside the layout, with its name.",
    ),
]
ProcessName = Annotated[
    str,
    typer.Option(
        "--process",
        autocompletion=completed_processes,
        help=PROCESS,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
LaserW = Annotated[
    float | None,
    typer.Option(
        help="Optical power launched into every guide, in W; that of local oscillators is scaled with it. Default: "
        "that of the process card."
    ),
]
OscillatorW = Annotated[
    float | None,
    typer.Option(
        help="Optical power launched into every fibre that leads to local oscillators of neurons, in W; gains and "
        "offsets of the neurons are set for it. Default: that for which the chip was built."
    ),
]
TaskBits = Annotated[int, typer.Option("--bits", help="Bits of a word; even.")]
TaskServers = Annotated[int, typer.Option("--servers", help="Number of servers whose words are averaged.")]
TaskGroups = Annotated[
    int | None,
    typer.Option("--groups", help="Number of network inputs; a divisor of bits / 2. Default: one for each symbol."),
]
Remainder = Annotated[
    bool,
    typer.Option("--remainder", help="Network for level 1 of a cascade: its last output also carries the fraction."),
]
FinerInput = Annotated[
    bool,
    typer.Option("--finer-input", help="Network for level 2 of a cascade: its last input has steps of 1 / servers²."),
]
PadSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="LABEL=VALUE",
        help="Drive the heater at a pad in the simulation: volts, as heater1=2.5, or the phase of its guide, as "
        "heater1=1.57rad. Repeat it for more pads; other heaters are off. Ground rise is neglected. Drives beyond the "
        "range of the heater's card are refused.",
    ),
]
TopNetlist = Annotated[
    str,
    typer.Option(
        "--top",
        metavar="NAME",
        help="Netlist of the top cell in a file of several netlists, as get_netlist(recursive=True) writes it. "
        "Default: that of the layout's top cell, else the only one that is not part of others.",
    ),
]
WeightsOut = Annotated[
    Path, typer.Option("-o", "--output", parser=parse_output, metavar="PATH", help="Weight file to write, .npz.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, max=LARGEST_SEED, help="Seed of the random numbers, from 0.")]
