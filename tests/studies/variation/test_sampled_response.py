"""Response of samples to voltages: DAC steps, grounds, heaters, thermal crosstalk, and other wavelengths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.errors import InputError
from optinc_pdk.models import guide_transmission
from optinc_pdk.simulate import scattering
from optinc_pdk.studies import chip_of, draw_sample, sample_phases, sample_scattering, sample_scatterings
from optinc_pdk.studies.variation.sampled_response import sample_device_s
from optinc_pdk.studies.variation.sampling import nominal_sample


@pytest.fixture(scope="module")
def floating(circuit, chip, process):
    """The chip with ideal grounds and without crosstalk, so that its phases can be computed by hand."""
    return chip_of(circuit, chip.board, chip.bias, process.model_copy(update={"imperfections": None}))


def by_hand(chip, voltage):
    current = voltage / (chip.resistance_ohm + chip.wire_ohm)
    return np.pi * current**2 * chip.resistance_ohm / 0.025


@pytest.mark.parametrize("bits", [3.0, 8.5, 12.0])
def test_the_drive_rounds_to_its_steps(floating, bits):
    step = 12.0 / (2.0**bits - 1.0)
    voltage = np.random.default_rng(0).uniform(0.0, 11.0, floating.structure.heater.size)
    found = sample_phases(floating, nominal_sample(floating), voltage, bits)
    assert np.allclose(found, by_hand(floating, step * np.floor(voltage / step + 0.5)), rtol=1e-12)
    assert np.abs(found - by_hand(floating, voltage)).max() > 0.1 * step


def test_the_shipped_codes_are_steps_of_16_bits(chip):
    assert np.allclose(
        sample_phases(chip, nominal_sample(chip), chip.voltage_v, 16.0),
        sample_phases(chip, nominal_sample(chip), chip.voltage_v),
        rtol=1e-12,
    )


def test_the_drive_clips_at_0_and_at_full_scale(floating):
    heaters = floating.structure.heater.size
    found = sample_phases(
        floating, nominal_sample(floating), np.stack([np.full(heaters, -1.0), np.full(heaters, 20.0)])
    )
    assert np.all(found[0] == 0.0)
    assert np.allclose(found[1], by_hand(floating, 12.0))


def test_phases_agree_with_a_calculation_by_hand(floating):
    heaters = floating.structure.heater.size
    unchanged = nominal_sample(floating)
    matrix = np.eye(heaters)
    matrix[0, 1], matrix[2, 0] = 0.1, 0.05
    sample = replace(
        unchanged, resistance_scale=np.full(heaters, 1.1), power_scale=np.full(heaters, 0.8), crosstalk=matrix
    )
    voltage = np.zeros(heaters)
    voltage[:3] = 3.0, 4.0, 5.0
    ohm = 1.1 * floating.resistance_ohm
    self_phase = np.pi * (voltage / (ohm + floating.wire_ohm)) ** 2 * ohm / (0.8 * 0.025)
    expected = self_phase.copy()
    expected[0] += 0.1 * self_phase[1]
    expected[2] += 0.05 * self_phase[0]
    assert np.allclose(sample_phases(floating, sample, voltage), expected, rtol=1e-12)


def test_nominal_thermal_crosstalk_is_that_of_the_card(circuit, chip, floating, process):
    """The share of another heater's phase is 0.725 µm over the distance."""
    heaters = floating.structure.heater.size
    voltage = np.random.default_rng(4).uniform(0.0, 11.0, heaters)
    self_phase = by_hand(floating, voltage)
    position, expected = floating.heater_um, self_phase.copy()
    for i in range(heaters):
        for j in range(heaters):
            if i != j:
                expected[i] += 0.029 * 25.0 / np.hypot(*(position[i] - position[j])) * self_phase[j]
    with_crosstalk = chip_of(circuit, chip.board, chip.bias, process)
    assert np.abs(expected - self_phase).max() > 0.1
    assert np.allclose(sample_phases(with_crosstalk, nominal_sample(with_crosstalk), voltage), expected, rtol=1e-12)


def test_all_currents_raise_the_grounds_and_a_heater_below_its_ground_is_off(chip):
    voltage = np.full(chip.structure.heater.size, 6.0)
    voltage[0] = 1e-3
    alone = replace(nominal_sample(chip), crosstalk=np.eye(voltage.size))
    found = sample_phases(chip, alone, voltage)
    assert found[0] == 0.0
    current = np.sqrt(found / np.pi * 0.025 / chip.resistance_ohm)
    left = voltage - 0.5 * current.sum() - 0.1 * np.cumsum(current)
    assert left[0] < 0.0
    assert np.allclose(current[1:] * (chip.resistance_ohm + chip.wire_ohm)[1:], left[1:], rtol=1e-11)


