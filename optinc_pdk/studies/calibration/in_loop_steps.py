"""Building blocks of in-loop optimisation: measured Jacobians and steps within the range of the drive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.simulate.programming.phase_fit import Damping, damped_step
from optinc_pdk.studies.calibration.heater_model import HeaterModel, parallel_heater_groups
from optinc_pdk.studies.calibration.measurement import (
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


@dataclass(frozen=True, eq=False)
class MeasuredSetting:
    """Voltages of all heaters with the matrix errors measured at these voltages.

    Attributes:
        voltage_v: (H,) voltages.
        layers: The layers.
        error: For each layer, (entries,) matrix errors, see :func:`measurement.matrix_errors`.
    """

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
    """Return the (H,) voltages that shift the phases of some heaters by the same angle.

    The other heaters compensate for thermal crosstalk of the shift. A heater stays unchanged if its DAC step is coarser
    than the crosstalk, because rounding would cause a larger error.

    Args:
        shifted: Indices of the heaters to shift.
        heaters: Design model of the heaters.
        voltage_v: (H,) voltages to start from.
        angle: Phase shift in rad.
    """
    rise = heaters.rise_ohm @ heaters.currents(voltage_v)
    phase = heaters.phases_at_rise(voltage_v, rise)
    change = np.zeros_like(phase)
    change[shifted] = angle
    crosstalk = heaters.crosstalk @ change
    finely_adjustable = (
        np.abs(heaters.phases_at_rise(voltage_v + heaters.step_v, rise) - phase) < np.abs(crosstalk) / 2.0
    )
    finely_adjustable[shifted] = True
    return np.where(
        finely_adjustable, heaters.quantise(heaters.voltages_at_rise(phase + change - crosstalk, rise)), voltage_v
    )


def with_adjustable_shifts(
    layers: tuple[BenchLayer, ...], heaters: HeaterModel, voltage_v: Floats
) -> tuple[BenchLayer, ...]:
    """Restrict the shifted sources of layers to those whose heaters can reduce their phase.

    At least one source of each layer stays unshifted.

    Args:
        layers: The layers with all of their shift heaters.
        heaters: Design model of the heaters.
        voltage_v: (H,) voltages.
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
    """Measure the Jacobian of the matrix errors of each active layer by finite differences.

    Args:
        laboratory: The bench.
        heaters: Design model of the heaters.
        turn_rad: (H,) design phase that causes a real phase of 2π; NaN for heaters without effect.
        state: The setting at which the Jacobians are measured.
        active: Indices of the layers.

    Returns:
        For each active layer, (entries, heaters) derivatives by the design phases of its heaters in rad; 0 for heaters
        without effect.
    """
    layers = [state.layers[i] for i in active.tolist()]
    rise = heaters.rise_ohm @ heaters.currents(state.voltage_v)
    phase = heaters.phases_at_rise(state.voltage_v, rise)
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
    errors = [
        [matrix_errors(layer, response) for layer, response in zip(layers, row, strict=True)] for row in responses
    ]
    slopes = []
    for i, layer in enumerate(layers):
        effect = np.stack([row[i] - errors[0][i] for row in errors[1 : 1 + layer.heaters.size]], axis=1)
        layer_change = change[layer.heaters]
        slopes.append(
            np.divide(
                effect, layer_change, out=np.zeros_like(effect), where=np.isfinite(layer_change) & (layer_change != 0.0)
            )
        )
    return slopes


def measure_in_batches(
    laboratory: BenchProtocol, layers: Sequence[BenchLayer], settings: list[Floats]
) -> list[list[LayerResponse]]:
    """Measure layers at many settings in batches, with the sources of all layers on at the same time.

    Args:
        laboratory: The bench.
        layers: The layers.
        settings: (H,) heater voltages of each setting.

    Returns:
        For each setting, the response of each layer.
    """
    batches = (np.array(settings[first : first + BATCH]) for first in range(0, len(settings), BATCH))
    return [row for batch in batches for row in measure_layers_at_once(laboratory, layers, batch)]


