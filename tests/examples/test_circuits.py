"""The circuits of examples/circuits are drawn, checked, compared and simulated; faults are found where they are."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gdsfactory as gf
import numpy as np
import pytest
from numpy.typing import NDArray

from optinc_pdk import active_pdk
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import read_reference
from optinc_pdk.signoff.lvs.klayout_comparer import compare_with_klayout
from optinc_pdk.signoff.verification import Verification, verify

PROCESS = load_process()
FOLDER = Path(__file__).parents[2] / "examples" / "circuits"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))
WAVELENGTHS = np.array([1545.0, 1550.0, 1555.0])


def draw(
    name: str,
    folder: Path,
    change: Callable[[gf.Component], Any] | None = None,
    wavelengths: NDArray[np.float64] = WAVELENGTHS,
) -> Verification:
    """Draw a circuit, write its netlist, change the layout, write it, and verify it against the netlist."""
    found = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    example = importlib.util.module_from_spec(found)
    found.loader.exec_module(example)
    with active_pdk():
        # circuits of equal names of earlier tests stay in the layout database
        gf.clear_cache()
        component = example.circuit()
        netlist = folder / f"{name}.pic.yml"
        # gdsfactory's routers draw wires without instances, so that it sees the ends of heaters as unconnected
        component.write_netlist(component.get_netlist(recursive=True, on_dangling_port="ignore"), netlist)
        if change is not None:
            change(component)
        component.write_gds(folder / f"{name}.gds", with_metadata=False)
    reference = read_reference(netlist, PROCESS, name)
    return verify(folder / f"{name}.gds", reference, {}, wavelengths, PROCESS, lambda _: None)


@pytest.mark.parametrize("name", NAMES)
def test_a_circuit_passes(name: str, tmp_path: Path) -> None:
    result = draw(name, tmp_path)
    assert result.drc.clean
    assert result.lvs is not None
    assert result.lvs.match
    assert not result.faults
    assert result.passed
    assert result.drawn.reference is not None
    assert compare_with_klayout(result.drawn.reference, result.drawn.extraction.circuit, PROCESS, result.lvs).match


@pytest.mark.parametrize("name", NAMES)
def test_a_circuit_takes_at_most_45_lines(name: str) -> None:
    assert len((FOLDER / f"{name}.py").read_text().splitlines()) <= 45


def test_splitters_share_the_light(tmp_path: Path) -> None:
    result = draw("splitter_tree", tmp_path)
    assert result.scattering is not None
    power = np.abs(result.scattering.between([f"out{i}" for i in range(8)], ["in"])[1, :, 0]) ** 2
    assert power.max() / power.min() < 1.1
    assert power.sum() < 1.0


def test_the_arms_of_the_interferometer_set_its_free_spectral_range(tmp_path: Path) -> None:
    result = draw("mzi_heater", tmp_path, wavelengths=np.arange(1535.0, 1565.0, 0.05))
    assert result.scattering is not None
    power = np.abs(result.scattering.between(["out"], ["in"])[:, 0, 0]) ** 2
    minima = np.flatnonzero((power[1:-1] < power[:-2]) & (power[1:-1] < power[2:]) & (power[1:-1] < 0.1 * power.max()))
    found = np.diff(result.scattering.wavelengths_nm[minima + 1]).mean()
    # λ² / (group index · 100 µm)
    expected = 1550.0**2 / (float(PROCESS.guide.group_index) * 100.0e3)
    assert found == pytest.approx(expected, rel=0.02)


def shift(name: str, by_um: float) -> Callable[[gf.Component], None]:
    """Move the first instance of a cell upwards."""

    def change(component: gf.Component) -> None:
        next(each for each in component.insts if each.cell.name.startswith(name)).move((0.0, by_um))

    return change


def add_silicon(x: float, y: float, width: float, height: float) -> Callable[[gf.Component], None]:
    """Add a rectangle of silicon."""
    box = ((x, y), (x, y + height), (x + width, y + height), (x + width, y))

    def change(component: gf.Component) -> None:
        component.add_polygon(box, layer=PROCESS.gds_layers["core"])

    return change


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("mzi_heater", shift("mmi1x2", 0.5), ("mmi1x2",)),
        ("mzi_heater", shift("pad", 200.0), ("pad",)),
        ("ring_filter", add_silicon(-80.0, 0.225, 20.0, 0.2), ("width",)),
        ("ring_filter", shift("grating_coupler", 3.0), ("grating_coupler",)),
        ("splitter_tree", shift("grating_coupler", 1.0), ("grating_coupler",)),
        ("lattice_filter", shift("terminator", 1.0), ("terminator",)),
    ],
)
def test_a_fault_is_found_and_names_its_instance(
    name: str, change: Callable[[gf.Component], None], words: tuple[str, ...], tmp_path: Path
) -> None:
    result = draw(name, tmp_path, change)
    assert not result.passed
    assert result.lvs is not None
    text = " ".join(f"{each.kind} {each.message} {each.reference}" for each in result.lvs.differences)
    assert all(word in text for word in words)
