"""Tests of extraction on small drawings: devices, guides, heaters, metal, and files that are not layouts."""

import json
import math
import re
from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.cards import CardError, load_process
from optinc_pdk.cells.curves import euler_bend, polyline_length_um, ribbon, round_corners, s_bend
from optinc_pdk.extract import Extraction, GdsError, extract
from optinc_pdk.extract._guide_strips import StripRule, split_sides
from optinc_pdk.extract.device_recognition import devices_from_placements, match_devices
from optinc_pdk.extract.golden_devices import device_symmetries, read_golden
from optinc_pdk.extract.polygons import EdgeIndex, contours, region_polygons

PROCESS = load_process()
LAYERS = PROCESS.gds_layers
GOLDEN = {path.stem: json.loads(path.read_text()) for path in (PROCESS.folder / "golden").glob("*.json")}
FIBRE_PORTS = [("grating_coupler", "o2"), ("edge_coupler", "o2")]
RULE = StripRule(width=450, tolerance=2, body=600)
TURNS = [kdb.Trans(turns, mirrored, 0, 0) for mirrored in (False, True) for turns in range(4)]
SHIFTS = st.tuples(st.integers(-(10**7), 10**7), st.integers(-(10**7), 10**7))


def polygons(name: str, layer: str, move: kdb.Trans) -> list[kdb.Polygon]:
    points = GOLDEN[name]["layers"].get(layer, [])
    return [kdb.Polygon([kdb.Point(x, y) for x, y in shape]).transformed(move) for shape in points]


def port(name: str, label: str, move: kdb.Trans) -> tuple[int, int]:
    at = move * kdb.Point(*GOLDEN[name]["ports"][label]["at"])
    return at.x, at.y


class Drawing:
    """A flat layout in nm."""

    def __init__(self, dbu: float = 0.001) -> None:
        self.layout = kdb.Layout()
        self.layout.dbu = dbu
        self.top = self.layout.create_cell("TOP")

    def add(self, layer: str, *shapes: kdb.Box | kdb.Polygon | kdb.Text) -> None:
        for shape in shapes:
            self.top.shapes(self.layout.layer(*LAYERS[layer])).insert(shape)

    def place(self, name: str, move: kdb.Trans) -> None:
        for layer in GOLDEN[name]["layers"]:
            self.add(layer, *polygons(name, layer, move))

    def text(self, string: str, x: int, y: int) -> None:
        self.add("label", kdb.Text(string, x, y))

    def extract(self, folder: Path) -> Extraction:
        self.layout.write(str(folder / "drawn.gds"))
        return extract(folder / "drawn.gds", PROCESS)


def strip(points: np.ndarray) -> kdb.Polygon:
    return kdb.Polygon([kdb.Point(x, y) for x, y in ribbon(points, 0.45).tolist()])


# Arrays of edges.


def test_contours_of_polygons_with_holes() -> None:
    ring = kdb.Polygon([kdb.Point(0, 0), kdb.Point(0, 10), kdb.Point(10, 10), kdb.Point(10, 0)])
    ring.insert_hole(kdb.Box(2, 3, 5, 7))
    triangle = kdb.Polygon([kdb.Point(-5, -5), kdb.Point(-4, -2), kdb.Point(-2, -4)])
    outline = contours([ring, triangle])
    assert outline.holes.tolist() == [1, 0]
    assert outline.first.tolist() == [0, 8, 11]
    assert outline.polygon.tolist() == [0] * 8 + [1] * 3
    assert np.array_equal(outline.ends, outline.points[outline.follows])
    assert outline.double_area == ring.area2() + triangle.area2()
    assert outline.ring(1).tolist() == [[-5, -5], [-4, -2], [-2, -4]]


def test_contours_of_no_polygons() -> None:
    assert contours([]).points.shape == (0, 2)
    assert contours([]).double_area == 0


@given(st.lists(st.tuples(*[st.integers(-(2**30), 2**30)] * 4), min_size=1, max_size=20, unique=True))
def test_edges_are_found_by_both_end_points(edges: list[tuple[int, int, int, int]]) -> None:
    array = np.array(edges)
    index = EdgeIndex(array[:, :2], array[:, 2:])
    assert np.array_equal(index.find(array[:, :2], array[:, 2:]), np.arange(len(edges)))
    others = array + np.array([0, 0, 0, 1])
    expected = [edges.index(tuple(edge)) if tuple(edge) in edges else -1 for edge in others.tolist()]
    assert index.find(others[:, :2], others[:, 2:]).tolist() == expected


