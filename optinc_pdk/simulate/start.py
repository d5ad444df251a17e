"""Starting phases of a layer: the ideal mesh, corrected for the phases that guides, trees and dummies add."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.circuit import Board
from optinc_pdk.factor import BlockFactor, SvdFactor
from optinc_pdk.simulate.enter import enter
from optinc_pdk.simulate.modes import Modes
from optinc_pdk.simulate.target import Target
from optinc_pdk.simulate.walk import Path, Walker

Floats = NDArray[np.float64]

LIT = 0.95
"""Transmission of the strongest attenuator at the start: at 1 it could not be raised, and its slope is 0."""


def start_layer(
    walker: Walker,
    channel: dict[str, int],
    board: Board,
    target: Target,
    phases: Floats,
    shares: Floats | None = None,
) -> None:
    """Write one layer's starting phases, all but those of its local oscillators and sums.

    Args:
        walker: The circuit.
        channel: Pad label to heater number.
        board: Labels of the layer's inputs.
        target: The layer; its matrix is made up to a factor per row.
        phases: (H,) phases in rad, written in place and not wrapped.
        shares: (pieces,) share of its light that each piece keeps; all of it where left out.

    Raises:
        ValueError: The circuit is not this network's.
    """
    lit = enter(walker, channel, board, target, phases)
    factor = target.factor.factor
    if isinstance(factor, SvdFactor):
        _svd(walker, channel, target.blocks[0].name, factor, lit[0], phases)
        return
    attenuation = _attenuations(target, factor, shares)
    for block, paths, mesh, diagonal in zip(target.blocks, lit, factor.unitary, attenuation, strict=True):
        modes = Modes(walker, channel, dict(enumerate(paths)), dict.fromkeys(range(mesh.modes), 0.0), phases)
        modes.ends |= dict.fromkeys(range(len(paths), mesh.modes))
        modes.mesh(f"{block.name}_v", mesh)
        modes.attenuate(f"{block.name}_att", LIT * diagonal[: len(block.rows)])


def _svd(
    walker: Walker, channel: dict[str, int], name: str, factor: SvdFactor, lit: list[Path], phases: Floats
) -> None:
    modes = Modes(walker, channel, dict(enumerate(lit)), dict.fromkeys(range(len(lit)), 0.0), phases)
    modes.mesh(f"{name}_v", factor.v)
    modes.attenuate(f"{name}_att", LIT * factor.attenuation)
    for row in range(factor.s.size, factor.u.modes):
        modes.ends[row], modes.error[row] = None, 0.0
    modes.mesh(f"{name}_u", factor.u)


def _attenuations(target: Target, factor: BlockFactor, shares: Floats | None) -> Floats:
    """(blocks, modes) attenuations with each piece's share, of which the strongest lets all light pass."""
    diagonal = np.zeros_like(factor.attenuation)
    kept = np.ones(len(target.pieces)) if shares is None else shares
    number = {block.name: i for i, block in enumerate(target.blocks)}
    for piece, share in zip(target.pieces, kept.tolist(), strict=True):
        at = number[piece.block.name], piece.row - piece.block.rows.start
        diagonal[at] = share * factor.attenuation[at]
    strongest = float(diagonal.max())
    return diagonal / strongest if strongest > 0.0 else diagonal
