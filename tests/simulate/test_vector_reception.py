"""Vectors are sent as field amplitudes by the scales of the bias; what an input cannot send is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import optinc_pdk as op
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Bias, Board, NetlistError, read_bias, read_netlist
from optinc_pdk.errors import InputError
from optinc_pdk.networks import Layer
from optinc_pdk.signoff.extracted_chip import read_extracted_layout
from optinc_pdk.simulate import Scattering, scattering, transmit_vectors
from optinc_pdk.simulate.transmission.reception import input_amplitudes

PROCESS = load_process()
# one hidden unit for each sign, so that the output is the input
LAYERS = (Layer(np.array([[1.0], [-1.0]]), np.zeros(2)), Layer(np.array([[1.0, -1.0]]), np.array([0.25])))
DATA = np.linspace(-2.0, 2.0, 21)[:, np.newaxis]


@pytest.fixture(scope="module")
def chip(tmp_path_factory: pytest.TempPathFactory) -> tuple[Scattering, Board, Bias]:
    folder = tmp_path_factory.mktemp("identity")
    assert op.build(op.GeneralNetwork.of_layers(LAYERS), folder, op.BuildOptions(name="identity", data=DATA)).passed
    bias = read_bias(Path(folder, "identity.bias.yml"))
    layout = read_extracted_layout(Path(folder, "identity.gds"), bias, PROCESS)
    s = scattering(layout.circuit, bias, float(PROCESS.guide.wavelength_nm), PROCESS, ground=layout.ground)
    board = read_netlist(Path(folder, "identity.pic.yml")).board
    assert board is not None
    return s, board, bias


def test_amplitudes_are_values_over_the_scale_of_the_input(chip: tuple[Scattering, Board, Bias]) -> None:
    _, board, bias = chip
    assert list(bias.input_scales.values()) == [2.0]
    np.testing.assert_allclose(input_amplitudes(DATA, board, bias), DATA / 2.0)


def test_a_chip_computes_both_signs_and_the_output_offset(chip: tuple[Scattering, Board, Bias]) -> None:
    received = transmit_vectors(DATA, *chip)
    np.testing.assert_allclose(received.outputs, DATA + 0.25, atol=0.01)
    assert received.saturated == 0


def test_amplitudes_of_neurons_beyond_their_modulators_are_counted(chip: tuple[Scattering, Board, Bias]) -> None:
    s, board, bias = chip
    gains = {label: replace(one, gain=2.0 * one.gain) for label, one in bias.activations.items()}
    received = transmit_vectors(DATA, s, board, replace(bias, activations=gains))
    assert 0 < received.saturated < DATA.size
    assert np.abs(received.outputs).max() < 2.0 * 2.25


def test_what_an_input_cannot_send_is_refused(chip: tuple[Scattering, Board, Bias]) -> None:
    s, board, bias = chip
    with pytest.raises(InputError, match=r"input 0 of sample 1 is -2\.1, the chip sends up to ±2; scale the data"):
        transmit_vectors([[0.0], [-2.1]], s, board, bias)
    with pytest.raises(ValueError, match=r"inputs has shape \(1, 2\); give \(samples, 1 inputs\)"):
        transmit_vectors([[0.0, 1.0]], s, board, bias)
    with pytest.raises(NetlistError, match="the bias has no scale for input"):
        transmit_vectors(DATA, s, board, replace(bias, input_scales={}))
