"""Loops of `collective.codec` on the CPU, compiled by numba at the first call; memory bandwidth limits their speed.

Import this module inside functions only: numba takes a quarter of a second to import.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.compilation import compiled

_Floats = NDArray[np.float32]
_Codes = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.int32]

_ROUNDS = np.float32(1.5 * 2**23)
"""Adding and subtracting it rounds a float32 below 2^22 to the nearest integer, ties to even."""


@compiled
def exponents(bits: NDArray[np.uint32], block: int, out: NDArray[np.uint8]) -> None:
    """Write the biased exponent of the largest magnitude in every block of float32 numbers, given as bit patterns."""
    for b in range(out.size):
        piece = bits[b * block : (b + 1) * block]
        largest = np.uint32(0)
        for i in range(piece.size):
            largest = max(largest, np.uint32(piece[i] & np.uint32(0x7FFFFFFF)))
        out[b] = largest >> 23


@compiled
def encode(
    values: _Floats,
    inverse: _Floats,
    block: int,
    bits: int,
    places: tuple[np.int32, ...],
    offset: np.float32,
    codes: _Codes,
) -> None:
    """Quantise gradients to words and write their codes; see `codec.encode` for the arguments.

    The word of a gradient is gradient times inverse step plus offset, rounded, in offset binary. `places` is a tuple,
    so that the compiler unrolls the loop over it and vectorises the loop around that.
    """
    half = np.int32(1 << (bits - 1))
    top = np.int32(half - 1)
    groups = len(places)
    width = bits // groups
    mask = np.int32((1 << width) - 1)
    for b in range(inverse.size):
        piece = values[b * block : (b + 1) * block]
        target = codes[b * block : (b + 1) * block]
        step = inverse[b]
        for i in range(piece.size):
            number = np.int32(((piece[i] * step + offset) + _ROUNDS) - _ROUNDS)
            word = np.int32(min(number, top) + half)
            code = np.int32(0)
            for k in range(groups):
                group = np.int32((word >> np.int32(width * (groups - 1 - k))) & mask)
                code += np.int32(group * places[k])
            target[i] = code


@compiled
def decode_by_shift(codes: _Codes, steps: _Floats, block: int, shift: int, half: int, out: _Floats) -> None:
    """Convert indices to gradients: (index shifted right by `shift`, minus `half`) times the step of the block."""
    zero, places = np.int32(half), np.int32(shift)
    for b in range(steps.size):
        piece = codes[b * block : (b + 1) * block]
        target = out[b * block : (b + 1) * block]
        step = steps[b]
        for i in range(piece.size):
            target[i] = np.float32(np.int32(np.int32(piece[i]) >> places) - zero) * step


@compiled
def decode_by_table(codes: _Codes, steps: _Floats, block: int, table: NDArray[np.int16], out: _Floats) -> None:
    """Convert indices to gradients: the table's entry for the index, times the step of the block."""
    for b in range(steps.size):
        piece = codes[b * block : (b + 1) * block]
        target = out[b * block : (b + 1) * block]
        step = steps[b]
        for i in range(piece.size):
            target[i] = np.float32(table[piece[i]]) * step
