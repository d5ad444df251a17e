"""Server symbols whose average is a given lattice point: random ones, and the worst ones for an unbalanced P."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.averaging.array_checks import Floats, Integers, as_integers
from optinc_pdk.averaging.task import Averaging


def assign_random(task: Averaging, steps: ArrayLike, seed: int) -> Integers:
    """Draw random server symbols whose average over the servers is a given lattice point.

    For each input, the servers' group values are drawn one after another, each uniformly over the values that are still
    possible, and are then randomly permuted among the servers.

    Args:
        task: Averaging task without `finer_input`.
        steps: Lattice points in integer steps of 1/N, shape (points, K).
        seed: Seed of the random generator.

    Returns:
        Symbols 0 ... 3, shape (points, servers, M), as `Averaging.preprocess` takes them.

    Raises:
        ValueError: A step is out of range, the shape is wrong, or the task has `finer_input`.
    """
    remaining = _steps(task, steps).copy()
    rng = np.random.default_rng(seed)
    shares = np.empty((remaining.shape[0], task.servers, task.groups), dtype=np.int64)
    for server in range(task.servers):
        others = (task.servers - 1 - server) * task.full_scale
        shares[:, server] = rng.integers(np.maximum(remaining - others, 0), np.minimum(remaining, task.full_scale) + 1)
        remaining -= shares[:, server]
    return _share_symbols(task, rng.permuted(shares, axis=1))


def assign_worst(task: Averaging, steps: ArrayLike, errors: ArrayLike) -> Integers:
    """Return the server symbols of each lattice point for which errors of P's weights cause the largest error.

    For each input, the symbols σ of its group maximise |Σ e σ w| for the sum Σ σ w that the lattice point fixes, w =
    4^(g-1) … 1. For given sums of each place over the servers, the optimum fills the servers in the order of their
    errors; the sums of the places are found by dynamic programming over the carries between places.

    Args:
        task: Averaging task without `finer_input`.
        steps: Lattice points in integer steps of 1/N, shape (points, K).
        errors: Relative error e of each weight in P, shape (servers,), (servers, K) or (servers, M): one per server,
            per server and input, or per server and symbol.

    Returns:
        Symbols 0 ... 3, shape (points, servers, M), as `Averaging.preprocess` takes them.

    Raises:
        ValueError: A step is out of range, a shape is wrong, or the task has `finer_input`.
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
    symbols = np.empty((total.shape[0], task.servers, task.groups, task.group_symbols), dtype=np.int64)
    for group in range(task.groups):
        high, above = _largest_error(total[:, group], each[:, group])
        low, below = _largest_error(total[:, group], -each[:, group])
        symbols[:, :, group] = np.where((above >= below)[:, None, None], high, low)
    return symbols.reshape(total.shape[0], task.servers, task.symbols)


def _largest_error(total: Integers, errors: Floats) -> tuple[Integers, Floats]:
    """Symbols (points, servers, g) of one group that maximise Σ e σ w for the given totals, and the maxima (points,).

    The sum of a place j over the servers is S_j = digit_j + 4 c_(j-1) - c_j with carries c_j from the place below, 0
    behind the last place and in front of the first one, whose digit is all that is left of the total.
    """
    servers, places = errors.shape
    shift = 2 * np.arange(places - 1, -1, -1)
    digit = (total[None] >> shift[:, None]) & np.where(np.arange(places) > 0, 3, -1)[:, None]
    rank = np.argsort(np.argsort(-errors, axis=0, kind="stable"), axis=0, kind="stable")
    # (3 N + 1, servers, g) symbols for each sum of a place
    filled = np.clip(np.arange(3 * servers + 1)[:, None, None] - 3 * rank, 0, 3)
    worth = (filled * errors).sum(axis=1) * 4.0 ** (shift // 2)
    best = np.zeros((1, total.size))
    chosen: list[Integers] = []
    for j in range(places - 1, -1, -1):
        out, into = np.arange(servers if j else 1)[:, None, None], np.arange(len(best))[None, :, None]
        sums = digit[j] + 4 * out - into
        inside = (sums >= 0) & (sums <= 3 * servers)
        value = np.where(inside, worth[:, j][np.clip(sums, 0, 3 * servers)] + best, -np.inf)
        chosen.append(value.argmax(axis=1))
        best = value.max(axis=1)
    carry = np.zeros(total.size, dtype=np.int64)
    symbols = np.empty((total.size, servers, places), dtype=np.int64)
    for j in range(places):
        below = chosen[places - 1 - j][carry, np.arange(total.size)]
        symbols[:, :, j] = filled[digit[j] + 4 * carry - below, :, j]
        carry = below
    return symbols, best[0]


def _share_symbols(task: Averaging, shares: Integers) -> Integers:
    """Split every server's group values 0 ... 4^g - 1, shape (points, servers, K), into symbols (..., M)."""
    symbols = (shares[..., None] >> (2 * np.arange(task.group_symbols - 1, -1, -1))) & 3
    return symbols.reshape(*shares.shape[:-1], task.symbols)


def _steps(task: Averaging, steps: ArrayLike) -> Integers:
    if task.finer_input:
        raise ValueError("finer_input = true: level 2 of a cascade takes units' outputs, not servers' symbols")
    values = as_integers("steps", steps, task.servers * task.full_scale)
    if values.ndim != 2 or values.shape[1] != task.groups:
        raise ValueError(f"steps of shape {values.shape} must be (points, {task.groups})")
    return values
