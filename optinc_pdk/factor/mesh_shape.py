"""Shapes of meshes, a rectangle or a triangle with redundant columns, and phases with which they realise a unitary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.factor._decomposition import rectangular, triangular
from optinc_pdk.factor.mesh import LARGEST_EXTRA, TWO_PI, Mesh, mzi_transfer, wrap
from optinc_pdk.factor.mesh_devices import MeshDevices, mesh_devices
from optinc_pdk.options import MeshKind

DECOMPOSITIONS: dict[MeshKind, Callable[[ArrayLike, float], Mesh]] = {
    "rectangle": rectangular,
    "triangle": triangular,
}
"""Decomposition of a unitary, by kind of mesh; the second argument is phi of MZIs in the bar or cross state."""


def ideal_phases(target: Complexes, devices: MeshDevices, rng: np.random.Generator, free_phi: float = 0.0) -> Floats:
    """Compute the phases with which a mesh of ideal devices realises a unitary, the starting point of every correction.

    Redundant columns get random phases, theta around pi/2, where the splitting depends least on the couplers. The
    rectangle or triangle in front of them realises the rest.

    Args:
        target: (N, N) unitary.
        devices: The mesh; only the positions of its MZIs matter.
        rng: Source of the phases of redundant columns.
        free_phi: Phi of other MZIs in the bar or cross state in rad, in [0, 2 pi).

    Returns:
        (2 MZIs + N,) theta, phi and output phases in this order, in rad, in [0, 2 pi).

    Raises:
        ValueError: The first columns of the devices are neither a rectangle nor a triangle, or the target is not
            unitary.
    """
    decompose = DECOMPOSITIONS[kind_of(devices.modes, devices.row, devices.column)]
    width = int(decompose(np.eye(devices.modes), 0.0).column.max(initial=-1)) + 1
    redundant = devices.column >= width
    extra = np.count_nonzero(redundant)
    theta, phi = np.zeros(devices.row.size), np.zeros(devices.row.size)
    theta[redundant] = rng.uniform(0.25 * np.pi, 0.75 * np.pi, extra)
    phi[redundant] = rng.uniform(0.0, TWO_PI, extra)
    remainder = target.conj().T
    for number in range(devices.columns - 1, width - 1, -1):
        mzis = np.flatnonzero(devices.column == number)
        blocks = mzi_transfer(theta[mzis], phi[mzis])
        upper = devices.row[mzis]
        pairs = np.stack([remainder[:, upper], remainder[:, upper + 1]], axis=-1)
        remainder[:, upper], remainder[:, upper + 1] = np.moveaxis(np.einsum("nmo,moi->nmi", pairs, blocks), -1, 0)
    mesh = decompose(remainder.conj().T, free_phi)
    indices = _device_indices(mesh, devices)
    theta[indices], phi[indices] = mesh.theta, mesh.phi
    output = mesh.output_phase
    for number in range(width, devices.columns):
        # Phases in front of a column move into its phi; both its outputs then carry the lower one's.
        mzis = np.flatnonzero(devices.column == number)
        upper = devices.row[mzis]
        phi[mzis] += output[upper] - output[upper + 1]
        output = output.copy()
        output[upper] = output[upper + 1]
    return np.concatenate([wrap(theta), wrap(phi), wrap(output)])


def kind_of(modes: int, row: Ints, column: Ints) -> MeshKind:
    """Return the kind of mesh that the first columns of MZIs are, from their upper modes and columns.

    Raises:
        ValueError: It is neither rectangle nor triangle.
    """
    slots = set(zip(row.tolist(), column.tolist(), strict=True))
    for kind, decompose in DECOMPOSITIONS.items():
        mesh = decompose(np.eye(modes), 0.0)
        expected = set(zip(mesh.row.tolist(), mesh.column.tolist(), strict=True))
        width = int(mesh.column.max(initial=-1)) + 1
        if expected == {slot for slot in slots if slot[1] < width}:
            return kind
    raise ValueError(
        f"devices, {row.size} MZIs on {modes} modes, start with neither a rectangular nor a "
        "triangular mesh; create them from a mesh of rectangular or triangular"
    )


def _device_indices(mesh: Mesh, devices: MeshDevices) -> Ints:
    """(MZIs of the mesh,) index of each MZI among the devices."""
    index_of = {slot: i for i, slot in enumerate(zip(devices.row.tolist(), devices.column.tolist(), strict=True))}
    slots = zip(mesh.row.tolist(), mesh.column.tolist(), strict=True)
    return np.array([index_of[slot] for slot in slots], dtype=np.int64)


def unitary_completion(W: Floats, amplitude: float, rng: np.random.Generator) -> Complexes:
    """Return a random unitary W (a + i sqrt(1 - a^2) Q): its real part is the orthogonal W times the amplitude a, 0 < a
    <= 1.
    """
    modes = W.shape[0]
    axes, _ = np.linalg.qr(rng.standard_normal((modes, modes)))
    signs = np.where(np.arange(modes) % 2 == 0, 1.0, -1.0)
    symmetric = (axes * signs) @ axes.T
    imaginary = np.sqrt(1.0 - amplitude**2)
    unitary: Complexes = W @ (amplitude * np.eye(modes) + 1j * imaginary * symmetric)
    return unitary


SEED = 7
"""Seed of the phases of redundant columns."""


@dataclass(frozen=True)
class MeshShape:
    """Where the MZIs of a mesh are.

    Attributes:
        kind: ``rectangle`` (Clements et al., N columns) or ``triangle`` (Reck et al., 2N - 3 columns).
        extra_columns: Number of redundant columns at the outputs. With them a mesh reaches splittings that its couplers
            alone cannot reach.

    Raises:
        ValueError: A value is out of range.
    """

    kind: MeshKind = "rectangle"
    extra_columns: int = 0

    def __post_init__(self) -> None:
        """Check the values."""
        if self.kind not in DECOMPOSITIONS:
            raise ValueError(f"kind is {self.kind!r}; give one of {', '.join(DECOMPOSITIONS)}")
        if not 0 <= self.extra_columns <= LARGEST_EXTRA:
            raise ValueError(f"extra_columns is {self.extra_columns}; give 0 to {LARGEST_EXTRA}")

    def positions(self, modes: int) -> tuple[Ints, Ints]:
        """Return row and column of each MZI of a mesh, two times (MZIs,)."""
        mesh = DECOMPOSITIONS[self.kind](np.eye(modes), 0.0)
        devices = mesh_devices(mesh, redundant_columns=self.extra_columns)
        return devices.row, devices.column

    def decompose(self, U: NDArray[Any], free_phi: float = 0.0) -> Mesh:
        """Decompose a unitary U (N, N) into a mesh of this shape.

        Redundant columns get random phases (fixed seed), with theta around pi/2, where splittings depend least on the
        couplers. ``free_phi`` is phi of MZIs in the bar or cross state in rad, in [0, 2 pi).

        Raises:
            ValueError: U is not unitary.
        """
        mesh = DECOMPOSITIONS[self.kind](U, free_phi)
        if not self.extra_columns:
            return mesh
        devices = mesh_devices(mesh, redundant_columns=self.extra_columns)
        target = np.asarray(U, dtype=np.complex128)
        phases = ideal_phases(target, devices, np.random.default_rng(SEED), free_phi)
        theta, phi, output = np.split(phases, [devices.row.size, 2 * devices.row.size])
        return Mesh(devices.modes, devices.row, devices.column, theta, phi, output)


def shape_of(modes: int, row: Ints, column: Ints) -> MeshShape:
    """Return the shape of a mesh from the upper modes and columns of its MZIs.

    Raises:
        ValueError: The MZIs are those of no shape.
    """
    kind = kind_of(modes, row, column)
    columns = int(column.max(initial=-1)) + 1
    first = int(MeshShape(kind).positions(modes)[1].max(initial=-1)) + 1
    return MeshShape(kind, columns - first)
