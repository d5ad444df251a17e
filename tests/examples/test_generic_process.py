"""Circuits drawn with the cells of gdsfactory's generic PDK pass the rules, LVS and simulation of a process for it."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gdsfactory as gf
import klayout.db as kdb
import numpy as np
import pytest
import sax

from optinc_pdk import active_pdk
from optinc_pdk.cards import load_process
from optinc_pdk.cells.golden_files import golden_states
from optinc_pdk.circuit import NetlistError, read_reference
from optinc_pdk.cli import main
from optinc_pdk.extract import GdsError
from optinc_pdk.io.reading import NETLIST
from optinc_pdk.io.yaml_files import dump_yaml, load_yaml
from optinc_pdk.models import sax_models
from optinc_pdk.models.sax_models import sax_netlist
from optinc_pdk.signoff.lvs.klayout_comparer import compare_with_klayout
from optinc_pdk.signoff.verification import Verification, verify
from optinc_pdk.simulate.heater_drive import parse_settings
from optinc_pdk.simulate.s_parameters.scattering import set_scattering
from optinc_pdk.tech import activated

FOLDER = Path(__file__).parents[2] / "examples" / "processes" / "generic"
PROCESS = load_process(FOLDER)
NAMES = sorted(path.stem for path in (FOLDER / "circuits").glob("*.py"))
WAVELENGTHS = np.array([1540.0, 1550.0, 1554.0, 1570.0])
NM_PER_UM = 1000
# what names the devices in netlists, by name of the card
CELLS = {"directional_coupler": "coupler", "grating_coupler": "grating_coupler_elliptical"}

Change = Callable[[kdb.Layout, kdb.Cell], None]


@cache
def drawn(name: str) -> tuple[bytes, dict[str, Any]]:
    """Content of the layout file of a circuit, and its netlist, drawn with gdsfactory's PDK."""
    circuit = runpy.run_path(str(FOLDER / "circuits" / f"{name}.py"))["circuit"]
    with activated(gf.gpdk.PDK):
        # circuits of equal names of other tests stay in the layout database
        gf.clear_cache()
        component = circuit()
        # gdsfactory's routers draw wires without instances, so that it sees the ends of heaters as unconnected
        netlist = component.get_netlist(recursive=True, on_dangling_port="ignore")
        path = component.write_gds(with_metadata=False)
    return Path(path).read_bytes(), netlist


def write(name: str, folder: Path, change: Change | None = None) -> tuple[Path, Path]:
    """Write the layout of a circuit, changed if asked for, and its netlist; returns both paths."""
    content, data = drawn(name)
    gds, netlist = folder / f"{name}.gds", folder / f"{name}.pic.yml"
    gds.write_bytes(content)
    with activated(gf.gpdk.PDK):
        gf.Component().write_netlist(data, netlist)
    if change is not None:
        layout = kdb.Layout()
        layout.read(str(gds))
        change(layout, layout.top_cell())
        layout.write(str(gds))
    return gds, netlist


def check(name: str, folder: Path, change: Change | None = None) -> Verification:
    """Verify a circuit against its netlist."""
    gds, netlist = write(name, folder, change)
    return verify(gds, read_reference(netlist, PROCESS, name), {}, WAVELENGTHS, PROCESS, lambda _: None)


@cache
def sound(name: str) -> Verification:
    """The verification of a circuit as it is drawn."""
    with TemporaryDirectory() as folder:
        return check(name, Path(folder))


@pytest.mark.full(every=4)
@pytest.mark.parametrize("name", NAMES)
def test_a_circuit_passes(name: str) -> None:
    result = sound(name)
    assert result.drc.clean
    assert result.lvs is not None
    assert result.lvs.match
    assert not result.faults
    assert result.passed
    assert result.drawn.reference is not None
    assert compare_with_klayout(result.drawn.reference, result.drawn.extraction.circuit, PROCESS, result.lvs).match


@pytest.mark.full
def test_the_circuits_have_every_device_of_the_process() -> None:
    used = {kind for name in NAMES for kind in sound(name).drawn.extraction.silicon}
    assert used >= set(PROCESS.devices) - {"pad"}


