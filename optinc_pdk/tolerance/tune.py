"""Tuning with the chip in the loop: Levenberg–Marquardt on measured errors, with measured derivatives.

Every heater is moved a little and all layers are read again, one heater of every layer at a time; a few steps then
share these derivatives, which Broyden's update keeps in line with what the steps really did. Nothing of the chip's
insides has to be known for that, and crosstalk between a layer's heaters is part of what is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.simulate.fit import FIRST_DAMPING, Damping, damped_step
from optinc_pdk.tolerance.measure import (
    TURN_RAD,
    Laboratory,
    Layer,
    Seen,
    deviation,
    measure,
    overlap,
    size,
    survey,
    with_quadrature,
)
from optinc_pdk.tolerance.model import Heaters, side_by_side

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Progress = Callable[[str, float], None]

ROUNDS = 60
STEPS = 8
"""Steps that share measured derivatives, at most."""
WORTHWHILE, IDLE = 0.9, 3
"""Steps in a row that leave more of every layer's error are the last with these derivatives."""
MOST_DAMPING = 0.1
"""With fresh derivatives, damping starts at no more."""
TOLERANCE = 1e-5
"""Rms matrix error over the 2-norm at which a layer is done."""
GAIN = 0.9
"""A round that leaves more of a layer's error is a poor one."""
PATIENCE = 3
"""Poor rounds in a row after which a layer is left as it is."""
STUCK = 3e-4
"""Error above which a layer that gets no better is stirred."""
STIR_RAD = 0.3
RESTARTS = 5
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


@dataclass(frozen=True, eq=False)
class Tuning:
    """Where tuning ended and how it got there.

    Attributes:
        state: The best setting.
        slopes: Per layer, (entries, heaters) the last measured derivatives, per designed phase.
        history: (rounds + 1, layers) rms errors.
    """

    state: State
    slopes: tuple[Floats, ...]
    history: Floats


def look(laboratory: Laboratory, layers: tuple[Layer, ...], heaters: Heaters, voltage_v: Floats) -> State:
    """Measure a setting."""
    seen = measure(laboratory, layers, voltage_v)
    last = layers[-1]
    if last.turners.size:
        ahead, behind = (
            measure(laboratory, (last,), turned(last, heaters, voltage_v, angle))[0] for angle in (TURN_RAD, -TURN_RAD)
        )
        seen[-1] = with_quadrature(last, seen[-1], ahead, behind)
    return State(voltage_v, layers, tuple(deviation(layer, one) for layer, one in zip(layers, seen, strict=True)))


def turned(layer: Layer, heaters: Heaters, voltage_v: Floats, angle: float) -> Floats:
    """(H,) voltages that turn some sources of a layer; all others stay, for rounding them anew would turn more."""
    rise = heaters.rise_ohm @ heaters.currents(voltage_v)
    wanted = heaters.alone(voltage_v, rise) + angle
    moved = voltage_v.copy()
    moved[layer.turners] = heaters.rounded(heaters.voltages_alone(wanted, rise))[layer.turners]
    return moved


def armed(layers: tuple[Layer, ...], every: Layer, heaters: Heaters, voltage_v: Floats) -> tuple[Layer, ...]:
    """Layers whose last one turns the sources that have room for it in their heaters' range; at least one stays."""
    if not every.turners.size:
        return layers
    phase = heaters.phases(voltage_v)[every.turners]
    room = np.flatnonzero(phase > TURN_RAD)
    if room.size == every.sources.size:
        room = room[:-1]
    return (*layers[:-1], replace(every, turners=every.turners[room], turned=every.turned[room]))


def aligned(laboratory: Laboratory, layers: tuple[Layer, ...], heaters: Heaters, voltage_v: Floats) -> Floats:
    """(H,) voltages with local oscillators turned so that every pair of detectors adds the most to its wanted row.

    What an oscillator's heater does to its own detectors is a sinusoid, so three settings of all of them tell it.
    """
    phase = heaters.phases(voltage_v)
    mine = [layer for layer in layers if layer.oscillators.size]
    angles = 2.0 * np.pi / 3.0 * np.arange(3)
    overlaps: list[list[Floats]] = []
    for angle in angles.tolist():
        setting = phase.copy()
        for layer in mine:
            setting[layer.oscillators] = angle
        seen = measure(laboratory, layers, heaters.voltages(setting))
        overlaps.append([overlap(layer, seen[layer.target.index]) for layer in mine])
    for i, layer in enumerate(mine):
        wave = np.exp(1j * angles) @ np.stack([row[i] for row in overlaps])
        phase[layer.oscillators] = np.angle(wave) % (2.0 * np.pi)
    return heaters.voltages(phase)


def tune(
    laboratory: Laboratory,
    layers: tuple[Layer, ...],
    heaters: Heaters,
    turn_rad: Floats,
    voltage_v: Floats,
    progress: Progress | None = None,
) -> Tuning:
    """Correct all layers' phases until they are right to TOLERANCE or get no better.

    Args:
        laboratory: The bench.
        layers: The layers.
        heaters: The heaters as designed.
        turn_rad: (H,) designed phase that turns a heater's light once; NaN where a heater has no effect.
        voltage_v: (H,) where to start.
        progress: Called after every round with what is done and the worst layer's error.
    """
    ready = armed(layers, layers[-1], heaters, voltage_v)
    state = look(laboratory, ready, heaters, voltage_v)
    search = _Search(laboratory, heaters, turn_rad, state, layers[-1])
    search.run(RESTARTS, progress)
    search.recall()
    search.run(0, progress)
    search.recall()
    return Tuning(search.state, tuple(search.slopes), np.array(search.history))


