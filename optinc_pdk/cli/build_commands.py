"""Commands that make chips: ``build``, ``program`` an existing one, and ``cascade``, two levels of chips."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from optinc_pdk.cli import arguments as opt
from optinc_pdk.cli.app import app, print_table, stage_progress
from optinc_pdk.cli.exit_codes import FAILED, PASSED
from optinc_pdk.cli.paths import output_folder, warn_of_changes
from optinc_pdk.cli.records import named_file, with_records
from optinc_pdk.options import MATRIX_FILES, WEIGHT_FILES, BuildOptions, CascadeOptions, ProgramOptions

if TYPE_CHECKING:
    from optinc_pdk.pipeline.stages import Build

Folder = Annotated[
    Path, typer.Option("-o", "--output", parser=opt.parse_output, metavar="PATH", help="Folder for the files.")
]


@app.command()
@with_records
def build(
    weights: Annotated[
        Path | None,
        typer.Argument(
            help=f"Weight file: {WEIGHT_FILES}; without an averaging task it is a general network. Or matrix: "
            f"{MATRIX_FILES}. Default: the bundled 4-bit network."
        ),
    ] = None,
    output: Folder = Path("gds_out"),
    *,
    options: BuildOptions,
    as_json: opt.Json = False,
) -> None:
    """Build a chip from trained weights or from a matrix and check it: design rules, netlist and function.

    Writes the layout, netlist, bias and report into the output folder. Exit code 1 if a check fails, or if the chip
    misses a budget of the process that --accept does not name.
    """
    output_folder(output)

    from optinc_pdk.pipeline import building
    from optinc_pdk.pipeline.stages import STAGES

    with stage_progress(STAGES) as stages:
        result = building.build(weights, output, options, on_stage=stages, on_progress=stages.within)
    end_build(result, as_json)


@app.command()
@with_records
def program(
    gds: Annotated[
        Path,
        typer.Argument(
            dir_okay=False, callback=named_file, help="Layout file of the chip, GDS2, as a build writes it."
        ),
    ],
    netlist: Annotated[
        Path, typer.Argument(dir_okay=False, help="Netlist file of the chip, .pic.yml, as a build writes it.")
    ],
    target: Annotated[
        Path,
        typer.Argument(
            help=f"What to program: weight file of the chip's shape, {WEIGHT_FILES}; or matrix, {MATRIX_FILES}."
        ),
    ],
    output: Folder = Path("gds_out"),
    *,
    options: ProgramOptions,
    as_json: opt.Json = False,
) -> None:
    """Program an existing chip for other weights or another matrix of the same shape, and check it.

    Writes the files of a build with a new bias; layout and netlist are copies of the chip's. Exit code 1 if a check
    fails, or if the chip misses a budget of the process that --accept does not name.
    """
    output_folder(output)
    warn_of_changes(gds, netlist)

    from optinc_pdk.pipeline.reprogramming import reprogram
    from optinc_pdk.pipeline.stages import STAGES

    with stage_progress(STAGES) as stages:
        result = reprogram(gds, netlist, target, output, options, on_stage=stages, on_progress=stages.within)
    end_build(result, as_json)


def end_build(result: Build, as_json: bool) -> NoReturn:
    """Print the summary of a build, its findings on standard error, and last the verdict; end with the exit code."""
    if as_json:
        print(result.report.to_json(), end="")
    else:
        from optinc_pdk.report.summary import summary_table

        print_table(summary_table(result.report))
        sys.stdout.flush()
        for line in result.findings:
            print(line, file=sys.stderr)
        verdict = typer.style(result.report.verdict_text, fg="green" if result.passed else "red", bold=True)
        typer.echo(f"verdict {verdict}: {result.directory / result.report.name}.report.html")
    raise typer.Exit(PASSED if result.passed else FAILED)


@app.command()
@with_records
def cascade(output: Folder = Path("gds_out"), *, options: CascadeOptions, as_json: opt.Json = False) -> None:
    """Build the chips of both levels of a cascade and check words of N² servers against their average.

    N chips of level 1 feed one chip of level 2 with light, without receivers. Writes the files of both chips, and
    .cascade.json, .cascade.txt and .cascade.png. Exit code 1 if a check fails, or if a chip misses a budget of the
    process that --accept does not name.
    """
    output_folder(output)

    from optinc_pdk.pipeline.cascade import CASCADE_STAGES, build_cascade

    with stage_progress(CASCADE_STAGES) as stages:
        result = build_cascade(output, options, on_stage=stages)
    if as_json:
        print(result.report.to_json(), end="")
    else:
        from optinc_pdk.report.cascade_report import cascade_table

        print_table(cascade_table(result.report))
        for line in result.report.findings:
            print(line, file=sys.stderr)
        print(f"verdict {result.report.verdict_text}: {result.directory / result.report.name}.cascade.json")
    raise typer.Exit(PASSED if result.passed else FAILED)
