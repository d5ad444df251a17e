"""LVS by mutation: a small chip that matches, and changes of it that must not match."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import klayout.db as kdb
import klayout.rdb as rdb
import numpy as np
import pytest

from optinc_pdk.assemble._component_library import component_types, composite_circuits, device_types
from optinc_pdk.cards import load_process
from optinc_pdk.cells import CELLS
from optinc_pdk.cells.curves import polyline_length_um, ribbon, s_bend
from optinc_pdk.cells.interferometers import mzi_positions
from optinc_pdk.circuit import Circuit, CircuitBuilder, flatten
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.pdk import get_pdk
from optinc_pdk.report.sign_off_results import difference_line
from optinc_pdk.signoff.layout_faults import LayoutFault
from optinc_pdk.signoff.lvs.comparison import MAX_DIFFERENCES, LvsResult, compare, write_lvs, write_lvs_lyrdb

PROCESS = load_process()
LAYERS = PROCESS.gds_layers
FRAME = mzi_positions(PROCESS)
LENGTH, LOW, LEAD = FRAME.end, -float(PROCESS.floorplan.mode_pitch_um), 20.0
WIDTH = float(PROCESS.guide.width_um)
END = 2 * LENGTH
# centres of the four heaters' signal and ground contacts
SHIFTER = FRAME.shifter
PADS = {
    "m0_phi": (6.0, SHIFTER - 6),
    "m0_theta": (FRAME.theta + SHIFTER - 6, FRAME.theta + 6),
    "m1_phi": (LENGTH + 6, LENGTH + SHIFTER - 6),
    "m1_theta": (LENGTH + FRAME.theta + SHIFTER - 6, LENGTH + FRAME.theta + 6),
}
PAD_Y, TRUNK_Y = 140.0, -200.0
UPRIGHT = kdb.Trans(0, False, 0, 0)
FIBRES = {
    "in0": (-LEAD - 15, 0.0),
    "in1": (-LEAD - 15, LOW),
    "out0": (END + LEAD + 15, 0.0),
    "out1": (END + LEAD + 15, LOW),
}
GROUNDS = {"GND0": (-60.0, TRUNK_Y), "GND1": (END + 60, TRUNK_Y)}


class Layout:
    """A flat chip whose layers can be edited; coordinates in µm."""

    def __init__(self) -> None:
        self.regions = {name: kdb.Region() for name in LAYERS}
        self.texts: dict[str, tuple[float, float]] = {}

    def copy(self) -> "Layout":
        other = Layout()
        other.regions = {name: region.dup() for name, region in self.regions.items()}
        other.texts = dict(self.texts)
        return other

    def add(self, layer: str, left: float, bottom: float, right: float, top: float) -> None:
        self.regions[layer] = (self.regions[layer] + kdb.Region(box(left, bottom, right, top))).merged()

    def cut(self, layer: str, left: float, bottom: float, right: float, top: float) -> None:
        self.regions[layer] -= kdb.Region(box(left, bottom, right, top))

    def guide(self, left: float, right: float, y: float, width: float = WIDTH) -> None:
        self.add("core", left, y - width / 2, right, y + width / 2)

    def write(self, path: Path, trans: kdb.Trans = UPRIGHT) -> Path:
        layout = kdb.Layout()
        top = layout.create_cell("CHIP")
        for name, region in self.regions.items():
            top.shapes(layout.layer(*LAYERS[name])).insert(region.transformed(trans))
        for text, (x, y) in self.texts.items():
            # two texts of one name differ by a suffix that is not written
            at = trans * kdb.Text(text.rstrip("'"), round(x * 1000), round(y * 1000))
            top.shapes(layout.layer(*LAYERS["label"])).insert(at)
        layout.write(str(path))
        return path


def box(left: float, bottom: float, right: float, top: float) -> kdb.Box:
    return kdb.Box(*(round(value * 1000) for value in (left, bottom, right, top)))


@cache
def original() -> Layout:
    """Fibres into two MZIs in a row, wires up to pads, grounds down to a trunk."""
    get_pdk().activate()
    chip = Layout()
    place(chip, "mzi_unit", 0, 0)
    place(chip, "mzi_unit", LENGTH, 0)
    for y in (0.0, LOW):
        chip.guide(-LEAD, 0, y)
        chip.guide(END, END + LEAD, y)
        place(chip, "grating_coupler", -LEAD, y, kdb.Trans(2, False, 0, 0))
        place(chip, "grating_coupler", END + LEAD, y)
    for label, (signal, ground) in PADS.items():
        chip.add("metal", signal - 2, 0, signal + 2, PAD_Y)
        chip.add("metal", signal - 40, PAD_Y - 40, signal + 40, PAD_Y + 40)
        chip.add("metal", ground - 2, TRUNK_Y, ground + 2, 0)
        chip.texts[label] = (signal, PAD_Y)
    chip.add("metal", GROUNDS["GND0"][0], TRUNK_Y - 10, GROUNDS["GND1"][0], TRUNK_Y + 10)
    for x, y in GROUNDS.values():
        chip.add("metal", x - 40, y - 40, x + 40, y + 40)
    chip.texts |= GROUNDS | FIBRES | {"a chip of two": (0.0, 300.0)}
    return chip


def place(chip: Layout, name: str, x: float, y: float, turn: kdb.Trans = UPRIGHT) -> None:
    cell = CELLS[name]()
    move = kdb.Trans(kdb.Vector(round(x * 1000), round(y * 1000))) * turn
    for layer, gds in LAYERS.items():
        shapes = kdb.Region(cell.begin_shapes_rec(cell.kcl.layer(*gds)))
        chip.regions[layer] = (chip.regions[layer] + shapes.transformed(move)).merged()
        chip.regions[layer].remove_properties()


@cache
def reference() -> Circuit:
    cells = composite_circuits(PROCESS)
    b = CircuitBuilder("two", component_types(PROCESS, cells), cells)
    for name in ("m0", "m1"):
        b.add(name, "mzi_unit")
    b.connect("m0,o3", "m1,o2")
    b.connect("m0,o4", "m1,o1")
    for label, port in (("in0", "m0,o2"), ("in1", "m0,o1"), ("out0", "m1,o3"), ("out1", "m1,o4")):
        b.add(f"fibre_{label}", "grating_coupler")
        b.connect(f"fibre_{label},o1", port)
        b.ports[label] = f"fibre_{label},o2"
    for label in (*GROUNDS, *PADS):
        b.add(f"pad_{label}", "pad")
        b.ports[label] = f"pad_{label},e1"
    for label in PADS:
        name, heater = label.split("_")
        signal, ground = ("e1", "e2") if heater == "phi" else ("e3", "e4")
        b.connect(f"pad_{label},e1", f"{name},{signal}")
        b.connect("pad_GND0,e1", f"{name},{ground}")
    b.connect("pad_GND0,e1", "pad_GND1,e1")
    return b.build()


def lvs(chip: Layout, folder: Path) -> LvsResult:
    return compare(reference(), extract(chip.write(folder / "chip.gds"), PROCESS), PROCESS)


def described(extraction: Extraction) -> dict[str, object]:
    """Everything of an extraction that must not depend on how the layout is drawn."""
    c = extraction.circuit
    pairs = [tuple(sorted((c.port_name(a), c.port_name(b)))) for a, b in c.nets.tolist()]
    lengths = dict(zip(pairs, c.net_length_um.tolist(), strict=True))
    return {
        "instances": c.instances,
        "kinds": c.kinds,
        "positions": c.position_um.tolist(),
        "nets": lengths,
        "electrical": c.electrical.tolist(),
        "ports": dict(c.ports),
        "settings": {key: np.nan_to_num(column, nan=-1).tolist() for key, column in c.settings.items()},
        "faults": extraction.faults,
        "silicon": dict(extraction.silicon),
    }


def test_chip_matches(tmp_path: Path) -> None:
    result = lvs(original(), tmp_path)
    assert result.differences == ()
    assert result.match
    assert result.devices == 4 + 2 * 4 + 6
    # light: 4 from fibres, 2 between the MZIs, 4 within each; metal: 4 signals and ground
    assert result.nets == 4 + 2 + 2 * 4 + 5
    assert np.all(result.device_map >= 0)
    assert len(set(result.device_map.tolist())) == len(result.device_map)


def test_extracted_numbers(tmp_path: Path) -> None:
    circuit = extract(original().write(tmp_path / "chip.gds"), PROCESS).circuit
    heaters = circuit.instances_of("phase_shifter")
    assert circuit.settings["length_um"][heaters].tolist() == [100.0] * 4
    assert circuit.settings["heater_width_um"][heaters].tolist() == [0.9] * 4
    sheet = PROCESS.device("phase_shifter").parameter("sheet_ohm")
    assert circuit.settings["resistance_ohm"][heaters] == pytest.approx(sheet * 100 / 0.9)
    # 94 µm of 4 µm wire between contact and pad
    wire = float(PROCESS.metal.sheet_ohm) * (PAD_Y - 40 - 6) / 4
    assert circuit.settings["wire_ohm"][heaters] == pytest.approx(wire)
    first = circuit.position_um[heaters[0]]
    assert first.tolist() == [SHIFTER / 2, 0.0]
    # every optical port but those of the fibres is connected
    assert np.sum(circuit.partners() < 0) == 4 + 2 * 4 + 6


def test_heater_ends_are_named_by_ground(tmp_path: Path) -> None:
    circuit = extract(original().write(tmp_path / "chip.gds"), PROCESS).circuit
    labels = circuit.electrical_labels()
    for i in circuit.instances_of("phase_shifter").tolist():
        e1, e2 = circuit.electrical[circuit.offset[i] + 2 : circuit.offset[i + 1]].tolist()
        assert labels[e2] == ("GND0", "GND1")
        assert len(labels[e1]) == 1 and labels[e1][0] in PADS


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("turns", range(4))
def test_every_orientation_of_the_chip_matches(turns: int, mirrored: bool, tmp_path: Path) -> None:
    path = original().write(tmp_path / "chip.gds", kdb.Trans(turns, mirrored, 1234567, -7654321))
    extraction = extract(path, PROCESS)
    result = compare(reference(), extraction, PROCESS)
    assert result.differences == ()
    upright = extract(original().write(tmp_path / "upright.gds"), PROCESS)
    assert extraction.silicon == pytest.approx(upright.silicon)
    assert sorted(extraction.circuit.net_length_um) == pytest.approx(sorted(upright.circuit.net_length_um))


def test_cells_names_and_other_texts_do_not_matter(tmp_path: Path) -> None:
    wanted = described(extract(original().write(tmp_path / "chip.gds"), PROCESS))
    # cutting polygons rounds corners, which changes lengths by less than a nanometre
    wanted["nets"] = pytest.approx(wanted["nets"], abs=1e-3)
    wanted["silicon"] = pytest.approx(wanted["silicon"], abs=1e-2)
    layout = kdb.Layout()
    top, inner, twice = (layout.create_cell(name) for name in ("mmi2x2", "GND0", "x"))
    turn = kdb.Trans(1, True, 5000, 17000)
    inside, around = turn * kdb.Trans(2, False, -3, 7), kdb.Trans(3, True, 77, 0)
    top.insert(kdb.CellInstArray(inner.cell_index(), turn))
    inner.insert(kdb.CellInstArray(twice.cell_index(), kdb.Trans(2, False, -3, 7)))
    twice.insert(kdb.CellInstArray(layout.create_cell("empty").cell_index(), around))
    # a third of the chip in each cell, cut where guides and wires run along x
    slices = [(-200, -10), (-10, LENGTH), (LENGTH, 2 * END)]
    for (left, right), cell, home in zip(slices, (top, inner, twice), (UPRIGHT, turn, inside), strict=True):
        window = kdb.Region(box(left, -1000, right, 1000))
        for name, region in original().regions.items():
            part = (region & window).transformed(home.inverted())
            cell.shapes(layout.layer(*LAYERS[name])).insert(part)
    for text, (x, y) in original().texts.items():
        if text not in reference().ports:
            continue
        at = turn.inverted() * kdb.Text(text, round(x * 1000), round(y * 1000))
        inner.shapes(layout.layer(*LAYERS["label"])).insert(at)
    (tmp_path / "other").mkdir()
    layout.write(str(tmp_path / "other" / "chip.gds"))
    assert described(extract(tmp_path / "other" / "chip.gds", PROCESS)) == wanted


# mutants: a change, its position, and kinds of difference of which one must be reported near that position

Mutation = Callable[[Layout], None]


def cut_guide(nm: float) -> Mutation:
    return lambda chip: chip.cut("core", -10, -1, -10 + nm / 1000, 1)


def cut_at_port(chip: Layout) -> None:
    chip.cut("core", FRAME.first - 0.001, LOW / 2, FRAME.first, LOW / 2 + 3)


def narrow_guide(chip: Layout) -> None:
    chip.cut("core", -12, 0.075, -8, 1)


def notch_guide(chip: Layout) -> None:
    chip.cut("core", -10, 0.222, -9.99, 1)


def widen_guide(chip: Layout) -> None:
    chip.guide(-12, -8, 0, width=0.5)


def shift_lead(chip: Layout) -> None:
    chip.cut("core", -LEAD, -1, 0, 1)
    chip.guide(-LEAD, 0, 0.001)


def shift_half_lead(chip: Layout) -> None:
    chip.cut("core", -10, -1, 0, 1)
    chip.guide(-10, 0, 0.001)


def swap(first: str, second: str) -> Mutation:
    def change(chip: Layout) -> None:
        chip.texts[first], chip.texts[second] = chip.texts[second], chip.texts[first]

    return change


def drop_label(label: str) -> Mutation:
    return lambda chip: (chip.texts.pop(label), None)[1]


def rename_label(chip: Layout) -> None:
    chip.texts["m0_fi"] = chip.texts.pop("m0_phi")


def double_label(chip: Layout) -> None:
    chip.texts["in0'"] = FIBRES["in1"]


def two_labels(chip: Layout) -> None:
    chip.texts["in2"] = (FIBRES["in0"][0] + 1, FIBRES["in0"][1])


def label_on_wire(chip: Layout) -> None:
    chip.texts["m0_phi"] = (PADS["m0_phi"][0], 50.0)


def swap_wires(chip: Layout) -> None:
    """The signal wires of the first MZI lead to each other's pad, one of them by a detour."""
    phi, theta = PADS["m0_phi"][0], PADS["m0_theta"][0]
    for x in (phi, theta):
        chip.cut("metal", x - 2, 6, x + 2, PAD_Y - 40)
    chip.add("metal", phi - 2, 6, phi + 2, 60)
    chip.add("metal", phi - 2, 56, theta + 2, 60)
    chip.add("metal", theta - 2, 56, theta + 2, PAD_Y - 40)
    chip.add("metal", theta - 2, 6, theta + 2, 40)
    chip.add("metal", theta - 2, 36, theta + 102, 40)
    chip.add("metal", theta + 98, 36, theta + 102, 222)
    chip.add("metal", phi - 2, 218, theta + 102, 222)
    chip.add("metal", phi - 2, PAD_Y + 40, phi + 2, 222)


