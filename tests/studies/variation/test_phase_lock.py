"""Coherent receivers of sampled chips are locked to the light of their own modulators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from optinc_pdk.simulate.transmission.detection import network_of
from optinc_pdk.studies import draw_sample, sample_scattering
from optinc_pdk.studies.variation.nominal_chip import locked_bias, locked_phases, locked_sources
from optinc_pdk.studies.variation.sampling import nominal_sample


def test_every_receiver_has_the_modulator_of_its_symbol(locked):
    chip = locked.chip
    symbols = len(chip.board.outputs[0])
    assert chip.locked_source.tolist() == list(range(symbols)) * len(chip.board.outputs)
    photodiodes = replace(chip.board, coherent=False)
    assert locked_sources(sample_scattering(chip, nominal_sample(chip), chip.voltage_v), photodiodes).size == 0


def test_the_nominal_chip_is_locked_to_the_phases_of_its_bias(locked):
    chip = locked.chip
    s = sample_scattering(chip, nominal_sample(chip), chip.voltage_v)
    found = locked_bias(s, chip.board, chip.locked_source, chip.bias).phases
    assert found.keys() == chip.bias.phases.keys()
    # reflections at other wavelengths of the fit are absent, so both are the angle of one transmission
    assert all(abs(np.exp(1j * found[label]) - np.exp(1j * phase)) < 1e-6 for label, phase in chip.bias.phases.items())


def test_receivers_of_a_sample_read_all_of_their_modulators_field(locked):
    chip = locked.chip
    sample = draw_sample(chip, locked.imperfections, 3)
    s = sample_scattering(chip, sample, chip.voltage_v)
    bias = locked_bias(s, chip.board, chip.locked_source, chip.bias)
    receivers = network_of(s, chip.board, bias, 0).receivers
    light = np.zeros((1, receivers.feed.sources.stop))
    light[0, receivers.feed.sources.start + chip.locked_source] = 1.0
    fields = receivers._fields(receivers._seen(light))
    read, power = receivers.detected(fields), receivers.power(fields)
    assert np.allclose(read**2, power, rtol=1e-9) and np.all(read > 0.0)
    # the phases of the bias file belong to the nominal chip
    unlocked = network_of(s, chip.board, chip.bias, 0).receivers
    assert np.any(unlocked.detected(fields) < 0.9 * read)


def test_phases_of_many_settings_are_angles_of_the_chosen_source():
    fields = np.exp(1j * np.arange(12.0).reshape(2, 3, 2))
    found = locked_phases(fields, np.array([1, 0, 1]))
    assert np.allclose(np.exp(1j * found), np.exp(1j * np.array([[1.0, 2.0, 5.0], [7.0, 8.0, 11.0]])))
