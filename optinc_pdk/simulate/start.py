"""Starting phases of a layer: the ideal mesh, corrected for the phases that guides, trees and dummies add."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.circuit import Board
from optinc_pdk.factor import BlockFactor, rectangular
from optinc_pdk.simulate.enter import enter
from optinc_pdk.simulate.modes import Modes
from optinc_pdk.simulate.target import Target
from optinc_pdk.simulate.walk import Path, Walker

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]

NULL = 1e-9
"""Singular values below this share of the largest are zero."""
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
    if target.factor is None:
        _svd(walker, channel, target, lit[0], phases)
        return
    attenuation = _attenuations(target, target.factor, shares)
    for block, paths, mesh, diagonal in zip(target.blocks, lit, target.factor.unitary, attenuation, strict=True):
        modes = Modes(walker, channel, dict(enumerate(paths)), dict.fromkeys(range(mesh.modes), 0.0), phases)
        modes.ends |= dict.fromkeys(range(len(paths), mesh.modes))
        modes.mesh(f"{block.name}_v", mesh)
        modes.attenuate(f"{block.name}_att", LIT * diagonal[: len(block.rows)])


def _svd(walker: Walker, channel: dict[str, int], target: Target, lit: list[Path], phases: Floats) -> None:
    weight, name = _even_rows(target.mesh_weight), target.blocks[0].name
    modes = Modes(walker, channel, dict(enumerate(lit)), dict.fromkeys(range(len(lit)), 0.0), phases)
    left, attenuation, right = _generic_svd(weight, np.random.default_rng(target.index))
    modes.mesh(f"{name}_v", rectangular(right))
    modes.attenuate(f"{name}_att", LIT * attenuation)
    for row in range(attenuation.size, weight.shape[0]):
        modes.ends[row], modes.error[row] = None, 0.0
    modes.mesh(f"{name}_u", rectangular(left))


def _attenuations(target: Target, factor: BlockFactor, shares: Floats | None) -> Floats:
    """(blocks, modes) attenuations for rows of norm 1, of which the strongest lets all pass."""
    norm = np.linalg.norm(factor.matrix(), axis=1)
    diagonal = np.zeros_like(factor.attenuation)
    kept = np.ones(len(target.pieces)) if shares is None else shares
    number = {block.name: i for i, block in enumerate(target.blocks)}
    for piece, share in zip(target.pieces, kept.tolist(), strict=True):
        at = number[piece.block.name], piece.row - piece.block.rows.start
        if norm[piece.row] > 0.0:
            diagonal[at] = share * factor.attenuation[at] / norm[piece.row]
    strongest = float(diagonal.max())
    return diagonal / strongest if strongest > 0.0 else diagonal


def _even_rows(weight: Floats) -> Floats:
    """Rows of norm 1: each row's factor is free, and even rows need the least attenuation."""
    norm = np.linalg.norm(weight, axis=1, keepdims=True)
    even: Floats = np.divide(weight, norm, out=np.zeros_like(weight), where=norm > 0.0)
    return even


def _generic_svd(weight: Floats, rng: np.random.Generator) -> tuple[Complexes, Floats, Complexes]:
    """Singular value decomposition, random where the matrix leaves it free: in its null spaces.

    Null vectors as a library returns them are full of zeros, which want MZIs in perfect cross or bar;
    imbalanced couplers cannot make those. In random null spaces MZIs are near their middle.

    Returns:
        U (rows, rows), attenuations (r,) and V^H (columns, columns).
    """
    left, singular, right = np.linalg.svd(weight, full_matrices=True)
    rank = int(np.count_nonzero(singular > NULL * singular[0]))
    u, vh = left.astype(np.complex128), right.astype(np.complex128)
    u[:, rank:] = u[:, rank:] @ _haar(u.shape[0] - rank, rng)
    vh[rank:] = _haar(vh.shape[0] - rank, rng) @ vh[rank:]
    return u, singular / singular[0], vh


def _haar(size: int, rng: np.random.Generator) -> Complexes:
    """A random unitary (Mezzadri, arXiv math-ph/0609050)."""
    gauss = rng.standard_normal((size, size)) + 1j * rng.standard_normal((size, size))
    q, r = np.linalg.qr(gauss)
    phase = np.diagonal(r) / np.abs(np.diagonal(r))
    unitary: Complexes = q * phase
    return unitary
