"""Shapes of meshes: a rectangle or a triangle of MZIs, and redundant columns behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.arrays import Ints
from optinc_pdk.factor.correction.ideal_phases import DECOMPOSITIONS, ideal_phases, kind_of
from optinc_pdk.factor.devices import mesh_devices
from optinc_pdk.factor.mesh import LARGEST_EXTRA, Mesh
from optinc_pdk.options import MeshKind

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
        """Decompose a unitary into a mesh of this shape.

        Redundant columns get random phases (fixed seed), with theta around pi/2, where splittings depend least on the
        couplers.

        Args:
            U: (N, N) unitary.
            free_phi: Phi of MZIs in the bar or cross state in rad, in [0, 2 pi).

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
    """Return the shape of a mesh.

    Args:
        modes: Number of modes.
        row: (MZIs,) upper mode of each MZI.
        column: (MZIs,) column of each MZI.

    Raises:
        ValueError: The MZIs are those of no shape.
    """
    kind = kind_of(modes, row, column)
    columns = int(column.max(initial=-1)) + 1
    first = int(MeshShape(kind).positions(modes)[1].max(initial=-1)) + 1
    return MeshShape(kind, columns - first)
