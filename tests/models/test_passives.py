"""Directional couplers, crossings and tapers: reciprocity, passivity, and the meaning of the cards' numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.cards import load_process
from optinc_pdk.models import crossing, device_s, directional_coupler, edge_coupler, taper

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
