"""Networks of all shapes to GDS: deterministic, without rule violations, and equal to the circuit after extraction."""

import hashlib
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optinc_pdk.assemble import assemble
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.cells import CELLS, cells_of
from optinc_pdk.circuit import Circuit
from optinc_pdk.extract import extract
from optinc_pdk.layout import ChipLayout, floorplan, to_layout, write_gds
from optinc_pdk.networks import AveragingNetwork, Layer
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.drc.design_rule_check import run_drc
from optinc_pdk.signoff.lvs.comparison import compare

ROOT = Path(__file__).parent.parent.parent
PROCESS = load_process()
NAME = "a_chip"
Shape = tuple[int, tuple[int, ...], bool]

# servers, widths, whether square layers are unitary times diagonal; each covers a different special case
SHAPES: dict[str, Shape] = {
    "one mode throughout": (2, (1, 1, 1), False),
    "one mode between two, strips side by side": (2, (2, 1, 1, 2), False),
    "narrower and wider again, an odd number of servers": (3, (4, 2, 4), False),
    "one mesh a layer": (2, (2, 2, 2), True),
    "a die of its own size, low and full of fibres": (16, (1, 2, 1), False),
    "one server and an odd mesh": (1, (2, 3, 2), False),
    "trunks as wide as pads, and more corners of ground than a record holds": (2, (2, 24, 2), False),
}


@pytest.fixture(autouse=True)
def _pdk() -> None:
    get_pdk().activate()


@cache
def circuit_of(servers: int, widths: tuple[int, ...], diagonal: bool) -> Circuit:
    # rows that are no multiples of each other, so that every unit has a detector of its own
    units = [(np.arange(b)[:, np.newaxis], np.arange(a)) for a, b in pairwise(widths)]
    weights = [(-1.0) ** unit * (1.0 + unit * signal) for unit, signal in units]
    layers = tuple(Layer(weight, np.zeros(len(weight))) for weight in weights)
    factor = tuple(("approx", layer.inputs) for layer in layers) if diagonal else ()
    task = Averaging(2 * widths[-1], servers, widths[-1])
    return assemble(AveragingNetwork(layers, task, factor), PROCESS, NAME)  # type: ignore[arg-type]


def write(shape: Shape, path: Path) -> kdb.Layout:
    layout = to_layout(floorplan(circuit_of(*shape), PROCESS), PROCESS, NAME)
    write_gds(layout, path)
    return layout


@pytest.mark.full(every=3)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_written_chip_keeps_every_rule(shape: Shape, tmp_path: Path) -> None:
    write(shape, tmp_path / "chip.gds")
    result = run_drc(tmp_path / "chip.gds", PROCESS.rules, PROCESS.gds_layers)
    # a ground bus wider than a density window is all metal, which is only a warning
    violations = {r.id: r.boxes_um.tolist() for r in result.rules if r.violations and r.id != "metal.density"}
    assert len(result.rules) >= 20
    assert violations == {}


@pytest.mark.full(every=3)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_extracted_circuit_matches(shape: Shape, tmp_path: Path) -> None:
    write(shape, tmp_path / "chip.gds")
    circuit = circuit_of(*shape)
    result = compare(circuit, extract(tmp_path / "chip.gds", PROCESS), PROCESS)
    assert result.differences == ()
    assert result.match
    assert result.devices > len(circuit.instances)


def test_wrong_circuit_does_not_match(tmp_path: Path) -> None:
    shape = SHAPES["one server and an odd mesh"]
    write(shape, tmp_path / "chip.gds")
    circuit = circuit_of(*shape)
    labels = dict(circuit.ports)
    a, b = "l0_v_c0_r0_phi", "l0_v_c0_r0_theta"
    labels[a], labels[b] = labels[b], labels[a]
    assert not compare(replace(circuit, ports=labels), extract(tmp_path / "chip.gds", PROCESS), PROCESS).match


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_written_chip_meets_the_limits_of_gds(shape: Shape, tmp_path: Path) -> None:
    write(shape, tmp_path / "chip.gds")
    layout = kdb.Layout()
    layout.read(str(tmp_path / "chip.gds"))
    assert layout.dbu == 0.001
    assert layout.top_cell().name == NAME
    names = [cell.name for cell in layout.each_cell()]
    assert max(map(len, names)) <= 32
    assert len(set(names)) == len(names)
    assert {(i.layer, i.datatype) for i in layout.layer_infos()} <= set(PROCESS.gds_layers.values())
    for cell in layout.each_cell():
        assert not any(instance.is_complex() for instance in cell.each_inst())
        for index in layout.layer_indexes():
            shapes = [s for s in cell.shapes(index).each() if not s.is_text()]
            assert max((s.polygon.num_points() for s in shapes), default=0) <= 4000


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_cell_is_in_the_file_once(shape: Shape, tmp_path: Path) -> None:
    layout = write(shape, tmp_path / "chip.gds")
    circuit = circuit_of(*shape)
    names = {cell.name for cell in layout.each_cell() if cell.name != NAME}
    # equal boxes in an array have a cell too, named by layer and size in nm, and so have equal wires
    boxes = {name for name in names if re.fullmatch(r"(core|metal)_(\d+x\d+|wires_\d+)", name)}
    cells = [cell() for cell in cells_of(PROCESS).values()]
    # guides within composites are cells too
    inner = {instance.cell.name for cell in cells for instance in cell.insts}
    assert names - boxes <= {cell.name for cell in cells} | inner
    placed: Counter[str] = Counter()
    for instance in layout.top_cell().each_inst():
        placed[instance.cell.name] += max(instance.na, 1) * max(instance.nb, 1)
    kinds = Counter(circuit.kinds[k].name for k in circuit.kind)
    # a pad is drawn as metal, and a bend belongs to a guide
    drawn = {
        name: count for name, count in placed.items() if name not in boxes and name != CELLS["bend_circular"]().name
    }
    assert drawn == {CELLS[kind]().name: count for kind, count in kinds.items() if kind != "pad"}