# Devices.


def test_variants_and_symmetries_follow_from_the_polygons() -> None:
    names = [variant.name for variant in read_golden(PROCESS)]
    assert {name: names.count(name) for name in names} == {
        "crossing": 1,
        "directional_coupler": 2,
        "edge_coupler": 4,
        "grating_coupler": 4,
        "mmi1x2": 4,
        "mmi2x2": 2,
        "modulator": 8,
        "monitor_tap": 2,
        "photodiode": 8,
        "taper": 4,
        "terminator": 4,
    }
    found = device_symmetries(PROCESS)
    assert found["mmi2x2"] == ((0, 1, 2, 3), (1, 0, 3, 2), (2, 3, 0, 1), (3, 2, 1, 0))
    assert found["mmi1x2"] == ((0, 1, 2), (0, 2, 1))
    assert found["directional_coupler"] == found["monitor_tap"] == found["mmi2x2"]
    assert len(found["crossing"]) == 8
    assert found["modulator"] == found["taper"] == ((0, 1),)
    assert found["terminator"] == ((0,),)


@given(st.sampled_from(sorted(GOLDEN)), st.sampled_from(TURNS), SHIFTS)
@settings(max_examples=60)
def test_every_device_is_recognised_once_in_every_orientation(
    name: str, turn: kdb.Trans, shift: tuple[int, int]
) -> None:
    move = kdb.Trans(kdb.Vector(*shift)) * turn
    found = match_devices(contours(polygons(name, "core", move)), read_golden(PROCESS))
    assert [placement.variant.name for placement in found] == [name]
    device = devices_from_placements(found, PROCESS)[0]
    middles = {tuple((edge.sum(axis=0) / 2).tolist()) for edge in device.edges[list(device.guided)]}
    optical, electrical = PROCESS.device(name).ports.optical, PROCESS.device(name).ports.electrical
    guided = [label for label in optical if (name, label) not in FIBRE_PORTS]
    assert middles == {port(name, label, move) for label in guided}
    assert [(pin.x, pin.y) for pin in found[0].pins] == [port(name, label, move) for label in electrical]
    etch = kdb.Region(polygons(name, "etch70", move))
    assert (kdb.Region(found[0].etch) ^ etch).is_empty()


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_device_with_a_corner_moved_by_1_nm_is_not_recognised(name: str, tmp_path: Path) -> None:
    shape, *others = polygons(name, "core", kdb.Trans(0, False, 0, 0))
    variants = read_golden(PROCESS)
    for corner in range(shape.num_points_hull()):
        points = list(shape.each_point_hull())
        points[corner] += kdb.Vector(0, 1)
        found = match_devices(contours([kdb.Polygon(points), *others]), variants)
        assert not found


def test_device_cut_in_pieces_is_recognised(tmp_path: Path) -> None:
    drawing = Drawing()
    move = kdb.Trans(1, True, 1001, -2002)
    # cutting along a line without corners creates new corners on the slanted sides, which are rounded
    for layer in ("core", "etch70"):
        shapes = kdb.Region(polygons("grating_coupler", layer, move))
        for part in (kdb.Box(-(10**6), -(10**6), 10**6, 7777), kdb.Box(-(10**6), 7777, 10**6, 10**6)):
            drawing.add(layer, *(shapes & kdb.Region(part)).each())
    assert drawing.extract(tmp_path).silicon["grating_coupler"] == 1


def test_fault_of_a_body_names_the_most_similar_device(tmp_path: Path) -> None:
    drawing = Drawing()
    shape = polygons("mmi1x2", "core", kdb.Trans(2, False, 0, 0))[0]
    drawing.add("core", shape, kdb.Box(-51_010, -3000, -51_000, 3000))
    extraction = drawing.extract(tmp_path)
    assert [fault.kind for fault in extraction.faults] == ["body", "nearly"]
    assert all("mmi1x2" in fault.message for fault in extraction.faults)
    found = re.search(r"([0-9.]+) µm²", extraction.faults[0].message)
    # at most the bar of 10 nm by 6 µm, and the silicon that the shift of the centre by 5 nm moves
    assert found and 0.0 < float(found[1]) < 1.0


