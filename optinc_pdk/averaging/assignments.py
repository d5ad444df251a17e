"""Assignments of symbols to servers that give a lattice point: random, and the worst for an unbalanced P."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.averaging.array_checks import Integers, as_integers
from optinc_pdk.averaging.task import Averaging


def assign_random(task: Averaging, steps: ArrayLike, seed: int) -> Integers:
    """Draw server symbols at random whose average is the given lattice point.

    The servers' shares are drawn one after another, each uniform over its possible values, then permuted.

    Args:
        task: The task.
        steps: Lattice points in steps of 1/N, shape (points, K).
        seed: Seed of the generator.

    Returns:
        Symbols 0 ... 3, shape (points, servers, M), for `Averaging.preprocess`.

    Raises:
        ValueError: A step is out of range.
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
    """Return the server symbols for a lattice point with the largest error from imbalance of P.

    Maximizes |Σ_s e_s x_s| over the servers' integer shares x_s with the given sum. The sum is linear, so that filling
    the servers in ascending or descending order of their errors is optimal; the order with the larger absolute error
    is taken.

    Args:
        task: The task.
        steps: Lattice points in steps of 1/N, shape (points, K).
        errors: Error e_s of each server's weight, shape (servers,), or (servers, K) for separate errors of each input.

    Returns:
        Symbols 0 ... 3, shape (points, servers, M), for `Averaging.preprocess`.

    Raises:
        ValueError: A step is out of range, or the errors' shape is wrong.
    """
    total = _steps(task, steps)
    weights = np.asarray(errors, dtype=np.float64)
    if weights.shape not in ((task.servers,), (task.servers, task.groups)):
        raise ValueError(
            f"errors of shape {weights.shape} must be one per server, ({task.servers},), "
            f"or per server and input, ({task.servers}, {task.groups})"
        )
    weights = np.broadcast_to(weights.reshape(task.servers, -1), (task.servers, task.groups))
    before = task.full_scale * np.arange(task.servers)[:, None]
    filled = np.clip(total[:, None, :] - before, 0, task.full_scale)
    order = np.argsort(weights, axis=0, kind="stable")
    place = np.argsort(order, axis=0, kind="stable")[None]
    low = np.take_along_axis(filled, place, axis=1)
    high = np.take_along_axis(filled, task.servers - 1 - place, axis=1)
    take_high = np.abs((weights * high).sum(axis=1)) >= np.abs((weights * low).sum(axis=1))
    return _share_symbols(task, np.where(take_high[:, None, :], high, low))


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
