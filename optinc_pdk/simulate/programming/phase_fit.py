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
    """A chip, the targets of its layers, and the models used to fit it.

    Attributes:
        structure: The chip.
        board: Connections of its fibres off the chip.
        targets: The layers.
        wavelength_nm: Carrier.
        process: Process of the cards.
        devices: Component name to S-parameters (I, p, p) in place of its card's, where devices are known individually.
        guides: (ports,) field transmissions of the guides in place of the card's.
        held: Pad labels of heaters whose phases are fixed.
        upright: Weight of the signals in quadrature with their oscillators, relative to that of matrix errors.
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
        """Pad label to heater number."""
        return {label: i for i, label in enumerate(self.structure.channel)}

    def heaters(self, layer: int) -> Ints:
        """Numbers of one layer's heaters that are not held; the trims of the preprocessing belong to layer 0."""
        prefixes = (f"l{layer}_", f"l{layer}b", *(("trim_",) if layer == 0 else ()))
        numbers = (
            i for label, i in self.channel.items() if label.startswith(prefixes) and label not in self.fixed_channels
        )
        return np.array(list(numbers), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class PhaseFit:
    """Result of a fit.

    Attributes:
        phases: (H,) in rad, not wrapped.
        light: The chip solved with these phases.
        iterations: Number of iterations.
    """

    phases: Floats
    light: SourceFields
    iterations: int


def illuminate(problem: ProgrammingProblem, phases: Floats, layers: Ints | None = None) -> SourceFields:
    """Solve the chip at given phases, with light from the sources of some layers.

    Args:
        problem: The chip.
        phases: (H,) phases in rad.
        layers: Numbers of the layers whose sources are on; all where left out.

    Raises:
        InputError: Phases that are not finite, or a lossless resonance.
    """
    solution = solve(problem.structure, phases, problem.wavelength_nm, problem.process, problem.devices, problem.guides)
    selected = problem.targets if layers is None else tuple(problem.targets[i] for i in layers.tolist())
    return source_fields(solution, problem.board, selected)


def matrix_errors(problem: ProgrammingProblem, light: SourceFields) -> Floats:
    """(layers,) rms error of the detected matrices over the 2-norms of the targets."""
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
    """Fit the phases until every layer's error is below TOLERANCE or no longer falls.

    Args:
        problem: The chip and its targets.
        phases: (H,) initial phases in rad.
        light: The chip solved with these phases.
        progress: Called after every iteration with its number and the worst layer's error.
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
            return PhaseFit(phases, illuminate(problem, phases), iteration - 1)
        trial, predicted, seen = phases.copy(), cost.copy(), cost.copy()
        for i in active.tolist():
            step, predicted[i] = _step(problem, light, problem.targets[i], groups[i], float(damping.value[i]))
            trial[groups[i]] += step
        tried = illuminate(problem, trial, active)
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
            light = illuminate(problem, phases, active)
        history.append(np.where(np.isin(np.arange(layers), better), seen, cost))
        if progress is not None:
            progress(iteration, float(history[-1].max()))
    return PhaseFit(phases, illuminate(problem, phases), iterations)


@dataclass
class Damping:
    """Each layer's damping after Nielsen, Report IMM-REP-1999-05.

    It falls by how well the linearisation predicted the gain of a step, and grows ever faster while steps fail.

    Attributes:
        value: (layers,) damping.
        growth: (layers,) factor of the next increase.
    """

    value: Floats
    growth: Floats

    def update(self, active: Ints, gained: Floats, predicted: Floats) -> None:
        """Update the active layers' damping from the actual and predicted reductions of the squared error by a step."""
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
    """The shortest damped step that removes the linearised error, and the rms error that it should leave.

    The normal equations are those of the entries where there are more heaters than entries, else those of the heaters;
    both give the same step.

    Args:
        slope: (entries, heaters) derivative of the error.
        error: (entries,) error.
        damping: Share of the mean curvature that is added to the diagonal.

    Returns:
        (heaters,) step in rad, and the predicted rms error.
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