def test_fault_of_a_body_unlike_every_device_names_none(tmp_path: Path) -> None:
    drawing = Drawing()
    drawing.add("core", kdb.Box(0, 0, 3_000, 3_000))
    (fault,) = (each for each in drawing.extract(tmp_path).faults if each.kind == "body")
    assert fault.position_um == (1.5, 1.5)
    assert not any(name in fault.message for name in GOLDEN)


def test_abutting_devices_are_joined_without_length(tmp_path: Path) -> None:
    drawing = Drawing()
    drawing.place("mmi1x2", kdb.Trans(0, False, 0, 0))
    drawing.place("terminator", kdb.Trans(0, False, 71_000, 1570))
    extraction = drawing.extract(tmp_path)
    circuit = extraction.circuit
    assert extraction.faults == ()
    joined = [sorted((circuit.port_name(a), circuit.port_name(b))) for a, b in circuit.nets.tolist()]
    assert joined == [["mmi1x2_0,o2", "terminator_0,o1"]]
    assert circuit.net_length_um.tolist() == [0.0]


def test_label_at_the_tip_of_an_edge_coupler_labels_its_fibre_port(tmp_path: Path) -> None:
    drawing = Drawing()
    drawing.place("edge_coupler", kdb.Trans(0, False, 0, 0))
    drawing.place("terminator", kdb.Trans(2, False, 0, 0))
    drawing.text("in", 100_000, 0)
    extraction = drawing.extract(tmp_path)
    assert extraction.faults == ()
    assert {label: extraction.circuit.port_name(p) for label, p in extraction.circuit.ports.items()} == {
        "in": "edge_coupler_0,o2"
    }


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize(("away", "fault"), [(10_000, False), (10_001, True), (-1, True), (2_000, False)])
def test_edge_couplers_end_at_the_edge_of_the_die_that_they_face(
    turns: int, away: int, fault: bool, tmp_path: Path
) -> None:
    drawing = Drawing()
    for name, move in (("edge_coupler", kdb.Trans(0, False, 0, 0)), ("terminator", kdb.Trans(2, False, 0, 0))):
        drawing.place(name, kdb.Trans(turns, False, 0, 0) * move)
    at = kdb.Trans(turns, False, 0, 0) * kdb.Point(100_000, 0)
    drawing.text("in", at.x, at.y)
    # the other edges are too far away
    die = kdb.Box(-400_000, -300_000, 100_000 + away, 300_000).transformed(kdb.Trans(turns, False, 0, 0))
    drawing.add("outline", die)
    drawing.layout.write(str(tmp_path / "drawn.gds"))
    found = extract(tmp_path / "drawn.gds", load_process("soi220_flipchip_onchip")).faults
    assert [each.kind for each in found] == ["facet"] * fault
    if fault:
        assert found[0].position_um == (at.x / 1000, at.y / 1000)
        assert ("in no outline" if away < 0 else "10.001 µm from the edge") in found[0].message
    # processes without such a rule allow no silicon there
    assert extract(tmp_path / "drawn.gds", PROCESS).faults == ()


def test_coupler_with_another_gap_is_not_recognised_and_its_mark_is_a_fault(tmp_path: Path) -> None:
    lower, upper = polygons("directional_coupler", "core", kdb.Trans(0, False, 0, 0))
    drawing = Drawing()
    drawing.add("core", lower, upper.moved(0, 1))
    drawing.add("coupled", lower.bbox() + upper.bbox())
    extraction = drawing.extract(tmp_path)
    assert extraction.circuit.instances == ()
    assert "coupled" in {fault.kind for fault in extraction.faults}


# Guides.


