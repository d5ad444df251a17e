"""Heaters as designed and as measured: from voltages to phases, and how far each heater turns its light.

Voltages are set by the design's resistances, grounds and power per π; what a heater really does is fitted to a sweep of
its power: every reading then goes as a + b cos(e x) + c sin(e x) of the designed phase x, with one efficiency e.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.drive import RangeError
from optinc_pdk.simulate.warmth import nominal_crosstalk
from optinc_pdk.tolerance.calibration.measure import Laboratory, Layer, together_lit
from optinc_pdk.tolerance.variation.chip import Chip

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SWEEP = 8
"""Powers of a sweep, from none to that of a designed phase of 2π."""
EFFICIENCIES = np.linspace(0.6, 1.5, 181)
"""What is tried first; the best and its neighbours then give a parabola."""
OVERLAP = 0.05
BROKEN = 1e-5
"""A heater whose sweep moves readings by less than this share of what the median heater does has no effect."""
FAINT = 0.2
"""One below this share moves them too little to tell its own efficiency from its neighbours'."""
UNLIKE = 0.15
"""An efficiency so far from the median is its neighbours' effect, not its own."""
_SETTLED = 1e-12
_ROUNDS = 200


@dataclass(frozen=True, eq=False)
class Heaters:
    """The drive of H heaters, by the design.

    Attributes:
        power_pi_w: (H,) power for a phase of π.
        resistance_ohm: (H,) their resistances.
        wire_ohm: (H,) resistances in series.
        rise_ohm: (H, H) what a heater's ground rises by for the others' currents.
        full_scale_v: Highest voltage.
        step_v: Step of voltages; 0 where they are not rounded.
        crosstalk: (H, H) share of each heater's phase that other heaters' guides get; 0 on the diagonal.
    """

    power_pi_w: Floats
    resistance_ohm: Floats
    wire_ohm: Floats
    rise_ohm: Floats
    full_scale_v: float
    step_v: float
    crosstalk: Floats

    def voltages(self, phase: Floats) -> Floats:
        """(H,) voltages that the drive can make, for designed phases."""
        current = self._making(phase)
        return self.rounded(self.voltages_alone(phase, self.rise_ohm @ current))

    def voltages_alone(self, phase: Floats, rise_v: Floats) -> Floats:
        """Voltages before rounding for designed phases of heaters on grounds at given voltages."""
        current = self._making(phase)
        return np.where(current > 0.0, current * (self.resistance_ohm + self.wire_ohm) + rise_v, 0.0)

    def _making(self, phase: Floats) -> Floats:
        """Currents that make designed phases."""
        current: Floats = np.sqrt(np.maximum(phase, 0.0) * self.power_pi_w / (np.pi * self.resistance_ohm))
        return current

    def top(self, turn_rad: Floats) -> Floats:
        """(H,) the highest designed phase to use: a turn and a little more, so that a bias at a turn may move."""
        return np.where(np.isfinite(turn_rad), (1.0 + OVERLAP) * turn_rad, 2.0 * np.pi)

    def rounded(self, voltage_v: Floats) -> Floats:
        """The nearest voltages that the drive can make."""
        within = np.clip(voltage_v, 0.0, self.full_scale_v)
        if self.step_v == 0.0:
            return within
        rounded: Floats = np.minimum(np.rint(within / self.step_v) * self.step_v, self.full_scale_v)
        return rounded

    def phases(self, voltage_v: Floats) -> Floats:
        """(H,) designed phases of voltages."""
        return self.alone(voltage_v, self.rise_ohm @ self.currents(voltage_v))

    def alone(self, voltage_v: Floats, rise_v: Floats) -> Floats:
        """Designed phases of heaters on grounds at given voltages."""
        current = np.maximum(voltage_v - rise_v, 0.0) / (self.resistance_ohm + self.wire_ohm)
        phase: Floats = np.pi * current**2 * self.resistance_ohm / self.power_pi_w
        return phase

    def currents(self, voltage_v: Floats) -> Floats:
        """(H,) currents; none flows where the ground is above the pad.

        Raises:
            RangeError: Grounds that take as much voltage as heaters.
        """
        current = voltage_v / (self.resistance_ohm + self.wire_ohm)
        for _ in range(_ROUNDS):
            left = np.maximum(voltage_v - self.rise_ohm @ current, 0.0) / (self.resistance_ohm + self.wire_ohm)
            change = float(np.abs(left - current).max(initial=0.0))
            current = left
            if change <= _SETTLED * float(current.max(initial=0.0)):
                return np.asarray(current)
        raise RangeError(f"no currents after {_ROUNDS} rounds: grounds take as much voltage as heaters; widen them")


