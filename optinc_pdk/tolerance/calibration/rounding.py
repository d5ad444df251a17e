"""Codes of the drive, chosen together: what one heater's rounding does wrong, others' roundings make good.

A layer has more heaters than errors. Rounded one after the other, those with the coarsest effect first, every heater's
rounding is made good by all that are still free (Babai's nearest plane, Combinatorica 6, 1 (1986)), so that only the
finest ones leave an error.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.tolerance.calibration.measure import Laboratory
from optinc_pdk.tolerance.calibration.model import Heaters
from optinc_pdk.tolerance.calibration.steps import State, derivatives, look

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROUNDS = 4
FARTHEST_RAD = 0.03
"""Derivatives are good for changes up to this."""
FARTHEST_STEPS = 2.0
"""Coarse drives may take so many steps, which is farther."""
GAIN = 0.9
"""A round that leaves more of every layer's error is the last."""
FIRST_DAMPING, MORE_DAMPING, MOST_DAMPING = 1e-4, 10.0, 1e6


def settle(laboratory: Laboratory, heaters: Heaters, turn_rad: Floats, state: State) -> State:
    """Move heaters by whole steps of their drive until no layer gets better.

    Args:
        laboratory: The bench; a drive without steps has nothing to choose.
        heaters: The heaters as designed.
        turn_rad: (H,) designed phase that turns a heater's light once; NaN where a heater has no effect.
        state: Where to start.
    """
    if heaters.step_v == 0.0:
        return state
    active = np.arange(len(state.layers))
    for _ in range(ROUNDS):
        before = state.sizes
        slopes = derivatives(laboratory, heaters, turn_rad, state, active)
        rise = heaters.rise_ohm @ heaters.currents(state.voltage_v)
        phase = heaters.alone(state.voltage_v, rise)
        per_step = heaters.alone(state.voltage_v + heaters.step_v, rise) - phase
        moves = np.zeros_like(phase)
        for layer, slope, error in zip(state.layers, slopes, state.error, strict=True):
            moves[layer.heaters] = _moves(slope, error, per_step[layer.heaters])
        state = _kept(laboratory, heaters, state, moves)
        if np.all(state.sizes > GAIN * before):
            break
    return state


def _kept(laboratory: Laboratory, heaters: Heaters, state: State, moves: Floats) -> State:
    """The setting after the moves of those layers that get better by them."""
    tried = look(laboratory, state.layers, heaters, heaters.rounded(state.voltage_v + moves * heaters.step_v))
    worse = np.flatnonzero(tried.sizes >= state.sizes)
    for i in worse.tolist():
        moves[state.layers[i].heaters] = 0.0
    if not worse.size:
        return tried
    again = look(laboratory, state.layers, heaters, heaters.rounded(state.voltage_v + moves * heaters.step_v))
    return again if np.sum(again.sizes) < np.sum(state.sizes) else state


def _moves(slope: Floats, error: Floats, per_step: Floats) -> Floats:
    """(heaters,) whole steps that leave the least error, none of which goes far."""
    effect = slope * per_step
    damping = FIRST_DAMPING
    while damping < MOST_DAMPING:
        moves = nearest_plane(effect, error, damping)
        if np.all(np.abs(moves * per_step) <= np.maximum(FARTHEST_RAD, FARTHEST_STEPS * per_step)):
            return moves
        damping *= MORE_DAMPING
    return np.zeros_like(per_step)


def nearest_plane(effect: Floats, error: Floats, damping: float) -> Floats:
    """(n,) whole numbers z for which error + effect z is small, by Babai's nearest plane.

    Args:
        effect: (m, n) what a step of each does to the errors.
        error: (m,) errors.
        damping: What z² costs, over the mean square effect of a step.
    """
    return whole_steps(effect.T @ effect, effect.T @ error, damping)


def whole_steps(normal: Floats, slope: Floats, damping: float) -> Floats:
    """(n,) whole numbers z for which zᵀ normal z / 2 + slope z is small, the same from normal equations.

    Args:
        normal: (n, n) symmetric, without negative eigenvalues.
        slope: (n,) derivative at z = 0.
        damping: What z² costs, over the mean of the diagonal.
    """
    mean = float(np.trace(normal)) / max(len(normal), 1)
    if mean == 0.0:
        return np.zeros(len(normal))
    order = np.argsort(np.diagonal(normal), kind="stable")
    upper = np.linalg.cholesky(normal[np.ix_(order, order)] + damping * mean * np.eye(order.size)).T
    wanted = -np.linalg.solve(upper.T, slope[order])
    whole = np.zeros(order.size)
    for k in range(order.size - 1, -1, -1):
        whole[k] = np.rint((wanted[k] - upper[k, k + 1 :] @ whole[k + 1 :]) / upper[k, k])
    found = np.zeros(order.size)
    found[order] = whole
    return found
