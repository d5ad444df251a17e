"""What can be measured of a chip's layers with modulators and photodiodes alone.

A detector sees |p_c + Σ_j p_j a_j|² of the carrier and of sources with amplitudes a_j. With one source at none, half
and full amplitude, three readings give the constant |p_c|², the slope 2 Re(p_c* p_j) and the square |p_j|². Receivers
have no carrier; pairs of sources give them Re(y_i* y_j), and Im(y_i* y_j) where a heater turns one of both alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.simulate.fit import Problem, illuminate
from optinc_pdk.simulate.response import Light, Linear
from optinc_pdk.simulate.target import Target

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
Ints = NDArray[np.int64]

LEAST_LEVEL = 0.5
TURN_RAD = 0.5
"""How far sources are turned to see imaginary parts."""
STRAY = 0.1
"""Light from all other sources at a heater, over one source's, that reflections may bring there."""


class Laboratory(Protocol):
    """A chip on a bench; all that calibration gets to know of it.

    Attributes:
        channels: (H,) pad labels of the heaters, in the order of voltages.
        sources: (F,) labels of what is modulated alike.
        detectors: (D,) labels of the photodiodes.
        full_scale_v: Highest voltage of the drive.
        step_v: Step of the drive's voltages; 0 where they are not rounded.
        settings: Settings of the heaters made so far.
        readings: Readings of single photodiodes taken so far.
    """

    channels: tuple[str, ...]
    sources: tuple[tuple[str, ...], ...]
    detectors: tuple[str, ...]
    full_scale_v: float
    step_v: float
    settings: int
    readings: int

    def read(self, voltage_v: ArrayLike, amplitude: ArrayLike) -> Floats:
        """(S, P, D) readings for (S, H) voltages and (P, F) amplitudes of the sources."""
        ...


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer on the bench, with J sources.

    Attributes:
        target: What it has to do.
        heaters: Its heaters' numbers.
        oscillators: Those of its local oscillators, one per pair of detectors; empty for the last layer.
        sources: (J,) numbers of its sources.
        plus: Numbers of its positive detectors, or of the receivers.
        minus: Numbers of its negative detectors; empty for the last layer.
        turners: Of the last layer, heaters that one source's light passes before it meets any other's.
        turned: (turners,) places of those sources in ``sources``.
    """

    target: Target
    heaters: Ints
    oscillators: Ints
    sources: Ints
    plus: Ints
    minus: Ints
    turners: Ints
    turned: Ints

    @property
    def patterns(self) -> Floats:
        """(P, J) amplitudes to measure it with: dark, each source alone, then each at half or each pair."""
        count = self.sources.size
        alone = np.eye(count)
        if not self.target.last:
            return np.concatenate([np.zeros((1, count)), alone, 0.5 * alone])
        one, other = np.triu_indices(count, 1)
        return np.concatenate([np.zeros((1, count)), alone, alone[one] + alone[other]])


@dataclass(frozen=True, eq=False)
class Seen:
    """One layer as measured at one setting.

    Attributes:
        constant: (D,) readings without sources; positive detectors first.
        slope: (D, J) linear in each source's amplitude.
        square: (D, J) quadratic in it.
        product: (receivers, J, J) real parts of y_i* y_j; empty for neurons.
        quadrature: (receivers, turned, others) imaginary parts, between sources that were turned and those that were
            not; empty where none were.
    """

    constant: Floats
    slope: Floats
    square: Floats
    product: Floats
    quadrature: Floats


def layers_of(problem: Problem, laboratory: Laboratory) -> tuple[Layer, ...]:
    """The layers of a network on a bench.

    Raises:
        ValueError: The bench has another chip.
    """
    if laboratory.channels != problem.structure.channel:
        raise ValueError("the bench's chip has other heaters than the chip as designed; give the same chip")
    # at phases of no meaning, light of several sources mixes wherever it can
    light = illuminate(problem, np.random.default_rng(0).uniform(0.0, 2.0 * np.pi, len(laboratory.channels)))
    source = {labels: i for i, labels in enumerate(laboratory.sources)}
    detector = {label: i for i, label in enumerate(laboratory.detectors)}
    return tuple(
        Layer(
            target=target,
            heaters=problem.heaters(target.index),
            oscillators=_oscillators(problem, target),
            sources=np.array([source[labels] for labels in target.inputs], dtype=np.int64),
            plus=np.array([detector[label] for label in target.plus], dtype=np.int64),
            minus=np.array([detector[label] for label in target.minus], dtype=np.int64),
            turners=turners,
            turned=turned,
        )
        for target in problem.targets
        for turners, turned in (_turners(problem, light, target),)
    )


def _oscillators(problem: Problem, target: Target) -> Ints:
    pieces = () if target.last else target.pieces
    return np.array([problem.channel[piece.label("lo")] for piece in pieces], dtype=np.int64)


def _turners(problem: Problem, light: Light, target: Target) -> tuple[Ints, Ints]:
    """Heaters of the last layer that meet the light of one source alone, and which source that is."""
    if not target.last:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    heaters = problem.heaters(target.index)
    near = np.abs(light.near[heaters][:, :, light.sources(target)[1:]]).max(axis=1)
    order = np.argsort(near, axis=1)
    first = order[:, -1]
    strongest = near[np.arange(first.size), first]
    others = near.sum(axis=1) - strongest
    alone = (others < STRAY * strongest) & (strongest > STRAY * strongest.max())
    # of several heaters on one source's way, one
    mine = [int(np.flatnonzero(alone & (first == source))[0]) for source in np.unique(first[alone]).tolist()]
    return heaters[mine], first[mine]


def measure(laboratory: Laboratory, layers: Sequence[Layer], voltage_v: Floats) -> list[list[Seen]]:
    """Every layer at some settings, (S, H) voltages; layers are lit one after the other.

    Returns:
        Per setting, what was seen of each layer.
    """
    patterns = [layer.patterns for layer in layers]
    starts = np.cumsum([0, *map(len, patterns)])
    amplitude = np.zeros((starts[-1], len(laboratory.sources)))
    for layer, mine, start in zip(layers, patterns, starts.tolist(), strict=False):
        amplitude[start : start + len(mine), layer.sources] = mine
    read = laboratory.read(voltage_v, amplitude)
    borders = list(zip(layers, starts[:-1].tolist(), starts[1:].tolist(), strict=True))
    return [[_seen(layer, one[start:end]) for layer, start, end in borders] for one in read]


def survey(laboratory: Laboratory, layers: Sequence[Layer], voltage_v: Floats) -> list[list[Seen]]:
    """Layers at many settings, (S, H) voltages, all lit at once: quick, with what little stray light they exchange.

    Returns:
        Per setting, what was seen of each layer.
    """
    read = laboratory.read(voltage_v, together_lit(laboratory, layers))
    return [[_seen(layer, one[: len(layer.patterns)]) for layer in layers] for one in read]


def together_lit(laboratory: Laboratory, layers: Sequence[Layer]) -> Floats:
    """(P, F) amplitudes that light all layers with their patterns at once."""
    patterns = [layer.patterns for layer in layers]
    amplitude = np.zeros((max(map(len, patterns)), len(laboratory.sources)))
    for layer, mine in zip(layers, patterns, strict=True):
        amplitude[: len(mine), layer.sources] = mine
    return amplitude


def _seen(layer: Layer, read: Floats) -> Seen:
    """From (P, all detectors) readings for the layer's patterns."""
    return seen_of(layer, read[:, np.concatenate([layer.plus, layer.minus])])


