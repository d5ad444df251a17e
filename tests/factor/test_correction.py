"""Corrections of imperfect meshes against whole matrices and difference quotients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.factor import (
    MeshDevices,
    SvdFactor,
    mesh_devices,
    random_mesh_devices,
    rectangular,
    svd_mixed,
)
from optinc_pdk.factor.correction import (
    CorrectionProblem,
    MeshChain,
    chain_gradient,
    chain_matrix,
    correct_locally,
    cost_and_gradient,
    fit_chain,
    fit_lbfgs,
    locally_corrected,
    mesh_matrix,
    split_phases,
)

DenseMatrix = Callable[[MeshDevices, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
RandomUnitary = Callable[..., np.ndarray]
VariedDevices = Callable[..., MeshDevices]


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 8), st.integers(0, 2**31))
def test_local_correction_is_exact_within_the_range_of_the_couplers(
    varied_devices: VariedDevices, dense_matrix: DenseMatrix, modes: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    imperfect = varied_devices(modes, rng, lossy=False)
    mzis = imperfect.row.size
    theta, phi = rng.uniform(0.5, np.pi - 0.5, mzis), rng.uniform(0, 2 * np.pi, mzis)
    output = rng.uniform(0, 2 * np.pi, modes)
    ideal = mesh_devices(rectangular(np.eye(modes)))
    new_theta, new_phi, new_output, clipped = correct_locally(imperfect, theta, phi, output)
    assert not np.any(clipped)
    for phases in (new_theta, new_phi, new_output):
        assert np.all((phases >= 0) & (phases < 2 * np.pi))
    np.testing.assert_allclose(
        dense_matrix(imperfect, new_theta, new_phi, new_output), dense_matrix(ideal, theta, phi, output), atol=1e-12
    )


def test_local_correction_compensates_unequal_losses_of_the_arms(
    random_unitary: RandomUnitary, dense_matrix: DenseMatrix
) -> None:
    """Unequal losses between the couplers still allow the target splitting."""
    mesh = rectangular(random_unitary(2, np.random.default_rng(5)))
    imperfect = mesh_devices(mesh, first_ratio=0.52, inner_loss_db=[[0.3, 0.6]])
    phases = correct_locally(imperfect, mesh.theta, mesh.phi, mesh.output_phase)[:3]
    result = dense_matrix(imperfect, *phases)[:, 0]
    np.testing.assert_allclose(np.abs(result) / np.linalg.norm(result), np.abs(mesh.matrix()[:, 0]), atol=1e-12)


def test_splitting_outside_the_range_is_clipped() -> None:
    mesh = rectangular(np.eye(2)[::-1])  # cross
    imperfect = mesh_devices(mesh, first_ratio=0.54, second_ratio=0.53)
    theta, _, _, clipped = correct_locally(imperfect, mesh.theta, mesh.phi, mesh.output_phase)
    assert clipped.tolist() == [True]
    np.testing.assert_allclose(theta, 0.0, atol=1e-12)


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


def chain_of(factor: SvdFactor, ratio: float) -> MeshChain:
    u, v = (
        mesh_devices(mesh, first_ratio=ratio, second_ratio=ratio, inner_loss_db=0.4) for mesh in (factor.u, factor.v)
    )
    return MeshChain(u, v, 2.0 * np.arcsin(0.95 * factor.attenuation))


def error(matrix: np.ndarray, target: np.ndarray) -> float:
    scale = np.vdot(target, matrix).real / np.linalg.norm(target) ** 2
    return float(np.abs(matrix / scale - target).max())


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (1, 3)])
def test_local_correction_realises_any_matrix_within_the_couplers_range(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    target = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    factor = svd_mixed(target, rng)
    chain = chain_of(factor, 0.49)
    # equal losses: idle modes lose as much as MZIs do
    phases, clipped = locally_corrected(chain, factor.u, factor.v)
    assert chain.shape == shape
    matrix = chain_matrix(chain, phases.joined())
    assert matrix.shape == shape
    fitted = fit_chain(chain, 0.5 * target / factor.scale, phases.joined(), 300)
    assert error(chain_matrix(chain, fitted), target) < 1e-5 * np.abs(target).max()
    assert clipped >= 0


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4)])
def test_gradients_agree_with_differences(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    target = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    factor = svd_mixed(target, rng)
    chain = chain_of(factor, 0.48)
    x = locally_corrected(chain, factor.u, factor.v)[0].joined()
    x = x + 0.2 * rng.normal(size=x.size)
    _, slope = chain_gradient(chain, target / factor.scale, x)
    found = scipy.optimize.approx_fprime(x, lambda y: chain_gradient(chain, target / factor.scale, y)[0], 1e-7)
    np.testing.assert_allclose(slope, found, atol=1e-5)


def test_a_chain_of_one_mesh_realises_a_unitary() -> None:
    unitary = scipy.stats.unitary_group(5, seed=2).rvs()
    mesh = rectangular(unitary)
    chain = MeshChain(mesh_devices(mesh, first_ratio=0.49, second_ratio=0.49), None, np.zeros(0))
    phases, clipped = locally_corrected(chain, mesh, None)
    assert clipped == 0
    assert error(chain_matrix(chain, phases.joined()), unitary) < 1e-12
    again = split_phases(chain, phases.joined())
    np.testing.assert_array_equal(again.output, phases.output)
    assert again.v_theta.size == again.attenuator.size == 0


def test_a_fit_ends_where_its_phases_are_good_enough() -> None:
    rng = np.random.default_rng(0)
    target = rng.normal(size=(6, 6)) + 1j * rng.normal(size=(6, 6))
    factor = svd_mixed(target, rng)
    chain = chain_of(factor, 0.49)
    start, wanted = locally_corrected(chain, factor.u, factor.v)[0].joined(), 0.5 * target / factor.scale
    start = start + 0.3 * rng.normal(size=start.size)
    costs: list[float] = []

    def reached(x: np.ndarray) -> bool:
        costs.append(chain_gradient(chain, wanted, x)[0])
        return costs[-1] < 1e-3

    stopped = chain_gradient(chain, wanted, fit_chain(chain, wanted, start, 300, reached))[0]
    complete = chain_gradient(chain, wanted, fit_chain(chain, wanted, start, 300))[0]
    # the phases of the last question are returned, which was the first with a positive answer
    assert stopped == costs[-1] < 1e-3
    assert all(cost >= 1e-3 for cost in costs[:-1])
    assert complete < 0.1 * stopped
