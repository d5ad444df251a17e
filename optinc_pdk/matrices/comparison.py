"""Comparison of the matrix of a chip with its target.

A passive chip with loss realises M = c e^{i φ} T for a target T, with a common scale c > 0 that says how much light is
left. The phase φ is common to all outputs; where powers are read, every output has a phase φ of its own, and where real
parts are read, that of its receiver's oscillator. The scale and the phases that fit best are

    φ = arg <T, M>,   c = |<T, M>| / <T, T>,   with <T, M> = Σ conj(T_jk) M_jk,

by output first, where powers or real parts are read. Errors are those of M / (c e^{i φ}) against T, or of its real
part. Loss is no error: it is stated apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Complexes
from optinc_pdk.matrices.target import MatrixTarget


class NoLightError(ValueError):
    """No light of a chip is like its target, so that they have no common scale."""


@dataclass(frozen=True, eq=False)
class MatrixComparison:
    """Differences of a chip's matrix from its target.

    Attributes:
        target: The target.
        fields: (m, n) fields of the chip, without its common or its outputs' phases; their real parts, if these are
            read.
        scale: Common scale c: the chip's fields are those of the target, in the target's units, times c.
        fidelity: |<T, M>|² / (<T, T> <M, M>) with these phases, 0 … 1; for a unitary T of n modes
            |tr(T^H M)|² / (n tr(M^H M)).
        rms: Root mean square of the errors of the entries, over the largest entry of the target.
        worst: Largest error of an entry, over the largest entry of the target.
        worst_entry: Output and input of this entry, from 0.
        insertion_loss_db: Loss in dB beyond that of an ideal passive chip, -20 log10(c ‖T‖₂).
    """

    target: MatrixTarget
    fields: Complexes
    scale: float
    fidelity: float
    rms: float
    worst: float
    worst_entry: tuple[int, int]
    insertion_loss_db: float

    @property
    def passed(self) -> bool:
        """Whether the largest error is within the tolerance of the target."""
        return self.worst <= self.target.tolerance

    @property
    def matrix(self) -> Complexes:
        """(m, n) matrix of the chip in units of the target: its fields divided by the scale."""
        return np.asarray(self.fields / self.scale)


def compare_matrices(matrix: Complexes, target: MatrixTarget) -> MatrixComparison:
    """Compare the matrix of a chip with its target.

    Args:
        matrix: (m, n) fields at the outputs for a field of 1 at each input.
        target: The target.

    Raises:
        NoLightError: No light of the matrix is like the target.
        ValueError: The matrix has another shape than the target.
    """
    wanted = target.matrix
    if matrix.shape != wanted.shape:
        raise ValueError(f"the chip has a matrix of shape {matrix.shape}, the target {wanted.shape}")
    overlap = np.sum(wanted.conj() * matrix, axis=1, keepdims=True)
    if target.read == "field":
        overlap = np.full_like(overlap, overlap.sum())
    turned = matrix * np.exp(-1j * np.angle(overlap))
    if target.read == "real":
        turned = turned.real.astype(np.complex128)
    power, shared = float(np.linalg.norm(wanted) ** 2), float(np.vdot(wanted, turned).real)
    if shared <= 0.0:
        raise NoLightError("the chip transmits no light that is like the target")
    scale = shared / power
    error = np.abs(turned / scale - wanted) / float(np.abs(wanted).max())
    row, column = np.unravel_index(int(np.argmax(error)), error.shape)
    return MatrixComparison(
        target=target,
        fields=turned,
        scale=scale,
        fidelity=shared**2 / (power * float(np.linalg.norm(turned) ** 2)),
        rms=float(np.sqrt(np.mean(error**2))),
        worst=float(error.max()),
        worst_entry=(int(row), int(column)),
        insertion_loss_db=-20.0 * math.log10(scale * target.norm),
    )
