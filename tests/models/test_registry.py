"""S-matrices of devices by their cards, and errors."""

from __future__ import annotations

import numpy as np
import pytest

from optinc_pdk.assemble._component_library import device_types
from optinc_pdk.cards import CardError, load_process
from optinc_pdk.cards.device_models import SETTINGS
from optinc_pdk.circuit import Circuit, CircuitBuilder
from optinc_pdk.models import MODELS, ModelError, device_s, instances_s, net_transmission, sampled_s

PROCESS = load_process()
OPTICAL = sorted(name for name, device in PROCESS.devices.items() if device.ports.optical)
# Devices whose card has no dimensions; tests/models/test_coupled_guides.py and the tests below cover them.
FIXED = [name for name in OPTICAL if PROCESS.devices[name].model.name not in SETTINGS]
WAVELENGTHS = np.array([1500.0, 1550.0, 1600.0])


@pytest.mark.parametrize("name", FIXED)
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
    with pytest.raises(ModelError, match=r"'p'.*device 'pad' has no model.*pad.yml"):
        device_s(PROCESS, "pad", 1550.0, instance="p")


@pytest.mark.parametrize("name", FIXED)
def test_samples_at_the_cards_values_are_the_cards_device(name):
    values = {key: np.full(3, float(value)) for key, value in PROCESS.devices[name].model.parameters.items()}
    s = sampled_s(PROCESS, name, WAVELENGTHS, values, np.full((3, 3), 0.7) if name == "phase_shifter" else 0.0)
    expected = device_s(PROCESS, name, WAVELENGTHS, 0.7 if name == "phase_shifter" else 0.0)
    assert s.shape == (3, 3, *expected.shape[1:])
    assert np.abs(s - expected[:, np.newaxis]).max() < 1e-15
    assert sampled_s(PROCESS, name, WAVELENGTHS, {}).shape == (3, 1, *expected.shape[1:])


def test_samples_differ_where_their_parameters_do():
    s = sampled_s(PROCESS, "mmi2x2", 1550.0, {"imbalance": np.array([0.0, 0.2]), "loss_db": np.array([0.3, 1.0])})
    share = np.abs(s[0, :, 2, 1]) ** 2
    assert share == pytest.approx([0.5 * 10**-0.03, 0.6 * 10**-0.1])


def test_samples_of_unknown_parameters_are_refused():
    with pytest.raises(CardError, match=r"'mmi2x2': model has no 'cross'; .* loss_db, imbalance"):
        sampled_s(PROCESS, "mmi2x2", 1550.0, {"cross": np.zeros(2)})
    with pytest.raises(ModelError, match=r"1400 nm .*'mmi2x2'"):
        sampled_s(PROCESS, "mmi2x2", 1400.0, {"imbalance": np.zeros(2)})
    with pytest.raises(ValueError, match="loss_db"):
        sampled_s(PROCESS, "mmi2x2", 1550.0, {"loss_db": np.zeros(2)})


def couplers(**second: float) -> Circuit:
    """A circuit of two couplers and a splitter, of which the second coupler has given settings."""
    builder = CircuitBuilder("pair", device_types(PROCESS))
    builder.add(
        "a", "coupler", gap_um=0.2, coupled_length_um=5.0, path_difference_um=0.0, guide_1_um=20.0, guide_2_um=30.0
    )
    builder.add("m", "mmi1x2")
    builder.add("b", "coupler", **second)
    return builder.build()


def test_instances_with_settings_have_their_own_s_matrices():
    circuit = couplers(gap_um=0.3, coupled_length_um=10.0, path_difference_um=0.0, guide_1_um=20.0, guide_2_um=30.0)
    s = instances_s(PROCESS, "coupler", WAVELENGTHS, circuit, circuit.instances_of("coupler"))
    assert s.shape == (3, 2, 4, 4)
    angle = PROCESS.device("coupler").parameter("coupling_per_um") * np.array([5.0, 10.0])
    assert np.abs(s[1, :, 2, 0] / s[1, :, 3, 0]) == pytest.approx(
        np.tan(angle) * np.abs(net_transmission(PROCESS, 5.0, 1550.0)), rel=1e-12
    )
    equal = instances_s(PROCESS, "mmi1x2", WAVELENGTHS, circuit, circuit.instances_of("mmi1x2"))
    assert np.array_equal(equal[:, 0], device_s(PROCESS, "mmi1x2", WAVELENGTHS))


@pytest.mark.parametrize("length", [None, -1.0, np.inf])
def test_a_setting_that_is_missing_or_no_length_names_the_instance(length):
    settings = {} if length is None else {"guide_2_um": length}
    circuit = couplers(gap_um=0.3, coupled_length_um=10.0, path_difference_um=0.0, guide_1_um=20.0, **settings)
    with pytest.raises(ModelError, match=r"'b' of 'coupler'.*guide_2_um"):
        instances_s(PROCESS, "coupler", WAVELENGTHS, circuit, circuit.instances_of("coupler"))
