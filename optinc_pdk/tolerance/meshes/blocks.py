"""Blocks of approximated layers as meshes of imperfect MZIs, for networks whose chips are too large to extract.

Every block is a rectangular mesh, a heater and an attenuator per output (arXiv 2603.28290: diagonal times unitary), on
its own: copies and sums of blocks, mixers and electronics are ideal. Here they are programmed, their devices known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.factor import rectangular
from optinc_pdk.factor.correction.adjoint import transmit
from optinc_pdk.factor.correction.ideal_phases import completed
from optinc_pdk.factor.correction.least_squares import Problem, fit_lbfgs
from optinc_pdk.factor.correction.local_correction import correct_locally
from optinc_pdk.factor.mesh import wrap
from optinc_pdk.tolerance.meshes.made import (
    Block,
    Made,
    Phases,
    attenuation,
    attenuator_phase,
    blocks_of,
    computed,
    draw_block,
    transmission,
)

__all__ = [
    "Block",
    "Made",
    "Phases",
    "Programmed",
    "attenuation",
    "attenuator_phase",
    "biased",
    "blocks_of",
    "computed",
    "dimmed",
    "draw_block",
    "fitted",
    "ideal",
    "transmission",
]

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]

AMPLITUDE = 0.9
"""Share of the field that is left to the real part where fits start (:func:`optinc_pdk.factor.correct_homodyne`)."""
DRAWS = 8
"""Starts that are tried: a fit may end where rows have gone dark, as their scale is free."""
GAIN = 0.5
"""Error after a fit, over that of local correction, with which no other start is tried."""
DARK = 0.25
"""A row's scale after a fit, over that at its start, below which it has gone dark: another start is better."""
CLEAR = 1.1
"""Field at an attenuator that is meant to close, over the least that it can pass."""
UNSEEN = 1e-6
"""Weight of directions without signal, against the signals' mean power: they stay as they are."""


@dataclass(frozen=True, eq=False)
class Programmed:
    """A mesh that makes a unitary with rows of its own scale: what a fit finds.

    Attributes:
        theta: (MZIs,) in rad.
        phi: (MZIs,) in rad.
        output: (s,) in rad.
        scale: (s,) factor of each row.
    """

    theta: Floats
    phi: Floats
    output: Floats
    scale: Floats


def ideal(block: Block, made: Made) -> Programmed:
    """The phases of ideal devices; with the common loss, which electronics make good."""
    through = np.full(block.mesh.modes, made.devices.idle**made.devices.columns)
    return Programmed(block.mesh.theta, block.mesh.phi, block.mesh.output_phase, through)


def fitted(
    block: Block,
    made: Made,
    signals: tuple[Floats, Floats] | None,
    steps: int,
    seed: int,
    amplitude: Floats | None = None,
) -> Programmed:
    """Phases for the devices as they are: local correction, then least squares of the real part.

    Args:
        block: The block.
        made: Its devices, known.
        signals: (points, s) signals that come in and (points, s) what the unitary's outputs should be with them;
            errors then count as these signals see them. Every direction counts alike where left out.
        steps: L-BFGS steps at most.
        seed: Draws the imaginary part of the start.
        amplitude: (s,) share of each row's field that is real at the start; ``AMPLITUDE`` where left out.
    """
    target, inputs = (block.unitary, None) if signals is None else _weighed(block, *signals)
    problem = Problem(made.devices, target, homodyne=True, inputs=inputs)
    rng = np.random.default_rng([seed, block.number])
    best = (True, np.inf)
    for _ in range(DRAWS):
        start = rectangular(_started(block.unitary, amplitude, rng))
        local = np.concatenate(correct_locally(made.devices, start.theta, start.phi, start.output_phase)[:3])
        x = wrap(fit_lbfgs(problem, local, steps)[0])
        first, matrix = _matrix(problem, local), _matrix(problem, x)
        before, error = problem.shape_error(first), problem.shape_error(matrix)
        scale, lit = (problem.scale(problem.output_fields(m))[:, 0] for m in (matrix, first))
        dark = bool(np.any(np.abs(scale) < DARK * np.abs(lit)))
        if (dark, error) < best:
            theta, phi, output = problem.split(x)
            # an attenuator makes no sign
            output = wrap(output + np.where(scale < 0.0, np.pi, 0.0))
            best, found = (dark, error), Programmed(theta, phi, output, np.abs(scale))
        if not dark and error < GAIN * before:
            break
    return found


