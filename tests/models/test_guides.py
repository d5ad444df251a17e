"""Guides and phase shifters: index, dispersion, loss, heater phase."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.models import effective_index, guide, guide_transmission, phase_shifter

GUIDE = {"index": 2.35, "group_index": 4.29, "reference_nm": 1550.0, "loss_db_per_cm": 3.0}
LOSSLESS = GUIDE | {"loss_db_per_cm": 0.0}
WAVELENGTHS = np.array([1520.0, 1550.0, 1580.0])


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
