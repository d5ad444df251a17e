"""Matrices that chips can and cannot realise, their files, and comparison: scale and free phases do not count."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.errors import InputError
from optinc_pdk.matrices import MatrixTarget, compare_matrices
from optinc_pdk.matrices.target import is_matrix_file
from optinc_pdk.networks import bundled_weights


def test_files_of_one_array_are_read(tmp_path: Path) -> None:
    matrix = np.arange(6.0).reshape(2, 3) - 2j
    np.save(tmp_path / "a.npy", matrix)
    np.savez(tmp_path / "b.npz", anything=matrix)
    for name in ("a.npy", "b.npz"):
        assert is_matrix_file(tmp_path / name)
        target = MatrixTarget.load(tmp_path / name, "power", 0.02)
        np.testing.assert_array_equal(target.matrix, matrix)
        assert (target.read, target.tolerance, target.outputs, target.inputs) == ("power", 0.02, 2, 3)
    assert not is_matrix_file(bundled_weights())


@pytest.mark.parametrize("kind", [int, bool, np.float32, np.complex64])
def test_numbers_of_every_kind_are_read(tmp_path: Path, kind: type) -> None:
    np.save(tmp_path / "a.npy", np.eye(3).astype(kind))
    np.testing.assert_array_equal(MatrixTarget.load(tmp_path / "a.npy").matrix, np.eye(3))


WRONG = {
    "not a number": (np.array([[1.0, np.nan], [0.0, 1.0]]), "[0, 1]"),
    "infinite": (np.array([[1.0, 0.0], [np.inf, 1.0]]), "[1, 0]"),
    "empty": (np.zeros((0, 3)), "(0, 3)"),
    "one-dimensional": (np.ones(4), "(4,)"),
    "three-dimensional": (np.ones((2, 2, 2)), "(2, 2, 2)"),
    "zero": (np.zeros((3, 2)), "(3, 2)"),
    "one entry": (np.ones((1, 1)), "one entry"),
    "text": (np.array([["a", "b"], ["c", "d"]]), "<U1"),
    "tiny": (1e-200 * np.eye(2), "1e-200"),
    "huge": (1e200 * np.eye(2), "1e+200"),
}


@pytest.mark.parametrize("name", WRONG)
def test_unusable_matrices_are_refused_with_file_and_value(tmp_path: Path, name: str) -> None:
    matrix, value = WRONG[name]
    np.save(tmp_path / "wrong.npy", matrix)
    with pytest.raises(InputError) as fault:
        MatrixTarget.load(tmp_path / "wrong.npy")
    assert str(tmp_path / "wrong.npy") in str(fault.value)
    assert value in str(fault.value)


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "o.npy", np.array([[1, None], [2, 3]], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="Python objects"):
        MatrixTarget.load(tmp_path / "o.npy")


def test_archives_of_several_or_no_arrays_and_damaged_files_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", a=np.eye(2), b=np.eye(2))
    with pytest.raises(InputError, match=r"2 arrays \(a, b\)"):
        MatrixTarget.load(tmp_path / "two.npz")
    np.savez(tmp_path / "none.npz")
    with pytest.raises(InputError, match="0 arrays"):
        MatrixTarget.load(tmp_path / "none.npz")
    (tmp_path / "bad.npy").write_bytes(b"not an array")
    with pytest.raises(InputError, match=r"bad\.npy"):
        MatrixTarget.load(tmp_path / "bad.npy")
    with pytest.raises(InputError, match=r"missing\.npy"):
        MatrixTarget.load(tmp_path / "missing.npy")


@pytest.mark.parametrize(
    ("name", "value"), [("tolerance", 0.0), ("tolerance", 1.5), ("tolerance", float("nan")), ("read", "x")]
)
def test_options_out_of_range_are_refused(name: str, value: object) -> None:
    with pytest.raises(InputError, match=name):
        MatrixTarget(np.eye(2), **{name: value})


def test_a_complex_matrix_is_refused_where_real_parts_are_read() -> None:
    assert MatrixTarget(np.eye(2, dtype=complex), "real").read == "real"
    with pytest.raises(InputError, match=r"complex, such as 1\+2j of output 0 and input 1; homodyne receivers"):
        MatrixTarget(np.array([[1.0, 1.0 + 2.0j], [0.0, 1.0j]]), "real")


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
