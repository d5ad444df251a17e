"""The sine of a directly driven modulator as a module of PyTorch, so that networks can be trained with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from torch import Tensor


class ModulatorSine(nn.Module):
    """Activation sin(π/2 · clip(z, 0, 1)): the field of a push-pull modulator whose drive is limited to 0 … Vπ.

    A chip whose modulators are driven directly computes it without predistortion, see
    :mod:`optinc_pdk.simulate.modulator_drive`. It has no parameters. Files of weights alone, such as ``.safetensors``,
    are read with ``activation="sine"``.
    """

    def forward(self, signal: Tensor) -> Tensor:
        """Return the fields, 0 … 1, for pre-activations of any shape."""
        return torch.sin(0.5 * torch.pi * signal.clamp(0.0, 1.0))
