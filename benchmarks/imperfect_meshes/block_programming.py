"""Programming of blocks on imperfect meshes with known devices, for networks whose chips are too large to extract.

Every block is a rectangular mesh with a phase heater and an attenuator per output (arXiv 2603.28290: diagonal times
unitary). Copies and sums of blocks, mixers and electronics are ideal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from imperfect_meshes.fabricated_blocks import (
    BlockPhases,
    FabricatedBlock,
    MeshBlock,
    attenuation,
    attenuator_phase,
    blocks_of,
    computed_matrix,
    draw_block,
    transmission,
)
from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.factor import rectangular
from optinc_pdk.factor.correction import CorrectionProblem, correct_locally, fit_lbfgs
from optinc_pdk.factor.mesh import wrap
from optinc_pdk.factor.mesh_devices import transmit
from optinc_pdk.factor.mesh_shape import unitary_completion
from optinc_pdk.validation import validate_api

__all__ = [
    "BlockPhases",
    "FabricatedBlock",
    "MeshBlock",
    "ProgrammedMesh",
    "attenuation",
    "attenuator_phase",
    "block_phases",
    "blocks_of",
    "computed_matrix",
    "draw_block",
    "fit_block",
    "ideal_programming",
    "reduced_amplitudes",
    "transmission",
]


AMPLITUDE = 0.9
"""Real part of the fields at the start of a fit."""
DRAWS = 8
"""Largest number of starts. Row scales are free, so a fit may end with rows that have almost no light."""
GAIN = 0.5
"""Error after a fit, relative to local correction, below which no further start is tried."""
DARK = 0.25
"""A row is dark if its scale after a fit, relative to the start, is below this; further starts are then tried."""
MIN_FIELD_RATIO = 1.1
"""Lowest field required of an attenuator, relative to the lowest that it can transmit."""
UNUSED_DIRECTION_WEIGHT = 1e-6
"""Weight of directions without signal, relative to the mean signal power; keeps the fit regular."""


@dataclass(frozen=True, eq=False)
class ProgrammedMesh:
    """Phases of a mesh that realises a unitary matrix up to one scale factor per row.

    Attributes:
        theta: (MZIs,) internal phases in rad.
        phi: (MZIs,) external phases in rad.
        output: (s,) output phases in rad.
        scale: (s,) factor of each row: realised row over row of the unitary.
    """

    theta: Floats
    phi: Floats
    output: Floats
    scale: Floats


def ideal_programming(block: MeshBlock, fabricated: FabricatedBlock) -> ProgrammedMesh:
    """Return the phases that a mesh of ideal devices needs, without correction for the fabricated devices.

    The row scales are the common loss of the mesh, which the electronics compensate.
    """
    common_transmission = np.full(block.mesh.modes, fabricated.devices.idle**fabricated.devices.columns)
    return ProgrammedMesh(block.mesh.theta, block.mesh.phi, block.mesh.output_phase, common_transmission)


def fit_block(
    block: MeshBlock,
    fabricated: FabricatedBlock,
    signals: tuple[Floats, Floats] | None,
    steps: int,
    seed: int,
    amplitude: Floats | None = None,
    quadrature_weight: float = 0.0,
) -> ProgrammedMesh:
    """Fit the phases of a block to its known devices, so that the real part of its transmission is the target unitary.

    Each attempt corrects the MZIs locally and then minimises the least-squares error of the real part with L-BFGS. Row
    scales are free.

    Args:
        block: The block.
        fabricated: Its devices.
        signals: (points, s) input signals and (points, s) target outputs of the unitary, by which errors are weighted.
            If None, all input directions have equal weight.
        steps: Largest number of L-BFGS steps.
        seed: Seed of the imaginary part of the starting matrix.
        amplitude: (s,) real part of each row's field at the start; ``AMPLITUDE`` by default.
        quadrature_weight: Weight of the imaginary part of the transmission. Detectors do not read it, but phase errors
            of the sources turn it into the signal. With 0, it becomes as large as the real part.
    """
    target, inputs = (block.unitary, None) if signals is None else _weighted(block, *signals)
    problem = CorrectionProblem(fabricated.devices, target, True, inputs, quadrature_weight)
    rng = np.random.default_rng([seed, block.number])
    best = (True, np.inf)
    for _ in range(DRAWS):
        start = rectangular(_start_unitary(block.unitary, amplitude, rng))
        local = np.concatenate(correct_locally(fabricated.devices, start.theta, start.phi, start.output_phase)[:3])
        x = wrap(fit_lbfgs(problem, local, steps)[0])
        first_matrix, matrix = _transmission(problem, local), _transmission(problem, x)
        local_error, error = problem.error(first_matrix), problem.error(matrix)
        scale, first_scale = (problem.scale(problem.output_fields(m))[:, 0] for m in (matrix, first_matrix))
        dark = bool(np.any(np.abs(scale) < DARK * np.abs(first_scale)))
        if (dark, error) < best:
            theta, phi, output = problem.split(x)
            # attenuators cannot change the sign, so output phases do
            output = wrap(output + np.where(scale < 0.0, np.pi, 0.0))
            best, programmed = (dark, error), ProgrammedMesh(theta, phi, output, np.abs(scale))
        if not dark and error < GAIN * local_error:
            break
    return programmed


def _start_unitary(unitary: Floats, amplitude: Floats | None, rng: np.random.Generator) -> Complexes:
    """Return an (s, s) unitary whose real part is the given orthogonal matrix with rows of the given amplitudes.

    Rows of full amplitude are mixed with each other. A weaker row only gets a phase, because a mix of rows of different
    amplitudes is not unitary.
    """
    if amplitude is None:
        return unitary_completion(unitary, AMPLITUDE, rng)
    strong = np.flatnonzero(amplitude >= AMPLITUDE)
    phase_factors = np.diag(np.exp(1j * np.arccos(np.minimum(amplitude, 1.0))))
    if strong.size:
        phase_factors[np.ix_(strong, strong)] = unitary_completion(np.eye(strong.size), AMPLITUDE, rng)
    return np.asarray(phase_factors @ unitary)


def _transmission(problem: CorrectionProblem, x: Floats) -> Complexes:
    """Return the (N, N) transmission of the mesh at (unknowns,) phases in rad."""
    theta, phi, output = problem.split(x)
    fields = np.eye(problem.devices.modes, dtype=np.complex128)
    return np.asarray(np.exp(1j * output)[:, np.newaxis] * transmit(problem.devices, theta, phi, fields))


def _weighted(block: MeshBlock, inputs: Floats, outputs: Floats) -> tuple[Floats, Complexes | None]:
    """Return an (s, s) target Y and (s, s) inputs X that represent all points in the least-squares cost.

    With X² = mean of x xᵀ and Y X = mean of y xᵀ, the mean of |Re(M) x - y|² is |Re(M) X - Y|² plus a constant.
    """
    power = inputs.T @ inputs / len(inputs)
    mean = float(np.trace(power)) / len(power)
    if mean == 0.0:
        return block.unitary, None
    values, vectors = np.linalg.eigh(power / mean)
    root = np.sqrt(np.maximum(values, 0.0) + UNUSED_DIRECTION_WEIGHT)
    overlap = outputs.T @ inputs / (len(inputs) * mean) + UNUSED_DIRECTION_WEIGHT * block.unitary
    return overlap @ (vectors / root) @ vectors.T, ((vectors * root) @ vectors.T).astype(np.complex128)


def reduced_amplitudes(
    blocks: tuple[MeshBlock, ...], fabricated: list[FabricatedBlock], programmed: list[ProgrammedMesh]
) -> list[Floats | None]:
    """Compute smaller row amplitudes for blocks with rows that are weaker than their attenuators can make them.

    An attenuator whose couplers are not exactly 50:50 always transmits a few percent of the field.

    Args:
        blocks: Blocks of a layer.
        fabricated: Devices of each block.
        programmed: Fitted phases of each block.

    Returns:
        For each block, (s,) amplitudes for another call of :func:`fit_block`; None if its attenuators suffice.
    """
    scale = _scales(blocks, fabricated, programmed)
    amplitudes: list[Floats | None] = []
    for block, part, one in zip(blocks, fabricated, programmed, strict=True):
        least = MIN_FIELD_RATIO * np.abs(attenuation(part, -part.attenuator_offset))
        needed = block.diagonal / (one.scale * scale[block.rows])
        weak = needed < least
        amplitudes.append(np.where(weak, AMPLITUDE * needed / least, AMPLITUDE) if np.any(weak) else None)
    return amplitudes


def block_phases(
    blocks: tuple[MeshBlock, ...], fabricated: list[FabricatedBlock], programmed: list[ProgrammedMesh]
) -> tuple[list[BlockPhases], Floats]:
    """Compute the heater phases of a layer's blocks and the scales of the layer's electronics.

    Attenuators realise the diagonals and the row scales. Of all blocks that contribute to an output, the one that needs
    the largest field has its attenuator fully open.

    Args:
        blocks: Blocks of a layer.
        fabricated: Devices of each block.
        programmed: Fitted phases of each block.

    Returns:
        The phases of each block, and the (out,) scale of each output.
    """
    scale, phases = _scales(blocks, fabricated, programmed), []
    for block, part, one in zip(blocks, fabricated, programmed, strict=True):
        heater = attenuator_phase(part, block.diagonal / (one.scale * scale[block.rows]))
        static_phase = np.angle(attenuation(part, heater)) + part.output_offset
        phases.append(BlockPhases(one.theta, one.phi, wrap(one.output - static_phase), heater))
    return phases, scale


def _scales(
    blocks: tuple[MeshBlock, ...], fabricated: list[FabricatedBlock], programmed: list[ProgrammedMesh]
) -> Floats:
    """Return (out,) largest fields that an output needs from any block, relative to an open attenuator."""
    scale = np.zeros(max(block.rows.stop for block in blocks))
    for block, part, one in zip(blocks, fabricated, programmed, strict=True):
        most = np.abs(attenuation(part, np.pi - part.attenuator_offset))
        np.maximum(scale[block.rows], block.diagonal / (one.scale * most), out=scale[block.rows])
    return np.where(scale > 0.0, scale, 1.0)


validate_api(__name__)
