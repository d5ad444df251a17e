"""Detection coefficients of every layer of a solved chip, their errors and exact derivatives.

A neuron's detectors read D = |p|² - ρ |n|² with p = p_c + Σ_j p_j a_j: carrier and signals. Constants go into
the offset, and ρ cancels the terms quadratic in the signals (exactly without reflections, because both detectors
belong to one mixer). The rest is linear: D = const + Σ_j R_j a_j, R_j = 2 Re(p_c* p_j - ρ n_c* n_j). A receiver
reads |Σ_j y_j a_j|, so that a common phase of its y_j is free.

Where several blocks contribute to a neuron, each has a pair of detectors, and D is the sum over the pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.circuit import Board
from optinc_pdk.simulate.programming.targets import LayerTarget
from optinc_pdk.simulate.s_parameters.sparse_solver import FieldSolution

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SourceFields:
    """Fields in a solved chip for light of unit amplitude from each source in turn.

    Source 0 is the carrier, that is, all carrier fibres together. The other sources are the inputs of layers.

    Attributes:
        solution: The chip at one wavelength and one set of phases.
        column: Number of each source, by its labels.
        s: (labels, sources) fields at all labels.
        near: (H, 2, sources) fields at both ports of each heater.
        waves: (ports, sources) fields at all ports.
    """

    solution: FieldSolution
    column: dict[tuple[str, ...], int]
    s: Complexes
    near: Complexes
    waves: Complexes

    def sources(self, target: LayerTarget) -> NDArray[np.int64]:
        """Return (1 + J,) the source numbers of the carrier and of the J inputs of a layer."""
        return np.array([0, *(self.column[names] for names in target.inputs)], dtype=np.int64)

    def at_detectors(self, detectors: tuple[str, ...], target: LayerTarget) -> tuple[Complexes, Complexes]:
        """Return the fields at some detectors.

        Args:
            detectors: Labels of D detectors.
            target: Layer with J inputs.

        Returns:
            (D,) fields from the carrier, and (D, J) fields from the layer's inputs.
        """
        rows = self.solution.structure.label_positions(detectors)
        s = self.s[np.ix_(rows, self.sources(target))]
        return s[:, 0], s[:, 1:]


@dataclass(frozen=True, eq=False)
class LinearResponse:
    """Detection coefficients of one layer: readings of its detectors to first order in its J input amplitudes.

    Attributes:
        coefficient: (rows, J) real coefficients R for neurons, complex fields y for receivers.
        balance: (rows,) balance ρ of the neurons, the weight of the negative detector; 0 for receivers.
        constant: (rows,) reading without input light; 0 for receivers.
    """

    coefficient: Complexes | Floats
    balance: Floats
    constant: Floats


def source_fields(solution: FieldSolution, board: Board, found: tuple[LayerTarget, ...]) -> SourceFields:
    """Solve for the fields of every source: all carrier fibres together, then each input.

    Args:
        solution: The chip at one wavelength and one set of phases.
        board: Labels of the carrier's fibres.
        found: Targets of the layers whose inputs are included.
    """
    sources = [board.unmodulated, *(names for target in found for names in target.inputs)]
    flat = [label for names in sources for label in names]
    fields = solution.fields(flat)
    strength = solution.strength(flat, fields[:, : len(board.unmodulated)].sum(axis=1))
    if strength is not None:
        fields *= strength
    if len(flat) > len(sources):
        starts = np.cumsum([0, *(len(names) for names in sources[:-1])])
        fields = np.add.reduceat(fields, starts, axis=1)
    column = {names: i for i, names in enumerate(sources)}
    return SourceFields(solution, column, solution.s(fields), solution.at_heaters(fields), fields)


def linear_response(light: SourceFields, target: LayerTarget, balance: Floats | None = None) -> LinearResponse:
    """Compute the detection coefficients of a layer; see the module's description for the formulas.

    Args:
        light: Fields in the solved chip.
        target: The layer.
        balance: (rows,) balance ρ of the neurons; None for the ρ that minimises the terms quadratic in the inputs.
    """
    p_c, p = light.at_detectors(target.plus, target)
    if target.last:
        return LinearResponse(p, np.zeros(p_c.size), np.zeros(p_c.size))
    n_c, n = light.at_detectors(target.minus, target)
    rho = _balance(p, n, target) if balance is None else balance
    part = rho[target.owner]
    mixed = p_c.conj()[:, np.newaxis] * p - (part * n_c.conj())[:, np.newaxis] * n
    constant = np.abs(p_c) ** 2 - part * np.abs(n_c) ** 2
    return LinearResponse(target.by_row(2.0 * mixed.real), rho, target.by_row(constant))


def _balance(p: Complexes, n: Complexes, target: LayerTarget) -> Floats:
    """ρ that minimises |Re(p* p) - ρ Re(n* n)|, Frobenius, of each row's quadratic terms."""
    shared = np.abs(np.einsum("kj,kj->k", p, n.conj())) ** 2 + np.abs(np.einsum("kj,kj->k", p, n)) ** 2
    square = np.einsum("kj,kj->k", n, n.conj()).real ** 2 + np.abs(np.einsum("kj,kj->k", n, n)) ** 2
    balance: Floats = target.by_row(shared) / target.by_row(square)
    return balance


