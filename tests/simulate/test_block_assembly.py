"""Chips with several blocks, local oscillators by fibre and on-chip activations: matrices and words."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from optinc_pdk.assemble import LOCAL_STRIPS, DiePlan, assemble
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Quantity
from optinc_pdk.circuit import NetlistError, Neuron, flatten
from optinc_pdk.models import device_s
from optinc_pdk.networks import AveragingNetwork, Layer
from optinc_pdk.signoff.function import check_function, path_loss_db, server_errors
from optinc_pdk.simulate import analyse, program, scattering
from optinc_pdk.simulate.programming.initial_phases import aligned_initial_phases
from optinc_pdk.simulate.programming.phase_fit import ProgrammingProblem, matrix_errors, solve_fields
from optinc_pdk.simulate.programming.targets import layer_targets
from optinc_pdk.simulate.s_parameters.files import block_scattering

from .conftest import _IDEAL, add_fibre, add_heater, builder, chain, with_parameters
from .test_program import assert_jacobian_agrees_with_finite_differences

TASK = Averaging(4, 2, 2)
TOLERANCE = 1e-5


def realised(process, realisation):
    card = process.activation.model_copy(update={"realisation": realisation})
    return process.model_copy(update={"activation": card})


def random_onn(widths, blocks, seed=0):
    """A random network for matrices; its biases keep every unit alive."""
    rng = np.random.default_rng(seed)
    layers = [
        Layer(0.1 * rng.standard_normal((out, into)), rng.uniform(1.0, 2.0, out)) for into, out in pairwise(widths)
    ]
    layers[-1] = replace(layers[-1], bias=np.zeros(widths[-1]))
    task = Averaging(2 * widths[-1], 2, widths[-1])
    return AveragingNetwork(tuple(layers), task, tuple("svd" if s == "svd" else ("approx", s) for s in blocks))


def in_blocks(onn):
    """The same function in equal blocks, each a diagonal times a signed permutation, hence exact.

    With M symbols there are M copies of every hidden unit: copy k feeds rows k of the next layer's blocks. A unit of
    the first hidden layer depends on all inputs and therefore has a block of its own.
    """
    size, count = onn.task.symbols, onn.layers[0].outputs
    weights = [np.kron(layer.weight, np.eye(size)) for layer in onn.layers[1:]]
    rows = np.arange(count * size) * size + np.tile(np.arange(size), count)
    first, bias = np.zeros((count * size**2, size)), np.zeros(count * size**2)
    first[rows], bias[rows] = np.repeat(onn.layers[0].weight, size, axis=0), np.repeat(onn.layers[0].bias, size)
    spread = np.zeros((weights[0].shape[0], first.shape[0]))
    spread[:, rows] = weights[0]
    weights[0] = spread
    # output m is a sum over copies m
    weights[-1] = weights[-1].reshape(size, size, -1)[np.arange(size), np.arange(size)]
    biases = [np.repeat(layer.bias, size) for layer in onn.layers[1:-1]] + [onn.layers[-1].bias]
    layers = (Layer(first, bias), *(Layer(w, b) for w, b in zip(weights, biases, strict=True)))
    return AveragingNetwork(layers, onn.task, (("approx", size),) * len(layers))


CHIPS = [
    ((2, 3, 2), (1, 1), "offchip", True),
    ((2, 4, 2), (2, 2), "onchip", False),
    ((2, 5, 4, 2), ("svd", 2, 2), "onchip", True),
    ((3, 5, 7, 3), (3, 3, 2), "offchip", False),
    ((4, 8, 8, 4), (4, 4, 4), "onchip", True),
]


@pytest.mark.parametrize(("widths", "blocks", "realisation", "local"), CHIPS)
def test_initial_phases_are_exact_on_an_ideal_chip(ideal_process, widths, blocks, realisation, local):
    process = realised(with_parameters(ideal_process, **_IDEAL, crosstalk_db=-400.0), realisation)
    onn = random_onn(widths, blocks)
    circuit = assemble(onn, process, "chip", DiePlan(carrier_tree=not local))
    problem = ProgrammingProblem(analyse(circuit), circuit.board, layer_targets(onn, circuit.board), 1550.0, process)
    assert matrix_errors(problem, solve_fields(problem, aligned_initial_phases(problem)[0])).max() < 1e-9


@pytest.mark.parametrize("realisation", ["offchip", "onchip"])
def test_jacobian_agrees_with_finite_differences(process, realisation):
    process = realised(process, realisation)
    onn = random_onn((2, 3, 4, 2), (2, 2, 2))
    circuit = assemble(onn, process, "chip", LOCAL_STRIPS)
    # guides to photodiodes and modulators need lengths to have an effect
    circuit = with_lengths(circuit)
    problem = ProgrammingProblem(analyse(circuit), circuit.board, layer_targets(onn, circuit.board), 1550.0, process)
    assert_jacobian_agrees_with_finite_differences(problem, np.random.default_rng(0))


def with_lengths(circuit):
    """Guides of random length at the top level."""
    flat = flatten(circuit)
    lengths = np.random.default_rng(3).uniform(0.0, 300.0, len(flat.nets))
    return replace(flat, net_length_um=lengths)


@pytest.mark.full(every=3)
@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("realisation", ["offchip", "onchip"])
@pytest.mark.parametrize("block", ["svd", 1])
def test_every_word_is_exact(process, block, realisation, local):
    # what leaks through modulators would hide what blocks leave
    process = with_parameters(realised(process, realisation), extinction_db=400.0)
    onn = chain(TASK)
    if block != "svd":
        onn = replace(onn, factor=(("approx", block),) * len(onn.layers))
    circuit = assemble(onn, process, "chip", DiePlan(carrier_tree=not local))
    programmed = program(circuit, circuit.board, onn, process)
    assert programmed.error[:-1].max() < TOLERANCE
    # crossings leak into the sums of the last layer, whose rows are programmed at norm 1
    assert programmed.error[-1] < 7e-3
    found = check_function(circuit, circuit.board, programmed.bias, TASK, process)
    assert (found.exact, found.inputs, found.saturated) == (256, 256, 0)
    assert found.margin > 0.05


def test_every_word_of_a_network_in_blocks_of_two_is_exact(process):
    # one server, which receives its own words
    same = AveragingNetwork(tuple(Layer(np.eye(2), np.zeros(2)) for _ in range(3)), Averaging(4, 1, 2))
    onn = in_blocks(same)
    assert onn.structure == (2, 8, 4, 2)
    np.testing.assert_allclose(onn.forward(onn.task.lattice()), onn.task.lattice())
    process = realised(process, "onchip")
    circuit = assemble(onn, process, "chip")
    programmed = program(circuit, circuit.board, onn, process)
    found = check_function(circuit, circuit.board, programmed.bias, onn.task, process)
    assert (found.exact, found.inputs, found.saturated) == (16, 16, 0)
    assert found.margin > 0.3


def modulated_guide():
    """A carrier fibre, a modulator, a heated guide, a photodiode."""
    b = builder()
    b.add("m", "modulator")
    b.add("h", "phase_shifter")
    b.add("d", "photodiode")
    add_heater(b, "h", "phase")
    add_heater(b, "m", "send")
    add_heater(b, "d", "see")
    add_fibre(b, "carrier", "m,o1")
    b.connect("m,o2", "h,o1")
    b.connect("h,o2", "d,o1")
    return b


def test_a_modulator_emits_its_carrier_and_a_photodiode_reads_its_incoming_light(process):
    dark = with_parameters(process, reflection_db=-400.0)
    found = scattering(modulated_guide().build(), {"phase": 0.7}, 1550.0, dark)
    assert found.labels == ("carrier", "see", "send")
    assert found.modulators == ("send",)
    fibre, modulator = (device_s(dark, name, 1550.0)[0, 1, 0] for name in ("grating_coupler", "modulator"))
    heated = device_s(dark, "phase_shifter", 1550.0, 0.7)[0, 1, 0]
    assert found.strength(["carrier", "send"], {"carrier": 1.0})[0] == pytest.approx([1.0, fibre * modulator])
    assert found.between(["see"], ["send"])[0, 0, 0] == pytest.approx(heated)
    # a modulator that is not driven blocks its carrier
    assert found.between(["see"], ["carrier"])[0, 0, 0] == 0.0


def test_a_photodiode_without_a_pad_is_refused():
    b = modulated_guide()
    del b.ports["see"]
    with pytest.raises(NetlistError, match="photodiode 'd'"):
        analyse(b.build())


def test_path_loss_includes_the_modulator_and_its_carriers_fibre(process):
    process = realised(process, "onchip")
    onn = random_onn((2, 4, 2), (2, 2))
    circuit = assemble(onn, process, "chip", LOCAL_STRIPS)
    bias = program(circuit, circuit.board, onn, process).bias
    loss = path_loss_db(scattering(circuit, bias, 1550.0, process), circuit.board)
    card = process.device("modulator")
    more = {**card.model.parameters, "loss_db": Quantity(card.parameter("loss_db") + 10.0, "test")}
    worse = card.model_copy(update={"model": card.model.model_copy(update={"parameters": more})})
    process = process.model_copy(update={"devices": {**process.devices, "modulator": worse}})
    assert loss < 100.0
    # approximate, because of reflections between modulator and grating
    assert path_loss_db(scattering(circuit, bias, 1550.0, process), circuit.board) == pytest.approx(
        loss + 10.0, abs=0.1
    )


def test_a_detuned_server_is_measured_through_all_blocks(process):
    onn = random_onn((2, 4, 4, 2), (2, 2, 2))
    circuit = assemble(onn, process, "chip", LOCAL_STRIPS)
    bias = program(circuit, circuit.board, onn, process).bias
    even = server_errors(scattering(circuit, bias, 1550.0, process), circuit.board, bias)
    assert np.abs(even).max() < 1e-3
    turned = replace(bias, phase_rad=bias.phase_rad + np.array([0.4 * (name == "trim_s1_m0") for name in bias.labels]))
    uneven = server_errors(scattering(circuit, turned, 1550.0, process), circuit.board, bias)
    assert np.abs(uneven[:, 0]).min() > 0.03
    assert uneven[:, 0].sum() == pytest.approx(0.0, abs=1e-9)
    assert np.abs(uneven[:, 1]).max() < 1e-2


def test_s_matrices_by_layer_have_all_blocks_and_their_carriers(process):
    onn = random_onn((2, 4, 2), (2, 2))
    circuit = assemble(onn, realised(process, "onchip"), "chip", LOCAL_STRIPS)
    bias = program(circuit, circuit.board, onn, process).bias
    first, last = block_scattering(circuit, bias, np.array([1550.0]), process)
    assert {"in_s0_m0", "l0b1_p_r1", "lo_l0b1", "carrier"} <= set(first.labels)
    assert {"out_s1_m1", "l1b1_in_r0", "carrier_l1b1"} <= set(last.labels)
    assert (first.modulators, len(last.modulators)) == ((), 4)


def test_another_factorisations_board_is_refused(process):
    onn = random_onn((2, 4, 4, 2), (2, 2, 2))
    circuit = assemble(onn, process, "chip")
    with pytest.raises(ValueError, match=r"'l1_r0'.* 2 .* 1"):
        layer_targets(replace(onn, factor=(("approx", 2), ("approx", 4), ("approx", 2))), single(circuit.board, 0))
    with pytest.raises(ValueError, match=r"'l0_r0'.* 2 .* 1 "):
        layer_targets(replace(onn, factor=(("approx", 2), "svd", ("approx", 2))), circuit.board)


def single(board, layer):
    """The board with one modulator a neuron in a layer."""
    neurons = [Neuron(n.label, n.layer, n.plus, n.minus, n.to[0]) if n.layer == layer else n for n in board.neurons]
    return replace(board, neurons=tuple(neurons))
