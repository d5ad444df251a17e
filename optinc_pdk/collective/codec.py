"""Shared-exponent fixed point: gradients to codes and back ("global block quantisation", arXiv 2603.28290).

Consecutive gradients form blocks. Of the largest magnitude in a block, over all ranks, only the exponent is used:
with the biased exponent E of that float32 all gradients of the block are below 2^(E-126). A word of B bits then
counts steps of 2^(E-125-B), rounded to the nearest, in offset binary; the topmost half step is cut off.

On the CPU compiled loops do the work, on other devices torch's operations; both give the same bits.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from optinc_pdk.collective.chips import Level

TOO_LARGE = 254
"""Biased exponent from which on there is no word: 2^127, rounded up, would be infinite; 255 is NaN and infinity."""

LIMIT = 2.0**127
"""Gradients lie below it."""

_LEAD = 125
"""A word of B bits in a block of biased exponent E counts steps of 2^(E - 125 - B)."""


def block_exponents(values: torch.Tensor, block: int) -> torch.Tensor:
    """Biased exponent of the largest magnitude in every block.

    Args:
        values: float32, shape (n,).
        block: Numbers in a block; the last block may have fewer.

    Returns:
        uint8, shape (blocks,); 255 where a number is NaN or infinite.
    """
    if values.is_cpu:
        from optinc_pdk.collective import kernels

        out = np.empty(-(-len(values) // block), dtype=np.uint8)
        kernels.exponents(values.numpy().view(np.uint32), block, out)
        return torch.from_numpy(out)
    bits = _blocks(values.view(torch.int32) & 0x7FFFFFFF, block)
    return (bits.amax(dim=1) >> 23).to(torch.uint8)


def steps(exponents: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Steps of the blocks, and their inverses; both exact powers of two.

    Blocks below 2^(B-2-126) have the step of those at it, whose inverse float32 just holds.

    Args:
        exponents: Biased, uint8, shape (blocks,), below `TOO_LARGE`.
        bits: Bits of a word.

    Returns:
        Two of float32, shape (blocks,).
    """
    powers = np.maximum(np.arange(TOO_LARGE), bits - 2) - _LEAD - bits
    step = torch.from_numpy(np.ldexp(1.0, powers).astype(np.float32)).to(exponents.device)
    inverse = torch.from_numpy(np.ldexp(1.0, -powers).astype(np.float32)).to(exponents.device)
    which = exponents.to(torch.int64)
    return step[which], inverse[which]


def code_type(level: Level, device: torch.device) -> torch.dtype:
    """The narrowest integers that hold every sum over the servers of a level."""
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
    """Write the codes of numbers.

    Args:
        values: float32, shape (n,).
        inverse: Inverse steps of the blocks, float32.
        block: Numbers in a block.
        bits: Bits of a word.
        places: What a unit of each group of symbols adds to the code, shape (groups,).
        codes: Where to, shape (n,), of `code_type`.
        offset: Steps added before rounding, 0 ... below 1.
    """
    if values.is_cpu:
        from optinc_pdk.collective import kernels

        arrays = values.numpy(), inverse.numpy()
        kernels.encode(*arrays, block, bits, tuple(places), np.float32(offset), codes.numpy())
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
    level: Level,
    table: torch.Tensor | None,
    out: torch.Tensor,
) -> None:
    """Write the averages that a reader of the last level reads at indices.

    Args:
        codes: Sums of the servers' codes, shape (n,), of `code_type`.
        step: Steps of the blocks, float32.
        block: Numbers in a block.
        bits: Bits of a word.
        level: The last level.
        table: The reader's row of its outputs, where it has any.
        out: Where to, float32, shape (n,).
    """
    half = 1 << (bits - 1)
    if codes.is_cpu:
        from optinc_pdk.collective import kernels

        if table is None:
            kernels.shifted(codes.numpy(), step.numpy(), block, level.shift, half, out.numpy())
        else:
            kernels.looked_up(codes.numpy(), step.numpy(), block, table.numpy(), out.numpy())
        return
    read = (codes >> level.shift) - half if table is None else table[codes]
    out.copy_((_blocks(read.to(torch.float32), block) * step[:, None]).flatten()[: len(out)])


def onward(codes: torch.Tensor, level: Level, table: torch.Tensor | None, out: torch.Tensor) -> None:
    """Write what units of a level below put out, which are codes of the next one.

    Args:
        codes: Sums of the servers' codes, shape (n,), of `code_type`.
        level: Their level.
        table: Its outputs, where it has any.
        out: Where to, shape (n,), of the next level's `code_type`.
    """
    index = codes.to(torch.int32)
    out.copy_(index >> level.shift if table is None else table[index])


def _blocks(values: torch.Tensor, block: int) -> torch.Tensor:
    """Numbers as rows of blocks, the last one filled up with zeros."""
    missing = -len(values) % block
    padded = torch.nn.functional.pad(values, (0, missing)) if missing else values
    return padded.view(-1, block)
