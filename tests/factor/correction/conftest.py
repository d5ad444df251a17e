"""Random targets and imperfect meshes, and the transfer of a mesh from whole matrices."""

from collections.abc import Callable

import numpy as np
import pytest

from optinc_pdk.factor import Devices, devices, drawn_devices, rectangular


@pytest.fixture(scope="session")
def random_unitary() -> Callable[..., np.ndarray]:
    """A Haar unitary, or a random orthogonal matrix, of a size and a generator."""

    def draw(modes: int, rng: np.random.Generator, real: bool = False) -> np.ndarray:
        gauss = rng.normal(size=(modes, modes)) + (0 if real else 1j * rng.normal(size=(modes, modes)))
        q, r = np.linalg.qr(gauss)
        return q * (np.diagonal(r) / abs(np.diagonal(r)))

    return draw


@pytest.fixture(scope="session")
def varied_devices() -> Callable[..., Devices]:
    """A mesh in which every parameter differs from MZI to MZI."""

    def draw(modes: int, rng: np.random.Generator, redundant: int = 0, lossy: bool = True) -> Devices:
        mesh = rectangular(np.eye(modes))
        count = drawn_devices(mesh, rng, 0.0, redundant).row.size
        return devices(
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
def dense_matrix() -> Callable[[Devices, np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    """The transfer of a mesh as a product of whole matrices: couplers, arms, idle modes."""

    def coupler(angle: float) -> np.ndarray:
        return np.array([[np.cos(angle), 1j * np.sin(angle)], [1j * np.sin(angle), np.cos(angle)]])

    def multiply(mesh_devices: Devices, theta: np.ndarray, phi: np.ndarray, output: np.ndarray) -> np.ndarray:
        product = np.eye(mesh_devices.modes, dtype=complex)
        for column in range(mesh_devices.columns):
            stage = mesh_devices.idle * np.eye(mesh_devices.modes, dtype=complex)
            for i in np.flatnonzero(mesh_devices.column == column):
                pair = slice(mesh_devices.row[i], mesh_devices.row[i] + 2)
                inner = np.diag(mesh_devices.inner[i] * [np.exp(1j * (theta[i] + mesh_devices.theta_offset[i])), 1])
                outer = np.diag(mesh_devices.outer[i] * [np.exp(1j * (phi[i] + mesh_devices.phi_offset[i])), 1])
                stage[pair, pair] = coupler(mesh_devices.second[i]) @ inner @ coupler(mesh_devices.first[i]) @ outer
            product = stage @ product
        return np.diag(np.exp(1j * output)) @ product

    return multiply
