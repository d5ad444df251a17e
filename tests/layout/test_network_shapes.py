"""Networks of all shapes to GDS: deterministic, without rule violations, and equal to the circuit after extraction."""

from __future__ import annotations

import re
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

from optinc_pdk.assemble import assemble, draft_circuit
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import DEFAULT_PROCESS, Process, load_process
from optinc_pdk.cells import CELLS, cells_of
from optinc_pdk.circuit import Circuit
from optinc_pdk.extract import extract
from optinc_pdk.layout import ChipLayout, floorplan, lay_out, to_layout, write_gds
from optinc_pdk.networks import AveragingNetwork, Layer, bundled_weights
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.drc.design_rule_check import run_drc
from optinc_pdk.signoff.function import check_function
from optinc_pdk.signoff.lvs.comparison import compare
from optinc_pdk.simulate import program

ROOT = Path(__file__).parent.parent.parent
PROCESS = load_process()
NAME, TWO, ODD = "a_chip", "soi220_two_metal", "one server and an odd mesh"
Shape = tuple[int, tuple[int, ...], bool]

# servers, widths, whether square layers are unitary times diagonal; each covers a different special case
SHAPES: dict[str, Shape] = {
    "one mode throughout": (2, (1, 1, 1), False),
    "one mode between two, strips side by side": (2, (2, 1, 1, 2), False),
    "narrower and wider again, an odd number of servers": (3, (4, 2, 4), False),
    "one mesh a layer": (2, (2, 2, 2), True),
    "a die of its own size, low and full of fibres": (16, (1, 2, 1), False),
    ODD: (1, (2, 3, 2), False),
    "trunks as wide as pads, and more corners of ground than a record holds": (2, (2, 24, 2), False),
}


@pytest.fixture(autouse=True)
def _pdk() -> None:
    get_pdk().activate()


def network_of(servers: int, widths: tuple[int, ...], diagonal: bool) -> AveragingNetwork:
    # rows that are no multiples of each other, so that every unit has a detector of its own
    units = [(np.arange(b)[:, np.newaxis], np.arange(a)) for a, b in pairwise(widths)]
    weights = [(-1.0) ** unit * (1.0 + unit * signal) for unit, signal in units]
    layers = tuple(Layer(weight, np.zeros(len(weight))) for weight in weights)
    factor = tuple(("approx", layer.inputs) for layer in layers) if diagonal else ()
    task = Averaging(2 * widths[-1], servers, widths[-1])
    return AveragingNetwork(layers, task, factor)  # type: ignore[arg-type]


@cache
def circuit_of(servers: int, widths: tuple[int, ...], diagonal: bool) -> Circuit:
    return assemble(network_of(servers, widths, diagonal), PROCESS, NAME)


def write(circuit: Circuit, path: Path, process: Process = PROCESS) -> kdb.Layout:
    get_pdk(process.name).activate()
    layout = to_layout(floorplan(circuit, process), process, NAME)
    write_gds(layout, path)
    return layout


CASES = [(DEFAULT_PROCESS, name) for name in SHAPES] + [
    (TWO, name) for name in ("narrower and wider again, an odd number of servers", ODD)
]


@pytest.mark.full(every=3)
@pytest.mark.parametrize(("name", "shape"), CASES, ids=[f"{name}: {shape}" for name, shape in CASES])
def test_written_chip_keeps_every_rule_and_matches_its_circuit(name: str, shape: str, tmp_path: Path) -> None:
    process, path = load_process(name), tmp_path / "chip.gds"
    circuit = assemble(network_of(*SHAPES[shape]), process, NAME)
    write(circuit, path, process)
    found = run_drc(path, process.rules, process.gds_layers)
    assert len(found.rules) >= 20
    # a ground bus wider than a density window is all metal, which is only a warning
    warnings = ("metal.density", "metal2.density")
    assert {r.id: r.boxes_um.tolist() for r in found.rules if r.violations and r.id not in warnings} == {}
    result = compare(circuit, extract(path, process), process)
    assert result.differences == ()
    assert result.match
    assert result.devices > len(circuit.instances)


