"""Factors of any matrix reproduce it; unitaries take one mesh where the couplers allow it."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.cards import load_process
from optinc_pdk.matrices import MatrixTarget, factor_matrix
from optinc_pdk.matrices.matrix_factor import least_transmission

PROCESS = load_process()


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(2, 9),
    st.integers(1, 9),
    st.integers(0, 2**31),
    st.booleans(),
    st.sampled_from([1e-100, 1e-8, 1.0, 1e9]),
)
def test_factors_give_the_matrix(rows: int, columns: int, rank: int, seed: int, is_complex: bool, size: float) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(rows, rank)) @ rng.normal(size=(rank, columns))
    matrix = size * matrix * (np.exp(1j * rng.uniform(0, 6, matrix.shape)) if is_complex else 1.0)
    factor = factor_matrix(MatrixTarget(matrix), PROCESS)
    assert factor.scale == pytest.approx(np.linalg.norm(matrix, 2))
    assert factor.attenuation is not None and factor.v is not None
    reference = np.linalg.svd(matrix, compute_uv=False)
    # values nearer to zero than to what an attenuator transmits are left out
    least = least_transmission(PROCESS) / 2 * factor.scale
    assert factor.attenuators == np.count_nonzero(reference > least)
    kept = reference[: factor.attenuators]
    np.testing.assert_allclose(factor.attenuation * factor.scale, kept, atol=2e-9 * factor.scale)
    left_out = np.linalg.norm(reference[factor.attenuators :])
    assert np.linalg.norm(factor.matrix() - matrix) == pytest.approx(left_out, abs=1e-12 * factor.scale)


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 8), st.integers(0, 2**31), st.sampled_from([1e-6, 1.0, 40.0]))
def test_unitaries_up_to_a_factor_take_one_mesh(modes: int, seed: int, size: float) -> None:
    unitary = size * scipy.stats.unitary_group(modes, seed=seed).rvs()
    factor = factor_matrix(MatrixTarget(unitary, tolerance=0.2), PROCESS)
    assert factor.v is None and factor.attenuation is None
    assert factor.mzis == modes * (modes - 1) // 2
    assert np.max(np.abs(factor.matrix() - unitary)) <= 1e-12 * size


def test_single_precision_unitaries_count_as_unitary() -> None:
    unitary = scipy.stats.unitary_group(6, seed=0).rvs().astype(np.complex64)
    factor = factor_matrix(MatrixTarget(unitary), PROCESS)
    assert factor.v is None
    assert np.max(np.abs(factor.matrix() - unitary)) <= 1e-6


def test_unitaries_beyond_the_couplers_take_two_meshes_of_random_unitaries() -> None:
    permutation = np.eye(8)[[3, 5, 0, 7, 1, 6, 2, 4]]
    factor = factor_matrix(MatrixTarget(permutation), PROCESS)
    assert factor.v is not None and factor.attenuation is not None
    np.testing.assert_array_equal(factor.attenuation, np.ones(8))
    assert np.max(np.abs(factor.matrix() - permutation)) <= 1e-12
    # neither factor is a permutation itself
    assert all(np.abs(mesh.matrix()).max() < 0.99 for mesh in factor.meshes)
    assert "%" in factor.form
    # a larger tolerance accepts what one mesh can do
    assert factor_matrix(MatrixTarget(permutation, tolerance=0.2), PROCESS).v is None
