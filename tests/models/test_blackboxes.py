"""Photodiode and modulator."""

from __future__ import annotations

import numpy as np
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.models import device_s, modulator, photodiode

PROCESS = load_process()
WAVELENGTHS = np.array([1500.0, 1550.0, 1600.0])


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


@pytest.mark.parametrize("loss_db", [-0.1, np.nan])
def test_gain_is_refused(loss_db):
    with pytest.raises(ValueError, match="loss_db"):
        modulator(1550.0, loss_db, -40.0)
