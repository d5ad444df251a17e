"""Layouts that are rewritten in ways that change nothing: they match their netlist, and ``compare`` calls them equal.

A rewritten layout is compared with the original. One that was moved, rotated or mirrored is placed in a new cell first,
so that it lies where the original does; LVS finds its fibre couplers and pads by their labels.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest
import yaml
from circuit_faults.layouts import draw

from optinc_pdk.assemble import draft_matrix
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Circuit, PlacedCircuit, write_netlist
from optinc_pdk.cli.paths import read_layout_netlist
from optinc_pdk.layout import lay_out, to_layout, write_gds
from optinc_pdk.matrices import MatrixTarget, factor_matrix
from optinc_pdk.pdk import active_pdk
from optinc_pdk.signoff.layout_difference import compare_layouts
from optinc_pdk.signoff.lvs.comparison import compare
from optinc_pdk.signoff.lvs.label_binding import bind_labels, extract_for

PROCESS = load_process()
CIRCUITS = ("mzi_heater", "wdm_rings", "grating_array")
MOVES = {
    "moved": kdb.Trans(12_345, -67_891),
    "rotated by 90°": kdb.Trans(1, False, 0, 0),
    "rotated by 180°": kdb.Trans(2, False, 1, 0),
    "rotated by 270°": kdb.Trans(3, False, 0, 7),
    "mirrored": kdb.Trans(0, True, 0, 0),
    "mirrored at the diagonal": kdb.Trans(1, True, 333, 0),
}

Rewrite = Callable[[kdb.Layout], None]


@dataclass(frozen=True)
class Original:
    """A layout that matches its netlist."""

    gds: Path
    netlist: Path


@pytest.fixture(scope="module")
def chip(tmp_path_factory: pytest.TempPathFactory) -> Original:
    """The smallest chip of a matrix: meshes, heaters with wires and labelled pads, and fibres."""
    folder = tmp_path_factory.mktemp("chip")
    target = MatrixTarget(np.array([[0.6, 0.8], [-0.8, 0.6]]))
    with active_pdk(PROCESS):
        draft = draft_matrix(target, factor_matrix(target, PROCESS), PROCESS, "chip")
        circuit, drawn = lay_out(draft, PROCESS)
        write_gds(to_layout(drawn, PROCESS, "chip"), folder / "chip.gds")
    write_netlist(circuit, folder / "chip.pic.yml")
    return Original(folder / "chip.gds", folder / "chip.pic.yml")


@pytest.fixture(scope="module")
def circuits(tmp_path_factory: pytest.TempPathFactory) -> list[Original]:
    """Circuits that are drawn by hand, without labels."""
    folder = tmp_path_factory.mktemp("circuits")
    return [Original(drawn.gds, drawn.netlist) for drawn in (draw(name, folder) for name in CIRCUITS)]


def labelled(original: Original, folder: Path) -> Original:
    """A circuit with labels at its fibre couplers and pads, which move with it."""
    layout, circuit = read(original.gds), read_layout_netlist(original.netlist, original.gds, PROCESS, "")
    assert isinstance(circuit, PlacedCircuit)
    shapes = layout.top_cell().shapes(layout.layer(*PROCESS.gds_layers["label"]))
    for label in bind_labels(circuit, [], PROCESS).missing:
        shapes.insert(kdb.Text(label.text, label.x, label.y))
    layout.write(str(folder / original.gds.name))
    return Original(folder / original.gds.name, original.netlist)


def matches(gds: Path, netlist: Path) -> bool:
    """Whether LVS passes, as ``optinc lvs`` runs it."""
    circuit: Circuit | PlacedCircuit = read_layout_netlist(netlist, gds, PROCESS, "")
    bound, extraction = extract_for(circuit, gds, PROCESS)
    return compare(bound.reference, extraction, PROCESS, bound.differences).match


def read(path: Path) -> kdb.Layout:
    layout = kdb.Layout()
    layout.read(str(path))
    return layout


def shapes_of(layout: kdb.Layout) -> Iterator[kdb.Shapes]:
    for cell in layout.each_cell():
        for index in layout.layer_indexes():
            yield cell.shapes(index)


def flattened(layout: kdb.Layout) -> None:
    layout.top_cell().flatten(-1, True)


def one_level_flattened(layout: kdb.Layout) -> None:
    layout.top_cell().flatten(1, True)


def cells_renamed(layout: kdb.Layout) -> None:
    for number, cell in enumerate(layout.each_cell()):
        if not cell.is_top():
            cell.name = f"c{number}"


def top_cell_renamed(layout: kdb.Layout) -> None:
    layout.top_cell().name = "another"


def level_added(layout: kdb.Layout) -> None:
    """The content of the top cell is rotated, and placed in a new top cell where it was."""
    old, trans = layout.top_cell(), kdb.Trans(3, False, 5_000, -77)
    old.transform(trans.inverted())
    layout.create_cell("above").insert(kdb.CellInstArray(old.cell_index(), trans))


def polygons_split(layout: kdb.Layout) -> None:
    """Every polygon becomes triangles between its own corners."""
    for shapes in shapes_of(layout):
        for shape in list(shapes.each(kdb.Shapes.SRegions)):
            triangles = shape.polygon.delaunay()
            shapes.erase(shape)
            shapes.insert(triangles)


def polygons_merged(layout: kdb.Layout) -> None:
    """Touching polygons of every cell become one, where no corner of the merged one lies between grid points."""
    for shapes in shapes_of(layout):
        drawn = kdb.Region()
        for shape in list(shapes.each(kdb.Shapes.SRegions)):
            drawn.insert(shape.polygon)
        merged = drawn.merged()
        if (merged ^ drawn).is_empty():
            texts = [shape.text for shape in shapes.each(kdb.Shapes.STexts)]
            shapes.clear()
            shapes.insert(merged)
            for text in texts:
                shapes.insert(text)


def vertices_added(layout: kdb.Layout) -> None:
    """Every edge gets a point in its middle where that is a point of the grid."""
    for shapes in shapes_of(layout):
        for shape in list(shapes.each(kdb.Shapes.SRegions)):
            polygon, points = shape.polygon, []
            for edge in polygon.each_edge() if not polygon.holes() else ():
                points.append(edge.p1)
                if (edge.p1.x + edge.p2.x) % 2 == (edge.p1.y + edge.p2.y) % 2 == 0:
                    points.append(edge.p1 + (edge.p2 - edge.p1) / 2)
            if points:
                shapes.erase(shape)
                shapes.insert(kdb.Polygon(points, True))


def boxes_as_paths(layout: kdb.Layout) -> None:
    for shapes in shapes_of(layout):
        for shape in list(shapes.each(kdb.Shapes.SRegions)):
            box = shape.bbox()
            if shape.polygon.is_box() and box.height() % 2 == 0:
                shapes.erase(shape)
                y = (box.bottom + box.top) // 2
                shapes.insert(kdb.Path([kdb.Point(box.left, y), kdb.Point(box.right, y)], box.height()))


def polygons_as_boxes(layout: kdb.Layout) -> None:
    """Rectangles are boxes, and other polygons whose edges are parallel to the axes are several boxes."""
    for shapes in shapes_of(layout):
        for shape in list(shapes.each(kdb.Shapes.SRegions)):
            if shape.polygon.is_rectilinear():
                parts = shape.polygon.decompose_trapezoids()
                shapes.erase(shape)
                for part in parts:
                    shapes.insert(part.bbox())


def shapes_doubled(layout: kdb.Layout) -> None:
    for shapes in shapes_of(layout):
        for polygon in [shape.polygon for shape in shapes.each(kdb.Shapes.SRegions)]:
            shapes.insert(polygon)


def arrays_of_instances(layout: kdb.Layout) -> None:
    """Two instances of one cell and orientation become an array of two."""
    for cell in layout.each_cell():
        alike: dict[tuple[int, int, bool], list[kdb.Instance]] = defaultdict(list)
        for instance in cell.each_inst():
            if not instance.is_regular_array() and not instance.is_complex():
                alike[instance.cell_index, instance.trans.angle, instance.trans.is_mirror()].append(instance)
        pairs = [pair for some in alike.values() for pair in zip(some[::2], some[1::2], strict=False)]
        arrays = [
            kdb.CellInstArray(one.cell_index, one.trans, other.trans.disp - one.trans.disp, kdb.Vector(), 2, 1)
            for one, other in pairs
        ]
        for instance in [each for pair in pairs for each in pair]:
            instance.delete()
        for array in arrays:
            cell.insert(array)


def instances_of_arrays(layout: kdb.Layout) -> None:
    for cell in layout.each_cell():
        for instance in [each for each in cell.each_inst() if each.is_regular_array()]:
            for column in range(instance.na):
                for row in range(instance.nb):
                    move = kdb.Trans(instance.a * column + instance.b * row)
                    cell.insert(kdb.CellInstArray(instance.cell_index, move * instance.trans))
            instance.delete()


def empty_cells_placed(layout: kdb.Layout) -> None:
    empty, above = layout.create_cell("empty"), layout.create_cell("holds_empty")
    above.insert(kdb.CellInstArray(empty.cell_index(), kdb.Trans(1, False, 10**8, 5)))
    for cell in list(layout.each_cell()):
        if cell.cell_index() not in (empty.cell_index(), above.cell_index()):
            cell.insert(kdb.CellInstArray(above.cell_index(), kdb.Trans()))


def empty_cells_aside(layout: kdb.Layout) -> None:
    layout.create_cell("left_over").insert(kdb.CellInstArray(layout.create_cell("empty").cell_index(), kdb.Trans()))


def properties_added(layout: kdb.Layout) -> None:
    for cell in layout.each_cell():
        for number, instance in enumerate(list(cell.each_inst())):
            instance.set_property(1, f"instance {number}")
    for shapes in shapes_of(layout):
        for number, shape in enumerate(list(shapes.each())):
            shape.set_property(2, f"shape {number}")


def labels_of_other_form(layout: kdb.Layout) -> None:
    for shapes in shapes_of(layout):
        for number, shape in enumerate(list(shapes.each(kdb.Shapes.STexts))):
            text = shape.text
            text.size, text.halign, text.valign = 2_000 + number, kdb.HAlign.HAlignRight, kdb.VAlign.VAlignTop
            text.trans = kdb.Trans(number % 4, number % 2 == 1, text.x, text.y)
            shape.text = text


def layers_reordered(layout: kdb.Layout) -> None:
    infos = sorted(layout.layer_infos(), key=lambda info: (-info.layer, info.datatype))
    for info in infos:
        old, new = layout.find_layer(info), layout.insert_layer(kdb.LayerInfo())
        layout.move_layer(old, new)
        layout.delete_layer(old)
        layout.set_info(new, kdb.LayerInfo(info.layer, info.datatype, f"name_{info.layer}"))


REWRITINGS: tuple[Rewrite, ...] = (
    flattened,
    one_level_flattened,
    cells_renamed,
    top_cell_renamed,
    level_added,
    polygons_split,
    polygons_merged,
    vertices_added,
    boxes_as_paths,
    polygons_as_boxes,
    shapes_doubled,
    arrays_of_instances,
    instances_of_arrays,
    empty_cells_placed,
    empty_cells_aside,
    properties_added,
    labels_of_other_form,
    layers_reordered,
)


def records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and bytes of every record of a GDS2 file."""
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from(">H", data, at)
        if length == 0:
            return
        yield data[at + 2], data[at : at + length]
        at += length


