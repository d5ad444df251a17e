"""Flip-chip dies: bumps on every contact, one ground a strip, rows of strips, and edge couplers at the edges."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.arrays import Floats
from optinc_pdk.assemble import mesh_chip, strip_names
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit, flatten
from optinc_pdk.errors import InputError
from optinc_pdk.layout import ChipLayout, floorplan, lay_out_network
from optinc_pdk.layout._flipchip import bump_wiring
from optinc_pdk.layout._strips import StripBuilder
from optinc_pdk.layout.canvas import Box, Canvas, CellFrames
from optinc_pdk.layout.chip_layout import PlacementView

Point = tuple[float, float]
NETWORK = ("soi220_flipchip", (2, 4, 2))
FIRST, SECOND = "l0_u_c0_r0_phi", "l0_u_c0_r2_phi"


def positions(chip: Any) -> dict[str, Point]:
    return {text: (x, y) for text, x, y in chip.chip.canvas.texts}


def drawn_metal(canvas: Canvas, landing: float) -> kdb.Region:
    """Plates, bars and landings, as squares, merged."""
    half = landing / 2
    boxes = [*canvas.metal, *((x - half, y - half, x + half, y + half) for x, y in canvas.bumps)]
    return kdb.Region([kdb.Box(*(round(v * 1000) for v in box)) for box in boxes]).merged()


# with one server there is no tree between a trim and the first column
@pytest.mark.parametrize(("widths", "servers"), [(NETWORK[1], 2), ((2, 3, 2), 1)])
@pytest.mark.parametrize("process", ["soi220_flipchip", "soi220_flipchip_onchip"])
def test_every_pad_is_one_bump_at_its_label_and_bumps_keep_their_pitch(
    process: str, widths: tuple[int, ...], servers: int, built: Callable[..., Any]
) -> None:
    chip = built(process, widths, servers=servers)
    bumps, at = chip.chip.canvas.bumps, positions(chip)
    kinds = [chip.circuit.kinds[k].name for k in chip.circuit.kind.tolist()]
    pads = {name.removeprefix("pad_") for name, k in zip(chip.circuit.instances, kinds, strict=True) if k == "pad"}
    assert len({at[label] for label in pads}) == len(pads)
    assert {at[label] for label in pads} <= set(bumps)
    assert len(set(bumps)) == len(bumps)
    middle = np.array(bumps)
    apart = np.hypot(*(middle[:, None] - middle[None]).transpose(2, 0, 1)) + 1e9 * np.eye(len(middle))
    assert apart.min() >= float(chip.process.pads.pitch_um) - 1e-6


def test_landing_of_a_signal_touches_only_its_contact(built: Callable[..., Any]) -> None:
    chip = built(*NETWORK)
    canvas, at, process = chip.chip.canvas, positions(chip), chip.process
    netlist = PlacementView(chip.circuit)
    metal = drawn_metal(canvas, float(process.pads.size_um))
    size, space = float(process.pads.size_um), float(process.metal.space_um)
    contact = process.device("phase_shifter").size("contact_width_um")
    count = 0
    for instance, heaters in netlist.heaters.items():
        for label, signal, _ in heaters:
            x, y = at[label]
            port = canvas.port(f"{instance},{signal}")
            inner = port.x + (contact if port.angle == 180 else -contact)
            # the landing ends where the contact does, away from the heater
            assert (abs(inner - x), y) == (pytest.approx(size / 2), port.y)
            box = kdb.Box(*(round(v * 1000) for v in (x - size / 2, y - size / 2, x + size / 2, y + size / 2)))
            around = metal & kdb.Region(box.enlarged(round(space * 1000) - 1))
            assert around.area() == box.area()
            count += 1
    assert count == 40


def test_grounds_of_a_strip_are_one_piece_of_metal(built: Callable[..., Any]) -> None:
    chip = built(*NETWORK)
    canvas, at = chip.chip.canvas, positions(chip)
    landing = float(chip.process.pads.size_um)
    pieces = [p for p in drawn_metal(canvas, landing).each() if p.bbox().width() > landing * 1000]
    labels = [
        sorted(label for label, (x, y) in at.items() if piece.inside(kdb.Point(round(x * 1000), round(y * 1000))))
        for piece in pieces
    ]
    assert sorted(labels) == [["GND_l0_0", "GND_l0_1"], ["GND_l1_0", "GND_l1_1"]]
    # a bump next to every heater's ground takes its current
    grounds = [
        PlacementView(chip.circuit).heaters[name]
        for name in canvas.placed
        if name in PlacementView(chip.circuit).heaters
    ]
    rows = {y for x, y in canvas.bumps if any(p.inside(kdb.Point(round(x * 1000), round(y * 1000))) for p in pieces)}
    heights = {
        canvas.port(f"{name},{ground}").y
        for name, heaters in PlacementView(chip.circuit).heaters.items()
        for _, _, ground in heaters
    }
    assert grounds and heights <= rows


def test_chip_matches_its_circuit_and_keeps_every_rule(built: Callable[..., Any]) -> None:
    chip = built(*NETWORK)
    assert chip.differences() == []
    assert chip.rules_broken() == {}


def off_contact(canvas: Canvas, at: dict[str, Point]) -> Canvas:
    """One bump is 40 µm further out, its label with it."""
    x, y = at[FIRST]
    texts = [(text, x - 40 if text == FIRST else left, low) for text, left, low in canvas.texts]
    return replace(canvas, bumps=[(x - 40, y) if bump == (x, y) else bump for bump in canvas.bumps], texts=texts)


def bridged(canvas: Canvas, at: dict[str, Point]) -> Canvas:
    """Metal joins two landings of one column."""
    (x, upper), (_, lower) = at[FIRST], at[SECOND]
    return replace(canvas, metal=[*canvas.metal, (x - 2, lower, x + 2, upper)])


def swapped(canvas: Canvas, at: dict[str, Point]) -> Canvas:
    """The labels of two signals are exchanged."""
    other = {FIRST: SECOND, SECOND: FIRST}
    return replace(canvas, texts=[(other.get(text, text), x, y) for text, x, y in canvas.texts])


def without_bar(canvas: Canvas, at: dict[str, Point]) -> Canvas:
    """The bar with a strip's ground bumps is missing, so that they are separate landings."""
    x, y = at["GND_l0_0"]
    bar = max((b for b in canvas.metal if b[0] < x < b[2] and b[1] < y < b[3]), key=lambda b: b[2] - b[0])
    return replace(canvas, metal=[box for box in canvas.metal if box != bar])


