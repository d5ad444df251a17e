"""Corrected layers: reported errors against whole matrices, and what the fits reach."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.factor import (
    MeshDevices,
    correct_layer,
    mesh_devices,
    random_mesh_devices,
    rectangular,
)

DenseMatrix = Callable[[MeshDevices, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
VariedDevices = Callable[..., MeshDevices]


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**31))
def test_layer_reports_its_matrix_and_error_correctly(
    varied_devices: VariedDevices, dense_matrix: DenseMatrix, rows: int, columns: int, seed: int
) -> None:
    """Against whole matrices of both meshes, losses included."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(rows, columns))
    left, right = varied_devices(rows, rng), varied_devices(columns, rng)
    result = correct_layer(weights, left, right, steps=10, seed=1)
    rank = min(rows, columns)
    assert result.attenuation.shape == (rank,)
    assert np.max(result.attenuation) == 1.0
    u = dense_matrix(left, result.u.theta, result.u.phi, result.u.output_phase)
    v = dense_matrix(right, result.v.theta, result.v.phi, result.v.output_phase)
    field = (u[:, :rank] * result.attenuation) @ v[:rank]
    expected = field.real / result.u.row_scale[:, np.newaxis]
    np.testing.assert_allclose(result.matrix(), expected, atol=1e-9)
    np.testing.assert_allclose(result.error, np.linalg.norm(expected - weights) / np.linalg.norm(weights), atol=1e-9)


def test_layer_correction_reduces_the_error_a_hundred_times() -> None:
    rng = np.random.default_rng(11)
    weights = rng.normal(size=(16, 16))
    mesh = rectangular(np.eye(16))
    left, right = random_mesh_devices(mesh, rng, 0.02), random_mesh_devices(mesh, rng, 0.02)
    result = correct_layer(weights, left, right)
    assert result.u.error_before > 0.03
    assert result.error < result.u.error_before / 100


@pytest.mark.parametrize("shape", [(1, 7), (2, 20), (3, 12), (12, 3)])
def test_dumped_modes_do_not_count(shape: tuple[int, int]) -> None:
    """Only min(m, n) rows of V and columns of U count; a fit of the whole V leaves an error of 1e-4 and more."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=shape)
    left, right = (random_mesh_devices(rectangular(np.eye(modes)), rng, 0.02) for modes in shape)
    result = correct_layer(weights, left, right)
    assert result.error < 1e-9
    np.testing.assert_allclose(result.matrix(), weights, atol=1e-8)


def test_zero_row_of_a_layer_is_not_read() -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(4, 5))
    weights[2] = 0.0
    left, right = (random_mesh_devices(rectangular(np.eye(modes)), rng, 0.02) for modes in (4, 5))
    result = correct_layer(weights, left, right)
    np.testing.assert_array_equal(result.matrix()[2], 0.0)
    deviation = np.linalg.norm(result.matrix() - weights) / np.linalg.norm(weights)
    np.testing.assert_allclose(result.error, deviation, atol=1e-12)
    assert result.error < 1e-9


@pytest.mark.parametrize("size", [1e-290, 1e-162, 1e160, 1e290])
def test_layers_with_weights_of_any_magnitude(size: float) -> None:
    rng = np.random.default_rng(0)
    weights, mesh = rng.normal(size=(3, 3)), rectangular(np.eye(3))
    imperfect = random_mesh_devices(mesh, rng, 0.02)
    result = correct_layer(size * weights, imperfect, imperfect)
    assert result.error < 1e-12
    np.testing.assert_allclose(result.matrix() / size, weights, atol=1e-11)


MESH = rectangular(np.eye(3))


def test_bad_layers_are_refused() -> None:
    imperfect = mesh_devices(MESH)
    with pytest.raises(ValueError, match=r"W.*\(3, 2\).*\(3, 3\)"):
        correct_layer(np.ones((3, 2)), imperfect, imperfect)
    with pytest.raises(ValueError, match=r"W.*complex"):
        correct_layer(1j * np.eye(3), imperfect, imperfect)
    with pytest.raises(ValueError, match=r"W.*\(3, 3\).*zero"):
        correct_layer(np.zeros((3, 3)), imperfect, imperfect)
    with pytest.raises(ValueError, match=r"W.*1e-310.*1e-300"):
        correct_layer(np.full((3, 3), 1e-310), imperfect, imperfect)
    with pytest.raises(ValueError, match=r"amplitude.*2"):
        correct_layer(np.eye(3), imperfect, imperfect, amplitude=2)
    with pytest.raises(ValueError, match=r"steps.*1\.5"):
        correct_layer(np.eye(3), imperfect, imperfect, steps=1.5)
