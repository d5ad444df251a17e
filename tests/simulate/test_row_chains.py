"""Chips whose layers are factored row by row: a chain of MZIs for each row of the optical matrix."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from optinc_pdk.assemble import LOCAL_STRIPS, DiePlan, assemble, layer_blocks
from optinc_pdk.averaging import Averaging
from optinc_pdk.budgets.chip_size import onn_size
from optinc_pdk.budgets.factor_counts import factor_rows
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import label_tuple
from optinc_pdk.networks import AveragingNetwork, Layer, carry_chain, comparator_network, factorise, linked_network
from optinc_pdk.signoff.function import check_function
from optinc_pdk.simulate import analyse, program
from optinc_pdk.simulate.programming.initial_phases import aligned_initial_phases
from optinc_pdk.simulate.programming.phase_fit import ProgrammingProblem, matrix_errors, solve_fields
from optinc_pdk.simulate.programming.targets import layer_targets

from .conftest import _IDEAL, with_parameters


def by_rows(onn):
    """The same network with a chain for each row."""
    return replace(onn, factor=("rows",) * len(onn.layers))


def sparse(widths, seed=0):
    """A network of random weights with zeros: rows that share columns, a row of one column, columns of no row."""
    rng = np.random.default_rng(seed)
    layers = []
    for into, out in pairwise(widths):
        weight = 0.3 * rng.standard_normal((out, into)) * (rng.random((out, into)) < 0.7)
        weight[0] = np.eye(into)[0]
        layers.append(Layer(weight, rng.uniform(1.0, 2.0, out)))
    layers[-1] = replace(layers[-1], bias=np.zeros(widths[-1]))
    return AveragingNetwork(tuple(layers), Averaging(2 * widths[-1], 2, widths[0]), ("rows",) * len(layers))


@pytest.mark.parametrize("widths", [(2, 3, 5, 2), (4, 6, 7, 4), (1, 4, 2, 1)])
@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("realisation", ["offchip", "onchip"])
def test_initial_phases_are_exact_on_an_ideal_chip(ideal_process, widths, local, realisation):
    process = with_parameters(ideal_process, **_IDEAL, crosstalk_db=-400.0)
    card = process.activation.model_copy(update={"realisation": realisation})
    process = process.model_copy(update={"activation": card})
    onn = sparse(widths)
    circuit = assemble(onn, process, "chip", DiePlan(carrier_tree=not local))
    problem = ProgrammingProblem(analyse(circuit), circuit.board, layer_targets(onn, circuit.board), 1550.0, process)
    assert matrix_errors(problem, solve_fields(problem, aligned_initial_phases(problem)[0])).max() < 1e-9
    assert len(circuit.instances_of("mzi_unit")) + len(circuit.instances_of("attenuator")) == onn.mzis


@pytest.mark.parametrize("onn", [carry_chain(Averaging(2, 2, 1)), comparator_network(Averaging(4, 4, 2))])
def test_every_word_is_exact(process, onn):
    onn = by_rows(onn)
    circuit = assemble(onn, process, "chip")
    programmed = program(circuit, circuit.board, onn, process)
    assert programmed.error[:-1].max() < 1e-5
    found = check_function(circuit, circuit.board, programmed.bias, onn.task, process)
    assert found.exact == found.inputs == 4 ** (onn.task.servers * onn.task.symbols)


def test_a_source_drives_a_modulator_for_each_row_that_reads_it(process):
    onn = by_rows(comparator_network(Averaging(4, 4, 2)))
    board = assemble(onn, process, "chip").board
    for index in range(1, len(onn.layers)):
        driven = [len(label_tuple(neuron.to)) for neuron in board.neurons if neuron.layer == index - 1]
        columns = [column for block in layer_blocks(onn, index) for column in block.columns]
        assert driven == np.bincount(columns).tolist()


@pytest.mark.parametrize("process", ["soi220", "soi220_flipchip"])
def test_the_estimated_size_is_that_of_the_circuit(process):
    card, onn = load_process(process), by_rows(comparator_network(Averaging(4, 4, 2)))
    size, linked = onn_size("x", onn, card), linked_network(onn, card.link.kind == "neurons")
    circuit = assemble(linked, card, "x", LOCAL_STRIPS)
    assert size.mzis == linked.mzis
    assert sum(row["mzis_on_chip"] for row in factor_rows(linked)) == linked.mzis
    pads = [
        label for label in circuit.ports if label.endswith(("_phi", "_theta")) or "_att" in label or "_lo_" in label
    ]
    assert size.heaters == len(pads) + sum(label.startswith("trim_") for label in circuit.ports)


def test_factors_are_exact():
    for onn in (sparse((3, 5, 4, 3)), by_rows(carry_chain(Averaging(4, 4, 2)))):
        factors = factorise(onn)
        assert sum(factor.factor.mzis for factor in factors) == onn.mzis
        for factor in factors:
            np.testing.assert_allclose(factor.realised, factor.matrix, atol=1e-14)
