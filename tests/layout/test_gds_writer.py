"""Layout to polygons: guides as boxes and bends, repeated shapes in arrays, ports as metadata, reproducible bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import kfactory as kf
import klayout.db as kdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.assemble import draft_circuit, mesh_chip
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.cells.curves import ribbon, round_corners
from optinc_pdk.circuit import read_netlist, write_netlist
from optinc_pdk.extract import extract
from optinc_pdk.layout import ChipLayout, floorplan, lay_out, to_layout, write_gds
from optinc_pdk.layout._gds_writer import RegularArray, regular_arrays
from optinc_pdk.layout.canvas import Box, Canvas, CellFrames, MetalWire
from optinc_pdk.networks import carry_chain, linked_network
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.drc.design_rule_check import check_chip
from optinc_pdk.signoff.lvs.comparison import compare

ROOT = Path(__file__).parent.parent.parent
PROCESS = load_process()
RADIUS = float(PROCESS.guide.radius_um)
Path2 = list[tuple[float, float]]
DIE: Box = (0.0, 0.0, 100.0, 100.0)


@pytest.fixture(autouse=True)
def _pdk() -> None:
    get_pdk().activate()


def layout_of(**drawn: Any) -> kdb.Layout:
    return to_layout(ChipLayout(Canvas(CellFrames(), **drawn), (DIE,), (), ""), PROCESS, "chip")


def region(layout: kdb.Layout, layer: str) -> kdb.Region:
    merged = kdb.Region(layout.top_cell().begin_shapes_rec(layout.layer(*PROCESS.gds_layers[layer]))).merged()
    merged.remove_properties()
    return merged


@st.composite
def staircases(draw: st.DrawFn) -> Path2:
    """Horizontal legs with vertical legs between them, down to the length of two bends; in any of four directions."""
    x, y = 3.217, -1.004
    path = [(x, y)]
    for i in range(draw(st.integers(1, 5))):
        x = round(x + 2 * RADIUS + draw(st.sampled_from((0.0, 0.001, 7.3))), 3)
        path.append((x, y))
        if i < 4 and draw(st.booleans()):
            y = round(y + draw(st.sampled_from((-1, 1))) * (2 * RADIUS + draw(st.sampled_from((0.0, 12.345)))), 3)
            path.append((x, y))
    quarter = draw(st.integers(0, 3))
    turned = [[(x, y), (-y, x), (-x, -y), (y, -x)][quarter] for x, y in path]
    return turned if draw(st.booleans()) else turned[::-1]


@given(path=staircases())
def test_a_guide_of_boxes_and_bends_is_the_ribbon_along_it(path: Path2) -> None:
    canvas = Canvas(CellFrames())
    canvas.guide(*path)
    drawn = region(to_layout(ChipLayout(canvas, (DIE,), (), ""), PROCESS, "chip"), "core")
    assert drawn.count() == 1
    line = round_corners(np.array(canvas.guides[0]), RADIUS, int(PROCESS.guide.arc_segments))
    expected = kdb.Region(
        kdb.Polygon([kdb.Point(x, y) for x, y in ribbon(line, float(PROCESS.guide.width_um)).tolist()])
    )
    # the points of a bend are rounded in its own coordinates, with an error of at most 1 nm
    assert (drawn - expected.sized(2)).is_empty()
    assert (expected - drawn.sized(2)).is_empty()
    assert drawn.bbox() == expected.bbox()


@pytest.mark.parametrize(
    ("path", "length", "needed"),
    [
        ([(0, 0), (30, 0), (30, 19.999), (60, 19.999)], 19999, 20000),
        ([(0, 0), (9.5, 0), (9.5, 40)], 9500, 10000),
        ([(0, 0), (30, 40)], 70000, 0),
    ],
)
def test_corners_too_close_or_askew_are_refused(path: Path2, length: int, needed: int) -> None:
    with pytest.raises(ValueError, match=rf"\b{length} nm\b.*\b10000 nm\b.*\b{needed}\b"):
        layout_of(guides=[path])


@pytest.mark.parametrize("count", [1, 3, 4, 7])
def test_equal_boxes_in_an_array_are_one_cell(count: int) -> None:
    boxes = [(20.0 * i, 5.0, 20.0 * i + 8, 11.0) for i in range(count)]
    other = (0.0, 50.0, 9.0, 60.0)
    # a repeated box is drawn once
    layout = layout_of(metal=[*boxes, other, boxes[0]])
    cells = sorted(cell.name for cell in layout.each_cell())
    assert cells == (["chip", "metal_8000x6000"] if count >= 4 else ["chip"])
    shapes = [s for s in layout.top_cell().shapes(layout.layer(*PROCESS.gds_layers["metal"])).each()]
    instances = list(layout.top_cell().each_inst())
    assert (len(shapes), len(instances)) == ((1, 1) if count >= 4 else (count + 1, 0))
    expected = kdb.Region([kdb.Box(*(round(v * 1000) for v in box)) for box in [*boxes, other]])
    assert (region(layout, "metal") ^ expected).is_empty()


def test_wires_end_half_a_width_beyond_their_last_points() -> None:
    drawn = region(layout_of(wires=[MetalWire(((0.0, 0.0), (50.0, 0.0), (50.0, 30.0)), 4.0)]), "metal")
    expected = kdb.Region([kdb.Box(-2000, -2000, 52000, 2000), kdb.Box(48000, -2000, 52000, 32000)])
    assert (drawn ^ expected).is_empty()


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_a_port_is_where_the_drawn_cell_has_it(rotation: int, mirror: bool) -> None:
    canvas = Canvas(CellFrames())
    canvas.place("m", "mzi_unit", 10.0, 20.0, rotation, mirror)
    layout = to_layout(ChipLayout(canvas, (DIE,), (), ""), PROCESS, "chip")
    drawn = region(layout, "core")
    for port in ("o1", "o2", "o3", "o4"):
        at = canvas.port(f"m,{port}")
        step = {0: (1, 0), 90: (0, 1), 180: (-1, 0), 270: (0, -1)}[at.angle]
        x, y = round(1000 * at.x), round(1000 * at.y)
        inside, outside = (kdb.Region(kdb.Box(-3, -3, 3, 3).moved(x + s * step[0], y + s * step[1])) for s in (-10, 10))
        assert not (drawn & inside).is_empty() and (drawn & outside).is_empty()
    box = layout.top_cell().dbbox_per_layer(layout.layer(*PROCESS.gds_layers["core"]))
    assert box.inside(kdb.DBox(*canvas.instance_box("m")).enlarged(1e-6))


CHIPS = {
    "soi220": (1, 4, 1),
    "soi220_flipchip": (2, 4, 2),
    "soi220_flipchip_onchip": (2, 3, 2),
    "soi220_onchip": (2, 3, 2),
}


@pytest.mark.full
def test_the_same_bytes_whatever_the_order_of_sets_and_chips(tmp_path: Path, built: Callable[..., Any]) -> None:
    """Hashes of names differ between Python processes, and with them the order of every set of names."""
    blocks = {name: (1, 1) if name == "soi220" else (2, 2) for name in CHIPS}
    here = {name: built(name, widths, blocks[name]).path.read_bytes() for name, widths in CHIPS.items()}
    script = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import conftest
from optinc_pdk.layout import lay_out_network, to_layout, write_gds
for text in sys.argv[3:]:
    name, widths, blocks = text.split("=")
    process = conftest._process(name)
    onn = conftest._network(tuple(map(int, widths.split(","))), tuple(map(int, blocks.split(","))))
    circuit, chip = lay_out_network(onn, process, "chip")
    write_gds(to_layout(chip, process, "chip"), pathlib.Path(sys.argv[2]) / f"{name}.gds")
"""
    asked = ["=".join([name, *(",".join(map(str, each)) for each in (CHIPS[name], blocks[name]))]) for name in CHIPS]
    for seed, order in (("1", asked), ("2", asked[::-1])):
        folder = tmp_path / seed
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", script, str(Path(__file__).parent), str(folder), *order],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert {name: (folder / f"{name}.gds").read_bytes() for name in CHIPS} == here


