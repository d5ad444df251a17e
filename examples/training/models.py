"""Networks for training: a ResNet, a LLaMA-style decoder, and a chain of linear layers.

The first two also in the sizes of arXiv 2603.28290; the small sizes train in seconds on a laptop.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import nn


class Residual(nn.Module):
    """A block of a ResNet (arXiv 1512.03385): two 3 × 3 convolutions, or 1 × 1, 3 × 3, 1 × 1 with a bottleneck.

    Args:
        inputs: Number of input channels.
        width: Number of channels of the 3 × 3 convolutions.
        stride: Stride of the first 3 × 3 convolution.
        bottleneck: Whether the block is 1 × 1, 3 × 3, 1 × 1, the last with four times the width.
    """

    def __init__(self, inputs: int, width: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        outputs = 4 * width if bottleneck else width
        if bottleneck:
            shapes = [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
        else:
            shapes = [(inputs, width, 3, stride), (width, width, 3, 1)]
        layers: list[nn.Module] = []
        for shape in shapes:
            layers += [_convolution(*shape), nn.BatchNorm2d(shape[1]), nn.ReLU()]
        self.body = nn.Sequential(*layers[:-1])
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(_convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map images (batch, inputs, edge, edge) to (batch, outputs, edge / stride, edge / stride)."""
        return F.relu(self.body(images) + self.shortcut(images))


def resnet(
    channels: int, widths: tuple[int, ...], blocks: tuple[int, ...], bottleneck: bool, classes: int
) -> nn.Sequential:
    """Create a ResNet for small images, whose first convolution is 3 × 3 at full size.

    Args:
        channels: Channels of an image.
        widths: Channels of the 3 × 3 convolutions of every stage; every stage but the first halves the edge length.
        blocks: Number of blocks of every stage.
        bottleneck: Whether the blocks have a bottleneck.
        classes: Number of classes.
    """
    layers: list[nn.Module] = [_convolution(channels, widths[0], 3, 1), nn.BatchNorm2d(widths[0]), nn.ReLU()]
    channels = widths[0]
    for stage, (width, count) in enumerate(zip(widths, blocks, strict=True)):
        for block in range(count):
            layers.append(Residual(channels, width, 2 if stage and not block else 1, bottleneck))
            channels = 4 * width if bottleneck else width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def chain(inputs: int, hidden: tuple[int, ...], classes: int) -> nn.Sequential:
    """Create a chain of linear layers with ReLU between them, which edAD supports."""
    widths = (inputs, *hidden)
    layers: list[nn.Module] = [nn.Flatten()]
    for below, above in pairwise(widths):
        layers += [nn.Linear(below, above), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], classes))


@dataclass(frozen=True)
class DecoderSize:
    """Sizes of a decoder.

    Attributes:
        layers: Number of layers.
        hidden: Width.
        heads: Number of attention heads; each has hidden / heads channels, an even number.
        feed_forward: Width between the three matrices of the feed-forward part.
        vocabulary: Number of tokens.
    """

    layers: int
    hidden: int
    heads: int
    feed_forward: int
    vocabulary: int


class Decoder(nn.Module):
    """LLaMA-style decoder (arXiv 2302.13971): RMSNorm first, rotary positions, SwiGLU, causal attention, no bias."""

    def __init__(self, size: DecoderSize) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size.vocabulary, size.hidden)
        self.layers = nn.Sequential(*(_DecoderLayer(size) for _ in range(size.layers)))
        self.norm = nn.RMSNorm(size.hidden)
        self.head = nn.Linear(size.hidden, size.vocabulary, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                # layers that add to the residual stream start smaller, for there are 2 additions per layer (GPT-2)
                onto_stream = name.endswith(("attention.out.weight", "feed_forward.down.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * size.layers) if onto_stream else 0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Map tokens (batch, context) to the logits of the next ones (batch, vocabulary, context)."""
        return self.head(self.norm(self.layers(self.embedding(tokens)))).transpose(1, 2)


class _DecoderLayer(nn.Module):
    def __init__(self, size: DecoderSize) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(size.hidden)
        self.attention = _Attention(size)
        self.feed_forward_norm = nn.RMSNorm(size.hidden)
        self.feed_forward = _FeedForward(size)

    def forward(self, stream: torch.Tensor) -> torch.Tensor:
        stream = stream + self.attention(self.attention_norm(stream))
        return stream + self.feed_forward(self.feed_forward_norm(stream))


class _Attention(nn.Module):
    def __init__(self, size: DecoderSize) -> None:
        super().__init__()
        self.heads = size.heads
        self.query, self.key, self.value, self.out = (nn.Linear(size.hidden, size.hidden, bias=False) for _ in range(4))

    def forward(self, stream: torch.Tensor) -> torch.Tensor:
        batch, context, hidden = stream.shape
        split = (batch, context, self.heads, hidden // self.heads)
        query, key, value = (
            matrix(stream).view(split).transpose(1, 2) for matrix in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(rotated(query), rotated(key), value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, context, hidden))


class _FeedForward(nn.Module):
    def __init__(self, size: DecoderSize) -> None:
        super().__init__()
        self.gate = nn.Linear(size.hidden, size.feed_forward, bias=False)
        self.up = nn.Linear(size.hidden, size.feed_forward, bias=False)
        self.down = nn.Linear(size.feed_forward, size.hidden, bias=False)

    def forward(self, stream: torch.Tensor) -> torch.Tensor:
        return self.down(F.silu(self.gate(stream)) * self.up(stream))


def rotated(vectors: torch.Tensor) -> torch.Tensor:
    """Apply rotary position embedding (arXiv 2104.09864): pairs (c, c + d/2) are rotated by position · 10000^(-2c/d).

    Args:
        vectors: Queries or keys, (..., context, d).
    """
    context, channels = vectors.shape[-2:]
    half = channels // 2
    rates = 10_000.0 ** (-torch.arange(half, device=vectors.device) / half)
    angles = torch.arange(context, device=vectors.device)[:, None] * rates
    first, second = vectors[..., :half], vectors[..., half:]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


def _convolution(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