def move_heater(chip: Layout) -> None:
    """The inner heater of the first MZI is moved to the lower arm, with its wires."""
    left, right = FRAME.theta, FRAME.theta + SHIFTER
    for layer in ("heater", "metal"):
        window = kdb.Region(box(left, -6, right, 6))
        piece = chip.regions[layer] & window
        chip.regions[layer] = (chip.regions[layer] - window + piece.moved(0, round(LOW * 1000))).merged()
    chip.add("metal", right - 8, LOW, right - 4, 10)


def delete_heater(chip: Layout) -> None:
    chip.cut("heater", -1, -2, SHIFTER + 1, 2)


def thin_heater(chip: Layout) -> None:
    chip.cut("heater", -1, 0.4, SHIFTER + 1, 2)
    chip.cut("heater", -1, -2, SHIFTER + 1, -0.4)


def shift_heater(chip: Layout) -> None:
    window = kdb.Region(box(-1, -2, SHIFTER + 1, 2))
    piece = chip.regions["heater"] & window
    chip.regions["heater"] = chip.regions["heater"] - window + piece.moved(0, 100)


def shorten_heater(chip: Layout) -> None:
    chip.add("metal", 12, -6, 13, 6)


def cut_heater(chip: Layout) -> None:
    chip.cut("heater", 60, -2, 61, 2)


