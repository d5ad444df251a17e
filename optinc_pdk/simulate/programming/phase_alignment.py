"""Alignment of the blocks of a layer: phases of local oscillators and trims, and attenuations of the row's pieces."""

from __future__ import annotations

import numpy as np

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.simulate.programming.detection_jacobian import SourceFields, linear_response
from optinc_pdk.simulate.programming.phase_fit import ProgrammingProblem
from optinc_pdk.simulate.programming.targets import LayerTarget


def align_phases(problem: ProgrammingProblem, light: SourceFields, phases: Floats) -> Floats:
    """Align the phases of local oscillators and trims of sums over blocks.

    Each piece, which is the contribution of one block to one row, then contributes as much as possible to its target
    row.

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


def contribution_shares(problem: ProgrammingProblem, light: SourceFields) -> tuple[Floats, ...]:
    """Compute attenuations that bring the pieces of each row into the proportion of their target weights.

    Args:
        problem: The chip and its targets.
        light: The chip solved with the phases of :func:`align_phases`.

    Returns:
        For each layer, (pieces,) field transmissions, 0 ... 1; 1 for the weakest piece of each row.
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


def _overlaps(light: SourceFields, target: LayerTarget) -> Complexes:
    """(pieces,) overlap of each piece's detected light with its target weights; for receivers those of one server."""
    weights = np.array([target.weights(piece) for piece in target.pieces])
    if target.last:
        _, y = light.at_detectors(target.plus[: target.starts.size], target)
        return np.asarray((y[target.owner] * weights).sum(axis=1), dtype=np.complex128)
    p_c, p = light.at_detectors(target.plus, target)
    n_c, n = light.at_detectors(target.minus, target)
    balance = linear_response(light, target).balance[target.owner, np.newaxis]
    added, taken = p_c.conj()[:, np.newaxis] * p, n_c.conj()[:, np.newaxis] * n
    return np.asarray(((added - balance * taken) * weights).sum(axis=1), dtype=np.complex128)
