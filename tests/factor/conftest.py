"""Unitaries that are difficult to decompose, imperfect meshes, and the transfer of a mesh from whole matrices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.linalg
import scipy.stats

from optinc_pdk.factor import MeshDevices, mesh_devices, random_mesh_devices, rectangular

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


@pytest.fixture(scope="session")
def random_unitary() -> Callable[..., np.ndarray]:
    """A Haar unitary, or a random orthogonal matrix, of a size and a generator."""

    def draw(modes: int, rng: np.random.Generator, real: bool = False) -> np.ndarray:
        gauss = rng.normal(size=(modes, modes)) + (0 if real else 1j * rng.normal(size=(modes, modes)))
        q, r = np.linalg.qr(gauss)
        return q * (np.diagonal(r) / abs(np.diagonal(r)))

    return draw


@pytest.fixture(scope="session")
def varied_devices() -> Callable[..., MeshDevices]:
    """A mesh in which every parameter differs from MZI to MZI."""

    def draw(modes: int, rng: np.random.Generator, redundant: int = 0, lossy: bool = True) -> MeshDevices:
        mesh = rectangular(np.eye(modes))
        count = random_mesh_devices(mesh, rng, 0.0, redundant).row.size
        return mesh_devices(
            mesh,
            first_ratio=0.5 + 0.03 * rng.normal(size=count),
            second_ratio=0.5 + 0.03 * rng.normal(size=count),
            theta_offset=rng.uniform(-3, 3, count),
            phi_offset=rng.uniform(-3, 3, count),
            inner_loss_db=lossy * rng.uniform(0, 0.5, (count, 2)),
            outer_loss_db=lossy * rng.uniform(0, 0.5, (count, 2)),
            idle_loss_db=lossy * 0.3,
            redundant_columns=redundant,
        )

    return draw


@pytest.fixture(scope="session")
def dense_matrix() -> Callable[[MeshDevices, np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    """The transfer of a mesh as a product of whole matrices: couplers, arms, idle modes."""

    def coupler(angle: float) -> np.ndarray:
        return np.array([[np.cos(angle), 1j * np.sin(angle)], [1j * np.sin(angle), np.cos(angle)]])

    def multiply(imperfect: MeshDevices, theta: np.ndarray, phi: np.ndarray, output: np.ndarray) -> np.ndarray:
        product = np.eye(imperfect.modes, dtype=complex)
        for column in range(imperfect.columns):
            stage = imperfect.idle * np.eye(imperfect.modes, dtype=complex)
            for i in np.flatnonzero(imperfect.column == column):
                pair = slice(imperfect.row[i], imperfect.row[i] + 2)
                inner = np.diag(imperfect.inner[i] * [np.exp(1j * (theta[i] + imperfect.theta_offset[i])), 1])
                outer = np.diag(imperfect.outer[i] * [np.exp(1j * (phi[i] + imperfect.phi_offset[i])), 1])
                stage[pair, pair] = coupler(imperfect.second[i]) @ inner @ coupler(imperfect.first[i]) @ outer
            product = stage @ product
        return np.diag(np.exp(1j * output)) @ product

    return multiply
