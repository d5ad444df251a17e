"""Thermal crosstalk between heaters, and the heater phases that compensate it.

Of the phase that heater j produces in its own guide, the share X[i, j] appears in guide i (X[i, i] = 1), so that guides
get the phases X @ own. An operator applies X; :func:`compensate` solves for own phases, which cannot be negative.

Chips with tens of thousands of heaters take time and memory linear in their number: their crosstalk, a / r with
a = share · distance, is split as in Ewald's summation::

    a / r = a erfc(r / s) / r + a erf(r / s) / r

The first term is negligible beyond REACH · s and becomes a sparse matrix. The second one is smooth: phases are
distributed to the nodes of a grid by Lagrange interpolation, convolved with it by FFT, and interpolated back
(particle-particle particle-mesh; Hockney and Eastwood, Computer Simulation Using Particles, 1988, chapter 8).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.drive._heaters import RangeError, as_real

BLOCK = 1 << 14
"""Pairs of heaters whose shares are calculated at a time: 128 kB, which fits the caches."""
STORED = 1 << 23
"""Pairs of heaters up to which shares are calculated once and kept, in 32 MB; above, once for every product."""
ROUNDS = 2000
"""Rounds of the solution, each of at most one product. 16,000 heaters in rows of 128 take some 300 products."""
DIRECTIONS = 300
"""Directions kept for the solution: 77 MB for 16,000 heaters."""
NEGLIGIBLE_RAD = 1e-9
"""Error of the solution; a heater phase that is negative by less is zero."""
_ROUNDING = 1e-12


class CrosstalkOperator(Protocol):
    """Linear map X from the phases of H heaters in their own guides to the total phases of the guides.

    Entry X[i, j] is the fraction of heater j's own phase that appears in guide i, and X[i, i] = 1.
    """

    @property
    def heaters(self) -> int:
        """Number of heaters H."""

    @property
    def strength(self) -> str:
        """Description of the crosstalk's strength, for messages."""

    def apply(self, own_rad: Floats) -> Floats:
        """Return the total phases X @ ``own_rad`` (H,) of the guides, in rad, for own phases (H,) of the heaters."""


@dataclass(frozen=True, eq=False)
class DenseCrosstalk:
    """Crosstalk given as a measured or modelled matrix, which need not be symmetric.

    Attributes:
        matrix: (H, H) matrix X: row i, column j is the fraction of heater j's own phase that appears in guide i.
            Entries are 0 or more, and 1 on the diagonal.

    Raises:
        ValueError: The matrix is not square or not real, or an entry is out of range.
    """

    matrix: Floats

    def __post_init__(self) -> None:
        """Check shape and values."""
        matrix = np.asarray(self.matrix)
        if matrix.dtype.kind not in "iuf":
            raise ValueError(f"crosstalk has dtype {matrix.dtype}; give real numbers")
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"crosstalk has shape {matrix.shape}; give (H, H), one row per heater")
        bad = np.argwhere(~((matrix >= 0.0) & (matrix < np.inf)))
        if bad.size:
            row, column = bad[0]
            raise ValueError(f"crosstalk[{row}, {column}] is {matrix[row, column]}; give a share of 0 or more")
        if not np.all(np.abs(np.diagonal(matrix) - 1.0) <= _ROUNDING):
            raise ValueError("the diagonal of crosstalk is not 1; shares are relative to each heater's own phase")
        object.__setattr__(self, "matrix", matrix.astype(np.float64))

    @property
    def heaters(self) -> int:
        """Number of heaters."""
        return len(self.matrix)

    @property
    def strength(self) -> str:
        """Description of the largest off-diagonal entry, for messages."""
        largest = np.max(self.matrix - np.eye(self.heaters), initial=0.0)
        return f"a share of up to {largest:.3g} in neighbouring guides"

    def apply(self, own_rad: Floats) -> Floats:
        """Return the total phases X @ ``own_rad`` (H,) of the guides, in rad."""
        return np.asarray(self.matrix @ own_rad)