MODES = 16
METAL = PROCESS.layers[PROCESS.metal.layer].gds


@pytest.fixture(scope="module")
def chip() -> ChipLayout:
    get_pdk("soi220").activate()
    return floorplan(mesh_chip(MODES, PROCESS, "a_mesh"), PROCESS)


def test_wires_that_columns_repeat_are_in_arrays(chip: ChipLayout) -> None:
    layout = to_layout(chip, PROCESS, "a_mesh")
    arrays = [i for i in layout.top_cell().each_inst() if i.cell.name.startswith("metal_wires")]
    inside = sum(i.na * i.cell.shapes(layout.layer(*METAL)).size() for i in arrays)
    # phi and theta of every MZI; the columns at the ends may differ because they have one neighbour only
    assert inside >= 2 * (MODES - 4) * (MODES - 1) / 2
    assert all(i.na >= 4 for i in arrays)


def test_arrays_of_wires_are_the_wires_that_were_drawn(chip: ChipLayout) -> None:
    layout = to_layout(chip, PROCESS, "a_mesh")
    top, index = layout.top_cell(), layout.layer(*METAL)
    for instance in list(top.each_inst()):
        if not instance.cell.name.startswith("metal_wires"):
            instance.delete()
    # paths only: neither pads nor metal of cells
    wires = kdb.RecursiveShapeIterator(layout, top, index)
    wires.shape_flags = kdb.Shapes.SPaths
    written = kdb.Region(wires).merged()
    drawn = kdb.Region()
    for wire in chip.canvas.wires:
        points = [kdb.DPoint(x, y) for x, y in wire.points]
        drawn.insert(kdb.DPath(points, wire.width, wire.width / 2, wire.width / 2).to_itype(layout.dbu).polygon())
    assert (written ^ drawn.merged()).is_empty()
    assert written.count() == 2 * MODES * (MODES - 1) / 2