def bypass_heater(chip: Layout) -> None:
    chip.add("metal", 0, 4, SHIFTER, 6)


def short_wires(chip: Layout) -> None:
    chip.add("metal", PADS["m0_phi"][0], 50, PADS["m0_theta"][0], 54)


def short_to_ground(chip: Layout) -> None:
    chip.add("metal", PADS["m0_phi"][0] - 50, 50, PADS["m0_phi"][0], 54)
    chip.add("metal", PADS["m0_phi"][0] - 50, TRUNK_Y, PADS["m0_phi"][0] - 46, 54)


def open_wire(chip: Layout) -> None:
    chip.cut("metal", 0, 50, 12, 50.001)


def open_ground(chip: Layout) -> None:
    chip.cut("metal", -15, TRUNK_Y - 20, -14, TRUNK_Y + 20)


def stretch_coupler(chip: Layout) -> None:
    """Everything to the right of the first coupler's centre is moved by 5 nm."""
    middle, step = FRAME.first + FRAME.coupler / 2, 5
    slot = kdb.Box(round(middle * 1000), -300_000, round(middle * 1000) + step, 300_000)
    right = kdb.Region(kdb.Box(slot.left, slot.bottom, 10_000_000, slot.top))
    for layer in ("core", "etch70", "heater", "metal"):
        region = chip.regions[layer]
        bridge = region & kdb.Region(slot)
        chip.regions[layer] = (region - right + (region & right).moved(step, 0) + bridge).merged()


