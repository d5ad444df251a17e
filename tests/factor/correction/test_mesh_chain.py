"""Chains of imperfect meshes: local correction, exact gradients, and the fit."""

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from optinc_pdk.factor import SvdFactor, mesh_devices, rectangular, svd_mixed
from optinc_pdk.factor.correction.mesh_chain import (
    MeshChain,
    chain_gradient,
    chain_matrix,
    fit_chain,
    locally_corrected,
    split_phases,
)


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