@given(
    st.lists(st.tuples(st.sampled_from([-1, 1]), st.integers(21_000, 90_000)), min_size=1, max_size=6),
    st.integers(1, 50_000),
)
@settings(max_examples=40)
def test_guides_with_bends_are_strips_with_the_length_of_their_centreline(
    turns: list[tuple[int, int]], first: int
) -> None:
    corners, direction = [np.array([0.0, 0.0]), np.array([first / 1000 + 10, 0.0])], 0
    for side, leg in turns:
        # three turns in the same direction in a row would make the guide cross itself
        direction = direction + side if abs(direction + side) < 2 else direction - side
        step = np.array([math.cos(direction * math.pi / 2), math.sin(direction * math.pi / 2)])
        corners.append(corners[-1] + np.rint(step) * leg / 1000)
    line = round_corners(np.array(corners), 10.0, 64)
    ring = contours([strip(line)]).ring(0)
    edges = np.roll(ring, -1, axis=0) - ring
    ends = [
        i
        for i in range(len(ring))
        if np.abs(edges[i]).sum() == 450
        and any(np.array_equal(ring[i] + edges[i] / 2, np.rint(corner * 1000)) for corner in (line[0], line[-1]))
    ]
    assert len(ends) == 2
    sides = split_sides(ring, *ends)
    length, fault = sides.length_um, sides.fault(RULE)
    assert fault is None
    assert length == pytest.approx(polyline_length_um(line), abs=4e-4 * len(turns))


@pytest.mark.parametrize(
    ("dent", "kind"), [(1, "width"), (3, "width"), (200, "width"), (-1, "width"), (-3, "width"), (-100, "width")]
)
def test_dents_and_protrusions_are_faults(dent: int, kind: str) -> None:
    defect = kdb.Region(kdb.Box(30_000, 225 - max(dent, 0), 30_010, 225 + max(-dent, 0)))
    guide = kdb.Region(kdb.Box(0, -225, 60_000, 225))
    shape = region_polygons((guide - defect if dent > 0 else guide + defect).merged())[0]
    ring = contours([shape]).ring(0)
    ends = [i for i in range(len(ring)) if np.abs(np.roll(ring, -1, axis=0) - ring)[i].tolist() == [0, 450]]
    fault = split_sides(ring, *ends).fault(RULE)
    assert fault is not None
    assert fault.kind == kind
    assert fault.position_um == pytest.approx((30, 0.225), abs=0.3)


def test_right_angled_corner_of_a_guide_is_a_fault_at_the_corner(tmp_path: Path) -> None:
    drawing = Drawing()
    drawing.place("terminator", kdb.Trans(2, False, 0, 0))
    drawing.place("terminator", kdb.Trans(1, False, 20_000, 20_000))
    drawing.add("core", kdb.Box(0, -225, 20_225, 225), kdb.Box(19_775, -225, 20_225, 20_000))
    extraction = drawing.extract(tmp_path)
    assert [fault.kind for fault in extraction.faults] == ["width"]
    assert extraction.faults[0].position_um == pytest.approx((20, 0), abs=0.4)
    # the net is extracted nevertheless
    assert len(extraction.circuit.nets) == 1


@pytest.mark.parametrize("turn", TURNS)
def test_loop_between_two_ports_has_the_length_of_its_centreline(turn: kdb.Trans, tmp_path: Path) -> None:
    drawing = Drawing()
    drawing.place("mmi1x2", turn)
    right, high, far = 91.0, 40.0, 131.0
    upper = np.array([[71.0, 1.57], [right, 1.57], [right, high], [far, high]])
    line = np.concatenate([upper, upper[::-1] * [1, -1]])
    drawing.add("core", strip(round_corners(line, 10.0, 64)).transformed(turn))
    extraction = drawing.extract(tmp_path)
    assert extraction.faults == ()
    assert extraction.circuit.net_length_um[0] == pytest.approx(
        polyline_length_um(round_corners(line, 10.0, 64)), abs=1e-3
    )


def test_s_bends_of_small_angle_are_guides(tmp_path: Path) -> None:
    drawing = Drawing()
    line = s_bend(40.0, 3.0, 10.0, 64)
    drawing.place("terminator", kdb.Trans(2, False, 0, 0))
    drawing.place("terminator", kdb.Trans(0, False, 40_000, 3_000))
    drawing.add("core", strip(line))
    extraction = drawing.extract(tmp_path)
    assert extraction.faults == ()
    assert extraction.circuit.net_length_um[0] == pytest.approx(polyline_length_um(line), abs=1e-3)


