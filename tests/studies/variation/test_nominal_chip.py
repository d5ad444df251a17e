"""The nominal chip: S-parameters as of the simulation, and receivers that are locked to their own modulators."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.circuit import NetlistError, label_tuple
from optinc_pdk.simulate import heater_phases, scattering
from optinc_pdk.simulate.transmission.detection import network_of
from optinc_pdk.studies import chip_of, draw_sample, sample_phases, sample_scattering
from optinc_pdk.studies.variation.nominal_chip import locked_bias, locked_phases, locked_sources
from optinc_pdk.studies.variation.sampling import nominal_sample


def test_without_imperfections_s_parameters_agree_with_the_simulation(chip, every, circuit, ground, process):
    none = draw_sample(chip, every.only(), 7)
    expected = scattering(circuit, chip.bias, 1550.0, process, ground=ground)
    found = sample_scattering(chip, none, chip.voltage_v)
    assert found.labels == expected.labels
    # both solve for the ground currents by iteration to a relative 1e-12
    assert np.abs(found.s - expected.s).max() < 1e-11
    wanted = heater_phases(chip.structure, chip.bias, process, ground=ground)
    assert np.abs(sample_phases(chip, none, chip.voltage_v) - wanted).max() < 1e-11


def test_with_ideal_grounds_s_parameters_agree_to_rounding(chip, circuit, process):
    ideal = chip_of(circuit, chip.board, chip.bias, process)
    expected = scattering(circuit, chip.bias, 1550.0, process)
    assert np.abs(sample_scattering(ideal, nominal_sample(ideal), ideal.voltage_v).s - expected.s).max() < 1e-13


def test_a_chip_can_be_pickled(chip, every):
    copy = pickle.loads(pickle.dumps(chip))
    sample = draw_sample(chip, every, 3)
    assert np.array_equal(
        sample_scattering(copy, sample, chip.voltage_v).s, sample_scattering(chip, sample, chip.voltage_v).s
    )


def test_a_circuit_without_layout_is_refused(chip, circuit, process):
    bare = replace(circuit, position_um=np.zeros((0, 2)))
    with pytest.raises(NetlistError, match="'small'"):
        chip_of(bare, chip.board, chip.bias, process)


def test_coherent_receivers_of_light_of_both_signs_are_refused(chip):
    board = replace(chip.board, coherent=True)
    s = sample_scattering(chip, nominal_sample(chip), chip.voltage_v)
    receiver, several = next((row, own) for row, own in enumerate(locked_sources(s, board)) if own.sum() > 1)
    last = [neuron for neuron in board.neurons if neuron.layer == board.layers - 2]
    turned = s.s.copy()
    for label in label_tuple(last[int(several.argmax())].to):
        turned[:, :, s.labels.index(label)] *= -1.0
    name = [label for row in board.outputs for label in row][receiver]
    with pytest.raises(NetlistError, match=f"coherent receiver of fibre '{name}'.*light of one phase.*--link neurons"):
        locked_sources(replace(s, s=turned), board)


def test_a_bias_without_one_channel_is_refused(chip, circuit, process):
    bias = chip.bias
    shorter = replace(
        bias,
        labels=bias.labels[1:],
        phase_rad=bias.phase_rad[1:],
        power_w=bias.power_w[1:],
        voltage_v=bias.voltage_v[1:],
        code=bias.code[1:],
    )
    with pytest.raises(NetlistError, match=f"{bias.labels[0]!r}"):
        chip_of(circuit, chip.board, shorter, process)


def test_every_receiver_has_the_modulator_of_its_symbol(locked):
    chip = locked.chip
    symbols = len(chip.board.outputs[0])
    assert np.array_equal(chip.locked_sources, np.tile(np.eye(symbols), (len(chip.board.outputs), 1)))
    photodiodes = replace(chip.board, coherent=False)
    assert locked_sources(sample_scattering(chip, nominal_sample(chip), chip.voltage_v), photodiodes).shape == (0, 0)


def test_bits_that_are_added_lock_a_receiver_together():
    fields = np.array([[1.0, 0.9, 1.1, 0.02j], [0.0, 0.01, 0.0, 1.0]]) * np.exp(0.5j)
    own = np.abs(fields) > 0.1
    assert own.tolist() == [[True, True, True, False], [False, False, False, True]]
    assert locked_phases(fields, own) == pytest.approx([0.5, 0.5 + 0.0])


def test_the_nominal_chip_is_locked_to_the_phases_of_its_bias(locked):
    chip = locked.chip
    s = sample_scattering(chip, nominal_sample(chip), chip.voltage_v)
    found = locked_bias(s, chip.board, chip.locked_sources, chip.bias).phases
    assert found.keys() == chip.bias.phases.keys()
    # reflections at other wavelengths of the fit are absent, so both are the angle of one transmission
    assert all(abs(np.exp(1j * found[label]) - np.exp(1j * phase)) < 1e-6 for label, phase in chip.bias.phases.items())


def test_receivers_of_a_sample_read_all_of_their_modulators_field(locked):
    chip = locked.chip
    sample = draw_sample(chip, locked.imperfections, 3)
    s = sample_scattering(chip, sample, chip.voltage_v)
    bias = locked_bias(s, chip.board, chip.locked_sources, chip.bias)
    receivers = network_of(s, chip.board, bias, 0).receivers
    light = np.zeros((1, receivers.feed.sources.stop))
    light[0, receivers.feed.sources.start + chip.locked_sources.argmax(axis=1)] = 1.0
    fields = receivers._fields(receivers._seen(light))
    read, power = receivers.detected(fields), receivers.power(fields)
    assert np.allclose(read**2, power, rtol=1e-9) and np.all(read > 0.0)
    # the phases of the bias file belong to the nominal chip
    unlocked = network_of(s, chip.board, chip.bias, 0).receivers
    assert np.any(unlocked.detected(fields) < 0.9 * read)


def test_positions_are_those_of_the_circuit(chip, circuit):
    for net in range(20):
        names = [circuit.port_name(port).split(",")[0] for port in circuit.nets[net].tolist()]
        owners = [circuit.instances.index(name) for name in names]
        assert np.allclose(chip.net_um[net], circuit.position_um[owners].mean(axis=0))
    assert np.array_equal(chip.heater_um, circuit.position_um[circuit.instances_of("phase_shifter")])


def test_phases_of_many_settings_are_angles_of_the_chosen_source():
    fields = np.exp(1j * np.arange(12.0).reshape(2, 3, 2))
    found = locked_phases(fields, np.eye(2, dtype=np.bool_)[[1, 0, 1]])
    assert np.allclose(np.exp(1j * found), np.exp(1j * np.array([[1.0, 2.0, 5.0], [7.0, 8.0, 11.0]])))
