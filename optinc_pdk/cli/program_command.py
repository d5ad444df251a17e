"""Command ``program``: a new bias for an existing chip."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from optinc_pdk.cli import options as opt
from optinc_pdk.cli.app import app, stage_progress
from optinc_pdk.cli.chip_builds import described_network, end_build
from optinc_pdk.cli.matrix_options import is_matrix, refuse_for_matrix
from optinc_pdk.cli.paths import output_folder, warn_of_changes


@app.command()
def program(
    gds: Annotated[Path, typer.Argument(dir_okay=False, help="Layout file of the chip, GDS2, as a build writes it.")],
    netlist: Annotated[
        Path, typer.Argument(dir_okay=False, help="Netlist file of the chip, .pic.yml, as a build writes it.")
    ],
    target: Annotated[
        Path,
        typer.Argument(
            help="What the chip shall compute: weight file of the chip's shape, .npz, .safetensors or .onnx; or "
            "matrix, .npy or .npz with one array."
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", parser=opt.parse_output, metavar="PATH", help="Folder for the files.")
    ] = Path("gds_out"),
    name: Annotated[
        str | None,
        typer.Option(help="Name of the files: 1 to 32 letters, digits and underscores. Default: the target's stem."),
    ] = None,
    process: opt.ProcessName = opt.DEFAULT,
    bits: opt.Bits = None,
    servers: opt.Servers = None,
    groups: opt.Groups = None,
    activation: opt.ActivationName = None,
    link: opt.LinkName = None,
    receivers: opt.ReceiversName = None,
    read: opt.Reading = None,
    tolerance: opt.Tolerance = None,
    data: opt.DataFile = None,
    agreement: opt.Agreement = None,
    accuracy: opt.Accuracy = None,
    accept: opt.Accept = "",
    as_json: opt.Json = False,
) -> None:
    """Program an existing chip for other weights or another matrix of the same shape, and check it.

    Writes the files of a build with a new bias; layout and netlist are copies of the chip's. Exit code 1 if a check
    fails, or if the chip misses a budget of the process that --accept does not name.
    """
    budgets = opt.accepted_budgets(accept)
    output_folder(output)
    described = {"--bits": bits, "--servers": servers, "--groups": groups, "--activation": activation}
    if is_matrix(target):
        checks = {"--data": data, "--agreement": agreement, "--accuracy": accuracy}
        refuse_for_matrix(target, {**described, "--link": link, "--receivers": receivers, **checks})
    warn_of_changes(gds, netlist)

    from optinc_pdk.pipeline.reprogramming import reprogram
    from optinc_pdk.pipeline.stages import STAGES

    with stage_progress(STAGES) as report_stage:
        source, name = described_network(target, name, bits, servers, groups, activation)
        result = reprogram(
            gds,
            netlist,
            source,
            output,
            name,
            process,
            report_stage,
            report_stage.within,
            link=link,
            receivers=receivers,
            read=read,
            tolerance=tolerance,
            data=data,
            agreement=agreement,
            accuracy=accuracy,
            accept=budgets,
        )
    end_build(result, as_json)
