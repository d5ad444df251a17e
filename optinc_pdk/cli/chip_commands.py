"""Commands about chips that draw none: ``factor`` and ``size``, and those that show layouts and cells."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optinc_pdk.cli import arguments as opt
from optinc_pdk.cli.app import app, print_table, progress_counter, stage_progress
from optinc_pdk.cli.paths import errors_naming, output_folder, output_path
from optinc_pdk.cli.records import with_records
from optinc_pdk.errors import InputError
from optinc_pdk.options import MATRIX_FILES, WEIGHT_FILES, SizeOptions

if TYPE_CHECKING:
    from optinc_pdk.cards import Process
    from optinc_pdk.networks import AveragingNetwork, GeneralNetwork


@app.command()
@with_records
def factor(
    weights: Annotated[
        Path,
        typer.Argument(help=f"Weight file: {WEIGHT_FILES}; or matrix: {MATRIX_FILES}."),
    ],
    *,
    options: SizeOptions,
    picture: Annotated[
        Path | None,
        typer.Option(
            parser=opt.parse_output,
            metavar="PATH",
            help="Diagram of a matrix's meshes to write, .svg, .pdf or .png: MZIs as crossings in the colour of theta; "
            "up to 16 modes with phi and output phases as text.",
        ),
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Factor the weight matrices of a network, or a matrix, into meshes; prints MZIs, phase shifters and errors.

    A network from which no chip can be built is factored as well, with a warning on standard error.
    """
    from optinc_pdk.matrices.target import is_matrix_file
    from optinc_pdk.networks.network import load_network
    from optinc_pdk.tasks.chip_task import refuse_options

    if is_matrix_file(weights):
        with errors_naming(weights):
            refuse_options("a network", link=options.link)
        _factor_matrix(weights, options, picture, as_json)
        return
    with errors_naming(weights):
        refuse_options("a matrix", mesh=options.mesh, extra_columns=options.extra_columns, picture=picture)

    from optinc_pdk.cards import load_process, with_link

    card = with_link(load_process(options.process), options.link, None)
    splitter_db = card.device("mmi1x2").parameter("loss_db")
    onn = load_network(weights)

    from optinc_pdk.assemble import check_buildable, check_weights
    from optinc_pdk.budgets.factor_counts import factor_rows
    from optinc_pdk.networks import linked_network
    from optinc_pdk.report.tables import factor_table

    with errors_naming(weights), progress_counter() as report:
        # before the link scales them
        check_weights(onn)
        report("factoring", 0, None)
        rows = factor_rows(linked_network(onn, _neurons(onn, card, options.link)), splitter_db, report)
    if as_json:
        print(json.dumps({"schema": 1, "layers": rows}, indent=2))
    else:
        print_table(factor_table(rows))
    _print_changes(weights, onn, _neurons(onn, card, options.link))
    try:
        check_buildable(onn)
    except InputError as fault:
        print(f"optinc: {weights}: no chip can be built from it: {fault}", file=sys.stderr)


def _factor_matrix(weights: Path, options: SizeOptions, picture: Path | None, as_json: bool) -> None:
    """Factor a matrix, print its factors and, if asked for, draw its meshes."""
    if picture is not None:
        from optinc_pdk.report.rendering import figure_format

        picture_format = figure_format(output_path(picture, weights, option="--picture"))
    from optinc_pdk.cards import load_process
    from optinc_pdk.matrices import MatrixTarget, factor_matrix
    from optinc_pdk.matrices.matrix_factor import mesh_shape

    target, card = MatrixTarget.load(weights), load_process(options.process)
    shape = mesh_shape(options.mesh, options.extra_columns)

    from optinc_pdk.budgets.factor_counts import matrix_factor_row
    from optinc_pdk.report.tables import matrix_factor_table

    with progress_counter() as report:
        report("factoring", 0, None)
        factors = factor_matrix(target, card, shape)
        row = matrix_factor_row(target, factors)
    if picture is not None:
        from optinc_pdk.io.writing import write_atomic
        from optinc_pdk.report.matrix_pictures import mesh_picture

        write_atomic(picture, mesh_picture(factors, weights.stem, picture_format))
    if as_json:
        print(json.dumps({"schema": 1, "matrix": row}, indent=2))
    else:
        print_table(matrix_factor_table(row))
        if picture is not None:
            print(picture)