def without_bump(canvas: Canvas, at: dict[str, Point]) -> Canvas:
    """A contact without a bump; its label stays."""
    return replace(canvas, bumps=[bump for bump in canvas.bumps if bump != at[FIRST]])


MUTANTS = {
    "a bump off its contact": (off_contact, FIRST),
    "two landings bridged": (bridged, SECOND),
    "two labels swapped": (swapped, FIRST),
    "no bar over the grounds": (without_bar, "GND_l0_"),
    "no bump": (without_bump, FIRST),
}


@pytest.mark.parametrize(("mutate", "label"), MUTANTS.values(), ids=MUTANTS)
def test_lvs_reports_mutants(
    mutate: Callable[[Canvas, dict[str, Point]], Canvas],
    label: str,
    built: Callable[..., Any],
    written: Callable[..., Any],
) -> None:
    chip = built(*NETWORK)
    canvas = mutate(chip.chip.canvas, positions(chip))
    differences = written(chip.process, chip.circuit, replace(chip.chip, canvas=canvas)).differences()
    assert any(label in message for message in differences)


def test_strip_without_a_ground_pad_is_refused(built: Callable[..., Any], process_of: Callable[..., Any]) -> None:
    process = process_of("soi220_flipchip")
    netlist = PlacementView(built(*NETWORK).circuit)
    strip = StripBuilder(netlist, process, "l0", ["l0"], CellFrames()).build()
    with pytest.raises(InputError, match="'l0'"):
        bump_wiring(strip, netlist, process, [])


FLIPCHIP = "soi220_flipchip"


def strip_boxes(circuit: Circuit, chip: ChipLayout) -> dict[str, Box]:
    """Bounding box of the instances of each strip, and of the carrier."""
    names = strip_names(circuit.sections)
    boxes: dict[str, Box] = {}
    for instance, (section, _, _) in zip(circuit.instances, circuit.grid.tolist(), strict=True):
        if instance not in chip.canvas.placed:
            continue
        box, name = chip.canvas.instance_box(instance), names.get(circuit.sections[section], "carrier")
        old = boxes.get(name, box)
        boxes[name] = (min(old[0], box[0]), min(old[1], box[1]), max(old[2], box[2]), max(old[3], box[3]))
    return boxes


@pytest.mark.parametrize("width", [2600, 4000, 6000, 12000])
@pytest.mark.parametrize("height", [1300, 3000, 6000])
def test_strips_keep_the_fibre_pitch_and_their_order(
    width: float, height: float, process_of: Callable[..., Any], network: Callable[..., Any]
) -> None:
    process = process_of(FLIPCHIP, (width, height))
    circuit, chip = lay_out_network(network((2, 3, 4, 2), (2, 2, 2)), process, "chip")
    boxes = strip_boxes(circuit, chip)
    assert chip.fit == ("multi-die" if len(chip.dies) > 1 else process.dies[-1].fit)
    assert [name for strips in chip.strips for name in strips] == [n for n in boxes if n != "carrier"]
    gap = float(process.floorplan.fibre_pitch_um)
    for a, b in combinations(boxes.values(), 2):
        apart = max(a[0] - b[2], b[0] - a[2], a[1] - b[3], b[1] - a[3])
        assert apart >= gap - 1e-6
    # within a row from left to right, rows from top to bottom, then the next die
    order = [boxes[name] for name in ("carrier", *(name for strips in chip.strips for name in strips))]
    for a, b in pairwise(order):
        assert b[0] > a[2] or b[3] < a[1]
    assert all(right - left <= width and top - low <= height for left, low, right, top in chip.dies)


