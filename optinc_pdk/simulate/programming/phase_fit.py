"""Levenberg–Marquardt fit of all layers' phases; the layers share each solution of the chip, each has its own step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import Process
from optinc_pdk.circuit import Board
from optinc_pdk.simulate.circuit_optics import CircuitOptics
from optinc_pdk.simulate.programming.detection_jacobian import (
    SourceFields,
    jacobian,
    linear_response,
    quadrature,
    quadrature_jacobian,
    residual,
    source_fields,
)
from optinc_pdk.simulate.programming.targets import LayerTarget
from optinc_pdk.simulate.s_parameters.sparse_solver import solve

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_ITERATIONS = 60
TOLERANCE = 1e-5
"""Rms matrix error over the 2-norm below which a layer is not fitted further; rounding to 16-bit codes alone causes
1e-5 to 1e-4."""
PATIENCE = 12
"""Iterations within which an error has to fall by a tenth; else the layer is not fitted further."""
MAX_STEP_RAD = 0.7
FIRST_DAMPING, LEAST_DAMPING = 1e-3, 1e-12


@dataclass(frozen=True, eq=False)
class ProgrammingProblem:
    """A chip, the targets of its layers, and the device models for the fit of its phases.

    Attributes:
        structure: Optics of the chip, with H heaters.
        board: Connections between its fibres outside the chip.
        targets: Targets of the layers.
        wavelength_nm: Wavelength of the carrier in nm.
        process: Process of the cards.
        devices: By component name, (I, p, p) S-parameters of the I instances, which replace those of the card; None for
            the card's.
        guides: (ports,) field transmissions of the guides, which replace those of the card; None for the card's.
        fixed_channels: Pad labels of heaters whose phases are not fitted.
        quadrature_weight: Weight of the signals in quadrature with their local oscillators, relative to matrix errors.
    """

    structure: CircuitOptics
    board: Board
    targets: tuple[LayerTarget, ...]
    wavelength_nm: float
    process: Process
    devices: Mapping[str, Complexes] | None = None
    guides: Complexes | None = None
    fixed_channels: tuple[str, ...] = ()
    quadrature_weight: float = 0.0

    @property
    def channel(self) -> dict[str, int]:
        """Heater number by pad label."""
        return {label: i for i, label in enumerate(self.structure.channel)}

    def heaters(self, layer: int) -> Ints:
        """Return the numbers of a layer's fitted heaters; trims of the preprocessing unit belong to layer 0."""
        prefixes = (f"l{layer}_", f"l{layer}b", f"l{layer}c", *(("trim_",) if layer == 0 else ()))
        numbers = (
            i for label, i in self.channel.items() if label.startswith(prefixes) and label not in self.fixed_channels
        )
        return np.array(list(numbers), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class PhaseFit:
    """Result of a fit of phases.

    Attributes:
        phases: (H,) fitted phases in rad, not wrapped.
        light: The chip solved with these phases.
        iterations: Number of iterations.
    """

    phases: Floats
    light: SourceFields
    iterations: int


def solve_fields(problem: ProgrammingProblem, phases: Floats, layers: Ints | None = None) -> SourceFields:
    """Solve the chip at given phases for the carrier and for the inputs of some layers.

    Args:
        problem: The chip.
        phases: (H,) phases in rad.
        layers: Numbers of the layers whose inputs are included; None for all.

    Raises:
        InputError: Phases that are not finite, or a lossless resonance.
    """
    solution = solve(problem.structure, phases, problem.wavelength_nm, problem.process, problem.devices, problem.guides)
    selected = problem.targets if layers is None else tuple(problem.targets[i] for i in layers.tolist())
    return source_fields(solution, problem.board, selected)


def matrix_errors(problem: ProgrammingProblem, light: SourceFields) -> Floats:
    """Compute the rms matrix error of each layer, relative to the 2-norm of its target matrix.

    Args:
        problem: The targets.
        light: The solved chip.

    Returns:
        (layers,) errors.
    """
    return np.array([_rms(residual(linear_response(light, target).coefficient, target)) for target in problem.targets])


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _error_vector(problem: ProgrammingProblem, light: SourceFields, target: LayerTarget) -> Floats:
    """Errors that a layer's step minimises: matrix errors and, where weighted, signals in quadrature."""
    error = residual(linear_response(light, target).coefficient, target).reshape(-1)
    if target.last or problem.quadrature_weight == 0.0:
        return error
    return np.concatenate([error, problem.quadrature_weight * quadrature(light, target).reshape(-1)])


def fit_phases(
    problem: ProgrammingProblem,
    phases: Floats,
    light: SourceFields,
    progress: Callable[[int, float], None] | None = None,
    iterations: int = MAX_ITERATIONS,
) -> PhaseFit:
    """Fit the phases until the error of every layer is below TOLERANCE or does not decrease any more.

    Args:
        problem: The chip and its targets.
        phases: (H,) initial phases in rad.
        light: The chip solved with these phases.
        progress: Called after every iteration with its number, from 1, and the largest error of a layer.
        iterations: Largest number of iterations.
    """
    layers = len(problem.targets)
    damping = Damping(np.full(layers, FIRST_DAMPING), np.full(layers, 2.0))
    groups = [problem.heaters(target.index) for target in problem.targets]
    history = [np.array([_rms(_error_vector(problem, light, target)) for target in problem.targets])]
    for iteration in range(1, iterations + 1):
        cost = history[-1]
        active = np.flatnonzero((cost > TOLERANCE) & ~_stalled(history))
        if not active.size:
            return PhaseFit(phases, solve_fields(problem, phases), iteration - 1)
        trial, predicted, seen = phases.copy(), cost.copy(), cost.copy()
        for i in active.tolist():
            step, predicted[i] = _step(problem, light, problem.targets[i], groups[i], float(damping.value[i]))
            trial[groups[i]] += step
        tried = solve_fields(problem, trial, active)
        for i in active.tolist():
            seen[i] = _rms(_error_vector(problem, tried, problem.targets[i]))
        better = active[seen[active] < cost[active]]
        damping.update(active, cost**2 - seen**2, cost**2 - predicted**2)
        phases = phases.copy()
        for i in better.tolist():
            phases[groups[i]] = trial[groups[i]]
        if better.size == active.size:
            light = tried
        elif better.size:
            light = solve_fields(problem, phases, active)
        history.append(np.where(np.isin(np.arange(layers), better), seen, cost))
        if progress is not None:
            progress(iteration, float(history[-1].max()))
    return PhaseFit(phases, solve_fields(problem, phases), iterations)


@dataclass
class Damping:
    """Levenberg–Marquardt damping of each layer after H. B. Nielsen, Report IMM-REP-1999-05.

    After a successful step the damping decreases, the more the better the linear model predicted the gain. While steps
    fail, the damping increases, each time by twice the previous factor.

    Attributes:
        value: (layers,) damping.
        growth: (layers,) factor by which the damping increases at the next failure.
    """

    value: Floats
    growth: Floats

    def update(self, active: Ints, gained: Floats, predicted: Floats) -> None:
        """Update the damping of the active layers after a step, in place.

        Args:
            active: Numbers of the layers that made a step.
            gained: (layers,) actual decrease of the mean squared error.
            predicted: (layers,) decrease that the linear model predicted.
        """
        for i in active.tolist():
            if gained[i] > 0.0:
                # without a predicted gain, any gain counts as a full one
                ratio = gained[i] / predicted[i] if predicted[i] > 0.0 else 1.0
                shrink = max(1.0 / 3.0, 1.0 - (2.0 * ratio - 1.0) ** 3)
                self.value[i] = max(self.value[i] * shrink, LEAST_DAMPING)
                self.growth[i] = 2.0
            else:
                self.value[i] *= self.growth[i]
                self.growth[i] *= 2.0


def _stalled(history: list[Floats]) -> NDArray[np.bool_]:
    """(layers,) whether the last PATIENCE iterations reduced the error by less than a tenth."""
    if len(history) <= PATIENCE:
        return np.zeros(history[0].size, dtype=bool)
    return np.asarray(history[-1] > 0.9 * history[-1 - PATIENCE])


def _step(
    problem: ProgrammingProblem, light: SourceFields, target: LayerTarget, heaters: Ints, damping: float
) -> tuple[Floats, float]:
    slope, error = jacobian(light, target, heaters), _error_vector(problem, light, target)
    if error.size > len(slope):
        slope = np.concatenate([slope, problem.quadrature_weight * quadrature_jacobian(light, target, heaters)])
    return damped_step(slope, error, damping)


def damped_step(slope: Floats, error: Floats, damping: float) -> tuple[Floats, float]:
    """Compute the Levenberg–Marquardt step for a linearised error.

    It solves the normal equations JJᵀ if there are at least as many heaters as entries, else JᵀJ; both give the same
    step. Entries of the step are limited to MAX_STEP_RAD by scaling the whole step.

    Args:
        slope: (entries, heaters) Jacobian J of the error in 1/rad.
        error: (entries,) error.
        damping: Damping λ; λ · trace(JJᵀ) / entries is added to the diagonal.

    Returns:
        (heaters,) step in rad, and the rms error that the linear model predicts after it.
    """
    entries, heaters = slope.shape
    normal = slope @ slope.T if entries <= heaters else slope.T @ slope
    normal[np.diag_indices_from(normal)] += damping * np.trace(normal) / entries
    if entries <= heaters:
        step = -slope.T @ np.linalg.solve(normal, error)
    else:
        step = -np.linalg.solve(normal, slope.T @ error)
    step *= min(1.0, MAX_STEP_RAD / max(float(np.abs(step).max()), MAX_STEP_RAD))
    return step, float(np.sqrt(np.mean((error + slope @ step) ** 2)))
