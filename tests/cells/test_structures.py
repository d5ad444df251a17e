"""Cells around circuits and test structures: their extracted circuits, and parameters that raise an error."""

import math
from pathlib import Path

import gdsfactory as gf
import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.assemble import rectangular_slots
from optinc_pdk.cards import load_process
from optinc_pdk.cells import ALIASES, CELLS
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.drc.design_rule_check import run_drc

PROCESS = load_process()


def extracted(cell: gf.Component, folder: Path) -> Extraction:
    """Extract a cell with a terminator at each of its guide ports."""
    c = gf.Component()
    inside = c << cell
    for port in inside.ports:
        if port.port_type == "optical":
            (c << CELLS["terminator"]()).connect("o1", port)
    c.write_gds(folder / "cell.gds", with_metadata=False)
    return extract(folder / "cell.gds", PROCESS)


def net_lengths(extraction: Extraction) -> dict[frozenset[str], float]:
    """Return the lengths of optical nets in µm by the two port names."""
    circuit = extraction.circuit
    pairs = [frozenset((circuit.port_name(a), circuit.port_name(b))) for a, b in circuit.nets.tolist()]
    return dict(zip(pairs, circuit.net_length_um.tolist(), strict=True))


@pytest.mark.parametrize("modes", [2, 3, 4, 7, 8])
def test_a_mesh_is_rectangular_with_paths_of_equal_length(modes: int, tmp_path: Path) -> None:
    extraction = extracted(CELLS["mesh"](modes=modes), tmp_path)
    assert extraction.faults == ()
    slots = rectangular_slots(modes)
    mzis, dummies = (sum(slot.dummy is dummy for slot in slots) for dummy in (False, True))
    assert extraction.silicon["phase_shifter"] == 2 * mzis
    assert extraction.silicon["mmi2x2"] == 2 * (mzis + dummies)
    # at both ends of every mode, and at two unused ports of every dummy
    assert extraction.silicon["terminator"] == 2 * modes + 2 * dummies
    # with heaters off, every MZI is a cross: light takes one path from each mode, and all have the same length
    columns = max(slot.column for slot in slots) + 1
    length = cross_state_lengths(extraction, modes)
    assert length == pytest.approx([length[0]] * modes, abs=0.01 * columns)


def cross_state_lengths(extraction: Extraction, modes: int) -> list[float]:
    """Return the path length in µm from each terminator on the left through MZIs in the cross state.

    Checks that the paths end at different terminators.
    """
    circuit = extraction.circuit
    partner = circuit.partners()
    lengths = {int(p): float(x) for pair, x in zip(circuit.nets, circuit.net_length_um, strict=True) for p in pair}
    offset, kinds = circuit.offset, [circuit.kinds[k].name for k in circuit.kind]
    ends = circuit.instances_of("terminator")
    left = sorted(ends[np.isclose(circuit.position_um[ends, 0], circuit.position_um[ends, 0].min())].tolist())
    assert len(left) == modes
    last, total = [], []
    for start in left:
        port, length, couplers = int(offset[start]), 0.0, 0
        while True:
            length += lengths[port]
            port = int(partner[port])
            device = int(np.searchsorted(offset, port, side="right")) - 1
            inside = port - int(offset[device])
            if kinds[device] == "terminator":
                break
            if kinds[device] == "phase_shifter":
                length += circuit.settings["length_um"][device]
                port = int(offset[device]) + 1 - inside
                continue
            # o1 to o3 through the first coupler of an MZI, o1 to o4 through the second
            couplers += 1
            port = int(offset[device]) + (inside ^ 2 if couplers % 2 else 3 - inside)
        last.append(device)
        total.append(length)
    assert len(set(last)) == modes
    return total


def test_a_mesh_of_64_modes_has_two_arrays_as_its_only_instances() -> None:
    cell = CELLS["mesh"](modes=64)
    assert [(i.na, i.nb) for i in cell.insts] == [(32, 1), (32, 1)]
    assert len(list(cell.ports)) == 128


@pytest.mark.parametrize("leaves", [2, 8])
def test_all_paths_of_a_tree_have_the_same_length(leaves: int, tmp_path: Path) -> None:
    cell = CELLS["splitter_tree"](leaves=leaves)
    assert [port.name for port in cell.ports] == [f"o{i + 1}" for i in range(leaves + 1)]
    extraction = extracted(cell, tmp_path)
    assert extraction.faults == ()
    assert extraction.silicon["mmi1x2"] == leaves - 1
    circuit = extraction.circuit
    partner, offset = circuit.partners(), circuit.offset
    length = np.zeros(int(offset[-1]))
    length[circuit.nets] = circuit.net_length_um[:, None]
    splitters = set(circuit.instances_of("mmi1x2").tolist())
    paths = []
    for end in circuit.instances_of("terminator").tolist():
        port, total, splits = int(offset[end]), 0.0, 0
        while True:
            total += length[port]
            port = int(partner[port])
            device = int(np.searchsorted(offset, port, side="right")) - 1
            # from the leaves towards the root; the path from the root's own terminator ends at o1 at once
            if device not in splitters or port == offset[device]:
                break
            port, splits = int(offset[device]), splits + 1
        if splits:
            paths.append((splits, total))
    assert [splits for splits, _ in paths] == [leaves.bit_length() - 1] * leaves
    assert [total for _, total in paths] == pytest.approx([paths[0][1]] * leaves, abs=0.01)