def widen_coupler(chip: Layout) -> None:
    middle = FRAME.first + FRAME.coupler / 2
    chip.add("core", middle - 21.25, LOW / 2, middle + 21.25, LOW / 2 + 3.01)


def hole_in_coupler(chip: Layout) -> None:
    middle = FRAME.first + FRAME.coupler / 2
    chip.cut("core", middle, LOW / 2, middle + 0.02, LOW / 2 + 0.02)


def silicon_beside_coupler(chip: Layout) -> None:
    start = FRAME.first
    chip.add("core", start + 2, LOW / 2 + 2.2, start + 12, LOW / 2 + 2.65)


def slab_on_guide(chip: Layout) -> None:
    chip.add("slab", -12, -5, -8, 5)


def arm(extra_nm: float) -> Mutation:
    """The lower inner arm of the first MZI has a detour of S-bends."""

    def line(offset: float) -> np.ndarray:
        half = SHIFTER / 2
        out = s_bend(half, offset, float(PROCESS.guide.radius_um), 64)
        back = out[::-1] * [-1, 1] + [SHIFTER, 0]
        return np.concatenate([out, back[1:]])

    def change(chip: Layout) -> None:
        low, high = 0.0, 5.0
        for _ in range(60):
            offset = (low + high) / 2
            short = polyline_length_um(line(offset)) - SHIFTER < extra_nm / 1000
            low, high = (offset, high) if short else (low, offset)
        chip.cut("core", FRAME.theta, LOW - 1, FRAME.theta + SHIFTER, LOW + 1)
        points = ribbon(line(offset) + np.array([FRAME.theta, LOW]), WIDTH)
        polygon = kdb.Polygon([kdb.Point(*point) for point in points.tolist()])
        chip.regions["core"] = (chip.regions["core"] + kdb.Region(polygon)).merged()

    return change


