"""What the commands that build chips, or program existing ones, share: the network with its options, and the output."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from optinc_pdk.cli.app import print_table
from optinc_pdk.cli.exit_codes import FAILED, PASSED

if TYPE_CHECKING:
    from optinc_pdk.networks import Activation, AveragingNetwork, GeneralNetwork
    from optinc_pdk.pipeline.stages import Build


def described_network(
    weights: Path,
    name: str | None,
    bits: int | None,
    servers: int | None,
    groups: int | None,
    activation: Activation | None,
) -> tuple[Path | AveragingNetwork | GeneralNetwork, str | None]:
    """Read a weight file that options describe.

    Args:
        weights: File of a network or a matrix.
        name: Name of the chip's files, or None.
        bits: Value of ``--bits``, or None.
        servers: Value of ``--servers``, or None.
        groups: Value of ``--groups``, or None.
        activation: Value of ``--activation``, or None.

    Returns:
        The network and the name of its chip; the arguments as they are if no option is given.

    Raises:
        InputError: The file or the name cannot be used.
    """
    if (bits, servers, groups, activation) == (None,) * 4:
        return weights, name

    from optinc_pdk.networks.weight_files import load_network
    from optinc_pdk.pipeline.outputs import chip_name

    return load_network(weights, bits, servers, groups, activation), chip_name(weights.stem, name)


def end_build(result: Build, as_json: bool) -> NoReturn:
    """Print the summary of a build, its findings on standard error, and last the verdict; end with the exit code."""
    if as_json:
        print(result.report.to_json(), end="")
    else:
        from optinc_pdk.report.terminal_tables import summary_table

        print_table(summary_table(result.report))
        sys.stdout.flush()
        for line in result.findings:
            print(line, file=sys.stderr)
        verdict = typer.style(result.report.verdict_text, fg="green" if result.passed else "red", bold=True)
        typer.echo(f"verdict {verdict}: {result.directory / result.report.name}.report.html")
    raise typer.Exit(PASSED if result.passed else FAILED)
