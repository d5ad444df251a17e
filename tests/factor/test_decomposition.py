"""Rectangular and triangular meshes: exact for ordinary and degenerate unitaries, every slot filled."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.factor import Mesh, rectangular, triangular

TOLERANCE = 1e-13
SIZES = (1, 2, 3, 4, 5, 8, 16, 33, 64, 512)
Make = Callable[[int], np.ndarray]
Haar = Callable[[int, int], np.ndarray]


def assert_rectangular(mesh: Mesh) -> None:
    """Every slot of the rectangle has exactly one MZI, sorted by column and row."""
    slots = [(column, row) for column in range(mesh.modes) for row in range(column % 2, mesh.modes - 1, 2)]
    assert list(zip(mesh.column.tolist(), mesh.row.tolist(), strict=True)) == slots


def assert_triangular(mesh: Mesh) -> None:
    """Row k holds k + 1 MZIs, every other column, symmetric about the middle column N - 2."""
    for row in range(mesh.modes - 1):
        columns = mesh.column[mesh.row == row]
        np.testing.assert_array_equal(columns, mesh.modes - 2 + np.arange(-row, row + 1, 2))


@pytest.mark.parametrize(
    ("decompose", "assert_arranged"), [(rectangular, assert_rectangular), (triangular, assert_triangular)]
)
@pytest.mark.parametrize("size", SIZES)
def test_mesh_realises_the_unitary(
    make_unitary: Make, size: int, decompose: Callable[[np.ndarray], Mesh], assert_arranged: Callable[[Mesh], None]
) -> None:
    unitary = make_unitary(size)
    mesh = decompose(unitary)
    assert np.max(np.abs(unitary - mesh.matrix())) <= TOLERANCE
    assert_arranged(mesh)
    assert np.all(mesh.theta <= np.pi)


@settings(max_examples=60, deadline=None)
@given(size=st.integers(1, 24), seed=st.integers(0, 2**31 - 1), data=st.data())
def test_unitaries_with_zeros_and_blocks(haar: Haar, size: int, seed: int, data: st.DataObject) -> None:
    """Haar blocks of drawn sizes, rows and columns permuted."""
    cuts = sorted(data.draw(st.sets(st.integers(1, size))) | {size})
    rng = np.random.default_rng(seed)
    blocks = [haar(width, seed + index) for index, width in enumerate(np.diff([0, *cuts]))]
    unitary = scipy.linalg.block_diag(*blocks)[rng.permutation(size)][:, rng.permutation(size)]
    mesh = rectangular(unitary)
    assert np.max(np.abs(unitary - mesh.matrix())) <= TOLERANCE
    assert_rectangular(mesh)


ANGLE = st.sampled_from([0.0, np.pi / 2, np.pi, -np.pi / 2, 1e-8, 1e-17, 1e-160, 1e-300]) | st.floats(-4, 4)


@settings(max_examples=100, deadline=None)
@given(size=st.integers(2, 12), rotations=st.lists(st.tuples(st.integers(0, 2**16), ANGLE, ANGLE), max_size=40))
def test_products_of_special_rotations(size: int, rotations: list[tuple[int, float, float]]) -> None:
    """Exact zeros, entries near underflow and repeated angles, in any mixture."""
    unitary = np.eye(size, dtype=complex)
    for place, angle, phase in rotations:
        upper = place % (size - 1)
        rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        unitary[upper : upper + 2] = rotation @ (np.array([[np.exp(1j * phase)], [1]]) * unitary[upper : upper + 2])
    mesh = rectangular(unitary)
    assert np.max(np.abs(unitary - mesh.matrix())) <= TOLERANCE


def test_mzis_in_bar_or_cross_state_have_phi_0() -> None:
    for unitary in (np.eye(9), np.eye(9)[::-1], np.diag(np.exp(1j * np.arange(9)))):
        mesh = rectangular(unitary)
        assert set(mesh.theta.tolist()) <= {0.0, np.pi}
        assert not np.any(mesh.phi)
        middle = rectangular(unitary, free_phi=np.pi)
        assert np.all(middle.phi == np.pi)
        assert np.max(np.abs(unitary - middle.matrix())) <= TOLERANCE


@pytest.mark.parametrize("phase", [-1e-9, 2.0 * np.pi])
def test_a_free_phase_outside_its_range_is_refused(phase: float) -> None:
    with pytest.raises(ValueError, match=r"free_phi is .*; give a phase in rad, at least 0 and below 2 pi"):
        rectangular(np.eye(3), free_phi=phase)


def test_rounding_errors_of_the_matrix_do_not_change_phases(haar: Haar) -> None:
    """Equal entries make pairs of which both are zero to rounding; their ratio is noise, which must not be a phase."""
    rows = np.array([[0.0, 1.0, 1.0, 1.0, 0.0], [0.1, -0.4, -0.4, -0.4, 1.4]])
    right = np.linalg.svd(rows)[2].astype(complex)
    right[2:] = haar(3, 1) @ right[2:]
    mesh = rectangular(right)
    rng = np.random.default_rng(0)
    for _ in range(20):
        other = rectangular(right * (1.0 + 2e-16 * rng.standard_normal(right.shape)))
        for phases, others in ((mesh.theta, other.theta), (mesh.phi, other.phi)):
            np.testing.assert_allclose(np.exp(1j * others), np.exp(1j * phases), atol=1e-13)


@pytest.mark.parametrize("decompose", [rectangular, triangular])
@pytest.mark.parametrize("size", [1, 2, 7])
def test_a_batch_is_its_members(haar: Haar, size: int, decompose: Callable[[np.ndarray], Mesh]) -> None:
    stack = np.array([haar(size, 1), np.eye(size)[::-1], haar(size, 2)])
    batch = decompose(stack)
    assert batch.theta.shape == (3, size * (size - 1) // 2)
    for index, unitary in enumerate(stack):
        alone = decompose(unitary)
        for name in ("theta", "phi", "output_phase"):
            np.testing.assert_array_equal(getattr(batch, name)[index], getattr(alone, name))
    assert np.max(np.abs(batch.matrix() - stack)) <= TOLERANCE


def test_input_is_not_changed(haar: Haar) -> None:
    for unitary in (haar(5, 7), np.eye(5)):
        kept = unitary.copy()
        rectangular(unitary)
        np.testing.assert_array_equal(unitary, kept)


def test_layout_and_precision_of_the_input_do_not_matter(haar: Haar) -> None:
    unitary = haar(6, 3)
    read_only = np.asfortranarray(unitary)
    read_only.flags.writeable = False
    np.testing.assert_array_equal(rectangular(read_only).theta, rectangular(unitary).theta)
    np.testing.assert_array_equal(rectangular(np.eye(4, dtype=np.complex64)).theta, rectangular(np.eye(4)).theta)


def test_a_deviation_just_inside_the_limit_is_accepted() -> None:
    """At 100 modes the Frobenius norm, which is checked first, exceeds the limit."""
    unitary = np.eye(100) * (1 + 4e-11)
    mesh = rectangular(unitary)
    assert np.max(np.abs(unitary - mesh.matrix())) < 5e-11
    with pytest.raises(ValueError, match="not unitary"):
        rectangular(np.eye(100) * (1 + 6e-11))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (2 * np.eye(3), "max|U^H U - I| is 3"),
        (np.zeros((3, 3)), "max|U^H U - I| is 1"),
        (np.ones((2, 2)), "max|U^H U - I| is 2"),
        (np.triu(np.ones((3, 3))), "U is not unitary: max|U^H U - I| is 2"),
        (np.full((2, 2), 1e200), "max|U^H U - I| is inf"),
        (1e200 * np.array([[1, 1j], [1j, 1]]), "U is not unitary"),
        (np.array([np.eye(2), 2 * np.eye(2)]), "U[1] is not unitary: max|U^H U - I| is 3"),
        (np.eye(3) + 1e-9, "not unitary"),
        (np.eye(3, dtype=np.float32) * np.float32(1 + 1e-6), "not unitary"),
        (np.array([[1, 0], [0, np.nan]]), "U[1, 1] is nan"),
        (np.array([[1, np.inf], [0, 1]]), "U[0, 1] is inf"),
        (np.array([np.eye(2), np.full((2, 2), np.nan)]), "U[1, 0, 0] is nan"),
        (np.eye(3)[:2], "shape (2, 3)"),
        (np.eye(2)[np.newaxis, np.newaxis], "shape (1, 1, 2, 2)"),
        (np.array(1.0), "shape ()"),
        (np.zeros((0, 0)), "is empty"),
        (np.zeros((0, 0, 0)), "is empty"),
        ([[1, 0], [0]], "U has rows of different lengths"),
        (np.eye(2, dtype=object), "dtype object"),
        ([["1", "0"], ["0", "1"]], "dtype <U1"),
    ],
)
def test_bad_input_is_refused_by_name(bad: object, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        rectangular(bad)  # type: ignore[arg-type]
    assert str(caught.value).removeprefix("rectangular: ").startswith("U")


def test_an_empty_batch_is_one() -> None:
    mesh = rectangular(np.zeros((0, 4, 4)))
    assert mesh.theta.shape == (0, 6)
    assert mesh.matrix().shape == (0, 4, 4)


@pytest.mark.parametrize("decompose", [rectangular, triangular])
@pytest.mark.parametrize("modes", [2, 10, 100])
def test_error_of_nearly_unitary_matrices_is_bounded(decompose: Callable[[np.ndarray], Mesh], modes: int) -> None:
    """The Frobenius norm bounds the error; the largest entry of U^H U - I alone does not."""
    unitary = np.linalg.qr(np.random.default_rng(0).normal(size=(modes, modes)))[0] @ (np.eye(modes) + 4.9e-11)
    gram = unitary.T @ unitary - np.eye(modes)
    error = np.max(np.abs(decompose(unitary).matrix() - unitary))
    assert error <= 1e-13 + np.linalg.norm(gram)


TOLERANCE = 1e-13
SIZES = (1, 2, 3, 4, 5, 8, 16, 33, 64, 512)
Make = Callable[[int], np.ndarray]
Haar = Callable[[int, int], np.ndarray]


@settings(max_examples=60, deadline=None)
@given(size=st.integers(1, 24), seed=st.integers(0, 2**31 - 1))
def test_triangle_and_rectangle_agree(haar: Haar, size: int, seed: int) -> None:
    unitary = haar(size, seed)
    assert np.max(np.abs(triangular(unitary).matrix() - rectangular(unitary).matrix())) <= TOLERANCE


def test_triangles_refuse_bad_input_as_rectangles_do() -> None:
    with pytest.raises(ValueError, match=r"U.*unitary.* 3,"):
        triangular(2 * np.eye(3))
    with pytest.raises(ValueError, match=r"U.*\(2, 3\)"):
        triangular(np.eye(3)[:2])
