"""Polygons by cell and layer are those of the layout, with every placement of a cell."""

from pathlib import Path

import klayout.db as kdb
import pytest

from optinc_pdk.report.layout_shapes import flat_polygons, read_shapes

LAYERS = {"core": (3, 0), "metal": (41, 0), "heater": (39, 0)}


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
