"""Levenberg–Marquardt fit of the layers' phases; each layer is solved by itself and has its own step."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optinc_pdk.arrays import Bools, Complexes, Floats, Ints
from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED, Board
from optinc_pdk.circuit.netlist import component_labels
from optinc_pdk.factor import BlockFactor
from optinc_pdk.simulate.circuit_optics import CircuitOptics
from optinc_pdk.simulate.programming.detection_jacobian import (
    DetectedLight,
    SourceFields,
    jacobian,
    linear_response,
    quadrature,
    quadrature_jacobian,
    residual,
    source_fields,
)
from optinc_pdk.simulate.programming.targets import LayerTarget
from optinc_pdk.simulate.s_parameters._sparse_solver import CircuitEntries, circuit_entries

MAX_ITERATIONS = 60
TOLERANCE = 1e-5
"""Rms matrix error over the 2-norm below which a layer is not fitted further; rounding to 16-bit codes alone causes
1e-5 to 1e-4."""
PATIENCE = 12
"""Iterations within which an error has to fall by a tenth; else the layer is not fitted further."""
JACOBIAN_NUMBERS = 1 << 22
"""Derivatives of a layer's pieces by its heaters up to which Levenberg–Marquardt fits it, 32 MB if the pieces are whole
rows; above, its meshes are fitted."""
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
        devices: By component name, (I, p, p) S-parameters of the I instances, which replace those of the card.
        guides: (ports,) field transmissions of the guides, which replace those of the card.
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

    @cached_property
    def channel(self) -> dict[str, int]:
        """Heater number by pad label."""
        return {label: i for i, label in enumerate(self.structure.channel)}

    @cached_property
    def entries(self) -> CircuitEntries:
        """Entries of the chip's linear systems."""
        return circuit_entries(self.structure, self.wavelength_nm, self.process, self.devices, self.guides)

    @cached_property
    def _heaters(self) -> tuple[Ints, ...]:
        fixed = set(self.fixed_channels)
        fitted = [(label, number) for label, number in self.channel.items() if label not in fixed]
        patterns = [re.compile(target.heater_labels) for target in self.targets]
        return tuple(
            np.array([number for label, number in fitted if pattern.match(label)], dtype=np.int64)
            for pattern in patterns
        )

    def heaters(self, layer: int) -> Ints:
        """Return the numbers of the fitted heaters of a target."""
        return self._heaters[layer]

    @cached_property
    def groups(self) -> tuple[Ints, ...]:
        """Numbers of the layers that are fitted together: those whose heaters or detectors share parts of the chip."""
        structure, layers = self.structure, len(self.targets)
        one, other = [], []
        for target in self.targets:
            ports = structure.heater_port[self.heaters(target.index), 0]
            labels = structure.label_positions((*target.plus, *target.minus))
            inner = structure.partner[structure.label_port[labels]]
            fibres = structure.label_port[labels]
            ports = np.concatenate([ports, np.where(inner == UNCONNECTED, fibres, inner)])
            parts = np.unique(structure.part[ports])
            one.append(np.full(parts.size, target.index))
            other.append(layers + parts)
        size = layers + len(structure.part_ports)
        group = component_labels(size, np.concatenate(one), np.concatenate(other))[:layers]
        return tuple(np.flatnonzero(group == number) for number in dict.fromkeys(group.tolist()))


@dataclass(frozen=True, eq=False)
class PhaseFit:
    """Result of a fit: (H,) phases in rad, not wrapped, the chip solved with them, and the number of iterations."""

    phases: Floats
    light: SourceFields
    iterations: int


def is_large(problem: ProgrammingProblem, target: LayerTarget) -> bool:
    """Return whether the Jacobian of a layer of blocks, piece by piece, is too large for Levenberg–Marquardt."""
    entries = len(target.pieces) * target.mesh_weight.shape[1]
    blocks = isinstance(target.factor.factor, BlockFactor)
    return blocks and not target.last and entries * problem.heaters(target.index).size > JACOBIAN_NUMBERS


def solve_fields(
    problem: ProgrammingProblem, phases: Floats, layers: Ints | None = None, *, heaters: bool = False
) -> SourceFields:
    """Solve the chip at (H,) phases in rad for the carrier and for the inputs of some layers, by default all.

    With ``heaters``, the fields at the layers' heaters are kept, for derivatives.

    Raises:
        InputError: Phases that are not finite, or a lossless resonance.
    """
    solution = problem.entries.at(phases)
    selected = problem.targets if layers is None else tuple(problem.targets[i] for i in layers.tolist())
    kept = {target.index: problem.heaters(target.index) for target in selected} if heaters else None
    return source_fields(solution, problem.board, selected, kept)


def matrix_errors(problem: ProgrammingProblem, light: SourceFields) -> Floats:
    """Compute the (layers,) rms matrix errors of a solved chip, relative to the 2-norms of the target matrices."""
    return np.array([_rms(residual(linear_response(light, target).coefficient, target)) for target in problem.targets])


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _error_vector(problem: ProgrammingProblem, light: DetectedLight, target: LayerTarget) -> Floats:
    """Errors that a layer's step minimises: matrix errors and, where weighted, signals in quadrature."""
    error = residual(linear_response(light, target).coefficient, target).reshape(-1)
    if target.last or problem.quadrature_weight == 0.0:
        return error
    return np.concatenate([error, problem.quadrature_weight * quadrature(light, target).reshape(-1)])


