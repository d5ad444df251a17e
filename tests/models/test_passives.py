"""Passives, modulators and photodiodes: reciprocity, passivity, and the meaning of the cards' numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.cards import load_process
from optinc_pdk.models import (
    coupler,
    crossing,
    device_s,
    directional_coupler,
    edge_coupler,
    effective_index,
    grating_coupler,
    guide,
    guide_transmission,
    modulator,
    phase_shifter,
    photodiode,
    splitter,
    taper,
    terminator,
)

GUIDE = {"index": 2.35, "group_index": 4.29, "reference_nm": 1550.0, "loss_db_per_cm": 3.0}
LOSSLESS = GUIDE | {"loss_db_per_cm": 0.0}


def test_group_index_is_that_of_the_card():
    around = np.array([1549.999, 1550.001])
    below, above = effective_index(around, 2.35, 4.29, 1550.0)
    slope = (above - below) / 0.002
    assert 2.35 - 1550.0 * slope == pytest.approx(4.29)


def test_loss_and_phase_of_a_centimetre():
    t = guide_transmission(1e4, 1550.0, **GUIDE)
    assert -20 * np.log10(abs(t)) == pytest.approx(3.0)
    quarter = guide_transmission(1.55 / 2.35 / 4, 1550.0, **LOSSLESS)
    assert quarter == pytest.approx(1j)


@given(st.floats(0.0, 1e4), st.floats(0.0, 1e4))
def test_guides_in_series_add(a, b):
    whole = guide_transmission(a + b, WAVELENGTHS, **GUIDE)
    parts = guide_transmission(a, WAVELENGTHS, **GUIDE) * guide_transmission(b, WAVELENGTHS, **GUIDE)
    assert whole == pytest.approx(parts, abs=1e-8)


def test_guide_is_reciprocal_passive_and_lossless_at_zero_loss():
    s = guide(123.0, WAVELENGTHS, **GUIDE)
    assert s.shape == (3, 2, 2)
    assert np.array_equal(s, np.swapaxes(s, -1, -2))
    assert np.linalg.norm(s, 2, axis=(-2, -1)).max() < 1.0
    s = guide(123.0, WAVELENGTHS, **LOSSLESS)
    assert np.swapaxes(s, -1, -2).conj() @ s == pytest.approx(np.broadcast_to(np.eye(2), (3, 2, 2)))


@given(st.floats(0.0, 7.0))
def test_a_heater_adds_its_phase_and_no_loss(phase):
    bare = guide_transmission(100.0, 1550.0, **GUIDE)
    s = phase_shifter(bare, phase)
    assert s[1, 0] == s[0, 1] == pytest.approx(bare * np.exp(1j * phase))
    assert abs(phase_shifter(bare, phase, 3.0)[1, 0]) == pytest.approx(abs(bare) * 10 ** (-3 / 20))


def test_parameters_broadcast():
    lengths = np.array([[10.0], [20.0]])
    assert guide(lengths, WAVELENGTHS, **GUIDE).shape == (2, 3, 2, 2)
    assert phase_shifter(np.ones(3), np.zeros((4, 1))).shape == (4, 3, 2, 2)


PROCESS = load_process()
WAVELENGTHS = np.array([1500.0, 1550.0, 1600.0])
LOSSES = st.floats(0.1, 10.0)
REFLECTIONS = st.floats(-80.0, -40.0)


def assert_reciprocal_and_passive(s, ports):
    assert s.shape == (WAVELENGTHS.size, ports, ports)
    assert np.array_equal(s, np.swapaxes(s, -1, -2))
    assert np.linalg.norm(s, 2, axis=(-2, -1)).max() <= 1.0 + 1e-12


@given(LOSSES, st.floats(0.0, 1.0), st.floats(-0.005, 0.005), REFLECTIONS)
def test_directional_coupler(loss_db, cross, slope_per_nm, reflection_db):
    s = directional_coupler(WAVELENGTHS, loss_db, cross, 1550.0, slope_per_nm, reflection_db)
    assert_reciprocal_and_passive(s, 4)
    power = np.abs(s) ** 2
    assert power[:, 2, 1] + power[:, 3, 1] == pytest.approx(np.full(3, 10 ** (-loss_db / 10)))
    assert power[1, 3, 1] == pytest.approx(cross * 10 ** (-loss_db / 10), abs=1e-12)
    assert not s[:, 0, 1].any()


def test_the_card_gives_siepics_cross_power():
    s = device_s(PROCESS, "directional_coupler", [1510.0, 1550.0, 1590.0])
    power = np.abs(s[:, :, 1]) ** 2
    assert power[:, 3] / (power[:, 2] + power[:, 3]) == pytest.approx([0.37, 0.5, 0.63], abs=2e-3)


def test_a_tap_takes_its_cards_share():
    power = np.abs(device_s(PROCESS, "monitor_tap", 1550.0)[0, :, 1]) ** 2
    assert power[3] / (power[2] + power[3]) == pytest.approx(PROCESS.device("monitor_tap").parameter("cross"))


@given(st.floats(0.1, 3.0), st.floats(-60.0, -30.0), st.floats(-80.0, -50.0))
def test_crossing(loss_db, crosstalk_db, reflection_db):
    s = crossing(WAVELENGTHS, loss_db, crosstalk_db, reflection_db)
    assert_reciprocal_and_passive(s, 4)
    power = 10 * np.log10(np.abs(s[0]) ** 2)
    assert power[2, 0] == power[3, 1] == pytest.approx(-loss_db)
    assert power[1, 0] == power[3, 0] == power[2, 1] == pytest.approx(crosstalk_db)


@given(LOSSES, REFLECTIONS)
def test_tapers(loss_db, reflection_db):
    wide, edge = taper(WAVELENGTHS, loss_db), edge_coupler(WAVELENGTHS, loss_db, reflection_db)
    for s in (wide, edge):
        assert_reciprocal_and_passive(s, 2)
        assert np.abs(s[:, 1, 0]) ** 2 == pytest.approx(np.full(3, 10 ** (-loss_db / 10)))
    assert np.abs(edge[:, 0, 0]) ** 2 == pytest.approx(np.full(3, 10 ** (reflection_db / 10)))
    assert not edge[:, 1, 1].any()


@pytest.mark.parametrize(
    ("model", "arguments"),
    [
        (directional_coupler, (0.0, 0.5, 1550.0, 0.004, -40.0)),
        (crossing, (0.0, -30.0, -60.0)),
        (taper, (-0.1,)),
        (edge_coupler, (0.0, -30.0)),
        (coupler, (0.0, 0.0, -40.0)),
        (splitter, (0.01, 0.0, -30.0)),
        (grating_coupler, (0.0, 30.0, 1550.0, -30.0)),
        (terminator, (1.0,)),
        (modulator, (-0.1, -40.0)),
        (modulator, (np.nan, -40.0)),
    ],
)
def test_gain_is_refused(model, arguments):
    with pytest.raises(ValueError, match="loss_db"):
        model(1550.0, *arguments)


@pytest.mark.parametrize(
    ("cross", "reason"), [(-0.01, r"cross is .* 0 … 1"), (1.01, r"cross is .* 0 … 1"), (np.nan, "cross = nan")]
)
def test_cross_power_beyond_one_is_refused(cross, reason):
    with pytest.raises(ValueError, match=reason):
        directional_coupler(1550.0, 0.14, cross, 1550.0, 0.004, -40.0)


IMBALANCES = st.floats(-1.0, 1.0)
NO_REFLECTION = -np.inf


@given(LOSSES, IMBALANCES, REFLECTIONS)
def test_coupler(loss_db, imbalance, reflection_db):
    s = coupler(WAVELENGTHS, loss_db, imbalance, reflection_db)
    assert_reciprocal_and_passive(s, 4)
    bar, cross = np.abs(s[0, 2, 1]) ** 2, np.abs(s[0, 3, 1]) ** 2
    assert bar + cross == pytest.approx(10 ** (-loss_db / 10))
    assert (bar - cross) / (bar + cross) == pytest.approx(imbalance, abs=1e-9)
    assert np.abs(s[0, 0, 0]) ** 2 == pytest.approx(10 ** (reflection_db / 10))
    assert s[0, 0, 1] == s[0, 2, 3] == 0.0


@given(LOSSES, IMBALANCES, REFLECTIONS)
def test_splitter(loss_db, imbalance, reflection_db):
    s = splitter(WAVELENGTHS, loss_db, imbalance, reflection_db)
    assert_reciprocal_and_passive(s, 3)
    upper, lower = np.abs(s[0, 1, 0]) ** 2, np.abs(s[0, 2, 0]) ** 2
    assert upper + lower == pytest.approx(10 ** (-loss_db / 10))
    assert (upper - lower) / (upper + lower) == pytest.approx(imbalance, abs=1e-9)


@given(LOSSES, st.floats(5.0, 80.0), st.floats(1540.0, 1560.0), REFLECTIONS)
def test_grating_coupler(loss_db, bandwidth_nm, center_nm, reflection_db):
    assert_reciprocal_and_passive(grating_coupler(WAVELENGTHS, loss_db, bandwidth_nm, center_nm, reflection_db), 2)
    edges = np.array([center_nm - bandwidth_nm / 2, center_nm, center_nm + bandwidth_nm / 2])
    power = np.abs(grating_coupler(edges, loss_db, bandwidth_nm, center_nm, reflection_db)[:, 1, 0]) ** 2
    assert power == pytest.approx(10 ** (-loss_db / 10) * np.array([0.5, 1.0, 0.5]))


@given(st.floats(-80.0, 0.0))
def test_terminator(reflection_db):
    s = terminator(WAVELENGTHS, reflection_db)
    assert_reciprocal_and_passive(s, 1)
    assert np.abs(s[:, 0, 0]) ** 2 == pytest.approx(10 ** (reflection_db / 10))


@given(IMBALANCES)
def test_lossless_coupler_is_unitary(imbalance):
    s = coupler(1550.0, 0.0, imbalance, NO_REFLECTION)
    assert s.conj().T @ s == pytest.approx(np.eye(4), abs=1e-12)


def test_even_coupler_is_the_one_of_the_mesh():
    s = coupler(1550.0, 0.0, 0.0, NO_REFLECTION)
    # upper and lower guide: in o2, o1, out o3, o4
    assert s[np.ix_([2, 3], [1, 0])] == pytest.approx(np.array([[1, 1j], [1j, 1]]) / np.sqrt(2))


@pytest.mark.parametrize("imbalance", [1.1, -2.0, np.nan])
def test_imbalance_beyond_one_is_refused(imbalance):
    with pytest.raises(ValueError, match="imbalance"):
        coupler(1550.0, 0.3, imbalance, -40.0)


def test_a_photodiode_has_its_cards_reflection():
    s = device_s(PROCESS, "photodiode", WAVELENGTHS)
    card = PROCESS.device("photodiode")
    assert np.abs(s[:, 0, 0]) ** 2 == pytest.approx(10 ** (card.parameter("reflection_db") / 10))
    assert np.array_equal(s, photodiode(WAVELENGTHS, card.parameter("reflection_db")))


@pytest.mark.parametrize("amplitude", [1.0, 0.25, 0.0, -1.0])
def test_a_modulator_transmits_its_amplitude(amplitude):
    s = device_s(PROCESS, "modulator", WAVELENGTHS, amplitude=amplitude)
    best = 10 ** (-PROCESS.device("modulator").parameter("loss_db") / 20)
    assert s[:, 1, 0] == pytest.approx(np.full(3, best * amplitude))
    assert np.array_equal(s, np.swapaxes(s, -1, -2))
    assert np.abs(s[:, 0, 0]) ** 2 == pytest.approx(10 ** (PROCESS.device("modulator").parameter("reflection_db") / 10))


def test_a_modulator_is_open_unless_driven_and_takes_one_amplitude_per_wavelength():
    assert np.array_equal(
        device_s(PROCESS, "modulator", WAVELENGTHS), device_s(PROCESS, "modulator", WAVELENGTHS, amplitude=1.0)
    )
    assert modulator(WAVELENGTHS, 0.0, -np.inf, [1.0, 0.5, -0.5])[:, 0, 1].tolist() == [1.0, 0.5, -0.5]


@pytest.mark.parametrize("amplitude", [1.01, -2.0, np.nan])
def test_amplitudes_beyond_one_are_refused(amplitude):
    with pytest.raises(ValueError, match=r"amplitude (is|=) "):
        modulator(1550.0, 5.0, -40.0, amplitude)
