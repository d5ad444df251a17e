"""Blocks in step: oscillators and trims that bring their light into phase, attenuations that make it even."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.simulate.fit import Problem
from optinc_pdk.simulate.response import Light, linear
from optinc_pdk.simulate.target import Target

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]


def align(problem: Problem, light: Light, phases: Floats) -> Floats:
    """Phases with local oscillators, and trims of sums, turned so that every piece adds the most to its wanted row."""
    turned = phases.copy()
    channel = problem.channel
    for target in problem.targets:
        if target.last and not target.split:
            continue
        turn = np.angle(_overlaps(light, target))
        for piece, angle in zip(target.pieces, turn.tolist(), strict=True):
            if target.last:
                turned[channel[piece.label("sum")]] -= angle
            else:
                turned[channel[piece.label("lo")]] += angle
    return turned


def shares(problem: Problem, light: Light) -> tuple[Floats, ...]:
    """Per layer, (pieces,) by how much to attenuate each so that the pieces of a row are in their wanted proportion.

    The weakest piece of a row keeps its light. Wanted are phases by :func:`align`.
    """
    found = []
    for target in problem.targets:
        weights = np.array([target.weights(piece) for piece in target.pieces])
        power = (weights**2).sum(axis=1)
        overlap = np.abs(_overlaps(light, target))
        used = (power > 0.0) & (overlap > 0.0)
        gain = np.divide(overlap, power, out=np.full_like(power, np.inf), where=used)
        weakest = np.minimum.reduceat(gain, target.starts)[target.owner]
        found.append(np.divide(weakest, gain, out=np.ones_like(gain), where=used))
    return tuple(found)


def _overlaps(light: Light, target: Target) -> Complexes:
    """(pieces,) each piece's light at its row's detectors, weighted as wanted; for receivers those of one server."""
    weights = np.array([target.weights(piece) for piece in target.pieces])
    if target.last:
        _, y = light.to(target.plus[: target.starts.size], target)
        return np.asarray((y[target.owner] * weights).sum(axis=1), dtype=np.complex128)
    p_c, p = light.to(target.plus, target)
    n_c, n = light.to(target.minus, target)
    balance = linear(light, target).balance[target.owner, np.newaxis]
    added, taken = p_c.conj()[:, np.newaxis] * p, n_c.conj()[:, np.newaxis] * n
    return np.asarray(((added - balance * taken) * weights).sum(axis=1), dtype=np.complex128)
