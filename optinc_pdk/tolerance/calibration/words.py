"""The last stage: phases, gains, offsets and scales tuned together against the words that the servers read.

A layer's matrix error counts here as much as the words see of it. Steps are damped least squares over a sample of the
lattice (Levenberg–Marquardt), towards the outputs of the network, whose margin is the goal; those of the heaters go by
whole steps of their drive. A step is kept where the words, read through the whole chip, come nearer, and what is handed
back is the setting that missed the fewest symbols, with the most margin among those.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import Process
from optinc_pdk.simulate.electronics import significant
from optinc_pdk.tolerance.calibration.effects import Effects, linearised, measured
from optinc_pdk.tolerance.calibration.measure import Laboratory, Layer
from optinc_pdk.tolerance.calibration.model import Heaters
from optinc_pdk.tolerance.calibration.rounding import FARTHEST_RAD, FARTHEST_STEPS, whole_steps
from optinc_pdk.tolerance.calibration.through import Electronics, Passage, Words, play

Floats = NDArray[np.float64]

ROUNDS = 20
TRIES = 5
"""Dampings that are tried with fresh effects; if none helps, nothing is left to gain."""
FIRST_DAMPING, DAMPING_FACTOR, LEAST_DAMPING, MOST_DAMPING = 1e-3, 10.0, 1e-6, 1e8
USEFUL = 0.7
"""Effects are measured anew after a step that leaves more of the error."""
DONE = 0.003
"""Rms error in levels, against the network's outputs, at which words are done."""
GAIN = 0.99
"""With fresh effects, such a step is the last."""
MOST_CHANGE = 0.3
"""Logarithm by which a gain or scale changes in one step, at most."""
RIDGE = 1e-9
"""What keeps electronics without effect as they are, over the mean effect of all."""


@dataclass(frozen=True, eq=False)
class Place:
    """Where words are tuned.

    Attributes:
        laboratory: The bench.
        heaters: The heaters as designed.
        layers: The layers.
        process: Process of the cards.
        words: What the servers send.
    """

    laboratory: Laboratory
    heaters: Heaters
    layers: tuple[Layer, ...]
    process: Process
    words: Words

    def driven(self, voltage_v: Floats, electronics: Electronics) -> Driven:
        """The words as read at a setting."""
        passage = play(self.laboratory, self.layers, electronics, voltage_v, self.words)
        return Driven(voltage_v, electronics, passage)


@dataclass(frozen=True, eq=False)
class Driven:
    """What drives a chip, (H,) voltages and electronics, and what it makes of the words."""

    voltage_v: Floats
    electronics: Electronics
    passage: Passage

    @property
    def rank(self) -> tuple[int, float]:
        """Less is better: symbols missed, then the margin."""
        return self.passage.wrong, -self.passage.margin


def finish(place: Place, voltage_v: Floats, electronics: Electronics) -> Driven:
    """Tune until nothing is gained.

    Args:
        place: The bench and what belongs to it.
        voltage_v: (H,) voltages to start from.
        electronics: Electronics to start from.

    Returns:
        The best on the way: the start at worst.
    """
    now = best = place.driven(voltage_v, electronics)
    damping = FIRST_DAMPING
    for _ in range(ROUNDS):
        start = now.passage.off
        if start <= DONE:
            break
        effects = measured(place.laboratory, place.layers, place.heaters, now.voltage_v, now.electronics)
        while True:
            before = now.passage.off
            now, damping = _advanced(place, now, effects, damping)
            best = min(best, now, key=lambda one: one.rank)
            if not DONE < now.passage.off <= USEFUL * before:
                break
        if now.passage.off > GAIN * start:
            break
    return best


def _advanced(place: Place, now: Driven, effects: Effects, damping: float) -> tuple[Driven, float]:
    """After one step that brings the words nearer, or as before; and the next damping."""
    normal = _Normal.of(*linearised(now.passage, now.electronics, effects), now.voltage_v.size)
    for _ in range(TRIES):
        tried = place.driven(*_step(place, now, effects, normal, damping))
        if tried.passage.off < now.passage.off:
            return tried, max(damping / DAMPING_FACTOR, LEAST_DAMPING)
        damping *= DAMPING_FACTOR
    return now, damping / DAMPING_FACTOR**TRIES


