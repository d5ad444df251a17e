"""What a layout does is compared with what its netlist does: power and phase between the fibres, over wavelength."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gdsfactory as gf
import numpy as np
import pytest

from optinc_pdk.cards import Process, load_process
from optinc_pdk.circuit import Circuit
from optinc_pdk.circuit.gdsfactory_netlists import PlacedCircuit, placed_circuit
from optinc_pdk.cli import main
from optinc_pdk.errors import InputError
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.lvs._lengths import guide_phase_rad_per_um, length_tolerance_um
from optinc_pdk.signoff.spectrum_comparison import (
    FEWEST_POINTS,
    LEAST_POINTS,
    MOST_CASES,
    TOLERANCE,
    SpectrumComparison,
    compare_spectra,
    comparison_wavelengths,
)
from optinc_pdk.signoff.verification import Verification, verify

BAND = np.linspace(1545.0, 1555.0, 101)
PROCESSES = ("soi220", "soi220_flipchip", "cornerstone220", "soi220_two_metal")


def fibres(top: gf.Component, **ports: Any) -> gf.Component:
    """Add a grating coupler at each port, which is exposed."""
    for name, port in ports.items():
        coupler = top.add_ref(gf.get_component("grating_coupler"), name=name)
        coupler.connect("o1", port)
        top.add_port(name, port=coupler["o2"])
    return top


def mzi(extra_nm: int) -> gf.Component:
    """An interferometer whose lower arm is 60 µm longer than the upper one, and by ``extra_nm`` besides."""
    top = gf.Component()
    split = top.add_ref(gf.get_component("mmi1x2"), name="split")
    join = top.add_ref(gf.get_component("mmi1x2"), name="join")
    join.dcplx_trans = gf.kdb.DCplxTrans(1.0, 180.0, True, 350.0, 0.0)
    for out, height, sign in (("o2", 60.0, 1), ("o3", 90.0 + extra_nm / 2000, -1)):
        middle = top.add_ref(gf.get_component("straight", length=100.0), name=f"middle_{out}")
        middle.move((125.0, sign * height))
        gf.routing.route_single(top, split[out], middle["o1"], cross_section="strip")
        gf.routing.route_single(top, join[out], middle["o2"], cross_section="strip")
    return fibres(top, west=split["o1"], east=join["o1"])


def ring(extra_nm: int) -> gf.Component:
    """An all-pass ring that is longer by ``extra_nm``."""
    top = gf.Component()
    cell = gf.get_component("ring_single", radius=15.0, gap=0.2, length_x=2.0, length_y=1.0 + extra_nm / 2000)
    inside = top.add_ref(cell, name="ring")
    return fibres(top, west=inside["o1"], east=inside["o2"])


def spiral(extra_nm: int) -> gf.Component:
    """A spiral and a straight that is longer by ``extra_nm``, between two fibres."""
    top = gf.Component()
    inside = top.add_ref(
        gf.components.spiral(length=100.0, cross_section="strip", spacing=6.0, n_loops=4), name="spiral"
    )
    ends = {}
    for name, port, height in (("west", inside["o1"], 40.0), ("east", inside["o2"], -87.0)):
        end = top.add_ref(
            gf.get_component("straight", length=20.0 + extra_nm * (name == "west") / 1000), name=f"to_{name}"
        )
        end.move((600.0, height))
        gf.routing.route_single(top, port, end["o1"], cross_section="strip")
        ends[name] = end["o2"]
    return fibres(top, **ends)


def checked(
    draw: Callable[[int], gf.Component], extra_nm: int, process: Process, folder: Path, tolerance: float | None = None
) -> tuple[Verification, PlacedCircuit]:
    """Verify a layout that is longer than its netlist."""
    get_pdk(process.name).activate()
    drawn, layout = draw(0), draw(extra_nm)
    layout.write_gds(folder / "layout.gds", with_metadata=False)
    placed = placed_circuit(drawn.get_netlist(recursive=True), process, str(drawn.name))
    return verify(folder / "layout.gds", placed, {}, BAND, process, lambda _: None, tolerance=tolerance), placed


def spectra_of(result: Verification) -> SpectrumComparison:
    assert result.spectra is not None, result.not_compared
    return result.spectra


@pytest.mark.full(every=4)
@pytest.mark.parametrize("extra_nm", [-100, -20, 6, 10, 20, 50, 100])
@pytest.mark.parametrize("draw", [mzi, ring, spiral])
def test_lengths_beyond_the_tolerance_are_found_and_others_change_little(
    draw: Callable[[int], gf.Component], extra_nm: int, tmp_path: Path
) -> None:
    process = load_process()
    result, placed = checked(draw, extra_nm, process, tmp_path)
    assert result.lvs is not None
    worst = max(result.lvs.lengths, key=lambda each: abs(each.deviation_um))
    # the netlist rounds the length of every bend
    allowed = float(length_tolerance_um(placed.circuit, process).max())
    assert worst.deviation_um == pytest.approx(extra_nm / 1000, abs=allowed / 2)
    beyond = abs(worst.deviation_um) > allowed
    assert beyond or abs(extra_nm) < 1500 * allowed
    assert result.lvs.match is result.passed is not beyond
    assert beyond or spectra_of(result).within


@pytest.mark.full(every=3)
@pytest.mark.parametrize("name", PROCESSES)
@pytest.mark.parametrize("draw", [mzi, ring])
def test_an_arm_and_a_ring_that_are_longer_fail_in_every_process(
    draw: Callable[[int], gf.Component], name: str, tmp_path: Path
) -> None:
    process = load_process(name)
    good = checked(draw, 0, process, tmp_path)[0]
    assert good.lvs is not None and good.lvs.match
    assert spectra_of(good).within
    # the phase of the ring is multiplied by its finesse
    bad = spectra_of(checked(draw, 100 if draw is mzi else 20, process, tmp_path)[0])
    assert not bad.within
    assert {bad.power.source, bad.power.output} == {"east", "west"}


def test_a_longer_arm_changes_power_and_phase_as_its_length_says(tmp_path: Path) -> None:
    process = load_process()
    spectra = spectra_of(checked(mzi, 40, process, tmp_path, tolerance=0.01)[0])
    shift = 0.04 * guide_phase_rad_per_um(process)
    # cos² of half the phase between the arms
    assert spectra.power.value == pytest.approx(math.sin(shift / 2), abs=0.03)
    assert spectra.phase.value == pytest.approx(shift / 2, abs=0.03)
    assert (spectra.tolerance, spectra.within) == ((0.01, 0.01), False)
    at = int(np.argmin(np.abs(spectra.wavelengths_nm - spectra.power.wavelength_nm)))
    change = abs(spectra.layout_power[at] - spectra.netlist_power[at]) / spectra.netlist_power.max()
    assert change == pytest.approx(spectra.power.value, rel=1e-6)


def link(lengths_um: tuple[float, ...] = (60.0,), bends: int = 0) -> Circuit:
    """Two grating couplers with a guide between them, and others like it."""
    instances: dict[str, Any] = {}
    connections, ports = {}, {}
    for number, length in enumerate(lengths_um):
        west, east, guide = f"west{number}", f"east{number}", f"guide{number}"
        instances |= {west: {"component": "grating_coupler"}, east: {"component": "grating_coupler"}}
        instances[guide] = {"component": "bend_euler" if bends else "straight", "info": {"length": length}}
        connections |= {f"{west},o1": f"{guide},o1", f"{guide},o2": f"{east},o1"}
        ports |= {west: f"{west},o2", east: f"{east},o2"}
    data = {"instances": instances, "connections": connections, "ports": ports}
    return placed_circuit(data, load_process(), "link").circuit


@pytest.mark.parametrize(("share", "within"), [(0.95, True), (1.05, False)])
def test_the_phase_is_bounded_by_the_tolerance(share: float, within: bool) -> None:
    process = load_process()
    longer = 60.0 + share * 0.1 / guide_phase_rad_per_um(process)
    result = compare_spectra(link(), link((longer,)), np.array([1550.0]), process, 0.1)
    assert result.within is within
    assert result.phase.value == pytest.approx(share * 0.1, rel=0.01)
    assert result.power.value < 1e-3
    assert result.wavelengths_nm.tolist() == [1550.0]


def test_more_is_accepted_where_the_tolerance_of_lengths_causes_more() -> None:
    process = load_process()
    guide = replace(link((60.0,), bends=1), net_bends=np.array([39]))
    for extra_um, within in ((0.039, True), (0.042, False)):
        result = compare_spectra(guide, link((60.0 + extra_um,)), BAND, process)
        assert result.phase.value > TOLERANCE
        assert result.within is within
        assert result.tolerance[1] == pytest.approx(0.04 * guide_phase_rad_per_um(process), rel=0.01)
        assert not compare_spectra(guide, link((60.0 + extra_um,)), BAND, process, TOLERANCE).within


def test_other_fibres_and_unknown_lengths_cannot_be_compared() -> None:
    process = load_process()
    with pytest.raises(InputError, match="east1"):
        compare_spectra(link(), link((60.0, 60.0)), BAND, process)
    with pytest.raises(InputError):
        compare_spectra(replace(link(), net_length_um=np.array([np.nan])), link(), BAND, process)
    with pytest.raises(InputError, match="states no lengths"):
        compare_spectra(replace(link(), net_length_um=np.zeros(0)), link(), BAND, process)


def test_wavelengths_resolve_the_longest_guide_and_are_bounded() -> None:
    process = load_process()
    few, many = (comparison_wavelengths(link((length,)), BAND, process)[0] for length in (100.0, 5_000.0))
    assert len(few) == FEWEST_POINTS
    fringe = 1550.0**2 / (float(process.guide.group_index) * 5e6)
    assert np.diff(many).max() < fringe / 15
    assert (many[0], many[-1]) == (1545.0, 1555.0)
    circuit = link((5_000.0,) * 300)
    bounded, resolving = comparison_wavelengths(circuit, BAND, process)
    assert LEAST_POINTS <= len(bounded) <= max(MOST_CASES // len(circuit.instances), LEAST_POINTS)
    assert (bounded[0], bounded[-1]) == (1545.0, 1555.0) and resolving == len(many) > len(bounded)
    assert comparison_wavelengths(circuit, np.array([1550.0]), process)[0].tolist() == [1550.0]


def test_the_command_prints_and_bounds_the_deviation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    get_pdk().activate()
    drawn, layout = mzi(0), mzi(2)
    layout.write_gds(tmp_path / "mzi.gds", with_metadata=False)
    drawn.write_netlist(drawn.get_netlist(recursive=True), tmp_path / "mzi.pic.yml")
    command = ["verify", str(tmp_path / "mzi.gds"), str(tmp_path / "mzi.pic.yml"), "--top", str(drawn.name)]
    codes, printed = [], []
    for more in ([], ["--tolerance", "0.001"], ["--tolerance", "-1"]):
        monkeypatch.setattr(sys, "argv", ["optinc", *command, *more])
        with pytest.raises(SystemExit) as end:
            main()
        codes.append(end.value.code)
        printed.append(capsys.readouterr().out)
    assert codes == [0, 1, 2]
    assert "function  power deviates by" in printed[0]
    assert "function: power deviates by" in printed[1]
    numbers = json.loads((tmp_path / "mzi.verify.json").read_text())
    assert numbers["function"]["phase_rad"]["value"] > 0.001 == numbers["function"]["phase_rad"]["tolerance"]
    assert numbers["function"]["within"] is False
    assert {each["what"] for each in numbers["lvs"]["lengths"]} == {"guides"}
    page = (tmp_path / "mzi.verify.html").read_text()
    assert "Function against netlist" in page
    assert "Transmission of netlist and layout" in page
