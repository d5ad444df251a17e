"""Tuning with the chip in the loop: Levenberg–Marquardt on measured errors, with measured derivatives.

Every heater is moved a little and all layers are read again, one heater of every layer at a time; a few steps then
share these derivatives, which Broyden's update keeps in line with what the steps really did. Nothing of the chip's
insides has to be known for that, and crosstalk between a layer's heaters is part of what is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.simulate.fit import FIRST_DAMPING, Damping
from optinc_pdk.tolerance.calibration.measure import Laboratory, Layer
from optinc_pdk.tolerance.calibration.model import Heaters
from optinc_pdk.tolerance.calibration.steps import State, advance, armed, derivatives, look, moved

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
STUCK = 1e-3
"""Error above which a layer that gets no better is stirred."""
STIR_RAD = 0.3
RESTARTS = 5


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


def tune(
    laboratory: Laboratory,
    layers: tuple[Layer, ...],
    heaters: Heaters,
    turn_rad: Floats,
    voltage_v: Floats,
    progress: Progress | None = None,
    restarts: int = RESTARTS,
) -> Tuning:
    """Correct all layers' phases until they are right to TOLERANCE or get no better.

    Args:
        laboratory: The bench.
        layers: The layers.
        heaters: The heaters as designed.
        turn_rad: (H,) designed phase that turns a heater's light once; NaN where a heater has no effect.
        voltage_v: (H,) where to start.
        progress: Called after every round with what is done and the worst layer's error.
        restarts: From how many other places a layer that is stuck is tried.
    """
    ready = armed(layers, layers[-1], heaters, voltage_v)
    state = look(laboratory, ready, heaters, voltage_v)
    search = _Search(laboratory, heaters, turn_rad, state, layers[-1])
    search.run(restarts, progress)
    # what was best of each layer was measured beside others of the rest, which warm it otherwise
    search.recall()
    search.run(0, progress)
    return Tuning(search.state, tuple(search.slopes), np.array(search.history))


class _Search:
    """Rounds of steps, and the best of every layer on the way."""

    def __init__(self, laboratory: Laboratory, heaters: Heaters, turn_rad: Floats, state: State, last: Layer) -> None:
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
            self.state = advance(self.laboratory, self.heaters, self.turn_rad, self.state, active, self.slopes, damping)
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
        stirred = moved(self.heaters, self.turn_rad, self.state, phase, steps)
        self.state = look(self.laboratory, self.state.layers, self.heaters, stirred)
        self.history.append(self.state.sizes)

    def _remember(self) -> None:
        sizes = self.state.sizes
        for i in np.flatnonzero(sizes < self.best).tolist():
            mine = self.state.layers[i].heaters
            self.best[i], self.voltage_v[mine] = sizes[i], self.state.voltage_v[mine]