def seen_of(layer: Layer, mine: Floats) -> Seen:
    """From (P, D) readings of a layer's own detectors for its patterns, positive ones first."""
    count = layer.sources.size
    constant, alone, rest = mine[0], mine[1 : 1 + count].T - mine[0][:, np.newaxis], mine[1 + count :].T
    if not layer.target.last:
        # a slope m and a square q: m + q at full, m / 2 + q / 4 at half amplitude
        slope = 4.0 * (rest - constant[:, np.newaxis]) - alone
        return Seen(constant, slope, alone - slope, np.zeros((0, count, count)), np.zeros((0, 0, 0)))
    one, other = np.triu_indices(count, 1)
    product = np.zeros((len(mine.T), count, count))
    both = 0.5 * (rest - constant[:, np.newaxis] - alone[:, one] - alone[:, other])
    product[:, one, other] = product[:, other, one] = both
    product[:, range(count), range(count)] = alone
    return Seen(constant, np.zeros_like(alone), alone, product, np.zeros((len(product), 0, 0)))


def coefficients(layer: Layer, seen: Seen, balance: Floats | None = None) -> Linear:
    """Detection coefficients of a layer of neurons, as measured.

    Args:
        layer: The layer.
        seen: What was measured.
        balance: (rows,) ρ; that which best cancels the squares where left out.
    """
    target, pairs = layer.target, layer.plus.size
    plus, minus = seen.square[:pairs], seen.square[pairs:]
    if balance is None:
        balance = target.by_row((plus * minus).sum(axis=1)) / target.by_row((minus**2).sum(axis=1))
    part = np.asarray(balance)[target.owner]
    slope = seen.slope[:pairs] - part[:, np.newaxis] * seen.slope[pairs:]
    constant = seen.constant[:pairs] - part * seen.constant[pairs:]
    return Linear(target.by_row(slope), np.asarray(balance), target.by_row(constant))


