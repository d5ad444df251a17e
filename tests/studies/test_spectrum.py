"""Wavelength sweeps: windows checked with every word at their ends, and reports of chips without a window."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.assemble import assemble
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Quantity, load_process
from optinc_pdk.circuit import flatten
from optinc_pdk.errors import InputError
from optinc_pdk.networks import carry_chain
from optinc_pdk.signoff.function import check_function, check_scattering
from optinc_pdk.simulate import UnsettledError, analyse, program
from optinc_pdk.studies.spectrum import (
    LIGHT_NM_GHZ,
    SweptChip,
    WavelengthPoint,
    WavelengthRange,
    WavelengthWindow,
    find_window,
    model_range,
    sweep,
    sweep_wavelength,
)
from optinc_pdk.studies.spectrum.sweep_report import (
    drift_ghz,
    spectrum_csv,
    spectrum_json,
    spectrum_lines,
    spectrum_png,
)

PROCESS = load_process()
GRID = np.array([1549.0, 1550.0, 1551.0])
RESOLUTION_NM = 1e-5


def subject_of(scale_um=300.0, process=PROCESS, task=None):
    """A chip with random waveguide lengths between MZIs and equal arms inside them, programmed at 1550 nm."""
    onn = carry_chain(task or Averaging(2, 4, 1))
    circuit = assemble(onn, process, "chip")
    flat = flatten(circuit)
    rng = np.random.default_rng(3)
    owner = np.repeat(np.arange(len(flat.instances)), np.diff(flat.offset))[flat.nets]
    parent = np.array([name.rpartition(".")[0] for name in flat.instances])[owner]
    inside = (parent[:, 0] == parent[:, 1]) & (parent[:, 0] != "")
    heated = flat.instances_of("phase_shifter")
    settings = {key: np.full(len(flat.instances), np.nan) for key in ("resistance_ohm", "wire_ohm")}
    settings["resistance_ohm"][heated], settings["wire_ohm"][heated] = 1100.0, 80.0
    lengths = np.where(inside, 30.0, rng.uniform(30.0, 30.0 + scale_um, len(flat.nets)))
    flat = replace(flat, settings=settings, net_length_um=lengths)
    bias = program(flat, circuit.board, onn, process).bias
    return SweptChip(flat, circuit.board, bias, onn, process)


@pytest.fixture(scope="module")
def subject():
    return subject_of()


def found_of(subject, grid=GRID, channels=3, progress=None):
    return sweep_wavelength(
        subject, grid, resolution_nm=RESOLUTION_NM, channels=channels, spacing_ghz=100.0, progress=progress
    )


@pytest.fixture(scope="module")
def reports():
    return []


@pytest.fixture(scope="module")
def found(subject, reports):
    return found_of(subject, progress=lambda *done: reports.append(done))


def moved(process, wavelength_nm):
    """Return the process with another carrier wavelength and the same waveguides."""
    guide = process.guide
    index = guide.index + (guide.index - guide.group_index) / guide.wavelength_nm * (
        wavelength_nm - guide.wavelength_nm
    )
    changes = {"wavelength_nm": Quantity(wavelength_nm, "test"), "index": Quantity(float(index), "test")}
    return process.model_copy(update={"guide": guide.model_copy(update=changes)})


def exact(subject, bias, wavelength_nm):
    """Return whether the function check of a build passes; its carrier is the process wavelength."""
    process = moved(subject.process, wavelength_nm)
    return check_function(subject.circuit, subject.board, bias, subject.onn.task, process).passed


def test_every_word_is_exact_at_the_windows_ends_and_not_beyond(subject, found):
    window = found.fixed_window
    assert window.low_nm < 1550.0 < window.high_nm
    for end, out in ((window.low_nm, -1.0), (window.high_nm, 1.0)):
        assert exact(subject, subject.bias, end)
        assert not exact(subject, subject.bias, end + out * RESOLUTION_NM)
    assert window.drift_nm(1550.0) == min(1550.0 - window.low_nm, window.high_nm - 1550.0)
    assert window.to_limit == (False, False)


def test_a_bias_for_the_wavelength_is_exact_where_the_fixed_one_is_not(subject, found):
    assert [point.wavelength_nm for point in found.rebiased] == GRID.tolist()
    assert all(point.passed and point.margin > 0.05 for point in found.rebiased)
    fixed = {point.wavelength_nm: point for point in found.fixed}
    assert not fixed[1549.0].passed and not fixed[1551.0].passed and fixed[1549.0].margin < 0.0
    bias = program(subject.circuit, subject.board, subject.onn, subject.process, 1551.0).bias
    assert exact(subject, bias, 1551.0)
    window = found.rebiased_window
    assert (window.low_nm, window.high_nm, window.to_limit) == (1549.0, 1551.0, (True, True))
    assert "both ends" in spectrum_lines(found)[-2] and "table" in spectrum_lines(found)[-2]
    one_end = replace(found, rebiased_window=replace(window, to_limit=(False, True)))
    assert "its high end is" in spectrum_lines(one_end)[-2]


def test_channels_are_on_their_grid_and_each_needs_a_chip(found):
    frequency = LIGHT_NM_GHZ / np.array([channel.wavelength_nm for channel in found.channels])
    assert np.diff(frequency) == pytest.approx([-100.0, -100.0])
    assert found.channels[1].wavelength_nm == pytest.approx(1550.0)
    assert (found.served, found.shared) == (3, 1)
    assert (
        "all 3 are exact" in spectrum_lines(found)[-1] and "fixed bias is exact for 1 of 3" in spectrum_lines(found)[-1]
    )


@pytest.mark.usefixtures("found")
def test_progress_counts_to_its_end(reports):
    last = {what: (done, total) for what, done, total in reports}
    assert set(last) == {"fixed bias", "matched fibres", "rebiased", "channels"}
    assert last["rebiased"] == (3, 3) and last["channels"] == (3, 3)


def test_fibres_matched_to_the_oscillators_widen_the_window(subject, found):
    """Waveguides behind the fibres delay the signals by 300 ps; shorter fibres compensate for it."""
    longer = with_fibres(subject, [300.0] * len(found.delays_ps))
    bias = program(longer, subject.board, subject.onn, subject.process).bias
    late = found_of(replace(subject, circuit=longer, bias=bias), GRID[1:2], channels=1)
    assert len(found.delays_ps) == subject.board.layers - 1
    assert np.array(late.delays_ps) == pytest.approx(np.array(found.delays_ps) - 300.0, abs=1.0)
    assert late.fixed_window.width_nm < 0.5 * found.fixed_window.width_nm
    assert late.matched_window.width_nm == pytest.approx(found.matched_window.width_nm, rel=0.1)
    assert " by -" in spectrum_lines(late)[2]


def with_fibres(subject, delays_ps):
    """Return the circuit with waveguides behind its fibres that delay the signals of each layer."""
    flat, lengths = subject.circuit, subject.circuit.net_length_um.copy()
    net = {port: number for number, pair in enumerate(flat.nets.tolist()) for port in pair}
    sources = [[label for row in subject.board.inputs for label in row]]
    sources += [[n.to for n in subject.board.neurons if n.layer == i] for i in range(subject.board.layers - 2)]
    for names, delay in zip(sources, delays_ps, strict=True):
        for name in names:
            instance = int(np.searchsorted(flat.offset, flat.ports[name], side="right")) - 1
            (inner,) = {*range(flat.offset[instance], flat.offset[instance + 1])} & net.keys()
            lengths[net[inner]] += delay * LIGHT_NM_GHZ * 1e-6 / float(subject.process.guide.group_index)
    return replace(flat, net_length_um=lengths)


def test_longer_guides_make_the_window_narrower(found):
    other = found_of(subject_of(1200.0), GRID[1:2], channels=1)
    assert other.fixed_window.width_nm < 0.6 * found.fixed_window.width_nm


def test_wavelengths_beyond_the_range_of_electronics_or_models_are_reported():
    card = PROCESS.device("grating_coupler")
    narrow = {**card.model.parameters, "bandwidth_3db_nm": Quantity(5.0, "test")}
    card = card.model_copy(update={"model": card.model.model_copy(update={"parameters": narrow})})
    process = PROCESS.model_copy(update={"devices": {**PROCESS.devices, "grating_coupler": card}})
    found = sweep_wavelength(
        subject_of(process=process), np.array([1550.0, 1570.0]), resolution_nm=0.1, channels=3, spacing_ghz=10_000.0
    )
    assert found.rebiased[0].passed
    assert not found.rebiased[1].passed and "gain" in found.rebiased[1].fault
    assert 1550.0 < found.rebiased_window.high_nm < 1570.0
    assert found.rebiased_window.resolution_nm == 20.0 / 32.0
    assert found.rebiased_window.to_limit == (True, False)
    assert np.isnan(found.rebiased[1].margin) and spectrum_json(found)["rebiased"][1]["margin_levels"] is None
    assert [("1500 … 1600 nm" in channel.fault) for channel in found.channels] == [True, False, True]
    assert found.served == 1


def test_a_wavelength_beyond_the_models_is_refused_with_their_names(subject):
    with pytest.raises(InputError, match=r"1601 nm: .*1500 … 1600 nm \(\w+, \w+\)"):
        found_of(subject, np.array([1550.0, 1601.0]))
    with pytest.raises(InputError, match=" 0 channels"):
        found_of(subject, channels=0)


def test_the_narrowest_model_limits_the_range(subject):
    card = PROCESS.device("mmi2x2")
    card = card.model_copy(update={"limits": {**card.limits, "wavelength_max_nm": Quantity(1560.0, "test")}})
    process = PROCESS.model_copy(update={"devices": {**PROCESS.devices, "mmi2x2": card}})
    found = model_range(analyse(subject.circuit), process)
    assert (found.low_nm, found.high_nm, found.high_by) == (1500.0, 1560.0, "mmi2x2")


def test_a_wrong_bias_has_no_window(subject):
    turned = replace(subject, bias=replace(subject.bias, code=subject.bias.code // 2))
    found = found_of(turned, GRID[1:2], channels=1)
    assert found.fixed_window is None and found.shared == 0
    assert found.rebiased_window is not None
    lines = spectrum_lines(found)
    assert lines[1].startswith("bias fixed: not exact at its own carrier, 1550 nm")
    # a grid of one wavelength has no ends to search for
    assert any(line.startswith("rebiased: exact from 1550 to 1550 nm; ") for line in lines)
    assert spectrum_json(found)["fixed_window"] is None
    assert spectrum_png(found, "chip").startswith(b"\x89PNG")


def test_a_window_narrower_than_the_resolution_asks_for_a_finer_one(found):
    narrow = replace(found, fixed_window=WavelengthWindow(1550.0, 1550.0, 1.0, (False, False)))
    line = spectrum_lines(narrow)[1]
    assert "1550 nm" in line and "1000 pm" in line and "--resolution" in line


def test_light_that_does_not_settle_is_reported_and_the_sweep_continues(subject, monkeypatch):
    def unsettled(light, *more, **named):
        if light.wavelengths_nm[0] == 1549.0:
            raise UnsettledError(1e-3)
        return check_scattering(light, *more, **named)

    monkeypatch.setattr(sweep, "check_scattering", unsettled)
    found = found_of(subject, channels=1)
    first, *others = [point.fault for point in found.rebiased]
    assert first.startswith("light does not settle") and others == ["", ""]
    assert found.fixed_window is not None


def test_on_chip_modulators_have_no_fibres_to_match():
    process = load_process("soi220_onchip")
    found = found_of(subject_of(process=process, task=Averaging(4, 2, 2)), GRID[1:2], channels=1)
    assert found.by_fibre == (True, False, False)
    (line,) = (line for line in spectrum_lines(found) if "fibre" in line)
    assert "in front of l0" in line and "l1" not in line


def test_windows_end_at_the_models_limits_or_at_the_first_wrong_word():
    models = WavelengthRange(1500.0, 1600.0, "a", "b")

    def everywhere(wavelength_nm):
        return WavelengthPoint(wavelength_nm, 1, 1, 0.1)

    window = find_window(everywhere, 1550.0, 0.3, models)
    assert (window.low_nm, window.high_nm, window.to_limit) == (1500.0, 1600.0, (True, True))

    def up_to(wavelength_nm):
        return WavelengthPoint(wavelength_nm, 1, int(wavelength_nm < 1553.21), 0.1)

    window = find_window(up_to, 1550.0, 1e-3, models)
    assert window.to_limit == (True, False)
    assert 1553.209 <= window.high_nm < 1553.21


def test_the_csv_has_a_line_for_every_point(found):
    rows = list(csv.DictReader(spectrum_csv(found).splitlines()))
    assert len(rows) == sum(len(p) for p in (found.fixed, found.matched, found.rebiased, found.channels))
    rebiased = [row for row in rows if row["bias"] == "rebiased"]
    assert [float(row["wavelength_nm"]) for row in rebiased] == GRID.tolist()
    assert [row["accuracy"] for row in rebiased] == ["1.0"] * 3
    assert spectrum_png(found, "chip").startswith(b"\x89PNG")
    assert spectrum_json(found)["fixed_window"]["drift_ghz"] == pytest.approx(
        LIGHT_NM_GHZ / (1550.0 - found.fixed_window.drift_nm(1550.0)) - LIGHT_NM_GHZ / 1550.0, rel=1e-3
    )
    assert drift_ghz(0.8, 1550.0) == pytest.approx(99.8, abs=0.1)
