"""Inputs of the function check: which they are, that batches cover them, and that they are what they claim to be."""

from __future__ import annotations

import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.signoff.function._word_inputs import (
    BATCH,
    STUDY_INPUTS,
    FunctionInputs,
    InputPlan,
    corner_steps,
    function_inputs,
    plan_inputs,
)


def check_consistent(inputs: FunctionInputs) -> None:
    """Symbols, lattice points and ideal words of inputs agree."""
    task = inputs.task
    np.testing.assert_allclose(task.preprocess(inputs.symbols) * task.input_resolution, inputs.steps, atol=1e-6)
    np.testing.assert_array_equal(task.targets(inputs.steps / task.input_resolution), inputs.levels)
    np.testing.assert_array_equal(task.combine_levels(inputs.levels), inputs.ideal)


@pytest.mark.parametrize(
    ("task", "coverage", "total"),
    [
        (Averaging(4, 4, 2), "combinations", 65_536),
        (Averaging(4, 2, 2, remainder=True), "combinations", 256),
        (Averaging(8, 4, 4), "lattice", 28_561),
        (Averaging(4, 4, 2, finer_input=True), "lattice", 13 * 61),
        (Averaging(16, 4, 4), "lattice", 61**4),
        (Averaging(16, 4, 8), "sample", 2**20 + 2 * 75_632),
    ],
)
def test_the_coverage_follows_the_number_of_combinations_and_points(task: Averaging, coverage: str, total: int) -> None:
    plan = plan_inputs(task)
    assert (plan.coverage, plan.total) == (coverage, total)
    first = next(plan.batches())
    assert len(first.ideal) == min(total, BATCH)
    check_consistent(first)


@pytest.mark.parametrize(
    "task",
    [Averaging(4, 2, 2), Averaging(8, 4, 4), Averaging(6, 3, 3, remainder=True), Averaging(4, 3, 2, finer_input=True)],
)
def test_batches_cover_every_input_once(task: Averaging) -> None:
    plan = plan_inputs(task)
    batches = list(plan.batches(1000))
    for batch in batches:
        check_consistent(batch)
    steps = np.vstack([batch.steps for batch in batches])
    if plan.coverage == "lattice":
        np.testing.assert_array_equal(steps, task.lattice_steps())
    else:
        symbols = np.concatenate([batch.symbols for batch in batches]).reshape(plan.total, -1)
        assert len(np.unique(symbols, axis=0)) == plan.total == 4 ** (task.symbols * task.servers)


def test_a_sample_is_all_corners_and_different_random_words() -> None:
    task = Averaging(16, 4, 8)
    plan = InputPlan(task, "sample", 30_000, corner_steps(task))
    batches = list(plan.batches())
    for batch in batches:
        check_consistent(batch)
        assert batch.assignments == 1
    steps = np.vstack([batch.steps for batch in batches])
    corners = corner_steps(task)
    np.testing.assert_array_equal(steps[: 2 * len(corners)], np.vstack([corners, corners]))
    worst = np.concatenate([batch.worst for batch in batches])
    np.testing.assert_array_equal(np.flatnonzero(worst), np.arange(len(corners), 2 * len(corners)))
    words = np.concatenate([batch.symbols for batch in batches])[2 * len(corners) :]
    assert len(np.unique(task.decode(words), axis=0)) == 30_000
    # uniform words: every symbol at every place is as frequent
    share = np.stack([(words == symbol).mean(axis=0) for symbol in range(4)])
    np.testing.assert_allclose(share, 0.25, atol=0.02)


def test_studies_use_a_bounded_number_of_inputs_of_a_large_lattice() -> None:
    inputs = function_inputs(Averaging(16, 4, 8))
    assert inputs.coverage == "sample"
    assert len(inputs.ideal) == 3 * STUDY_INPUTS
    check_consistent(inputs)
    few = function_inputs(Averaging(8, 16, 4))
    assert STUDY_INPUTS < len(few.ideal) < 2 * STUDY_INPUTS


def test_a_certificate_replaces_the_enumeration_of_a_large_lattice() -> None:
    assert plan_inputs(Averaging(8, 16, 4)).coverage == "lattice"
    assert plan_inputs(Averaging(8, 16, 4), certified=True).coverage == "sample"
    assert plan_inputs(Averaging(8, 8, 4), certified=True).coverage == "lattice"


def test_inputs_are_reproducible() -> None:
    task = Averaging(16, 4, 8)
    one, same = (next(plan_inputs(task).batches()) for _ in range(2))
    np.testing.assert_array_equal(one.symbols, same.symbols)