@dataclass(frozen=True, eq=False)
class DistanceCrosstalk:
    """Crosstalk that falls as 1 / distance: X[i, j] = min(share · distance_um / |r_i − r_j|, 1).

    The full matrix is formed only by :attr:`matrix`, because chips may have tens of thousands of heaters.

    Attributes:
        position_um: (H, 2) centres r of the heaters in µm.
        share: Fraction of a heater's own phase that appears in a guide at distance ``distance_um``, in [0, 1).
        distance_um: Distance for which ``share`` is given, in µm.

    Raises:
        ValueError: Positions have a wrong shape, are not finite or coincide, or a number is out of range.
    """

    position_um: Floats
    share: float
    distance_um: float

    def __post_init__(self) -> None:
        """Check shape and values."""
        position = as_real("position_um", self.position_um)
        if position.ndim != 2 or position.shape[1] != 2:
            raise ValueError(f"position_um has shape {position.shape}; give (H, 2)")
        if not np.all(np.isfinite(position)):
            raise ValueError(f"position_um holds {position[~np.isfinite(position)][0]}; give finite numbers")
        if not 0.0 <= self.share < 1.0:
            raise ValueError(f"share is {self.share}; give a share of a heater's phase, 0 to less than 1")
        if not 0.0 < self.distance_um < np.inf:
            raise ValueError(f"distance_um is {self.distance_um}; give a positive, finite distance")
        order = np.lexsort(position.T)
        equal = np.flatnonzero(np.all(position[order[1:]] == position[order[:-1]], axis=1))
        if equal.size:
            first, second = sorted(order[equal[0] : equal[0] + 2].tolist())
            raise ValueError(f"position_um of heaters {first} and {second} are equal; move one of them")
        object.__setattr__(self, "position_um", position)

    @property
    def heaters(self) -> int:
        """Number of heaters."""
        return len(self.position_um)

    @property
    def strength(self) -> str:
        """Description of fraction and distance, for messages."""
        return f"a share of {self.share:.3g} at {self.distance_um:g} µm"

    @property
    def matrix(self) -> Floats:
        """(H, H) full matrix X with 1 on the diagonal. Its size limits it to chips of a few thousand heaters."""
        distance = np.hypot(*(self.position_um[:, np.newaxis] - self.position_um).transpose(2, 0, 1))
        np.fill_diagonal(distance, np.inf)
        matrix = np.minimum(self.share * self.distance_um / distance, 1.0)
        np.fill_diagonal(matrix, 1.0)
        return np.asarray(matrix)

    def apply(self, own_rad: Floats) -> Floats:
        """Return the total phases X @ ``own_rad`` (H,) of the guides, in rad."""
        guide = own_rad.copy()
        blocks = self._stored if self.heaters**2 <= STORED else self._blocks()
        for rows, shares in blocks:
            after = slice(rows.start + shares.shape[0], None)
            guide[rows] += shares @ own_rad[rows.start :]
            # X is symmetric: the columns right of the block's square are rows below it
            guide[after] += own_rad[rows] @ shares[:, shares.shape[0] :]
        return guide

    @cached_property
    def _stored(self) -> list[tuple[slice, Floats]]:
        return list(self._blocks())

    def _blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Rows of the upper triangle of X - 1, some at a time: their numbers, and (rows, H - first row) shares."""
        from scipy.spatial.distance import cdist

        heaters, start = self.heaters, 0
        while start < heaters:
            rows = slice(start, min(start + max(1, BLOCK // (heaters - start)), heaters))
            distance = cdist(self.position_um[rows], self.position_um[start:])
            np.fill_diagonal(distance, np.inf)
            shares = np.divide(self.share * self.distance_um, distance, out=distance)
            yield rows, np.minimum(shares, 1.0, out=shares)
            start = rows.stop


def compensate(operator: CrosstalkOperator, target_rad: ArrayLike) -> Floats:
    """Return the heater phases (H,) in rad that give guides their target phases (H,) despite crosstalk.

    They satisfy X own = target mod 2π, own ≥ 0, as heaters cannot cool. Where other heaters heat a guide by more than
    its target phase, a full turn 2π is added to the target. If the off-diagonal entries of X⁻¹ are not positive, as
    they are for crosstalk that falls with distance, a turn added for one heater only lowers the phases of the others,
    so the number of added turns is minimal.

    The solver is GCR (Eisenstat, Elman and Schultz, SIAM J. Numer. Anal. 20, 345 (1983)), which needs products with X
    only and no symmetry. X stays the same when turns are added, so the directions found before serve the new target.

    Raises:
        ValueError: The target has a wrong shape, or contains values that are not finite real numbers.
        RangeError: No solution is found: crosstalk is too strong, or the operator is singular.
    """
    turn = 2.0 * np.pi
    target = as_real("target_rad", target_rad)
    if target.shape != (operator.heaters,):
        raise ValueError(f"target_rad has shape {target.shape}; give {(operator.heaters,)}, one for each heater")
    if not np.all(np.isfinite(target)):
        raise ValueError(f"target_rad holds {target[~np.isfinite(target)][0]}; give finite phases")
    if target.size == 0:
        return target
    target -= turn * np.floor((target + NEGLIGIBLE_RAD) / turn)
    own, subspace = target.copy(), _Subspace(target.size)
    residual = target - operator.apply(own)
    for _ in range(ROUNDS):
        own += subspace.solve(residual)
        # rows of |X⁻¹| sum up to about 2
        error = max(2.0 * float(np.max(np.abs(residual))), NEGLIGIBLE_RAD)
        negative = own < -error
        if np.any(negative):
            target[negative] += turn
            residual[negative] += turn
        elif error > NEGLIGIBLE_RAD:
            if not subspace.extend(residual, operator.apply(residual)):
                break
        else:
            # rounding errors of the updated residual accumulate
            residual = target - operator.apply(own)
            if 2.0 * float(np.max(np.abs(residual))) <= NEGLIGIBLE_RAD:
                return np.asarray(np.maximum(own, 0.0))
    raise RangeError(
        f"no powers of {target.size} heaters give the target phases after {ROUNDS} rounds: thermal crosstalk with "
        f"{operator.strength} is too strong; place heaters further apart, or lower the share"
    )


class _Subspace:
    """Directions p and their products X p; the products are orthonormal. The oldest direction makes room for a new."""

    def __init__(self, heaters: int) -> None:
        self._count, self._taken = 0, 0
        self._directions = np.empty((16, heaters))
        self._products = np.empty((16, heaters))

    def solve(self, residual: Floats) -> Floats:
        """Return the step in the subspace that minimises the residual, and subtract its product from the residual."""
        direction, product = self._directions[: self._count], self._products[: self._count]
        share = product @ residual
        residual -= share @ product
        return np.asarray(share @ direction)

    def extend(self, direction: Floats, product: Floats) -> bool:
        """Add a direction; False if its product lies in the subspace already."""
        size = float(np.linalg.norm(product))
        directions, products = self._directions[: self._count], self._products[: self._count]
        # twice, because once loses orthogonality to rounding
        for _ in range(2):
            share = products @ product
            product = product - share @ products
            direction = direction - share @ directions
        norm = float(np.linalg.norm(product))
        if norm <= _ROUNDING * size:
            return False
        place = self._taken % DIRECTIONS
        if place == len(self._directions):
            more = (min(2 * place, DIRECTIONS) - place, direction.size)
            self._directions = np.concatenate([self._directions, np.empty(more)])
            self._products = np.concatenate([self._products, np.empty(more)])
        self._directions[place], self._products[place] = direction / norm, product / norm
        self._taken += 1
        self._count = min(self._taken, DIRECTIONS)
        return True


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
        """Return the total phases X @ ``own_rad`` (H,) of the guides, in rad."""
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