def row_scales(coefficient: Complexes | Floats, target: LayerTarget) -> Complexes | Floats:
    """Fit the factor c of each row in coefficient ≈ c · weight, by least squares.

    Args:
        coefficient: (rows, J) detection coefficients.
        target: The layer with its target weights.

    Returns:
        (rows,) factors, complex for receivers; a row whose weights are all 0 gets the mean magnitude of the others.
    """
    weight = _rows(target)
    power = (weight**2).sum(axis=1)
    products = (coefficient * weight).sum(axis=1)
    empty = power == 0.0
    scales: Complexes | Floats = products / np.where(empty, 1.0, power)
    scales[empty] = np.abs(scales[~empty]).mean()
    return scales


def residual(coefficient: Complexes | Floats, target: LayerTarget) -> Floats:
    """Compute the relative matrix error coefficient / c - weight, over the 2-norm of the target matrix.

    The factor c of each row is free, because gains and scales of the electronics provide it; see :func:`row_scales`.
    Errors of inputs that are never on are 0.

    Args:
        coefficient: (rows, J) detection coefficients.
        target: The layer with its target weights.

    Returns:
        (rows, J) for neurons; (rows, 2 J) for receivers, real parts first.
    """
    scales = row_scales(coefficient, target)
    error = coefficient / scales[:, np.newaxis] - _rows(target)
    error = np.where(target.illuminated, error, 0.0) / np.linalg.norm(target.mesh_weight, 2)
    return _real(error)


def jacobian(light: SourceFields, target: LayerTarget, heaters: NDArray[np.int64]) -> Floats:
    """Compute the derivative of :func:`residual` with respect to heater phases, at fixed balance.

    With R the coefficients and W the weights of a row, c = <R, W> / |W|² and d(R/c) = (dR - R/c · <dR, W> / |W|²) / c.

    Args:
        light: Fields in the solved chip.
        target: The layer.
        heaters: (h,) heater numbers.

    Returns:
        (residual entries, h) derivatives in 1/rad.
    """
    seen = linear_response(light, target)
    scales = row_scales(seen.coefficient, target)[:, np.newaxis]
    slope = _slopes(light, target, seen.balance, heaters)
    weight = _rows(target)
    power = (weight**2).sum(axis=1)
    along = np.einsum("hkj,kj->hk", slope, weight) / np.where(power == 0.0, 1.0, power)
    slope = (slope - along[..., np.newaxis] * (seen.coefficient / scales)) / scales
    slope = np.where(target.illuminated, slope, 0.0) / np.linalg.norm(target.mesh_weight, 2)
    return _real(slope).reshape(heaters.size, -1).T