def perturbed_voltages(heaters: HeaterModel, turn_rad: Floats, phase: Floats, rise_v: Floats) -> Floats:
    """Return the (H,) voltages that perturb each heater's phase: upwards, or downwards at the upper end of its range.

    Each voltage is meant for a change of this heater alone.

    Args:
        heaters: Design model of the heaters.
        turn_rad: (H,) design phase that causes a real phase of 2π; NaN for heaters without effect.
        phase: (H,) design phases before the perturbation.
        rise_v: (H,) ground voltages.
    """
    perturbed_phase = phase + PERTURBATION_RAD
    voltage = heaters.voltages_at_rise(perturbed_phase, rise_v)
    amount = np.maximum(
        PERTURBATION_RAD,
        MIN_PERTURBATION_STEPS * np.abs(heaters.phases_at_rise(voltage + heaters.step_v, rise_v) - perturbed_phase),
    )
    fits_above = phase + amount < heaters.highest_phase(turn_rad)
    return heaters.quantise(heaters.voltages_at_rise(np.where(fits_above, phase + amount, phase - amount), rise_v))


def damped_tuning_step(
    laboratory: BenchProtocol,
    heaters: HeaterModel,
    turn_rad: Floats,
    state: MeasuredSetting,
    active: Ints,
    slopes: list[Floats],
    damping: Damping,
) -> MeasuredSetting:
    """Take one Levenberg–Marquardt step of the active layers, and measure the result.

    The heaters of a layer whose error grows return to their phases before the step.

    Args:
        laboratory: The bench.
        heaters: Design model of the heaters.
        turn_rad: (H,) design phase that causes a real phase of 2π; NaN for heaters without effect.
        state: The setting to start from.
        active: Indices of the layers to change.
        slopes: For each layer, its Jacobian; updated in place by Broyden's method.
        damping: Damping of each layer; updated in place.

    Returns:
        The setting after the step.
    """
    phase = heaters.phases(state.voltage_v)
    highest = heaters.highest_phase(turn_rad)
    steps = np.zeros_like(phase)
    cost = np.array([np.mean(error**2) for error in state.error])
    predicted = cost.copy()
    for i in active.tolist():
        layer_heaters = state.layers[i].heaters
        steps[layer_heaters], predicted[i] = _step(
            slopes[i], state.error[i], float(damping.value[i]), phase[layer_heaters], highest[layer_heaters]
        )
    trial = measure_setting(laboratory, state.layers, heaters, stepped_voltages(heaters, turn_rad, state, phase, steps))
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
    return measure_setting(laboratory, state.layers, heaters, stepped_voltages(heaters, turn_rad, state, phase, steps))


def stepped_voltages(
    heaters: HeaterModel, turn_rad: Floats, state: MeasuredSetting, phase: Floats, steps: Floats
) -> Floats:
    """Return the (H,) voltages after steps of the design phases, with compensation of thermal crosstalk.

    Crosstalk between heaters of one layer is part of the measured Jacobian and is not compensated. Crosstalk between
    layers and crosstalk of whole turns is compensated.

    Args:
        heaters: Design model of the heaters.
        turn_rad: (H,) design phase that causes a real phase of 2π; NaN for heaters without effect.
        state: The setting to start from, for the heaters of its layers.
        phase: (H,) design phases to start from.
        steps: (H,) steps of the design phases in rad.
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
    """Return (H,) design phases, shifted by a whole turn if they are outside the range of the drive.

    Args:
        heaters: Design model of the heaters.
        turn_rad: (H,) design phase that causes a real phase of 2π; NaN for heaters without effect.
        phase: (H,) design phases.
    """
    full_turn = np.where(np.isfinite(turn_rad), turn_rad, np.inf)
    up = np.where(phase < 0.0, np.where(np.isfinite(full_turn), phase + full_turn, 0.0), phase)
    down = np.where(up > heaters.highest_phase(turn_rad), up - full_turn, up)
    return np.maximum(down, 0.0)
