"""Independent parts are found, need the MZIs of their rank, and multiply to the matrix."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.factor import factor_by_parts, find_structure, svd_mzis, unitary_diagonal
from optinc_pdk.factor._matrix_structure import mesh_of_columns, mesh_of_rows


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 10), st.integers(1, 10), st.integers(1, 10), st.booleans(), st.integers(0, 2**31))
def test_any_shape_and_rank(rows: int, columns: int, rank: int, is_complex: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(rows, rank)) @ rng.normal(size=(rank, columns))
    if is_complex:
        matrix = matrix * np.exp(1j * rng.uniform(0, 6, (rows, 1)))
    factor = factor_by_parts(matrix)
    assert np.max(np.abs(factor.matrix() - matrix)) <= 1e-12 * factor.scale
    expected = min(rows, columns, rank)
    assert find_structure(matrix).rank == expected
    # One MZI per parameter; the largest singular value needs no attenuator.
    assert factor.mzis == expected * (rows + columns - expected) - 1
    assert svd_mzis(rows, columns) >= factor.mzis
    assert factor.mzis_saved_by_structure == (rows - expected) * (columns - expected)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**31))
def test_rows_and_columns_alone(modes: int, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = min(count, modes)
    vectors = np.linalg.qr(rng.normal(size=(modes, count)) + 1j * rng.normal(size=(modes, count)))[0]
    tall, flat = mesh_of_columns(vectors), mesh_of_rows(vectors.T)
    np.testing.assert_allclose(tall.matrix()[:, :count], vectors, atol=1e-13)
    np.testing.assert_allclose(flat.matrix()[:count], vectors.T, atol=1e-13)
    assert tall.row.size == flat.row.size == count * (2 * modes - count - 1) // 2


@settings(max_examples=40, deadline=None)
@given(st.permutations(range(7)), st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=7, max_size=7))
def test_permutations_need_no_mzis(order: list[int], weights: list[float]) -> None:
    matrix = np.diag(weights)[:, order]
    if not np.any(matrix):
        return
    matrix_parts = find_structure(matrix)
    assert matrix_parts.is_permutation
    assert matrix_parts.zero_rows.tolist() == [i for i, weight in enumerate(weights) if weight == 0.0]
    assert matrix_parts.zero_columns.size == matrix_parts.zero_rows.size
    factor = factor_by_parts(matrix)
    assert factor.mzis == 0
    np.testing.assert_allclose(factor.matrix(), matrix, atol=1e-15)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 8), st.integers(2, 8), st.booleans(), st.integers(0, 2**31))
def test_orthogonal_vectors_need_one_mesh(rows: int, columns: int, scaled: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    short, long = sorted((rows, columns))
    tall = np.linalg.qr(rng.normal(size=(long, short)))[0]
    tall = tall * rng.uniform(0.5, 1.0, short) if scaled else 3.0 * tall
    mesh = short * (2 * long - short - 1) // 2
    for matrix in (tall, tall.T):
        factor = factor_by_parts(matrix)
        assert factor.mzis == mesh + (short - 1 if scaled else 0)
        np.testing.assert_allclose(factor.matrix(), matrix, atol=1e-13)
    if rows == columns and not scaled:
        blocks = unitary_diagonal(tall)
        assert blocks.needed_mzis.tolist() == [mesh]
        assert blocks.mzis_saved_by_structure == short - 1


@pytest.mark.parametrize("shape", [(6, 2), (2, 6), (5, 5), (7, 3)])
def test_dense_matrices_save_nothing_by_structure(shape: tuple[int, int]) -> None:
    matrix = np.random.default_rng(0).normal(size=shape)
    assert factor_by_parts(matrix).mzis_saved_by_structure == 0
    assert unitary_diagonal(matrix).mzis_saved_by_structure == 0
    assert unitary_diagonal(matrix, max(shape)).mzis_saved_by_structure == 0


def test_permuted_blocks_are_found_as_parts() -> None:
    rng = np.random.default_rng(0)
    whole = np.zeros((8, 9))
    whole[:3, :2], whole[3:5, 2:6] = rng.normal(size=(3, 2)), rng.normal(size=(2, 4))
    whole[6:, 7:] = 1.0
    down, across = rng.permutation(8), rng.permutation(9)
    matrix_parts = find_structure(whole[down][:, across])
    assert sorted((part.rows.size, part.columns.size, part.rank) for part in matrix_parts.parts) == [
        (2, 2, 1),
        (2, 4, 2),
        (3, 2, 2),
    ]
    assert down[matrix_parts.zero_rows].tolist() == [5]
    assert across[matrix_parts.zero_columns].tolist() == [6]
    factor = factor_by_parts(whole[down][:, across])
    np.testing.assert_allclose(factor.matrix(), whole[down][:, across], atol=1e-13)
    assert factor.mzis == 2 * 4 + 2 * 3 + 1 * 3 - 1


def test_rounding_errors_are_not_entries() -> None:
    matrix = np.diag([1.0, 0.5, 0.25]) + 1e-17
    assert find_structure(matrix).is_permutation
    assert factor_by_parts(matrix).mzis == 2


@pytest.mark.parametrize("size", [5e-324, 1e-300, 1e300])
def test_extreme_weights(size: float) -> None:
    matrix = size * np.array([[1.0, 1.0], [1.0, -1.0]])
    np.testing.assert_allclose(factor_by_parts(matrix).matrix(), matrix, rtol=1e-12)


def test_an_all_zero_matrix_has_no_parts_and_no_factors() -> None:
    matrix_parts = find_structure(np.zeros((2, 3)))
    assert matrix_parts.parts == ()
    assert matrix_parts.rank == 0
    with pytest.raises(ValueError, match=r"W.*\(2, 3\).*zero"):
        factor_by_parts(np.zeros((2, 3)))


def test_blocks_report_the_mzis_they_need() -> None:
    rng = np.random.default_rng(1)
    whole = np.zeros((6, 6))
    whole[:2, :2], whole[2:4, 2:4], whole[4:, :2] = np.eye(2)[::-1], -np.eye(2), rng.normal(size=(2, 2))
    factor = unitary_diagonal(whole, 2)
    assert factor.mzis == 27
    needed = factor.needed_mzis.reshape(3, 3)
    assert np.count_nonzero(needed[:2, 2]) == np.count_nonzero(needed[2, 1:]) == 0
    assert needed[2, 0] == 3 or factor.attenuation[6].max() == 1.0


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.array([[1.0, np.inf]]), r"W\[0, 1\].*inf"),
        (np.zeros((3, 0)), r"W.*\(3, 0\)"),
        (np.ones(3), r"W.*\(3,\)"),
        (np.ones((2, 2), dtype=object), "W.*object"),
        (np.full((2, 2), 1.7e308), r"W.*1\.7e"),
    ],
)
def test_bad_weights_are_refused(matrix: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        factor_by_parts(matrix)