def second_coupler(chip: Layout) -> None:
    place(chip, "mmi2x2", 100, -120)


def stray_guide(chip: Layout) -> None:
    chip.guide(100, 105, -120)


def bridge_guides(chip: Layout) -> None:
    chip.add("core", -10.225, LOW, -9.775, 0)


def lose_tooth(chip: Layout) -> None:
    chip.cut("etch70", -LEAD - 16.1, -8, -LEAD - 15.4, 8)


def cross_guides(chip: Layout) -> None:
    """The two modes between the MZIs are swapped, through each other."""
    at = LENGTH
    for y in (0.0, LOW):
        chip.cut("core", at - 0.5, y - 1, at, y + 1)
    chip.add("core", at - 0.475, LOW, at - 0.025, 0)


COUPLER = (FRAME.first + FRAME.coupler / 2, LOW / 2)
MUTANTS: dict[str, tuple[Mutation, tuple[float, float], float, set[str]]] = {
    "guide cut by 1 nm": (cut_guide(1), (-10, 0), 0.3, {"extraction.dangling"}),
    "guide cut by 10 nm": (cut_guide(10), (-10, 0), 0.3, {"extraction.dangling"}),
    "guide cut by 50 nm": (cut_guide(50), (-10, 0), 0.3, {"extraction.dangling"}),
    "guide cut at a port": (cut_at_port, (FRAME.first, LOW / 2 + 1), 0.3, {"extraction.dangling"}),
    "guide narrowed": (narrow_guide, (-10, 0), 2.3, {"extraction.width"}),
    "guide notched by 3 nm": (notch_guide, (-10, 0), 0.3, {"extraction.width"}),
    "guide widened": (widen_guide, (-10, 0), 2.3, {"extraction.width"}),
    "guide shifted by 1 nm": (shift_lead, (-10, 0), 10.3, {"extraction.dangling"}),
    "half a guide shifted by 1 nm": (shift_half_lead, (-10, 0), 0.3, {"extraction.width"}),
    "fibres swapped": (swap("in0", "in1"), (0, LOW / 2), 150, {"net", "heater", "device"}),
    "pads swapped": (swap("m0_phi", "m0_theta"), (SHIFTER / 2, 0), 1, {"heater"}),
    "pads of one column swapped": (swap("m0_phi", "m1_phi"), (SHIFTER / 2, 0), 1, {"heater"}),
    "fibre and pad swapped": (swap("in0", "m0_phi"), FIBRES["in0"], 20, {"label"}),
    "fibre label missing": (drop_label("in0"), (-35, 0), 45, {"label"}),
    "pad label missing": (drop_label("m0_phi"), (SHIFTER / 2, 0), 1, {"heater"}),
    "ground label missing": (drop_label("GND1"), (0, 0), math.inf, {"label"}),
    "pad label misspelled": (rename_label, (SHIFTER / 2, 0), 1, {"heater"}),
    "fibre label twice": (double_label, FIBRES["in1"], 1, {"extraction.label"}),
    "two labels on a fibre": (two_labels, FIBRES["in0"], 2, {"extraction.label"}),
    "label on a wire": (label_on_wire, (6, 50), 1, {"extraction.label"}),
    "wires swapped": (swap_wires, (SHIFTER / 2, 0), 1, {"heater"}),
    "heater on the other arm": (move_heater, (FRAME.theta + SHIFTER / 2, LOW), 150, {"net", "device"}),
    "heater deleted": (delete_heater, (SHIFTER / 2, 0), 100, {"device", "net"}),
    "heater thinned": (thin_heater, (SHIFTER / 2, 0), 1, {"parameter"}),
    "heater shifted": (shift_heater, (SHIFTER / 2, 0), 1, {"extraction.heater"}),
    "heater shortened": (shorten_heater, (SHIFTER / 2, 0), 1, {"parameter"}),
    "heater cut": (cut_heater, (SHIFTER / 2, 0), 70, {"extraction.heater"}),
    "heater bypassed": (bypass_heater, (SHIFTER / 2, 0), 1, {"extraction.short"}),
    "wires shorted": (short_wires, (PADS["m0_theta"][0], PAD_Y), 1, {"short", "extraction.short"}),
    "wire shorted to ground": (short_to_ground, (6, PAD_Y), 1, {"short", "extraction.short"}),
    "wire open": (open_wire, (SHIFTER / 2, 0), 1, {"heater"}),
    "ground open": (open_ground, GROUNDS["GND1"], 1, {"open"}),
    "coupler stretched by 5 nm": (stretch_coupler, COUPLER, 1, {"extraction.body"}),
    "coupler widened by 10 nm": (widen_coupler, COUPLER, 1, {"extraction.body"}),
    "coupler with a hole": (hole_in_coupler, COUPLER, 1, {"extraction.body"}),
    "silicon beside a coupler": (silicon_beside_coupler, COUPLER, 50, {"extraction.stray"}),
    "slab on a guide": (slab_on_guide, (-10, 0), 1, {"extraction.slab"}),
    "arm 60 nm longer": (arm(60), (FRAME.theta + SHIFTER / 2, LOW / 2), 1, {"arms"}),
    "device twice": (second_coupler, (141.25, -120), 1, {"device"}),
    "stray silicon": (stray_guide, (102.5, -120), 1, {"extraction.stray"}),
    "guides bridged": (bridge_guides, (-10, LOW / 2), 27, {"extraction.branch"}),
    "grating lost a tooth": (lose_tooth, (-LEAD - 15.7, 0), 1, {"extraction.etch"}),
    "guides crossed": (cross_guides, (LENGTH, LOW / 2), 200, {"net", "extraction.dangling"}),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_reported_at_its_position(name: str, tmp_path: Path) -> None:
    mutation, (x, y), reach, kinds = MUTANTS[name]
    chip = original().copy()
    mutation(chip)
    result = lvs(chip, tmp_path)
    assert not result.match
    assert result.total_differences >= len(result.differences) > 0
    reported = [d for d in result.differences if d.kind in kinds]
    assert reported, f"no difference of {kinds} in {[(d.kind, d.message) for d in result.differences]}"
    distances = [math.dist(d.position_um, (x, y)) for d in reported if d.position_um is not None]
    assert reach == math.inf or min(distances, default=math.inf) <= reach, reported


def test_arm_within_the_limit_matches(tmp_path: Path) -> None:
    chip = original().copy()
    arm(18)(chip)
    assert lvs(chip, tmp_path).differences == ()


def test_swapped_wires_name_both_heaters(tmp_path: Path) -> None:
    chip = original().copy()
    swap_wires(chip)
    reported = [d for d in lvs(chip, tmp_path).differences if d.kind == "heater"]
    assert [d.reference for d in reported] == ["m0.phi", "m0.theta"]
    wiring = "heater is wired to GND and m0_theta instead of GND and m0_phi"
    assert reported[0].message == f"{wiring}, the pad of m0.theta"


def test_stretched_coupler_names_the_golden_device(tmp_path: Path) -> None:
    chip = original().copy()
    stretch_coupler(chip)
    body = next(d for d in lvs(chip, tmp_path).differences if d.kind == "extraction.body")
    assert "most like mmi2x2" in body.message
    assert "0.02025 µm²" in body.message


def test_nothing_matches_an_empty_layout(tmp_path: Path) -> None:
    result = lvs(Layout(), tmp_path)
    assert not result.match
    assert (result.devices, result.nets) == (0, 0)


def test_many_differences_are_counted_and_the_first_are_reported(tmp_path: Path) -> None:
    chip = original().copy()
    for i in range(MAX_DIFFERENCES + 50):
        chip.guide(i * 10, i * 10 + 5, -300)
    result = lvs(chip, tmp_path)
    assert result.total_differences == MAX_DIFFERENCES + 50
    assert len(result.differences) == MAX_DIFFERENCES


def test_splitter_whose_branches_only_differ_by_what_follows(tmp_path: Path) -> None:
    """No fibre distinguishes the branches; one has a terminator, the other a heater and a terminator."""
    get_pdk().activate()
    chip = Layout()
    place(chip, "mmi1x2", 0, 0, kdb.Trans(0, True, 0, 0))
    place(chip, "grating_coupler", 0, 0, kdb.Trans(2, False, 0, 0))
    place(chip, "terminator", 71, 1.57)
    place(chip, "phase_shifter", 71, -1.57)
    place(chip, "terminator", 71 + SHIFTER, -1.57)
    chip.texts["in"] = (-15.0, 0.0)
    b = CircuitBuilder("leaf", device_types(PROCESS))
    for name, kind in (
        ("split", "mmi1x2"),
        ("fibre", "grating_coupler"),
        ("t0", "terminator"),
        ("t1", "terminator"),
        ("heat", "phase_shifter"),
    ):
        b.add(name, kind)
    b.connect("fibre,o1", "split,o1")
    b.connect("split,o2", "heat,o2")
    b.connect("heat,o1", "t0,o1")
    b.connect("split,o3", "t1,o1")
    b.ports["in"] = "fibre,o2"
    result = compare(b.build(), extract(chip.write(tmp_path / "leaf.gds"), PROCESS), PROCESS)
    assert result.differences == ()


def test_files(tmp_path: Path) -> None:
    chip = original().copy()
    cut_guide(10)(chip)
    drop_label("GND1")(chip)
    result = lvs(chip, tmp_path)
    write_lvs(result, tmp_path / "chip.lvs.json")
    data = json.loads((tmp_path / "chip.lvs.json").read_text(encoding="utf-8"))
    assert data["match"] is False
    assert data["total_differences"] == result.total_differences == len(data["differences"])
    assert data["differences"][0]["kind"] == "extraction.dangling"
    assert data["differences"][0]["position_um"] == pytest.approx([-10, 0], abs=0.3)
    faults = [LayoutFault("open_port", "leads nowhere", (1.0, 2.0)), LayoutFault("label", "is missing")]
    write_lvs_lyrdb(result, tmp_path / "chip.gds", "TOP", tmp_path / "chip.lvs.lyrdb", faults)
    report = rdb.ReportDatabase("")
    report.load(str(tmp_path / "chip.lvs.lyrdb"))
    assert report.num_items() == len(result.differences) + 2
    assert (report.top_cell_name, [cell.name() for cell in report.each_cell()]) == ("TOP", ["TOP"])
    kinds = {d.kind for d in result.differences} | {"open_port", "label"}
    assert {category.name() for category in report.each_category()} == kinds


def test_a_coupler_that_is_nearly_golden_is_reported_with_the_names_of_both_sides(tmp_path: Path) -> None:
    chip = original().copy()
    mapped = lvs(chip, tmp_path)
    coupler = int(FLAT.instances_of("mmi2x2")[0])
    x, y = extract(tmp_path / "chip.gds", PROCESS).circuit.position_um[int(mapped.device_map[coupler])].tolist()
    # its body loses 5 nm along one side
    top = kdb.Region(box(x - 10, y, x + 10, y + 10)) & chip.regions["core"]
    edge = top.bbox().top / 1000
    chip.cut("core", x - 21.25, edge - 0.005, x + 21.25, edge)
    (nearly,) = [d for d in lvs(chip, tmp_path).differences if d.kind == "extraction.nearly"]
    assert nearly.reference == FLAT.instances[coupler] and nearly.extracted == "mmi2x2"
    assert nearly.message.startswith("mmi2x2 differs from its recognition polygon: ")
    assert nearly.position_um == pytest.approx((x, y), abs=1e-3)
    assert difference_line(nearly).count(f"({x:.3f}, {y:.3f})") == 1


FLAT = flatten(reference())


def test_resistances_are_compared_where_the_reference_states_them(tmp_path: Path) -> None:
    extraction = extract(original().write(tmp_path / "chip.gds"), PROCESS)
    shifters = FLAT.instances_of("phase_shifter")
    found = extraction.circuit.settings["wire_ohm"][extraction.circuit.instances_of("phase_shifter")[0]]
    for factor, match in ((1.0, True), (1.1, False)):
        stated = np.full(len(FLAT.instances), np.nan)
        stated[shifters] = found
        stated[shifters[0]] *= factor
        result = compare(replace(FLAT, settings=dict(FLAT.settings) | {"wire_ohm": stated}), extraction, PROCESS)
        assert result.match is match
        if not match:
            (difference,) = result.differences
            assert difference.kind == "parameter" and difference.message.startswith("wire_ohm is ")
            assert difference.reference == FLAT.instances[shifters[0]] and difference.position_um is not None