def test_euler_bends_have_the_length_and_the_smallest_radius_of_two_clothoids(tmp_path: Path) -> None:
    radius = 10.0
    line, tightest = euler_bend(radius, 64)
    end = line[-1]
    assert radius <= tightest < radius + 0.001
    assert end[0] == pytest.approx(end[1], abs=1e-9)
    assert end[0] == pytest.approx(18.7, abs=0.05)
    # length of two clothoids that turn by 90° in total and have this smallest radius
    assert polyline_length_um(line) == pytest.approx(math.pi * radius, abs=0.01)
    legs = np.diff(line, axis=0)
    turns = np.diff(np.unwrap(np.arctan2(legs[:, 1], legs[:, 0])))
    curvature = turns / np.hypot(*legs[1:].T)
    assert radius <= 1 / curvature.max() < 1.02 * radius
    drawing = Drawing()
    drawing.place("terminator", kdb.Trans(2, False, 0, 0))
    drawing.place("terminator", kdb.Trans(1, False, *np.rint(end * 1000).astype(int).tolist()))
    drawing.add("core", strip(line))
    extraction = drawing.extract(tmp_path)
    assert extraction.faults == ()
    assert extraction.circuit.net_length_um[0] == pytest.approx(polyline_length_um(line), abs=1e-3)


# Heaters and metal.


def heater(drawing: Drawing, offset: int = 0, length: int = 100_000) -> None:
    """Draw a guide between two terminators, a heater over it and two contacts."""
    end = length + 24_000
    drawing.place("terminator", kdb.Trans(2, False, 0, 0))
    drawing.place("terminator", kdb.Trans(0, False, end, 0))
    drawing.add("core", kdb.Box(0, -225, end, 225))
    drawing.add("heater", kdb.Box(1000, -450 + offset, end - 1000, 450 + offset))
    drawing.add("metal", kdb.Box(0, -6000, 12_000, 6000), kdb.Box(end - 12_000, -6000, end, 6000))


def test_phase_shifter_has_a_resistance_and_guides_at_both_ends(tmp_path: Path) -> None:
    drawing = Drawing()
    heater(drawing)
    extraction = drawing.extract(tmp_path)
    assert extraction.faults == ()
    circuit = extraction.circuit
    assert circuit.net_length_um.tolist() == [12.0, 12.0]
    settings = {key: column[circuit.instances_of("phase_shifter")].tolist() for key, column in circuit.settings.items()}
    assert settings["length_um"] == [100.0]
    assert settings["resistance_ohm"] == pytest.approx([1111.1], abs=0.1)
    assert np.isnan(settings["wire_ohm"]).all()


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda d: d.add("core", kdb.Box(50_000, 300, 60_000, 400)), "over 2 guides"),
        (lambda d: d.add("core", kdb.Box(50_000, 225, 60_000, 300)), " 450 nm wide"),
        (lambda d: d.add("metal", kdb.Box(50_000, -3000, 60_000, 3000)), "3 contacts"),
        (lambda d: d.add("metal", kdb.Box(50_000, 0, 60_000, 3000)), "not rectangular"),
        (lambda d: d.add("heater", kdb.Box(50_000, 0, 60_000, 3000)), "not rectangular"),
    ],
)
def test_heaters_that_are_not_part_of_a_phase_shifter(damage, text: str, tmp_path: Path) -> None:
    drawing = Drawing()
    heater(drawing)
    damage(drawing)
    faults = [fault for fault in drawing.extract(tmp_path).faults if fault.kind == "heater"]
    assert len(faults) == 1
    assert text in faults[0].message
    assert faults[0].position_um == pytest.approx((62, 0), abs=2)


@pytest.mark.parametrize(("offset", "faults"), [(1, 0), (-1, 0), (2, 1), (-2, 1)])
def test_heater_more_than_1_nm_beside_its_guide_is_a_fault(offset: int, faults: int, tmp_path: Path) -> None:
    drawing = Drawing()
    heater(drawing, offset)
    assert len(drawing.extract(tmp_path).faults) == faults