@pytest.mark.full
def test_same_chip_gives_same_bytes_in_this_and_another_process(tmp_path: Path) -> None:
    shape = SHAPES["one server and an odd mesh"]
    for name in ("a.gds", "b.gds"):
        write(shape, tmp_path / name)
    first = (tmp_path / "a.gds").read_bytes()
    assert (tmp_path / "b.gds").read_bytes() == first
    code = f"""
import hashlib, importlib.util, pathlib
spec = importlib.util.spec_from_file_location("chips", {str(Path(__file__))!r})
chips = importlib.util.module_from_spec(spec)
spec.loader.exec_module(chips)
chips.get_pdk().activate()
# other chips laid out before must not change the bytes
chips.write(chips.SHAPES["one mode throughout"], pathlib.Path({str(tmp_path / "c.gds")!r}))
chips.write({shape!r}, pathlib.Path({str(tmp_path / "c.gds")!r}))
print(hashlib.sha256(pathlib.Path({str(tmp_path / "c.gds")!r}).read_bytes()).hexdigest())
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == hashlib.sha256(first).hexdigest()


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """2 to 5 servers, one to three hidden layers of 1 to 7 modes."""
    symbols = draw(st.sampled_from((1, 2, 4)))
    hidden = draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    return draw(st.integers(2, 5)), (symbols, *hidden, symbols), False


def metal(chip: ChipLayout) -> kdb.Region:
    """The metal that the floorplan draws."""
    region = kdb.Region([kdb.Box(*(round(v * 1000) for v in box)) for box in chip.canvas.metal])
    for wire in chip.canvas.wires:
        half = round(wire.width * 500)
        points = [kdb.Point(round(x * 1000), round(y * 1000)) for x, y in wire.points]
        region.insert(kdb.Path(points, 2 * half, half, half))
    return region.merged()


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(shape=shapes())
def test_floorplan_of_any_shape_is_complete_and_keeps_distances(shape: Shape) -> None:
    circuit = circuit_of(*shape)
    chip = floorplan(circuit, PROCESS)
    canvas = chip.canvas

    expected = {n for n, k in zip(circuit.instances, circuit.kind, strict=True) if circuit.kinds[k].name != "pad"}
    assert set(canvas.placed) == expected
    assert sorted(text for text, _, _ in canvas.texts) == sorted([*circuit.ports, NAME])

    keepout = float(PROCESS.floorplan.keepout_um)
    boxes = np.array([canvas.instance_box(name) for name in canvas.placed] + canvas.metal)
    assert boxes[:, :2].min() >= keepout
    assert boxes[:, 2].max() <= chip.width_um - keepout
    assert boxes[:, 3].max() <= chip.height_um - keepout

    space = round(float(PROCESS.metal.space_um) * 1000)
    assert metal(chip).space_check(space, False, kdb.Metrics.Euclidian).count() == 0

    kinds = dict(zip(circuit.instances, (circuit.kinds[k].name for k in circuit.kind), strict=True))
    gratings = np.array([canvas.instance_box(n) for n in canvas.placed if kinds[n] == "grating_coupler"])
    middle = (gratings[:, :2] + gratings[:, 2:]) / 2
    apart = np.hypot(*(middle[:, None] - middle[None]).transpose(2, 0, 1)) + 1e9 * np.eye(len(middle))
    assert apart.min() >= float(PROCESS.floorplan.fibre_pitch_um) - 1e-6


def test_smaller_die_is_used_if_it_holds_the_chip() -> None:
    small, large = PROCESS.dies
    chip = floorplan(circuit_of(2, (1, 1, 1), False), PROCESS)
    assert (chip.fit, chip.width_um, chip.height_um) == (small.fit, small.width_um, small.height_um)
    chip = floorplan(circuit_of(4, (4, 12, 12, 4), False), PROCESS)
    assert chip.fit == large.fit
    # cut to its content
    assert chip.width_um <= large.width_um
    assert chip.height_um < large.height_um


def test_chip_that_fits_no_die_is_drawn_and_called_not_buildable() -> None:
    chip = floorplan(circuit_of(4, (4, 40, 40, 4), False), PROCESS)
    assert chip.fit == "not buildable"
    assert chip.width_um > PROCESS.dies[-1].width_um
