"""From cards to S-matrices, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.models import MODELS, ModelError, device_s, net_transmission

PROCESS = load_process()
OPTICAL = sorted(name for name, device in PROCESS.devices.items() if device.ports.optical)
WAVELENGTHS = np.array([1500.0, 1550.0, 1600.0])


@pytest.mark.parametrize("name", OPTICAL)
def test_every_optical_device_is_reciprocal_and_passive(name):
    s = device_s(PROCESS, name, WAVELENGTHS)
    ports = len(PROCESS.devices[name].ports.optical)
    assert s.shape == (3, ports, ports)
    assert np.array_equal(s, np.swapaxes(s, -1, -2))
    assert np.linalg.norm(s, 2, axis=(-2, -1)).max() <= 1.0


def test_every_model_has_a_device():
    assert {PROCESS.devices[name].model.name for name in OPTICAL} == set(MODELS)


def test_phase_shifter_is_a_guide_with_heat():
    s = device_s(PROCESS, "phase_shifter", 1550.0, 1.0)
    bare = net_transmission(PROCESS, PROCESS.device("phase_shifter").size("length_um"), 1550.0)
    assert s[0, 1, 0] == pytest.approx(bare * np.exp(1j))


@pytest.mark.parametrize("wavelength", [1499.0, 1601.0, np.nan])
def test_wavelength_outside_the_card_names_instance_value_and_range(wavelength):
    with pytest.raises(ModelError, match=rf"'c7'.*{wavelength:g} nm.*'mmi2x2'.*1500 … 1600"):
        device_s(PROCESS, "mmi2x2", [1550.0, wavelength], instance="c7")


def test_unknown_device_is_refused():
    with pytest.raises(ModelError, match=r"'x'.*no device 'ring'.*mmi2x2"):
        device_s(PROCESS, "ring", 1550.0, instance="x")


def test_device_without_model_is_refused():
    with pytest.raises(ModelError, match=r"'p'.*device 'pad' names the model 'none'"):
        device_s(PROCESS, "pad", 1550.0, instance="p")
