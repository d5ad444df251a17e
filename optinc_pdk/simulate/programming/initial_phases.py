"""Initial phases of a layer: those of the ideal mesh, corrected for static phases of guides, trees and dummies."""

from __future__ import annotations

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.assemble import WeightBlock
from optinc_pdk.circuit import Board
from optinc_pdk.factor import BlockFactor, SvdFactor
from optinc_pdk.simulate.programming.input_paths import input_paths
from optinc_pdk.simulate.programming.light_paths import LightPath, PathTracer
from optinc_pdk.simulate.programming.mode_tracking import MeshRecord, ModeTracker
from optinc_pdk.simulate.programming.targets import LayerTarget

FIRST_TRANSMISSION = 0.95
"""Initial transmission of the strongest attenuator: at 1 the fit could not raise it, and its derivative would be 0."""


def set_initial_phases(
    walker: PathTracer,
    channel: dict[str, int],
    board: Board,
    target: LayerTarget,
    phases: Floats,
    shares: Floats | None = None,
) -> dict[str, MeshRecord]:
    """Set the initial phases of one layer, except those of its local oscillators and of trims of sums over blocks.

    The phases are those of the ideal meshes, corrected for static phases of the chip.

    Args:
        walker: Tracer of light paths in the circuit.
        channel: Heater number by pad label.
        board: Labels of the layer's inputs.
        target: The layer with its factorisation.
        phases: (H,) phases in rad, written in place and not wrapped.
        shares: (pieces,) factor on the field transmission of each piece, 0 ... 1; None for 1.

    Returns:
        Devices of the layer's meshes, by prefix of their pad labels.

    Raises:
        ValueError: The circuit does not belong to this network.
    """
    paths_in = input_paths(walker, channel, board, target, phases)
    factor = target.factor.factor
    recorded: dict[str, MeshRecord] = {}
    if not isinstance(factor, BlockFactor):
        parts = (factor,) if isinstance(factor, SvdFactor) else factor.parts
        for block, part, paths in zip(target.blocks, parts, paths_in, strict=True):
            recorded |= _svd(walker, channel, block, part, paths, phases)
        return recorded
    attenuation = _attenuations(target, factor, shares)
    for block, paths, mesh, diagonal in zip(target.blocks, paths_in, factor.unitary, attenuation, strict=True):
        modes = ModeTracker(walker, channel, dict(enumerate(paths)), dict.fromkeys(range(mesh.modes), 0.0), phases)
        modes.ends |= dict.fromkeys(range(len(paths), mesh.modes))
        modes.mesh(f"{block.name}_v", mesh)
        modes.attenuate(f"{block.name}_att", FIRST_TRANSMISSION * diagonal[: len(block.rows)])
        recorded |= modes.recorded
    return recorded


def _svd(
    walker: PathTracer,
    channel: dict[str, int],
    block: WeightBlock,
    factor: SvdFactor,
    paths_in: list[LightPath],
    phases: Floats,
) -> dict[str, MeshRecord]:
    name = block.name
    modes = ModeTracker(walker, channel, dict(enumerate(paths_in)), dict.fromkeys(range(len(paths_in)), 0.0), phases)
    modes.dummies(block.padding[0])
    modes.mesh(f"{name}_v", factor.v)
    modes.attenuate(f"{name}_att", FIRST_TRANSMISSION * factor.attenuation)
    for row in range(factor.s.size, factor.u.modes):
        modes.ends[row], modes.error[row] = None, 0.0
    modes.mesh(f"{name}_u", factor.u)
    return modes.recorded


def _attenuations(target: LayerTarget, factor: BlockFactor, shares: Floats | None) -> Floats:
    """(blocks, modes) field transmissions with each piece's share; the largest is 1."""
    diagonal = np.zeros_like(factor.attenuation)
    kept = np.ones(len(target.pieces)) if shares is None else shares
    number = {block.name: i for i, block in enumerate(target.blocks)}
    for piece, share in zip(target.pieces, kept.tolist(), strict=True):
        at = number[piece.block.name], piece.row - piece.block.rows.start
        diagonal[at] = share * factor.attenuation[at]
    strongest = float(diagonal.max())
    return diagonal / strongest if strongest > 0.0 else diagonal
