"""What a solved chip does: detection coefficients of every layer, their errors and exact derivatives.

A neuron's detectors see D = |p|² - ρ |n|² with p = p_c + Σ_j p_j a_j: carrier and signals. Constants go into
the offset, ρ cancels what is quadratic in the signals (exactly so without reflections, for both come out of
one mixer), and what is left is linear: D = const + Σ_j R_j a_j, R_j = 2 Re(p_c* p_j - ρ n_c* n_j). A receiver
sees |Σ_j y_j a_j|, so a common phase of its y_j is free.

Where several blocks have a part in a neuron, each has a pair of detectors, and D is the sum over the pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.circuit import Board
from optinc_pdk.simulate.scatter import Solution
from optinc_pdk.simulate.target import Target

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Light:
    """A solved chip lit by all its sources: carrier and modulators.

    Attributes:
        solution: The solved chip.
        column: Labels of a source to its column; 0 is the carrier.
        s: (labels, sources) fields at all labels.
        near: (H, 2, sources) fields at the heaters.
        waves: (ports, sources) fields at all ports.
    """

    solution: Solution
    column: dict[tuple[str, ...], int]
    s: Complexes
    near: Complexes
    waves: Complexes

    def sources(self, target: Target) -> NDArray[np.int64]:
        """Columns of the carrier and of a layer's inputs."""
        return np.array([0, *(self.column[names] for names in target.inputs)], dtype=np.int64)

    def to(self, detectors: tuple[str, ...], target: Target) -> tuple[Complexes, Complexes]:
        """S to some detectors from the carrier, (detectors,), and from a layer's inputs, (detectors, J)."""
        rows = self.solution.structure.fibres(detectors)
        s = self.s[np.ix_(rows, self.sources(target))]
        return s[:, 0], s[:, 1:]


@dataclass(frozen=True, eq=False)
class Linear:
    """One layer's effect on its detectors, to first order in its signals.

    Attributes:
        coefficient: (rows, J) real R for neurons, complex y for receivers.
        balance: (rows,) ρ of the neurons.
        constant: (rows,) what the detectors see without signals.
    """

    coefficient: Complexes | Floats
    balance: Floats
    constant: Floats


def look(solution: Solution, board: Board, found: tuple[Target, ...]) -> Light:
    """Solve for the light of every source: of all the carrier's fibres at once, then of each input."""
    sources = [board.steady, *(names for target in found for names in target.inputs)]
    flat = [label for names in sources for label in names]
    fields = solution.fields(flat)
    strength = solution.strength(flat, fields[:, : len(board.steady)].sum(axis=1))
    if strength is not None:
        fields *= strength
    if len(flat) > len(sources):
        starts = np.cumsum([0, *(len(names) for names in sources[:-1])])
        fields = np.add.reduceat(fields, starts, axis=1)
    column = {names: i for i, names in enumerate(sources)}
    return Light(solution, column, solution.s(fields), solution.at_heaters(fields), fields)


def linear(light: Light, target: Target, balance: Floats | None = None) -> Linear:
    """A layer's detection coefficients.

    Args:
        light: The solved chip.
        target: The layer.
        balance: (rows,) ρ of the neurons; by least squares of the quadratic terms where left out.
    """
    p_c, p = light.to(target.plus, target)
    if target.last:
        return Linear(p, np.zeros(p_c.size), np.zeros(p_c.size))
    n_c, n = light.to(target.minus, target)
    rho = _balance(p, n, target) if balance is None else balance
    part = rho[target.owner]
    mixed = p_c.conj()[:, np.newaxis] * p - (part * n_c.conj())[:, np.newaxis] * n
    constant = np.abs(p_c) ** 2 - part * np.abs(n_c) ** 2
    return Linear(target.by_row(2.0 * mixed.real), rho, target.by_row(constant))


def _balance(p: Complexes, n: Complexes, target: Target) -> Floats:
    """min over ρ of |Re(p* p) - ρ Re(n* n)|, Frobenius, for each row's matrices of quadratic terms."""
    shared = np.abs(np.einsum("kj,kj->k", p, n.conj())) ** 2 + np.abs(np.einsum("kj,kj->k", p, n)) ** 2
    square = np.einsum("kj,kj->k", n, n.conj()).real ** 2 + np.abs(np.einsum("kj,kj->k", n, n)) ** 2
    balance: Floats = target.by_row(shared) / target.by_row(square)
    return balance


def row_scales(coefficient: Complexes | Floats, target: Target) -> Complexes | Floats:
    """(rows,) factor c in coefficient ≈ c · weight; rows without weights get the others' mean size."""
    weight = _rows(target)
    power = (weight**2).sum(axis=1)
    products = (coefficient * weight).sum(axis=1)
    empty = power == 0.0
    scales: Complexes | Floats = products / np.where(empty, 1.0, power)
    scales[empty] = np.abs(scales[~empty]).mean()
    return scales