def fit_phases(
    problem: ProgrammingProblem,
    phases: Floats,
    progress: Callable[[int, float], None] | None = None,
    iterations: int = MAX_ITERATIONS,
) -> PhaseFit:
    """Fit the phases until the error of every layer is below TOLERANCE or does not decrease any more.

    Layers that share no part of the chip are fitted one after the other; each needs the fields of its own part only.

    Args:
        problem: The chip and its targets.
        phases: (H,) initial phases in rad.
        progress: Called after every iteration with its number, from 1, and the largest error of a layer in work.
        iterations: Largest number of iterations of a layer.
    """
    phases, taken, most = phases.copy(), 0, 0

    def report(_: int, error: float) -> None:
        nonlocal taken
        taken += 1
        if progress is not None:
            progress(taken, error)

    def solve(trial: Floats, layers: Ints) -> SourceFields:
        return solve_fields(problem, trial, layers, heaters=True)

    for group in problem.groups:
        # the meshes of large layers are fitted one by one, see :mod:`mesh_fit`
        layers = np.array([i for i in group.tolist() if not is_large(problem, problem.targets[i])], dtype=np.int64)
        if not layers.size:
            continue
        phases, steps = fit_layers(problem, phases, layers, solve, report, iterations)
        most = max(most, steps)
    return PhaseFit(phases, solve_fields(problem, phases), most)


def fit_layers(
    problem: ProgrammingProblem,
    phases: Floats,
    layers: Ints,
    solve: Callable[[Floats, Ints], DetectedLight],
    progress: Callable[[int, float], None],
    iterations: int,
) -> tuple[Floats, int]:
    """Fit the phases of some layers together.

    Args:
        problem: The targets, and the numbers of the layers' heaters.
        phases: (H,) initial phases in rad.
        layers: Numbers of the layers.
        solve: Returns the light on the chip at (H,) phases, for the sources of the layers with given numbers.
        progress: Called after every iteration with its number, from 1, and the largest error of a layer.
        iterations: Largest number of iterations.

    Returns:
        (H,) fitted phases, and the number of iterations.
    """
    light = solve(phases, layers)
    targets = [problem.targets[i] for i in layers.tolist()]
    damping = Damping(np.full(layers.size, FIRST_DAMPING), np.full(layers.size, 2.0))
    groups = [problem.heaters(target.index) for target in targets]
    history = [np.array([_rms(_error_vector(problem, light, target)) for target in targets])]
    for iteration in range(1, iterations + 1):
        cost = history[-1]
        active = np.flatnonzero((cost > TOLERANCE) & ~_stalled(history))
        if not active.size:
            return phases, iteration - 1
        trial, predicted, seen = phases.copy(), cost.copy(), cost.copy()
        for i in active.tolist():
            step, predicted[i] = _step(problem, light, targets[i], groups[i], float(damping.value[i]))
            trial[groups[i]] += step
        tried = solve(trial, layers[active])
        for i in active.tolist():
            seen[i] = _rms(_error_vector(problem, tried, targets[i]))
        better = active[seen[active] < cost[active]]
        damping.update(active, cost**2 - seen**2, cost**2 - predicted**2)
        phases = phases.copy()
        for i in better.tolist():
            phases[groups[i]] = trial[groups[i]]
        if better.size == active.size:
            light = tried
        elif better.size:
            light = solve(phases, layers[active])
        history.append(np.where(np.isin(np.arange(layers.size), better), seen, cost))
        progress(iteration, float(history[-1].max()))
    return phases, iterations


@dataclass
class Damping:
    """Levenberg–Marquardt damping of each layer after H. B. Nielsen, Report IMM-REP-1999-05.

    After a successful step the damping decreases, the more the better the linear model predicted the gain. While steps
    fail, the damping increases, each time by twice the previous factor, which is ``growth``. Both are (layers,).
    """

    value: Floats
    growth: Floats

    def update(self, active: Ints, gained: Floats, predicted: Floats) -> None:
        """Update the damping of the layers ``active`` after a step, in place.

        ``gained`` is the (layers,) actual decrease of the mean squared error, ``predicted`` that of the linear model.
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


def _stalled(history: list[Floats]) -> Bools:
    """(layers,) whether the last PATIENCE iterations reduced the error by less than a tenth."""
    if len(history) <= PATIENCE:
        return np.zeros(history[0].size, dtype=bool)
    return np.asarray(history[-1] > 0.9 * history[-1 - PATIENCE])


def _step(
    problem: ProgrammingProblem, light: DetectedLight, target: LayerTarget, heaters: Ints, damping: float
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
    if not slope.any():
        # a layer of attenuators alone: gains and scales provide each of its rows whatever its phases are
        return np.zeros(heaters), float(np.sqrt(np.mean(error**2)))
    normal = slope @ slope.T if entries <= heaters else slope.T @ slope
    normal[np.diag_indices_from(normal)] += damping * np.trace(normal) / entries
    if entries <= heaters:
        step = -slope.T @ np.linalg.solve(normal, error)
    else:
        step = -np.linalg.solve(normal, slope.T @ error)
    step *= min(1.0, MAX_STEP_RAD / max(float(np.abs(step).max()), MAX_STEP_RAD))
    return step, float(np.sqrt(np.mean((error + slope @ step) ** 2)))