def test_heater_without_a_guide_is_a_fault(tmp_path: Path) -> None:
    drawing = Drawing()
    heater(drawing, offset=5000)
    extraction = drawing.extract(tmp_path)
    (fault,) = extraction.faults
    assert fault.kind == "heater" and "over 0 guides" in fault.message
    assert "phase_shifter" not in extraction.silicon


def test_pads_label_nets_and_wires_have_resistance(tmp_path: Path) -> None:
    drawing = Drawing()
    heater(drawing)
    drawing.add("metal", kdb.Box(4000, 6000, 8000, 206_000), kdb.Box(-34_000, 206_000, 46_000, 286_000))
    drawing.add("metal", kdb.Box(112_000, -80_000, 192_000, 0))
    drawing.text("a", 0, 210_000)
    drawing.text("GND0", 150_000, -40_000)
    drawing.text("name", 500_000, 0)
    extraction = drawing.extract(tmp_path)
    circuit = extraction.circuit
    assert extraction.faults == ()
    assert set(circuit.ports) == {"a", "GND0"}
    i = int(circuit.instances_of("phase_shifter")[0])
    e1, e2 = circuit.electrical[circuit.offset[i] + 2 : circuit.offset[i] + 4].tolist()
    assert circuit.electrical_labels() == {e1: ("a",), e2: ("GND0",)}
    assert circuit.settings["wire_ohm"][i] == pytest.approx(float(PROCESS.metal.sheet_ohm) * 200 / 4)
    pad = circuit.position_um[int(np.searchsorted(circuit.offset, circuit.ports["a"], side="right")) - 1]
    assert pad.tolist() == [6.0, 246.0]


@pytest.mark.parametrize(("size", "faults"), [(80_000, 0), (79_998, 1)])
def test_label_on_metal_smaller_than_a_pad_is_a_fault(size: int, faults: int, tmp_path: Path) -> None:
    drawing = Drawing()
    drawing.add("metal", kdb.Box(0, 0, size, 200_000))
    drawing.text("a", 100, 100)
    found = drawing.extract(tmp_path).faults
    assert [fault.kind for fault in found] == ["label"] * faults


def test_two_ground_pads_may_share_metal_but_not_a_signal_pad(tmp_path: Path) -> None:
    drawing = Drawing()
    drawing.add("metal", kdb.Box(0, 0, 1_000_000, 80_000))
    drawing.text("GND0", 1000, 1000)
    drawing.text("GND1", 900_000, 1000)
    assert drawing.extract(tmp_path).faults == ()
    drawing.text("a", 500_000, 1000)
    assert [fault.kind for fault in drawing.extract(tmp_path).faults] == ["short"]


# Electrical pins of golden devices.


def box(at: tuple[int, int], half: int = 6000) -> kdb.Box:
    return kdb.Box(at[0] - half, at[1] - half, at[0] + half, at[1] + half)


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("name", ["modulator", "photodiode"])
def test_pins_are_connected_to_the_nets_of_their_pads(name: str, turn: kdb.Trans, tmp_path: Path) -> None:
    drawing = Drawing()
    drawing.place(name, turn)
    for label, pin in (("a", "e1"), ("b", "e2")):
        at = port(name, pin, turn)
        away = turn * kdb.Vector(0, 100_000 if label == "a" else -100_000)
        pad = (at[0] + away.x, at[1] + away.y)
        drawing.add("metal", box(at), box(pad, 40_000), kdb.Box(*at, *pad).enlarged(2000, 2000))
        drawing.text(label, *pad)
    extraction = drawing.extract(tmp_path)
    assert [fault for fault in extraction.faults if fault.kind != "dangling"] == []
    circuit = extraction.circuit
    i = int(circuit.instances_of(name)[0])
    labels = circuit.electrical_labels()
    nets = circuit.electrical[circuit.offset[i] : circuit.offset[i + 1]][-2:].tolist()
    assert [labels[net] for net in nets] == [("a",), ("b",)]


def test_pin_without_metal_is_a_fault_at_its_position(tmp_path: Path) -> None:
    turn = kdb.Trans(1, True, 3000, -4000)
    drawing = Drawing()
    drawing.place("photodiode", turn)
    drawing.add("metal", box(port("photodiode", "e1", turn)))
    (fault,) = drawing.extract(tmp_path).faults
    assert fault.kind == "pin" and "pin e2 of a photodiode" in fault.message
    assert fault.position_um == pytest.approx(np.array(port("photodiode", "e2", turn)) / 1000)


