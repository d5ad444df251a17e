"""Weights that small meshes realise exactly, for trainings with a loop of the user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_api

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["project_blocks"]

TINY = 1e-12
"""Least squared norm by which is divided."""


def project_blocks(layer: nn.Linear, block: int) -> None:
    """Replace a layer's weight, in place, by the nearest one of square blocks that are diagonal × orthogonal.

    One mesh and a row of attenuators realise such a block. Call it after every step of the optimizer, and build the
    network with the factorisation ``("approx", block)`` of this layer. If it is the first layer, give the network one
    range for all inputs: signals are scaled by the ranges, and columns of a block with different scales are no such
    block. Blocks at the edges of the weight are completed with unused rows and columns. Entries of the diagonals are at
    least 0, because a sign belongs to the orthogonal matrix.

    Args:
        layer: The layer, (out, in).
        block: Size of the blocks, 1 to the smaller of out and in.

    Raises:
        InputError: This is no ``nn.Linear``, the size is out of range, or weights are not finite.

    Source:
        arXiv 2603.28290, "Matrix approximation".
    """
    import torch

    if not isinstance(layer, torch.nn.Linear):
        raise InputError(f"layer is a {type(layer).__name__}; give a torch.nn.Linear, such as module[0]")
    if not torch.isfinite(layer.weight).all():
        raise InputError("the layer's weight has entries that are not finite; lower the learning rate")
    rows, columns = layer.weight.shape
    if not 1 <= block <= min(rows, columns):
        most = min(rows, columns)
        raise InputError(f"block = {block}: give a size from 1 to {most} for a layer of {rows} × {columns}")
    with torch.no_grad():
        whole = torch.zeros(-(-rows // block) * block, -(-columns // block) * block).to(layer.weight)
        used = torch.zeros_like(whole)
        whole[:rows, :columns], used[:rows, :columns] = layer.weight, 1.0
        given = _blocks(whole, block)
        left, _, right = torch.linalg.svd(given)
        orthogonal = left @ right * _blocks(used, block)
        power = (orthogonal**2).sum(-1, keepdim=True).clamp_min(TINY)
        diagonal = ((given * orthogonal).sum(-1, keepdim=True) / power).clamp_min(0.0)
        nearest = (diagonal * orthogonal).permute(0, 2, 1, 3).reshape(whole.shape)
        layer.weight.copy_(nearest[:rows, :columns])


def _blocks(whole: Tensor, block: int) -> Tensor:
    """Return the (down, across, block, block) blocks of a matrix whose sides are multiples of ``block``."""
    rows, columns = whole.shape
    return whole.reshape(rows // block, block, columns // block, block).permute(0, 2, 1, 3)


validate_api(__name__)