def test_recognition_polygons_are_those_of_the_pdk() -> None:
    with active_pdk(PROCESS):
        assert {state for state, _ in golden_states(PROCESS).values()} == {"unchanged"}


@pytest.mark.parametrize("name", NAMES)
def test_an_example_takes_at_most_55_lines(name: str) -> None:
    assert len((FOLDER / "circuits" / f"{name}.py").read_text().splitlines()) <= 55


# spectra


@pytest.mark.full(every=3)
@pytest.mark.parametrize("name", NAMES)
def test_spectra_of_the_layout_agree_with_sax(name: str) -> None:
    result = sound(name)
    ours = result.scattering
    assert ours is not None
    model, _ = sax.circuit(netlist=sax_netlist(result.drawn.circuit), models=sax_models(PROCESS), backend="klu")
    theirs = sax.sdict(model(wl=WAVELENGTHS / 1e3))
    assert len(ours.labels) == len([label for label in drawn(name)[1][name]["ports"] if label not in ("GND", "drive")])
    for i, out in enumerate(ours.labels):
        for j, into in enumerate(ours.labels):
            assert np.allclose(ours.s[:, i, j], np.asarray(theirs[into, out]), rtol=0, atol=1e-9)


def of_gdsfactory(name: str) -> dict[str, object]:
    """SAX netlist of the light in a circuit as gdsfactory states it; guides have the length that their cell states."""
    data = drawn(name)[1][name]
    instances = {}
    for each, part in data["instances"].items():
        if part["component"] == "pad" or part["settings"].get("cross_section") == "metal_routing":
            continue
        length = part["info"].get("length")
        instances[each] = {"component": part["component"], "settings": {} if length is None else {"length": length}}
    ports = {label: port for label, port in data["ports"].items() if port.split(",")[0] in instances}
    pairs = [(net["p1"], net["p2"]) for net in data["nets"]]
    light = [pair for pair in pairs if all(end.split(",")[0] in instances and ",o" in end for end in pair)]
    return {"instances": instances, "nets": [{"p1": a, "p2": b} for a, b in light], "ports": ports}


def without_length(model: Callable[..., sax.SDict]) -> Callable[..., sax.SDict]:
    """A model that ignores the length which gdsfactory states for some devices too."""

    def fixed(*, wl: Any = 1.55, length: float = 0.0) -> sax.SDict:
        return model(wl=wl)

    return fixed


@pytest.mark.full(every=3)
@pytest.mark.parametrize("name", NAMES)
def test_spectra_agree_with_sax_on_the_netlist_of_gdsfactory(name: str) -> None:
    """Netlist, guides and solver are those of gdsfactory and SAX; lengths differ by the rounding of bends to 1 nm."""
    guide = PROCESS.guide

    def sax_straight(*, wl: Any = 1.55, length: float = 1.0) -> sax.SDict:
        indices = {"neff": float(guide.index), "ng": float(guide.group_index), "wl0": float(guide.wavelength_nm) / 1e3}
        s = sax.models.straight(wl=wl, length=length, loss_dB_cm=float(guide.loss_db_per_cm), **indices)
        names = {"in0": "o1", "out0": "o2"}
        return {(names.get(a, a), names.get(b, b)): value for (a, b), value in s.items()}

    devices = {CELLS.get(device, device): model for device, model in sax_models(PROCESS).items()}
    guides = dict.fromkeys(("straight", "bend_euler", "bend_s", "straight_heater_metal_undercut"), sax_straight)
    fixed = {cell: without_length(model) for cell, model in devices.items()}
    model, _ = sax.circuit(netlist=of_gdsfactory(name), models=fixed | guides, backend="klu")
    theirs, ours = sax.sdict(model(wl=WAVELENGTHS / 1e3)), sound(name).scattering
    assert ours is not None
    compared = 0
    for i, out in enumerate(ours.labels):
        for j, into in enumerate(ours.labels):
            # 5 nm of guide are 0.05 rad
            assert np.allclose(ours.s[:, i, j], np.asarray(theirs[into, out]), rtol=0.05, atol=1e-3)
            compared += 1
    assert compared == len(ours.labels) ** 2


