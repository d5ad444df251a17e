"""Singular value factors: any shape and rank, no output phases on V."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.factor import SvdFactor, svd, svd_generic, svd_mzis, svd_search, total_heater_phase, unitary_diagonal


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


def test_real_weights_are_real_up_to_the_phases_moved_to_u() -> None:
    """Each row of V's mesh and each column of U's is real times one phase."""
    factor = svd(weights(6, 4, 4, 0))
    for vectors in (factor.v.matrix(), factor.u.matrix().T[:4]):
        for vector in vectors:
            real = vector / np.exp(1j * np.angle(vector[np.argmax(abs(vector))]))
            assert np.max(np.abs(real.imag)) <= 1e-13


@pytest.mark.parametrize(("rows", "columns", "rank"), [(7, 4, 2), (4, 7, 4), (5, 5, 5), (6, 3, 0)])
def test_null_spaces_are_random_and_leave_the_matrix_as_it_is(rows: int, columns: int, rank: int) -> None:
    matrix = np.eye(rows, columns) if rank == 0 else weights(rows, columns, rank, 0)
    one, two = (svd_generic(matrix, np.random.default_rng(seed)) for seed in (0, 1))
    for factor in (one, two):
        assert np.max(np.abs(factor.matrix() - matrix)) <= 1e-13 * factor.scale
        assert not factor.s[rank or columns :].any()
    free = rows > (rank or columns)
    assert np.allclose(np.abs(one.u.matrix()), np.abs(two.u.matrix())) != free
    if free:
        # null vectors of the library would have zeros here
        assert np.count_nonzero(np.abs(one.u.matrix()[:, -1]) < 1e-3) == (columns if rank == 0 else 0)


def test_bad_weights_are_refused() -> None:
    with pytest.raises(ValueError, match=r"W.*\(2, 3\).*zero"):
        svd(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"W\[0, 1\].*nan"):
        svd(np.array([[1.0, np.nan]]))
    with pytest.raises(ValueError, match=r"W.*\(0, 3\)"):
        svd(np.zeros((0, 3)))
    with pytest.raises(ValueError, match=r"W.*object"):
        svd(np.ones((2, 2), dtype=object))
    with pytest.raises(ValueError, match=r"W.*singular value.*inf"):
        svd(np.full((2, 2), 1.7e308))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 2**31), st.booleans())
def test_order_and_signs_change_the_phases_only(rows: int, columns: int, seed: int, is_complex: bool) -> None:
    matrix = weights(rows, columns, min(rows, columns), seed, is_complex)
    rng = np.random.default_rng(seed)
    order, signs = rng.permutation(min(rows, columns)), rng.choice([-1, 1], min(rows, columns))
    factor, plain = svd(matrix, order, signs), svd(matrix)
    np.testing.assert_allclose(factor.matrix(), matrix, atol=1e-13 * plain.scale)
    np.testing.assert_array_equal(factor.s, plain.s[order])
    assert factor.scale == plain.scale
    assert factor.mzis == svd_mzis(rows, columns)


def test_search_lowers_heater_power_and_keeps_the_matrix() -> None:
    """Median over Gaussian weights; benchmarks/README.md has the gains of larger samples."""
    shares = []
    for seed in range(7):
        matrix = weights(9, 9, 9, seed)
        best = svd_search(matrix, tries=100, seed=seed)
        np.testing.assert_allclose(best.matrix(), matrix, atol=1e-13 * best.scale)
        shares.append(total_heater_phase(best) / total_heater_phase(svd(matrix)))
    assert max(shares) <= 1.0
    assert np.median(shares) < 0.95


def test_search_takes_any_cost() -> None:
    matrix = weights(5, 5, 5, 3)

    def nearest_to_cross(factor: SvdFactor) -> float:
        return float(min(factor.u.theta.min(), factor.v.theta.min()))

    plain, best = svd(matrix), svd_search(matrix, lambda factor: -nearest_to_cross(factor), 50)
    assert nearest_to_cross(best) > nearest_to_cross(plain)
    np.testing.assert_array_equal(svd_search(matrix, tries=0).u.theta, plain.u.theta)


def test_bad_order_signs_and_tries_are_refused() -> None:
    with pytest.raises(ValueError, match=r"order.*\[0, 1, 1\].*0 to 2"):
        svd(np.eye(3), order=[0, 1, 1])
    with pytest.raises(ValueError, match=r"signs.*\[1, 0, 1\].*3"):
        svd(np.eye(3), signs=[1, 0, 1])
    with pytest.raises(ValueError, match=r"signs.*\[1, 1j, 1\].*3"):
        svd(np.eye(3), signs=[1, 1j, 1])
    with pytest.raises(ValueError, match=r"signs = .abc.: give a number"):
        svd(np.eye(3), signs="abc")
    with pytest.raises(ValueError, match=r"order.*\[2\.0, 1\.0, 0\.0\].*0 to 2"):
        svd(np.eye(3), order=[2.0, 1.0, 0.0])
    with pytest.raises(ValueError, match=r"order.*1"):
        svd(np.eye(3), order=1)
    with pytest.raises(ValueError, match=r"tries.*-1"):
        svd_search(np.eye(3), tries=-1)


def test_gain_is_refused() -> None:
    factor = svd(np.diag([2.0, 1.0]))
    with pytest.raises(ValueError, match=r"s .*3.*0 to 2"):
        replace(factor, s=np.array([3.0, 1.0]))
    with pytest.raises(ValueError, match=r"s .*-1"):
        replace(factor, s=np.array([2.0, -1.0]))
    with pytest.raises(ValueError, match=r"s .*nan"):
        replace(factor, s=np.array([2.0, np.nan]))
    with pytest.raises(ValueError, match=r"s .*\(1,\)"):
        replace(factor, s=np.array([2.0]))
    with pytest.raises(ValueError, match="scale of 0"):
        replace(factor, scale=0.0)
    with pytest.raises(ValueError, match=r"attenuation.*2"):
        block = unitary_diagonal(np.eye(2))
        replace(block, attenuation=2 * block.attenuation)
