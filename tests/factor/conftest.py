"""Unitaries that are difficult to decompose: permutations, repeated blocks, entries near underflow."""

from collections.abc import Callable

import numpy as np
import pytest
import scipy.linalg
import scipy.stats

Make = Callable[[int], np.ndarray]


def draw_haar(size: int, seed: int) -> np.ndarray:
    return scipy.stats.unitary_group(size, seed=seed).rvs() if size > 1 else np.array([[np.exp(1j * seed)]])


def reflection(size: int) -> np.ndarray:
    """Real orthogonal with determinant -1."""
    orthogonal = np.atleast_2d(scipy.stats.ortho_group(size, seed=5).rvs()) if size > 1 else np.eye(1)
    if np.linalg.det(orthogonal) > 0:
        orthogonal[0] *= -1
    return orthogonal


def halves(size: int) -> np.ndarray:
    upper, lower = draw_haar(size - size // 2, 1), [draw_haar(size // 2, 2)] if size > 1 else []
    return scipy.linalg.block_diag(upper, *lower)


def pairs(size: int) -> np.ndarray:
    """Repeats one 2 x 2 unitary, so that rounding errors accumulate."""
    return scipy.linalg.block_diag(*[draw_haar(2, 3)] * (size // 2), np.eye(size % 2))


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


UNITARIES: dict[str, Make] = {
    "haar": lambda size: draw_haar(size, 0),
    "identity": np.eye,
    "minus identity": lambda size: -np.eye(size),
    "integers": lambda size: np.eye(size, dtype=int),
    "reversal": lambda size: np.eye(size)[::-1],
    "reversal with a phase": lambda size: np.exp(5.5j) * np.eye(size)[::-1],
    "permutation": lambda size: np.eye(size)[np.random.default_rng(1).permutation(size)],
    "signs": lambda size: np.diag(np.random.default_rng(2).choice([-1.0, 1.0], size)),
    "signed permutation": lambda size: -1j * np.roll(np.diag((-1.0) ** np.arange(size)), 1, axis=0),
    "phase ramp": lambda size: np.diag(np.exp(5.5j * np.arange(size))),
    "dft": lambda size: scipy.linalg.dft(size, scale="sqrtn"),
    "hadamard": sylvester,
    "block diagonal": halves,
    "equal pairs": pairs,
    "nearly identity": lambda size: nearly_identity(size, 1e-9),
    "identity with rounding errors": lambda size: nearly_identity(size, 1e-17),
    "reflection": reflection,
    "householder": lambda size: np.eye(size) - 2.0 / size,
    "entries of 1e-300": underflowing,
    "negative zeros": lambda size: np.eye(size) * (1 + 0j) * -1.0,
}


@pytest.fixture(params=UNITARIES)
def make_unitary(request: pytest.FixtureRequest) -> Make:
    """Each kind of unitary in turn, as a function of its size."""
    return UNITARIES[request.param]


@pytest.fixture(scope="session")
def haar() -> Callable[[int, int], np.ndarray]:
    """A Haar unitary of a size and a seed."""
    return draw_haar
