"""Codec between gradients and words: block floating point ("global block quantisation", arXiv 2603.28290).

Consecutive gradients form blocks that share one exponent: the biased float32 exponent E of the largest magnitude in the
block over all ranks. All gradients of the block are below 2^(E-126). A word of B bits is the gradient in steps of
2^(E-125-B), rounded to the nearest, in offset binary. Values in the topmost half step are clipped to the largest word.

On the CPU compiled loops are used, on other devices torch's operations; both give the same bits.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from optinc_collective.schemes._chips import ChipLevel

TOO_LARGE = 254
"""Smallest biased exponent that is refused: 2^127 could round up to infinity; 255 is NaN and infinity."""

LIMIT = 2.0**127
"""Upper limit of the magnitude of a gradient, exclusive."""

_LEAD = 125
"""The step of a word of B bits in a block of biased exponent E is 2^(E - 125 - B)."""


def block_exponents(values: torch.Tensor, block: int) -> torch.Tensor:
    """Compute the biased float32 exponent of the largest magnitude in every block of gradients, uint8, (blocks,).

    It is 255 if a gradient of the block is NaN or infinite. Gradients are float32, (n,); the last block may have fewer.
    """
    if values.is_cpu:
        from optinc_collective.schemes import _codec_kernels as codec_kernels

        out = np.empty(-(-len(values) // block), dtype=np.uint8)
        codec_kernels.exponents(values.numpy().view(np.uint32), block, out)
        return torch.from_numpy(out)
    bits = _blocks(values.view(torch.int32) & 0x7FFFFFFF, block)
    return (bits.amax(dim=1) >> 23).to(torch.uint8)


def block_steps(exponents: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the quantisation step of every block, and its inverse, float32; both are exact powers of two.

    The step of a block with biased exponent E is 2^(E-125-B) for words of B bits. Exponents below B - 2 are treated as
    B - 2: the smallest step is 2^-127, whose inverse is the largest power of two in float32. The exponents, uint8, are
    below `TOO_LARGE`.
    """
    powers = np.maximum(np.arange(TOO_LARGE), bits - 2) - _LEAD - bits
    step = torch.from_numpy(np.ldexp(1.0, powers).astype(np.float32)).to(exponents.device)
    inverse = torch.from_numpy(np.ldexp(1.0, -powers).astype(np.float32)).to(exponents.device)
    which = exponents.to(torch.int64)
    return step[which], inverse[which]


def code_type(level: ChipLevel, device: torch.device) -> torch.dtype:
    """Return the narrowest data type that holds every index of a level, the sum of its senders' codes.

    It is uint8, uint16 or int32 on the CPU, and int32 on other devices.
    """
    if device.type != "cpu" or level.size > 1 << 16:
        return torch.int32
    return torch.uint8 if level.size <= 1 << 8 else torch.uint16


def encode(
    values: torch.Tensor,
    inverse: torch.Tensor,
    block: int,
    bits: int,
    places: NDArray[np.int32],
    codes: torch.Tensor,
    offset: float = 0.0,
) -> None:
    """Quantise gradients to words and write their codes for the first level of a chip into `codes`.

    Args:
        values: Gradients, float32, shape (n,).
        inverse: Inverse steps of the blocks, float32, shape (blocks,); see `block_steps`.
        block: Number of gradients in a block.
        bits: Number of bits of a word.
        places: Weights of the groups of symbols in the code of this server, int32, shape (groups,); one row of
            `AveragingChip.places`.
        codes: Output, shape (n,), of the type that `code_type` returns for the first level.
        offset: Offset that is added before rounding, in steps, 0 <= offset < 1; see `AveragingChip.offset`.
    """
    if values.is_cpu:
        from optinc_collective.schemes import _codec_kernels as codec_kernels

        arrays = values.numpy(), inverse.numpy()
        codec_kernels.encode(*arrays, block, bits, tuple(places), np.float32(offset), codes.numpy())
        return
    half, width = 1 << (bits - 1), bits // len(places)
    scaled = (_blocks(values, block) * inverse[:, None] + offset).round().clamp(max=half - 1)
    words = scaled.flatten()[: len(values)].to(torch.int32) + half
    codes.zero_()
    for k, place in enumerate(places.tolist()):
        codes += ((words >> (width * (len(places) - 1 - k))) & ((1 << width) - 1)) * place


def decode(
    codes: torch.Tensor,
    step: torch.Tensor,
    block: int,
    bits: int,
    level: ChipLevel,
    table: torch.Tensor | None,
    out: torch.Tensor,
) -> None:
    """Convert indices of the last level to averaged gradients, and write these into `out`.

    Args:
        codes: Indices: sums of the codes of the level's senders, shape (n,), of the type that `code_type` returns.
        step: Steps of the blocks, float32, shape (blocks,); see `block_steps`.
        block: Number of gradients in a block.
        bits: Number of bits of a word.
        level: The last level of the chip.
        table: Row of `level.outputs` for this rank's receiver, shape (level.size,); None if the level has no table.
        out: Output, float32, shape (n,).
    """
    half = 1 << (bits - 1)
    if codes.is_cpu:
        from optinc_collective.schemes import _codec_kernels as codec_kernels

        if table is None:
            codec_kernels.decode_by_shift(codes.numpy(), step.numpy(), block, level.shift, half, out.numpy())
        else:
            codec_kernels.decode_by_table(codes.numpy(), step.numpy(), block, table.numpy(), out.numpy())
        return
    read = (codes >> level.shift) - half if table is None else table[codes]
    out.copy_((_blocks(read.to(torch.float32), block) * step[:, None]).flatten()[: len(out)])


def next_level_codes(codes: torch.Tensor, level: ChipLevel, table: torch.Tensor | None, out: torch.Tensor) -> None:
    """Convert indices of a level of a cascade, (n,), to codes of the next level, and write these into `out`.

    Both have the types that `code_type` returns for their levels. The table is as for `decode`.
    """
    index = codes.to(torch.int32)
    out.copy_(index >> level.shift if table is None else table[index])


def _blocks(values: torch.Tensor, block: int) -> torch.Tensor:
    """Reshape to rows of blocks; the last block is padded with zeros."""
    missing = -len(values) % block
    padded = torch.nn.functional.pad(values, (0, missing)) if missing else values
    return padded.view(-1, block)
