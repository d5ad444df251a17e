"""Surrogate gradient of clipped ReLU, with which units outside the linear range 0 ... 1 keep learning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor


def leaky_clip(signal: Tensor, leak: float) -> Tensor:
    """Clip a signal to 0 ... 1, with a gradient outside this range as well.

    Args:
        signal: Pre-activations of any shape.
        leak: Slope of the gradient just outside the range; at a distance d it is leak / (1 + d)². 0 for the true
            gradient.

    Returns:
        min(max(z, 0), 1).
    """
    clipped: Tensor = _LeakyClip.apply(signal, leak)  # type: ignore[no-untyped-call]
    return clipped


class _LeakyClip(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, signal: Tensor, leak: float) -> Tensor:
        context.save_for_backward(signal)
        context.leak = leak
        return signal.clamp(0.0, 1.0)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (signal,) = context.saved_tensors
        distance = (signal - signal.clamp(0.0, 1.0)).abs()
        slope = torch.where(distance > 0.0, context.leak / (1.0 + distance) ** 2, 1.0)
        return gradients[0] * slope, None
