"""Server symbols whose average is a given lattice point: random ones, and the worst ones for an unbalanced P.

The servers of a unit of level 2 of a cascade are the units of level 1. Their last symbol is in steps of 1/N.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.averaging.array_checks import as_integers
from optinc_pdk.averaging.task import Averaging


def assign_random(task: Averaging, steps: ArrayLike, seed: int) -> Ints | Floats:
    """Draw random server symbols whose average over the servers is a given lattice point.

    For each input, the servers' group values are drawn one after another, each uniformly over the values that are still
    possible, and are then randomly permuted among the servers.

    Args:
        task: Averaging task.
        steps: Lattice points in integer steps of `Averaging.input_resolution`, shape (points, K).
        seed: Seed of the random generator.

    Returns:
        Symbols, shape (points, servers, M), as `Averaging.preprocess` takes them: integers 0 ... 3, or floats if the
        last one has a fraction.

    Raises:
        ValueError: A step is out of range, or the shape is wrong.
    """
    remaining = _steps(task, steps).copy()
    rng = np.random.default_rng(seed)
    largest = _largest_shares(task)
    shares = np.empty((remaining.shape[0], task.servers, task.groups), dtype=np.int64)
    for server in range(task.servers):
        others = (task.servers - 1 - server) * largest
        shares[:, server] = rng.integers(np.maximum(remaining - others, 0), np.minimum(remaining, largest) + 1)
        remaining -= shares[:, server]
    return _share_symbols(task, rng.permuted(shares, axis=1))


def assign_worst(task: Averaging, steps: ArrayLike, errors: ArrayLike) -> Ints | Floats:
    """Return the server symbols of each lattice point for which errors of P's weights cause the largest error.

    For each input, the symbols σ of its group maximise |Σ e σ w| for the sum Σ σ w that the lattice point fixes, w =
    4^(g-1) … 1. For given sums of each place over the servers, the optimum fills the servers in the order of their
    errors; the sums of the places are found by dynamic programming over the carries between places.

    Args:
        task: Averaging task.
        steps: Lattice points in integer steps of `Averaging.input_resolution`, shape (points, K).
        errors: Relative error e of each weight in P, shape (servers,), (servers, K) or (servers, M): one per server,
            per server and input, or per server and symbol.

    Returns:
        Symbols, shape (points, servers, M), as `Averaging.preprocess` takes them: integers 0 ... 3, or floats if the
        last one has a fraction.

    Raises:
        ValueError: A step is out of range, or a shape is wrong.
    """
    total = _steps(task, steps)
    given = np.asarray(errors, dtype=np.float64)
    if given.shape not in ((task.servers,), (task.servers, task.groups), (task.servers, task.symbols)):
        raise ValueError(
            f"errors of shape {given.shape} must be one per server, ({task.servers},), per server and input, "
            f"({task.servers}, {task.groups}), or per server and symbol, ({task.servers}, {task.symbols})"
        )
    given = given.reshape(task.servers, -1)
    each = np.repeat(given, task.symbols // given.shape[1], axis=1).reshape(task.servers, task.groups, -1)
    symbols = np.empty((total.shape[0], task.servers, task.groups, task.group_symbols))
    for group, parts in enumerate(_share_steps(task).tolist()):
        high, above = _largest_error(total[:, group], each[:, group], parts)
        low, below = _largest_error(total[:, group], -each[:, group], parts)
        symbols[:, :, group] = np.where((above >= below)[:, None, None], high, low)
    flat = symbols.reshape(total.shape[0], task.servers, task.symbols)
    return flat if task.finer_input else flat.astype(np.int64)


def _largest_error(total: Ints, errors: Floats, parts: int) -> tuple[Floats, Floats]:
    """Symbols (points, servers, g) of one group that maximise Σ e σ w for the given totals, and the maxima (points,).

    ``parts`` is the number of steps per unit of the last symbol. A place j has 4 values, the last one 4 · parts of
    them: b_j. Its sum over the servers is S_j = digit_j + b_j c_j - c_(j+1), with the carry c_j into the place above
    and c_(j+1) from the place below; there is none below the last place, and the first place keeps all that is left of
    the total.
    """
    servers, places = errors.shape
    values = np.full(places, 4, dtype=np.int64)
    values[-1] *= parts
    rank = np.argsort(np.argsort(-errors, axis=0, kind="stable"), axis=0, kind="stable")
    # for each place, (S, servers) shares of the servers for each sum S of the place
    filled = [
        np.clip(np.arange((count - 1) * servers + 1)[:, None] - (count - 1) * rank[:, j], 0, count - 1)
        for j, count in enumerate(values.tolist())
    ]
    best = np.zeros((1, total.size))
    digits: list[Ints] = []
    chosen: list[Ints] = []
    rest = total
    for j in range(places - 1, -1, -1):
        rest, digit = np.divmod(rest, values[j]) if j else (rest, rest)
        out, into = np.arange(servers if j else 1)[:, None, None], np.arange(len(best))[None, :, None]
        sums = digit + values[j] * out - into
        worth = (filled[j] * errors[:, j]).sum(axis=1) * 4.0 ** (places - 1 - j)
        worth /= parts if j == places - 1 else 1
        inside = (sums >= 0) & (sums < len(worth))
        value = np.where(inside, worth[np.clip(sums, 0, len(worth) - 1)] + best, -np.inf)
        digits.append(digit)
        chosen.append(value.argmax(axis=1))
        best = value.max(axis=1)
    carry = np.zeros(total.size, dtype=np.int64)
    symbols = np.empty((total.size, servers, places))
    for j in range(places):
        below = chosen[places - 1 - j][carry, np.arange(total.size)]
        sums = digits[places - 1 - j] + values[j] * carry - below
        symbols[:, :, j] = filled[j][sums] / (parts if j == places - 1 else 1)
        carry = below
    return symbols, best[0]


def _share_steps(task: Averaging) -> Ints:
    """Steps per unit of what each server sends, shape (K,): 1, or N for a finer last input."""
    return task.input_resolution // task.servers


def _largest_shares(task: Averaging) -> Ints:
    """Largest value of what each server sends, in its steps, shape (K,)."""
    return task.input_steps // task.servers


def _share_symbols(task: Averaging, shares: Ints) -> Ints | Floats:
    """Split every server's group values, shape (points, servers, K) in steps, into symbols (..., M)."""
    values, rest = np.divmod(shares, _share_steps(task))
    symbols = (values[..., None] >> (2 * np.arange(task.group_symbols - 1, -1, -1))) & 3
    symbols = symbols.reshape(*shares.shape[:-1], task.symbols)
    if not task.finer_input:
        return symbols
    levels = symbols.astype(np.float64)
    levels[..., -1] += rest[..., -1] / task.servers
    return levels


def _steps(task: Averaging, steps: ArrayLike) -> Ints:
    values = as_integers("steps", steps, int(task.input_steps.max()))
    if values.ndim != 2 or values.shape[1] != task.groups:
        raise ValueError(f"steps of shape {values.shape} must be (points, {task.groups})")
    if np.any(values > task.input_steps):
        raise ValueError(f"steps must be at most {task.input_steps.tolist()}, got {values.max(axis=0).tolist()}")
    return values
