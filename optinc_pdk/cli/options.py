"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEFAULT = "soi220"

Weights = Annotated[Path, typer.Argument(help="Weight file: .npz, .safetensors or .onnx.")]
Gds = Annotated[Path, typer.Argument(help="Layout, GDS2 or OASIS.")]
Netlist = Annotated[Path, typer.Argument(help="Netlist, .pic.yml.")]
BiasFile = Annotated[Path, typer.Option("--bias", help="Bias file, .bias.yml.")]
Out = Annotated[Path | None, typer.Option("-o", "--output", help="File to write; beside the input by default.")]
ProcessName = Annotated[str, typer.Option("--process", help="Process name, or a folder with process cards: ./mine.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Bits = Annotated[int | None, typer.Option(help="Bits of a word; for files that carry no task.")]
Servers = Annotated[int | None, typer.Option(help="Number of servers; for files that carry no task.")]
Groups = Annotated[int | None, typer.Option(help="Number of network inputs; for files that carry no task.")]
TaskBits = Annotated[int, typer.Option("--bits", help="Bits of a word.")]
TaskServers = Annotated[int, typer.Option("--servers", help="Number of servers.")]
TaskGroups = Annotated[int | None, typer.Option("--groups", help="Number of inputs; one per symbol by default.")]
Remainder = Annotated[bool, typer.Option("--remainder", help="Level 1 of a cascade: fraction in the last output.")]
FinerInput = Annotated[bool, typer.Option("--finer-input", help="Level 2 of a cascade: the last input is finer.")]
WeightsOut = Annotated[Path, typer.Option("-o", "--output", help="Weight file to write, .npz.")]
