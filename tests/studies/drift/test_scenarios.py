"""Random walks of resistances, their own random stream, and changes of the temperature."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.cards import with_drive
from optinc_pdk.errors import InputError
from optinc_pdk.simulate import heater_phases
from optinc_pdk.studies import draw_sample, sample_phases
from optinc_pdk.studies.drift.scenarios import SCENARIOS, DriftScenario, changes, resistance_walk, samples_in_time
from optinc_pdk.studies.variation.sampling import drifted_sample

SEEDS = range(60)


def test_the_rms_of_a_walk_grows_with_the_root_of_time_to_that_of_the_card(chip, every):
    card = every.card.heater
    hours, steps = 4.0 * float(card.drift_h), 16
    walks = np.log([resistance_walk(chip, every, seed, hours, steps) for seed in SEEDS])
    rms = np.sqrt((walks**2).mean(axis=(0, 2)))
    assert rms == pytest.approx(float(card.drift_spread) * np.sqrt(np.arange(1, steps + 1) / 4.0), rel=0.1)
    steps_of_walks = np.diff(walks, axis=1)
    assert abs(np.corrcoef(steps_of_walks[:, 0].ravel(), steps_of_walks[:, 1].ravel())[0, 1]) < 0.1


def test_a_multiple_and_the_factor_of_the_heaters_scale_the_same_walk(chip, every):
    one = np.log(resistance_walk(chip, every, 5, 350.0, 4))
    assert np.allclose(np.log(resistance_walk(chip, every, 5, 350.0, 4, 10.0)), 10.0 * one)
    assert np.allclose(np.log(resistance_walk(chip, every.scaled("heater", 2.0), 5, 350.0, 4)), 2.0 * one)
    assert np.all(resistance_walk(chip, every.without("heater"), 5, 350.0, 4) == 1.0)
    assert not np.allclose(resistance_walk(chip, every, 6, 350.0, 4), np.exp(one), rtol=1e-6)


def test_the_walk_is_not_the_drift_of_the_sample(chip, every):
    """Both have a spread of 0.1 % after 350 hours, from different random streams."""
    drift = np.log(draw_sample(chip, every.only("heater"), 5).drift)
    assert not np.isclose(np.log(resistance_walk(chip, every, 5, 350.0, 1)[0]), drift).any()


def test_scenarios_state_what_changes():
    walk, tenfold, warm = (changes(one.walk, one.kelvin) for one in SCENARIOS)
    assert "resistance of every heater" in walk and "times" not in walk and "10 times" in tenfold
    assert "10 K" in warm and "rises" in warm and "resistance" not in warm
    assert "2 times" in changes(2.0, -3.0) and "falls by 3 K" in changes(2.0, -3.0)


@pytest.mark.parametrize("hours", [-1.0, 0.0, float("nan"), float("inf"), 1e7])
def test_impossible_times_are_refused(chip, every, hours):
    with pytest.raises(InputError, match="hours"):
        resistance_walk(chip, every, 0, hours, 10)


def test_walks_without_steps_are_refused(chip, every):
    with pytest.raises(InputError, match="steps is 0"):
        resistance_walk(chip, every, 0, 10.0, 0)


def test_a_temperature_turns_guides_by_their_lengths_and_raises_resistances(chip, every):
    """0.0754 rad/K per 100 µm is 2π · 1.86e-4 · 100 / 1.55; heaters rise by 0.05 % per kelvin."""
    sample = draw_sample(chip, every, 1)
    warm = drifted_sample(chip, sample, np.ones_like(chip.voltage_v), 2.0)
    turned = warm.guide_phase_rad - sample.guide_phase_rad
    assert np.allclose(turned, 2.0 * 0.075399 * chip.net_length_um / 100.0, rtol=1e-4)
    assert np.allclose(warm.resistance_scale / sample.resistance_scale, 1.001)
    heated = warm.parameters["phase_shifter"]["phase_rad"] - sample.parameters["phase_shifter"]["phase_rad"]
    length = chip.process.device("phase_shifter").size("length_um")
    assert np.allclose(heated, 2.0 * 0.075399 * length / 100.0, rtol=1e-4)


def test_a_process_without_temperature_coefficient_is_refused(chip, every):
    guide = chip.process.guide.model_copy(update={"index_per_k": None})
    lacking = replace(chip, process=chip.process.model_copy(update={"guide": guide}))
    sample = draw_sample(lacking, every, 1)
    with pytest.raises(InputError, match="index_per_k"):
        drifted_sample(lacking, sample, np.ones_like(chip.voltage_v), 1.0)


def test_scenarios_end_at_their_size(chip, every):
    sample = draw_sample(chip, every, 1)
    walk, ten, warm = (samples_in_time(chip, sample, every, one, 350.0) for one in SCENARIOS)
    assert [len(one) for one in (walk, ten, warm)] == [one.steps for one in SCENARIOS] == [50, 50, 1000]
    ratio = [np.log(one[-1].resistance_scale / sample.resistance_scale) for one in (walk, ten)]
    assert np.allclose(ratio[1], 10.0 * ratio[0])
    assert np.allclose(warm[-1].resistance_scale / sample.resistance_scale, 1.005)
    (short,) = samples_in_time(chip, sample, every, DriftScenario("short", 0.0, 0.005), 1.0)
    assert np.allclose(short.resistance_scale / sample.resistance_scale, 1.0 + 2.5e-6)


def test_a_drive_that_holds_power_keeps_its_phases(chip, every):
    """Resistances, their spread, and ground rise change the phases of a drive that holds voltage, not of this one."""
    held = replace(
        chip,
        process=chip.process.model_copy(update={"drive": chip.process.drive.model_copy(update={"holds": "power"})}),
    )
    sample = draw_sample(chip, every, 1)
    old = drifted_sample(
        chip, sample, np.exp(0.01 * np.random.default_rng(0).standard_normal(chip.voltage_v.size)), 0.0
    )
    before, after = (sample_phases(held, one, chip.voltage_v, 12.0) for one in (sample, old))
    assert np.array_equal(before, after)
    free = replace(held, rise_ohm=np.zeros_like(held.rise_ohm))
    assert np.array_equal(sample_phases(free, sample, chip.voltage_v, 12.0), before)
    by_voltage = [sample_phases(chip, one, chip.voltage_v, 12.0) for one in (sample, old)]
    assert np.abs(by_voltage[0] - by_voltage[1]).max() > 0.01
    power = (chip.voltage_v / (chip.resistance_ohm + chip.wire_ohm)) ** 2 * chip.resistance_ohm
    exact = sample_phases(held, sample, chip.voltage_v)
    own = np.pi * power / (chip.power_pi_w * sample.power_scale)
    assert np.allclose(exact, sample.crosstalk @ own)


def test_a_drive_that_holds_power_is_limited_by_its_full_scale(chip, every):
    drive = chip.process.drive.model_copy(update={"holds": "power"})
    held = replace(chip, process=chip.process.model_copy(update={"drive": drive}))
    sample = draw_sample(chip, every.only("heater"), 1)
    larger = replace(sample, resistance_scale=np.full_like(chip.voltage_v, 1.5), crosstalk=np.eye(chip.voltage_v.size))
    full = np.full_like(chip.voltage_v, float(drive.full_scale_v))
    resistance = 1.5 * chip.resistance_ohm
    most = (full / (resistance + chip.wire_ohm)) ** 2 * resistance
    assert np.allclose(sample_phases(held, larger, full), np.pi * most / (chip.power_pi_w * sample.power_scale))


def test_codes_of_a_drive_that_holds_power_do_not_depend_on_ground_rise(chip, ground):
    held = with_drive(chip.process, "power")
    by_power = [heater_phases(chip.structure, chip.bias, held, ground=one) for one in (ground, None)]
    assert np.array_equal(*by_power)
    by_voltage = heater_phases(chip.structure, chip.bias, chip.process, ground=ground)
    assert np.abs(by_voltage - by_power[0]).max() > 1e-3
    assert np.array_equal(heater_phases(chip.structure, chip.bias, chip.process), by_power[0])
