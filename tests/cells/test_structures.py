"""Structures around circuits and for calibration: what the extractor finds in them, and what they refuse."""

import math
import time
from pathlib import Path
from typing import Any

import gdsfactory as gf
import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.assemble import rectangular_slots
from optinc_pdk.cards import load_process
from optinc_pdk.cells import CELLS
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.drc import run_drc

PROCESS = load_process()


@pytest.fixture(autouse=True)
def _pdk() -> None:
    get_pdk().activate()


def extracted(cell: gf.Component, folder: Path) -> Extraction:
    """What the extractor finds in a cell whose guides end in terminators."""
    c = gf.Component()
    inside = c << cell
    for port in inside.ports:
        if port.port_type == "optical":
            (c << CELLS["terminator"]()).connect("o1", port)
    c.write_gds(folder / "cell.gds", with_metadata=False)
    return extract(folder / "cell.gds", PROCESS)


def joined(extraction: Extraction) -> dict[frozenset[str], float]:
    circuit = extraction.circuit
    pairs = [frozenset((circuit.port_name(a), circuit.port_name(b))) for a, b in circuit.nets.tolist()]
    return dict(zip(pairs, circuit.net_length_um.tolist(), strict=True))


@pytest.mark.parametrize("modes", [2, 3, 4, 7, 8])
def test_a_mesh_is_the_rectangular_one_with_every_path_equally_long(modes: int, tmp_path: Path) -> None:
    extraction = extracted(CELLS["mesh"](modes=modes), tmp_path)
    assert extraction.faults == ()
    slots = rectangular_slots(modes)
    mzis, dummies = (sum(slot.dummy is dummy for slot in slots) for dummy in (False, True))
    assert extraction.silicon["phase_shifter"] == 2 * mzis
    assert extraction.silicon["mmi2x2"] == 2 * (mzis + dummies)
    # the modes' ends, and two dark ports per dummy
    assert extraction.silicon["terminator"] == 2 * modes + 2 * dummies
    # with heaters off every device is a cross, so light goes one way from each mode, over the same length
    columns = max(slot.column for slot in slots) + 1
    _, length = straight_ways(extraction, modes)
    assert length == pytest.approx([length[0]] * modes, abs=0.01 * columns)


def straight_ways(extraction: Extraction, modes: int) -> tuple[list[int], list[float]]:
    """From each terminator on the left to the one that unheated MZIs lead to: that one, and the guides' length."""
    circuit = extraction.circuit
    partner = circuit.partners()
    lengths = {int(p): float(x) for pair, x in zip(circuit.nets, circuit.net_length_um, strict=True) for p in pair}
    offset, kinds = circuit.offset, [circuit.kinds[k].name for k in circuit.kind]
    ends = circuit.of_kind("terminator")
    left = sorted(ends[np.isclose(circuit.position_um[ends, 0], circuit.position_um[ends, 0].min())].tolist())
    assert len(left) == modes
    rows, total = [], []
    for start in left:
        port, way, couplers = int(offset[start]), 0.0, 0
        while True:
            way += lengths[port]
            port = int(partner[port])
            device = int(np.searchsorted(offset, port, side="right")) - 1
            inside = port - int(offset[device])
            if kinds[device] == "terminator":
                break
            if kinds[device] == "phase_shifter":
                way += circuit.settings["length_um"][device]
                port = int(offset[device]) + 1 - inside
                continue
            # across in the first coupler of an MZI, o1 to o3, and straight on in the second, o1 to o4
            couplers += 1
            port = int(offset[device]) + (inside ^ 2 if couplers % 2 else 3 - inside)
        rows.append(device)
        total.append(way)
    assert len(set(rows)) == modes
    return rows, total


def test_a_mesh_of_64_modes_takes_less_than_a_second() -> None:
    start = time.perf_counter()
    cell = CELLS["mesh"](modes=64)
    assert time.perf_counter() - start < 1.0
    assert len(list(cell.insts)) == 2
    assert len(list(cell.ports)) == 128


