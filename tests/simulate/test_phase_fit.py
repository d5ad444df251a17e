"""Steps of the phase fit, and the fit of large layers' meshes against Levenberg–Marquardt."""

from __future__ import annotations

import numpy as np
import pytest

from optinc_pdk.simulate.programming import mesh_fit, phase_fit
from optinc_pdk.simulate.programming.detection_jacobian import linear_response, row_scales
from optinc_pdk.simulate.programming.initial_phases import aligned_initial_phases
from optinc_pdk.simulate.programming.mesh_fit import fit_meshes
from optinc_pdk.simulate.programming.phase_fit import damped_step, is_large, matrix_errors, solve_fields

from .test_program import problem_of, random_onn


def test_heaters_without_effect_get_no_step() -> None:
    """The phases of a layer of attenuators alone have no effect that the rows' gains do not provide."""
    for shape in ((2, 4), (4, 2)):
        step, left = damped_step(np.zeros(shape), np.full(shape[0], 0.5), 0.1)
        assert np.array_equal(step, np.zeros(shape[1])) and left == 0.5


@pytest.mark.parametrize("shape", [(3, 7), (7, 3)])
def test_a_step_with_little_damping_solves_the_linear_problem(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(5)
    slope, error = rng.normal(size=shape), 1e-3 * rng.normal(size=shape[0])
    step, left = damped_step(slope, error, 1e-12)
    expected = np.linalg.lstsq(slope, -error)[0]
    np.testing.assert_allclose(step, expected, rtol=1e-5, atol=1e-9)
    assert left == pytest.approx(np.sqrt(np.mean((error + slope @ expected) ** 2)), abs=1e-9)


# one block for each row, and two blocks beside each other, whose pieces of a row add up
@pytest.mark.parametrize(("hidden", "block", "layer"), [((6, 6), 6, 1), ((8, 4), 4, 1)])
def test_meshes_are_fitted_without_a_jacobian(process, monkeypatch, hidden, block, layer):
    problem = problem_of(random_onn(hidden, ("svd", ("approx", block), "svd")), process)
    target = problem.targets[layer]
    assert not is_large(problem, target)
    monkeypatch.setattr(phase_fit, "JACOBIAN_NUMBERS", 0)
    assert is_large(problem, target)
    assert [is_large(problem, other) for other in problem.targets].count(True) == 1
    phases, recorded = aligned_initial_phases(problem)
    before = matrix_errors(problem, solve_fields(problem, phases))[layer]
    errors = []
    fitted = fit_meshes(problem, target, recorded, phases, lambda _, error: errors.append(error))
    after = matrix_errors(problem, solve_fields(problem, fitted))
    assert after[layer] == pytest.approx(min(errors))
    assert after[layer] < min(1e-3, 0.3 * before)
    moved = np.flatnonzero(fitted != phases)
    assert np.isin(moved, problem.heaters(layer)).all()


def test_deviation_of_the_chip_from_the_model_is_corrected(process, monkeypatch):
    monkeypatch.setattr(phase_fit, "JACOBIAN_NUMBERS", 0)
    problem = problem_of(random_onn((6, 6), ("svd", ("approx", 6), "svd")), process)
    phases, recorded = aligned_initial_phases(problem)
    errors = []
    fit_meshes(problem, problem.targets[1], recorded, phases, lambda _, error: errors.append(error))
    assert min(errors[1:]) < errors[0]


def test_fits_keep_the_light_in_phase_with_the_local_oscillators(process, monkeypatch):
    monkeypatch.setattr(phase_fit, "JACOBIAN_NUMBERS", 0)
    # without a weight of the quadrature, this fit leaves half of the signal of a row
    problem = problem_of(random_onn((8, 8), ("svd", ("approx", 8), "svd"), seed=4), process)
    target = problem.targets[1]
    phases, recorded = aligned_initial_phases(problem)
    fitted = fit_meshes(problem, target, recorded, phases)
    before, after = (
        row_scales(linear_response(solve_fields(problem, each), target).coefficient, target)
        for each in (phases, fitted)
    )
    assert (after / before).min() > 0.85


def test_local_oscillators_follow_rows_of_the_opposite_sign(process):
    problem = problem_of(random_onn((6, 6), ("svd", ("approx", 6), "svd")), process)
    phases, recorded = aligned_initial_phases(problem)
    (mesh,) = mesh_fit._meshes(problem, problem.targets[1], recorded, phases)
    upright, turned = phases.copy(), phases.copy()
    mesh.write(upright)
    mesh.x[2 * mesh.problem.mzis + 2] += np.pi
    mesh.write(turned)
    assert np.exp(1j * turned) == pytest.approx(np.exp(1j * upright), abs=1e-9)
