r"""A mesh of Mach-Zehnder interferometers as arrays, and the transfer that its devices make.

One MZI joins the modes ``row`` (the upper guide) and ``row + 1`` (the lower guide)::

    row     --[phi]--\        /--[theta]--\        /---
                      coupler              coupler
    row + 1 ---------/        \-----------/        \---

Light runs from left to right. With the 50:50 coupler C = [[1, i], [i, 1]] / sqrt(2), theta the heater on
the upper internal arm and phi the heater on the upper input arm, the physical transfer is

    MZI(theta, phi) = C diag(e^{i theta}, 1) C diag(e^{i phi}, 1)
                    = i e^{i theta/2} [[e^{i phi} sin(theta/2),  cos(theta/2)],
                                       [e^{i phi} cos(theta/2), -sin(theta/2)]]

so **theta 0 is cross, pi is bar**, and only phases that a heater can make appear.

A rectangular mesh of N modes has N columns; the MZI on rows (k, k + 1) sits in columns of k's parity.
N = 4::

    column  0   1   2   3
    row 0  -##-----##---------
    row 1  -##-##--##--##-----
    row 2  -##-##--##--##-----
    row 3  -##-----##---------

Worked example, N = 2: the Hadamard matrix [[1, 1], [1, -1]] / sqrt(2) is theta = pi/2, phi = 0 (whose
transfer is i e^{i pi/4} times the target) followed by the output phases 2 pi - 3 pi/4 = 5 pi/4 on both modes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

TWO_PI = 2.0 * np.pi


@dataclass(frozen=True, eq=False)
class Mesh:
    """The MZIs that realise one unitary, in the arrangement of Clements et al., Optica 3, 1460 (2016).

    Attributes:
        modes: Number of guides N.
        row: (MZIs,) upper mode of each MZI, 0 to N - 2.
        column: (MZIs,) column of each MZI, 0 to N - 1; light meets column 0 first.
        theta: (MZIs,) internal phase in rad, in [0, 2 pi); 0 is cross, pi is bar.
        phi: (MZIs,) phase on the upper input arm in rad, in [0, 2 pi).
        output_phase: (N,) phase after the last column in rad, in [0, 2 pi).

    Raises:
        ValueError: Shapes that disagree, an MZI outside the mesh, two MZIs of a column on one mode, or a
            phase outside [0, 2 pi).
    """

    modes: int
    row: NDArray[np.int64]
    column: NDArray[np.int64]
    theta: NDArray[np.float64]
    phi: NDArray[np.float64]
    output_phase: NDArray[np.float64]

    def __post_init__(self) -> None:
        """Refuses what is no mesh."""
        if self.modes < 1:
            raise ValueError(f"modes is {self.modes}; a mesh has at least 1")
        shape = self.row.shape
        for name in ("column", "theta", "phi"):
            if getattr(self, name).shape != shape or len(shape) != 1:
                raise ValueError(
                    f"{name} has shape {getattr(self, name).shape} and row {shape}; give one entry per MZI"
                )
        if self.output_phase.shape != (self.modes,):
            raise ValueError(f"output_phase has shape {self.output_phase.shape}; it must be ({self.modes},)")
        for name in ("theta", "phi", "output_phase"):
            _refuse_phases_outside_a_turn(name, getattr(self, name))
        self._refuse_misplaced_mzis()

    def _refuse_misplaced_mzis(self) -> None:
        for name, positions, limit in (
            ("row", self.row, self.modes - 2),
            ("column", self.column, self.modes - 1),
        ):
            wrong = np.flatnonzero((positions < 0) | (positions > limit))
            if wrong.size:
                raise ValueError(
                    f"{name}[{wrong[0]}] is {positions[wrong[0]]}; in a mesh of {self.modes} modes "
                    f"it must be 0 to {limit}"
                )
        touched = np.concatenate([self.column * self.modes + self.row, self.column * self.modes + self.row + 1])
        slots, uses = np.unique(touched, return_counts=True)
        if np.any(uses > 1):
            column, mode = divmod(int(slots[np.argmax(uses > 1)]), self.modes)
            raise ValueError(f"two MZIs of column {column} touch mode {mode}; move one to another column")

    def matrix(self) -> NDArray[np.complex128]:
        """The transfer of the whole mesh.

        Returns:
            (N, N) complex; ``diag(e^{i output_phase})`` times the columns, the first column rightmost.
        """
        return self.apply(np.eye(self.modes))

    def apply(self, fields: ArrayLike) -> NDArray[np.complex128]:
        """Sends fields through the mesh, column by column.

        Args:
            fields: (N,) or (N, vectors) complex field amplitudes at the inputs.

        Returns:
            The fields at the outputs, in the shape of the input.

        Raises:
            ValueError: The first dimension is not N.
        """
        light = np.array(fields, dtype=np.complex128)
        if light.ndim not in (1, 2) or light.shape[0] != self.modes:
            raise ValueError(
                f"fields has shape {light.shape}; this mesh takes ({self.modes},) or ({self.modes}, vectors)"
            )
        shape = light.shape
        light = light.reshape(self.modes, -1)
        order = np.argsort(self.column, kind="stable")
        starts = np.searchsorted(self.column[order], np.arange(1, self.modes))
        for mzis in np.split(order, starts):
            upper = self.row[mzis]
            blocks = mzi_transfer(self.theta[mzis], self.phi[mzis])[..., np.newaxis]
            top, bottom = light[upper], light[upper + 1]
            light[upper] = blocks[:, 0, 0] * top + blocks[:, 0, 1] * bottom
            light[upper + 1] = blocks[:, 1, 0] * top + blocks[:, 1, 1] * bottom
        light *= np.exp(1j * self.output_phase)[:, np.newaxis]
        return light.reshape(shape)


def mzi_transfer(theta: ArrayLike, phi: ArrayLike) -> NDArray[np.complex128]:
    """The transfer of lossless MZIs with 50:50 couplers (module docstring).

    Args:
        theta: Internal phases in rad, any shape.
        phi: Phases on the upper input arm in rad, the same shape.

    Returns:
        (..., 2, 2) complex, indexed [output, input], upper guide first.
    """
    half = np.asarray(theta, dtype=np.float64) / 2.0
    common = 1j * np.exp(1j * half)
    shifted = common * np.exp(1j * np.asarray(phi, dtype=np.float64))
    sine, cosine = np.sin(half), np.cos(half)
    upper = np.stack([shifted * sine, common * cosine], axis=-1)
    lower = np.stack([shifted * cosine, -common * sine], axis=-1)
    return np.stack([upper, lower], axis=-2)


def wrap(phase: ArrayLike) -> NDArray[np.float64]:
    """Phases in rad brought into [0, 2 pi)."""
    turned = np.mod(np.asarray(phase, dtype=np.float64), TWO_PI)
    # The remainder of a tiny negative phase rounds up to a full turn.
    return np.where(turned >= TWO_PI, 0.0, turned)


def _refuse_phases_outside_a_turn(name: str, phase: NDArray[Any]) -> None:
    wrong = np.flatnonzero(~((phase >= 0.0) & (phase < TWO_PI)))
    if wrong.size:
        raise ValueError(f"{name}[{wrong[0]}] is {phase[wrong[0]]} rad; wrap it into [0, 2 pi)")
