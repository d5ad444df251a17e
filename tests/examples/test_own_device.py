"""The circuit with a device of its own: checked, compared, simulated as by SAX; its faults and bad data are found."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any

import gdsfactory as gf
import numpy as np
import pytest
import sax

from optinc_pdk import active_pdk
from optinc_pdk.cards import Process, load_process
from optinc_pdk.cells.golden_files import golden_states
from optinc_pdk.circuit import read_reference
from optinc_pdk.cli import main
from optinc_pdk.models import read_measured, sax_models, sax_netlist, touchstone_text
from optinc_pdk.signoff.lvs.klayout_comparer import compare_with_klayout
from optinc_pdk.signoff.verification import Verification, verify

FOLDER = Path(__file__).parents[2] / "examples" / "circuits" / "own_device"
NAME, DEVICE = "four_tap_filter", "mmi1x4"
WAVELENGTHS = np.arange(1545.0, 1555.0, 0.5)
Change = Callable[[gf.Component], Any]


def draw(folder: Path, process: Process, change: Change | None = None) -> Path:
    """Draw the circuit and write its netlist, then change the layout and write it."""
    circuit = runpy.run_path(str(FOLDER / f"{NAME}.py"))["circuit"]
    with active_pdk(process):
        gf.clear_cache()
        component = circuit()
        component.write_netlist(component.get_netlist(recursive=True), folder / f"{NAME}.pic.yml")
        if change is not None:
            change(component)
        component.write_gds(folder / f"{NAME}.gds", with_metadata=False)
    return folder / f"{NAME}.gds"


def verified(folder: Path, change: Change | None = None) -> Verification:
    process = load_process(FOLDER)
    gds = draw(folder, process, change)
    reference = read_reference(folder / f"{NAME}.pic.yml", process, NAME)
    return verify(gds, reference, {}, WAVELENGTHS, process, lambda _: None)


def test_the_circuit_passes_and_agrees_with_klayout_and_sax(tmp_path: Path) -> None:
    process = load_process(FOLDER)
    result = verified(tmp_path)
    assert result.passed
    assert result.lvs is not None
    assert result.drawn.reference is not None
    circuit = result.drawn.circuit
    assert len(circuit.instances_of(DEVICE)) == 2
    assert compare_with_klayout(result.drawn.reference, result.drawn.extraction.circuit, process, result.lvs).match
    model, _ = sax.circuit(netlist=sax_netlist(circuit), models=sax_models(process), backend="klu")
    theirs = sax.sdict(model(wl=WAVELENGTHS * 1e-3))["in", "out"]
    assert result.scattering is not None
    ours = result.scattering.between(["out"], ["in"])[:, 0, 0]
    assert np.abs(ours - np.asarray(theirs)).max() < 1e-9
    # four taps interfere
    power = np.abs(ours) ** 2
    assert power.max() > 10 * power.min()


def test_the_code_is_short_and_the_recognition_polygons_are_those_of_the_cell() -> None:
    assert len((FOLDER / f"{NAME}.py").read_text().splitlines()) <= 40
    with active_pdk(FOLDER):
        assert {state for state, _ in golden_states(load_process(FOLDER)).values()} == {"unchanged"}


def shift(component: gf.Component) -> None:
    """Move the second splitter upwards, away from its guides."""
    [each for each in component.insts if each.cell.name.startswith(DEVICE)][1].move((0.0, 0.5))


def widen(component: gf.Component) -> None:
    """Add 5 nm of silicon along the first splitter's upper side."""
    component.add_polygon([(0.0, 12.0), (0.0, 12.005), (260.0, 12.005), (260.0, 12.0)], layer="core")


def lengthen(component: gf.Component) -> None:
    """Move the first splitter's input coupler away, and draw the guide between them."""
    next(each for each in component.insts if each.cell.name.startswith("grating_coupler")).move((-30.0, 0.0))
    component.add_polygon([(-50.0, -0.225), (-50.0, 0.225), (-20.0, 0.225), (-20.0, -0.225)], layer="core")


