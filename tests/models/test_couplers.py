"""Couplers, splitters, gratings, terminators: reciprocity, passivity, and the meaning of the cards' numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.models import coupler, grating_coupler, splitter, terminator

WAVELENGTHS = np.array([1500.0, 1550.0, 1600.0])
LOSSES = st.floats(0.1, 10.0)
IMBALANCES = st.floats(-1.0, 1.0)
REFLECTIONS = st.floats(-80.0, -40.0)
NO_REFLECTION = -np.inf


def assert_reciprocal_and_passive(s, ports):
    assert s.shape == (WAVELENGTHS.size, ports, ports)
    assert np.array_equal(s, np.swapaxes(s, -1, -2))
    assert np.linalg.norm(s, 2, axis=(-2, -1)).max() <= 1.0 + 1e-12


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


@pytest.mark.parametrize(
    ("model", "arguments"),
    [
        (coupler, (0.0, 0.0, -40.0)),
        (splitter, (0.01, 0.0, -30.0)),
        (grating_coupler, (0.0, 30.0, 1550.0, -30.0)),
        (terminator, (1.0,)),
    ],
)
def test_gain_is_refused(model, arguments):
    with pytest.raises(ValueError, match="loss_db"):
        model(1550.0, *arguments)


@pytest.mark.parametrize("imbalance", [1.1, -2.0, np.nan])
def test_imbalance_beyond_one_is_refused(imbalance):
    with pytest.raises(ValueError, match="imbalance"):
        coupler(1550.0, 0.3, imbalance, -40.0)