@pytest.mark.parametrize("leaves", [2, 8])
def test_the_ways_of_a_tree_are_equally_long(leaves: int, tmp_path: Path) -> None:
    cell = CELLS["splitter_tree"](leaves=leaves)
    assert [port.name for port in cell.ports] == [f"o{i + 1}" for i in range(leaves + 1)]
    extraction = extracted(cell, tmp_path)
    assert extraction.faults == ()
    assert extraction.silicon["mmi1x2"] == leaves - 1
    circuit = extraction.circuit
    partner, offset = circuit.partners(), circuit.offset
    length = np.zeros(int(offset[-1]))
    length[circuit.nets] = circuit.net_length_um[:, None]
    splitters = set(circuit.of_kind("mmi1x2").tolist())
    ways = []
    for end in circuit.of_kind("terminator").tolist():
        port, way, splits = int(offset[end]), 0.0, 0
        while True:
            way += length[port]
            port = int(partner[port])
            device = int(np.searchsorted(offset, port, side="right")) - 1
            # towards the root, whose own terminator meets o1 first
            if device not in splitters or port == offset[device]:
                break
            port, splits = int(offset[device]), splits + 1
        if splits:
            ways.append((splits, way))
    assert [splits for splits, _ in ways] == [leaves.bit_length() - 1] * leaves
    assert [way for _, way in ways] == pytest.approx([ways[0][1]] * leaves, abs=0.01)


def test_a_mixers_arms_are_equally_long(tmp_path: Path) -> None:
    extraction = extracted(CELLS["homodyne_mixer"](), tmp_path)
    assert extraction.faults == ()
    assert dict(extraction.silicon)["phase_shifter"] == 1
    nets = joined(extraction)
    shifter = float(extraction.circuit.settings["length_um"][extraction.circuit.of_kind("phase_shifter")[0]])
    trimmed = sum(length for pair, length in nets.items() if "phase_shifter_0" in "".join(pair)) + shifter
    plain = [length for pair, length in nets.items() if "phase_shifter_0" not in "".join(pair)]
    assert max(plain) == pytest.approx(trimmed, abs=0.01)
    assert sorted(plain)[0] == pytest.approx(sorted(plain)[1], abs=0.01)


def test_an_offchip_activation_sends_both_outputs_to_fibres(tmp_path: Path) -> None:
    extraction = extracted(CELLS["activation_offchip"](), tmp_path)
    assert extraction.faults == ()
    to_fibres = [x for pair, x in joined(extraction).items() if "grating_coupler" in "".join(pair)]
    assert len(to_fibres) == extraction.silicon["grating_coupler"] == 2
    assert to_fibres[0] == pytest.approx(to_fibres[1], abs=0.01)


def kind_of(port: str) -> str:
    name, _, local = port.partition(",")
    return f"{name.rpartition('_')[0]},{local}"


def test_an_onchip_activation_detects_and_modulates(tmp_path: Path) -> None:
    cell = CELLS["activation_onchip"]()
    extraction = extracted(cell, tmp_path)
    assert extraction.faults == ()
    pairs = sorted("-".join(sorted(map(kind_of, pair))) for pair in joined(extraction))
    assert sum("photodiode" in pair and "mmi2x2" in pair for pair in pairs) == 2
    assert sum("modulator" in pair and "terminator" in pair for pair in pairs) == 2
    to_diodes = [x for pair, x in joined(extraction).items() if "photodiode" in "".join(pair)]
    assert to_diodes[0] == pytest.approx(to_diodes[1], abs=0.01)
    # every pin is on metal of its own
    circuit = extraction.circuit
    pins = circuit.electrical[circuit.electrical >= 0]
    assert len(pins) == len(set(pins.tolist())) == len([p for p in cell.ports if p.port_type == "electrical"])


