"""Least squares of a twin's unknowns on readings at some settings, block by block, each layer for itself.

What earlier readings and the card say of the unknowns is kept as a quadratic form around the values that they gave, so
that later readings, nearer to where the chip is to work, only have to say what is new (a Kalman filter without time).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.simulate.fit import Damping
from optinc_pdk.tolerance.calibration.measure import Laboratory, Layer, Seen, seen_of
from optinc_pdk.tolerance.calibration.twin import Twin
from optinc_pdk.tolerance.calibration.twin_light import guess, readings, slopes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FAINT = 1e-3
"""An unknown that moves a layer's readings by less than this share of what the strongest does is no unknown of it."""
FIRST_DAMPING = 1e-5
ITERATIONS = 25
IDLE = 0.02
"""A step that takes less of a layer's cost is its last."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """Readings at S settings.

    Attributes:
        made: (S, H) settings, as designed phases of the heaters.
        read: Per layer, (S, P, D) readings of its detectors for its patterns.
    """

    made: Floats
    read: tuple[Floats, ...]

    def seen(self, layers: tuple[Layer, ...], index: int) -> list[Seen]:
        """(S,) what was seen of a layer."""
        return [seen_of(layers[index], one) for one in self.read[index]]

    def and_more(self, more: Evidence) -> Evidence:
        """These settings and others."""
        read = tuple(np.concatenate(pair) for pair in zip(self.read, more.read, strict=True))
        return Evidence(np.concatenate([self.made, more.made]), read)

    def first(self, count: int) -> Evidence:
        """The first settings alone."""
        return Evidence(self.made[:count], tuple(each[:count] for each in self.read))


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of a layer's n unknowns.

    Attributes:
        chosen: (n,) their numbers.
        centre: (n,) their likeliest values.
        normal: (n, n) half the curvature of the cost around them.
    """

    chosen: Ints
    centre: Floats
    normal: Floats

    def cost(self, value: Floats) -> float:
        """Of n values."""
        return float((value - self.centre) @ self.normal @ (value - self.centre))


@dataclass(frozen=True, eq=False)
class Normal:
    """Cost of one layer's readings at some values, with gradient and curvature halved."""

    cost: float
    gradient: Floats
    normal: Floats


def gather(laboratory: Laboratory, twin: Twin, voltage_v: Floats) -> Evidence:
    """Read all layers, one after the other, at (S, H) settings."""
    layers = twin.layers
    patterns = [layer.patterns for layer in layers]
    ends = np.cumsum([len(each) for each in patterns])
    amplitude = np.zeros((ends[-1], len(laboratory.sources)))
    for layer, mine, end in zip(layers, patterns, ends.tolist(), strict=True):
        amplitude[end - len(mine) : end, layer.sources] = mine
    read = np.split(laboratory.read(voltage_v, amplitude), ends[:-1], axis=1)
    wanted = [np.concatenate([layer.plus, layer.minus]) for layer in layers]
    made = np.array([twin.heaters.phases(one) for one in voltage_v])
    return Evidence(made, tuple(each[:, :, mine] for each, mine in zip(read, wanted, strict=True)))


def designed(twin: Twin, voltage_v: Floats) -> list[Known]:
    """Per layer, the unknowns that its readings tell, and what the card says of them.

    An unknown of several layers, as of the carrier's tree, belongs to the one that it does most to; what it does to the
    others is in unknowns of theirs.

    Args:
        twin: The twin.
        voltage_v: (S, H) settings.
    """
    every = np.arange(twin.spread.size)
    now = guess(twin, np.zeros(every.size))
    effect = np.zeros((len(twin.layers), every.size))
    for one in voltage_v:
        made = twin.heaters.phases(one)
        light = now.light(made)
        for i, layer in enumerate(twin.layers):
            effect[i] += (slopes(now, made, light, layer, every)[1] ** 2).sum(axis=0)
    effect = np.sqrt(effect)
    effect /= effect.max(axis=1, keepdims=True)
    mine = [np.flatnonzero((effect[i] > FAINT) & (effect.argmax(axis=0) == i)) for i in range(len(twin.layers))]
    return [Known(each, np.zeros(each.size), np.eye(each.size)) for each in mine]