@dataclass(frozen=True, eq=False)
class _Normal:
    """Normal equations of heaters, of electronics and what they share; slopes at no step."""

    heaters: Floats
    shared: Floats
    electronics: Floats
    heater_slope: Floats
    electronic_slope: Floats

    @staticmethod
    def of(error: Floats, jacobian: Floats, heaters: int) -> _Normal:
        """From (n,) errors and (n, heaters + electronics) derivatives."""
        normal, slope = jacobian.T @ jacobian, jacobian.T @ error
        one, other = slice(None, heaters), slice(heaters, None)
        return _Normal(normal[one, one], normal[one, other], normal[other, other], slope[one], slope[other])


def _step(place: Place, now: Driven, effects: Effects, normal: _Normal, damping: float) -> tuple[Floats, Electronics]:
    """Voltages and electronics after one damped step; electronics make good what the heaters' whole steps leave."""
    own = normal.electronics.copy()
    diagonal = np.diag_indices_from(own)
    own[diagonal] = (1.0 + damping) * own[diagonal] + RIDGE * np.trace(own) / len(own)
    made_good = np.linalg.solve(own, np.column_stack([normal.shared.T, normal.electronic_slope]))
    free = normal.heaters - normal.shared @ made_good[:, :-1]
    moves = _moves(place, effects, free, normal.heater_slope - normal.shared @ made_good[:, -1], damping)
    electronics = _changed(now.electronics, -made_good[:, -1] - made_good[:, :-1] @ moves, place.process)
    heaters = place.heaters
    if heaters.step_v:
        return heaters.rounded(now.voltage_v + moves * heaters.step_v), electronics
    phase = heaters.phases(now.voltage_v) + moves * effects.unit_rad
    return heaters.voltages(np.maximum(phase, 0.0)), electronics


def _moves(place: Place, effects: Effects, normal: Floats, slope: Floats, damping: float) -> Floats:
    """(H,) steps of the heaters in their units, whole ones where the drive has steps, none of which goes far."""
    unit = effects.unit_rad
    coarse = FARTHEST_STEPS * unit if place.heaters.step_v else 0.0 * unit
    while damping < MOST_DAMPING:
        if place.heaters.step_v:
            moves = whole_steps(normal, slope, damping)
        else:
            moves = -np.linalg.solve(normal + damping * np.trace(normal) / len(normal) * np.eye(len(normal)), slope)
        if np.all(np.abs(moves * unit) <= np.maximum(FARTHEST_RAD, coarse)):
            return moves
        damping *= DAMPING_FACTOR
    return np.zeros_like(unit)


def _changed(electronics: Electronics, step: Floats, process: Process) -> Electronics:
    """Electronics after a step, within the card's range and as its converters can make them."""
    card = process.activation
    bits, gain_max, offset_max = int(card.resolution_bits), float(card.gain_max), float(card.offset_max)
    sizes = [gain.size for gain in electronics.gain for _ in range(2)]
    parts = np.split(step, np.cumsum(sizes))
    gains = [
        significant(np.minimum(gain * _factor(part), gain_max), bits)
        for gain, part in zip(electronics.gain, parts[:-1:2], strict=True)
    ]
    offsets = [
        offset + np.divide(part, gain, out=np.zeros_like(gain), where=gain > 0.0)
        for offset, gain, part in zip(electronics.offset, electronics.gain, parts[1:-1:2], strict=True)
    ]
    scale = electronics.scale.reshape(-1, parts[-1].size) * _factor(parts[-1])
    return replace(
        electronics,
        gain=tuple(gains),
        offset=tuple(significant(np.clip(offset, -offset_max, offset_max), bits) for offset in offsets),
        scale=significant(scale.reshape(-1), bits),
    )


def _factor(logarithm: Floats) -> Floats:
    return np.asarray(np.exp(np.clip(logarithm, -MOST_CHANGE, MOST_CHANGE)))
