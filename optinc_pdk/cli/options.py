"""Arguments and options that are common to several commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from optinc_pdk.errors import InputError

if TYPE_CHECKING:
    from optinc_pdk.report.schema import Budget

DEFAULT = "soi220"
MOST = 10**9
"""Largest number of samples, steps or words of one command: at a microsecond each, a quarter of an hour."""
MOST_UNITS = 10_000
"""Largest number of copies, layers or processes."""
LARGEST_SEED = 2**63 - 1


def parse_output(text: str | Path) -> Path:
    """Parse the path of ``-o``.

    Raises:
        typer.BadParameter: The text is empty; as a path it would be the current folder.
    """
    if not str(text):
        raise typer.BadParameter("empty path; give the file or folder to write")
    return Path(text)


def accepted_budgets(text: str) -> list[Budget]:
    """Parse the value of ``--accept``: names of budgets, separated by commas; none in an empty text.

    Raises:
        InputError: A name is no budget.
    """
    if not text:
        return []

    from optinc_pdk.report.schema import BUDGETS

    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in BUDGETS:
            raise InputError(f"--accept {text}: {name!r} is no budget; give names out of {', '.join(BUDGETS)}")
    return [budget for budget in BUDGETS if budget in names]


def completed_processes(incomplete: str) -> list[str]:
    """Return the names of bundled processes that a shell can complete; it completes folders by itself."""
    from optinc_pdk.cards.loader import process_names

    return [name for name in process_names() if name.startswith(incomplete)]


Weights = Annotated[Path, typer.Argument(help="Weight file: .npz, .safetensors or .onnx.")]
Target = Annotated[
    Path,
    typer.Argument(help="Weight file: .npz, .safetensors or .onnx; or matrix: .npy, or .npz with one array."),
]
Gds = Annotated[Path, typer.Argument(dir_okay=False, help="Layout file, GDS2 or OASIS.")]
ChipNetlist = Annotated[
    Path | None, typer.Argument(dir_okay=False, help="Netlist file, .pic.yml. Default: beside the layout.")
]
ChipBias = Annotated[
    Path | None,
    typer.Option("--bias", help="Bias file, .bias.yml: the DAC code of every heater. Default: beside the layout."),
]
TargetFile = Annotated[
    Path | None,
    typer.Option(
        "--weights",
        help="What the chip computes: weight file, or matrix (.npy, or .npz with one array). Default: the words of the "
        "report beside the layout.",
    ),
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
        help="Process: its name, or a folder with process cards such as ./mine.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Bits = Annotated[
    int | None,
    typer.Option(
        help="Bits of a word that the network averages, for files that do not state the task: .safetensors, .onnx, and "
        ".npz without a task. Commands on a layout take the task from the report of the build beside it, if there is "
        "one."
    ),
]
Servers = Annotated[int | None, typer.Option(help="Number of servers, for the same files as --bits.")]
Groups = Annotated[int | None, typer.Option(help="Number of network inputs, for the same files as --bits.")]
ActivationName = Annotated[
    Literal["relu", "clipped_relu"] | None,
    typer.Option(
        "--activation",
        help="Activation of hidden layers: relu, or clipped_relu for Hardtanh(0, 1). .npz and .onnx files state it; "
        "give it for .safetensors files, which are read as relu otherwise, or as the report beside the layout states.",
    ),
]
LinkName = Annotated[
    Literal["direct", "neurons"] | None,
    typer.Option(
        "--link",
        help="How the outputs reach the servers: direct, as light of the last layer; neurons, as light of one more "
        "modulator for each output. Default: that of the process.",
    ),
]
ReceiversName = Annotated[
    Literal["photodiodes", "coherent"] | None,
    typer.Option(
        "--receivers",
        help="How the servers detect the outputs: photodiodes, their power; coherent, their field with a local "
        "oscillator. Default: that of the process.",
    ),
]
Tolerance = Annotated[
    float | None,
    typer.Option(
        help="For a matrix: largest accepted error of an entry, relative to the largest entry. For a general network "
        "without labels: largest accepted deviation of an output, relative to the largest. Default: 0.01."
    ),
]
DataFile = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="For a general network: data file to check the chip with, .npz with inputs x, and labels or outputs y. "
        "Default: random inputs within the range of the network.",
    ),
]
Agreement = Annotated[
    float | None,
    typer.Option(
        help="For a general network: smallest accepted share of samples on which chip and network agree. Default: "
        "0.999."
    ),
]
Accuracy = Annotated[
    float | None,
    typer.Option(
        help="For a general network and data with labels: smallest accepted share of samples that the chip classifies "
        "correctly. Default: what the weight file's card states, if it does."
    ),
]
Accept = Annotated[
    str,
    typer.Option(
        metavar="NAMES",
        help="Budgets of the process that the chip may miss, separated by commas: size, pads, power, loss, rate. The "
        "verdict lists those that it misses.",
    ),
]
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
Reading = Annotated[
    Literal["field", "real", "power"] | None,
    typer.Option(
        "--read",
        help="For a matrix: what is read at the outputs. field: their fields, with a phase shifter at every output; "
        "real: the real parts of a real matrix, with homodyne receivers; power: their powers, with photodiodes. "
        "Default: field. For an existing chip: what the report beside the layout states; without one, field, or power "
        "where optinc program finds no such phase shifters.",
    ),
]
MeshName = Annotated[
    Literal["rectangle", "triangle"] | None,
    typer.Option(
        help="For a matrix: shape of its meshes. A triangle has almost twice the columns, and so more loss. "
        "Default: rectangle."
    ),
]
ExtraColumns = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=64,
        help="For a matrix: redundant columns of MZIs behind each mesh, with which it reaches splittings that its "
        "couplers alone cannot. Default: 0.",
    ),
]
