"""Alignment of the blocks of a layer: phases of local oscillators and trims, and attenuations of the row's pieces."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.simulate.fit import Problem
from optinc_pdk.simulate.response import Light, linear
from optinc_pdk.simulate.target import Target

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]


def align(problem: Problem, light: Light, phases: Floats) -> Floats:
    """Align local oscillators and trims of sums so that every piece contributes the most to its target row.

    Args:
        problem: The chip and its targets.
        light: The chip solved with ``phases``.
        phases: (H,) phases in rad; not changed.

    Returns:
        (H,) aligned phases in rad.
    """
    aligned = phases.copy()
    channel = problem.channel
    for target in problem.targets:
        if target.last and not target.split:
            continue
        turn = np.angle(_overlaps(light, target))
        for piece, angle in zip(target.pieces, turn.tolist(), strict=True):
            if target.last:
                aligned[channel[piece.label("sum")]] -= angle
            else:
                aligned[channel[piece.label("lo")]] += angle
    return aligned


def shares(problem: Problem, light: Light) -> tuple[Floats, ...]:
    """Attenuations that bring the pieces of each row into their target proportion.

    Args:
        problem: The chip and its targets.
        light: The chip solved with phases of :func:`align`.

    Returns:
        Per layer, (pieces,) field transmissions; 1 for the weakest piece of each row.
    """
    result = []
    for target in problem.targets:
        weights = np.array([target.weights(piece) for piece in target.pieces])
        power = (weights**2).sum(axis=1)
        overlap = np.abs(_overlaps(light, target))
        used = (power > 0.0) & (overlap > 0.0)
        gain = np.divide(overlap, power, out=np.full_like(power, np.inf), where=used)
        weakest = np.minimum.reduceat(gain, target.starts)[target.owner]
        result.append(np.divide(weakest, gain, out=np.ones_like(gain), where=used))
    return tuple(result)


def _overlaps(light: Light, target: Target) -> Complexes:
    """(pieces,) overlap of each piece's detected light with its target weights; for receivers those of one server."""
    weights = np.array([target.weights(piece) for piece in target.pieces])
    if target.last:
        _, y = light.to(target.plus[: target.starts.size], target)
        return np.asarray((y[target.owner] * weights).sum(axis=1), dtype=np.complex128)
    p_c, p = light.to(target.plus, target)
    n_c, n = light.to(target.minus, target)
    balance = linear(light, target).balance[target.owner, np.newaxis]
    added, taken = p_c.conj()[:, np.newaxis] * p, n_c.conj()[:, np.newaxis] * n
    return np.asarray(((added - balance * taken) * weights).sum(axis=1), dtype=np.complex128)