class _Search:
    """Rounds of steps, and the best of every layer on the way."""

    def __init__(
        self, laboratory: Laboratory, heaters: Heaters, turn_rad: Floats, state: State, last: Layer
    ) -> None:
        count = len(state.layers)
        self.laboratory, self.heaters, self.turn_rad = laboratory, heaters, turn_rad
        self.state, self.last = state, last
        self.slopes = [np.zeros((0, 0))] * count
        self.history = [state.sizes]
        self.best = np.full(count, np.inf)
        self.voltage_v = state.voltage_v.copy()
        self.random = np.random.default_rng(0)
        self._remember()

    def run(self, restarts: int, progress: Progress | None) -> None:
        """Rounds until every layer is right or gets no better, from so many other places too."""
        count = len(self.state.layers)
        damping = Damping(np.full(count, FIRST_DAMPING), np.full(count, 2.0))
        poor, left = np.zeros(count, dtype=np.int64), np.full(count, restarts)
        for _ in range(ROUNDS):
            sizes = self.history[-1]
            stuck = np.flatnonzero((poor >= PATIENCE) & (sizes > STUCK) & (self.best > STUCK) & (left > 0))
            if stuck.size:
                self._stir(stuck)
                damping.value[stuck] = FIRST_DAMPING
                poor[stuck], left[stuck] = 0, left[stuck] - 1
            active = np.flatnonzero((self.history[-1] > TOLERANCE) & (poor < PATIENCE))
            if not active.size:
                return
            self._round(active, damping)
            poor = np.where(self.history[-1] > GAIN * self.history[-2], poor + 1, 0)
            if progress is not None:
                progress("tune", float(self.history[-1].max()))

    def recall(self) -> None:
        """Every layer as it was at its best."""
        self.state = look(self.laboratory, self.state.layers, self.heaters, self.voltage_v.copy())
        self.history.append(self.state.sizes)

    def _round(self, active: Ints, damping: Damping) -> None:
        """New derivatives, and the steps they are good for."""
        layers = armed(self.state.layers, self.last, self.heaters, self.state.voltage_v)
        self.state = look(self.laboratory, layers, self.heaters, self.state.voltage_v)
        measured = derivatives(self.laboratory, self.heaters, self.turn_rad, self.state, active)
        for i, slope in zip(active.tolist(), measured, strict=True):
            self.slopes[i] = slope
        damping.value[:] = np.minimum(damping.value, MOST_DAMPING)
        damping.growth[:] = 2.0
        idle = 0
        for _ in range(STEPS):
            before = self.state.sizes
            self.state = _advance(
                self.laboratory, self.heaters, self.turn_rad, self.state, active, self.slopes, damping
            )
            self._remember()
            idle = idle + 1 if np.all(self.state.sizes[active] > WORTHWHILE * before[active]) else 0
            if idle == IDLE:
                break
        self.history.append(self.state.sizes)

    def _stir(self, stuck: Ints) -> None:
        """Move the heaters of layers that are stuck, at random."""
        steps = np.zeros_like(self.state.voltage_v)
        for i in stuck.tolist():
            mine = self.state.layers[i].heaters
            steps[mine] = STIR_RAD * self.random.standard_normal(mine.size)
        phase = self.heaters.phases(self.state.voltage_v)
        moved = _moved(self.heaters, self.turn_rad, self.state, phase, steps)
        self.state = look(self.laboratory, self.state.layers, self.heaters, moved)
        self.history.append(self.state.sizes)

    def _remember(self) -> None:
        sizes = self.state.sizes
        for i in np.flatnonzero(sizes < self.best).tolist():
            mine = self.state.layers[i].heaters
            self.best[i], self.voltage_v[mine] = sizes[i], self.state.voltage_v[mine]


def derivatives(
    laboratory: Laboratory, heaters: Heaters, turn_rad: Floats, state: State, active: Ints
) -> list[Floats]:
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
    seen = [list(row) for row in _survey(laboratory, layers, settings)]
    last = layers[-1]
    if last.turners.size:
        # as if turned sources alone were moved on: their voltages change by as much in every setting
        change_v = turned(last, heaters, state.voltage_v, TURN_RAD) - state.voltage_v
        ahead = _survey(laboratory, [last], [one + change_v for one in settings[: 1 + last.heaters.size]])
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


def _survey(laboratory: Laboratory, layers: Sequence[Layer], settings: list[Floats]) -> list[list[Seen]]:
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


def _advance(
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
    tried = look(laboratory, state.layers, heaters, _moved(heaters, turn_rad, state, phase, steps))
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
    return look(laboratory, state.layers, heaters, _moved(heaters, turn_rad, state, phase, steps))


def _moved(heaters: Heaters, turn_rad: Floats, state: State, phase: Floats, steps: Floats) -> Floats:
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
