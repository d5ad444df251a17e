"""Rectangular meshes: exact for ordinary and degenerate unitaries, every slot filled, bad input refused."""

import re

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.factor import Mesh, rectangular

TOLERANCE = 1e-13
SIZES = (1, 2, 3, 4, 5, 8, 16, 33, 64)


def haar(size: int, seed: int) -> np.ndarray:
    return scipy.stats.unitary_group(size, seed=seed).rvs() if size > 1 else np.array([[np.exp(1j * seed)]])


def reflection(size: int) -> np.ndarray:
    """Real orthogonal with determinant -1."""
    orthogonal = np.atleast_2d(scipy.stats.ortho_group(size, seed=5).rvs()) if size > 1 else np.eye(1)
    if np.linalg.det(orthogonal) > 0:
        orthogonal[0] *= -1
    return orthogonal


def halves(size: int) -> np.ndarray:
    return scipy.linalg.block_diag(haar(size - size // 2, 1), *([haar(size // 2, 2)] if size > 1 else []))


def sylvester(size: int) -> np.ndarray:
    """A Hadamard matrix of the largest power of two, completed by ones on the diagonal."""
    power = 1 << (size.bit_length() - 1)
    return scipy.linalg.block_diag(scipy.linalg.hadamard(power) / np.sqrt(power), np.eye(size - power))


def nearly_identity(size: int, by: float) -> np.ndarray:
    generator = np.random.default_rng(3).normal(size=(size, size))
    return scipy.linalg.expm(by * (generator - generator.T))


def underflowing(size: int) -> np.ndarray:
    unitary = np.diag(np.exp(1j * np.arange(size)))
    return np.where(np.eye(size) > 0, unitary, 1e-300 * (1 - 1j))


UNITARIES = {
    "haar": lambda size: haar(size, 0),
    "identity": np.eye,
    "minus identity": lambda size: -np.eye(size),
    "integers": lambda size: np.eye(size, dtype=int),
    "reversal": lambda size: np.eye(size)[::-1],
    "permutation": lambda size: np.eye(size)[np.random.default_rng(1).permutation(size)],
    "signs": lambda size: np.diag(np.random.default_rng(2).choice([-1.0, 1.0], size)),
    "signed permutation": lambda size: -1j * np.roll(np.diag((-1.0) ** np.arange(size)), 1, axis=0),
    "dft": lambda size: scipy.linalg.dft(size, scale="sqrtn"),
    "hadamard": sylvester,
    "block diagonal": halves,
    "nearly identity": lambda size: nearly_identity(size, 1e-9),
    "a rounding off identity": lambda size: nearly_identity(size, 1e-17),
    "reflection": reflection,
    "entries of 1e-300": underflowing,
    "negative zeros": lambda size: np.eye(size) * (1 + 0j) * -1.0,
}


def assert_rectangular(mesh: Mesh) -> None:
    """Every slot of the arrangement holds exactly one MZI, and no two MZIs of a column share a mode."""
    slots = {(row, column) for column in range(mesh.modes) for row in range(column % 2, mesh.modes - 1, 2)}
    placed = list(zip(mesh.row.tolist(), mesh.column.tolist(), strict=True))
    assert len(placed) == len(set(placed)) == mesh.modes * (mesh.modes - 1) // 2
    assert set(placed) == slots
    for column in range(mesh.modes):
        upper = mesh.row[mesh.column == column]
        touched = np.concatenate([upper, upper + 1])
        assert len(set(touched.tolist())) == touched.size


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", UNITARIES)
def test_mesh_realises_the_unitary(kind: str, size: int) -> None:
    unitary = UNITARIES[kind](size)
    mesh = rectangular(unitary)
    assert np.max(np.abs(unitary - mesh.matrix())) <= TOLERANCE
    assert_rectangular(mesh)
    assert np.all(mesh.theta <= np.pi)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 24), st.integers(0, 2**31 - 1), st.data())
def test_unitaries_with_zeros_and_blocks(size: int, seed: int, data: st.DataObject) -> None:
    """Haar blocks of drawn sizes, rows and columns permuted."""
    cuts = sorted(data.draw(st.sets(st.integers(1, size))) | {size})
    rng = np.random.default_rng(seed)
    blocks = [haar(width, seed + index) for index, width in enumerate(np.diff([0, *cuts]))]
    unitary = scipy.linalg.block_diag(*blocks)[rng.permutation(size)][:, rng.permutation(size)]
    mesh = rectangular(unitary)
    assert np.max(np.abs(unitary - mesh.matrix())) <= TOLERANCE
    assert_rectangular(mesh)


def test_input_is_left_alone() -> None:
    unitary = haar(5, 7)
    kept = unitary.copy()
    rectangular(unitary)
    np.testing.assert_array_equal(unitary, kept)


def test_two_modes_use_column_zero() -> None:
    mesh = rectangular(haar(2, 0))
    assert mesh.column.tolist() == [0]
    assert mesh.row.tolist() == [0]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (2 * np.eye(3), "max|U^H U - I| is 3"),
        (np.ones((2, 2)), "max|U^H U - I| is 2"),
        (np.full((2, 2), 1e200), "max|U^H U - I| is inf"),
        (1e200 * np.array([[1, 1j], [1j, 1]]), "U is not unitary"),
        (np.eye(3) + 1e-9, "not unitary"),
        (np.array([[1, 0], [0, np.nan]]), "U[1, 1] is nan"),
        (np.array([[1, np.inf], [0, 1]]), "U[0, 1] is inf"),
        (np.eye(3)[:2], "shape (2, 3)"),
        (np.eye(2)[np.newaxis], "shape (1, 2, 2)"),
        (np.array(1.0), "shape ()"),
        (np.zeros((0, 0)), "is empty"),
        (np.eye(2, dtype=object), "dtype object"),
        ([["1", "0"], ["0", "1"]], "dtype <U1"),
    ],
)
def test_bad_input_is_refused_by_name(bad: object, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        rectangular(bad)  # type: ignore[arg-type]
    assert str(caught.value).startswith("U")
