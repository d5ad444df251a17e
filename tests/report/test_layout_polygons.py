"""Polygons are those of the layout; which silicon is part of which guide is what a Boolean operation finds."""

from __future__ import annotations

import math
from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import read_netlist
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.extract.metal_nets import inner_point
from optinc_pdk.extract.polygons import PolygonIndex, region_polygons
from optinc_pdk.networks import carry_chain
from optinc_pdk.options import BuildOptions
from optinc_pdk.pipeline.building import build
from optinc_pdk.report.layout_application import read_process_shapes
from optinc_pdk.report.layout_polygons import CellShapes, LayoutGuides, LayoutShapes, layout_guides, read_shapes
from optinc_pdk.report.pinout import ExtractedNames
from optinc_pdk.signoff.lvs.comparison import compare

LAYERS = {"core": (3, 0), "metal": (41, 0), "heater": (39, 0)}


def flat_polygons(shapes: LayoutShapes, layer: str) -> list[kdb.Polygon]:
    """Return all polygons of a layer in coordinates of the layout: cell by cell, placement by placement."""
    if layer not in shapes.layers:
        return []
    number = shapes.layers.index(layer)
    return [
        polygon.transformed(trans)
        for cell in shapes.cells
        for trans in transformations(shapes, cell)
        for owner, polygon in zip(cell.layers, cell.polygons, strict=True)
        if owner == number
    ]


def transformations(shapes: LayoutShapes, cell: CellShapes) -> list[kdb.ICplxTrans]:
    """Return the transformation of each placement of a cell."""
    found = []
    for number, x, y in cell.placements.tolist():
        xx, xy, yx, yy = shapes.matrices[number]
        angle = math.degrees(math.atan2(yx, xx))
        found.append(kdb.ICplxTrans(math.hypot(xx, yx), angle, xx * yy - xy * yx < 0, x, y))
    return found


@pytest.fixture
def gds(tmp_path: Path) -> Path:
    """A cell with an L and a ring, placed turned, mirrored, as an array, and within another turned cell."""
    layout = kdb.Layout()
    core, metal = (layout.layer(*LAYERS[name]) for name in ("core", "metal"))
    leaf, middle, top = (layout.create_cell(name) for name in ("leaf", "middle", "top"))
    corners = [(0, 0), (0, 400), (100, 400), (100, 100), (300, 100), (300, 0)]
    leaf.shapes(core).insert(kdb.Polygon([kdb.Point(x, y) for x, y in corners]))
    ring = kdb.Region(kdb.Box(1000, 0, 2000, 1000)) - kdb.Region(kdb.Box(1200, 200, 1700, 800))
    leaf.shapes(metal).insert(ring)
    middle.insert(kdb.CellInstArray(leaf, kdb.Trans.M45))
    middle.insert(kdb.CellInstArray(leaf, kdb.Trans(0, 5000), kdb.Vector(4000, 0), kdb.Vector(0, 3000), 3, 2))
    for trans in (kdb.Trans.R90, kdb.Trans(kdb.Trans.M0, 30000, 7000), kdb.Trans(-20001, 3)):
        top.insert(kdb.CellInstArray(middle, trans))
    top.shapes(core).insert(kdb.Path([kdb.Point(0, -9000), kdb.Point(9000, -9000)], 450))
    top.shapes(layout.layer(100, 0)).insert(kdb.Text("no polygon", 0, 0))
    path = tmp_path / "made.gds"
    layout.write(str(path))
    return path


def test_flat_polygons_are_those_of_the_layout(gds: Path) -> None:
    shapes = read_shapes(gds, LAYERS)
    layout = kdb.Layout()
    layout.read(str(gds))
    assert shapes.layers == ("core", "metal")
    for name in shapes.layers:
        drawn = kdb.Region(layout.top_cell().begin_shapes_rec(layout.layer(*LAYERS[name])))
        assert (kdb.Region(flat_polygons(shapes, name)) ^ drawn).is_empty()
        assert len(flat_polygons(shapes, name)) == drawn.count()
    assert flat_polygons(shapes, "heater") == []
    box = layout.top_cell().bbox(layout.layer(*LAYERS["core"])) + layout.top_cell().bbox(layout.layer(41, 0))
    assert shapes.box == (box.left, box.bottom, box.right, box.top)


def test_a_cell_is_stored_once(gds: Path) -> None:
    shapes = read_shapes(gds, LAYERS)
    assert [cell.name for cell in shapes.cells] == ["top", "leaf"]
    assert [len(cell.placements) for cell in shapes.cells] == [1, 21]
    data = shapes.to_json()
    assert data["cells"][1]["polygons"][0] == [0, 0, 0, 400, 100, 0, 0, -300, 200, 0, 0, -100]
    assert all(set(matrix) <= {-1.0, 0.0, 1.0} for matrix in data["matrices"])
    assert read_shapes(gds, LAYERS).to_json() == data