@pytest.mark.parametrize("count", [3, 8])
def test_first_and_last_grating_of_an_array_are_joined(count: int, tmp_path: Path) -> None:
    extraction = extracted(CELLS["fibre_array"](count=count), tmp_path)
    assert extraction.faults == ()
    nets = joined(extraction)
    # gratings are numbered from below
    loop = frozenset(("grating_coupler_0,o1", f"grating_coupler_{count - 1},o1"))
    assert len(nets) == count - 1
    assert nets.pop(loop) > (count - 1) * float(PROCESS.floorplan.fibre_pitch_um)
    assert set(nets.values()) == {0.0}
    positions = extraction.circuit.position_um[extraction.circuit.of_kind("grating_coupler")]
    assert positions[:, 1].tolist() == pytest.approx([i * 127.0 for i in range(count)], abs=1e-3)


@pytest.mark.parametrize("lengths", [(2000.0, 4000.0, 8000.0), (5000.0, 1000.0), (100.0, 100.001)])
def test_guides_of_a_cutback_have_their_lengths_and_equally_many_bends(
    lengths: tuple[float, ...], tmp_path: Path
) -> None:
    extraction = extracted(CELLS["cutback"](lengths=lengths), tmp_path)
    assert extraction.faults == ()
    assert sorted(extraction.circuit.net_length_um) == pytest.approx(sorted(lengths), abs=0.02)
    assert extraction.silicon["grating_coupler"] == 2 * len(lengths)


def test_a_heater_has_two_pads_on_each_contact(tmp_path: Path) -> None:
    cell = CELLS["heater_test"](length_um=120.0)
    extraction = extracted(cell, tmp_path)
    assert extraction.faults == ()
    assert dict(extraction.silicon)["phase_shifter"] == 1
    circuit = extraction.circuit
    assert circuit.settings["length_um"][circuit.of_kind("phase_shifter")].tolist() == [120.0]
    metal = kdb.Region(cell.begin_shapes_rec(cell.kcl.layer(*PROCESS.gds_layers["metal"]))).merged()
    nets = [[p.name for p in cell.ports if shape.inside(p.to_itype().trans.disp.to_p())] for shape in metal.each()]
    assert sorted(nets) == [["e1", "e2"], ["e3", "e4"]]


def test_a_die_frame_has_its_size_and_its_name() -> None:
    cell = CELLS["die_frame"](width_um=3000.0, height_um=2000.0, name="chip_7")
    assert cell.dbbox() == kdb.DBox(0, 0, 3000, 2000)
    texts = [s.text for s in cell.shapes(cell.kcl.layer(*PROCESS.gds_layers["label"])).each()]
    assert [(text.string, text.x, text.y) for text in texts] == [("chip_7", 50_000, 50_000)]
    assert CELLS["die_frame"]().dbbox() == kdb.DBox(0, 0, 11470, 4900)


def test_long_parameters_give_short_and_different_names() -> None:
    names = {CELLS["die_frame"](name="n" * 30 + end).name for end in ("a", "b")}
    names |= {CELLS["cutback"](lengths=(2000.0, 4000.0, 8000.0, last)).name for last in (16000.0, 16001.0)}
    assert len(names) == 4
    assert max(map(len, names)) <= 32


def test_a_bump_is_an_octagon_on_its_landing_and_obeys_the_rules(tmp_path: Path) -> None:
    process = load_process("soi220_flipchip")
    get_pdk("soi220_flipchip").activate()
    cell = gf.get_component("bump")
    cell.write_gds(tmp_path / "bump.gds", with_metadata=False)
    rules = [rule for rule in process.rules if rule.id not in ("chip.outline", "chip.size", "chip.edge")]
    result = run_drc(tmp_path / "bump.gds", rules, process.gds_layers)
    assert {found.id: found.violations for found in result.rules if found.violations} == {}
    metal, opening = (
        kdb.Region(cell.begin_shapes_rec(cell.kcl.layer(*process.gds_layers[layer]))) for layer in ("metal", "bump")
    )
    card = process.device("bump")
    assert metal.bbox().width() == metal.bbox().height() == 1000 * card.size("size_um")
    assert opening.bbox().width() == opening.bbox().height() == 1000 * card.size("opening_um")
    sides = [edge.length() for edge in opening.edges().each()]
    assert len(sides) == 8
    assert sides == pytest.approx([2 * 12_000 * math.tan(math.pi / 8)] * 8, abs=2)
    assert (opening - metal).is_empty()


