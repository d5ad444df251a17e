"""Couplers and rings as drawn: extracted settings, rules, LVS with faults, spectra against SAX and a closed form."""

from collections.abc import Callable
from pathlib import Path

import gdsfactory as gf
import klayout.db as kdb
import numpy as np
import pytest
import sax

from optinc_pdk.assemble._component_library import device_types
from optinc_pdk.cards import Process, Quantity, load_process
from optinc_pdk.cells import CELLS
from optinc_pdk.circuit import Circuit, CircuitBuilder, read_netlist, write_netlist
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.models import effective_index, net_transmission, sax_models, sax_netlist
from optinc_pdk.signoff.drc.design_rule_check import run_drc
from optinc_pdk.signoff.lvs.comparison import compare
from optinc_pdk.signoff.lvs.klayout_comparer import compare_with_klayout
from optinc_pdk.simulate import scattering

PROCESS = load_process()
CHIP_RULES = ("chip.outline", "chip.size", "chip.edge")
SETTINGS = ("gap_um", "coupled_length_um", "path_difference_um", "guide_1_um", "guide_2_um")
WAVELENGTHS = np.linspace(1545.0, 1555.0, 41)
CASES: dict[str, dict[str, object]] = {
    "coupler": {"gap": 0.25, "length": 9.5},
    "coupler_straight": {"gap": 0.3, "length": 14.0},
    "coupler_ring": {"gap": 0.21, "length_x": 2.0},
    "ring_single": {"gap": 0.22, "length_x": 3.0, "length_y": 1.5},
    "coupler_ring_bend": {"coupler_gap": 0.21, "radius": 15.0, "coupling_angle_coverage": 40.0, "length_x": 1.0},
    "ring_single_bend_coupler": {"gap": 0.22, "radius": 20.0, "coupling_angle_coverage": 30.0, "length_x": 2.0},
    "ring_double": {"gap_bot": 0.2, "gap_top": 0.24, "bend": "bend_circular", "length_y": 0.5},
}
# Ports of the couplers that are joined within the cell.
JOINED = {
    "ring_single": [("c0,o2", "c0,o3")],
    "ring_single_bend_coupler": [("c0,o2", "c0,o3")],
    "ring_double": [("c0,o2", "c1,o3"), ("c0,o3", "c1,o2")],
}
OUTER = {
    "ring_single": ["c0,o1", "c0,o4"],
    "ring_single_bend_coupler": ["c0,o1", "c0,o4"],
    "ring_double": ["c0,o1", "c0,o4", "c1,o4", "c1,o1"],
}


def chip(name: str, turn: float = 0, **settings: object) -> gf.Component:
    """A cell with an edge coupler and its label in<n> at each port."""
    c = gf.Component()
    inside = c << CELLS[name](**(CASES[name] | settings))
    if turn:
        inside.rotate(turn)
    for number, port in enumerate(sorted(inside.ports, key=lambda port: str(port.name))):
        if name == "coupler_straight":
            # its ports are too close for two edge couplers side by side
            bend = c << CELLS["bend_s"](size=(30.0, 6.0 if port.name in ("o1", "o3") else -6.0))
            bend.connect("o1", port)
            port = bend["o2"]
        coupler = c << CELLS["edge_coupler"]()
        coupler.connect("o1", port)
        at = coupler.dbbox().center()
        c.shapes(c.kcl.layer(*PROCESS.gds_layers["label"])).insert(kdb.DText(f"in{number}", at.x, at.y))
    return c


def reference(name: str, settings: list[dict[str, float]]) -> Circuit:
    """The netlist of a chip, with the settings of its couplers."""
    b = CircuitBuilder(name, device_types(PROCESS))
    for number, values in enumerate(settings):
        b.add(f"c{number}", "coupler", **values)
    for one, other in JOINED.get(name, []):
        b.connect(one, other)
    for number, port in enumerate(OUTER.get(name, [f"c0,o{k}" for k in range(1, 5)])):
        b.add(f"e{number}", "edge_coupler")
        b.connect(f"e{number},o1", port)
        b.ports[f"in{number}"] = f"e{number},o2"
    return b.build()


def settings_of(name: str, **settings: object) -> list[dict[str, float]]:
    """Settings of the couplers of a cell, calculated from its centre lines."""
    values = CASES[name] | settings
    if name not in JOINED:
        return [{key: float(CELLS[name](**values).info[key]) for key in SETTINGS}]
    if name == "ring_single_bend_coupler":
        values["coupler_gap"] = values.pop("gap")
        return [{key: float(CELLS["coupler_ring_bend"](**values).info[key]) for key in SETTINGS}]
    gaps = [values["gap"]] if name == "ring_single" else [values["gap_bot"], values["gap_top"]]
    length = values.get("length_x", 0.01)
    cells = [CELLS["coupler_ring"](gap=gap, length_x=length, bend=values.get("bend", "bend_euler")) for gap in gaps]
    return [{key: float(cell.info[key]) for key in SETTINGS} for cell in cells]


