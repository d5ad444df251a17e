"""Command that builds and checks a cascade of two levels of chips."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from optinc_pdk.cli import options as opt
from optinc_pdk.cli.app import app, print_table, stage_progress
from optinc_pdk.cli.exit_codes import FAILED, PASSED
from optinc_pdk.cli.paths import output_folder


@app.command()
def cascade(
    output: Annotated[
        Path, typer.Option("-o", "--output", parser=opt.parse_output, metavar="PATH", help="Folder for all files.")
    ] = Path("gds_out"),
    bits: Annotated[int | None, typer.Option(help="Bits of a word; even. Default: those of .npz weights.")] = None,
    servers: Annotated[
        int | None,
        typer.Option(help="Number of servers N of one chip; the cascade has N². Default: that of .npz weights."),
    ] = None,
    first: Annotated[
        Path | None, typer.Option(help="Weight file of level 1. Default: comparators in closed form.")
    ] = None,
    second: Annotated[
        Path | None, typer.Option(help="Weight file of level 2. Default: comparators in closed form.")
    ] = None,
    activation: opt.ActivationName = None,
    name: Annotated[
        str | None,
        typer.Option(help="Name: 1 to 25 letters, digits and underscores. Default: it states bits and servers."),
    ] = None,
    process: opt.ProcessName = opt.DEFAULT,
    words: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=opt.MOST,
            help="Number of random sets of N² words that are checked beside the corner cases. Default: 100,000.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=opt.LARGEST_SEED, help="Seed of the random words, from 0.")] = 0,
    loss: Annotated[
        float, typer.Option(min=0.0, help="Loss of a fibre between the levels in dB, with its connectors.")
    ] = 0.0,
    accept: opt.Accept = "",
    as_json: opt.Json = False,
) -> None:
    """Build the chips of both levels of a cascade and check words of N² servers against their average.

    N chips of level 1 feed one chip of level 2 with light, without receivers. Writes the files of both chips, and
    .cascade.json, .cascade.txt and .cascade.png. Exit code 1 if a check fails, or if a chip misses a budget of the
    process that --accept does not name.
    """
    budgets = opt.accepted_budgets(accept)
    output_folder(output)

    from optinc_pdk.pipeline.cascade import CASCADE_STAGES, RANDOM_SETS, build_cascade

    sets = RANDOM_SETS if words is None else words
    with stage_progress(CASCADE_STAGES) as report_stage:
        result = build_cascade(
            bits,
            servers,
            first,
            second,
            output,
            name,
            process,
            sets,
            seed,
            loss,
            on_stage=report_stage,
            activation=activation,
            accept=budgets,
        )
    if as_json:
        print(result.report.to_json(), end="")
    else:
        from optinc_pdk.report.cascade_report import cascade_table

        print_table(cascade_table(result.report))
        for line in result.report.findings:
            print(line, file=sys.stderr)
        print(f"verdict {result.report.verdict_text}: {result.directory / result.report.name}.cascade.json")
    raise typer.Exit(PASSED if result.passed else FAILED)
