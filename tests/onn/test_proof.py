"""The proof holds for every chain, and sees a fault in any part of one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.onn import Layer, Onn, ProofError, carry_chain, prove
from optinc_pdk.onn.chain import compile_program
from optinc_pdk.onn.program import Sum, averaging_program
from optinc_pdk.onn.proof import _check_peaks, check_stage

TASKS = [
    Averaging(16, 4, 8),
    Averaging(16, 7, 4),
    Averaging(32, 16, 16),
    Averaging(32, 5, 16),
    Averaging(8, 4, 4, remainder=True),
    Averaging(8, 3, 2, remainder=True),
    Averaging(16, 4, 8, finer_input=True),
    Averaging(8, 5, 2, finer_input=True),
]


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_chains_of_endless_lattices_are_proved(task: Averaging) -> None:
    onn = carry_chain(task)
    proof = prove(onn, samples=2000)
    assert proof.stages == len(onn.layers) - 1
    assert proof.values > sum(steps + 1 for steps in task.input_steps)
    assert proof.samples == 2000


@pytest.mark.parametrize("task", [Averaging(8, 4, 4), Averaging(8, 3, 2, remainder=True)], ids=str)
def test_every_changed_weight_is_seen(task: Averaging) -> None:
    program = averaging_program(task)
    onn, stages = compile_program(program, task)
    for stage, layer in zip(stages, onn.layers[:-1], strict=True):
        for place in np.ndindex(layer.weight.shape):
            weight = layer.weight.copy()
            weight[place] += 1.0
            with pytest.raises(ProofError):
                check_stage(stage, Layer(weight, layer.bias), program)
        for unit in range(layer.outputs):
            bias = layer.bias.copy()
            bias[unit] -= 1.0
            with pytest.raises(ProofError):
                check_stage(stage, Layer(layer.weight, bias), program)


def test_a_wrong_staircase_names_the_value() -> None:
    task = Averaging(4, 4, 2)
    program = averaging_program(task)
    onn, stages = compile_program(program, task)
    after = dict(stages[0].after)
    after["c0"] = after["c0"] * 1.5
    with pytest.raises(ProofError, match="floor c0: c0 is wrong where s0 is 4"):
        check_stage(replace(stages[0], after=after), onn.layers[0], program)


def test_other_networks_are_not_proved() -> None:
    onn = carry_chain(Averaging(4, 4, 2))
    changed = Layer(onn.layers[0].weight * 1.001, onn.layers[0].bias)
    shallow = Onn((Layer(np.ones((2, 2)), np.zeros(2)),), onn.task)
    for other in (replace(onn, layers=(changed, *onn.layers[1:])), shallow):
        with pytest.raises(ProofError, match="not the carry chain"):
            prove(other)


def test_peaks_that_bound_nothing_are_seen() -> None:
    task = Averaging(8, 4, 4)
    program = averaging_program(task)
    with pytest.raises(ProofError, match="signal t1 reaches 15, its peak is 14"):
        _check_peaks(replace(program, peaks=program.peaks | {"t1": 14}), task)
    negative = Sum("x", {"s1": 1, "s0": -1})
    with pytest.raises(ProofError, match="it may be negative"):
        _check_peaks(replace(program, instructions=(*program.instructions, negative)), task)