def read(component: gf.Component, folder: Path) -> Extraction:
    component.write_gds(folder / "chip.gds", with_metadata=False)
    return extract(folder / "chip.gds", PROCESS)


def kinds(name: str, extraction: Extraction, **settings: object) -> set[str]:
    return {
        found.kind for found in compare(reference(name, settings_of(name, **settings)), extraction, PROCESS).differences
    }


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
@pytest.mark.parametrize("name", CASES)
def test_a_drawn_coupler_is_that_of_the_netlist_in_every_orientation(name: str, turn: float, tmp_path: Path) -> None:
    extraction = read(chip(name, turn), tmp_path)
    circuit = reference(name, settings_of(name))
    result = compare(circuit, extraction, PROCESS)
    # straight couplers join edge couplers that lie closer than rules allow, but LVS is not concerned
    assert [str(found) for found in result.differences] == []
    assert compare_with_klayout(circuit, extraction.circuit, PROCESS).match


@pytest.mark.parametrize("name", [name for name in CASES if name != "coupler_straight"])
def test_drawn_couplers_and_rings_pass_the_rules(name: str, tmp_path: Path) -> None:
    chip(name).write_gds(tmp_path / "chip.gds", with_metadata=False)
    result = run_drc(tmp_path / "chip.gds", [r for r in PROCESS.rules if r.id not in CHIP_RULES], PROCESS.gds_layers)
    assert {found.id: [str(box) for box in found.boxes_um] for found in result.rules if found.violations} == {}


@pytest.mark.parametrize("name", CASES)
def test_another_gap_or_length_is_reported(name: str, tmp_path: Path) -> None:
    extraction = read(chip(name), tmp_path)
    key = {"ring_double": "gap_top", "coupler_ring_bend": "coupler_gap"}.get(name, "gap")
    wider = {key: CASES[name][key] + 0.02}
    # the guide of a pulley is longer by the gap times the angle
    also = {"path_difference"} if "bend" in name else set()
    # so are S-bends to a wider gap, and a ring whose couplers are further apart
    guides = {"guide_length"} if name in ("coupler", "ring_double") else set()
    assert kinds(name, extraction, **wider) == {"gap", "coupled_length"} | also | guides
    length = "length" if name in ("coupler", "coupler_straight") else "length_x"
    longer = {length: CASES[name].get(length, 0.01) + 1.0}
    assert kinds(name, extraction, **longer) == {"coupled_length", "guide_length"} | also


def test_settings_within_the_tolerances_match_and_beyond_them_do_not(tmp_path: Path) -> None:
    extraction = read(chip("coupler_ring"), tmp_path)
    card, (found,) = PROCESS.device("coupler"), settings_of("coupler_ring")
    measured = {key: float(extraction.circuit.settings[key][0]) for key in SETTINGS}
    steps = {
        "gap_um": card.size("gap_tolerance_um"),
        "coupled_length_um": card.size("coupled_length_tolerance") * measured["coupled_length_um"],
        "path_difference_um": card.size("path_difference_tolerance_um"),
        "guide_1_um": card.size("guide_tolerance_um"),
        "guide_2_um": card.size("guide_tolerance_um"),
    }
    for key, step in steps.items():
        for share, match in ((0.9, True), (1.1, False)):
            changed = measured | {key: measured[key] + share * step}
            assert compare(reference("coupler_ring", [changed]), extraction, PROCESS).match is match, (key, share)
    assert found["gap_um"] == pytest.approx(measured["gap_um"], abs=1e-9)


def test_settings_that_the_netlist_does_not_state_are_counted_and_not_compared(tmp_path: Path) -> None:
    extraction = read(chip("coupler"), tmp_path)
    result = compare(reference("coupler", [{"gap_um": 0.25}]), extraction, PROCESS)
    assert result.match
    assert (result.unstated_settings, result.to_json()["unstated_settings"]) == (4, 4)
    result = compare(reference("coupler", [{"gap_um": 0.3}]), extraction, PROCESS)
    assert [found.kind for found in result.differences] == ["gap"]
    assert compare(reference("coupler", settings_of("coupler")), extraction, PROCESS).unstated_settings == 0


def test_settings_survive_the_netlist_file(tmp_path: Path) -> None:
    circuit = reference("coupler_ring", settings_of("coupler_ring"))
    write_netlist(circuit, tmp_path / "ring.pic.yml")
    again = read_netlist(tmp_path / "ring.pic.yml")
    assert {key: column[0] for key, column in again.settings.items()} == settings_of("coupler_ring")[0]


def edited(
    name: str, change: Callable[[kdb.Region, kdb.Region], tuple[kdb.Region, kdb.Region]], folder: Path
) -> Extraction:
    """Extraction of a chip whose silicon and marks were changed."""
    chip(name).write_gds(folder / "chip.gds", with_metadata=False)
    layout = kdb.Layout()
    layout.read(str(folder / "chip.gds"))
    top = layout.top_cell()
    top.flatten(True)
    layers = [layout.layer(*PROCESS.gds_layers[layer]) for layer in ("core", "coupled")]
    regions = [kdb.Region(top.shapes(layer)).merged() for layer in layers]
    for layer, region in zip(layers, change(*regions), strict=True):
        top.shapes(layer).clear()
        top.shapes(layer).insert(region)
    layout.write(str(folder / "chip.gds"))
    return extract(folder / "chip.gds", PROCESS)


