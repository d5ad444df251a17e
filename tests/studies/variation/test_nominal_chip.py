"""The nominal chip: its S-parameters are those of the function check's simulation."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.circuit import NetlistError
from optinc_pdk.simulate import heater_phases, scattering
from optinc_pdk.studies import chip_of, draw_sample, sample_phases, sample_scattering
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


def test_positions_are_those_of_the_circuit(chip, circuit):
    for net in range(20):
        names = [circuit.port_name(port).split(",")[0] for port in circuit.nets[net].tolist()]
        owners = [circuit.instances.index(name) for name in names]
        assert np.allclose(chip.net_um[net], circuit.position_um[owners].mean(axis=0))
    assert np.array_equal(chip.heater_um, circuit.position_um[circuit.instances_of("phase_shifter")])


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


def test_coherent_receivers_of_several_modulators_light_are_refused(chip, circuit, process):
    with pytest.raises(NetlistError, match=r"coherent receiver of fibre '.*one modulator alone.*--link neurons"):
        chip_of(circuit, replace(chip.board, coherent=True), chip.bias, process)


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