def misfits(twin: Twin, unknown: Floats, evidence: Evidence) -> Floats:
    """(layers,) rms of readings minus what is foretold, over the readings' rms."""
    now = guess(twin, unknown)
    lights = [now.light(one) for one in evidence.made]
    found = []
    for layer, read in zip(twin.layers, evidence.read, strict=True):
        wrong = np.stack([readings(light, layer) for light in lights]) - read
        found.append(np.sqrt(np.mean(wrong**2) / np.mean(read**2)))
    return np.array(found)


def adjust(
    twin: Twin, unknown: Floats, known: list[Known], evidence: Evidence, trust: Floats, active: Ints | None = None
) -> Floats:
    """(N,) unknowns that fit readings and what was known best, by Levenberg and Marquardt from some values.

    Args:
        twin: The twin.
        unknown: (N,) where to start.
        known: Per layer, what was known.
        evidence: The readings.
        trust: (layers,) what readings and twin may differ by, over the readings' rms.
        active: Numbers of the layers to fit; all where left out.
    """
    some = np.arange(len(twin.layers)) if active is None else active
    damping = Damping(np.full(len(twin.layers), FIRST_DAMPING), np.full(len(twin.layers), 2.0))
    here = _normals(twin, unknown, known, evidence, trust, some)
    for _ in range(ITERATIONS):
        trial, gained, foretold = unknown.copy(), np.zeros(len(known)), np.zeros(len(known))
        for i in some.tolist():
            gradient, normal = here[i].gradient, here[i].normal
            damped = normal + damping.value[i] * np.trace(normal) / len(normal) * np.eye(len(normal))
            step = -np.linalg.solve(damped, gradient)
            foretold[i] = -(2.0 * gradient @ step + step @ normal @ step)
            trial[known[i].chosen] += step
        tried = _normals(twin, trial, known, evidence, trust, some)
        unknown, busy = unknown.copy(), []
        for i in some.tolist():
            gained[i] = here[i].cost - tried[i].cost
            # a step that fails is tried again, damped
            if not 0.0 <= gained[i] < IDLE * here[i].cost:
                busy.append(i)
            if gained[i] > 0.0:
                here[i] = tried[i]
                unknown[known[i].chosen] = trial[known[i].chosen]
        damping.update(some, gained, foretold)
        some = np.array(busy, dtype=np.int64)
        if not some.size:
            break
    return unknown


def learnt(
    twin: Twin, unknown: Floats, known: list[Known], evidence: Evidence, trust: Floats, active: Ints
) -> list[Known]:
    """Per layer, what is known after a fit of some of them, around its values."""
    after = _normals(twin, unknown, known, evidence, trust, active)
    return [
        replace(mine, centre=unknown[mine.chosen], normal=after[i].normal) if i in after else mine
        for i, mine in enumerate(known)
    ]


def _normals(
    twin: Twin, unknown: Floats, known: list[Known], evidence: Evidence, trust: Floats, active: Ints
) -> dict[int, Normal]:
    """Per active layer, the cost around some values."""
    now = guess(twin, unknown)
    some = active.tolist()
    scale = {i: 1.0 / (trust[i] * np.sqrt(np.mean(evidence.read[i] ** 2))) for i in some}
    cost = {i: known[i].cost(unknown[known[i].chosen]) for i in some}
    gradient = {i: known[i].normal @ (unknown[known[i].chosen] - known[i].centre) for i in some}
    normal = {i: known[i].normal.copy() for i in some}
    for number, made in enumerate(evidence.made):
        light = now.light(made, active)
        for i in some:
            foretold, slope = slopes(now, made, light, twin.layers[i], known[i].chosen)
            slope *= scale[i]
            wrong = scale[i] * (foretold - evidence.read[i][number].reshape(-1))
            cost[i] += float(wrong @ wrong)
            gradient[i] += slope.T @ wrong
            normal[i] += slope.T @ slope
    return {i: Normal(cost[i], gradient[i], normal[i]) for i in some}
