"""Command ``program``: a new bias for an existing chip."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optinc_pdk.cli.app import app, stage_progress
from optinc_pdk.cli.build_output import print_build
from optinc_pdk.cli.exit_codes import FAILED, PASSED
from optinc_pdk.cli.matrix_options import is_matrix, refuse_for_matrix
from optinc_pdk.cli.options import (
    DEFAULT,
    Accuracy,
    ActivationName,
    Agreement,
    Bits,
    DataFile,
    Gds,
    Groups,
    Json,
    LinkName,
    ProcessName,
    Reading,
    ReceiversName,
    Servers,
    Tolerance,
    parse_output,
)
from optinc_pdk.cli.paths import output_folder, warn_of_changes

if TYPE_CHECKING:
    from optinc_pdk.onn import GeneralNetwork, Onn


@app.command()
def program(
    gds: Gds,
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
        Path, typer.Option("-o", "--output", parser=parse_output, metavar="PATH", help="Folder for the files.")
    ] = Path("gds_out"),
    name: Annotated[
        str | None,
        typer.Option(help="Name of the files: 1 to 32 letters, digits and underscores. Default: the target's stem."),
    ] = None,
    process: ProcessName = DEFAULT,
    bits: Bits = None,
    servers: Servers = None,
    groups: Groups = None,
    activation: ActivationName = None,
    link: LinkName = None,
    receivers: ReceiversName = None,
    read: Reading = None,
    tolerance: Tolerance = None,
    data: DataFile = None,
    agreement: Agreement = None,
    accuracy: Accuracy = None,
    as_json: Json = False,
) -> None:
    """Program an existing chip for other weights or another matrix of the same shape, and check it.

    Writes the files of a build with a new bias; layout and netlist are copies of the chip's. Exit code 1 if a check
    fails.
    """
    output_folder(output)
    described = {"--bits": bits, "--servers": servers, "--groups": groups, "--activation": activation}
    if is_matrix(target):
        checks = {"--data": data, "--agreement": agreement, "--accuracy": accuracy}
        refuse_for_matrix(target, {**described, "--link": link, "--receivers": receivers, **checks})
    warn_of_changes(gds, netlist)

    from optinc_pdk.chip_sign_off import STAGES
    from optinc_pdk.flow import chip_name
    from optinc_pdk.reprogramming import reprogram

    with stage_progress(STAGES) as report_stage:
        source: Path | Onn | GeneralNetwork = target
        if (bits, servers, groups, activation) != (None,) * 4:
            from optinc_pdk.onn.weight_files import load_network

            source = load_network(target, bits, servers, groups, activation)
            name = chip_name(target.stem, name)
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
        )
    if as_json:
        print(result.report.to_json(), end="")
    else:
        print_build(result)
    raise typer.Exit(PASSED if result.passed else FAILED)
