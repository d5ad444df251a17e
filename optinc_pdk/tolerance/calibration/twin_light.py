"""Readings that a digital twin foretells at a setting, and how they change with each of its unknowns.

A detector reads |E|² of the field E of carrier and sources together, d|E|² = 2 Re(E* dE). Devices are reciprocal, so dE
is the field of light sent back from the detector times the device's change times the field that arrives there. That a
modulator on the chip gets more or less of the carrier is left out of dE; the unknowns of its guides do the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.simulate.fit import Problem, illuminate
from optinc_pdk.simulate.response import Light
from optinc_pdk.tolerance.calibration.measure import Layer
from optinc_pdk.tolerance.calibration.twin import NEPER, Twin

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
Ints = NDArray[np.int64]

ANGLE_STEP, LOSS_STEP_DB = 1e-4, 1e-3
"""Of the difference quotients of couplers' S-parameters, which are off by their squares."""


@dataclass(frozen=True, eq=False)
class Guess:
    """A twin with some values of its unknowns.

    Attributes:
        twin: The twin.
        unknown: (N,) values.
        chip: The chip with them.
        warming: (H, H) share of heater j's phase under heater i.
        by_angle: Per component of couplers, (I, p, p) change of S with the coupling angle.
        by_loss: The same with the loss in dB.
    """

    twin: Twin
    unknown: Floats
    chip: Problem
    warming: Floats
    by_angle: tuple[Complexes, ...]
    by_loss: tuple[Complexes, ...]

    def light(self, made: Floats, layers: Ints | None = None) -> Light:
        """The chip at one setting, (H,) designed phases of its heaters; lit by the sources of some layers or all."""
        return illuminate(self.chip, self.twin.turned(self.unknown, self.warming, made), layers)


def guess(twin: Twin, unknown: Floats) -> Guess:
    """A twin with (N,) values of its unknowns."""
    process, carrier = twin.problem.process, twin.problem.wavelength_nm
    *_, angle, loss_db = twin.off(unknown)
    by_angle, by_loss = [], []
    for each, mine in twin.each_coupler():
        now, loss = angle[mine], loss_db[mine]
        up, down = (each.s(process, carrier, now + step, loss) for step in (ANGLE_STEP, -ANGLE_STEP))
        more, less = (each.s(process, carrier, now, loss + step) for step in (LOSS_STEP_DB, -LOSS_STEP_DB))
        by_angle.append((up - down) / (2.0 * ANGLE_STEP))
        by_loss.append((more - less) / (2.0 * LOSS_STEP_DB))
    return Guess(twin, unknown, twin.chip(unknown), twin.warming(unknown), tuple(by_angle), tuple(by_loss))


def fields(light: Light, layer: Layer) -> Complexes:
    """(D, 1 + J) fields at a layer's detectors, positive ones first, from the carrier and from each source."""
    rows = light.solution.structure.fibres(_detectors(layer))
    return np.asarray(light.s[np.ix_(rows, light.sources(layer.target))])


def readings(light: Light, layer: Layer) -> Floats:
    """(P, D) readings for the layer's patterns."""
    return np.abs(_amplitudes(layer) @ fields(light, layer).T) ** 2


def slopes(guess: Guess, made: Floats, light: Light, layer: Layer, chosen: Ints) -> tuple[Floats, Floats]:
    """What a layer's detectors read, (P D,), and its derivatives by some of the unknowns, (P D, chosen).

    Args:
        guess: The twin.
        made: (H,) setting, as designed phases of the heaters.
        light: The chip at it.
        layer: The layer.
        chosen: Numbers of the unknowns, ascending.
    """
    amplitude = _amplitudes(layer)
    seen = amplitude @ fields(light, layer).T
    change = _changes(guess, made, light, layer, chosen) * guess.twin.spread[chosen, np.newaxis, np.newaxis]
    by_pattern = (change @ amplitude.T).transpose(2, 1, 0)
    slope = 2.0 * (seen.conj()[:, :, np.newaxis] * by_pattern).real
    return (np.abs(seen) ** 2).reshape(-1), slope.reshape(seen.size, -1)


def _changes(guess: Guess, made: Floats, light: Light, layer: Layer, chosen: Ints) -> Complexes:
    """(chosen, D, 1 + J) derivatives of the fields by unknowns in their own units."""
    firsts = guess.twin.firsts
    parts = np.split(chosen, np.searchsorted(chosen, firsts[1:]))
    mine = [part - first for part, first in zip(parts, firsts.tolist(), strict=True)]
    back = light.solution.fields(_detectors(layer))
    into = light.waves[:, light.sources(layer.target)]
    by_heaters = _by_heaters(guess, made, light, (back, into), mine[:3])
    return np.concatenate([*by_heaters, *_by_devices(guess, light, (back, into), mine[3:])])


def _by_heaters(
    guess: Guess, made: Floats, light: Light, waves: tuple[Complexes, Complexes], mine: list[Ints]
) -> list[Complexes]:
    """Changes with static phases, efficiencies and layers' crosstalk, of which all go through phases."""
    (static, heater, share), twin, solution = mine, guess.twin, light.solution
    back, into = (solution.at_heaters(each)[static] for each in waves)
    by_phase = solution.derivative(back, into, static)
    own = twin.efficiency * made
    warming = guess.warming[static]
    warmed = twin.heaters.crosstalk[static] @ (own * (1.0 + twin.off(guess.unknown)[1]))
    here = np.zeros((share.size, static.size), dtype=bool)
    for row, layer in enumerate(share.tolist()):
        here[row] = np.isin(static, twin.layers[layer].heaters)
    return [by_phase, _combined((warming[:, heater] * own[heater]).T, by_phase), _combined(here * warmed, by_phase)]


def _by_devices(
    guess: Guess, light: Light, waves: tuple[Complexes, Complexes], mine: list[Ints]
) -> Iterator[Complexes]:
    """Changes with losses and phases at the edge, angles and losses of couplers."""
    back, into = waves
    lossy, turned, angled, weak = mine
    for some, factor in ((lossy, -NEPER), (turned, 1j)):
        near, far = guess.twin.edge[some].T
        # what leaves a guide at one end is what entered it at the other, times its transmission
        both = back[near][:, :, np.newaxis] * into[far][:, np.newaxis]
        both += back[far][:, :, np.newaxis] * into[near][:, np.newaxis]
        yield both * (factor / light.solution.guides[near])[:, np.newaxis, np.newaxis]
    for numbers, changes in ((angled, guess.by_angle), (weak, guess.by_loss)):
        for (each, places), change in zip(guess.twin.each_coupler(), changes, strict=True):
            some = numbers[(numbers >= places.start) & (numbers < places.stop)] - places.start
            ports = each.group.port[some]
            yield back[ports].transpose(0, 2, 1) @ change[some] @ into[ports]


def _combined(weight: Floats, change: Complexes) -> Complexes:
    """(a, D, S) of (a, b) weights and (b, D, S) changes."""
    return np.asarray((weight @ change.reshape(len(change), -1)).reshape(len(weight), *change.shape[1:]))


def _detectors(layer: Layer) -> tuple[str, ...]:
    return layer.target.plus + layer.target.minus


def _amplitudes(layer: Layer) -> Floats:
    """(P, 1 + J) amplitudes of the carrier, which is always on, and of the sources."""
    patterns = layer.patterns
    return np.concatenate([np.ones((len(patterns), 1)), patterns], axis=1)