GridPoint = tuple[int, int]


def arrays_of(points: list[GridPoint]) -> list[RegularArray]:
    return regular_arrays(np.array(points, dtype=np.int64).reshape(-1, 2))


def covered(arrays: list[RegularArray]) -> Counter[GridPoint]:
    return Counter(
        (a.x + i * a.dx, a.y + j * a.dy) for a in arrays for i, j in product(range(a.columns), range(a.rows))
    )


# few values, so that equal positions and equal pitches are common
@given(points=st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), max_size=40))
def test_arrays_contain_every_position_as_often_as_it_occurs(points: list[GridPoint]) -> None:
    arrays = arrays_of(points)
    assert covered(arrays) == Counter(points)
    assert sum(array.count for array in arrays) == len(points)
    # an array of one column or row has pitch 0 in that direction
    assert all((a.dx > 0) == (a.columns > 1) and (a.dy > 0) == (a.rows > 1) for a in arrays)


@given(points=st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), max_size=30), seed=st.randoms())
def test_order_does_not_matter(points: list[GridPoint], seed: object) -> None:
    reordered = sorted(points, key=lambda _: seed.random())  # type: ignore[attr-defined]
    assert arrays_of(reordered) == arrays_of(points)


@given(
    columns=st.integers(1, 12),
    rows=st.integers(1, 12),
    holes=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=3, unique=True),
)
def test_a_grid_with_holes_takes_few_arrays(columns: int, rows: int, holes: list[GridPoint]) -> None:
    points = [(700 * i, 52_000 * j) for i, j in product(range(columns), range(rows)) if (i, j) not in holes]
    arrays = arrays_of(points)
    assert covered(arrays) == Counter(points)
    assert len(arrays) <= 1 + 5 * len(holes)


def test_a_mesh_is_two_arrays() -> None:
    """MZIs are in every second row, shifted by one from column to column."""
    points = [(900 * column, -52 * row) for column in range(16) for row in range(column % 2, 15, 2)]
    assert arrays_of(points) == [RegularArray(0, -728, 1800, 104, 8, 8), RegularArray(900, -676, 1800, 104, 8, 7)]


def test_single_value_before_a_run_is_not_part_of_a_pair() -> None:
    """As a pair, the first two values would shorten the run after them."""
    assert [(a.y, a.dy, a.rows) for a in arrays_of([(0, y) for y in (0, 30, 40, 50, 60)])] == [(0, 0, 1), (30, 10, 4)]


