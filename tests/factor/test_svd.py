"""Singular value factors: any shape and rank, no phases left on V."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.factor import svd


def weights(rows: int, columns: int, rank: int, seed: int, is_complex: bool = False) -> np.ndarray:
    rng = np.random.default_rng(seed)
    left, right = rng.normal(size=(rows, rank)), rng.normal(size=(rank, columns))
    return left @ right * (1 + 1j * rng.normal(size=(rows, columns))) if is_complex else left @ right


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 20),
    st.integers(1, 20),
    st.integers(1, 20),
    st.integers(0, 2**31),
    st.booleans(),
    st.sampled_from([1e-300, 1e-8, 1.0, 1e9, 1e250]),
)
def test_factors_give_the_matrix(rows: int, columns: int, rank: int, seed: int, is_complex: bool, size: float) -> None:
    matrix = size * weights(rows, columns, rank, seed, is_complex)
    factor = svd(matrix)
    assert np.max(np.abs(factor.matrix() - matrix)) <= 1e-13 * factor.scale
    assert factor.u.modes == rows
    assert factor.v.modes == columns
    assert not np.any(factor.v.output_phase)
    assert factor.attenuation[0] == 1.0
    assert np.all((factor.attenuation >= 0) & (factor.attenuation <= 1))
    reference = scipy.linalg.svdvals(matrix / size) * size
    np.testing.assert_allclose(factor.s, reference, atol=1e-13 * factor.scale)


@pytest.mark.parametrize("matrix", [np.eye(5), -np.eye(3), np.eye(6)[::-1], np.eye(4, 7), np.diag([3, 0, 0])])
def test_degenerate_matrices(matrix: np.ndarray) -> None:
    factor = svd(matrix)
    assert np.max(np.abs(factor.matrix() - matrix)) <= 1e-13 * factor.scale


def test_real_weights_are_real_up_to_the_phases_handed_over() -> None:
    """Each row of V's mesh and each column of U's is real times one phase."""
    factor = svd(weights(6, 4, 4, 0))
    for vectors in (factor.v.matrix(), factor.u.matrix().T[:4]):
        for vector in vectors:
            turned = vector / np.exp(1j * np.angle(vector[np.argmax(abs(vector))]))
            assert np.max(np.abs(turned.imag)) <= 1e-13


def test_bad_weights_are_refused() -> None:
    with pytest.raises(ValueError, match=r"W, shape \(2, 3\), is all zero"):
        svd(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"W\[0, 1\] is nan"):
        svd(np.array([[1.0, np.nan]]))
    with pytest.raises(ValueError, match="W is empty"):
        svd(np.zeros((0, 3)))
    with pytest.raises(ValueError, match="W has dtype object"):
        svd(np.ones((2, 2), dtype=object))
    with pytest.raises(ValueError, match="largest singular value inf"):
        svd(np.full((2, 2), 1.7e308))
