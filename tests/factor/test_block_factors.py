"""Block approximation against scipy's polar factor, blocks at the edge, and invalid arguments."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.csgraph
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.factor import BlockFactor, unitary_diagonal


def paper(piece: np.ndarray) -> np.ndarray:
    """diag(<W_i, U_i>) U with the polar factor of scipy: arXiv 2603.28290."""
    unitary, _ = scipy.linalg.polar(piece)
    return np.sum(piece * unitary, axis=1)[:, np.newaxis] * unitary


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 8), st.integers(0, 2**31))
def test_whole_blocks_are_those_of_the_paper(down: int, across: int, size: int, seed: int) -> None:
    matrix = np.random.default_rng(seed).normal(size=(down * size, across * size))
    factor = unitary_diagonal(matrix, size)
    expected = np.block([[paper(piece) for piece in np.split(band, across, axis=1)] for band in np.split(matrix, down)])
    np.testing.assert_allclose(factor.matrix(), expected, atol=1e-10)
    assert len(factor.unitary) == down * across
    np.testing.assert_allclose(factor.error, np.linalg.norm(matrix - expected) / np.linalg.norm(matrix), atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**31))
def test_any_shape_block_and_rank(rows: int, columns: int, rank: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(rows, rank)) @ rng.normal(size=(rank, columns))
    block = int(rng.integers(1, max(rows, columns) + 1))
    factor = unitary_diagonal(matrix, block)
    approximation = factor.matrix()
    assert approximation.shape == matrix.shape
    assert np.max(factor.attenuation) == 1.0
    assert np.all(factor.attenuation >= 0.0)
    for index, (down, across) in enumerate(zip(factor.block_row, factor.block_column, strict=True)):
        place = np.s_[down * block : (down + 1) * block, across * block : (across + 1) * block]
        error = np.linalg.norm(matrix[place] - approximation[place]) / np.linalg.norm(matrix[place])
        assert abs(factor.block_error[index] - error) <= 1e-12
        assert_diagonal_is_optimal(matrix[place], factor.unitary[index].matrix().real, approximation[place])
    assert factor.error <= 1.0


def assert_diagonal_is_optimal(piece: np.ndarray, unitary: np.ndarray, approximation: np.ndarray) -> None:
    """Least squares over the used inputs, row by row: the residual is orthogonal to the row."""
    used = unitary[: piece.shape[0], : piece.shape[1]]
    overlap = np.sum((piece - approximation) * used, axis=1)
    np.testing.assert_allclose(overlap, 0.0, atol=1e-12 * (1 + np.linalg.norm(piece)))


def test_default_block_is_the_smaller_side() -> None:
    factor = unitary_diagonal(np.random.default_rng(0).normal(size=(4, 12)))
    assert factor.block == 4
    assert factor.block_row.tolist() == [0, 0, 0]
    assert factor.block_column.tolist() == [0, 1, 2]


def test_scaled_orthogonal_rows_are_exact() -> None:
    orthogonal, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))
    factor = unitary_diagonal(-3.0 * orthogonal)
    assert factor.error <= 1e-14
    np.testing.assert_allclose(factor.scale, 3.0)


def test_a_single_row_beyond_the_edge_is_exact() -> None:
    """7 x 6 in blocks of 6: the seventh row is one row of a block whose other outputs are dumped."""
    factor = unitary_diagonal(np.random.default_rng(2).normal(size=(7, 6)))
    assert factor.block_error[1] <= 1e-14
    np.testing.assert_array_equal(factor.attenuation[1, 1:], 0.0)


def test_a_zero_block_has_no_error_and_attenuation_0() -> None:
    matrix = np.zeros((4, 2))
    matrix[:2] = [[1.0, 2.0], [3.0, -4.0]]
    factor = unitary_diagonal(matrix)
    assert factor.block_error[1] == 0.0
    np.testing.assert_array_equal(factor.attenuation[1], 0.0)


def mzis_of_blocks(factor: BlockFactor) -> list[int]:
    """MZIs of each block from the connected components of its mesh's matrix, and its attenuators."""
    counts = []
    for mesh, attenuation in zip(factor.unitary, factor.attenuation, strict=True):
        joined = scipy.sparse.coo_array(np.abs(mesh.matrix()) > 1e-9)
        both = scipy.sparse.block_array([[None, joined], [joined.T, None]])
        _, label = scipy.sparse.csgraph.connected_components(both)
        sizes = np.bincount(label) // 2
        attenuators = np.count_nonzero((attenuation > 0) & (attenuation < 1 - 1e-12))
        counts.append(int(np.sum(sizes * (sizes - 1) // 2) + attenuators) if np.any(attenuation) else 0)
    return counts


@pytest.mark.parametrize(
    "matrix",
    [
        np.kron(np.ones((2, 2)), np.eye(3)),
        scipy.linalg.block_diag([[1], [2]], [[1, 3]]),
        scipy.linalg.block_diag([[1], [2]], [[1, 3]], [[2, 1]], [[3], [1]]),
        scipy.linalg.block_diag(np.ones((2, 2)), np.ones((2, 3)), 0.0),
        np.diag([1.0, 0.0, 2.0, 0.0]),
    ],
)
def test_needed_counts_the_mesh_that_is_returned(matrix: np.ndarray) -> None:
    factor = unitary_diagonal(matrix)
    assert factor.needed_mzis.tolist() == mzis_of_blocks(factor)


def test_zeros_between_independent_parts_stay_zero() -> None:
    """Arbitrary singular vectors of the null space would mix these three parts."""
    matrix = np.kron(np.ones((2, 2)), np.eye(3))
    factor = unitary_diagonal(matrix)
    np.testing.assert_allclose(factor.matrix()[matrix == 0.0], 0.0, atol=1e-15)
    assert factor.needed_mzis[0] <= 3


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.floats(0, 1), st.integers(0, 2**31))
def test_needed_counts_the_mesh_of_any_sparse_matrix(rows: int, columns: int, filled: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-2, 3, (rows, columns)) * (rng.random((rows, columns)) < filled)
    if not np.any(matrix):
        return
    factor = unitary_diagonal(matrix, int(rng.integers(1, max(rows, columns) + 1)))
    assert factor.needed_mzis.tolist() == mzis_of_blocks(factor)
    assert np.all(factor.needed_mzis <= factor.block * (factor.block + 1) // 2)


@pytest.mark.parametrize("size", [5e-324, 1e-300, 1e300])
def test_extreme_weights(size: float) -> None:
    factor = unitary_diagonal(size * np.array([[1.0, 1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]]))
    assert factor.error <= 1e-14
    assert np.max(factor.attenuation) == 1.0


@pytest.mark.parametrize(
    ("matrix", "block", "message"),
    [
        (np.zeros((2, 2)), None, r"W.*\(2, 2\).*zero"),
        (np.eye(2) * 1j, None, "W.*complex"),
        (np.array([[np.inf]]), None, r"W\[0, 0\].*inf"),
        (1.7e308 * scipy.linalg.hadamard(4), None, "W.*1.7e"),
        (np.eye(3), 0, "block.*0.*1 to 3"),
        (np.eye(3), 4, "block.*4.*1 to 3"),
        (np.eye(3), 2.0, r"block.*2\.0"),
        (np.eye(3), True, "block.*True"),
    ],
)
def test_bad_input_is_refused(matrix: np.ndarray, block: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unitary_diagonal(matrix, block)
