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
from optinc_pdk.factor.correction.least_squares import CorrectionProblem, cost_and_gradient, fit_lbfgs, mesh_matrix

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
    np.testing.assert_allclose(mesh_matrix(problem, x), dense_matrix(imperfect, *problem.split(x)), atol=1e-13)


def test_ideal_devices_are_the_ideal_mesh(random_unitary: RandomUnitary) -> None:
    unitary = random_unitary(8, np.random.default_rng(0))
    mesh = rectangular(unitary)
    problem = CorrectionProblem(mesh_devices(mesh), unitary, homodyne=False)
    found = mesh_matrix(problem, np.concatenate([mesh.theta, mesh.phi, mesh.output_phase]))
    np.testing.assert_allclose(found, mesh.matrix(), atol=1e-13)


def differences(problem: CorrectionProblem, x: np.ndarray, step: float = 1e-5) -> list[float]:
    """Difference quotients of half the cost by every phase."""
    halves = ([cost_and_gradient(problem, x + sign * step * e)[0] for sign in (1, -1)] for e in np.eye(x.size))
    return [(above - below) / (2 * step) for above, below in halves]


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 8),
    st.integers(0, 1),
    st.sampled_from([(False, 0.0), (True, 0.0), (True, 0.3)]),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_cost_is_the_residual_and_the_gradient_its_difference_quotient(
    random_unitary: RandomUnitary,
    varied_devices: VariedDevices,
    dense_matrix: DenseMatrix,
    modes: int,
    redundant: int,
    detection: tuple[bool, float],
    partial: bool,
    seed: int,
) -> None:
    """With input fields, dumped outputs and weighted quadrature too."""
    homodyne, weight = detection
    rng = np.random.default_rng(seed)
    imperfect = varied_devices(modes, rng, redundant)
    target, inputs = random_unitary(modes, rng, homodyne), None
    if partial:
        target = target[: (modes + 1) // 2]
        inputs = rng.normal(size=(modes, modes)) + 1j * rng.normal(size=(modes, modes))
    problem = CorrectionProblem(imperfect, target, homodyne, inputs, weight)
    x = rng.uniform(0, 2 * np.pi, 2 * imperfect.row.size + modes)
    half, slope = cost_and_gradient(problem, x)
    fields = (dense_matrix(imperfect, *problem.split(x)) @ (np.eye(modes) if inputs is None else inputs))[: len(target)]
    if homodyne:
        wanted = target.real
        scale = np.sum(wanted * fields.real, axis=1, keepdims=True) / np.sum(wanted**2, axis=1, keepdims=True)
        deviation = fields.real - scale * wanted + 1j * weight * fields.imag
    else:
        deviation = fields - target
    assert half == pytest.approx(0.5 * np.linalg.norm(deviation) ** 2, rel=1e-11, abs=1e-24)
    np.testing.assert_allclose(slope, differences(problem, x), atol=1e-7 * (1 + half))


def test_gradient_of_more_vectors_than_one_tile(random_unitary: RandomUnitary, varied_devices: VariedDevices) -> None:
    rng = np.random.default_rng(5)
    imperfect = varied_devices(70, rng)
    problem = CorrectionProblem(imperfect, random_unitary(70, rng, real=True), homodyne=True)
    x = rng.uniform(0, 2 * np.pi, 2 * imperfect.row.size + 70)
    direction = rng.normal(size=x.size) / np.sqrt(x.size)
    half, slope = cost_and_gradient(problem, x)
    above, below = (cost_and_gradient(problem, x + sign * 1e-5 * direction)[0] for sign in (1, -1))
    assert slope @ direction == pytest.approx((above - below) / 2e-5, abs=1e-6 * half)


def test_a_fit_reduces_the_error_of_imperfect_couplers(random_unitary: RandomUnitary) -> None:
    rng = np.random.default_rng(7)
    unitary = random_unitary(12, rng)
    mesh = rectangular(unitary)
    problem = CorrectionProblem(random_mesh_devices(mesh, rng, 0.04), unitary, homodyne=False)
    start = np.concatenate([mesh.theta, mesh.phi, mesh.output_phase])
    fitted, steps = fit_lbfgs(problem, start, 3000)
    assert 0 < steps <= 3000
    assert cost_and_gradient(problem, fitted)[0] < 1e-3 * cost_and_gradient(problem, start)[0]