def heaters_of(chip: Chip, laboratory: Laboratory) -> Heaters:
    """The heaters of a chip as designed, on a bench's drive."""
    return Heaters(
        chip.power_pi_w,
        chip.resistance_ohm,
        chip.wire_ohm,
        chip.rise_ohm,
        laboratory.full_scale_v,
        laboratory.step_v,
        _neighbours(chip),
    )


def _neighbours(chip: Chip) -> Floats:
    """Crosstalk as the card expects it; none where it says nothing."""
    crosstalk, count = nominal_crosstalk(chip.structure, chip.process), chip.power_pi_w.size
    return np.zeros((count, count)) if crosstalk is None else crosstalk.matrix - np.eye(count)


def side_by_side(layers: Sequence[Layer]) -> list[Ints]:
    """Heaters that can be moved at once, for no two of them belong to one layer."""
    longest = max(layer.heaters.size for layer in layers)
    return [np.array([layer.heaters[i] for layer in layers if i < layer.heaters.size]) for i in range(longest)]


def efficiencies(laboratory: Laboratory, layers: Sequence[Layer], heaters: Heaters, voltage_v: Floats) -> Floats:
    """Sweep every heater and fit how far it turns its light.

    Args:
        laboratory: The bench.
        layers: The layers, of which one heater each is swept at a time.
        heaters: The heaters as designed.
        voltage_v: (H,) voltages of the others.

    Returns:
        (H,) real over designed phase, that of the median where readings tell too little; NaN where a heater of a layer
        has no effect.

    Raises:
        RangeError: No heater has any effect.
    """
    places = np.linspace(0.0, 2.0 * np.pi, SWEEP)
    phase = heaters.phases(voltage_v)
    amplitude = together_lit(laboratory, layers)
    moments = np.zeros((voltage_v.size, SWEEP, SWEEP))
    for together in side_by_side(layers):
        # the others follow what the swept heaters raise their grounds by and warm them
        voltages = np.tile(voltage_v, (SWEEP, 1))
        for row, place in zip(voltages, places.tolist(), strict=True):
            swept = phase.copy()
            swept -= heaters.crosstalk[:, together] @ (place - phase[together])
            swept[together] = place
            row[:] = heaters.voltages(swept)
        read = laboratory.read(voltages, amplitude)
        for layer in layers:
            mine = together[np.isin(together, layer.heaters)]
            values = read[:, : len(layer.patterns)][:, :, np.concatenate([layer.plus, layer.minus])]
            moments[mine] = np.tensordot(values, values, axes=((1, 2), (1, 2)))
    used = np.concatenate([layer.heaters for layer in layers])
    effect = _spread(moments)
    middle = float(np.median(effect[used]))
    if not middle > BROKEN * np.sqrt(np.trace(moments, axis1=1, axis2=2)).max():
        raise RangeError("no heater changes what the photodiodes read; check the bench's drive, light and photodiodes")
    clear = used[effect[used] > FAINT * middle]
    found = np.full(voltage_v.size, np.nan)
    found[clear] = [_efficiency(places, moments[h]) for h in clear.tolist()]
    common = float(np.median(found[clear]))
    found[~(np.abs(found - common) < UNLIKE * common)] = common
    for heater in used[effect[used] <= FAINT * middle].tolist():
        # without what the others do to make good what it does
        voltages = np.tile(voltage_v, (2, 1))
        voltages[:, heater] = heaters.voltages(np.full(voltage_v.size, np.pi))[heater], 0.0
        read = laboratory.read(voltages, amplitude).reshape(2, -1)
        if _spread((read @ read.T)[np.newaxis])[0] <= BROKEN * middle:
            found[heater] = np.nan
    return found


def _spread(moments: Floats) -> Floats:
    """(n,) how far readings differ between places, from (n, places, places) their products."""
    centred = moments - moments.mean(axis=1, keepdims=True)
    power = np.trace(centred - centred.mean(axis=2, keepdims=True), axis1=1, axis2=2)
    return np.asarray(np.sqrt(np.maximum(power, 0.0)))


def _efficiency(place: Floats, moment: Floats) -> float:
    """The efficiency whose sinusoids leave the least of a heater's readings, from their (places, places) products."""
    angle = EFFICIENCIES[:, np.newaxis] * place
    base = np.stack([np.ones_like(angle), np.cos(angle), np.sin(angle)], axis=2)
    explained = np.einsum("eps,pq,eqs->e", np.linalg.qr(base)[0], moment, np.linalg.qr(base)[0])
    best = int(np.clip(np.argmax(explained), 1, EFFICIENCIES.size - 2))
    before, at, after = explained[best - 1 : best + 2]
    bend = before - 2.0 * at + after
    shift = 0.5 * (before - after) / bend if bend < 0.0 else 0.0
    return float(EFFICIENCIES[best] + np.clip(shift, -1.0, 1.0) * (EFFICIENCIES[1] - EFFICIENCIES[0]))