@pytest.mark.parametrize("name", ["coupler", "ring_single"])
def test_silicon_in_the_marked_region_is_reported(name: str, tmp_path: Path) -> None:
    def third(core: kdb.Region, marks: kdb.Region) -> tuple[kdb.Region, kdb.Region]:
        box = marks.bbox()
        return core + kdb.Region(kdb.Box(box.left - 100, box.bottom + 20, box.right + 100, box.bottom + 470)), marks

    def cut(core: kdb.Region, marks: kdb.Region) -> tuple[kdb.Region, kdb.Region]:
        box = marks.bbox()
        return core - kdb.Region(kdb.Box(box.center().x, box.bottom, box.center().x + 100, box.center().y)), marks

    def unmarked(core: kdb.Region, marks: kdb.Region) -> tuple[kdb.Region, kdb.Region]:
        return core, kdb.Region()

    assert "extraction.coupled_guides" in kinds(name, edited(name, third, tmp_path))
    assert "extraction.coupled_end" in kinds(name, edited(name, cut, tmp_path))
    assert "device" in kinds(name, edited(name, unmarked, tmp_path))


@pytest.mark.full(every=4)
@pytest.mark.parametrize("name", CASES)
def test_spectra_agree_with_sax(name: str, tmp_path: Path) -> None:
    circuit = read(chip(name), tmp_path).circuit
    ours = scattering(circuit, {}, WAVELENGTHS, PROCESS)
    model, _ = sax.circuit(netlist=sax_netlist(circuit), models=sax_models(PROCESS), backend="klu")
    theirs = sax.sdict(model(wl=WAVELENGTHS / 1e3))
    for i, out in enumerate(ours.labels):
        for j, into in enumerate(ours.labels):
            assert np.allclose(ours.s[:, i, j], np.asarray(theirs[into, out]), rtol=0, atol=1e-9)


def without_reflections(process: Process) -> Process:
    devices = dict(process.devices)
    for name in ("coupler", "edge_coupler"):
        model = devices[name].model
        parameters = {**model.parameters, "reflection_db": Quantity(-1000.0, "test")}
        devices[name] = devices[name].model_copy(update={"model": model.model_copy(update={"parameters": parameters})})
    return process.model_copy(update={"devices": devices})


def test_a_ring_has_the_transmission_of_the_closed_formula(tmp_path: Path) -> None:
    process = without_reflections(PROCESS)
    circuit = read(chip("ring_single"), tmp_path).circuit
    found = scattering(circuit, {}, WAVELENGTHS, process)
    card = process.device("coupler")
    (number,) = [i for i, name in enumerate(circuit.instances) if name.startswith("coupler_")]
    values = {key: float(circuit.settings[key][number]) for key in SETTINGS}
    angle = card.parameter("coupling_per_um") * values["coupled_length_um"]
    angle = angle * (1 + card.parameter("slope_per_nm") * (WAVELENGTHS - card.parameter("center_nm")))
    loss = 10 ** (-card.parameter("loss_db") / 20)
    offset = circuit.offset[number]
    lengths = {
        tuple(sorted(net)): length for net, length in zip(circuit.nets.tolist(), circuit.net_length_um, strict=True)
    }
    ring_um = lengths[offset + 1, offset + 2]
    outer_um = sum(lengths.values()) - ring_um
    round_trip = net_transmission(process, ring_um + values["guide_2_um"], WAVELENGTHS)
    # Yariv, Electron. Lett. 36, 321 (2000), with a coupler that has a loss
    strip = process.guide
    index = effective_index(WAVELENGTHS, strip.index, strip.group_index, strip.wavelength_nm)
    mismatch = np.pi * index * values["path_difference_um"] / (WAVELENGTHS * 1e-3)
    both = np.hypot(angle, mismatch)
    bar = np.exp(-1j * mismatch) * (np.cos(both) + 1j * mismatch * np.sin(both) / both)
    ring = loss * (bar - loss * round_trip) / (1 - loss * bar.conj() * round_trip)
    bus = net_transmission(process, values["guide_1_um"] + outer_um, WAVELENGTHS)
    edge = 10 ** (-process.device("edge_coupler").parameter("loss_db") / 10)
    s = found.s[:, found.labels.index("in1"), found.labels.index("in0")]
    assert np.allclose(s, edge * bus * ring, rtol=0, atol=1e-9)
    # resonances lie within the band
    assert np.abs(s).min() < 0.95 * np.abs(s).max()


def test_a_smaller_radius_is_drawn_on_request() -> None:
    assert CELLS["coupler"](dx=8.0, allow_min_radius_violation=True).dbbox().width() == pytest.approx(36.0)
