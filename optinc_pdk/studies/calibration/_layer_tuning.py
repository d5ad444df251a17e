"""Tuning of layers in the loop: Levenberg–Marquardt steps with measured errors and Jacobians, then joint rounding.

To measure a Jacobian, every heater is perturbed and all layers are read, one heater of every layer at a time. The next
few steps share this Jacobian, which Broyden's method updates with the measured result of each step. The method needs no
knowledge of device parameters; crosstalk between the heaters of a layer is part of the measured Jacobian.

A layer has more heaters than errors. For DAC codes, heaters are rounded one after another, those with the coarsest
effect first, and the heaters that are not yet rounded compensate each rounding error (Babai's nearest plane algorithm,
Combinatorica 6, 1 (1986)). Only the heaters with the finest effect leave an error.

``turn_rad`` are (H,) design phases that cause a real phase of 2π; NaN for heaters without effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.simulate.programming.phase_fit import FIRST_DAMPING, Damping, damped_step
from optinc_pdk.studies.calibration._heater_model import HeaterModel, parallel_heater_groups
from optinc_pdk.studies.calibration._measurement import (
    PHASE_SHIFT_RAD,
    BenchLayer,
    BenchProtocol,
    LayerResponse,
    matrix_errors,
    measure_layers,
    measure_layers_at_once,
    rms_matrix_error,
    with_quadrature,
)

WRAP_ERROR = 0.03
"""Rms error above which heaters at the end of their range may move by a whole turn."""
PERTURBATION_RAD = 0.03
"""Perturbation of design phases for difference quotients."""
MIN_PERTURBATION_STEPS = 4.0
"""Least perturbation in DAC steps, where that is larger."""
BATCH = 32
"""Settings that are read as one batch."""
ROUNDINGS = 4
MAX_CHANGE_RAD = 0.03
"""Largest phase change for which the measured Jacobian is used."""
MAX_CHANGE_STEPS = 2.0
"""Largest change in DAC steps, for drives whose steps are so coarse that this is more."""
ROUNDING_GAIN = 0.9
"""Rounds end when every layer keeps more than this share of its error."""
LEAST_DAMPING, MORE_DAMPING, MOST_DAMPING = 1e-4, 10.0, 1e6
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
class MeasuredSetting:
    """(H,) voltages, and the (entries,) :func:`_measurement.matrix_errors` of each layer measured at them."""

    voltage_v: Floats
    layers: tuple[BenchLayer, ...]
    error: tuple[Floats, ...]

    @property
    def sizes(self) -> Floats:
        """(layers,) rms matrix error of each layer over the 2-norm of its weight."""
        return np.array([rms_matrix_error(layer, error) for layer, error in zip(self.layers, self.error, strict=True)])


def measure_setting(
    laboratory: BenchProtocol, layers: tuple[BenchLayer, ...], heaters: HeaterModel, voltage_v: Floats
) -> MeasuredSetting:
    """Measure the matrix errors of all layers at (H,) voltages."""
    shifted = _shifted_heaters(layers)
    if not shifted.size:
        (responses,) = measure_layers(laboratory, layers, voltage_v[np.newaxis])
    else:
        both = [shifted_voltages(shifted, heaters, voltage_v, angle) for angle in (PHASE_SHIFT_RAD, -PHASE_SHIFT_RAD)]
        responses, ahead, behind = measure_layers(laboratory, layers, np.stack([voltage_v, *both]))
        for i in _shifted_layers(layers):
            responses[i] = with_quadrature(layers[i], responses[i], ahead[i], behind[i])
    return MeasuredSetting(
        voltage_v,
        layers,
        tuple(matrix_errors(layer, response) for layer, response in zip(layers, responses, strict=True)),
    )


def _shifted_layers(layers: Sequence[BenchLayer]) -> list[int]:
    """Return the indices of the layers whose sources can be shifted in phase."""
    return [i for i, layer in enumerate(layers) if layer.shift_heaters.size]


def _shifted_heaters(layers: Sequence[BenchLayer]) -> Ints:
    return np.concatenate([layer.shift_heaters for layer in layers])


def shifted_voltages(shifted: Ints, heaters: HeaterModel, voltage_v: Floats, angle: float) -> Floats:
    """Return the (H,) voltages that shift the phases of some heaters, by their indices, by the same angle in rad.

    The other heaters compensate for thermal crosstalk of the shift. A heater stays unchanged if its DAC step is coarser
    than the crosstalk, because rounding would cause a larger error.
    """
    rise, phase = heaters.rise_and_phases(voltage_v)
    change = np.zeros_like(phase)
    change[shifted] = angle
    crosstalk = heaters.crosstalk @ change
    per_step = heaters.phases_at_rise(voltage_v + heaters.step_v, rise) - phase
    finely_adjustable = np.abs(per_step) < np.abs(crosstalk) / 2.0
    finely_adjustable[shifted] = True
    changed = heaters.quantise(heaters.voltages_at_rise(phase + change - crosstalk, rise))
    return np.where(finely_adjustable, changed, voltage_v)


def with_adjustable_shifts(
    layers: tuple[BenchLayer, ...], heaters: HeaterModel, voltage_v: Floats
) -> tuple[BenchLayer, ...]:
    """Restrict the shifted sources of layers to those whose heaters can reduce their phase from (H,) voltages.

    At least one source of each layer stays unshifted.
    """
    phase, found = heaters.phases(voltage_v), list(layers)
    for i in _shifted_layers(layers):
        layer = layers[i]
        adjustable = np.flatnonzero(phase[layer.shift_heaters] > PHASE_SHIFT_RAD)
        if adjustable.size == layer.sources.size:
            adjustable = adjustable[:-1]
        found[i] = replace(
            layer,
            shift_heaters=layer.shift_heaters[adjustable],
            shifted_sources=layer.shifted_sources[adjustable],
        )
    return tuple(found)


def measure_jacobians(
    laboratory: BenchProtocol, heaters: HeaterModel, turn_rad: Floats, state: MeasuredSetting, active: Ints
) -> list[Floats]:
    """Measure the Jacobian of the matrix errors of each active layer, by its index, with finite differences.

    Returns:
        For each active layer, (entries, heaters) derivatives by the design phases of its heaters in rad; 0 for heaters
        without effect.
    """
    layers = [state.layers[i] for i in active.tolist()]
    rise, phase = heaters.rise_and_phases(state.voltage_v)
    perturbed = perturbed_voltages(heaters, turn_rad, phase, rise)
    change = heaters.phases_at_rise(perturbed, rise) - phase
    settings = [state.voltage_v]
    groups = parallel_heater_groups(layers)
    for group in groups:
        setting = state.voltage_v.copy()
        setting[group] = perturbed[group]
        settings.append(setting)
    responses = [list(row) for row in measure_in_batches(laboratory, layers, settings)]
    shifted = _shifted_layers(layers)
    if shifted:
        # the same voltage change in every setting shifts the sources only
        turned = shifted_voltages(_shifted_heaters(layers), heaters, state.voltage_v, PHASE_SHIFT_RAD)
        moved = [layers[i] for i in shifted]
        count = 1 + max(layer.heaters.size for layer in moved)
        ahead = measure_in_batches(
            laboratory, moved, [response + turned - state.voltage_v for response in settings[:count]]
        )
        for row, one in zip(responses[:count], ahead, strict=True):
            for i, response in zip(shifted, one, strict=True):
                row[i] = with_quadrature(layers[i], row[i], response)
        for row in responses[count:]:
            for i in shifted:
                row[i] = responses[0][i]
    errors = [list(map(matrix_errors, layers, row)) for row in responses]
    slopes = []
    for i, layer in enumerate(layers):
        effect = np.stack([row[i] - errors[0][i] for row in errors[1 : 1 + layer.heaters.size]], axis=1)
        layer_change = change[layer.heaters]
        usable = np.isfinite(layer_change) & (layer_change != 0.0)
        slopes.append(np.divide(effect, layer_change, out=np.zeros_like(effect), where=usable))
    return slopes


def measure_in_batches(
    laboratory: BenchProtocol, layers: Sequence[BenchLayer], settings: list[Floats]
) -> list[list[LayerResponse]]:
    """Measure the response of each layer at each of many (H,) settings, with the sources of all layers on at once."""
    batches = (np.array(settings[first : first + BATCH]) for first in range(0, len(settings), BATCH))
    return [row for batch in batches for row in measure_layers_at_once(laboratory, layers, batch)]


def perturbed_voltages(heaters: HeaterModel, turn_rad: Floats, phase: Floats, rise_v: Floats) -> Floats:
    """Return the (H,) voltages that perturb each heater's phase: upwards, or downwards at the upper end of its range.

    Each voltage is meant for a change of this heater alone, from (H,) design phases and ground voltages.
    """
    perturbed_phase = phase + PERTURBATION_RAD
    voltage = heaters.voltages_at_rise(perturbed_phase, rise_v)
    amount = np.maximum(
        PERTURBATION_RAD,
        MIN_PERTURBATION_STEPS * np.abs(heaters.phases_at_rise(voltage + heaters.step_v, rise_v) - perturbed_phase),
    )
    fits_above = phase + amount < heaters.highest_phase(turn_rad)
    return heaters.quantise(heaters.voltages_at_rise(np.where(fits_above, phase + amount, phase - amount), rise_v))


def stepped_voltages(
    heaters: HeaterModel, turn_rad: Floats, state: MeasuredSetting, phase: Floats, steps: Floats
) -> Floats:
    """Return the (H,) voltages after (H,) steps of the design phases in rad, with compensation of thermal crosstalk.

    Crosstalk between heaters of one layer is part of the measured Jacobian and is not compensated. Crosstalk between
    layers and crosstalk of whole turns is compensated.
    """
    wraps = wrapped_into_range(heaters, turn_rad, phase + steps) - phase - steps
    crosstalk = heaters.crosstalk @ (wraps + steps)
    for layer in state.layers:
        layer_heaters = layer.heaters
        crosstalk[layer_heaters] -= heaters.crosstalk[np.ix_(layer_heaters, layer_heaters)] @ steps[layer_heaters]
    return heaters.voltages(wrapped_into_range(heaters, turn_rad, phase + steps) - crosstalk)


def _step(slope: Floats, error: Floats, damping: float, phase: Floats, highest: Floats) -> tuple[Floats, float]:
    """Return a damped step and the predicted mean square error after it.

    With a small error, the step stays within the drive's range. With a large error, a heater at the end of its range
    may wrap by a whole turn, which adds an error in proportion to the error of its efficiency.
    """
    step, predicted = damped_step(slope, error, damping)
    if np.sqrt(np.mean(error**2)) > WRAP_ERROR:
        return step, predicted**2
    held = np.zeros(phase.size, dtype=bool)
    for _ in range(phase.size):
        out_of_range = (phase + step < 0.0) | (phase + step > highest)
        if not (out_of_range & ~held).any():
            break
        held |= out_of_range
        step, predicted = damped_step(np.where(held, 0.0, slope), error, damping)
    return step, predicted**2


def wrapped_into_range(heaters: HeaterModel, turn_rad: Floats, phase: Floats) -> Floats:
    """Return (H,) design phases, shifted by a whole turn if they are outside the range of the drive."""
    full_turn = np.where(np.isfinite(turn_rad), turn_rad, np.inf)
    up = np.where(phase < 0.0, np.where(np.isfinite(full_turn), phase + full_turn, 0.0), phase)
    down = np.where(up > heaters.highest_phase(turn_rad), up - full_turn, up)
    return np.maximum(down, 0.0)


def round_to_codes(
    laboratory: BenchProtocol, heaters: HeaterModel, turn_rad: Floats, state: MeasuredSetting
) -> MeasuredSetting:
    """Optimise the DAC codes of all heaters jointly, in whole steps, until no layer improves.

    Without a DAC step, the setting stays unchanged.
    """
    if heaters.step_v == 0.0:
        return state
    for _ in range(ROUNDINGS):
        before = state.sizes
        slopes = measure_jacobians(laboratory, heaters, turn_rad, state, np.arange(len(state.layers)))
        moves = rounding_moves(heaters, state, slopes, state.error)
        state = _improved_layers(laboratory, heaters, state, moves)
        if np.all(state.sizes > ROUNDING_GAIN * before):
            break
    return state


def rounding_moves(
    heaters: HeaterModel, state: MeasuredSetting, slopes: Sequence[Floats], errors: Sequence[Floats]
) -> Floats:
    """Return (H,) whole steps of the heaters that reduce the errors of each layer, see :func:`nearest_moves`."""
    per_step = heaters.phases_per_step(state.voltage_v)
    moves = np.zeros_like(per_step)
    for layer, slope, error in zip(state.layers, slopes, errors, strict=True):
        moves[layer.heaters] = nearest_moves(slope, error, per_step[layer.heaters])
    return moves


def _improved_layers(
    laboratory: BenchProtocol, heaters: HeaterModel, state: MeasuredSetting, moves: Floats
) -> MeasuredSetting:
    """Return the setting after the moves of those layers that improve."""

    def moved() -> MeasuredSetting:
        voltage_v = heaters.quantise(state.voltage_v + moves * heaters.step_v)
        return measure_setting(laboratory, state.layers, heaters, voltage_v)

    trial = moved()
    worse = np.flatnonzero(trial.sizes >= state.sizes)
    for i in worse.tolist():
        moves[state.layers[i].heaters] = 0.0
    if not worse.size:
        return trial
    again = moved()
    return again if np.sum(again.sizes) < np.sum(state.sizes) else state


def nearest_moves(slope: Floats, error: Floats, per_step: Floats) -> Floats:
    """Find (heaters,) whole steps of a layer's heaters with a small error, within the range of the Jacobian.

    Args:
        slope: (entries, heaters) derivatives of the errors by design phases in rad.
        error: (entries,) errors.
        per_step: (heaters,) change of each design phase per DAC step.
    """
    effect = slope * per_step
    damping = LEAST_DAMPING
    while damping < MOST_DAMPING:
        moves = integer_steps(effect.T @ effect, effect.T @ error, damping)
        if np.all(np.abs(moves * per_step) <= np.maximum(MAX_CHANGE_RAD, MAX_CHANGE_STEPS * per_step)):
            return moves
        damping *= MORE_DAMPING
    return np.zeros_like(per_step)


def integer_steps(normal: Floats, slope: Floats, damping: float) -> Floats:
    """Find (n,) integers z for which zᵀ normal z / 2 + slopeᵀ z is small, with Babai's nearest plane algorithm.

    Args:
        normal: (n, n) symmetric positive semidefinite matrix.
        slope: (n,) derivative at z = 0.
        damping: Cost of z² relative to the mean of the diagonal of ``normal``.
    """
    mean = float(np.trace(normal)) / max(len(normal), 1)
    if mean == 0.0:
        return np.zeros(len(normal))
    order = np.argsort(np.diagonal(normal), kind="stable")
    upper = np.linalg.cholesky(normal[np.ix_(order, order)] + damping * mean * np.eye(order.size)).T
    real_steps = -np.linalg.solve(upper.T, slope[order])
    ordered_steps = np.zeros(order.size)
    for k in range(order.size - 1, -1, -1):
        ordered_steps[k] = np.rint((real_steps[k] - upper[k, k + 1 :] @ ordered_steps[k + 1 :]) / upper[k, k])
    steps = np.zeros(order.size)
    steps[order] = ordered_steps
    return steps


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
    restarts: int = RESTARTS,
) -> MeasuredSetting:
    """Optimise all layers from (H,) voltages until errors are small enough or stop improving; return the best setting.

    Tuning ends when every whole layer has reached ``TOLERANCE`` and every part of a layer ``SUFFICIENT_PART``. Each
    layer that is stuck is restarted at random up to a number of times.
    """
    search = _Search(laboratory, layers, heaters, turn_rad, voltage_v)
    search.run(restarts)
    # each layer's best setting was measured with other settings, and other crosstalk, of the remaining layers
    search.recall()
    search.run(0)
    return search.state


class _Search:
    """State of the optimisation, with the best setting of every layer so far."""

    def __init__(
        self,
        laboratory: BenchProtocol,
        layers: tuple[BenchLayer, ...],
        heaters: HeaterModel,
        turn_rad: Floats,
        voltage_v: Floats,
    ) -> None:
        self.laboratory, self.layers, self.heaters, self.turn_rad = laboratory, layers, heaters, turn_rad
        self.state = self._measured(voltage_v, with_adjustable_shifts(layers, heaters, voltage_v))
        count = len(layers)
        self.slopes = [np.zeros((0, 0))] * count
        # rms errors that the rounding of voltages causes, once they are known
        self.rounding = np.zeros(count)
        self.history = [self.state.sizes]
        self.best = np.full(count, np.inf)
        self.voltage_v = voltage_v.copy()
        self.random = np.random.default_rng(0)
        self._keep_best()

    def _measured(self, voltage_v: Floats, layers: tuple[BenchLayer, ...] | None = None) -> MeasuredSetting:
        return measure_setting(self.laboratory, layers or self.state.layers, self.heaters, voltage_v)

    def _after(self, steps: Floats) -> MeasuredSetting:
        """Measure the setting after (H,) steps of the design phases."""
        phase = self.heaters.phases(self.state.voltage_v)
        return self._measured(stepped_voltages(self.heaters, self.turn_rad, self.state, phase, steps))

    def run(self, restarts: int) -> None:
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

    def recall(self) -> None:
        """Return to the best setting of every layer and measure it."""
        self.state = self._measured(self.voltage_v.copy())
        self.history.append(self.state.sizes)

    def _round(self, active: Ints, damping: Damping) -> None:
        """Measure new Jacobians and take steps with them."""
        voltage_v, heaters = self.state.voltage_v, self.heaters
        self.state = self._measured(voltage_v, with_adjustable_shifts(self.layers, heaters, voltage_v))
        measured = measure_jacobians(self.laboratory, heaters, self.turn_rad, self.state, active)
        per_step = heaters.phases_per_step(voltage_v)
        for i, slope in zip(active.tolist(), measured, strict=True):
            layer, self.slopes[i] = self.state.layers[i], slope
            # errors of independent rounding are uniformly distributed over a step
            self.rounding[i] = rms_matrix_error(layer, slope * per_step[layer.heaters] / np.sqrt(12.0))
        damping.value[:] = np.minimum(damping.value, MAX_INITIAL_DAMPING)
        damping.growth[:] = 2.0
        idle = 0
        for _ in range(STEPS):
            before = self.state.sizes
            self.state = self._stepped(active, damping)
            self._keep_best()
            idle = idle + 1 if np.all(self.state.sizes[active] > WORTHWHILE * before[active]) else 0
            if idle == MAX_IDLE_STEPS:
                break
        self.history.append(self.state.sizes)

    def _stepped(self, active: Ints, damping: Damping) -> MeasuredSetting:
        """Take one Levenberg–Marquardt step of the active layers; update Jacobians (Broyden's method) and damping.

        The heaters of a layer whose error grows return to their phases before the step.
        """
        state, slopes = self.state, self.slopes
        phase, highest = self.heaters.phases(state.voltage_v), self.heaters.highest_phase(self.turn_rad)
        steps = np.zeros_like(phase)
        cost = np.array([np.mean(error**2) for error in state.error])
        predicted = cost.copy()
        for i in active.tolist():
            own = state.layers[i].heaters
            factor = float(damping.value[i])
            steps[own], predicted[i] = _step(slopes[i], state.error[i], factor, phase[own], highest[own])
        trial = self._after(steps)
        trial_cost = np.array([np.mean(error**2) for error in trial.error])
        damping.update(active, cost - trial_cost, cost - predicted)
        for i in active.tolist():
            step = steps[state.layers[i].heaters]
            residual = trial.error[i] - state.error[i] - slopes[i] @ step
            slopes[i] = slopes[i] + np.outer(residual, step) / max(float(step @ step), np.finfo(np.float64).tiny)
        worse = active[trial_cost[active] >= cost[active]]
        if not worse.size:
            return trial
        if worse.size == active.size:
            return state
        for i in worse.tolist():
            steps[state.layers[i].heaters] = 0.0
        return self._after(steps)

    def _perturb(self, stuck: Ints) -> None:
        """Perturb the heaters of stuck layers at random."""
        steps = np.zeros_like(self.state.voltage_v)
        for i in stuck.tolist():
            own = self.state.layers[i].heaters
            steps[own] = RESTART_RAD * self.random.standard_normal(own.size)
        self.state = self._after(steps)
        self.history.append(self.state.sizes)

    def _keep_best(self) -> None:
        sizes = self.state.sizes
        for i in np.flatnonzero(sizes < self.best).tolist():
            own = self.state.layers[i].heaters
            self.best[i], self.voltage_v[own] = sizes[i], self.state.voltage_v[own]
