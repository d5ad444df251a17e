"""Steps towards a network with the chip in the loop: measured derivatives, and where the drive can go with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.simulate.fit import Damping, damped_step
from optinc_pdk.tolerance.calibration.measure import (
    TURN_RAD,
    Laboratory,
    Layer,
    Seen,
    deviation,
    measure,
    size,
    survey,
    with_quadrature,
)
from optinc_pdk.tolerance.calibration.model import Heaters, side_by_side

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FAR = 0.03
"""Rms error above which heaters may go a turn on."""
NUDGE_RAD = 0.03
NUDGE_STEPS = 4.0
"""A heater is moved by so many steps of its drive, if that is more."""
BATCH = 32


@dataclass(frozen=True, eq=False)
class State:
    """A setting and what was measured there.

    Attributes:
        voltage_v: (H,) voltages.
        layers: The layers.
        error: Per layer, (entries,) matrix errors.
    """

    voltage_v: Floats
    layers: tuple[Layer, ...]
    error: tuple[Floats, ...]

    @property
    def sizes(self) -> Floats:
        """(layers,) rms matrix errors over the 2-norm."""
        return np.array([size(layer, error) for layer, error in zip(self.layers, self.error, strict=True)])


def look(laboratory: Laboratory, layers: tuple[Layer, ...], heaters: Heaters, voltage_v: Floats) -> State:
    """Measure a setting."""
    last = layers[-1]
    if not last.turners.size:
        (seen,) = measure(laboratory, layers, voltage_v[np.newaxis])
    else:
        both = [turned(last, heaters, voltage_v, angle) for angle in (TURN_RAD, -TURN_RAD)]
        seen, ahead, behind = measure(laboratory, layers, np.stack([voltage_v, *both]))
        seen[-1] = with_quadrature(last, seen[-1], ahead[-1], behind[-1])
    return State(voltage_v, layers, tuple(deviation(layer, one) for layer, one in zip(layers, seen, strict=True)))


def turned(layer: Layer, heaters: Heaters, voltage_v: Floats, angle: float) -> Floats:
    """(H,) voltages that turn some sources of a layer and make good what that warms others by.

    Others stay where the drive's step is no finer than that: rounding them anew would turn more.
    """
    rise = heaters.rise_ohm @ heaters.currents(voltage_v)
    phase = heaters.alone(voltage_v, rise)
    change = np.zeros_like(phase)
    change[layer.turners] = angle
    warmed = heaters.crosstalk @ change
    fine = np.abs(heaters.alone(voltage_v + heaters.step_v, rise) - phase) < np.abs(warmed) / 2.0
    fine[layer.turners] = True
    return np.where(fine, heaters.rounded(heaters.voltages_alone(phase + change - warmed, rise)), voltage_v)


def armed(layers: tuple[Layer, ...], every: Layer, heaters: Heaters, voltage_v: Floats) -> tuple[Layer, ...]:
    """Layers whose last one turns the sources that have room for it in their heaters' range; at least one stays."""
    if not every.turners.size:
        return layers
    phase = heaters.phases(voltage_v)[every.turners]
    room = np.flatnonzero(phase > TURN_RAD)
    if room.size == every.sources.size:
        room = room[:-1]
    return (*layers[:-1], replace(every, turners=every.turners[room], turned=every.turned[room]))


def derivatives(laboratory: Laboratory, heaters: Heaters, turn_rad: Floats, state: State, active: Ints) -> list[Floats]:
    """Per active layer, (entries, heaters) change of the errors with each heater's designed phase; 0 of broken ones."""
    layers = [state.layers[i] for i in active.tolist()]
    rise = heaters.rise_ohm @ heaters.currents(state.voltage_v)
    phase = heaters.alone(state.voltage_v, rise)
    moved = nudged(heaters, turn_rad, phase, rise)
    change = heaters.alone(moved, rise) - phase
    settings = [state.voltage_v]
    groups = side_by_side(layers)
    for together in groups:
        setting = state.voltage_v.copy()
        setting[together] = moved[together]
        settings.append(setting)
    seen = [list(row) for row in surveyed(laboratory, layers, settings)]
    last = layers[-1]
    if last.turners.size:
        # as if turned sources alone were moved on: their voltages change by as much in every setting
        change_v = turned(last, heaters, state.voltage_v, TURN_RAD) - state.voltage_v
        ahead = surveyed(laboratory, [last], [one + change_v for one in settings[: 1 + last.heaters.size]])
        for row, (one,) in zip(seen, ahead, strict=False):
            row[-1] = with_quadrature(last, row[-1], one)
        seen[1 + last.heaters.size :] = [[*row[:-1], seen[0][-1]] for row in seen[1 + last.heaters.size :]]
    errors = [[deviation(layer, one) for layer, one in zip(layers, row, strict=True)] for row in seen]
    slopes = []
    for i, layer in enumerate(layers):
        effect = np.stack([row[i] - errors[0][i] for row in errors[1 : 1 + layer.heaters.size]], axis=1)
        mine = change[layer.heaters]
        slopes.append(np.divide(effect, mine, out=np.zeros_like(effect), where=np.isfinite(mine) & (mine != 0.0)))
    return slopes