BEGIN_CELL, END_CELL, NAME, STRING_CLASS, END_ELEMENT, END_FILE = 0x05, 0x07, 0x06, 0x34, 0x11, 0x04


def reordered(data: bytes, cells: bool, elements: bool) -> bytes:
    """A GDS2 file with its cells, or the shapes and instances of each cell, in the reverse order."""
    head, structures = b"", list[tuple[bytes, list[bytes], bytes]]()
    inside, begin, found, element = False, b"", list[bytes](), b""
    for kind, record in records(data):
        if kind == BEGIN_CELL:
            inside, begin, found, element = True, record, [], b""
        elif not inside:
            head += record if kind != END_FILE else b""
        elif kind == END_CELL:
            structures.append((begin, found, record))
            inside = False
        elif kind in (NAME, STRING_CLASS):
            begin += record
        else:
            element += record
            if kind == END_ELEMENT:
                found.append(element)
                element = b""
    body = [
        begin + b"".join(reversed(found) if elements else found) + end
        for begin, found, end in (reversed(structures) if cells else structures)
    ]
    return head + b"".join(body) + struct.pack(">HBB", 4, END_FILE, 0)


def oasis(layout: kdb.Layout, path: Path, level: int, compressed: bool) -> None:
    options = kdb.SaveLayoutOptions()
    options.format, options.oasis_compression_level, options.oasis_write_cblocks = "OASIS", level, compressed
    layout.write(str(path), options)