def with_quadrature(layer: Layer, seen: Seen, ahead: Seen, behind: Seen | None = None) -> Seen:
    """Receivers' products with their imaginary parts, from sources turned ahead and, to be exact, behind by as much.

    Re(y_i* y_j) alone is blind to small imaginary parts of fields that ought to be real; Im(y_i* y_j) is not.
    """
    others = np.setdiff1d(np.arange(layer.sources.size), layer.turned)
    place = np.ix_(np.arange(len(seen.product)), layer.turned, others)
    if behind is None:
        return replace(seen, quadrature=ahead.product[place] - np.cos(TURN_RAD) * seen.product[place])
    return replace(seen, quadrature=0.5 * (ahead.product[place] - behind.product[place]))


def deviation(layer: Layer, seen: Seen) -> Floats:
    """(entries,) matrix error in units of the weight's 2-norm, free factors of rows and servers' levels taken out.

    Rows are compared at the wanted norm, which near to the goal is the same as with the best factor, and stays finite
    far from it. Receivers tell products of fields, which are off by twice the row's norm times the error.
    """
    target = layer.target
    norm = float(np.linalg.norm(target.mesh_weight, 2))
    if not target.last:
        found = coefficients(layer, seen).coefficient
        rows = np.where(target.lit, found * levels(layer, found), 0.0)
        return np.asarray((_at_norm(rows, target.weight) - target.weight).reshape(-1) / norm)
    weight = _receiver_weights(layer)
    one, other = np.triu_indices(layer.sources.size)
    twice = np.where(one == other, 1.0, np.sqrt(2.0))
    wanted = twice * weight[:, one] * weight[:, other]
    products = np.where(target.lit[one] & target.lit[other], twice * seen.product[:, one, other], 0.0)
    double = np.sqrt(2.0 * (weight**2).sum(axis=1, keepdims=True))
    double = np.where(double > 0.0, double, 1.0)
    real = (_at_norm(products, wanted) - wanted) / double
    have = np.linalg.norm(products, axis=1, keepdims=True)
    factor = np.linalg.norm(wanted, axis=1, keepdims=True) / np.where(have > 0.0, have, 1.0)
    imaginary = np.sqrt(2.0) * seen.quadrature.reshape(len(weight), -1) * factor / (np.sin(TURN_RAD) * double)
    return np.asarray(np.concatenate([real, imaginary], axis=1).reshape(-1) / norm)


def _at_norm(found: Complexes | Floats, wanted: Floats) -> Floats:
    """Rows with the norm of wanted rows; where nothing is wanted, with the others' mean factor."""
    have, norm = np.linalg.norm(found, axis=1), np.linalg.norm(wanted, axis=1)
    factor = np.divide(norm, have, out=np.zeros_like(norm), where=have > 0.0)
    factor[norm == 0.0] = factor[norm > 0.0].mean()
    return np.asarray(found.real * factor[:, np.newaxis])


def receiver_gains(layer: Layer, seen: Seen) -> Floats:
    """(receivers,) light on each receiver over the square of the wanted level, by least squares."""
    weight = _receiver_weights(layer)
    gain: Floats = np.einsum("ri,rij,rj->r", weight, seen.product, weight) / (weight**2).sum(axis=1) ** 2
    return gain


def _receiver_weights(layer: Layer) -> Floats:
    """(receivers, J) wanted effect of the sources, once per server."""
    weight = layer.target.weight
    return np.tile(weight, (layer.plus.size // weight.shape[0], 1))


def size(layer: Layer, deviation: Floats) -> float:
    """Rms matrix error over the 2-norm."""
    entries = layer.target.weight.size * (layer.plus.size // len(layer.target.weight) if layer.target.last else 1)
    return float(np.sqrt(np.sum(deviation**2) / entries))


def levels(layer: Layer, found: Complexes | Floats) -> Floats:
    """(J,) amplitude at full scale of each source, at most 1: servers that reach the neurons less give the others'.

    Combiners and gratings do not let through the same of all servers, which no heater can mend. Hidden neurons have
    their gains for that.

    Args:
        layer: The layer.
        found: (rows, J) its coefficients for sources at amplitude 1.
    """
    weight = layer.target.weight
    if layer.target.index > 0:
        return np.ones(weight.shape[1])
    power = (weight**2).sum(axis=1)
    scale = (found * weight).real.sum(axis=1) / np.where(power > 0.0, power, 1.0)
    wanted = scale[:, np.newaxis] * weight
    square = (wanted**2).sum(axis=0)
    strength = np.divide((found * wanted).real.sum(axis=0), square, out=np.ones_like(square), where=square > 0.0)
    # while phases are far off, a level makes good no more than loss can do
    strength = np.maximum(strength, LEAST_LEVEL * max(float(strength.max()), 1.0))
    return np.asarray(strength.min() / strength)
