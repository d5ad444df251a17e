"""Server symbols whose average is a given lattice point: random ones, and the worst ones for an unbalanced P.

The servers of a unit of level 2 of a cascade are the units of level 1. Their last symbol is in steps of 1/N.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.averaging.array_checks import Floats, Integers, as_integers
from optinc_pdk.averaging.task import Averaging


def assign_random(task: Averaging, steps: ArrayLike, seed: int) -> Integers | Floats:
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


def assign_worst(task: Averaging, steps: ArrayLike, errors: ArrayLike) -> Integers | Floats:
    """Return the server symbols of each lattice point for which an imbalance of P causes the largest error.

    For each input, the servers' group values x_s maximise |Σ_s e_s x_s| for the sum that the lattice point fixes. The
    objective is linear, so that the optimum fills the servers in ascending or in descending order of their errors; the
    order with the larger absolute value is taken.

    Args:
        task: Averaging task.
        steps: Lattice points in integer steps of `Averaging.input_resolution`, shape (points, K).
        errors: Error e_s of each server's weight in P, shape (servers,), or shape (servers, K) if the errors differ
            between inputs.

    Returns:
        Symbols, shape (points, servers, M), as `Averaging.preprocess` takes them: integers 0 ... 3, or floats if the
        last one has a fraction.

    Raises:
        ValueError: A step is out of range, or a shape is wrong.
    """
    total = _steps(task, steps)
    weights = np.asarray(errors, dtype=np.float64)
    if weights.shape not in ((task.servers,), (task.servers, task.groups)):
        raise ValueError(
            f"errors of shape {weights.shape} must be one per server, ({task.servers},), "
            f"or per server and input, ({task.servers}, {task.groups})"
        )
    weights = np.broadcast_to(weights.reshape(task.servers, -1), (task.servers, task.groups))
    largest = _largest_shares(task)
    before = largest * np.arange(task.servers)[:, None]
    filled = np.clip(total[:, None, :] - before, 0, largest)
    order = np.argsort(weights, axis=0, kind="stable")
    place = np.argsort(order, axis=0, kind="stable")[None]
    low = np.take_along_axis(filled, place, axis=1)
    high = np.take_along_axis(filled, task.servers - 1 - place, axis=1)
    take_high = np.abs((weights * high).sum(axis=1)) >= np.abs((weights * low).sum(axis=1))
    return _share_symbols(task, np.where(take_high[:, None, :], high, low))


def _share_steps(task: Averaging) -> Integers:
    """Steps per unit of what each server sends, shape (K,): 1, or N for a finer last input."""
    return task.input_resolution // task.servers


def _largest_shares(task: Averaging) -> Integers:
    """Largest value of what each server sends, in its steps, shape (K,)."""
    return task.input_steps // task.servers


def _share_symbols(task: Averaging, shares: Integers) -> Integers | Floats:
    """Split every server's group values, shape (points, servers, K) in steps, into symbols (..., M)."""
    values, rest = np.divmod(shares, _share_steps(task))
    symbols = (values[..., None] >> (2 * np.arange(task.group_symbols - 1, -1, -1))) & 3
    symbols = symbols.reshape(*shares.shape[:-1], task.symbols)
    if not task.finer_input:
        return symbols
    levels = symbols.astype(np.float64)
    levels[..., -1] += rest[..., -1] / task.servers
    return levels


def _steps(task: Averaging, steps: ArrayLike) -> Integers:
    values = as_integers("steps", steps, int(task.input_steps.max()))
    if values.ndim != 2 or values.shape[1] != task.groups:
        raise ValueError(f"steps of shape {values.shape} must be (points, {task.groups})")
    if np.any(values > task.input_steps):
        raise ValueError(f"steps must be at most {task.input_steps.tolist()}, got {values.max(axis=0).tolist()}")
    return values
