"""Server symbols whose average is a given lattice point: random ones, and the worst ones for an unbalanced P."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.averaging.array_checks import Integers, as_integers
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
    """Return the server symbols of each lattice point for which an imbalance of P causes the largest error.

    For each input, the servers' group values x_s maximise |Σ_s e_s x_s| for the sum that the lattice point fixes. The
    objective is linear, so that the optimum fills the servers in ascending or in descending order of their errors; the
    order with the larger absolute value is taken.

    Args:
        task: Averaging task without `finer_input`.
        steps: Lattice points in integer steps of 1/N, shape (points, K).
        errors: Error e_s of each server's weight in P, shape (servers,), or shape (servers, K) if the errors differ
            between inputs.

    Returns:
        Symbols 0 ... 3, shape (points, servers, M), as `Averaging.preprocess` takes them.

    Raises:
        ValueError: A step is out of range, a shape is wrong, or the task has `finer_input`.
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