def test_a_mesh_is_folded_where_it_is_wider_than_the_largest_die(process_of: Callable[..., Any]) -> None:
    def chip(width: float, height: float = 20_000.0) -> ChipLayout:
        process = process_of(FLIPCHIP, (width, height))
        return floorplan(mesh_chip(8, process, "mesh"), process)

    # without its wiring the mesh in one row would fit into 4300 µm
    wide, narrow = chip(6000), chip(4300)
    assert [each.fit for each in (wide, narrow)] == ["fits one reticle"] * 2
    assert wide.width_um > 4300 > narrow.width_um
    assert wide.height_um < narrow.height_um
    # a mesh whose single row is too high is not folded, and is called not buildable
    low = chip(4300, 800.0)
    assert (low.fit, low.height_um) == ("not buildable", wide.height_um)


def test_mesh_takes_the_fewest_rows_that_fit(process_of: Callable[..., Any]) -> None:
    heights = []
    for width in (9000, 5000, 3400):
        process = process_of(FLIPCHIP, (width, 20_000.0))
        chip = floorplan(mesh_chip(16, process, "mesh"), process)
        assert chip.fit == "fits one reticle"
        heights.append(chip.height_um)
    assert heights == sorted(set(heights))


EDGES = "soi220_fast"
CHIPS: dict[str, dict[str, Any]] = {
    "one block": {"widths": (1, 4, 1)},
    "blocks": {"widths": (2, 4, 2), "blocks": (2, 2)},
    "several dies": {"widths": (2, 3, 4, 2), "die": (9_000.0, 1_600.0)},
    "one server": {"widths": (1, 2, 1), "servers": 1},
}


def tips(chip: ChipLayout, process: Process) -> Floats:
    """(n, 4) die, side (-1 left, +1 right), distance from that side and y of the tips of all fibres, in µm."""
    found = []
    for name, placed in chip.canvas.placed.items():
        if placed.component == process.fibres.coupler:
            at = chip.canvas.port(f"{name},o2")
            die = next(i for i, (left, _, right, _) in enumerate(chip.dies) if left <= at.x <= right)
            left, _, right, _ = chip.dies[die]
            side = {180: -1, 0: 1}[at.angle]
            found.append((die, side, at.x - left if side < 0 else right - at.x, at.y))
    return np.array(found)


@pytest.mark.full(every=3)
@pytest.mark.parametrize("chip", CHIPS.values(), ids=CHIPS)
def test_tips_are_at_the_edges_at_the_fibre_pitch_and_the_chip_passes(
    chip: dict[str, Any], built: Callable[..., Any]
) -> None:
    made = built(EDGES, **chip)
    found = tips(made.chip, made.process)
    assert len(found) == len(flatten(made.circuit).instances_of("edge_coupler")) > 0
    assert len(flatten(made.circuit).instances_of("grating_coupler")) == 0
    assert np.abs(found[:, 2] - float(made.process.fibres.facet_um)).max() < 1e-6
    arrays = defaultdict(list)
    for die, side, _, y in found.tolist():
        arrays[die, side].append(y)
    pitch = float(made.process.floorplan.fibre_pitch_um)
    assert all(np.diff(sorted(ys)).min(initial=pitch) >= pitch - 1e-6 for ys in arrays.values())
    # dies of a size that is not offered are only a warning
    assert made.rules_broken().keys() <= {"chip.size"}
    assert made.differences() == []


def test_chips_of_several_dies_have_tips_on_every_die(built: Callable[..., Any]) -> None:
    made = built(EDGES, **CHIPS["several dies"])
    assert len(made.chip.dies) > 1
    assert set(tips(made.chip, made.process)[:, 0].tolist()) == set(range(len(made.chip.dies)))


def test_only_the_couplers_differ_from_a_chip_with_gratings(
    network: Callable[..., Any], process_of: Callable[..., Any]
) -> None:
    edges = process_of(EDGES)
    fibres = edges.fibres.model_copy(update={"coupler": "grating_coupler"})
    gratings = edges.model_copy(update={"fibres": fibres})
    one, two = (lay_out_network(network((2, 3, 2)), process, "chip")[0] for process in (edges, gratings))
    assert (one.instances, one.ports, one.nets.tolist()) == (two.instances, two.ports, two.nets.tolist())
    flat = [flatten(circuit) for circuit in (one, two)]
    kinds = [
        circuit.instances_of(name) for circuit, name in zip(flat, ("edge_coupler", "grating_coupler"), strict=True)
    ]
    assert kinds[0].tolist() == kinds[1].tolist() != []


def test_a_mesh_has_edge_couplers_too(process_of: Callable[..., Any], written: Callable[..., Any]) -> None:
    process = process_of(EDGES)
    circuit = mesh_chip(5, process, "mesh")
    made = written(process, circuit, floorplan(circuit, process))
    found = tips(made.chip, process)
    assert sorted(found[:, 1].tolist()) == [-1] * 5 + [1] * 5
    assert made.rules_broken() == {}
    assert made.differences() == []