def test_pins_joined_in_metal_are_a_short(tmp_path: Path) -> None:
    drawing = Drawing()
    drawing.place("photodiode", kdb.Trans(0, False, 0, 0))
    drawing.add("metal", kdb.Box(20_000, -17_000, 30_000, 17_000))
    (fault,) = drawing.extract(tmp_path).faults
    assert fault.kind == "short" and "pins e1 and e2 of a photodiode" in fault.message


# Files.


def test_circuit_does_not_depend_on_the_order_of_shapes(tmp_path: Path) -> None:
    shapes = [("terminator", kdb.Trans(0, False, 50_000 * i, 40_000 * (i % 3))) for i in range(6)]
    positions = []
    for order in (shapes, shapes[::-1]):
        drawing = Drawing()
        for name, move in order:
            drawing.place(name, move)
        positions.append(drawing.extract(tmp_path).circuit.position_um.tolist())
    assert positions[0] == positions[1]
    assert positions[0] == sorted(positions[0])


def test_empty_layout_gives_an_empty_circuit(tmp_path: Path) -> None:
    extraction = Drawing().extract(tmp_path)
    assert extraction.circuit.instances == ()
    assert extraction.faults == ()


def test_files_that_are_not_layouts_raise(tmp_path: Path) -> None:
    def message(path: Path) -> str:
        with pytest.raises(GdsError) as caught:
            extract(path, PROCESS)
        assert str(path) in str(caught.value)
        return str(caught.value)

    assert "cannot be read" in message(tmp_path / "missing.gds")
    (tmp_path / "empty.gds").write_bytes(b"")
    assert "empty" in message(tmp_path / "empty.gds")
    (tmp_path / "text.gds").write_text("0\nSECTION\n")
    assert "neither GDS2 nor OASIS" in message(tmp_path / "text.gds")
    drawing = Drawing()
    drawing.place("grating_coupler", kdb.Trans(0, False, 0, 0))
    drawing.layout.write(str(tmp_path / "whole.gds"))
    whole = (tmp_path / "whole.gds").read_bytes()
    (tmp_path / "cut.gds").write_bytes(whole[: len(whole) // 2])
    assert "damaged" in message(tmp_path / "cut.gds")
    drawing.layout.create_cell("second").shapes(drawing.layout.layer(1, 0)).insert(kdb.Box(0, 0, 1, 1))
    drawing.layout.write(str(tmp_path / "two.gds"))
    assert "2 top cells: " in message(tmp_path / "two.gds")
    Drawing(dbu=0.005).layout.write(str(tmp_path / "dbu.gds"))
    assert "database unit is 0.005 µm" in message(tmp_path / "dbu.gds")


def test_damaged_golden_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "golden").mkdir()
    (tmp_path / "golden" / "mmi2x2.json").write_text('{"schema": 1, "name": "mmi2x2", "layers": {}}')
    broken = PROCESS.model_copy(update={"folders": (tmp_path,)})
    with pytest.raises(CardError, match=r"mmi2x2\.json: key ports is missing"):
        read_golden(broken)


def test_a_process_without_golden_files_or_devices_is_refused(tmp_path: Path) -> None:
    without_golden = PROCESS.model_copy(update={"folders": (tmp_path,)})
    without_devices = PROCESS.model_copy(update={"devices": {}})
    for process, reason in (
        (without_golden, rf"{re.escape(str(tmp_path))}: .*golden/\*\.json.*; .*optinc process golden"),
        (without_devices, r"'soi220' .*devices/\*\.yml"),
    ):
        for read in (read_golden, device_symmetries, lambda process: extract(tmp_path / "none.gds", process)):
            with pytest.raises(CardError, match=reason):
                read(process)


def test_a_golden_file_without_a_device_card_is_refused_by_name() -> None:
    devices = {name: card for name, card in PROCESS.devices.items() if name != "mmi2x2"}
    with pytest.raises(CardError, match=r"mmi2x2\.json: .*'mmi2x2'; .*devices/mmi2x2\.yml"):
        read_golden(PROCESS.model_copy(update={"devices": devices}))