def test_a_heater_drives_the_interferometer() -> None:
    circuit = sound("mzi_heater").drawn.circuit
    powers = []
    for phase in np.linspace(0.0, 2 * np.pi, 9):
        s = set_scattering(circuit, parse_settings([f"drive={phase}rad"]), 1550.0, PROCESS)
        powers.append(abs(s.between(["out"], ["in"])[0, 0, 0]) ** 2)
    assert max(powers) > 10 * min(powers)
    assert powers[0] == pytest.approx(powers[-1], rel=1e-6)


# faults


def shapes(layout: kdb.Layout, layer: str) -> int:
    return int(layout.layer(*PROCESS.gds_layers[layer]))


def moved(cell: str, by_um: tuple[float, float], number: int = 0) -> Change:
    """Move an instance of a cell."""

    def change(layout: kdb.Layout, top: kdb.Cell) -> None:
        one = [each for each in top.each_inst() if each.cell.name.startswith(cell)][number]
        one.transform(kdb.Trans(kdb.Vector(*(round(um * NM_PER_UM) for um in by_um))))

    return change


def added(layer: str, *box_um: float) -> Change:
    """Add a rectangle (left, bottom, right, top)."""

    def change(layout: kdb.Layout, top: kdb.Cell) -> None:
        top.shapes(shapes(layout, layer)).insert(kdb.Box(*(round(um * NM_PER_UM) for um in box_um)))

    return change


def erased(layer: str, *box_um: float) -> Change:
    """Erase what lies within a rectangle (left, bottom, right, top); the layout is flat afterwards."""

    def change(layout: kdb.Layout, top: kdb.Cell) -> None:
        top.flatten(-1, True)
        index = shapes(layout, layer)
        region = kdb.Region(top.shapes(index)) - kdb.Region(kdb.Box(*(round(um * NM_PER_UM) for um in box_um)))
        top.shapes(index).clear()
        top.shapes(index).insert(region)

    return change


def replaced_coupler(layout: kdb.Layout, top: kdb.Cell) -> None:
    """Draw the second coupler with a gap that is 4 nm wider."""
    with activated(gf.gpdk.PDK):
        other = gf.get_component("coupler", gap=0.24)
        region = kdb.Region(other.begin_shapes_rec(other.kcl.layer(*PROCESS.gds_layers["core"])))
    one = [each for each in top.each_inst() if each.cell.name.startswith("coupler_")][1]
    region.transform(one.trans)
    one.delete()
    top.shapes(shapes(layout, "core")).insert(region)


def places(result: Verification) -> list[tuple[str, float, float]]:
    """Text and position of everything that a verification finds."""
    assert result.lvs is not None
    found = [
        (f"{each.kind} {each.message} {each.reference}", *each.position_um)
        for each in result.lvs.differences
        if each.position_um is not None
    ]
    for rule in result.drc.rules:
        for left, bottom, right, top in rule.boxes_um.tolist():
            found.append((rule.id, (left + right) / 2, (bottom + top) / 2))
    return found


FAULTS = {
    "a splitter is moved": ("mzi_heater", moved("mmi1x2", (0.0, 0.5)), "mmi1x2", (2.75, 0.5)),
    "a grating is moved": ("mzi_heater", moved("grating", (0.0, 1.0)), "grating_coupler", (-28.0, 1.0)),
    "a heater lacks its vias at one end": (
        "mzi_heater", erased("via1", 130.0, 90.0, 150.0, 110.0), "1 contacts", (250.0, 100.0)
    ),
    "a heater is narrow": ("mzi_heater", erased("heater", 240.0, 99.0, 260.0, 110.0), "heater", (250.0, 100.0)),
    "a pad is not wired": ("mzi_heater", moved("pad", (0.0, 200.0), 1), "wired to no pad", (250.0, 100.0)),
    "two wires touch": ("mzi_heater", added("m3", 49.0, 260.0, 460.0, 262.0), "short", (50.0, 300.0)),
    "a guide is wide": ("mzi_heater", added("core", 200.0, -130.0, 220.0, -129.6), "width", (210.0, -129.9)),
    "a coupler is moved": ("switch_2x2", moved("mmi2x2", (0.3, 0.0), 1), "mmi2x2", (603.0, 0.0)),
    "a contact lacks vias above it": (
        "switch_2x2", erased("via2", 100.0, 140.0, 120.0, 160.0), "upper", (245.0, 150.0)
    ),
    "a coupler has another gap": ("coupler_ladder", replaced_coupler, "guide_space", (210.0, 0.4)),
    "guides are near each other": (
        "coupler_ladder", added("core", 40.0, 0.3, 60.0, 0.8), "guide_space", (50.0, -0.6)
    ),
    "a crossing lacks its etch": ("crossing_matrix", erased("slab150", 50.0, 50.0, 70.0, 70.0), "etch", (60.0, 60.0)),
    "a crossing is moved": ("crossing_matrix", moved("crossing", (0.0, 0.2), 4), "crossing", (60.0, 60.2)),
}  # fmt: skip


