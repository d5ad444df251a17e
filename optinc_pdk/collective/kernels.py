"""The codec's loops, compiled by numba when they are first called; they run at the memory's speed.

Import this module inside functions only: numba takes a quarter of a second to import.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.factor.kernels import compiled

_Floats = NDArray[np.float32]
_Codes = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.int32]

_ROUNDS = np.float32(1.5 * 2**23)
"""Added to a float32 below 2^22 and taken away again, it leaves the nearest integer, ties to even."""


@compiled
def exponents(bits: NDArray[np.uint32], block: int, out: NDArray[np.uint8]) -> None:
    """The largest biased exponent in every block of float32 numbers; 255 where one is NaN or infinite."""
    for b in range(out.size):
        piece = bits[b * block : (b + 1) * block]
        largest = np.uint32(0)
        for i in range(piece.size):
            largest = max(largest, np.uint32(piece[i] & np.uint32(0x7FFFFFFF)))
        out[b] = largest >> 23


@compiled
def encode(values: _Floats, inverse: _Floats, block: int, bits: int, places: NDArray[np.int32], codes: _Codes) -> None:
    """The code of every value, in blocks of which each is multiplied by its inverse step."""
    half = np.int32(1 << (bits - 1))
    top = np.int32(half - 1)
    width = bits // places.size
    mask = np.int32((1 << width) - 1)
    words = np.empty(block, dtype=np.int32)
    sums = np.empty(block, dtype=np.int32)
    for b in range(inverse.size):
        piece = values[b * block : (b + 1) * block]
        target = codes[b * block : (b + 1) * block]
        step = inverse[b]
        if places.size == 1:
            place = places[0]
            for i in range(piece.size):
                number = np.int32((piece[i] * step + _ROUNDS) - _ROUNDS)
                target[i] = np.int32(min(number, top) + half) * place
            continue
        for i in range(piece.size):
            number = np.int32((piece[i] * step + _ROUNDS) - _ROUNDS)
            words[i] = min(number, top) + half
            sums[i] = 0
        for k in range(places.size):
            place = places[k]
            shift = np.int32(width * (places.size - 1 - k))
            for i in range(piece.size):
                sums[i] += np.int32((words[i] >> shift) & mask) * place
        for i in range(piece.size):
            target[i] = sums[i]


@compiled
def shifted(codes: _Codes, steps: _Floats, block: int, shift: int, half: int, out: _Floats) -> None:
    """Indices, shifted, less the word of zero, times the step of their block."""
    zero, places = np.int32(half), np.int32(shift)
    for b in range(steps.size):
        piece = codes[b * block : (b + 1) * block]
        target = out[b * block : (b + 1) * block]
        step = steps[b]
        for i in range(piece.size):
            target[i] = np.float32(np.int32(np.int32(piece[i]) >> places) - zero) * step


@compiled
def looked_up(codes: _Codes, steps: _Floats, block: int, table: NDArray[np.int16], out: _Floats) -> None:
    """What a table of signed averages has at the indices, times the step of their block."""
    for b in range(steps.size):
        piece = codes[b * block : (b + 1) * block]
        target = out[b * block : (b + 1) * block]
        step = steps[b]
        for i in range(piece.size):
            target[i] = np.float32(table[piece[i]]) * step