def quadrature(light: SourceFields, target: LayerTarget) -> Floats:
    """Compute the part of the signals that is in quadrature with the local oscillators, which neurons do not detect.

    As long as phases are exact, it only wastes light. With phase noise between the fibres it becomes detected noise.

    Args:
        light: Fields in the solved chip.
        target: A layer with neurons.

    Returns:
        (pieces, J) quadrature components, scaled as :func:`residual`.
    """
    p_c, p = light.at_detectors(target.plus, target)
    n_c, n = light.at_detectors(target.minus, target)
    part = _balance(p, n, target)[target.owner, np.newaxis]
    mixed = p_c.conj()[:, np.newaxis] * p - part * n_c.conj()[:, np.newaxis] * n
    return _quadrature(light, target, mixed)


def quadrature_jacobian(light: SourceFields, target: LayerTarget, heaters: NDArray[np.int64]) -> Floats:
    """Compute the derivative of :func:`quadrature` with respect to heater phases, at fixed balance and row scales.

    Args:
        light: Fields in the solved chip.
        target: A layer with neurons.
        heaters: (h,) heater numbers.

    Returns:
        (pieces · J, h) derivatives in 1/rad.
    """
    change = _changes(light, target, linear_response(light, target).balance, heaters)
    return _quadrature(light, target, change).reshape(heaters.size, -1).T


def _quadrature(light: SourceFields, target: LayerTarget, mixed: Complexes) -> Floats:
    """Imaginary parts of (..., pieces, J) mixed signals, over the rows' factors and the target's 2-norm."""
    scales = np.real(row_scales(linear_response(light, target).coefficient, target))[target.owner, np.newaxis]
    return np.asarray(
        np.where(target.illuminated, 2.0 * mixed.imag / scales, 0.0) / np.linalg.norm(target.mesh_weight, 2)
    )


def _slopes(
    light: SourceFields, target: LayerTarget, balance: Floats, heaters: NDArray[np.int64]
) -> Complexes | Floats:
    """d coefficient / d phase, (heaters, rows, J)."""
    if target.last:
        return _through(light, target, heaters, target.plus)[..., 1:]
    slopes: Floats = target.by_row(2.0 * _changes(light, target, balance, heaters).real, axis=1)
    return slopes


def _changes(light: SourceFields, target: LayerTarget, balance: Floats, heaters: NDArray[np.int64]) -> Complexes:
    """d mixed / d phase, (heaters, pieces, J)."""

    def mixed(detectors: tuple[str, ...]) -> Complexes:
        s_c, s = light.at_detectors(detectors, target)
        d = _through(light, target, heaters, detectors)
        return np.asarray(d[..., :1].conj() * s + s_c.conj()[:, np.newaxis] * d[..., 1:])

    return mixed(target.plus) - balance[target.owner, np.newaxis] * mixed(target.minus)


def _through(
    light: SourceFields, target: LayerTarget, heaters: NDArray[np.int64], detectors: tuple[str, ...]
) -> Complexes:
    """d field / d phase, (heaters, detectors, 1 + J), of the carrier and of a layer's inputs."""
    solution = light.solution
    out = solution.at_heaters(solution.fields(detectors))[heaters]
    return solution.derivative(out, light.near[heaters][:, :, light.sources(target)], heaters)


def _rows(target: LayerTarget) -> Floats:
    """(rows, J) weights, once per server for receivers."""
    return np.tile(target.weight, (len(target.plus) // target.weight.shape[0], 1)) if target.last else target.weight


def _real(values: Complexes | Floats) -> Floats:
    if np.iscomplexobj(values):
        return np.concatenate([values.real, values.imag], axis=-1)
    return np.asarray(values, dtype=np.float64)