def test_a_turned_and_magnified_cell(tmp_path: Path) -> None:
    layout = kdb.Layout()
    leaf, top = layout.create_cell("leaf"), layout.create_cell("top")
    leaf.shapes(layout.layer(3, 0)).insert(kdb.Box(0, 0, 100000, 50000))
    top.insert(kdb.CellInstArray(leaf.cell_index(), kdb.ICplxTrans(2.0, 30.0, True, 500, 700)))
    layout.write(str(tmp_path / "turned.gds"))
    shapes = read_shapes(tmp_path / "turned.gds", LAYERS)
    (placed,) = kdb.Region(top.begin_shapes_rec(layout.layer(3, 0))).each()
    assert flat_polygons(shapes, "core") == [placed]
    assert shapes.matrices == ((1.732050808, 1.0, 1.0, -1.732050808),)


def test_a_layout_without_shapes_is_refused(gds: Path) -> None:
    with pytest.raises(ValueError, match="no polygon on the layers other"):
        read_shapes(gds, {"other": (7, 7)})
    gds.write_bytes(b"")
    with pytest.raises(ValueError, match="the file is empty"):
        read_shapes(gds, LAYERS)


PROCESSES = ("soi220", "soi220_two_metal", "soi220_flipchip_onchip")


@pytest.fixture(scope="module", params=PROCESSES)
def chip(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Extraction, ExtractedNames, LayoutShapes, LayoutGuides]:
    folder, process = tmp_path_factory.mktemp(request.param), load_process(request.param)
    assert build(carry_chain(Averaging(2, 4, 1)), folder, BuildOptions(name="small", process=request.param)).passed
    gds = Path(folder, "small.gds")
    extraction, netlist = extract(gds, process), read_netlist(gds.with_suffix(".pic.yml"))
    names = ExtractedNames.of(extraction, netlist, compare(netlist, extraction, process))
    shapes = read_process_shapes(gds, process)
    return extraction, names, shapes, layout_guides(extraction, names, shapes, process)


@pytest.mark.full(every=3)
def test_guides_are_those_of_a_boolean_operation(
    chip: tuple[Extraction, ExtractedNames, LayoutShapes, LayoutGuides],
) -> None:
    extraction, _, shapes, guides = chip
    wiring = extraction.heater_wiring
    assert wiring is not None
    bodies = [polygon for placement in extraction.placements for polygon in placement.core]
    rest = wiring.mask.silicon() - kdb.Region(bodies + [kdb.Polygon(heater.guide) for heater in wiring.heaters])
    pieces = region_polygons(rest)
    assert len(pieces) == len(guides.ends) == extraction.silicon["guides"]
    drawn = flat_polygons(shapes, "core")
    at = PolygonIndex(pieces).at(np.array([inner_point(polygon) for polygon in drawn]))
    owners = np.concatenate([each.ravel() for each in guides.owners])
    # equal numbers of one are equal numbers of the other, and -1 is -1
    pairs = set(zip(at.tolist(), owners.tolist(), strict=True))
    assert len(pairs) == len({piece for piece, _ in pairs}) == len({guide for _, guide in pairs})
    assert (-1, -1) in pairs
    left, bottom, right, top = guides.stub_boxes.T
    stubs = PolygonIndex(pieces).at(np.column_stack([(left + right) // 2, (bottom + top) // 2]))
    assert (stubs >= 0).all()
    piece_of = {guide: piece for piece, guide in pairs}
    for guide, piece in zip(guides.stub_guide.tolist(), stubs.tolist(), strict=True):
        assert piece_of.setdefault(guide, piece) == piece
    assert set(piece_of) - {-1} == set(range(len(guides.ends)))


@pytest.mark.full(every=3)
def test_guides_end_at_ports_of_the_netlist(
    chip: tuple[Extraction, ExtractedNames, LayoutShapes, LayoutGuides],
) -> None:
    extraction, names, _, guides = chip
    ports = {
        f"{name},{port}"
        for name, kind in zip(names.names, extraction.circuit.kind.tolist(), strict=True)
        for port in extraction.circuit.kinds[kind].optical
    }
    ends = [end for pair in guides.ends for end in pair]
    assert set(ends) <= ports and len(set(ends)) == len(ends)
    assert sum(guides.length_um) == pytest.approx(extraction.silicon["guide_length_um"])


def test_an_extraction_without_layout_is_refused(
    chip: tuple[Extraction, ExtractedNames, LayoutShapes, LayoutGuides],
) -> None:
    extraction, names, shapes, _ = chip
    bare = Extraction(extraction.circuit, (), {})
    with pytest.raises(ValueError, match="no layout; extract the layout with extract"):
        layout_guides(bare, names, shapes, load_process("soi220"))
