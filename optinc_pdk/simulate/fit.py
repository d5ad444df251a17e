"""Levenberg–Marquardt on all layers' phases: one solution of the chip serves every layer's own step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import Process
from optinc_pdk.circuit import Board
from optinc_pdk.simulate.response import Light, jacobian, linear, look, quadrature, quadrature_jacobian, residual
from optinc_pdk.simulate.scatter import solve
from optinc_pdk.simulate.structure import Structure
from optinc_pdk.simulate.target import Target

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_ITERATIONS = 60
TOLERANCE = 1e-5
"""Rms matrix error over the 2-norm at which a layer is done; 16-bit codes alone make 1e-5 to 1e-4."""
PATIENCE = 12
MAX_STEP_RAD = 0.7
FIRST_DAMPING, LEAST_DAMPING = 1e-3, 1e-12


@dataclass(frozen=True, eq=False)
class Problem:
    """A chip and what its layers have to do.

    Attributes:
        structure: The chip.
        board: What joins its fibres outside.
        targets: The layers.
        wavelength_nm: Carrier.
        process: Process of the cards.
        devices: Component to S-parameters (I, p, p) in place of its card's, where devices are known one by one.
        guides: (ports,) transmissions of the guides in place of the card's.
        held: Pad labels of heaters that cannot be moved.
        upright: Weight of signals a quarter turn from their oscillators, over that of matrix errors.
    """

    structure: Structure
    board: Board
    targets: tuple[Target, ...]
    wavelength_nm: float
    process: Process
    devices: Mapping[str, Complexes] | None = None
    guides: Complexes | None = None
    held: tuple[str, ...] = ()
    upright: float = 0.0

    @property
    def channel(self) -> dict[str, int]:
        """Pad label to heater number."""
        return {label: i for i, label in enumerate(self.structure.channel)}

    def heaters(self, layer: int) -> Ints:
        """Heaters of one layer that can be moved; the trims of the preprocessing belong to the first."""
        prefixes = (f"l{layer}_", f"l{layer}b", *(("trim_",) if layer == 0 else ()))
        mine = (i for label, i in self.channel.items() if label.startswith(prefixes) and label not in self.held)
        return np.array(list(mine), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Fitted:
    """Phases and the light they make.

    Attributes:
        phases: (H,) in rad, not wrapped.
        light: The chip solved with them.
        iterations: Steps taken.
    """

    phases: Floats
    light: Light
    iterations: int


def illuminate(problem: Problem, phases: Floats, layers: Ints | None = None) -> Light:
    """Solve the chip for some phases, with light from the sources of some layers, all by default."""
    solution = solve(problem.structure, phases, problem.wavelength_nm, problem.process, problem.devices, problem.guides)
    lit = problem.targets if layers is None else tuple(problem.targets[i] for i in layers.tolist())
    return look(solution, problem.board, lit)


def errors(problem: Problem, light: Light) -> Floats:
    """(layers,) rms matrix error over the 2-norm."""
    return np.array([_rms(residual(linear(light, target).coefficient, target)) for target in problem.targets])


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _wrong(problem: Problem, light: Light, target: Target) -> Floats:
    """What a layer's step is to take away: its matrix errors and, where they count, signals that neurons do not see."""
    wrong = residual(linear(light, target).coefficient, target).reshape(-1)
    if target.last or problem.upright == 0.0:
        return wrong
    return np.concatenate([wrong, problem.upright * quadrature(light, target).reshape(-1)])


def fit_phases(
    problem: Problem,
    phases: Floats,
    light: Light,
    progress: Callable[[int, float], None] | None = None,
    iterations: int = MAX_ITERATIONS,
) -> Fitted:
    """Iterate until every layer is right to TOLERANCE or gets no better.

    Args:
        problem: The chip and its targets.
        phases: (H,) starting phases.
        light: The chip solved with them.
        progress: Called after every iteration with its number and the worst layer's error.
        iterations: Most of them.
    """
    layers = len(problem.targets)
    damping = Damping(np.full(layers, FIRST_DAMPING), np.full(layers, 2.0))
    groups = [problem.heaters(target.index) for target in problem.targets]
    history = [np.array([_rms(_wrong(problem, light, target)) for target in problem.targets])]
    for iteration in range(1, iterations + 1):
        cost = history[-1]
        active = np.flatnonzero((cost > TOLERANCE) & ~_stalled(history))
        if not active.size:
            return Fitted(phases, illuminate(problem, phases), iteration - 1)
        trial, foretold, seen = phases.copy(), cost.copy(), cost.copy()
        for i in active.tolist():
            step, foretold[i] = _step(problem, light, problem.targets[i], groups[i], float(damping.value[i]))
            trial[groups[i]] += step
        tried = illuminate(problem, trial, active)
        for i in active.tolist():
            seen[i] = _rms(_wrong(problem, tried, problem.targets[i]))
        better = active[seen[active] < cost[active]]
        damping.update(active, cost**2 - seen**2, cost**2 - foretold**2)
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
    return Fitted(phases, illuminate(problem, phases), iterations)


@dataclass
class Damping:
    """Each layer's damping after Nielsen, Report IMM-REP-1999-05.

    Down by how well the linearization foretold the gain of a step, up ever faster while steps fail.

    Attributes:
        value: (layers,) damping.
        growth: (layers,) factor of the next one up.
    """

    value: Floats
    growth: Floats

    def update(self, active: Ints, gained: Floats, foretold: Floats) -> None:
        """After a step of the active layers, from what it gained and should have gained."""
        for i in active.tolist():
            if gained[i] > 0.0:
                # where nothing was foretold any gain is a good sign
                ratio = gained[i] / foretold[i] if foretold[i] > 0.0 else 1.0
                shrink = max(1.0 / 3.0, 1.0 - (2.0 * ratio - 1.0) ** 3)
                self.value[i] = max(self.value[i] * shrink, LEAST_DAMPING)
                self.growth[i] = 2.0
            else:
                self.value[i] *= self.growth[i]
                self.growth[i] *= 2.0


def _stalled(history: list[Floats]) -> NDArray[np.bool_]:
    """(layers,) whether the last PATIENCE iterations brought less than a tenth."""
    if len(history) <= PATIENCE:
        return np.zeros(history[0].size, dtype=bool)
    return np.asarray(history[-1] > 0.9 * history[-1 - PATIENCE])


def _step(problem: Problem, light: Light, target: Target, heaters: Ints, damping: float) -> tuple[Floats, float]:
    slope, wrong = jacobian(light, target, heaters), _wrong(problem, light, target)
    if wrong.size > len(slope):
        slope = np.concatenate([slope, problem.upright * quadrature_jacobian(light, target, heaters)])
    return damped_step(slope, wrong, damping)


def damped_step(slope: Floats, error: Floats, damping: float) -> tuple[Floats, float]:
    """The shortest step that removes the linearized error, damped, and the rms error it should leave.

    Where there are more heaters than entries the normal equations are those of the entries, else those of the heaters,
    which give the same step.

    Args:
        slope: (entries, heaters) derivative of the error.
        error: (entries,) error.
        damping: Share of the mean curvature that is added to all.
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
