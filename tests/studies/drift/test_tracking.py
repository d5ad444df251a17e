"""Tracking of a sampled 4-bit chip: pilots, thresholds and phases follow drifts that cost words without it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.errors import InputError
from optinc_pdk.simulate.modulator_drive import IDEAL
from optinc_pdk.studies.calibration._word_transmission import sample_words
from optinc_pdk.studies.drift.scenarios import DriftScenario
from optinc_pdk.studies.drift.tracking import (
    PILOT_AVERAGES,
    SETTLED_RAD,
    choose_pilots,
    learn_again,
    reading_changes,
    track,
)
from optinc_pdk.studies.drift.word_drift import drift_points, start_service
from optinc_pdk.studies.variation.sampling import drifted_sample


def drifted(service, spread, seed=0):
    walk = np.exp(spread * np.random.default_rng(seed).standard_normal(service.work.chip.voltage_v.size))
    return drifted_sample(service.work.chip, service.sample, walk, 0.0)


def test_pilots_show_every_source_of_every_layer(service):
    model = service.model
    words = sample_words(service.work.check.task, model.layers, IDEAL)
    patterns = [np.column_stack([np.ones(len(model.pilots.amplitude)), model.pilots.amplitude])]
    everything = [np.column_stack([np.ones(len(words.amplitude)), words.amplitude])]
    for some, all_words in zip(model.pilots.network_signal, words.network_signal, strict=True):
        patterns.append(np.clip(some, 0.0, 1.0))
        everything.append(np.clip(all_words, 0.0, 1.0))
    rank = np.linalg.matrix_rank(np.column_stack(everything))
    assert np.linalg.matrix_rank(np.column_stack(patterns)) == rank
    assert len(model.pilots.amplitude) == 2 * rank < 40
    again = choose_pilots(words)
    assert np.array_equal(again.amplitude, model.pilots.amplitude)


def test_without_drift_nothing_changes(service):
    setting, effort = track(service.bench, service.model, service.setting)
    assert np.array_equal(setting.voltage_v, service.setting.voltage_v)
    assert all(
        np.array_equal(*pair) for pair in zip(setting.electronics.gain, service.setting.electronics.gain, strict=True)
    )
    assert (effort.rounds, effort.turns, effort.settled) == (1, 0, True)


def test_one_heater_that_drifts_is_found(service):
    """A resistance that rises by 1 % lowers the phase of its heater by nearly 1 %; the heater gets it back."""
    chip, heaters = service.work.chip, service.model.heaters
    phase = heaters.phases(service.setting.voltage_v)
    heater = int(np.flatnonzero([label == "l1_lo_r0" for label in chip.structure.channel])[0])
    factor = np.ones(phase.size)
    factor[heater] = 1.01
    service.bench.hold(drifted_sample(chip, service.sample, factor, 0.0))
    setting, _ = track(service.bench, service.model, service.setting)
    service.bench.hold(service.sample)
    # the running mean adds a tenth in advance
    moved = heaters.phases(setting.voltage_v) - phase
    assert int(np.argmax(np.abs(moved))) == heater
    assert moved[heater] == pytest.approx(0.01 * phase[heater], rel=0.5)


def test_large_drifts_cost_words_and_tracking_restores_them(service):
    """Resistances that jump by 1 % rms at once, more than they do between two steps in use."""
    lost = 0
    for seed in range(4):
        state = drifted(service, 0.01, seed)
        before = service.words(state, service.setting)
        service.bench.hold(state)
        setting, _ = track(service.bench, service.model, service.setting)
        after = service.words(state, setting)
        lost += before.exact < before.inputs
        assert after.exact == after.inputs and after.margin > 0.25 > before.margin
    service.bench.hold(service.sample)
    assert lost > 0


def test_a_walk_of_ten_times_the_card_is_tracked(service):
    scenario = DriftScenario("walk", 10.0, 0.0)
    static, none = drift_points(service, scenario, 350.0, False)
    tracked, effort = drift_points(service, scenario, 350.0, True)
    assert [one.share for one in static] == [one.share for one in tracked] and len(static) == 26
    assert static[0].outcome == tracked[0].outcome
    assert min(one.outcome.margin for one in static) < 0.2 < 0.3 < min(one.outcome.margin for one in tracked)
    assert all(one.outcome.exact == one.outcome.inputs for one in tracked)
    assert (effort.steps, effort.pilots, effort.transmissions) == (50, 30, 4) and effort.rounds >= 50
    assert (none.steps, none.pilots, none.rounds) == (0, 0, 0)


@pytest.mark.full
def test_a_temperature_that_rises_is_followed_through_whole_turns(service):
    scenario = DriftScenario("warmer", 0.0, 0.4)
    static, _ = drift_points(service, scenario, 1.0, False)
    tracked, effort = drift_points(service, scenario, 1.0, True)
    assert static[-1].outcome.accuracy < 0.1
    assert all(one.outcome.exact == one.outcome.inputs for one in tracked)
    assert effort.turns > 0


def test_a_drive_that_holds_power_does_not_drift(power_service):
    state = drifted(power_service, 0.1)
    assert power_service.words(state, power_service.setting) == power_service.words(
        power_service.sample, power_service.setting
    )
    assert power_service.words(state, power_service.setting).margin > 0.3


def test_the_model_measured_again_at_the_same_setting_is_the_same(service):
    again = learn_again(service.bench, service.model, service.setting)
    assert np.allclose(again.solution, service.model.solution, atol=1e-9)


def test_readings_without_noise_have_no_error_of_noise(service):
    assert service.model.noise.max() < 1e-11
    assert service.model.settled_rad == pytest.approx(SETTLED_RAD)


def test_the_error_of_readings_follows_noise_and_averaging(noisy_service):
    """What pilots read without drift has the deviation of the model; a hundredth of the symbols ten times as much."""
    bench, model, setting = noisy_service.bench, noisy_service.model, noisy_service.setting
    spread = []
    for averages in (PILOT_AVERAGES, PILOT_AVERAGES // 100):
        bench.averages = averages
        rounds = [reading_changes(bench, model, setting.voltage_v, setting.electronics) for _ in range(16)]
        spread.append(np.std(rounds, axis=0))
    assert np.sqrt(np.mean(spread[0] ** 2)) == pytest.approx(np.sqrt(np.mean(model.noise**2)), rel=0.2)
    assert np.sqrt(np.mean(spread[1] ** 2)) == pytest.approx(10 * np.sqrt(np.mean(spread[0] ** 2)), rel=0.2)


def test_noisier_pilots_move_heaters_less(noisy_service):
    bench, model, setting = noisy_service.bench, noisy_service.model, noisy_service.setting
    noisier = learn_again(bench, replace(model, noise=100 * model.noise), setting)
    heaters = model.turn_rad.size
    quiet, loud = (np.abs(one.solution[:heaters]).sum() for one in (model, noisier))
    assert loud < 0.5 * quiet
    assert noisier.settled_rad.mean() > model.settled_rad.mean() > 1.05 * SETTLED_RAD


@pytest.mark.full
def test_tracking_with_noise_settles_and_restores_words(noisy_service):
    lost = 0
    bench, model, start = noisy_service.bench, noisy_service.model, noisy_service.setting
    for _ in range(5):
        _, effort = track(bench, model, start)
        assert (effort.rounds, effort.settled) == (1, True)
    for seed in range(2):
        state = drifted(noisy_service, 0.01, seed)
        before = noisy_service.words(state, start, 1)
        bench.hold(state)
        setting, effort = track(bench, model, start)
        after = noisy_service.words(state, setting, 1)
        lost += before.wrong > after.wrong
        assert after.exact == after.inputs and after.estimated_word_error_rate < 1e-9
        assert effort.settled
    bench.hold(noisy_service.sample)
    assert lost > 0


def test_words_in_service_have_the_noise_of_the_study(noisy_service):
    """At 4 GBd, noise spoils words; different steps have different noise."""
    work, sample, setting = noisy_service.work, noisy_service.sample, noisy_service.setting
    fast = replace(noisy_service, work=replace(work, noise=work.check.operating_noise(None, 4e9)))
    first, later = (fast.words(sample, setting, step) for step in (0, 1))
    assert first.wrong > 0 < later.wrong and first.wrong != later.wrong
    share = (first.wrong + later.wrong) / (first.words + later.words)
    assert 0.5 * share < first.estimated_word_error_rate < 2.0 * share


def test_drift_needs_a_network(service_work):
    with pytest.raises(InputError, match="network"):
        start_service(replace(service_work, check=replace(service_work.check, onn=None)), 0)