def _started(unitary: Floats, amplitude: Floats | None, rng: np.random.Generator) -> Complexes:
    """(s, s) unitary whose real part is the given one, row by row as weak as asked for.

    Rows of full amplitude mix among themselves; a weaker one is turned by itself, as a mix of rows of different
    amplitudes is no unitary.
    """
    if amplitude is None:
        return completed(unitary, AMPLITUDE, rng)
    strong = np.flatnonzero(amplitude >= AMPLITUDE)
    left = np.diag(np.exp(1j * np.arccos(np.minimum(amplitude, 1.0))))
    if strong.size:
        left[np.ix_(strong, strong)] = completed(np.eye(strong.size), AMPLITUDE, rng)
    return np.asarray(left @ unitary)


def _matrix(problem: Problem, x: Floats) -> Complexes:
    """(N, N) what the mesh makes at phases x, (unknowns,) in rad."""
    theta, phi, output = problem.split(x)
    fields = np.eye(problem.devices.modes, dtype=np.complex128)
    return np.asarray(np.exp(1j * output)[:, np.newaxis] * transmit(problem.devices, theta, phi, fields))


def _weighed(block: Block, seen: Floats, wished: Floats) -> tuple[Floats, Complexes | None]:
    """(s, s) target and (s, s) inputs X that stand for all points.

    With C = X² the signals' mean products, |Re(M) x - y|² averages to |Re(M) X - Y|² and a constant, Y X that of y xᵀ.
    """
    power = seen.T @ seen / len(seen)
    mean = float(np.trace(power)) / len(power)
    if mean == 0.0:
        return block.unitary, None
    values, vectors = np.linalg.eigh(power / mean)
    root = np.sqrt(np.maximum(values, 0.0) + UNSEEN)
    overlap = wished.T @ seen / (len(seen) * mean) + UNSEEN * block.unitary
    return overlap @ (vectors / root) @ vectors.T, ((vectors * root) @ vectors.T).astype(np.complex128)


def dimmed(blocks: tuple[Block, ...], made: list[Made], programmed: list[Programmed]) -> list[Floats | None]:
    """(s,) amplitudes of each block's rows with which its attenuators can be as closed as they have to; None if so.

    Couplers that are not 50:50 leave an attenuator ajar: a few percent of the field pass at least.
    """
    scale = _scales(blocks, made, programmed)
    found: list[Floats | None] = []
    for block, part, one in zip(blocks, made, programmed, strict=True):
        least = CLEAR * np.abs(attenuation(part, -part.attenuator_offset))
        need = block.diagonal / (one.scale * scale[block.rows])
        weak = need < least
        found.append(np.where(weak, AMPLITUDE * need / least, AMPLITUDE) if np.any(weak) else None)
    return found


def biased(blocks: tuple[Block, ...], made: list[Made], programmed: list[Programmed]) -> tuple[list[Phases], Floats]:
    """Heater phases of a layer's blocks, and (out,) scales that are left to its electronics.

    Attenuators take up the scales of a block's rows; of all blocks that add to an output, that which has to give it
    most is open.
    """
    scale, phases = _scales(blocks, made, programmed), []
    for block, part, one in zip(blocks, made, programmed, strict=True):
        heater = attenuator_phase(part, block.diagonal / (one.scale * scale[block.rows]))
        turned = np.angle(attenuation(part, heater)) + part.output_offset
        phases.append(Phases(one.theta, one.phi, wrap(one.output - turned), heater))
    return phases, scale


def _scales(blocks: tuple[Block, ...], made: list[Made], programmed: list[Programmed]) -> Floats:
    """(out,) largest field that an output needs of any block, over what an open attenuator passes."""
    scale = np.zeros(max(block.rows.stop for block in blocks))
    for block, part, one in zip(blocks, made, programmed, strict=True):
        most = np.abs(attenuation(part, np.pi - part.attenuator_offset))
        np.maximum(scale[block.rows], block.diagonal / (one.scale * most), out=scale[block.rows])
    return np.where(scale > 0.0, scale, 1.0)
