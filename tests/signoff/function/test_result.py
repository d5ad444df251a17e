"""Counts and kept rows of a function check against a direct evaluation, and the file that holds them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from optinc_collective.schemes._chips import table_chip
from optinc_pdk.averaging import Averaging, decide_steps
from optinc_pdk.errors import InputError
from optinc_pdk.signoff.function import FunctionResult, write_function
from optinc_pdk.signoff.function import _result as result
from optinc_pdk.signoff.function._result import FunctionTally, Readings
from optinc_pdk.signoff.function._word_inputs import InputPlan, plan_inputs

TASK = Averaging(8, 2, 4)


def tallied(plan: InputPlan, size: int, noise: float = 0.15) -> tuple[FunctionResult, list[Readings]]:
    """Result of a check whose outputs are the ideal levels with Gaussian errors."""
    task, rng = plan.task, np.random.default_rng(0)
    tally, batches = FunctionTally(task, plan.total), []
    for inputs in plan.batches(size):
        shape = (inputs.assignments, *inputs.symbols.shape)
        outputs = np.abs(inputs.levels[:, np.newaxis] + noise * rng.standard_normal(shape))
        words = task.combine_steps(decide_steps(outputs, task.output_resolution))
        batches.append(Readings(inputs, np.broadcast_to(inputs.symbols, shape), words, outputs, 3))
        tally.add(batches[-1])
    found = tally.result(
        coverage=plan.coverage, corners=0, loss_db=1.0, hop_loss_db=(), certificate=None, no_certificate="none"
    )
    return found, batches


@pytest.mark.parametrize("task", [TASK, Averaging(6, 3, 3, remainder=True), Averaging(4, 3, 2, finer_input=True)])
def test_batches_are_counted_like_one_table(task: Averaging) -> None:
    found, batches = tallied(plan_inputs(task), 500)
    ideal = np.concatenate([batch.inputs.ideal for batch in batches])
    words = np.concatenate([batch.words for batch in batches], axis=1)
    wrong = words != ideal[:, np.newaxis]
    assert found.inputs == len(ideal)
    assert found.exact == int((~wrong.any(axis=(0, 2))).sum()) < found.inputs
    assert found.word_count == words.size
    assert found.errors == dict(sorted(Counter((words - ideal[:, np.newaxis])[wrong].tolist()).items()))
    assert found.saturated == 3 * len(batches)
    levels = np.concatenate([batch.inputs.levels for batch in batches])
    outputs = np.concatenate([batch.outputs for batch in batches], axis=1)
    margins = 0.5 - np.abs(outputs - levels[:, np.newaxis]) * task.output_resolution
    np.testing.assert_allclose(found.symbol_margins, margins.min(axis=(0, 1, 2)))
    assert found.margin == margins.min()
    # a small table is kept completely
    np.testing.assert_array_equal(found.rows, np.arange(found.inputs))
    np.testing.assert_array_equal(found.words, words)
    np.testing.assert_array_equal(found.outputs, outputs)
    np.testing.assert_allclose(found.margins, margins.min(axis=(0, 2)))


def test_of_a_large_table_the_worst_rows_and_a_sample_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_inputs(TASK)
    whole, batches = tallied(plan, 1000)
    monkeypatch.setattr(result, "TABLE_VALUES", 1000)
    monkeypatch.setattr(result, "WORST_ROWS", 50)
    monkeypatch.setattr(result, "SAMPLED_ROWS", 100)
    found, _ = tallied(plan, 1000)
    assert (found.exact, found.errors, found.margin) == (whole.exact, whole.errors, whole.margin)
    assert 100 <= len(found.rows) <= 150
    worst = np.argsort(whole.margins.min(axis=1), kind="stable")[:50]
    assert set(worst.tolist()) <= set(found.rows.tolist())
    for name in ("symbols", "words", "outputs"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name)[:, found.rows])
    for name in ("ideal", "levels", "margins"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name)[found.rows])
    assert len(batches) == len(list(plan.batches(1000)))


def test_the_file_states_how_many_inputs_were_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_inputs(TASK)
    path = tmp_path / "whole.function.npz"
    write_function(tallied(plan, 1000, noise=0.0)[0], path)
    assert table_chip(path).servers == 2
    monkeypatch.setattr(result, "TABLE_VALUES", 1000)
    part, again = tmp_path / "part.function.npz", tmp_path / "again.function.npz"
    found, _ = tallied(plan, 1000)
    write_function(found, part)
    write_function(found, again)
    assert part.read_bytes() == again.read_bytes()
    with np.load(part) as table:
        assert int(table["inputs"]) == plan.total
        assert int(table["exact"]) == found.exact
        assert str(table["coverage"]) == plan.coverage
        np.testing.assert_array_equal(table["rows"], found.rows)
        assert table["symbols"].shape[1] == len(found.rows) < plan.total
    if len(found.rows) < plan.total:
        with pytest.raises(InputError, match=rf"{len(found.rows):,} of the {plan.total:,} inputs"):
            table_chip(part)
