"""Thermal crosstalk of chips with tens of thousands of heaters, in time and memory linear in their number.

The crosstalk of :class:`optinc_pdk.drive.DistanceCrosstalk`, a / r with a = share · distance, is split as in Ewald's
summation::

    a / r = a erfc(r / s) / r + a erf(r / s) / r

The first term is negligible beyond REACH · s and becomes a sparse matrix. The second one is smooth: phases are
distributed to the nodes of a grid by Lagrange interpolation, convolved with it by FFT, and interpolated back
(particle-particle particle-mesh; Hockney and Eastwood, Computer Simulation Using Particles, 1988, chapter 8).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.drive.crosstalk import DistanceCrosstalk

ORDER = 8
"""Nodes per axis of the interpolation."""
NODES_PER_WIDTH = 4.0
"""Grid nodes within the width s of the split."""
REACH = 4.4
"""Distance over s beyond which the short-range term is left out; it is at most erfc(4.4) = 5e-10 of the whole there."""
NEIGHBOURS = 100.0
"""Average number of heaters within that distance, which sets s."""
ERROR_BOUND = 5e-6
"""Largest error of a guide's phase over the largest phase of a heater, for a share of 0.03 at 25 µm."""


@dataclass(frozen=True, eq=False)
class GridCrosstalk:
    """Crosstalk as of :class:`optinc_pdk.drive.DistanceCrosstalk`, for many heaters.

    Results differ from the direct sums by at most ``ERROR_BOUND`` of the largest phase.

    Attributes:
        direct: The same crosstalk as direct sums.
    """

    direct: DistanceCrosstalk

    @property
    def heaters(self) -> int:
        """Number of heaters."""
        return self.direct.heaters

    @property
    def strength(self) -> str:
        """Description of fraction and distance, for messages."""
        return self.direct.strength

    @property
    def matrix(self) -> Floats:
        """(H, H) matrix of the direct sums; its memory grows as the square of the number of heaters."""
        return self.direct.matrix

    def apply(self, own_rad: Floats) -> Floats:
        """Return the total phases of the guides.

        Args:
            own_rad: (H,) phases that heaters produce in their own guides, in rad.

        Returns:
            (H,) phases X @ ``own_rad`` in rad.
        """
        from scipy.fft import irfft2, rfft2

        grid, spectrum = self._grid, self._spectrum
        nodes = (grid.weights.T @ own_rad).reshape(grid.shape)
        field = irfft2(rfft2(nodes, s=grid.padded) * spectrum, s=grid.padded)[: grid.shape[0], : grid.shape[1]]
        far = grid.weights @ field.reshape(-1) - grid.at_zero * own_rad
        return np.asarray(own_rad + self._near @ own_rad + far)

    @property
    def _amplitude_um(self) -> float:
        return self.direct.share * self.direct.distance_um

    @cached_property
    def _grid(self) -> _Grid:
        position = self.direct.position_um
        extent = np.ptp(position, axis=0)
        # heaters spread over an area, or along a line
        area = float(np.sqrt(NEIGHBOURS * extent.prod() / self.heaters / np.pi))
        line = float(extent.max()) * NEIGHBOURS / (2 * self.heaters)
        width = max(area, line, 1e-3) / REACH
        return _grid(position, width, self._amplitude_um)

    @cached_property
    def _spectrum(self) -> Complexes:
        from scipy.fft import rfft2

        grid = self._grid
        axes = [np.minimum(np.arange(size), size - np.arange(size)) * grid.step for size in grid.padded]
        distance = np.hypot(axes[0][:, np.newaxis], axes[1])
        return np.asarray(rfft2(self._amplitude_um * _smooth(distance, grid.width)))

    @cached_property
    def _near(self) -> Any:
        """Sparse (H, H) matrix of crosstalk minus its smooth part, within the reach."""
        from scipy.sparse import csr_array
        from scipy.spatial import cKDTree

        grid, position = self._grid, self.direct.position_um
        pairs = cKDTree(position).query_pairs(REACH * grid.width, output_type="ndarray")
        distance = np.hypot(*(position[pairs[:, 0]] - position[pairs[:, 1]]).T)
        share = np.minimum(self._amplitude_um / distance, 1.0)
        share -= self._amplitude_um * _smooth(distance, grid.width)
        upper = csr_array((share, (pairs[:, 0], pairs[:, 1])), shape=(self.heaters, self.heaters))
        return csr_array(upper + upper.T)


@dataclass(frozen=True, eq=False)
class _Grid:
    """Nodes at a constant step, and the sparse (H, nodes) weights of the interpolation."""

    width: float
    step: float
    shape: tuple[int, int]
    padded: tuple[int, int]
    weights: Any
    at_zero: Floats


def _smooth(distance: Floats, width: float) -> Floats:
    """erf(r / s) / r; at r = 0 its limit 2 / (s √π)."""
    from scipy.special import erf

    limit = 2.0 / (width * np.sqrt(np.pi))
    safe = np.where(distance > 0.0, distance, 1.0)
    return np.asarray(np.where(distance > 0.0, erf(distance / width) / safe, limit))


def _grid(position: Floats, width: float, amplitude_um: float) -> _Grid:
    from scipy.fft import next_fast_len
    from scipy.sparse import csr_array

    step = width / NODES_PER_WIDTH
    place = (position - position.min(axis=0)) / step
    first = np.floor(place).astype(np.int64)
    shape = tuple((first.max(axis=0) + ORDER).tolist())
    across, along = (_lagrange(place[:, axis] - first[:, axis]) for axis in (0, 1))
    offset = np.arange(ORDER)
    row, column = (first[:, axis, np.newaxis] + offset for axis in (0, 1))
    node = row[:, :, np.newaxis] * shape[1] + column[:, np.newaxis]
    weight = across[:, :, np.newaxis] * along[:, np.newaxis]
    rows = np.repeat(np.arange(len(position)), ORDER**2)
    size = (len(position), shape[0] * shape[1])
    weights = csr_array((weight.reshape(-1), (rows, node.reshape(-1))), shape=size)
    padded = tuple(next_fast_len(2 * size, real=True) for size in shape)
    distance = step * np.hypot(*np.meshgrid(offset, offset, indexing="ij"))
    lag = np.abs(offset[:, np.newaxis] - offset)
    kernel = amplitude_um * _smooth(distance, width)[lag[:, np.newaxis, :, np.newaxis], lag[np.newaxis, :, np.newaxis]]
    flat = weight.reshape(len(position), -1)
    at_zero = np.einsum("hi,hi->h", flat @ kernel.reshape(ORDER**2, ORDER**2), flat)
    return _Grid(width, step, (shape[0], shape[1]), (padded[0], padded[1]), weights, at_zero)


def _lagrange(fraction: Floats) -> Floats:
    """(H, ORDER) Lagrange weights; the point lies in the middle interval of ORDER equidistant nodes."""
    node = np.arange(ORDER)
    at = fraction[:, np.newaxis] + (ORDER // 2 - 1)
    weights = np.ones((fraction.size, ORDER))
    for other in range(ORDER):
        factor = np.where(node == other, 1.0, (at - other) / np.where(node == other, 1, node - other))
        weights *= factor
    return weights
