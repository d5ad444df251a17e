"""PyTorch modules that the user's own loop trains for a chip: errors in forward passes, weights of small meshes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_api

if TYPE_CHECKING:
    from torch import Tensor, nn


__all__ = ["chip_errors", "project_blocks"]

TINY = 1e-12
"""Least norm, squared norm or signal by which is divided."""


@contextmanager
def chip_errors(module: nn.Module, noise: float, field_noise: float = 0.0, seed: int = 0) -> Iterator[None]:
    """Add the errors of a chip to every ``nn.Linear`` of a module within a ``with`` block.

    As on a chip, signals x are scaled to a maximum of 1, here by the largest magnitudes in the block so far, and every
    row of a matrix to norm 1, which gives Q. Every forward pass draws new errors: a matrix error ε adds
    ε ‖Q‖₂ G x / √n, with one normal G for all samples and n columns; a field noise σ adds σ ‖Q‖₂ times a normal number
    to every output of every sample. Both are those of :class:`optinc_pdk.networks.training.train.TrainingSchedule`, and
    gradients include them. Outside the block the module is unchanged.

    Args:
        module: The module; its parameters may be trained within the block.
        noise: Matrix error ε, 0 to 1.
        field_noise: Field noise σ, 0 to 1.
        seed: Seed of all errors.

    Raises:
        InputError: The module has no ``nn.Linear``, or an error is out of range.
    """
    from torch import nn

    for name, value in (("noise", noise), ("field_noise", field_noise)):
        if not 0.0 <= value < 1.0:
            raise InputError(f"{name} = {value} must be at least 0 and below 1, relative to the norm of a matrix")
    layers = [part for part in module.modules() if isinstance(part, nn.Linear)]
    if not layers:
        raise InputError(f"module is a {type(module).__name__} without torch.nn.Linear; give a module with such layers")
    hooks = [
        layer.register_forward_hook(_Errors(noise, field_noise, (seed, number))) for number, layer in enumerate(layers)
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class _Errors:
    """Hook that adds the errors of one layer to its outputs, and keeps the largest magnitudes of its inputs."""

    def __init__(self, noise: float, field_noise: float, seed: tuple[int, int]) -> None:
        self.noise, self.field_noise = noise, field_noise
        self.seed = int(np.random.SeedSequence(seed).generate_state(1)[0])
        self.random: Any = None
        self.largest: Any = None

    def __call__(self, layer: nn.Linear, inputs: tuple[Tensor, ...], outputs: Tensor) -> Tensor:
        import torch

        signal, weight = inputs[0], layer.weight
        if self.random is None:
            self.random = torch.Generator(weight.device).manual_seed(self.seed)
        largest = signal.detach().abs().reshape(-1, signal.shape[-1]).amax(dim=0)
        self.largest = largest if self.largest is None else torch.maximum(self.largest, largest)
        columns = self.largest.clamp(min=TINY)
        rows = weight * columns
        norm = rows.norm(dim=1).clamp(min=TINY)
        scale = norm * torch.linalg.matrix_norm(rows / norm[:, None], ord=2)

        def normal(shape: torch.Size) -> Tensor:
            return torch.randn(shape, generator=self.random, device=weight.device, dtype=weight.dtype)

        matrix_error = (signal / columns) @ normal(weight.shape).T / weight.shape[1] ** 0.5
        result: Tensor = outputs + scale * (self.noise * matrix_error + self.field_noise * normal(outputs.shape))
        return result


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
