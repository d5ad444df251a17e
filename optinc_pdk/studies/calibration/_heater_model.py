"""Heater model: conversion between drive voltages and design phases, and the measured efficiency of each heater.

The design phase of a heater is the phase in rad that follows from its voltage by the design's resistances, ground
network and power per π. The efficiency e of a heater is its real phase over its design phase x. It is fitted to a power
sweep, in which every reading is a + b cos(e x) + c sin(e x).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.drive import RangeError
from optinc_pdk.simulate.heater_drive import nominal_crosstalk
from optinc_pdk.studies.calibration._measurement import BenchLayer, BenchProtocol, HeaterDrive, simultaneous_patterns
from optinc_pdk.studies.variation.nominal_chip import NominalChip

SWEEP_POINTS = 8
"""Points of a power sweep, from zero to a design phase of 2π."""
EFFICIENCIES = np.linspace(0.6, 1.5, 181)
"""Grid of efficiencies; the best value is refined with a parabola through its neighbours."""
RANGE_OVERLAP = 0.05
"""Range of design phases above 2π that may be used, in turns."""
BROKEN_EFFECT = 1e-5
"""A heater whose sweep changes the readings by less than this share of the median heater counts as broken."""
MIN_EFFECT = 0.2
"""Below this share of the median heater, a sweep cannot separate a heater's efficiency from its neighbours'."""
MAX_EFFICIENCY_DEVIATION = 0.15
"""An efficiency that deviates more from the median is attributed to neighbours and replaced by the median."""
_TOLERANCE = 1e-12
_MAX_ITERATIONS = 200


@dataclass(frozen=True, eq=False)
class HeaterModel:
    """Design model of H heaters and their drive.

    A design phase is the phase in rad that a heater would cause in its own waveguide if it were as designed.

    Attributes:
        power_pi_w: (H,) power for a phase of π.
        resistance_ohm: (H,) heater resistances.
        wire_ohm: (H,) wire resistances in series.
        rise_ohm: (H, H) ground resistance matrix: ground voltage of heater i per ampere in heater j.
        full_scale_v: Highest voltage of the drive.
        step_v: DAC step in volts; 0 if voltages are not rounded.
        crosstalk: (H, H) thermal crosstalk: share of heater j's phase in the waveguide under heater i; 0 on the
            diagonal.
    """

    power_pi_w: Floats
    resistance_ohm: Floats
    wire_ohm: Floats
    rise_ohm: Floats
    full_scale_v: float
    step_v: float
    crosstalk: Floats

    def voltages(self, phase: Floats) -> Floats:
        """Return the (H,) voltages for (H,) design phases, with ground rise, rounded to the drive."""
        current = self._currents_for(phase)
        return self.quantise(self.voltages_at_rise(phase, self.rise_ohm @ current))

    def voltages_at_rise(self, phase: Floats, rise_v: Floats) -> Floats:
        """Return the (H,) voltages for (H,) design phases and (H,) given ground voltages, before rounding."""
        current = self._currents_for(phase)
        return np.where(current > 0.0, current * (self.resistance_ohm + self.wire_ohm) + rise_v, 0.0)

    def _currents_for(self, phase: Floats) -> Floats:
        """Return (H,) heater currents for design phases."""
        current: Floats = np.sqrt(np.maximum(phase, 0.0) * self.power_pi_w / (np.pi * self.resistance_ohm))
        return current

    def highest_phase(self, turn_rad: Floats) -> Floats:
        """Return the (H,) highest design phases to use: one turn plus a margin, so that a phase near 2π can be tuned.

        ``turn_rad`` are (H,) design phases that cause a real phase of 2π; NaN for heaters without effect.
        """
        return np.where(np.isfinite(turn_rad), (1.0 + RANGE_OVERLAP) * turn_rad, 2.0 * np.pi)

    def quantise(self, voltage_v: Floats) -> Floats:
        """Return the nearest voltages that the drive can output: clipped to its range and rounded to its steps."""
        within = np.clip(voltage_v, 0.0, self.full_scale_v)
        if self.step_v == 0.0:
            return within
        quantised: Floats = np.minimum(np.rint(within / self.step_v) * self.step_v, self.full_scale_v)
        return quantised

    def phases(self, voltage_v: Floats) -> Floats:
        """Return the (H,) design phases at (H,) drive voltages, with ground rise."""
        return self.rise_and_phases(voltage_v)[1]

    def rise_and_phases(self, voltage_v: Floats) -> tuple[Floats, Floats]:
        """Return the (H,) ground voltages and (H,) design phases at (H,) drive voltages."""
        rise = self.rise_ohm @ self.currents(voltage_v)
        return rise, self.phases_at_rise(voltage_v, rise)

    def phases_per_step(self, voltage_v: Floats) -> Floats:
        """Return the (H,) changes of the design phases per DAC step at (H,) drive voltages and constant ground rise."""
        rise, phase = self.rise_and_phases(voltage_v)
        return self.phases_at_rise(voltage_v + self.step_v, rise) - phase

    def phases_at_rise(self, voltage_v: Floats, rise_v: Floats) -> Floats:
        """Return the (H,) design phases at (H,) drive voltages and (H,) given ground voltages."""
        current = np.maximum(voltage_v - rise_v, 0.0) / (self.resistance_ohm + self.wire_ohm)
        phase: Floats = np.pi * current**2 * self.resistance_ohm / self.power_pi_w
        return phase

    def currents(self, voltage_v: Floats) -> Floats:
        """Return the (H,) heater currents in A at (H,) drive voltages; 0 if the ground is above the pad voltage.

        Raises:
            RangeError: The fixed-point iteration does not converge, because the ground resistance is too high.
        """
        current = voltage_v / (self.resistance_ohm + self.wire_ohm)
        for _ in range(_MAX_ITERATIONS):
            updated = np.maximum(voltage_v - self.rise_ohm @ current, 0.0) / (self.resistance_ohm + self.wire_ohm)
            change = float(np.abs(updated - current).max(initial=0.0))
            current = updated
            if change <= _TOLERANCE * float(current.max(initial=0.0)):
                return np.asarray(current)
        raise RangeError(
            f"heater currents do not converge in {_MAX_ITERATIONS} iterations: ground rise is as large as the heater "
            "voltages; widen the grounds"
        )


def design_heater_model(chip: NominalChip, laboratory: HeaterDrive) -> HeaterModel:
    """Build the design model of a chip's heaters, driven by a bench.

    A drive that holds power compensates ground rise.
    """
    return HeaterModel(
        chip.power_pi_w,
        chip.resistance_ohm,
        chip.wire_ohm,
        np.zeros_like(chip.rise_ohm) if chip.process.drive.holds == "power" else chip.rise_ohm,
        laboratory.full_scale_v,
        laboratory.step_v,
        _card_crosstalk(chip),
    )


def _card_crosstalk(chip: NominalChip) -> Floats:
    """Return the (H, H) thermal crosstalk of the card without its diagonal; zero if the card has none."""
    crosstalk, count = nominal_crosstalk(chip.structure, chip.process), chip.power_pi_w.size
    return np.zeros((count, count)) if crosstalk is None else crosstalk.matrix - np.eye(count)


def parallel_heater_groups(layers: Sequence[BenchLayer]) -> list[Ints]:
    """Divide the indices of the heaters of layers into groups with at most one heater of each layer.

    The heaters of a group can be changed at the same time, because each affects the readings of its own layer.
    """
    longest = max(layer.heaters.size for layer in layers)
    return [np.array([layer.heaters[i] for layer in layers if i < layer.heaters.size]) for i in range(longest)]


def measure_efficiencies(
    laboratory: BenchProtocol, layers: Sequence[BenchLayer], heaters: HeaterModel, voltage_v: Floats
) -> Floats:
    """Measure the efficiency of every heater by a power sweep, one heater of each layer or block at a time.

    The other heaters stay at (H,) voltages.

    Returns:
        (H,) efficiencies: real phase over design phase. A value that the readings do not determine is replaced by the
        median. NaN marks heaters without effect.

    Raises:
        RangeError: No heater has any effect.
    """
    points = np.linspace(0.0, 2.0 * np.pi, SWEEP_POINTS)
    phase = heaters.phases(voltage_v)
    amplitude, starts = _patterns_in_turn(laboratory, layers)
    gram = np.zeros((voltage_v.size, SWEEP_POINTS, SWEEP_POINTS))
    for group in parallel_heater_groups(layers):
        # the other heaters compensate for ground rise and thermal crosstalk of the swept ones
        voltages = np.tile(voltage_v, (SWEEP_POINTS, 1))
        for row, point in zip(voltages, points.tolist(), strict=True):
            swept = phase.copy()
            swept -= heaters.crosstalk[:, group] @ (point - phase[group])
            swept[group] = point
            row[:] = heaters.voltages(swept)
        read = laboratory.read(voltages, amplitude)
        for layer, start in zip(layers, starts, strict=True):
            swept_heaters = group[np.isin(group, layer.heaters)]
            values = read[:, start : start + len(layer.patterns), np.concatenate([layer.plus, layer.minus])]
            gram[swept_heaters] = np.tensordot(values, values, axes=((1, 2), (1, 2)))
    used = np.concatenate([layer.heaters for layer in layers])
    effect = _spread(gram)
    median_effect = float(np.median(effect[used]))
    if not median_effect > BROKEN_EFFECT * np.sqrt(np.trace(gram, axis1=1, axis2=2)).max():
        raise RangeError("no heater changes what the photodiodes read; check the bench's drive, light and photodiodes")
    resolved = used[effect[used] > MIN_EFFECT * median_effect]
    efficiency = np.full(voltage_v.size, np.nan)
    efficiency[resolved] = [_efficiency(points, gram[h]) for h in resolved.tolist()]
    common = float(np.median(efficiency[resolved]))
    efficiency[~(np.abs(efficiency - common) < MAX_EFFICIENCY_DEVIATION * common)] = common
    for heater in used[effect[used] <= MIN_EFFECT * median_effect].tolist():
        # here without compensation by the other heaters
        voltages = np.tile(voltage_v, (2, 1))
        voltages[:, heater] = heaters.voltages(np.full(voltage_v.size, np.pi))[heater], 0.0
        read = laboratory.read(voltages, amplitude).reshape(2, -1)
        if _spread((read @ read.T)[np.newaxis])[0] <= BROKEN_EFFECT * median_effect:
            efficiency[heater] = np.nan
    return efficiency


def _patterns_in_turn(laboratory: BenchProtocol, layers: Sequence[BenchLayer]) -> tuple[Floats, list[int]]:
    """Return (P, F) source amplitudes, and the first of each layer's patterns.

    Layers are read at the same time, except those with common detectors, whose light would interfere.
    """
    turn, turns = dict[int, int](), list[int]()
    for layer in layers:
        turns.append(turn.get(int(layer.plus[0]), 0))
        turn[int(layer.plus[0])] = turns[-1] + 1
    found, starts, end = [], [0] * len(layers), 0
    for number in range(max(turns) + 1):
        chosen = [i for i, each in enumerate(turns) if each == number]
        found.append(simultaneous_patterns(laboratory, [layers[i] for i in chosen]))
        for i in chosen:
            starts[i] = end
        end += len(found[-1])
    return np.concatenate(found), starts


def _spread(gram: Floats) -> Floats:
    """Return (n,) spreads of the readings over sweep points, from their (n, points, points) Gram matrices."""
    centred = gram - gram.mean(axis=1, keepdims=True)
    power = np.trace(centred - centred.mean(axis=2, keepdims=True), axis1=1, axis2=2)
    return np.asarray(np.sqrt(np.maximum(power, 0.0)))


def _efficiency(points: Floats, gram: Floats) -> float:
    """Fit the efficiency of one heater by least squares, from the (points, points) Gram matrix of its readings."""
    angle = EFFICIENCIES[:, np.newaxis] * points
    base = np.stack([np.ones_like(angle), np.cos(angle), np.sin(angle)], axis=2)
    explained = np.einsum("eps,pq,eqs->e", np.linalg.qr(base)[0], gram, np.linalg.qr(base)[0])
    best = int(np.clip(np.argmax(explained), 1, EFFICIENCIES.size - 2))
    before, at, after = explained[best - 1 : best + 2]
    curvature = before - 2.0 * at + after
    shift = 0.5 * (before - after) / curvature if curvature < 0.0 else 0.0
    return float(EFFICIENCIES[best] + np.clip(shift, -1.0, 1.0) * (EFFICIENCIES[1] - EFFICIENCIES[0]))
