"""Targets of parts of layers, against those of whole layers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.assemble import assemble
from optinc_pdk.cards import with_field_outputs
from optinc_pdk.networks import GeneralNetwork, Layer
from optinc_pdk.simulate.circuit_optics import analyse
from optinc_pdk.simulate.programming.detection_jacobian import (
    jacobian,
    linear_response,
    residual,
    row_scales,
    with_shared_electronics,
)
from optinc_pdk.simulate.programming.phase_fit import ProgrammingProblem, solve_fields
from optinc_pdk.simulate.programming.targets import block_targets, layer_targets, part_targets

from .conftest import with_geometry
from .test_program import problem_of, random_onn


@pytest.fixture(scope="module")
def problem(process):
    """A hidden layer of 2 × 2 blocks of 4 × 4, and a last layer of 2 × 2 blocks of 4 × 4 and 2 × 4."""
    rng, process = np.random.default_rng(3), with_field_outputs(process)
    layers = [Layer(rng.normal(size=(8, 8)), rng.normal(size=8)), Layer(rng.normal(size=(6, 8)), rng.normal(size=6))]
    network = replace(GeneralNetwork.of_layers(layers), factor=(("approx", 4), ("approx", 4)))
    network = network.with_data(rng.uniform(-1.0, 1.0, (60, 8)))
    reference = assemble(network, process, "network")
    targets = layer_targets(network, reference.board)
    return ProgrammingProblem(analyse(with_geometry(reference, 1)), reference.board, targets, 1550.0, process)


@pytest.fixture(scope="module")
def light(problem):
    phases = np.random.default_rng(3).uniform(0.0, 2.0 * np.pi, len(problem.structure.channel))
    return phases, solve_fields(problem, phases)


def test_hidden_layers_have_a_part_for_each_block_and_the_last_one_for_each_row_of_blocks(problem):
    hidden, last = problem.targets
    *parts, upper, lower = found = part_targets(problem.targets)
    assert [part.index for part in found] == list(range(6))
    assert not any(part.whole for part in found)
    assert [part.blocks[0].name for part in parts] == [block.name for block in hidden.blocks]
    assert [len(part.blocks) for part in parts] == [1] * 4
    assert [part.plus for part in (upper, lower)] == [last.plus[:4], last.plus[4:]]
    assert upper.inputs == lower.inputs == last.inputs
    assert np.array_equal(np.concatenate([upper.weight, lower.weight]), last.weight)
    assert [piece.row for piece in lower.pieces] == [0, 0, 1, 1]
    single = block_targets(problem.targets)
    assert [part.blocks[0].name for part in single] == [b.name for target in problem.targets for b in target.blocks]


def test_layers_of_one_block_are_not_divided(process):
    problem = problem_of(random_onn((4,)), process)
    for found in (part_targets(problem.targets), block_targets(problem.targets)):
        assert all(part.whole and part.plus == one.plus for part, one in zip(found, problem.targets, strict=True))


def test_parts_share_no_heater_and_leave_out_the_trims_of_shared_inputs_only(problem):
    every = np.concatenate([problem.heaters(target.index) for target in problem.targets])
    for found in (part_targets(problem.targets), block_targets(problem.targets)):
        divided = replace(problem, targets=found)
        heaters = np.concatenate([divided.heaters(part.index) for part in found])
        left_out = [problem.structure.channel[i] for i in np.setdiff1d(every, heaters).tolist()]
        assert len(left_out) == 8 and all(label.startswith("trim_") for label in left_out)
        assert np.isin(heaters, every).all()
        assert np.unique(heaters).size == heaters.size


def test_responses_of_parts_add_up_with_the_electronics_of_the_rows(problem, light):
    phases, solved = light
    target = problem.targets[0]
    parts = with_shared_electronics(
        problem.targets, part_targets(problem.targets), lambda one: linear_response(solved, one)
    )
    divided = replace(problem, targets=parts)
    by_part = solve_fields(divided, phases)
    seen = linear_response(solved, target)
    found = np.zeros_like(seen.coefficient)
    for part in parts[:4]:
        rows = list(target.blocks[part.index].rows)
        columns = np.flatnonzero(np.isin(target.column, list(part.blocks[0].columns)))
        response = linear_response(by_part, part)
        assert np.array_equal(response.balance, seen.balance[rows])
        assert np.array_equal(
            row_scales(response.coefficient, part), np.real(row_scales(seen.coefficient, target))[rows]
        )
        found[np.ix_(rows, columns)] = response.coefficient
    # light of a block's inputs reaches other blocks of its columns only
    assert found == pytest.approx(seen.coefficient, abs=2e-3 * np.abs(seen.coefficient).max())


def test_derivatives_with_fixed_electronics_agree_with_difference_quotients(problem, light):
    phases, solved = light
    parts = with_shared_electronics(
        problem.targets, part_targets(problem.targets), lambda one: linear_response(solved, one), 0.9
    )
    divided, part = replace(problem, targets=parts), parts[2]
    heaters, step = divided.heaters(2)[:6], 1e-6
    slope = jacobian(solve_fields(divided, phases, heaters=True), part, heaters)
    for column, heater in zip(slope.T, heaters.tolist(), strict=True):
        up, down = phases.copy(), phases.copy()
        up[heater] += step
        down[heater] -= step
        errors = [residual(linear_response(solve_fields(divided, each), part).coefficient, part) for each in (up, down)]
        assert column == pytest.approx((errors[0] - errors[1]).reshape(-1) / (2.0 * step), rel=1e-3, abs=1e-6)