FORMATS: dict[str, tuple[str, Callable[[Path, Path], object]]] = {
    "OASIS": ("oas", lambda old, new: oasis(read(old), new, 0, False)),
    "compressed OASIS": ("oas", lambda old, new: oasis(read(old), new, 10, True)),
    "other order of cells": ("gds", lambda old, new: new.write_bytes(reordered(old.read_bytes(), True, False))),
    "other order of shapes": ("gds", lambda old, new: new.write_bytes(reordered(old.read_bytes(), False, True))),
}


def written(original: Original, rewrite: Rewrite, folder: Path) -> Path:
    layout = read(original.gds)
    rewrite(layout)
    # GDS2 has no boxes
    path = folder / f"{original.gds.stem}.{'oas' if rewrite is polygons_as_boxes else 'gds'}"
    layout.write(str(path))
    return path


IDS = [rewrite.__name__ for rewrite in REWRITINGS]


@pytest.mark.full(every=3)
@pytest.mark.parametrize("rewrite", REWRITINGS, ids=IDS)
def test_a_rewritten_chip_matches_and_is_equal(chip: Original, rewrite: Rewrite, tmp_path: Path) -> None:
    path = written(chip, rewrite, tmp_path)
    assert matches(path, chip.netlist)
    assert compare_layouts(chip.gds, path).equal


