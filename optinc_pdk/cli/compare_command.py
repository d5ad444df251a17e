"""Command ``compare``: difference of two layouts as a list and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from optinc_pdk.cli.app import app, progress_counter
from optinc_pdk.cli.exit_codes import FAILED, PASSED
from optinc_pdk.cli.options import DEFAULT, Json, ProcessName, parse_output
from optinc_pdk.cli.paths import output_folder, output_path
from optinc_pdk.errors import printable_line
from optinc_pdk.io.json_files import json_text
from optinc_pdk.io.reading import check_readable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optinc_pdk.cards import Process
    from optinc_pdk.signoff.layout_difference import Label, LayoutDifference, OneSided

SHOWN = 3
"""Number of places, labels and cells that a line states; JSON has ten places, and all labels and cells."""
LISTED = 10


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(dir_okay=False, metavar="A", help="First layout file, GDS2 or OASIS.")],
    b: Annotated[Path, typer.Argument(dir_okay=False, metavar="B", help="Second layout file, GDS2 or OASIS.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            parser=parse_output,
            metavar="PATH",
            help="Folder for A.compare.png and A.compare.json. Default: the folder of A.",
        ),
    ] = None,
    process: ProcessName = DEFAULT,
    as_json: Json = False,
) -> None:
    """Compare two layouts; writes a picture of what only one of them has, .compare.png, and .compare.json.

    Masks and labels are compared, in whatever shapes and cells they are drawn; of several top cells, those of the same
    name. Cells that only one layout has are listed as well and do not count. The process names the layers. Exit code 1
    if masks or labels differ.
    """
    folder = output_folder(output) if output is not None else a.parent
    picture, numbers = (output_path(folder / f"{a.stem}.compare{ending}", a, b) for ending in (".png", ".json"))
    for layout in (a, b):
        check_readable(layout)

    from optinc_pdk.cards import load_process

    card = load_process(process)

    from optinc_pdk.signoff.layout_difference import compare_layouts

    with progress_counter() as report:
        difference = compare_layouts(a, b, report)
        report("picture", 0, None)

        from optinc_pdk.io.file_sets import write_files
        from optinc_pdk.report.difference_picture import difference_png

        content = difference_png(a, b, difference, card)
    found = _numbers(a, b, difference, card)
    text = json_text(found)
    write_files({picture: content, numbers: text.encode()})
    if as_json:
        print(text, end="")
    else:
        _print(found, (a.name, b.name) if a.name != b.name else (str(a), str(b)), picture)
    raise typer.Exit(PASSED if difference.equal else FAILED)


def _numbers(a: Path, b: Path, difference: LayoutDifference, card: Process) -> dict[str, Any]:
    names = {pair: name for name, pair in card.gds_layers.items()}
    tops = [
        {
            "a": top.name_a,
            "b": top.name_b,
            "equal": top.equal,
            "layers": [
                {
                    "layer": list(one.layer),
                    "name": names.get(one.layer),
                    "equal": one.equal,
                    "only_a": _side(one.only_a),
                    "only_b": _side(one.only_b),
                }
                for one in top.layers
            ],
            "labels": {"only_a": _labels(top.labels_a), "only_b": _labels(top.labels_b)},
        }
        for top in difference.tops
    ]
    cells = {"only_a": difference.cells_a, "only_b": difference.cells_b}
    return {"schema": 2, "a": str(a), "b": str(b), "equal": difference.equal, "tops": tops, "cells": cells}


def _side(side: OneSided) -> dict[str, Any]:
    boxes = side.boxes_um()[:LISTED].round(6)
    return {"area_um2": round(side.area_um2, 6), "polygons": len(side.polygons), "boxes_um": boxes.tolist()}


def _labels(labels: Sequence[Label]) -> list[dict[str, Any]]:
    return [
        {"layer": list(label.layer), "text": label.text, "place_um": [round(label.x_um, 6), round(label.y_um, 6)]}
        for label in labels
    ]


def _print(found: dict[str, Any], files: tuple[str, str], picture: Path) -> None:
    """Print a line for everything that only one layout has, the path of the picture, and a summary."""
    from optinc_pdk.io.formatting import count_text

    sides = tuple(zip(("only_a", "only_b"), files, strict=True))
    for top in found["tops"]:
        for file, other in zip(files, (top["b"], top["a"]), strict=True):
            if other is None:
                print(f"top cell only in {file}: {printable_line(top['a'] or top['b'])}")
        where = f"{_pair_text(top)}: " if len(found["tops"]) > 1 else ""
        for layer in top["layers"]:
            number = "/".join(map(str, layer["layer"]))
            name = f"{layer['name']} ({number})" if layer["name"] else number
            for side, file in sides:
                if count := layer[side]["polygons"]:
                    boxes = [
                        f"({box[0]:.3f}, {box[1]:.3f})–({box[2]:.3f}, {box[3]:.3f})" for box in layer[side]["boxes_um"]
                    ]
                    area = f"{layer[side]['area_um2']:,.6g} µm² in {count_text(count, 'polygon')}"
                    print(f"{where}{name}: {area} only in {file}, at {_first(boxes, count)} µm")
        for side, file in sides:
            texts = [
                f"{one['text']} ({one['place_um'][0]:.3f}, {one['place_um'][1]:.3f})" for one in top["labels"][side]
            ]
            if texts:
                print(f"{where}{count_text(len(texts), 'label')} only in {file}: {_first(texts, len(texts))} µm")
    for side, file in sides:
        if cells := found["cells"][side]:
            print(f"{count_text(len(cells), 'cell')} only in {file}: {_first(cells, len(cells))}")
    print(f"picture: {picture}")
    print(_summary(found["tops"]))


def _summary(tops: Sequence[dict[str, Any]]) -> str:
    from optinc_pdk.io.formatting import count_text

    of_tops = f" of {count_text(len(tops), 'top cell')}" if len(tops) > 1 else ""
    layers = count_text(sum(len(top["layers"]) for top in tops), "layer")
    if all(top["equal"] for top in tops):
        return f"equal: masks of {layers} and all labels{of_tops}"
    alone = sum(top["a"] is None or top["b"] is None for top in tops)
    differing = sum(not layer["equal"] for top in tops for layer in top["layers"])
    labels = count_text(sum(len(labels) for top in tops for labels in top["labels"].values()), "label")
    return f"different: {f'{alone}{of_tops} without counterpart, ' * bool(alone)}{differing} of {layers}, {labels}"


def _pair_text(top: dict[str, Any]) -> str:
    names = [printable_line(top[side]) for side in ("a", "b") if top[side] is not None]
    return " / ".join(dict.fromkeys(names))


def _first(texts: Sequence[str], count: int) -> str:
    return ", ".join(map(printable_line, texts[:SHOWN])) + (", …" if count > SHOWN else "")
