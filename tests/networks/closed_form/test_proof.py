"""The proof succeeds for every chain, and fails for a fault in any part of one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.networks import (
    AveragingNetwork,
    Layer,
    ProofError,
    carry_chain,
    lattice_score,
    prove,
    regenerating_chain,
    unary_chain,
)
from optinc_pdk.networks.closed_form._stage_program import SumInstruction, averaging_program
from optinc_pdk.networks.closed_form.chains import compile_program, regenerating_stage, smallest_stage, unary_stages
from optinc_pdk.networks.closed_form.proof import _check_links, _check_peaks, check_stage
from optinc_pdk.networks.closed_form.stage import Stage

TASKS = [
    Averaging(16, 4, 8),
    Averaging(16, 7, 4),
    Averaging(16, 8, 8),
    Averaging(8, 2, 2, remainder=True),
    Averaging(32, 16, 16),
    Averaging(32, 5, 16),
    Averaging(8, 4, 4, remainder=True),
    Averaging(8, 3, 2, remainder=True),
    Averaging(16, 4, 8, finer_input=True),
    Averaging(8, 5, 2, finer_input=True),
]


@pytest.mark.parametrize("task", TASKS, ids=str)
@pytest.mark.parametrize("build", [carry_chain, regenerating_chain])
def test_chains_with_huge_lattices_are_proved(task: Averaging, build: Callable[[Averaging], AveragingNetwork]) -> None:
    onn = build(task)
    proof = prove(onn, samples=2000)
    assert proof.stages == (len(onn.layers) - 1) / (1 if build is carry_chain else 4)
    assert proof.values > sum(steps + 1 for steps in task.input_steps)
    assert proof.samples == 2000


@pytest.mark.parametrize(
    "task", [Averaging(32, 4, 16), Averaging(12, 3, 6), Averaging(8, 4, 4, remainder=True)], ids=str
)
def test_unary_chains_are_proved(task: Averaging) -> None:
    onn = unary_chain(task, amplifiers=1)
    proof = prove(onn, samples=500)
    assert proof.stages == (len(onn.layers) - 1) / 2
    assert proof.values > sum(steps + 1 for steps in task.input_steps)


CLOSED = {
    "smallest": lambda task: compile_program(averaging_program(task), task, smallest_stage),
    "regenerating": lambda task: compile_program(
        averaging_program(task, late=True), task, partial(regenerating_stage, copies=2, amplifiers=2)
    ),
    "unary": lambda task: unary_stages(task, 2),
}


@pytest.mark.full(every=2)
@pytest.mark.parametrize("task", [Averaging(4, 4, 2), Averaging(4, 3, 2, remainder=True)], ids=str)
@pytest.mark.parametrize("form", CLOSED)
def test_every_changed_weight_that_changes_the_function_is_found(task: Averaging, form: str) -> None:
    closed = CLOSED[form](task)
    harmless = 0
    for place, stage in enumerate(closed.stages):
        assert check_stage(stage) > 0
        for number, layer in enumerate(stage.layers):
            for row, column in np.ndindex(layer.outputs, layer.inputs + 1):
                weight, bias = layer.weight.copy(), layer.bias.copy()
                if column < layer.inputs:
                    weight[row, column] += 1.0
                else:
                    bias[row] -= 1.0
                other = changed(stage, number, Layer(weight, bias))
                try:
                    check_stage(other)
                except ProofError:
                    continue
                # A bit with more gain has the same clipped values.
                harmless += 1
                every = [*closed.stages[:place], other, *closed.stages[place + 1 :]]
                onn = AveragingNetwork((*(layer for one in every for layer in one.layers), closed.last), task)
                assert lattice_score(onn).margin == pytest.approx(0.5, abs=1e-6)
    assert harmless == 0 or form != "smallest"


def changed(stage: Stage, number: int, layer: Layer) -> Stage:
    layers = list(stage.layers)
    layers[number] = layer
    return replace(stage, layers=tuple(layers))


def test_a_wrong_staircase_names_the_value() -> None:
    task = Averaging(4, 4, 2)
    first, *_ = compile_program(averaging_program(task), task, smallest_stage).stages
    after = dict(first.after)
    after["c0"] = after["c0"] * 1.5
    with pytest.raises(ProofError, match=r"c0.*s0.*4"):
        check_stage(replace(first, after=after))


@pytest.mark.parametrize("form", CLOSED)
def test_wrong_sums_between_stages_are_found(form: str) -> None:
    task = Averaging(4, 4, 2)
    closed, onn = CLOSED[form](task), carry_chain(task)
    _check_links(closed, onn)
    last = closed.stages[-1]
    name = next(iter(last.reads))
    wrong = {part: factor + 1 for part, factor in last.reads[name].items()}
    stages = (*closed.stages[:-1], replace(last, reads=last.reads | {name: wrong}))
    with pytest.raises(ProofError, match=re.escape(name)):
        _check_links(replace(closed, stages=stages), onn)
    terms, divisor = closed.outputs[0]
    outputs = ((terms, divisor + 1), *closed.outputs[1:])
    with pytest.raises(ProofError, match="output 0"):
        _check_links(replace(closed, outputs=outputs), onn)


def test_other_networks_are_not_proved() -> None:
    onn = carry_chain(Averaging(4, 4, 2))
    scaled = Layer(onn.layers[0].weight * 1.001, onn.layers[0].bias)
    shallow = AveragingNetwork((Layer(np.ones((2, 2)), np.zeros(2)),), onn.task, card=onn.card)
    for other in (replace(onn, layers=(scaled, *onn.layers[1:])), shallow):
        with pytest.raises(ProofError, match="closed form"):
            prove(other)
    with pytest.raises(ProofError, match="card"):
        prove(replace(onn, card={"recipe": "regenerating_chain", "copies": 0, "amplifiers": 1}))


def test_words_of_32_bits_survive_double_precision() -> None:
    for task in (Averaging(32, 7, 4), Averaging(32, 7, 8, remainder=True)):
        assert prove(carry_chain(task), samples=2000).samples == 2000


def test_too_many_values_and_approximated_layers_are_refused() -> None:
    with pytest.raises(ProofError, match="16,777,216"):
        prove(carry_chain(Averaging(32, 1, 1)))
    onn = carry_chain(Averaging(4, 4, 2))
    with pytest.raises(ProofError, match="closed form"):
        prove(replace(onn, factor=("svd", ("approx", 6), "svd")))


def test_wrong_peaks_are_found() -> None:
    task = Averaging(8, 4, 4)
    program = averaging_program(task)
    with pytest.raises(ProofError, match=r"t1.*15.*14"):
        _check_peaks(replace(program, peaks=program.peaks | {"t1": 14}), task)
    negative = SumInstruction("x", {"s1": 1, "s0": -1})
    with pytest.raises(ProofError, match="negative"):
        _check_peaks(replace(program, instructions=(*program.instructions, negative)), task)