def test_the_arms_of_a_mixer_have_the_same_length(tmp_path: Path) -> None:
    extraction = extracted(CELLS["homodyne_mixer"](), tmp_path)
    assert extraction.faults == ()
    assert dict(extraction.silicon)["phase_shifter"] == 1
    nets = net_lengths(extraction)
    shifter = float(extraction.circuit.settings["length_um"][extraction.circuit.instances_of("phase_shifter")[0]])
    trimmed = sum(length for pair, length in nets.items() if "phase_shifter_0" in "".join(pair)) + shifter
    others = [length for pair, length in nets.items() if "phase_shifter_0" not in "".join(pair)]
    assert max(others) == pytest.approx(trimmed, abs=0.01)
    assert sorted(others)[0] == pytest.approx(sorted(others)[1], abs=0.01)


def test_an_offchip_activation_has_both_outputs_at_fibres(tmp_path: Path) -> None:
    extraction = extracted(CELLS["activation_offchip"](), tmp_path)
    assert extraction.faults == ()
    to_fibres = [x for pair, x in net_lengths(extraction).items() if "grating_coupler" in "".join(pair)]
    assert len(to_fibres) == extraction.silicon["grating_coupler"] == 2
    assert to_fibres[0] == pytest.approx(to_fibres[1], abs=0.01)


def kind_of(port: str) -> str:
    """Replace the instance name in a port name by the kind of the instance."""
    name, _, local = port.partition(",")
    return f"{name.rpartition('_')[0]},{local}"


def test_an_onchip_activation_has_two_photodiodes_and_a_modulator(tmp_path: Path) -> None:
    cell = CELLS["activation_onchip"]()
    extraction = extracted(cell, tmp_path)
    assert extraction.faults == ()
    pairs = sorted("-".join(sorted(map(kind_of, pair))) for pair in net_lengths(extraction))
    assert sum("photodiode" in pair and "mmi2x2" in pair for pair in pairs) == 2
    assert sum("modulator" in pair and "terminator" in pair for pair in pairs) == 2
    to_diodes = [x for pair, x in net_lengths(extraction).items() if "photodiode" in "".join(pair)]
    assert to_diodes[0] == pytest.approx(to_diodes[1], abs=0.01)
    # every pin is on a metal net of its own
    circuit = extraction.circuit
    pins = circuit.electrical[circuit.electrical >= 0]
    assert len(pins) == len(set(pins.tolist())) == len([p for p in cell.ports if p.port_type == "electrical"])


@pytest.mark.parametrize("count", [3, 8])
def test_the_first_and_last_grating_of_an_array_are_joined(count: int, tmp_path: Path) -> None:
    extraction = extracted(CELLS["fibre_array"](count=count), tmp_path)
    assert extraction.faults == ()
    nets = net_lengths(extraction)
    # gratings are numbered from bottom to top
    loop = frozenset(("grating_coupler_0,o1", f"grating_coupler_{count - 1},o1"))
    assert len(nets) == count - 1
    assert nets.pop(loop) > (count - 1) * float(PROCESS.floorplan.fibre_pitch_um)
    assert set(nets.values()) == {0.0}
    positions = extraction.circuit.position_um[extraction.circuit.instances_of("grating_coupler")]
    assert positions[:, 1].tolist() == pytest.approx([i * 127.0 for i in range(count)], abs=1e-3)


@pytest.mark.parametrize("lengths", [(2000.0, 4000.0, 8000.0), (5000.0, 1000.0), (100.0, 100.001)])
def test_guides_of_a_cutback_have_the_given_lengths(lengths: tuple[float, ...], tmp_path: Path) -> None:
    extraction = extracted(CELLS["cutback"](lengths=lengths), tmp_path)
    assert extraction.faults == ()
    assert sorted(extraction.circuit.net_length_um) == pytest.approx(sorted(lengths), abs=0.02)
    assert extraction.silicon["grating_coupler"] == 2 * len(lengths)


def test_a_heater_test_has_two_pads_on_each_contact(tmp_path: Path) -> None:
    cell = CELLS["heater_test"](length_um=120.0)
    extraction = extracted(cell, tmp_path)
    assert extraction.faults == ()
    assert dict(extraction.silicon)["phase_shifter"] == 1
    circuit = extraction.circuit
    assert circuit.settings["length_um"][circuit.instances_of("phase_shifter")].tolist() == [120.0]
    metal = kdb.Region(cell.begin_shapes_rec(cell.kcl.layer(*PROCESS.gds_layers["metal"]))).merged()
    nets = [[p.name for p in cell.ports if shape.inside(p.to_itype().trans.disp.to_p())] for shape in metal.each()]
    assert sorted(nets) == [["e1", "e2"], ["e3", "e4"]]


def test_a_die_frame_has_the_given_size_and_name() -> None:
    cell = CELLS["die_frame"](width_um=3000.0, height_um=2000.0, name="chip_7")
    assert cell.dbbox() == kdb.DBox(0, 0, 3000, 2000)
    texts = [s.text for s in cell.shapes(cell.kcl.layer(*PROCESS.gds_layers["label"])).each()]
    assert [(text.string, text.x, text.y) for text in texts] == [("chip_7", 50_000, 50_000)]
    assert CELLS["die_frame"]().dbbox() == kdb.DBox(0, 0, 11470, 4900)


def test_a_bump_is_an_octagon_on_its_landing_and_passes_drc(tmp_path: Path) -> None:
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


def test_a_pdk_has_only_the_cells_whose_cards_its_process_has() -> None:
    assert "bump" not in get_pdk().cells
    assert "bump" in get_pdk("soi220_flipchip").cells
    assert {*CELLS, *ALIASES} == set(get_pdk("soi220_flipchip").cells)
