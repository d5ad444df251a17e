"""The circuits of examples/circuits are drawn, checked, compared and simulated; faults are found where they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import sax
import yaml
from circuit_faults.faults import FAULTS
from circuit_faults.judges import WAVELENGTHS, Verdict, connects_differently, judge, places_um
from circuit_faults.layouts import FOLDER, NAMES, PROCESS, Drawn, draw, edited

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.models import sax_models, sax_netlist, sax_schematic
from optinc_pdk.signoff.lvs.label_binding import named_circuit
from optinc_pdk.signoff.verification import Verification, verify
from optinc_pdk.simulate.s_parameters.scattering import set_scattering

NEAR_UM = 25.0
"""A finding is at the place of a fault if it is this near; LVS gives the middle of a device."""


@pytest.fixture(scope="module")
def circuit(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Drawn, Verdict]:
    """A circuit as drawn, and what the checks say about it."""
    drawn = draw(request.param, tmp_path_factory.mktemp("circuit"))
    return drawn, judge(drawn.gds, drawn)


def simulated(name: str, folder: Path, wavelengths: Floats) -> Verification:
    drawn = draw(name, folder)
    return verify(drawn.gds, drawn.reference, {}, wavelengths, PROCESS, lambda _: None)


@pytest.mark.full(every=5)
@pytest.mark.parametrize("circuit", NAMES, indirect=True)
def test_a_circuit_passes_every_check(circuit: tuple[Drawn, Verdict]) -> None:
    drawn, verdict = circuit
    result = verdict.checked
    assert result.drc.clean
    assert result.lvs is not None
    assert result.lvs.match
    # netlists of layouts state all lengths and settings
    assert (result.lvs.unstated_settings, result.lvs.unstated_lengths) == (0, 0)
    assert not result.faults
    assert result.passed
    assert verdict.comparer.match
    assert verdict.same_by_ports
    assert len((FOLDER / f"{drawn.name}.py").read_text().splitlines()) <= 40


def spectra_of_sax(netlist: dict[str, Any], labels: Sequence[str]) -> Complexes:
    """S-matrices (W, labels, labels) of a SAX netlist."""
    model, _ = sax.circuit(
        netlist=netlist, models=sax_models(PROCESS), backend="klu", top_level_name=next(iter(netlist))
    )
    found = sax.sdict(model(wl=WAVELENGTHS / 1e3))
    dark = np.zeros(len(WAVELENGTHS))
    return np.array([[np.asarray(found.get((into, out), dark)) for into in labels] for out in labels]).transpose(
        2, 0, 1
    )


@pytest.mark.full(every=13)
@pytest.mark.parametrize("circuit", NAMES, indirect=True)
def test_spectra_are_those_of_sax(circuit: tuple[Drawn, Verdict]) -> None:
    drawn, verdict = circuit
    jax.config.update("jax_enable_x64", True)
    layout = verdict.checked.scattering
    assert layout is not None
    extracted = {drawn.name: sax_netlist(verdict.checked.drawn.circuit)}
    assert np.abs(spectra_of_sax(extracted, layout.labels) - layout.s).max() < 1e-9
    # gdsfactory's own netlist, with its hierarchy
    netlist = sax_schematic(yaml.safe_load(drawn.netlist.read_text()), PROCESS, drawn.name)
    ours = set_scattering(named_circuit(drawn.reference, PROCESS), {}, WAVELENGTHS, PROCESS)
    assert np.abs(spectra_of_sax(netlist, ours.labels) - ours.s).max() < 1e-9
    # corners on the grid of 1 nm and lengths in the netlist rounded to 1 nm
    assert ours.labels == layout.labels
    assert np.abs(ours.s - layout.s).max() < 0.05


@pytest.mark.full(every=29)
@pytest.mark.parametrize(
    ("circuit", "number"), [(name, number) for name in FAULTS for number in range(3)], indirect=["circuit"]
)
def test_a_fault_is_found_where_it_is(circuit: tuple[Drawn, Verdict], number: int, tmp_path: Path) -> None:
    drawn, good = circuit
    fault = FAULTS[drawn.name][number]
    verdict = judge(edited(drawn, fault.edit, tmp_path), drawn)
    lvs = verdict.checked.lvs
    assert good.checked.passed
    assert not verdict.checked.passed
    assert lvs is not None
    assert min(math.dist(place, fault.place_um) for place in places_um(verdict)) < NEAR_UM
    if fault.instance:
        assert any(fault.instance in f"{each.reference} {each.message}" for each in lvs.differences)
    # lengths, gaps and widths are beyond KLayout's comparer; connections are not
    assert verdict.comparer.match is not connects_differently(lvs)


def test_splitters_share_the_light(tmp_path: Path) -> None:
    result = simulated("splitter_tree", tmp_path, np.array([1550.0]))
    assert result.scattering is not None
    power = np.abs(result.scattering.between([f"out{i}" for i in range(8)], ["in"])[0, :, 0]) ** 2
    assert power.max() / power.min() < 1.1
    assert power.sum() < 1.0


def test_the_arms_of_the_interferometer_set_its_free_spectral_range(tmp_path: Path) -> None:
    result = simulated("mzi_heater", tmp_path, np.arange(1535.0, 1565.0, 0.05))
    assert result.scattering is not None
    power = np.abs(result.scattering.between(["out"], ["in"])[:, 0, 0]) ** 2
    minima = np.flatnonzero((power[1:-1] < power[:-2]) & (power[1:-1] < power[2:]) & (power[1:-1] < 0.1 * power.max()))
    found = np.diff(result.scattering.wavelengths_nm[minima + 1]).mean()
    # λ² / (group index · 100 µm)
    expected = 1550.0**2 / (float(PROCESS.guide.group_index) * 100.0e3)
    assert found == pytest.approx(expected, rel=0.02)


def test_every_ring_drops_its_own_wavelength(tmp_path: Path) -> None:
    result = simulated("wdm_rings", tmp_path, np.arange(1545.0, 1552.0, 0.01))
    assert result.scattering is not None
    power = np.abs(result.scattering.between([f"drop{i}" for i in range(4)], ["in"])[:, :, 0]) ** 2
    peaks = result.scattering.wavelengths_nm[np.argmax(power, axis=0)]
    assert np.diff(np.sort(peaks)).min() > 0.3


def test_the_loss_of_spirals_is_that_of_their_length(tmp_path: Path) -> None:
    result = simulated("cutback_spirals", tmp_path, np.array([1550.0]))
    assert result.scattering is not None
    loss = [-20 * math.log10(abs(result.scattering.between([f"out{i}"], [f"in{i}"])[0, 0, 0])) for i in range(3)]
    lengths = sorted(result.drawn.extraction.circuit.net_length_um.tolist())
    slope = np.polyfit(lengths, loss, 1)[0] * 1e4
    # gratings reflect, which adds a ripple
    assert slope == pytest.approx(float(PROCESS.guide.loss_db_per_cm), rel=0.02)
