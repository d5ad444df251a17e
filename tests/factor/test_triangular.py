"""Triangular meshes: exact for ordinary and degenerate unitaries, in the arrangement of Reck."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.factor import Mesh, rectangular, triangular

TOLERANCE = 1e-13
SIZES = (1, 2, 3, 4, 5, 8, 16, 33, 64, 512)
Make = Callable[[int], np.ndarray]
Haar = Callable[[int, int], np.ndarray]


def assert_triangular(mesh: Mesh) -> None:
    """Row k holds k + 1 MZIs, every other column, symmetric about the middle column N - 2."""
    for row in range(mesh.modes - 1):
        columns = mesh.column[mesh.row == row]
        np.testing.assert_array_equal(columns, mesh.modes - 2 + np.arange(-row, row + 1, 2))


@pytest.mark.parametrize("size", SIZES)
def test_mesh_realises_the_unitary(make_unitary: Make, size: int) -> None:
    unitary = make_unitary(size)
    mesh = triangular(unitary)
    assert np.max(np.abs(unitary - mesh.matrix())) <= TOLERANCE
    assert_triangular(mesh)
    assert np.all(mesh.theta <= np.pi)


@settings(max_examples=60, deadline=None)
@given(size=st.integers(1, 24), seed=st.integers(0, 2**31 - 1))
def test_triangle_and_rectangle_agree(haar: Haar, size: int, seed: int) -> None:
    unitary = haar(size, seed)
    assert np.max(np.abs(triangular(unitary).matrix() - rectangular(unitary).matrix())) <= TOLERANCE


def test_the_drawing_of_the_docstring() -> None:
    mesh = triangular(np.eye(4))
    assert list(zip(mesh.column.tolist(), mesh.row.tolist(), strict=True)) == [
        (0, 2),
        (1, 1),
        (2, 0),
        (2, 2),
        (3, 1),
        (4, 2),
    ]


def test_a_batch_is_its_members(haar: Haar) -> None:
    stack = np.array([haar(6, 1), np.eye(6)[::-1], haar(6, 2)])
    batch = triangular(stack)
    for index, unitary in enumerate(stack):
        np.testing.assert_array_equal(batch.theta[index], triangular(unitary).theta)
        np.testing.assert_array_equal(batch.phi[index], triangular(unitary).phi)
    assert np.max(np.abs(batch.matrix() - stack)) <= TOLERANCE


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (2 * np.eye(3), r"U.*unitary.* 3,"),
        (np.full((2, 2), np.nan), r"U\[0, 0\].*nan"),
        (np.eye(3)[:2], r"U.*\(2, 3\)"),
        (np.eye(2, dtype=object), "U.*object"),
    ],
)
def test_bad_input_is_refused_by_name(bad: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        triangular(bad)
