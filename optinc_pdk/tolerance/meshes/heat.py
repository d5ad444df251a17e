"""Heaters of a block's mesh: crosstalk between thousands of them as a convolution, and the drive's steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import Process
from optinc_pdk.cells.interferometers import mzi_frame
from optinc_pdk.drive import RangeError
from optinc_pdk.factor import Mesh
from optinc_pdk.factor.mesh import TWO_PI
from optinc_pdk.files import InputError

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROUNDS = 60
"""Rounds of turns added to heaters that crosstalk alone warms too much."""


def sites(mesh: Mesh) -> tuple[Ints, Ints, Ints]:
    """Places of a block's heaters: 0 beside phi or 1 beside theta, column, and mode."""
    size = np.arange(mesh.modes)
    end = np.full(mesh.modes, int(mesh.column.max()) + 1)
    kind = np.concatenate([np.ones_like(mesh.row), np.zeros_like(mesh.row), np.zeros_like(size), np.ones_like(size)])
    return kind, np.concatenate([mesh.column, mesh.column, end, end]), np.concatenate([mesh.row, mesh.row, size, size])


@dataclass(frozen=True, eq=False)
class Warmth:
    """Crosstalk between the heaters of one block, which lie on a grid: a convolution.

    Attributes:
        mesh: The block's mesh; it lies in one row, whatever the layout folds.
        kernel: (2, 2, columns, modes) spectra of the sum over heaters of 1 / distance, to and from phi or theta.
        shape: Of the padded grid.
    """

    mesh: Mesh
    kernel: Complexes
    shape: tuple[int, int]

    def others(self, own: Floats) -> Floats:
        """(heaters,) phase that heaters of phases (heaters,) make in the others' guides, for a share of 1."""
        kind, column, row = sites(self.mesh)
        grid = np.zeros((2, *self.shape))
        grid[kind, column, row] = own
        spectra = np.einsum("tfcr,fcr->tcr", self.kernel, np.fft.rfft2(grid))
        spread: Floats = np.fft.irfft2(spectra, s=self.shape)[kind, column, row]
        return spread


def warmth(mesh: Mesh, process: Process, distance_um: float) -> Warmth:
    """The crosstalk of a mesh's heaters by the pitches of the cards, falling as 1 / distance."""
    frame, pitch = mzi_frame(process), float(process.floorplan.mode_pitch_um)
    columns = int(mesh.column.max()) + 2
    shape = 2 * columns, 2 * mesh.modes
    along = np.fft.fftfreq(shape[0], 1.0 / shape[0])[:, np.newaxis] * frame.end
    across = np.fft.fftfreq(shape[1], 1.0 / shape[1]) * pitch
    place = 0.0, frame.theta - frame.phi
    kernel = []
    for to in place:
        apart = [np.hypot(along + to - since, across) for since in place]
        kernel.append([np.fft.rfft2(distance_um / np.where(d > 0.0, d, np.inf)) for d in apart])
    return Warmth(mesh, np.array(kernel), shape)


def own_phases(warm: Warmth, phase: Floats, share: float) -> Floats:
    """What heaters have to make themselves, as :func:`optinc_pdk.drive.program` finds it with a matrix.

    Args:
        warm: Their crosstalk.
        phase: (heaters,) phases wanted in the guides in rad, up to whole turns.
        share: Share of a heater's phase in a guide at the card's distance.

    Returns:
        (heaters,) phases in rad, 0 or more.

    Raises:
        InputError: Crosstalk is too large for any.
    """
    from scipy.sparse.linalg import LinearOperator, cg

    def spread(own: Floats) -> Floats:
        return np.asarray(own + share * warm.others(own))

    operator: Any = LinearOperator((phase.size,) * 2, matvec=spread, dtype=np.float64)
    wanted, own = phase.copy(), phase / 2.0
    for _ in range(ROUNDS):
        own, failed = cg(operator, wanted, x0=own, rtol=1e-9, maxiter=400)
        if failed:
            break
        cold = own < -1e-6
        if not np.any(cold):
            return np.asarray(np.maximum(own, 0.0))
        wanted[cold] += TWO_PI
    raise InputError(
        f"no powers for {phase.size} heaters of a mesh of {warm.mesh.modes} modes after {ROUNDS} rounds: crosstalk of "
        f"{share:.3g} leaves some below 0; the card's share must be smaller, or heaters further apart"
    )


def driven(process: Process, own: Floats, bits: float | None) -> Floats:
    """Phases of heaters at the nearest codes of a drive from 0 V; heaters hang on it without a wire's resistance.

    Args:
        process: Heater, full scale.
        own: (heaters,) wanted phases in rad, 0 or more.
        bits: Effective bits, 8.5 for instance: steps of full scale / (2^bits - 1). None for no rounding.

    Raises:
        RangeError: A phase above that of full scale.
    """
    heater, full_v = process.device("phase_shifter"), float(process.drive.full_scale_v)
    squares = heater.size("length_um") / heater.size("heater_width_um")
    resistance = heater.parameter("sheet_ohm") * squares
    full = np.pi * full_v**2 / resistance / heater.parameter("power_pi_w")
    if np.max(own) > full:
        raise RangeError(f"a heater needs {np.max(own):.4g} rad, {full_v:.4g} V make {full:.4g}; raise full_scale_v")
    if bits is None:
        return own
    steps = 2.0**bits - 1.0
    return np.asarray(full * (np.rint(np.sqrt(own / full) * steps) / steps) ** 2)