@pytest.mark.parametrize(
    ("name", "widths"),
    [(DEFAULT_PROCESS, (4, 6, 7, 4)), ("soi220_fast", (2, 3, 6, 5, 2)), ("soi220_flipchip", (1, 3, 9, 1))],
)
def test_chains_of_single_rows_keep_every_rule_and_match_their_circuit(
    name: str, widths: tuple[int, ...], tmp_path: Path
) -> None:
    process, path, rng = load_process(name), tmp_path / "chip.gds", np.random.default_rng(1)
    # rows of one column, of even and odd numbers of columns, and of all columns of the first layer
    weights = [np.where(rng.random((b, a)) < 0.7, rng.standard_normal((b, a)), 0.0) for a, b in pairwise(widths)]
    layers = [Layer(np.vstack([np.eye(1, weight.shape[1]), weight[1:]]), np.zeros(len(weight))) for weight in weights]
    task = Averaging(2 * widths[-1], 2, widths[0])
    onn = AveragingNetwork(tuple(layers), task, ("rows",) * len(layers))
    circuit, chip = lay_out(draft_circuit(onn, process, NAME), process)
    write_gds(to_layout(chip, process, NAME), path)
    found = run_drc(path, process.rules, process.gds_layers)
    assert {r.id for r in found.rules if r.violations} <= {"metal.density"}
    result = compare(circuit, extract(path, process), process)
    assert result.match and result.differences == ()


def test_wrong_circuit_does_not_match(tmp_path: Path) -> None:
    circuit = circuit_of(*SHAPES[ODD])
    write(circuit, tmp_path / "chip.gds")
    labels = dict(circuit.ports)
    a, b = "l0_v_c0_r0_phi", "l0_v_c0_r0_theta"
    labels[a], labels[b] = labels[b], labels[a]
    assert not compare(replace(circuit, ports=labels), extract(tmp_path / "chip.gds", PROCESS), PROCESS).match


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_written_chip_meets_the_limits_of_gds(shape: Shape, tmp_path: Path) -> None:
    write(circuit_of(*shape), tmp_path / "chip.gds")
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
    circuit = circuit_of(*shape)
    layout = write(circuit, tmp_path / "chip.gds")
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


def test_the_bundled_network_computes_the_average_on_two_metals(tmp_path: Path) -> None:
    card, onn = load_process(TWO), AveragingNetwork.load(bundled_weights())
    circuit, path = assemble(onn, card, NAME), tmp_path / "chip.gds"
    write(circuit, path, card)
    extraction = extract(path, card)
    assert compare(circuit, extraction, card).differences == ()
    assert circuit.board is not None
    programming = program(extraction.circuit, circuit.board, onn, card)
    function = check_function(extraction.circuit, circuit.board, programming.bias, onn.task, card)
    assert (function.exact, function.inputs) == (65536, 65536)
    assert function.margin > 0.15
    # fast rules only; smaller chips are checked against all rules above
    rules = [rule for rule in card.rules if rule.id.split(".")[0] in ("heater", "metal1", "via", "metal2", "pad")]
    result = run_drc(path, [rule for rule in rules if rule.kind != "foreign_guide"], card.gds_layers)
    assert {rule.id for rule in result.rules if rule.violations} <= {"metal2.density"}


def test_chips_of_two_processes_do_not_affect_each_other(tmp_path: Path) -> None:
    def written(name: str) -> bytes:
        process = load_process(name)
        write(assemble(network_of(*SHAPES[ODD]), process, NAME), tmp_path / "chip.gds", process)
        return (tmp_path / "chip.gds").read_bytes()

    first, other = written(DEFAULT_PROCESS), written(TWO)
    assert (written(DEFAULT_PROCESS), written(TWO)) == (first, other)


def test_layers_are_the_cards(tmp_path: Path) -> None:
    process = load_process(TWO)
    layout = write(assemble(network_of(*SHAPES[ODD]), process, NAME), tmp_path / "chip.gds", process)
    drawn = {(info.layer, info.datatype) for info in layout.layer_infos() if _has_shapes(layout, info)}
    # a network without activations on the chip draws neither black boxes nor coupled guides
    expected = {gds for name, gds in process.gds_layers.items() if name not in ("slab", "blackbox", "coupled")}
    assert drawn == expected


def test_wires_follow_the_layer_that_the_card_names(tmp_path: Path) -> None:
    """If the card names metal1 in place of metal2, the wires are on metal1."""
    card = load_process(TWO)
    get_pdk(TWO).activate()
    chip = floorplan(assemble(network_of(*SHAPES[ODD]), card, NAME), card)
    canvas = replace(chip.canvas, placed={}, guides=[], bends=[], texts=[])
    for layer in ("metal1", "metal2"):
        drawn_on = card.model_copy(update={"metal": card.metal.model_copy(update={"layer": layer})})
        layout = to_layout(replace(chip, canvas=canvas), drawn_on, NAME)
        used = {(i.layer, i.datatype) for i in layout.layer_infos() if _has_shapes(layout, i)}
        assert used == {card.layers[layer].gds, card.layers["outline"].gds}


def _has_shapes(layout: kdb.Layout, info: kdb.LayerInfo) -> bool:
    return not layout.top_cell().begin_shapes_rec(layout.layer(info)).at_end()