@pytest.mark.full(every=3)
@pytest.mark.parametrize(("number", "rewrite"), list(enumerate(REWRITINGS)), ids=IDS)
def test_a_rewritten_circuit_matches_and_is_equal(
    circuits: list[Original], number: int, rewrite: Rewrite, tmp_path: Path
) -> None:
    original = circuits[number % len(circuits)]
    path = written(original, rewrite, tmp_path)
    assert matches(path, original.netlist)
    assert compare_layouts(path, original.gds).equal


@pytest.mark.parametrize("name", FORMATS)
def test_a_layout_in_another_format_or_order_matches_and_is_equal(
    chip: Original, circuits: list[Original], name: str, tmp_path: Path
) -> None:
    ending, write = FORMATS[name]
    # files of gdsfactory begin with a cell that keeps parameters
    original = chip if "OASIS" in name else circuits[0]
    path = tmp_path / f"{original.gds.stem}.{ending}"
    write(original.gds, path)
    assert path.read_bytes() != original.gds.read_bytes()
    assert matches(path, original.netlist)
    assert compare_layouts(original.gds, path).equal


@pytest.mark.parametrize(("number", "name"), list(enumerate(MOVES)), ids=list(MOVES))
def test_a_moved_layout_matches_and_is_equal_where_it_was(
    chip: Original, circuits: list[Original], number: int, name: str, tmp_path: Path
) -> None:
    # without labels, the places that a netlist states say which coupler is which
    for original in (chip, labelled(circuits[1], tmp_path))[: 2 - number % 2]:
        trans, layout = MOVES[name], read(original.gds)
        layout.transform(trans)
        path = tmp_path / f"moved_{original.gds.name}"
        layout.write(str(path))
        assert matches(path, original.netlist)
        layout.create_cell("back").insert(
            kdb.CellInstArray(layout.cell(original.gds.stem).cell_index(), trans.inverted())
        )
        layout.write(str(tmp_path / "back.gds"))
        assert compare_layouts(original.gds, tmp_path / "back.gds").equal


@pytest.mark.full(every=3)
@pytest.mark.parametrize("name", MOVES)
def test_labels_that_are_names_of_instances_move_with_the_layout(
    circuits: list[Original], name: str, tmp_path: Path
) -> None:
    netlist = tmp_path / circuits[1].netlist.name
    netlists = yaml.safe_load(circuits[1].netlist.read_text())
    netlists[circuits[1].gds.stem]["ports"] = {}
    netlist.write_text(yaml.safe_dump(netlists))
    original = labelled(Original(circuits[1].gds, netlist), tmp_path)
    layout = read(original.gds)
    layout.transform(MOVES[name])
    layout.write(str(original.gds))
    assert matches(original.gds, netlist)
    texts = layout.top_cell().shapes(layout.layer(*PROCESS.gds_layers["label"]))
    first, second, *_ = texts.each(kdb.Shapes.STexts)
    first.text_string, second.text_string = second.text_string, first.text_string
    layout.write(str(original.gds))
    assert not matches(original.gds, netlist)


def test_texts_beside_couplers_do_not_move_a_layout(circuits: list[Original], tmp_path: Path) -> None:
    layout = read(labelled(circuits[1], tmp_path).gds)
    texts = layout.top_cell().shapes(layout.layer(*PROCESS.gds_layers["label"]))
    # all as far, as if the layout were drawn there
    texts.transform(kdb.Trans(-60_000, 0))
    layout.write(str(tmp_path / "beside.gds"))
    assert matches(tmp_path / "beside.gds", circuits[1].netlist)


@pytest.mark.parametrize("rewrite", REWRITINGS[::3], ids=IDS[::3])
def test_a_change_of_1_nm_in_a_rewritten_layout_is_found(
    circuits: list[Original], rewrite: Rewrite, tmp_path: Path
) -> None:
    layout = read(circuits[1].gds)
    index = layout.layer(*PROCESS.gds_layers["core"])
    shapes = next(cell.shapes(index) for cell in layout.each_cell() if cell.name.startswith("straight"))
    (shape,) = shapes.each(kdb.Shapes.SRegions)
    shapes.insert(shape.bbox().enlarged(0, 1))
    changed = Original(tmp_path / "changed.gds", circuits[1].netlist)
    layout.write(str(changed.gds))
    (tmp_path / "new").mkdir()
    assert not compare_layouts(circuits[1].gds, written(changed, rewrite, tmp_path / "new")).equal
