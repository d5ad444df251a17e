"""Joint rounding to DAC codes: the rounding error of one heater is compensated by the codes of others.

A layer has more heaters than errors. Heaters are rounded one after another, those with the coarsest effect first, and
the heaters that are not yet rounded compensate each rounding error (Babai's nearest plane algorithm, Combinatorica 6,
1 (1986)). Only the heaters with the finest effect leave an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.studies.calibration.heater_model import HeaterModel
from optinc_pdk.studies.calibration.in_loop_steps import MeasuredSetting, measure_setting
from optinc_pdk.studies.calibration.measurement import BenchProtocol

ROUNDS = 4
MAX_CHANGE_RAD = 0.03
"""Largest phase change for which the measured Jacobian is used."""
MAX_CHANGE_STEPS = 2.0
"""Largest change in DAC steps, for drives whose steps are so coarse that this is more."""
GAIN = 0.9
"""Rounds end when every layer keeps more than this share of its error."""
FIRST_DAMPING, MORE_DAMPING, MOST_DAMPING = 1e-4, 10.0, 1e6


def round_to_codes(
    laboratory: BenchProtocol,
    heaters: HeaterModel,
    state: MeasuredSetting,
    jacobians: Callable[[MeasuredSetting], Sequence[Floats]],
) -> MeasuredSetting:
    """Optimise the DAC codes of all heaters jointly, in whole steps, until no layer improves.

    Args:
        laboratory: The bench.
        heaters: Design model of the heaters. If its drive has no DAC step, ``state`` is returned unchanged.
        state: The setting to start from.
        jacobians: Returns, for each layer, the (entries, heaters) derivatives of its matrix errors at a setting by the
            design phases of its heaters in rad.

    Returns:
        The improved setting.
    """
    if heaters.step_v == 0.0:
        return state
    for _ in range(ROUNDS):
        before = state.sizes
        slopes = jacobians(state)
        rise = heaters.rise_ohm @ heaters.currents(state.voltage_v)
        phase = heaters.phases_at_rise(state.voltage_v, rise)
        per_step = heaters.phases_at_rise(state.voltage_v + heaters.step_v, rise) - phase
        moves = np.zeros_like(phase)
        for layer, slope, error in zip(state.layers, slopes, state.error, strict=True):
            moves[layer.heaters] = nearest_moves(slope, error, per_step[layer.heaters])
        state = _improved_layers(laboratory, heaters, state, moves)
        if np.all(state.sizes > GAIN * before):
            break
    return state


def _improved_layers(
    laboratory: BenchProtocol, heaters: HeaterModel, state: MeasuredSetting, moves: Floats
) -> MeasuredSetting:
    """Return the setting after the moves of those layers that improve."""
    trial = measure_setting(
        laboratory, state.layers, heaters, heaters.quantise(state.voltage_v + moves * heaters.step_v)
    )
    worse = np.flatnonzero(trial.sizes >= state.sizes)
    for i in worse.tolist():
        moves[state.layers[i].heaters] = 0.0
    if not worse.size:
        return trial
    again = measure_setting(
        laboratory, state.layers, heaters, heaters.quantise(state.voltage_v + moves * heaters.step_v)
    )
    return again if np.sum(again.sizes) < np.sum(state.sizes) else state


def nearest_moves(slope: Floats, error: Floats, per_step: Floats) -> Floats:
    """Find whole steps of a layer's heaters with a small error, within the range of the Jacobian.

    Args:
        slope: (entries, heaters) derivatives of the errors by design phases in rad.
        error: (entries,) errors.
        per_step: (heaters,) change of each design phase per DAC step.

    Returns:
        (heaters,) numbers of steps.
    """
    effect = slope * per_step
    damping = FIRST_DAMPING
    while damping < MOST_DAMPING:
        moves = nearest_plane(effect, error, damping)
        if np.all(np.abs(moves * per_step) <= np.maximum(MAX_CHANGE_RAD, MAX_CHANGE_STEPS * per_step)):
            return moves
        damping *= MORE_DAMPING
    return np.zeros_like(per_step)


def nearest_plane(effect: Floats, error: Floats, damping: float) -> Floats:
    """Find (n,) integers z for which |error + effect z| is small, with Babai's nearest plane algorithm.

    Args:
        effect: (m, n) change of the errors per step of each variable.
        error: (m,) errors.
        damping: Cost of z² relative to the mean square effect of a step.
    """
    return integer_steps(effect.T @ effect, effect.T @ error, damping)


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
