"""Fields, gradients and compiled cost against whole matrices and difference quotients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.factor import (
    MeshDevices,
    mesh_devices,
    random_mesh_devices,
    rectangular,
)
from optinc_pdk.factor.correction.least_squares import (
    CorrectionProblem,
    cost_and_gradient,
    evaluate,
    fit_lbfgs,
    gradient,
)
from optinc_pdk.factor.correction.newton import curvature, fit_newton

DenseMatrix = Callable[[MeshDevices, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
RandomUnitary = Callable[..., np.ndarray]
VariedDevices = Callable[..., MeshDevices]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 7), st.integers(0, 2), st.integers(0, 2**31))
def test_matrix_is_the_product_of_the_devices(
    varied_devices: VariedDevices, dense_matrix: DenseMatrix, modes: int, redundant: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    imperfect = varied_devices(modes, rng, redundant)
    x = rng.uniform(0, 2 * np.pi, 2 * imperfect.row.size + modes)
    problem = CorrectionProblem(imperfect, np.eye(modes), homodyne=False)
    np.testing.assert_allclose(evaluate(problem, x).matrix, dense_matrix(imperfect, *problem.split(x)), atol=1e-13)


def test_ideal_devices_are_the_ideal_mesh(random_unitary: RandomUnitary) -> None:
    unitary = random_unitary(8, np.random.default_rng(0))
    mesh = rectangular(unitary)
    problem = CorrectionProblem(mesh_devices(mesh), unitary, homodyne=False)
    light = evaluate(problem, np.concatenate([mesh.theta, mesh.phi, mesh.output_phase]))
    np.testing.assert_allclose(light.matrix, mesh.matrix(), atol=1e-13)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 6),
    st.integers(0, 1),
    st.sampled_from([(False, 0.0), (True, 0.0), (True, 0.3)]),
    st.integers(0, 2**31),
)
def test_gradient_is_the_difference_quotient(
    random_unitary: RandomUnitary,
    varied_devices: VariedDevices,
    modes: int,
    redundant: int,
    detection: tuple[bool, float],
    seed: int,
) -> None:
    homodyne, quadrature_weight = detection
    rng = np.random.default_rng(seed)
    imperfect = varied_devices(modes, rng, redundant)
    target = random_unitary(modes, rng, homodyne)
    problem = CorrectionProblem(imperfect, target, homodyne, quadrature_weight=quadrature_weight)
    x = rng.uniform(0, 2 * np.pi, 2 * imperfect.row.size + modes)
    step = 1e-5
    expected = [
        (evaluate(problem, x + step * e).cost - evaluate(problem, x - step * e).cost) / (4 * step)
        for e in np.eye(x.size)
    ]
    np.testing.assert_allclose(gradient(problem, evaluate(problem, x)), expected, atol=1e-8)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 12),
    st.integers(0, 1),
    st.sampled_from([(False, 0.0), (True, 0.0), (True, 0.3)]),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_compiled_cost_and_gradient_agree_with_numpy(
    random_unitary: RandomUnitary,
    varied_devices: VariedDevices,
    modes: int,
    redundant: int,
    detection: tuple[bool, float],
    partial: bool,
    seed: int,
) -> None:
    """With input fields, dumped outputs and weighted quadrature too."""
    homodyne, quadrature_weight = detection
    rng = np.random.default_rng(seed)
    imperfect = varied_devices(modes, rng, redundant)
    target, inputs = random_unitary(modes, rng, homodyne), None
    if partial:
        target = target[: (modes + 1) // 2]
        inputs = rng.normal(size=(modes, modes)) + 1j * rng.normal(size=(modes, modes))
    problem = CorrectionProblem(imperfect, target, homodyne, inputs, quadrature_weight)
    x = rng.uniform(0, 2 * np.pi, 2 * imperfect.row.size + modes)
    light = evaluate(problem, x)
    half, slope = cost_and_gradient(problem, x)
    assert half == pytest.approx(0.5 * light.cost, rel=1e-12)
    np.testing.assert_allclose(slope, gradient(problem, light), atol=1e-11 * (1 + light.cost))


def test_compiled_gradient_of_more_vectors_than_one_tile(
    random_unitary: RandomUnitary, varied_devices: VariedDevices
) -> None:
    rng = np.random.default_rng(5)
    imperfect = varied_devices(70, rng)
    problem = CorrectionProblem(imperfect, random_unitary(70, rng, real=True), homodyne=True)
    x = rng.uniform(0, 2 * np.pi, 2 * imperfect.row.size + 70)
    light = evaluate(problem, x)
    half, slope = cost_and_gradient(problem, x)
    assert half == pytest.approx(0.5 * light.cost, rel=1e-12)
    np.testing.assert_allclose(slope, gradient(problem, light), atol=1e-11)


def test_lbfgs_and_newton_converge_to_the_same_cost(random_unitary: RandomUnitary) -> None:
    rng = np.random.default_rng(7)
    unitary = random_unitary(12, rng)
    mesh = rectangular(unitary)
    imperfect = random_mesh_devices(mesh, rng, 0.04)
    problem = CorrectionProblem(imperfect, unitary, homodyne=False)
    start = np.concatenate([mesh.theta, mesh.phi, mesh.output_phase])
    before = evaluate(problem, start).cost
    lbfgs, steps = fit_lbfgs(problem, start, 3000)
    newton, _ = fit_newton(problem, start, 60)
    assert 0 < steps <= 3000
    assert evaluate(problem, lbfgs).cost < 1e-3 * before
    assert evaluate(problem, newton).cost <= evaluate(problem, lbfgs).cost + 1e-12


@settings(max_examples=10, deadline=None)
@given(st.integers(2, 5), st.integers(1, 4), st.booleans(), st.integers(0, 1), st.integers(0, 2**31))
def test_derivatives_with_input_fields_and_dumped_outputs(
    varied_devices: VariedDevices,
    dense_matrix: DenseMatrix,
    modes: int,
    vectors: int,
    homodyne: bool,
    dumped: int,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    imperfect = varied_devices(modes, rng, lossy=False)
    fields = rng.normal(size=(modes, vectors)) + 1j * rng.normal(size=(modes, vectors))
    read = modes - dumped
    target = np.zeros((read, vectors)) if homodyne else rng.normal(size=(read, vectors)) + 0j
    problem = CorrectionProblem(imperfect, target, homodyne, fields)
    x = rng.uniform(0, 2 * np.pi, 2 * imperfect.row.size + modes)
    fields_out = (dense_matrix(imperfect, *problem.split(x)) @ fields)[:read]
    deviation = (fields_out.real if homodyne else fields_out) - target
    np.testing.assert_allclose(evaluate(problem, x).cost, np.linalg.norm(deviation) ** 2)
    step = 1e-5
    lights = [(evaluate(problem, x + step * e), evaluate(problem, x - step * e)) for e in np.eye(x.size)]
    slopes = [(above.cost - below.cost) / (4 * step) for above, below in lights]
    np.testing.assert_allclose(gradient(problem, evaluate(problem, x)), slopes, atol=1e-7)
    second = [(gradient(problem, above) - gradient(problem, below)) / (2 * step) for above, below in lights]
    expected = np.array(second)[np.ix_(problem.order, problem.order)]
    result = curvature(problem, evaluate(problem, x))
    np.testing.assert_allclose(np.tril(result), np.tril(expected), atol=1e-6)
