"""Local correction is exact within the range of the couplers and clips outside it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.factor import (
    MeshDevices,
    mesh_devices,
    rectangular,
)
from optinc_pdk.factor.correction.local_correction import correct_locally

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
