"""In-loop tuning of the layers: Levenberg–Marquardt optimisation with measured errors and measured Jacobians.

To measure a Jacobian, every heater is perturbed and all layers are read, one heater of every layer at a time. The next
few steps share this Jacobian, which Broyden's method updates with the measured result of each step. The method needs no
knowledge of device parameters; crosstalk between the heaters of a layer is part of the measured Jacobian.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.simulate.programming.phase_fit import FIRST_DAMPING, Damping
from optinc_pdk.studies.calibration.heater_model import HeaterModel
from optinc_pdk.studies.calibration.in_loop_steps import (
    MeasuredSetting,
    damped_tuning_step,
    measure_jacobians,
    measure_setting,
    stepped_voltages,
    with_adjustable_shifts,
)
from optinc_pdk.studies.calibration.measurement import BenchLayer, BenchProtocol, rms_matrix_error

Progress = Callable[[str, float], None]

ROUNDS = 60
STEPS = 8
"""Largest number of steps with one measured Jacobian."""
WORTHWHILE, MAX_IDLE_STEPS = 0.9, 3
"""Share of its error that every layer keeps in an idle step; consecutive idle steps after which to measure again."""
MAX_INITIAL_DAMPING = 0.1
"""Largest initial damping with a new Jacobian."""
TOLERANCE = 1e-5
"""Rms matrix error over the 2-norm at which a layer or part is no longer tuned."""
GAIN = 0.9
"""A round is poor for a layer that keeps more than this share of its error."""
PATIENCE = 3
"""Consecutive poor rounds after which a layer stops."""
SUFFICIENT = 1e-3
"""Error above which a layer that stops improving is restarted; the error of rounding if that is more. Our choice."""
SUFFICIENT_PART = 0.02
"""The same for parts of a layer, whose norms are smaller. On a classifier in blocks of 8 × 8, parts of the nominal chip
have errors of up to 0.01; two sampled chips with errors of up to 0.016 in its parts gave the class of the network for
more than 99 % of the data."""
RESTART_RAD = 0.3
"""Rms random perturbation of design phases at a restart."""
RESTARTS = 5


@dataclass(frozen=True, eq=False)
class TuningResult:
    """Result of in-loop tuning.

    Attributes:
        state: The best setting.
        history: (rounds + 1, layers) rms matrix error of each layer before the first round and after each round.
    """

    state: MeasuredSetting
    history: Floats


def sufficient_errors(layers: Sequence[BenchLayer]) -> Floats:
    """Return the (layers,) rms matrix errors that are good enough."""
    return np.array([SUFFICIENT if layer.target.whole else SUFFICIENT_PART for layer in layers])


def _final_errors(layers: Sequence[BenchLayer]) -> Floats:
    """Return the (layers,) rms matrix errors at which tuning ends when all layers and parts have reached them.

    Until then, parts that are good enough are tuned as well: this needs no more settings, and all parts of a round take
    as many steps as the slowest one.
    """
    return np.array([TOLERANCE if layer.target.whole else SUFFICIENT_PART for layer in layers])


def tune_layers(
    laboratory: BenchProtocol,
    layers: tuple[BenchLayer, ...],
    heaters: HeaterModel,
    turn_rad: Floats,
    voltage_v: Floats,
    progress: Progress | None = None,
    restarts: int = RESTARTS,
) -> TuningResult:
    """Optimise the phases of all layers on the bench until their errors are small enough or stop improving.

    Tuning ends when every whole layer has reached ``TOLERANCE`` and every part of a layer ``SUFFICIENT_PART``.

    Args:
        laboratory: The bench.
        layers: The layers.
        heaters: Design model of the heaters.
        turn_rad: (H,) design phase that causes a real phase of 2π; NaN for heaters without effect.
        voltage_v: (H,) starting voltages.
        progress: Called after every round with the name of the stage and the largest rms matrix error of a layer.
        restarts: Number of random restarts for each layer that is stuck.
    """
    ready = with_adjustable_shifts(layers, heaters, voltage_v)
    state = measure_setting(laboratory, ready, heaters, voltage_v)
    search = _Search(laboratory, heaters, turn_rad, state, layers)
    search.run(restarts, progress)
    # each layer's best setting was measured with other settings, and other crosstalk, of the remaining layers
    search.recall()
    search.run(0, progress)
    return TuningResult(search.state, np.array(search.history))


def rounding_error(heaters: HeaterModel, state: MeasuredSetting, index: int, slope: Floats) -> float:
    """Return the rms matrix error that independent rounding of a layer's voltages to DAC steps causes.

    Args:
        heaters: Design model of the heaters.
        state: A setting.
        index: Index of the layer.
        slope: (entries, heaters) Jacobian of the layer's errors by its design phases, in 1/rad.
    """
    layer = state.layers[index]
    rise = heaters.rise_ohm @ heaters.currents(state.voltage_v)
    step = heaters.phases_at_rise(state.voltage_v + heaters.step_v, rise) - heaters.phases_at_rise(
        state.voltage_v, rise
    )
    # errors of rounding are uniformly distributed over a step
    return rms_matrix_error(layer, slope * step[layer.heaters] / np.sqrt(12.0))


class _Search:
    """State of the optimisation, with the best setting of every layer so far."""

    def __init__(
        self,
        laboratory: BenchProtocol,
        heaters: HeaterModel,
        turn_rad: Floats,
        state: MeasuredSetting,
        layers: tuple[BenchLayer, ...],
    ) -> None:
        count = len(state.layers)
        self.laboratory, self.heaters, self.turn_rad = laboratory, heaters, turn_rad
        self.state, self.layers = state, layers
        self.slopes = [np.zeros((0, 0))] * count
        # rms errors that the rounding of voltages causes, once they are known
        self.rounding = np.zeros(count)
        self.history = [state.sizes]
        self.best = np.full(count, np.inf)
        self.voltage_v = state.voltage_v.copy()
        self.random = np.random.default_rng(0)
        self._keep_best()

    def run(self, restarts: int, progress: Progress | None) -> None:
        """Run rounds until every layer is finished or stops improving, with at most ``restarts`` restarts a layer."""
        count = len(self.state.layers)
        damping = Damping(np.full(count, FIRST_DAMPING), np.full(count, 2.0))
        poor_rounds, restarts_left = np.zeros(count, dtype=np.int64), np.full(count, restarts)
        for _ in range(ROUNDS):
            sizes = self.history[-1]
            stuck_error = np.maximum(sufficient_errors(self.layers), self.rounding)
            stuck = np.flatnonzero(
                (poor_rounds >= PATIENCE) & (sizes > stuck_error) & (self.best > stuck_error) & (restarts_left > 0)
            )
            if stuck.size:
                self._perturb(stuck)
                damping.value[stuck] = FIRST_DAMPING
                poor_rounds[stuck], restarts_left[stuck] = 0, restarts_left[stuck] - 1
            active = np.flatnonzero((self.history[-1] > TOLERANCE) & (poor_rounds < PATIENCE))
            if not active.size or np.all(self.history[-1] <= _final_errors(self.layers)):
                return
            best = self.best.copy()
            self._round(active, damping)
            # below the error of rounding, an error falls by chance, unless it is the least so far
            by_chance = (self.history[-1] < self.rounding) & (self.best > GAIN * best)
            poor_rounds = np.where(by_chance | (self.history[-1] > GAIN * self.history[-2]), poor_rounds + 1, 0)
            if progress is not None:
                progress("tune", float(self.history[-1].max()))

    def recall(self) -> None:
        """Return to the best setting of every layer and measure it."""
        self.state = measure_setting(self.laboratory, self.state.layers, self.heaters, self.voltage_v.copy())
        self.history.append(self.state.sizes)

    def _round(self, active: Ints, damping: Damping) -> None:
        """Measure new Jacobians and take steps with them."""
        layers = with_adjustable_shifts(self.layers, self.heaters, self.state.voltage_v)
        self.state = measure_setting(self.laboratory, layers, self.heaters, self.state.voltage_v)
        measured = measure_jacobians(self.laboratory, self.heaters, self.turn_rad, self.state, active)
        for i, slope in zip(active.tolist(), measured, strict=True):
            self.slopes[i] = slope
            self.rounding[i] = rounding_error(self.heaters, self.state, i, slope)
        damping.value[:] = np.minimum(damping.value, MAX_INITIAL_DAMPING)
        damping.growth[:] = 2.0
        idle = 0
        for _ in range(STEPS):
            before = self.state.sizes
            self.state = damped_tuning_step(
                self.laboratory, self.heaters, self.turn_rad, self.state, active, self.slopes, damping
            )
            self._keep_best()
            idle = idle + 1 if np.all(self.state.sizes[active] > WORTHWHILE * before[active]) else 0
            if idle == MAX_IDLE_STEPS:
                break
        self.history.append(self.state.sizes)

    def _perturb(self, stuck: Ints) -> None:
        """Perturb the heaters of stuck layers at random."""
        steps = np.zeros_like(self.state.voltage_v)
        for i in stuck.tolist():
            layer_heaters = self.state.layers[i].heaters
            steps[layer_heaters] = RESTART_RAD * self.random.standard_normal(layer_heaters.size)
        phase = self.heaters.phases(self.state.voltage_v)
        perturbed = stepped_voltages(self.heaters, self.turn_rad, self.state, phase, steps)
        self.state = measure_setting(self.laboratory, self.state.layers, self.heaters, perturbed)
        self.history.append(self.state.sizes)

    def _keep_best(self) -> None:
        sizes = self.state.sizes
        for i in np.flatnonzero(sizes < self.best).tolist():
            layer_heaters = self.state.layers[i].heaters
            self.best[i], self.voltage_v[layer_heaters] = sizes[i], self.state.voltage_v[layer_heaters]
