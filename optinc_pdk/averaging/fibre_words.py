"""What one source sends to a chip: the words of a server, or the averages of a unit of level 1 of a cascade.

A chip of level 2 of a cascade receives the light of units of level 1. The last symbol of a unit carries the fraction of
its average in steps of 1/N, so a unit sends a value 0 ... N (4^M - 1) in these steps, not a word.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.averaging.task import Averaging


def source_values(task: Averaging) -> int:
    """Return the number of values that one server sends, 4^M, or one unit of level 1, N (4^M - 1) + 1."""
    words = 1 << task.bits
    return task.servers * (words - 1) + 1 if task.finer_input else words


def source_symbols(task: Averaging, values: ArrayLike) -> Ints | Floats:
    """Split values 0 ... `source_values` - 1 into the symbols that a server or a unit of level 1 sends.

    Args:
        task: Averaging task.
        values: Ints, shape (...).

    Returns:
        Symbols, most significant first, shape (..., M): integers 0 ... 3. With `finer_input` they are floats, and the
        last one is in steps of 1/N.

    Raises:
        ValueError: A value is out of range.
    """
    if not task.finer_input:
        return task.encode(values)
    words, rest = np.divmod(np.asarray(values), task.servers)
    symbols = task.encode(words).astype(np.float64)
    symbols[..., -1] += rest / task.servers
    return symbols


def symbol_maxima(task: Averaging) -> Floats:
    """Return the largest symbol that one server or unit of level 1 sends at each place, shape (M,): 3, or 4 - 1/N."""
    maxima = np.full(task.symbols, 3.0)
    if task.finer_input:
        maxima[-1] += (task.servers - 1) / task.servers
    return maxima