def residual(coefficient: Complexes | Floats, target: Target) -> Floats:
    """Matrix error in units of the weight's 2-norm, free factors of the rows taken out; (rows, J) or (rows, 2
    J).

    Receivers' errors are complex, real parts first.
    """
    scales = row_scales(coefficient, target)
    error = coefficient / scales[:, np.newaxis] - _rows(target)
    error = np.where(target.lit, error, 0.0) / np.linalg.norm(target.mesh_weight, 2)
    return _real(error)


def jacobian(light: Light, target: Target, heaters: NDArray[np.int64]) -> Floats:
    """d residual / d phase at fixed balance, (residuals, heaters).

    With c = <R, W> / |W|² per row, d(R/c) = (dR - R/c · <dR, W> / |W|²) / c.
    """
    seen = linear(light, target)
    scales = row_scales(seen.coefficient, target)[:, np.newaxis]
    slope = _slopes(light, target, seen.balance, heaters)
    weight = _rows(target)
    power = (weight**2).sum(axis=1)
    along = np.einsum("hkj,kj->hk", slope, weight) / np.where(power == 0.0, 1.0, power)
    slope = (slope - along[..., np.newaxis] * (seen.coefficient / scales)) / scales
    slope = np.where(target.lit, slope, 0.0) / np.linalg.norm(target.mesh_weight, 2)
    return _real(slope).reshape(heaters.size, -1).T


def quadrature(light: Light, target: Target) -> Floats:
    """What neurons do not see: signals a quarter turn from their oscillator, (pieces, J), in units of the residual.

    It costs nothing but light, until phases scatter: then it is what the noise of a lock comes from.
    """
    p_c, p = light.to(target.plus, target)
    n_c, n = light.to(target.minus, target)
    part = _balance(p, n, target)[target.owner, np.newaxis]
    mixed = p_c.conj()[:, np.newaxis] * p - part * n_c.conj()[:, np.newaxis] * n
    return _unseen(light, target, mixed)


def quadrature_jacobian(light: Light, target: Target, heaters: NDArray[np.int64]) -> Floats:
    """d quadrature / d phase at fixed balance and scale, (pieces J, heaters)."""
    change = _changes(light, target, linear(light, target).balance, heaters)
    return _unseen(light, target, change).reshape(heaters.size, -1).T


def _unseen(light: Light, target: Target, mixed: Complexes) -> Floats:
    """Imaginary parts of (..., pieces, J) mixed signals, over what the rows' weights are multiplied by."""
    scales = np.real(row_scales(linear(light, target).coefficient, target))[target.owner, np.newaxis]
    return np.asarray(np.where(target.lit, 2.0 * mixed.imag / scales, 0.0) / np.linalg.norm(target.mesh_weight, 2))


def _slopes(light: Light, target: Target, balance: Floats, heaters: NDArray[np.int64]) -> Complexes | Floats:
    """d coefficient / d phase, (heaters, rows, J)."""
    if target.last:
        return _through(light, target, heaters, target.plus)[..., 1:]
    slopes: Floats = target.by_row(2.0 * _changes(light, target, balance, heaters).real, axis=1)
    return slopes


def _changes(light: Light, target: Target, balance: Floats, heaters: NDArray[np.int64]) -> Complexes:
    """d mixed / d phase, (heaters, pieces, J)."""

    def mixed(detectors: tuple[str, ...]) -> Complexes:
        s_c, s = light.to(detectors, target)
        d = _through(light, target, heaters, detectors)
        return np.asarray(d[..., :1].conj() * s + s_c.conj()[:, np.newaxis] * d[..., 1:])

    return mixed(target.plus) - balance[target.owner, np.newaxis] * mixed(target.minus)


def _through(light: Light, target: Target, heaters: NDArray[np.int64], detectors: tuple[str, ...]) -> Complexes:
    """d field / d phase, (heaters, detectors, 1 + J), of the carrier and of a layer's inputs."""
    solution = light.solution
    out = solution.at_heaters(solution.fields(detectors))[heaters]
    return solution.derivative(out, light.near[heaters][:, :, light.sources(target)], heaters)


def _rows(target: Target) -> Floats:
    """(rows, J) weights, once per server for receivers."""
    return np.tile(target.weight, (len(target.plus) // target.weight.shape[0], 1)) if target.last else target.weight


def _real(values: Complexes | Floats) -> Floats:
    if np.iscomplexobj(values):
        return np.concatenate([values.real, values.imag], axis=-1)
    return np.asarray(values, dtype=np.float64)