def test_phase_errors_scale_with_the_frequency(chip, every):
    """An index error causes a phase error proportional to 1 / wavelength."""
    sample = draw_sample(chip, every.only("phase"), 4)
    found = sample_device_s(chip, sample, "phase_shifter", np.array([1540.0, 1550.0]))[..., 1, 0]
    strip = chip.process.guide
    bare = guide_transmission(
        100.0,
        np.array([1540.0, 1550.0]),
        index=strip.index,
        group_index=strip.group_index,
        reference_nm=1550.0,
        loss_db_per_cm=strip.loss_db_per_cm,
    )
    turn = np.angle(found / bare[:, np.newaxis])
    assert np.allclose(turn[1], sample.parameters["phase_shifter"]["phase_rad"], atol=1e-12)
    assert np.allclose(turn[0], turn[1] * 1550.0 / 1540.0, atol=1e-12)


def test_phase_and_loss_errors_are_equivalent_to_another_length(chip, circuit, process):
    """Phase and loss of 10 to 40 µm of additional waveguide, against the circuit with these lengths."""
    strip = process.guide
    longer = np.random.default_rng(3).uniform(10.0, 40.0, len(circuit.nets)) * (circuit.net_length_um > 0)
    sample = replace(
        nominal_sample(chip),
        guide_phase_rad=2 * np.pi * float(strip.index) * longer / 1.55,
        guide_loss_db=float(strip.loss_db_per_cm) * longer * 1e-4,
    )
    grown = replace(circuit, net_length_um=circuit.net_length_um + longer)
    turned = sample_phases(chip, sample, chip.voltage_v)
    drive = dict(zip(chip.structure.channel, turned.tolist(), strict=True))
    expected = scattering(grown, drive, 1550.0, process)
    assert np.abs(sample_scattering(chip, sample, chip.voltage_v).s - expected.s).max() < 1e-12


def test_each_sample_of_a_batch_has_its_own_wavelength(chip, every):
    """This includes devices without variation: waveguides under heaters and gratings depend on wavelength."""
    samples = [draw_sample(chip, every.scaled("wavelength", 50.0).only("wavelength"), seed) for seed in (1, 2)]
    assert not samples[0].parameters
    for sample, one in zip(samples, sample_scatterings(chip, samples, chip.voltage_v), strict=True):
        assert np.abs(one.s - sample_scattering(chip, sample, chip.voltage_v).s).max() < 1e-14
    with pytest.raises(InputError, match=r"shape \(3, .*2 samples"):
        sample_scatterings(chip, samples, np.tile(chip.voltage_v, (3, 1)))
    with pytest.raises(InputError, match=r"shape \(\d+,\)"):
        sample_scatterings(chip, samples, chip.voltage_v[1:])


@pytest.mark.parametrize(
    ("voltage", "bits", "message"),
    [
        (np.zeros(3), None, r"shape \(3,\).* \d+ numbers"),
        (None, 0.5, "effective_bits is 0.5.* 1 .*1000"),
        (None, np.nan, "effective_bits = nan"),
    ],
)
def test_invalid_voltages_and_bits_are_refused(chip, voltage, bits, message):
    given = chip.voltage_v if voltage is None else voltage
    with pytest.raises(InputError, match=message):
        sample_phases(chip, nominal_sample(chip), given, bits)
    with pytest.raises(InputError, match=r"voltage_v\[1\] is nan"):
        sample_phases(chip, nominal_sample(chip), np.where(np.arange(chip.voltage_v.size) == 1, np.nan, chip.voltage_v))


def test_currents_of_a_batch_equal_those_of_single_settings(chip, every):
    sample = draw_sample(chip, every, 4)
    # some heaters are off while the others' currents raise their grounds
    rows = np.stack([chip.voltage_v, np.where(np.arange(chip.voltage_v.size) % 3, chip.voltage_v, 0.0)])
    together = sample_phases(chip, sample, rows)
    assert np.allclose(together, [sample_phases(chip, sample, row) for row in rows], rtol=1e-11, atol=1e-12)


def test_the_default_wavelength_is_that_of_the_samples_laser(chip, every):
    sample = draw_sample(chip, every.only("wavelength"), 4)
    default = sample_scattering(chip, sample, chip.voltage_v)
    assert default.wavelengths_nm == pytest.approx([sample.wavelength_nm])
    assert sample.wavelength_nm != 1550.0
    several = sample_scattering(chip, sample, chip.voltage_v, wavelengths_nm=[1550.0, sample.wavelength_nm])
    assert np.abs(several.s[1] - default.s[0]).max() < 1e-14
    assert np.abs(several.s[0] - default.s[0]).max() > 1e-6