@app.command()
@with_records
def size(
    weights: Annotated[
        list[Path],
        typer.Argument(help=f"Weight files: {WEIGHT_FILES}; or matrices: {MATRIX_FILES}."),
    ],
    *,
    options: SizeOptions,
    as_json: opt.Json = False,
) -> None:
    """Estimate the chip size of networks and matrices without a layout: area, pads, heater power and optical power.

    Prints Markdown tables of the sizes, of those that the paper's networks would have, and of the process's limits.
    """
    from optinc_pdk.assemble import check_devices, check_weights
    from optinc_pdk.cards import load_process, with_link
    from optinc_pdk.matrices import MatrixTarget
    from optinc_pdk.matrices.matrix_factor import mesh_shape
    from optinc_pdk.matrices.target import is_matrix_file
    from optinc_pdk.networks import AveragingNetwork, linked_network
    from optinc_pdk.networks.network import load_network
    from optinc_pdk.tasks.chip_task import refuse_options

    card = with_link(load_process(options.process), options.link, None)
    check_devices(card)
    matrices = {path: MatrixTarget.load(path) for path in weights if is_matrix_file(path)}
    with errors_naming(weights[0]):
        if len(matrices) == len(weights):
            refuse_options("a network", link=options.link)
        if not matrices:
            refuse_options("a matrix", mesh=options.mesh, extra_columns=options.extra_columns)
    shape = mesh_shape(options.mesh, options.extra_columns)
    networks = [(path, load_network(path)) for path in weights if path not in matrices]
    for path, onn in networks:
        with errors_naming(path):
            check_weights(onn)
            linked_network(onn, _neurons(onn, card, options.link))

    from optinc_pdk.budgets.chip_size import matrix_size, onn_size, paper_sizes
    from optinc_pdk.report.tables import size_markdown, size_rows

    tasks = {(onn.task.bits, onn.task.servers): onn.task for _, onn in networks if isinstance(onn, AveragingNetwork)}
    sizes = [one for task in tasks.values() for one in paper_sizes(task, card)]
    network_of = dict(networks)
    with stage_progress(tuple(str(path) for path in weights)) as report_stage:
        for path in weights:
            report_stage(str(path))
            with errors_naming(path):
                matrix = matrices.get(path)
                size = (
                    onn_size(path.stem, network_of[path], card)
                    if matrix is None
                    else matrix_size(path.stem, matrix, card, shape)
                )
                sizes.append(size)
    if as_json:
        print(json.dumps({"schema": 1, "process": card.name, "networks": size_rows(sizes)}, indent=2))
    else:
        print(size_markdown(sizes, card), end="")
    for path, onn in networks:
        _print_changes(path, onn, _neurons(onn, card, options.link))


@app.command()
def view(
    gds: opt.Gds,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            parser=opt.parse_output,
            metavar="PATH",
            help="Folder for the pictures, or for the layer properties for KLayout. Default: the layout's folder.",
        ),
    ] = None,
    png: Annotated[bool, typer.Option("--png", help="Write pictures, and open no application.")] = False,
    process: opt.ProcessName = opt.DEFAULT,
) -> None:
    """Open a layout in KLayout with the process's layer names and colours, or else its report page in the browser.

    The page is that of the build beside the layout. Without such a page or a display, and with -o and --png, writes PNG
    pictures of the chip, a layer, a mesh and an MZI instead. Layer properties (.lyp) are written only when KLayout is
    opened.
    """
    if output is not None:
        output_folder(output)

    from optinc_pdk.cards import load_process

    card, directory = load_process(process), gds.parent if output is None else output

    from optinc_pdk.report.build_files import report_page
    from optinc_pdk.report.klayout_application import klayout_application, open_klayout, open_page
    from optinc_pdk.report.layout_pictures import PICTURES, write_pictures

    application = None if png else klayout_application()
    if application is not None:
        print(open_klayout(application, gds, card, directory))
        return
    page = None if png or output is not None else report_page(gds)
    if page is not None and open_page(page):
        print(page)
        return
    with stage_progress(PICTURES) as report_stage:
        written = write_pictures(gds, card, directory, report_stage)
    for path in written:
        print(path)
    if len(written) < len(PICTURES):
        print(f"optinc: {gds}: no two heaters stand side by side, so only the whole layout is drawn", file=sys.stderr)


def _neurons(onn: AveragingNetwork | GeneralNetwork, card: Process, link: str | None) -> bool:
    """Whether the outputs end in neurons; those of a general network only if --link asks for it, which is refused."""
    from optinc_pdk.networks import GeneralNetwork

    if isinstance(onn, GeneralNetwork) and link is None:
        return False
    return card.link.kind == "neurons"


def _print_changes(weights: Path, onn: AveragingNetwork | GeneralNetwork, neurons: bool) -> None:
    """Say what a build adds to a network, and what is counted with it."""
    from optinc_pdk.networks import output_notes

    for note in output_notes(onn, neurons):
        print(f"optinc: {weights}: {note}", file=sys.stderr)