@pytest.mark.full(every=6)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_at_its_place(fault: str, tmp_path: Path) -> None:
    name, change, word, (x, y) = FAULTS[fault]
    result = check(name, tmp_path, change)
    assert not result.passed
    found = places(result)
    assert any(word in text and np.hypot(u - x, v - y) < 12.0 for text, u, v in found), found


# cells and layers of other PDKs


@pytest.fixture
def optinc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def run(*arguments: object) -> tuple[int, str]:
        texts = ["optinc", "verify", *map(str, arguments), "--process", str(FOLDER), "--wavelengths", "1550"]
        monkeypatch.setattr(sys, "argv", texts)
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return int(end.value.code or 0), said.out + said.err

    return run


def test_the_command_passes_and_states_what_it_checked(optinc: Any, tmp_path: Path) -> None:
    code, text = optinc(*write("switch_2x2", tmp_path))
    assert (code, "verdict   pass" in text) == (0, True)


def test_a_shape_on_a_layer_of_another_pdk_fails_with_its_place(optinc: Any, tmp_path: Path) -> None:
    def change(layout: kdb.Layout, top: kdb.Cell) -> None:
        # a guide of soi220, whose silicon is on 3/0
        top.shapes(layout.layer(3, 0)).insert(kdb.Box(300_000, 80_000, 340_000, 80_450))

    code, text = optinc(*write("crossing_matrix", tmp_path, change))
    assert code == 1
    assert "chip.layers: 1 at (300.0, 80.0)" in text


def test_a_layout_of_another_process_is_refused(optinc: Any, tmp_path: Path) -> None:
    with active_pdk() as pdk:
        gf.get_component("mmi1x2").write_gds(tmp_path / "other.gds", with_metadata=False)
        assert pdk.name == "soi220"
    code, text = optinc(tmp_path / "other.gds")
    assert code == 2
    assert "soi220" in text
    with pytest.raises(GdsError):
        verify(tmp_path / "other.gds", None, {}, WAVELENGTHS, PROCESS, lambda _: None)


@pytest.mark.parametrize(
    ("instance", "component", "settings", "words"),
    [
        ("coupler", "coupler", {"gap": 0.3}, ("coupler", "gap is 0.3 instead of 0.236", "directional_coupler")),
        ("coupler", "coupler_nitride", {}, ("'coupler'", "'coupler_nitride'", "--process")),
    ],
)
def test_a_cell_that_the_process_does_not_have_is_refused_by_its_instance(
    instance: str, component: str, settings: dict[str, Any], words: tuple[str, ...], tmp_path: Path, optinc: Any
) -> None:
    gds, netlist = write("coupler_ladder", tmp_path)
    data = load_yaml_any(netlist)
    part = data["coupler_ladder"]["instances"][instance]
    part["component"] = component
    part["settings"] |= settings
    dump_yaml(netlist, data)
    code, text = optinc(gds, netlist)
    assert code == 2
    assert all(word in text for word in words)
    with pytest.raises(NetlistError):
        read_reference(netlist, PROCESS, "coupler_ladder")


def load_yaml_any(path: Path) -> dict[str, Any]:
    """Content of a netlist file."""
    return dict(load_yaml(path, NETLIST, NetlistError))
