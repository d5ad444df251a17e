"""Commands from weights to a chip, and what shows it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optinc_pdk.cli.app import FAILED, PASSED, app, print_table, progress
from optinc_pdk.cli.options import DEFAULT, Bits, Gds, Groups, Json, ProcessName, Servers, Weights
from optinc_pdk.files import InputError

if TYPE_CHECKING:
    from optinc_pdk.flow import Build


@app.command()
def build(
    weights: Annotated[Path | None, typer.Argument(help="Weight file; the bundled 4-bit network if left out.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the chip's files.")] = Path("gds_out"),
    name: Annotated[str | None, typer.Option(help="Chip name; the weight file's stem by default.")] = None,
    process: ProcessName = DEFAULT,
    bits: Bits = None,
    servers: Servers = None,
    groups: Groups = None,
    as_json: Json = False,
) -> None:
    """Build a chip from trained weights and check it: layout, rules, netlist, function."""
    from optinc_pdk import flow
    from optinc_pdk.onn import Onn

    with progress(flow.STAGES) as watch:
        source: Path | Onn | None = weights
        if weights is not None and (bits, servers, groups) != (None, None, None):
            source = Onn.load(weights, bits, servers, groups)
            name = weights.stem if name is None else name
        done = flow.build(source, output, name, process, watch)
    if as_json:
        print(done.report.to_json(), end="")
    else:
        _summary(done)
    raise typer.Exit(PASSED if done.passed else FAILED)


@app.command()
def factor(
    weights: Weights,
    process: ProcessName = DEFAULT,
    bits: Bits = None,
    servers: Servers = None,
    groups: Groups = None,
    as_json: Json = False,
) -> None:
    """Factor the matrices of a network: errors, MZIs, phase shifters."""
    from optinc_pdk.cards import load_process
    from optinc_pdk.onn import Onn
    from optinc_pdk.report.tables import factor_rows, factor_table

    splitter_db = load_process(process).device("mmi1x2").parameter("loss_db")
    onn = Onn.load(weights, bits, servers, groups)
    try:
        rows = factor_rows(onn, splitter_db)
    except InputError as fault:
        raise InputError(f"{weights}: {fault}") from fault
    if as_json:
        print(json.dumps({"schema": 1, "layers": rows}, indent=2))
    else:
        print_table(factor_table(rows))


@app.command()
def size(
    weights: Annotated[list[Path], typer.Argument(help="Weight files: .npz, .safetensors or .onnx.")],
    process: ProcessName = DEFAULT,
    bits: Bits = None,
    servers: Servers = None,
    groups: Groups = None,
    as_json: Json = False,
) -> None:
    """Size of networks' chips against area, pads, power and light, beside the paper's; no layout is made."""
    from optinc_pdk.assemble import check_weights
    from optinc_pdk.cards import load_process
    from optinc_pdk.onn import Onn
    from optinc_pdk.report.size import onn_size, paper_sizes
    from optinc_pdk.report.size_table import size_markdown, size_rows

    card = load_process(process)
    given = [(path, Onn.load(path, bits, servers, groups)) for path in weights]
    tasks = {(onn.task.bits, onn.task.servers): onn.task for _, onn in given}
    sizes = [one for task in tasks.values() for one in paper_sizes(task, card)]
    with progress(tuple(str(path) for path in weights)) as watch:
        for path, onn in given:
            watch(str(path))
            try:
                check_weights(onn)
                sizes.append(onn_size(path.stem, onn, card))
            except InputError as fault:
                raise InputError(f"{path}: {fault}") from fault
    if as_json:
        print(json.dumps({"schema": 1, "process": card.name, "networks": size_rows(sizes)}, indent=2))
    else:
        print(size_markdown(sizes, card), end="")


@app.command()
def view(
    gds: Gds,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder; that of the layout by default.")
    ] = None,
    png: Annotated[bool, typer.Option("--png", help="Write pictures even where KLayout could be opened.")] = False,
    process: ProcessName = DEFAULT,
) -> None:
    """Open a layout in KLayout, or write pictures of chip, layer, mesh and MZI where there is no KLayout or display."""
    from optinc_pdk.cards import load_process
    from optinc_pdk.report.view import PICTURES, klayout_application, open_klayout, write_pictures

    card, directory = load_process(process), gds.parent if output is None else output
    application = None if png else klayout_application()
    if application is not None:
        print(open_klayout(application, gds, card, directory))
        return
    with progress(PICTURES) as watch:
        written = write_pictures(gds, card, directory, watch)
    for path in written:
        print(path)
    if len(written) < len(PICTURES):
        print(f"optinc: {gds} has no heaters side by side, so the whole layout is drawn alone", file=sys.stderr)


@app.command()
def cells(
    output: Annotated[Path, typer.Option("-o", "--output", help="Page to write, .md.")] = Path("docs/cells.md"),
    process: ProcessName = DEFAULT,
) -> None:
    """Write the gallery of a process's cells: a page with a picture of each, its ports, its card and its model."""
    from optinc_pdk.cards import load_process
    from optinc_pdk.pdk import get_pdk
    from optinc_pdk.report.gallery import write_gallery

    card = load_process(process)
    get_pdk(process).activate()
    print(f"{output}: {write_gallery(card, output)} cells")


def _summary(done: Build) -> None:
    from optinc_pdk.report.tables import summary_table

    print_table(summary_table(done.report))
    for line in done.findings:
        print(line, file=sys.stderr)
    print(f"verdict {done.report.verdict}: {done.directory / done.report.name}.report.html")