def test_cells_without_their_cards_are_not_in_the_pdk() -> None:
    assert "bump" not in get_pdk().cells
    assert "bump" in get_pdk("soi220_flipchip").cells
    assert set(CELLS) == set(get_pdk("soi220_flipchip").cells)


BAD = (float("nan"), float("inf"), -1.0, 0.00005, 2e6, True, "9")


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize(
    ("cell", "parameter", "arguments"),
    [
        ("heater_test", "length_um", lambda bad: {"length_um": bad}),
        ("die_frame", "width_um", lambda bad: {"width_um": bad}),
        ("die_frame", "height_um", lambda bad: {"height_um": bad}),
        ("cutback", r"lengths\[1\]", lambda bad: {"lengths": (2000.0, bad)}),
        ("fibre_array", "count", lambda bad: {"count": bad}),
        ("mesh", "modes", lambda bad: {"modes": bad}),
        ("mesh_column", "modes", lambda bad: {"modes": bad}),
        ("mesh_column", "column", lambda bad: {"modes": 5, "column": bad}),
        ("splitter_tree", "leaves", lambda bad: {"leaves": bad}),
    ],
)
def test_bad_numbers_are_refused_before_any_geometry(cell: str, parameter: str, arguments: Any, value: Any) -> None:
    before = gf.kcl.layout.cells()
    with pytest.raises(ValueError, match=rf"{cell}: {parameter} is .*"):
        CELLS[cell](**arguments(value))
    assert gf.kcl.layout.cells() == before


@pytest.mark.parametrize(
    ("cell", "arguments", "message"),
    [
        ("mesh", {"modes": 1}, "modes is 1, allowed are 2 to"),
        ("mesh", {"modes": 10**6}, "modes is 1000000, allowed are 2 to"),
        ("mesh_column", {"modes": 4, "column": 4}, "column is 4, allowed are 0 to 3"),
        ("splitter_tree", {"leaves": 6}, "leaves is 6; balanced trees have"),
        ("splitter_tree", {"leaves": 2**20}, "leaves is 1048576, allowed are 2 to"),
        ("fibre_array", {"count": 2}, "count is 2, allowed are 3 to"),
        ("fibre_array", {"count": 10**9}, "count is 1000000000, allowed are 3 to"),
        ("heater_test", {"length_um": 50.0}, "length_um is 50.0 µm, allowed are 88.0 to"),
        ("cutback", {"lengths": (2000.0,)}, "give two or more lengths"),
        ("cutback", {"lengths": "long"}, "give two or more lengths"),
        ("cutback", {"lengths": (500.0, 20_000.0)}, "500.0 µm, at least"),
        ("die_frame", {"name": "../evil"}, "give 1 to 32 letters"),
        ("die_frame", {"name": "n" * 33}, "give 1 to 32 letters"),
        ("die_frame", {"name": ""}, "give 1 to 32 letters"),
        ("die_frame", {"name": 7}, "give 1 to 32 letters"),
    ],
)
def test_what_does_not_fit_is_refused(cell: str, arguments: dict[str, Any], message: str) -> None:
    before = gf.kcl.layout.cells()
    with pytest.raises(ValueError, match=rf"{cell}: .*{message}"):
        CELLS[cell](**arguments)
    assert gf.kcl.layout.cells() == before