@pytest.mark.parametrize(
    ("change", "kind", "words", "place_um"),
    [
        # the guide to its third output ends where the splitter was
        (shift, "extraction.dangling", "guide with one end", (420.0, 3.225)),
        (widen, "extraction.nearly", f"{DEVICE} differs", (130.0, 0.0)),
        (lengthen, "length", "30.000", (-64.877, 0.0)),
    ],
)
def test_a_fault_is_found_at_its_place(
    change: Change, kind: str, words: str, place_um: tuple[float, float], tmp_path: Path
) -> None:
    result = verified(tmp_path, change)
    assert not result.passed
    assert result.lvs is not None
    found = [each for each in result.lvs.differences if each.kind == kind]
    assert found, result.lvs.differences
    assert any(words in each.message for each in found), found
    assert place_um in [each.position_um for each in found]
    assert any(DEVICE in f"{each.message} {each.reference}" for each in result.lvs.differences)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    """A copy of the process, and the circuit's layout and netlist beside it."""
    copytree(FOLDER, tmp_path / "own")
    draw(tmp_path, load_process(FOLDER))
    yield tmp_path / "own"


def run(own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    """Verify the circuit with a process on the command line."""
    capsys.readouterr()
    arguments = ["verify", str(own.parent / f"{NAME}.gds"), "--process", str(own), "--wavelengths", "1550", *more]
    monkeypatch.setattr(sys, "argv", ["optinc", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0), capsys.readouterr().err


def changed_data(own: Path, scale: float = 1.0, count: int | None = None, last: str = "o5") -> None:
    """Write the S-parameters of the device again: scaled, at its first wavelengths only, or with another last port."""
    path = own / "devices" / f"{DEVICE}.s5p"
    data, names = read_measured(path), ("o1", "o2", "o3", "o4", last)
    path.write_text(touchstone_text(data.wavelengths_nm[:count], scale * data.s[:count], names))


def without_golden(own: Path) -> None:
    (own / "golden" / f"{DEVICE}.json").unlink()


def with_changed_function(own: Path) -> None:
    with (own / "devices" / f"{DEVICE}.py").open("a") as file:
        file.write("\nTAPER_UM = 20.0\n")


def test_a_device_without_a_model_is_checked_and_compared_but_not_simulated(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    card = own / "devices" / f"{DEVICE}.yml"
    text = card.read_text()
    card.write_text(text.replace("model:\n  file: mmi1x4.s5p\n", ""))
    assert card.read_text() != text
    code, _ = run(own, monkeypatch, capsys)
    numbers = json.loads((own.parent / f"{NAME}.verify.json").read_text())
    assert (code, numbers["verdict"], numbers["lvs"]["match"]) == (0, "pass", True)
    reason = numbers["simulation"]["not_run"]
    assert all(word in reason for word in (f"{DEVICE}.yml", "instance 'mmi1x4_0'", "no model"))
    assert not (own.parent / f"{NAME}.verify.s.npz").exists()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (partial(changed_data, last="o6"), (f"{DEVICE}.s5p", "o6", "instance 'mmi1x4_0'")),
        (partial(changed_data, scale=1.2), (f"{DEVICE}.s5p", "instance 'mmi1x4_0'", "not passive", "1.13")),
        (partial(changed_data, count=5), (f"{DEVICE}.s5p", "1550", "1540", "1544")),
        (without_golden, (f"golden/{DEVICE}.json", "optinc process golden --process")),
        (with_changed_function, (f"golden/{DEVICE}.json", f"{DEVICE}.py", "optinc process golden --process")),
    ],
)
def test_unusable_data_of_the_device_is_refused(
    spoil: Callable[[Path], None],
    words: tuple[str, ...],
    own: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spoil(own)
    code, said = run(own, monkeypatch, capsys)
    assert code == 2, said
    assert all(word in said for word in words), said
    assert not list(own.parent.glob("*.verify.*"))


def test_wavelengths_beyond_the_card_are_refused(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = run(own, monkeypatch, capsys, "--wavelengths", "1530")
    assert code == 2
    assert all(word in said for word in (DEVICE, "1530", "1540", "1560"))


def test_another_component_in_the_netlist_is_named(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = own.parent / f"{NAME}.pic.yml"
    path.write_text(path.read_text().replace(f"component: {DEVICE}", "component: mmi1x5"))
    code, said = run(own, monkeypatch, capsys)
    assert code == 2
    assert all(word in said for word in ("mmi1x5", "own_devices.md"))
