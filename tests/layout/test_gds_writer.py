"""Layout to polygons: guides as boxes and bends, boxes in arrays, and identical bytes in every Python process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import klayout.db as kdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.cards import load_process
from optinc_pdk.cells.curves import ribbon, round_corners
from optinc_pdk.layout import ChipLayout, to_layout
from optinc_pdk.layout.canvas import Box, Canvas, CellFrames, MetalWire
from optinc_pdk.pdk import get_pdk

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


CHIPS = {"soi220_flipchip": (2, 4, 2), "soi220_flipchip_onchip": (2, 3, 2), "soi220_onchip": (2, 3, 2)}


@pytest.mark.full
def test_the_same_bytes_whatever_the_order_of_sets(tmp_path: Path, built: Callable[..., Any]) -> None:
    """Hashes of names differ between Python processes, and with them the order of every set of names."""
    here = {name: built(name, widths, (2, 2)).path.read_bytes() for name, widths in CHIPS.items()}
    script = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import conftest
from optinc_pdk.layout import lay_out_network, to_layout, write_gds
for text in sys.argv[3:]:
    name, widths = text.split("=")
    process = conftest._process(name)
    onn = conftest._network(tuple(map(int, widths.split(","))), (2, 2))
    circuit, chip = lay_out_network(onn, process, "chip")
    write_gds(to_layout(chip, process, "chip"), pathlib.Path(sys.argv[2]) / f"{name}.gds")
"""
    asked = [f"{name}={','.join(map(str, widths))}" for name, widths in CHIPS.items()]
    for seed in ("1", "2"):
        folder = tmp_path / seed
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", script, str(Path(__file__).parent), str(folder), *asked],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert {name: (folder / f"{name}.gds").read_bytes() for name in CHIPS} == here