def surveyed(laboratory: Laboratory, layers: Sequence[Layer], settings: list[Floats]) -> list[list[Seen]]:
    """Layers at many settings, not too many at a time."""
    batches = (np.array(settings[first : first + BATCH]) for first in range(0, len(settings), BATCH))
    return [row for batch in batches for row in survey(laboratory, layers, batch)]


def nudged(heaters: Heaters, turn_rad: Floats, phase: Floats, rise_v: Floats) -> Floats:
    """(H,) voltages that move each heater a little, for designed phases; down where there is no room above."""
    fine = phase + NUDGE_RAD
    voltage = heaters.voltages_alone(fine, rise_v)
    wanted = np.maximum(NUDGE_RAD, NUDGE_STEPS * np.abs(heaters.alone(voltage + heaters.step_v, rise_v) - fine))
    up = phase + wanted < heaters.top(turn_rad)
    return heaters.rounded(heaters.voltages_alone(np.where(up, phase + wanted, phase - wanted), rise_v))


def advance(
    laboratory: Laboratory,
    heaters: Heaters,
    turn_rad: Floats,
    state: State,
    active: Ints,
    slopes: list[Floats],
    damping: Damping,
) -> State:
    """One step of the active layers, of which those that got worse go back; slopes and damping follow."""
    phase = heaters.phases(state.voltage_v)
    top = heaters.top(turn_rad)
    steps = np.zeros_like(phase)
    cost = np.array([np.mean(error**2) for error in state.error])
    foretold = cost.copy()
    for i in active.tolist():
        mine = state.layers[i].heaters
        steps[mine], foretold[i] = _step(slopes[i], state.error[i], float(damping.value[i]), phase[mine], top[mine])
    tried = look(laboratory, state.layers, heaters, moved(heaters, turn_rad, state, phase, steps))
    seen = np.array([np.mean(error**2) for error in tried.error])
    damping.update(active, cost - seen, cost - foretold)
    for i in active.tolist():
        step = steps[state.layers[i].heaters]
        surprise = tried.error[i] - state.error[i] - slopes[i] @ step
        slopes[i] = slopes[i] + np.outer(surprise, step) / max(float(step @ step), np.finfo(np.float64).tiny)
    worse = active[seen[active] >= cost[active]]
    if not worse.size:
        return tried
    if worse.size == active.size:
        return state
    for i in worse.tolist():
        steps[state.layers[i].heaters] = 0.0
    return look(laboratory, state.layers, heaters, moved(heaters, turn_rad, state, phase, steps))


def moved(heaters: Heaters, turn_rad: Floats, state: State, phase: Floats, steps: Floats) -> Floats:
    """(H,) voltages after steps of the phases, where heaters make good what others warm them by.

    What heaters of one layer do to each other with their steps is part of the derivatives, what turns do is not.
    """
    turned = within(heaters, turn_rad, phase + steps) - phase - steps
    warmed = heaters.crosstalk @ (turned + steps)
    for layer in state.layers:
        mine = layer.heaters
        warmed[mine] -= heaters.crosstalk[np.ix_(mine, mine)] @ steps[mine]
    return heaters.voltages(within(heaters, turn_rad, phase + steps) - warmed)


def _step(slope: Floats, error: Floats, damping: float, phase: Floats, top: Floats) -> tuple[Floats, float]:
    """A step and the mean square error it should leave; near to the goal it stays within the drive's range.

    Far from it a heater at the end of its range goes on a turn away, which costs an error of its efficiency's.
    """
    step, left = damped_step(slope, error, damping)
    if np.sqrt(np.mean(error**2)) > FAR:
        return step, left**2
    held = np.zeros(phase.size, dtype=bool)
    for _ in range(phase.size):
        out = (phase + step < 0.0) | (phase + step > top)
        if not (out & ~held).any():
            break
        held |= out
        step, left = damped_step(np.where(held, 0.0, slope), error, damping)
    return step, left**2


def within(heaters: Heaters, turn_rad: Floats, phase: Floats) -> Floats:
    """The same phases, by whole turns, where the drive can make them."""
    turn = np.where(np.isfinite(turn_rad), turn_rad, np.inf)
    up = np.where(phase < 0.0, np.where(np.isfinite(turn), phase + turn, 0.0), phase)
    down = np.where(up > heaters.top(turn_rad), up - turn, up)
    return np.maximum(down, 0.0)