def test_no_positions_give_no_arrays() -> None:
    assert arrays_of([]) == []


NAMES = ("soi220", "soi220_flipchip")


@pytest.fixture(scope="module", params=NAMES)
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ChipLayout, Path]:
    """Process, layout, and the folder with the chip with and without metadata."""
    process, folder = load_process(request.param), tmp_path_factory.mktemp("chip")
    network = linked_network(carry_chain(Averaging(2, 2, 1)), process.link.kind == "neurons")
    circuit, chip = lay_out(draft_circuit(network, process, "tiny"), process)
    write_gds(to_layout(chip, process, "tiny"), folder / "bare" / "tiny.gds")
    write_gds(to_layout(chip, process, "tiny", port_metadata=True), folder / "ports" / "tiny.gds")
    write_netlist(circuit, folder / "tiny.pic.yml")
    return request.param, chip, folder


def test_kfactory_reads_fibres_pads_and_the_ports_of_devices(tiny: tuple[str, ChipLayout, Path]) -> None:
    name, chip, folder = tiny
    read = kf.KCLayout(f"read_{name}")
    read.read(folder / "ports" / "tiny.gds")
    top = {port.name: port for port in read["tiny"].ports}
    assert len(top) == len(chip.ports) > 0
    for port in chip.ports:
        found = top[port.label]
        at = found.dcplx_trans.disp
        assert (at.x, at.y) == pytest.approx((port.x, port.y), abs=1e-3)
        assert found.dcplx_trans.angle % 360 == port.angle % 360
        assert (found.port_type == "electrical") == (port.component in ("pad", "bump"))
    # each label of the layout at a fibre or pad is the name of a port
    layout = kdb.Layout()
    layout.read(str(folder / "bare" / "tiny.gds"))
    labels = layout.layer(*load_process(name).gds_layers["label"])
    assert set(top) <= {shape.text_string for shape in layout.top_cell().shapes(labels).each()}
    # the cells of several processes in one Python process have a suffix
    (cell,) = [cell for cell in read.kcells.values() if cell.name.startswith("mmi1x2")]
    splitter = {port.name: port for port in cell.ports}
    assert set(splitter) == {"o1", "o2", "o3"}
    assert {port.port_type for port in splitter.values()} == {"optical"}
    assert splitter["o1"].width == pytest.approx(1e3 * float(load_process(name).guide.width_um))


@pytest.mark.full(every=2)
def test_checks_do_not_see_the_metadata(tiny: tuple[str, ChipLayout, Path]) -> None:
    name, _, folder = tiny
    process = load_process(name)
    netlist = read_netlist(folder / "tiny.pic.yml")
    results = []
    for kind in ("bare", "ports"):
        extraction = extract(folder / kind / "tiny.gds", process)
        lvs, drc = compare(netlist, extraction, process), check_chip(folder / kind / "tiny.gds", process)
        assert lvs.match and drc.clean
        rules = [(rule.rule.id, [str(marker) for marker in rule.markers]) for rule in drc.rules]
        write_netlist(extraction.circuit, folder / "extracted.yml")
        found = (folder / "extracted.yml").read_bytes()
        results.append((lvs.devices, lvs.nets, found, extraction.faults, extraction.silicon, rules))
    assert results[0] == results[1]


def test_the_polygons_are_the_same_and_files_are_reproducible(tiny: tuple[str, ChipLayout, Path]) -> None:
    name, chip, folder = tiny
    bare, ports = kdb.Layout(), kdb.Layout()
    bare.read(str(folder / "bare" / "tiny.gds"))
    ports.read(str(folder / "ports" / "tiny.gds"))
    assert not list(bare.top_cell().each_meta_info()) and list(ports.top_cell().each_meta_info())
    assert kdb.LayoutDiff().compare(bare, ports, kdb.LayoutDiff.DontSummarizeMissingLayers)
    process = load_process(name)
    write_gds(to_layout(chip, process, "tiny", port_metadata=True), folder / "again.gds")
    assert (folder / "again.gds").read_bytes() == (folder / "ports" / "tiny.gds").read_bytes()
