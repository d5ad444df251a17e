r"""A mesh of Mach-Zehnder interferometers (MZIs) as arrays, and the transfer of its ideal devices.

One MZI joins the modes ``row`` (the upper guide) and ``row + 1`` (the lower guide)::

    row     --[phi]--\        /--[theta]--\        /---
                      coupler              coupler
    row + 1 ---------/        \-----------/        \---

Light runs from left to right. With the 50:50 coupler C = [[1, i], [i, 1]] / sqrt(2), theta the heater on
the upper internal arm and phi the heater on the upper input arm, the physical transfer is

    MZI(theta, phi) = C diag(e^{i theta}, 1) C diag(e^{i phi}, 1)
                    = i e^{i theta/2} [[e^{i phi} sin(theta/2),  cos(theta/2)],
                                       [e^{i phi} cos(theta/2), -sin(theta/2)]]

so **theta 0 is cross, pi is bar**, and only phases that a heater can realise appear.

A rectangular mesh of N modes has N columns; the MZI on rows (k, k + 1) is in columns of k's parity.
N = 4::

    column  0   1   2   3
    row 0  -##-----##---------
    row 1  -##-##--##--##-----
    row 2  -##-##--##--##-----
    row 3  -##-----##---------

Worked example, N = 2: the Hadamard matrix [[1, 1], [1, -1]] / sqrt(2) is theta = pi/2, phi = 0 (whose
transfer is i e^{i pi/4} times the target) followed by the output phases 2 pi - 3 pi/4 = 5 pi/4 on both modes.

N = 3: the reversal of the modes is three MZIs in the cross state, theta = phi = 0. Each path passes two MZIs with a
factor i each, so the output phases are pi. The Fourier matrix has entries e^{-2 pi i jk/3} / sqrt(3); with
s = asin(1/sqrt(3)) it is::

    row  column  theta  phi              mode  output phase
    0    0       pi/2   pi/3             0     3 pi/4 - s
    1    1       2 s    7 pi/12          1     5 pi/12 - s
    0    2       pi/2   19 pi/12 + s     2     11 pi/6 - s
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.factor.checks import as_numbers, check_finite

TWO_PI = 2.0 * np.pi
LARGEST_EXTRA = 64
"""Largest number of redundant columns of a mesh."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """MZIs that realise one unitary, or a batch of unitaries, one per entry of a leading axis of the phases.

    Attributes:
        modes: Number of guides N.
        row: (MZIs,) upper mode of each MZI, 0 to N - 2.
        column: (MZIs,) column of each MZI, up to N - 1 in a rectangle and 2N - 4 in a triangle, and up to 64 redundant
            columns behind them; light passes column 0 first.
        theta: (MZIs,) or (batch, MZIs) internal phase in rad, in [0, 2 pi); 0 is cross, pi is bar.
        phi: The same shape, phase on the upper input arm in rad, in [0, 2 pi).
        output_phase: (N,) or (batch, N) phase after the last column in rad, in [0, 2 pi).

    Raises:
        ValueError: Shapes disagree, an MZI is outside the mesh, two MZIs of a column share a mode, or a phase is
            outside [0, 2 pi).
    """

    modes: int
    row: Ints
    column: Ints
    theta: Floats
    phi: Floats
    output_phase: Floats

    def __post_init__(self) -> None:
        """Checks shapes, positions and phases."""
        if self.modes < 1:
            raise ValueError(f"modes is {self.modes}; a mesh has at least 1")
        self._check_shapes()
        for name in ("theta", "phi", "output_phase"):
            _check_phases(name, getattr(self, name))
        self._check_positions()

    @property
    def batch(self) -> tuple[int, ...]:
        """Leading shape of the phases: () for one unitary, (batch,) for a batch."""
        return self.theta.shape[:-1]

    def _check_shapes(self) -> None:
        mzis = self.row.shape
        for name in ("column", "theta", "phi"):
            shape = getattr(self, name).shape
            allowed = (1,) if name == "column" else (1, 2)
            if len(mzis) != 1 or len(shape) not in allowed or shape[-1:] != mzis:
                raise ValueError(f"{name} has shape {shape} and row {mzis}; give one entry per MZI")
        if self.phi.shape != self.theta.shape:
            raise ValueError(f"phi has shape {self.phi.shape} and theta {self.theta.shape}; give both the same shape")
        if self.output_phase.shape != (*self.batch, self.modes):
            raise ValueError(
                f"output_phase has shape {self.output_phase.shape}; it must be {(*self.batch, self.modes)}"
            )

    def _check_positions(self) -> None:
        for name, positions, limit in (
            ("row", self.row, self.modes - 2),
            ("column", self.column, max(self.modes - 1, 2 * self.modes - 4) + LARGEST_EXTRA),
        ):
            wrong = np.flatnonzero((positions < 0) | (positions > limit))
            if wrong.size:
                raise ValueError(
                    f"{name}[{wrong[0]}] is {positions[wrong[0]]}; in a mesh of {self.modes} modes "
                    f"it must be 0 to {limit}"
                )
        upper = self.column * self.modes + self.row
        uses = np.bincount(np.concatenate([upper, upper + 1]))
        if np.any(uses > 1):
            column, mode = divmod(int(np.argmax(uses > 1)), self.modes)
            raise ValueError(f"two MZIs of column {column} touch mode {mode}; move one to another column")

    def matrix(self) -> Complexes:
        """Return the (N, N) or (batch, N, N) transfer matrix of the mesh with ideal devices.

        It is ``diag(e^{i output_phase})`` times the columns, the first column rightmost.
        """
        return self.apply(np.eye(self.modes))

    def apply(self, fields: ArrayLike) -> Complexes:
        """Compute the output fields of the mesh, with the batch's leading axis. The first call on a machine compiles
        for seconds.

        Args:
            fields: (N,) or (N, vectors) complex field amplitudes at the inputs, the same for the whole batch; or
                (batch, N, vectors), one set for each unitary of the batch.

        Raises:
            ValueError: ``fields`` has another shape, or an entry is not a finite number.
        """
        from optinc_pdk.factor import kernels

        numbers = as_numbers("fields", fields)
        self._check_fields(numbers)
        check_finite("fields", numbers)
        inputs = numbers.astype(np.complex128, copy=False)
        per_unitary = inputs.ndim == 3
        sets = np.array(inputs if per_unitary else inputs.reshape(1, self.modes, -1), order="C")
        order = np.argsort(self.column, kind="stable")
        phases = [self.theta[..., order], self.phi[..., order], self.output_phase]
        # One memory layout and no read-only arrays: the kernel would be compiled again for each combination.
        theta, phi, output_phase = (np.array(np.atleast_2d(phase), order="C") for phase in phases)
        light = np.empty((len(theta), self.modes, sets.shape[2]), dtype=np.complex128)
        kernels.propagate(self.row[order], theta, phi, output_phase, sets, light)
        return light.reshape(inputs.shape if per_unitary else (*self.batch, *inputs.shape))

    def _check_fields(self, fields: NDArray[Any]) -> None:
        if fields.ndim in (1, 2) and len(fields) == self.modes:
            return
        if fields.ndim == 3 and fields.shape[:2] == (*self.batch, self.modes):
            return
        modes, each = self.modes, f" or ({self.batch[0]}, {self.modes}, vectors)" if self.batch else ""
        raise ValueError(f"fields has shape {fields.shape}; this mesh takes ({modes},) or ({modes}, vectors){each}")


def mzi_transfer(theta: ArrayLike, phi: ArrayLike) -> Complexes:
    """Return the (..., 2, 2) transfers of lossless MZIs with 50:50 couplers (formula in the module's docstring).

    They are indexed [output, input], upper guide first, for phases in rad of any shape.
    """
    half = np.asarray(theta, dtype=np.float64) / 2.0
    common = 1j * np.exp(1j * half)
    shifted = common * np.exp(1j * np.asarray(phi, dtype=np.float64))
    sine, cosine = np.sin(half), np.cos(half)
    upper = np.stack([shifted * sine, common * cosine], axis=-1)
    lower = np.stack([shifted * cosine, -common * sine], axis=-1)
    return np.stack([upper, lower], axis=-2)


def wrap(phase: ArrayLike) -> Floats:
    """Wraps phases in rad into [0, 2 pi)."""
    wrapped = np.mod(np.asarray(phase, dtype=np.float64), TWO_PI)
    # The remainder of a tiny negative phase rounds up to 2 pi.
    return np.where(wrapped >= TWO_PI, 0.0, wrapped)


def _check_phases(name: str, phase: NDArray[Any]) -> None:
    wrong = ~((phase >= 0.0) & (phase < TWO_PI))
    if np.any(wrong):
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(f"{name}{list(index)} is {phase[index]} rad; wrap it into [0, 2 pi)")
