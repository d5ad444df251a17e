"""Comparison of matrices: scale and free phases do not count, everything else does."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.matrices import MatrixTarget, compare_matrices


def random_matrix(rows: int, columns: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, columns)) + 1j * rng.normal(size=(rows, columns))


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 6), st.integers(2, 6), st.integers(0, 2**31), st.floats(1e-6, 1e3), st.floats(-3.0, 3.0))
def test_scale_and_free_phases_are_no_errors(rows: int, columns: int, seed: int, scale: float, phase: float) -> None:
    matrix = random_matrix(rows, columns, seed)
    found = compare_matrices(scale * np.exp(1j * phase) * matrix, MatrixTarget(matrix))
    assert found.passed
    assert found.worst < 1e-12
    assert found.scale == pytest.approx(scale)
    assert found.fidelity == pytest.approx(1.0)
    assert found.insertion_loss_db == pytest.approx(-20.0 * np.log10(scale * np.linalg.norm(matrix, 2)))
    phases = np.exp(1j * np.random.default_rng(seed).uniform(0.0, 6.0, (rows, 1)))
    assert compare_matrices(phases * matrix, MatrixTarget(matrix, "power")).worst < 1e-12


def test_only_the_part_in_phase_with_the_oscillator_counts_where_real_parts_are_read() -> None:
    matrix = np.array([[1.0, -2.0], [0.5, 0.25]])
    target = MatrixTarget(matrix, "real", 0.01)
    # by 0.3 of a quarter turn of the oscillator, and an imaginary part that is orthogonal to the row
    fields = np.exp(1j * np.array([[0.3], [2.0]])) * (matrix + 1j * np.array([[0.2, 0.1], [0.0, 0.0]]))
    found = compare_matrices(fields, target)
    assert found.worst < 1e-12
    assert found.scale == pytest.approx(1.0) and found.fidelity == pytest.approx(1.0)
    np.testing.assert_allclose(found.matrix, matrix, atol=1e-12)
    assert not compare_matrices(fields, MatrixTarget(matrix, "power", 0.01)).passed
    assert not compare_matrices(fields + np.array([[0.0, 0.1], [0.0, 0.0]]), target).passed


def test_phases_of_outputs_are_errors_of_fields() -> None:
    matrix = random_matrix(3, 4, 0)
    turned = np.exp(1j * np.array([[0.0], [0.0], [0.5]])) * matrix
    assert not compare_matrices(turned, MatrixTarget(matrix, "field", 0.1)).passed


def test_errors_are_relative_to_the_largest_entry() -> None:
    target = MatrixTarget(np.diag([2.0, 1.0, 1.0]), tolerance=0.06)
    matrix = target.matrix.copy()
    matrix[0, 2] = 0.1
    found = compare_matrices(matrix, target)
    assert found.worst == pytest.approx(0.05)
    assert found.worst_entry == (0, 2)
    assert found.rms == pytest.approx(0.05 / 3.0)
    assert found.fidelity == pytest.approx(6.0 / 6.01)
    assert found.passed
    assert not compare_matrices(matrix, MatrixTarget(target.matrix, tolerance=0.04)).passed


def test_other_shapes_and_darkness_are_refused() -> None:
    target = MatrixTarget(np.eye(3))
    with pytest.raises(ValueError, match=r"\(2, 3\)"):
        compare_matrices(np.ones((2, 3), dtype=complex), target)
    with pytest.raises(ValueError, match="no light"):
        compare_matrices(np.zeros((3, 3), dtype=complex), target)
