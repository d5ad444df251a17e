"""Random targets and imperfect meshes, and the transfer of a mesh from whole matrices."""

from collections.abc import Callable

import numpy as np
import pytest

from optinc_pdk.factor import MeshDevices, mesh_devices, random_mesh_devices, rectangular


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
