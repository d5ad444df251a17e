"""Neurons that share detectors, and neurons without detectors: circuit, board, programming, and every word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from optinc_pdk.assemble import draft_circuit
from optinc_pdk.averaging import Averaging
from optinc_pdk.circuit import Board, NetlistError, detector_groups, label_tuple, read_netlist, write_netlist
from optinc_pdk.errors import InputError
from optinc_pdk.networks import AveragingNetwork, Layer, comparator_network, lattice_score
from optinc_pdk.simulate import program, scattering, transmit
from optinc_pdk.simulate.programming.targets import layer_targets

from .conftest import all_words, chip

GAIN = 4.0


def comparators() -> AveragingNetwork:
    """The average of one symbol of four servers by three comparators, one of which is inverted.

    t is the sum of the symbols, 0 to 12; the output is Σ_j [t >= 4 j] for j = 1, 2, 3.
    """
    edges = np.array([4.0, 8.0, 12.0])
    weight = np.full((3, 1), 4.0 * GAIN)
    bias = 0.5 - GAIN * (edges - 0.5)
    weight[2], bias[2] = -weight[2], 1.0 - bias[2]
    layers = (Layer(weight, bias), Layer(np.array([[1.0, 1.0, -1.0]]), np.array([1.0])))
    return AveragingNetwork(layers, Averaging(2, 4, 1), activation="clipped_relu")


@pytest.fixture(scope="module")
def programmed(process):
    onn = comparators()
    circuit, board = chip(onn, process)
    return onn, circuit, board, program(circuit, board, onn, process)


def test_neurons_share_detectors_and_a_constant_has_none(programmed) -> None:
    _, circuit, board, programming = programmed
    detectors, rows = detector_groups(board.neurons)
    assert rows == [0, 0, 1, -1] and len(detectors) == 2
    assert board.neurons[0].plus == board.neurons[1].plus != board.neurons[2].plus
    assert board.neurons[3].plus == board.neurons[3].minus == ()
    assert len({label for neuron in board.neurons for label in label_tuple(neuron.to)}) == 4
    assert len(circuit.instances_of("mmi2x2")) > 0
    settings = [programming.bias.activations[neuron.label] for neuron in board.neurons]
    assert settings[0].balance == settings[1].balance
    assert settings[0].gain == pytest.approx(settings[1].gain, rel=1e-4) and settings[0].offset > settings[1].offset
    assert settings[3].gain * settings[3].offset == pytest.approx(1.0, rel=1e-4)
    assert Board.from_dict(board.to_dict()) == board


def test_every_word_is_exact(programmed, process) -> None:
    onn, circuit, board, programming = programmed
    assert lattice_score(onn).margin == pytest.approx(0.5)
    symbols = all_words(onn.task)
    received = transmit(symbols, scattering(circuit, programming.bias, 1550.0, process), board, programming.bias)
    ideal = onn.task.encode(onn.task.ideal(onn.task.decode(symbols)))[:, np.newaxis]
    assert np.array_equal(received.levels, np.broadcast_to(ideal, received.levels.shape))
    assert 0.5 - np.abs(received.outputs - ideal).max() > 0.45


def test_units_of_parts_in_any_order(process) -> None:
    onn = comparator_network(Averaging(4, 2, 2))
    layers = list(onn.layers)
    for index in range(len(layers) - 1):
        below = layers[index]
        order = np.arange(below.outputs)[::-1]
        layers[index] = Layer(below.weight[order], below.bias[order])
        layers[index + 1] = Layer(layers[index + 1].weight[:, order], layers[index + 1].bias)
    onn = replace(onn, layers=tuple(layers), card={})
    assert lattice_score(onn).accuracy == 1.0
    circuit, board = chip(onn, process)
    groups = [detector_groups([n for n in board.neurons if n.layer == index])[1] for index in range(len(layers) - 1)]
    # the board numbers detectors by neuron, the network by part
    assert any(group != onn.detector_rows(index).tolist() for index, group in enumerate(groups))
    programming = program(circuit, board, onn, process)
    assert programming.error.max() < 2e-4
    symbols = all_words(onn.task)
    received = transmit(symbols, scattering(circuit, programming.bias, 1550.0, process), board, programming.bias)
    ideal = onn.task.encode(onn.task.ideal(onn.task.decode(symbols)))[:, np.newaxis]
    assert np.array_equal(received.levels, np.broadcast_to(ideal, received.levels.shape))


def test_a_board_that_shares_other_detectors_is_refused(programmed) -> None:
    onn, _, board, _ = programmed
    first, second, *others = board.neurons
    other = replace(second, plus=others[0].plus, minus=others[0].minus)
    with pytest.raises(ValueError, match=r"l0_r\d"):
        layer_targets(onn, replace(board, neurons=(first, other, *others)))


def test_fan_out_beyond_the_cards_limit_is_refused(process) -> None:
    limited = process.model_copy(
        update={
            "activation": process.activation.model_copy(update={"fan_out_max": process.activation.gain_max * 0 + 1})
        }
    )
    with pytest.raises(InputError, match=r"layers\.0 has 2 .*fan_out_max .* 1"):
        draft_circuit(comparators(), limited, "chip")


def test_a_netlist_file_may_share_detectors_but_not_in_part(programmed, tmp_path: Path) -> None:
    _, circuit, board, _ = programmed
    path = tmp_path / "c.pic.yml"
    write_netlist(replace(circuit, board=board), path)
    assert read_netlist(path).board == board
    first = next(neuron for neuron in board.neurons if board.neurons[0].plus == neuron.plus)
    others = tuple(replace(n, minus=first.to) if n is first else n for n in board.neurons)
    write_netlist(replace(circuit, board=replace(board, neurons=others)), path)
    with pytest.raises(NetlistError, match="twice"):
        read_netlist(path)


def test_different_balances_of_shared_detectors_are_refused(programmed, process) -> None:
    _, circuit, board, programming = programmed
    settings = dict(programming.bias.activations)
    settings["l0_r1"] = replace(settings["l0_r1"], balance=2.0)
    bias = replace(programming.bias, activations=settings)
    with pytest.raises(NetlistError, match=r"'l0_r0' and 'l0_r1'.* 2;"):
        transmit(np.zeros((1, 4, 1)), scattering(circuit, bias, 1550.0, process), board, bias)
