"""Heaters of a block's mesh: thermal crosstalk as a convolution, and rounding of phases to DAC codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.cards import Process
from optinc_pdk.cells.interferometers import mzi_positions
from optinc_pdk.drive import RangeError
from optinc_pdk.factor import Mesh


def heater_sites(mesh: Mesh) -> tuple[Ints, Ints, Ints]:
    """Return the grid positions of the heaters of a mesh with output phases and attenuators.

    The heaters are in the order theta (one per MZI), phi (one per MZI), output phases and attenuators (one per mode
    each). Output phases and attenuators lie in one more column behind the mesh.

    Returns:
        Three arrays of shape (heaters,): site within the column (0 for phi and output phases, 1 for theta and
        attenuators), column, mode.
    """
    size = np.arange(mesh.modes)
    end = np.full(mesh.modes, int(mesh.column.max()) + 1)
    site = np.concatenate([np.ones_like(mesh.row), np.zeros_like(mesh.row), np.zeros_like(size), np.ones_like(size)])
    return site, np.concatenate([mesh.column, mesh.column, end, end]), np.concatenate([mesh.row, mesh.row, size, size])


@dataclass(frozen=True, eq=False)
class MeshCrosstalk:
    """Thermal crosstalk between the heaters of one block, which lie on a grid: a convolution by FFT.

    It is an operator for :func:`optinc_pdk.drive.compensate`. The order of the heaters is that of :func:`heater_sites`.

    Attributes:
        mesh: Mesh of the block. All its columns are assumed to lie in one row, although a layout may fold them.
        kernel: (2, 2, n, m // 2 + 1) spectra (``rfft2``) of distance_um / distance on the padded grid of shape (n, m),
            indexed [site of the waveguide, site of the heater], see :func:`heater_sites`.
        shape: Shape of the padded grid: twice the number of columns and twice the number of modes.
        share: Share of a heater's phase that appears in a waveguide at ``distance_um``.
        distance_um: Reference distance.
    """

    mesh: Mesh
    kernel: Complexes
    shape: tuple[int, int]
    share: float
    distance_um: float

    @property
    def heaters(self) -> int:
        """Number of heaters."""
        return 2 * self.mesh.row.size + 2 * self.mesh.modes

    @property
    def strength(self) -> str:
        """Share, distance and number of modes as text, for messages."""
        return f"a share of {self.share:.3g} at {self.distance_um:g} µm in a mesh of {self.mesh.modes} modes"

    def apply(self, own_rad: Floats) -> Floats:
        """Return the (heaters,) phases in the waveguides with thermal crosstalk.

        Args:
            own_rad: (heaters,) phases in rad that the heaters cause in their own waveguides.
        """
        site, column, row = heater_sites(self.mesh)
        grid = np.zeros((2, *self.shape))
        grid[site, column, row] = own_rad
        spectra = np.einsum("tfcr,fcr->tcr", self.kernel, np.fft.rfft2(grid))
        neighbours = np.fft.irfft2(spectra, s=self.shape)[site, column, row]
        return np.asarray(own_rad + self.share * neighbours)


def mesh_crosstalk(mesh: Mesh, process: Process, share: float, distance_um: float) -> MeshCrosstalk:
    """Build the crosstalk operator of a mesh's heaters; crosstalk falls as 1 / distance.

    Args:
        mesh: Mesh of the block.
        process: Process of the cards, for the length of an MZI and the pitch between modes.
        share: Share of a heater's phase that appears in a waveguide at ``distance_um``. Shares of nearer waveguides are
            larger and are not limited.
        distance_um: Reference distance.
    """
    frame, pitch = mzi_positions(process), float(process.floorplan.mode_pitch_um)
    columns = int(mesh.column.max()) + 2
    shape = 2 * columns, 2 * mesh.modes
    along = np.fft.fftfreq(shape[0], 1.0 / shape[0])[:, np.newaxis] * frame.end
    across = np.fft.fftfreq(shape[1], 1.0 / shape[1]) * pitch
    site = 0.0, frame.theta - frame.phi
    kernel = []
    for target in site:
        distances = [np.hypot(along + target - source, across) for source in site]
        kernel.append([np.fft.rfft2(distance_um / np.where(d > 0.0, d, np.inf)) for d in distances])
    return MeshCrosstalk(mesh, np.array(kernel), shape, share, distance_um)


def rounded_phases(process: Process, own_rad: Floats, bits: float | None) -> Floats:
    """Round heater phases to those at the nearest DAC codes, for heaters without wire resistance.

    Args:
        process: Process of the cards, for heater and full-scale voltage.
        own_rad: (heaters,) phases in rad, not negative.
        bits: Effective bits, for instance 8.5: voltage steps of full scale / (2^bits - 1). None for no rounding.

    Returns:
        (heaters,) phases in rad.

    Raises:
        RangeError: A phase needs a voltage above full scale.
    """
    heater, full_v = process.device("phase_shifter"), float(process.drive.full_scale_v)
    squares = heater.size("length_um") / heater.size("heater_width_um")
    resistance = heater.parameter("sheet_ohm") * squares
    full = np.pi * full_v**2 / resistance / heater.parameter("power_pi_w")
    if np.max(own_rad) > full:
        raise RangeError(
            f"a heater needs {np.max(own_rad):.4g} rad; {full_v:.4g} V produce {full:.4g} rad: raise full_scale_v"
        )
    if bits is None:
        return own_rad
    steps = 2.0**bits - 1.0
    return np.asarray(full * (np.rint(np.sqrt(own_rad / full) * steps) / steps) ** 2)
