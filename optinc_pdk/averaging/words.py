"""Words and symbols that checks of the averaging task send.

One source of a chip is a server, which sends words, or a unit of level 1 of a cascade, which sends averages: its last
symbol carries the fraction in steps of 1/N.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.averaging.task import Averaging, as_integers


def source_values(task: Averaging) -> int:
    """Return the number of values that one server sends, 4^M, or one unit of level 1, N (4^M - 1) + 1."""
    words = 1 << task.bits
    return task.servers * (words - 1) + 1 if task.finer_input else words


def source_symbols(task: Averaging, values: ArrayLike) -> Ints | Floats:
    """Split values 0 ... `source_values` - 1, shape (...), into the symbols that a server or a unit of level 1 sends.

    Symbols are (..., M), most significant first: integers 0 ... 3, or with `finer_input` floats, the last one in steps
    of 1/N.

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


def assign_random(task: Averaging, steps: ArrayLike, seed: int) -> Ints | Floats:
    """Draw random server symbols whose average over the servers is a given lattice point.

    For each input, the servers' group values are drawn one after another, each uniformly over the values that are still
    possible, and are then randomly permuted among the servers.

    Args:
        task: Averaging task.
        steps: (points, K) lattice points in integer steps of `Averaging.input_resolution`.
        seed: Seed of the random generator.

    Returns:
        (points, servers, M) symbols, as `Averaging.preprocess` takes them: integers 0 ... 3, or floats if the last one
        has a fraction.

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
        steps: As for :func:`assign_random`, with the same result.
        errors: Relative error e of each weight in P, shape (servers,), (servers, K) or (servers, M).

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


BATCH_WORDS = 1 << 17
"""Number of words in a batch, of all servers together."""
MAX_QUOTIENTS = 1 << 10
"""Largest number of averages whose neighbourhood the corner cases contain."""


def cascade_words(task: Averaging, random_sets: int, seed: int) -> Iterator[Ints]:
    """Yield word sets for the N² servers of a cascade of `task`'s units in batches: all corner cases, then random sets.

    The corner cases are sums of q N² - 1, q N² and q N² + 1 for every average q (a sample of them for more than 10
    bits), where the average changes. Every sum occurs as words that are as equal as possible, as the largest word on as
    few servers as possible, and at random. They include zeros and the largest words of all servers. Half of the random
    sets are uniform; the other half have a uniform sum, so that large and small averages occur as well.

    Yields:
        (B, N, N) words, the servers of a unit on the last axis; about 2^17 words in a batch.

    Raises:
        ValueError: The number of random sets is negative.
    """
    if random_sets < 0:
        raise ValueError(f"random_sets = {random_sets} must be at least 0")
    rng = np.random.default_rng(seed)
    count, largest = task.servers**2, (1 << task.bits) - 1
    sums = _corner_sums(task, rng)
    batch = max(BATCH_WORDS // count, 1)
    for start in range(0, len(sums), batch):
        part = sums[start : start + batch]
        for words in (_even(part, count), _filled(part, count, largest), _random(part, count, largest, rng)):
            yield words.reshape(-1, task.servers, task.servers)
    for start in range(0, random_sets, batch):
        size = min(batch, random_sets - start)
        uniform = rng.integers(0, largest + 1, (size - size // 2, count))
        spread = _random(rng.integers(0, count * largest + 1, size // 2), count, largest, rng)
        yield np.concatenate([uniform, spread]).reshape(-1, task.servers, task.servers)


def _corner_sums(task: Averaging, rng: np.random.Generator) -> Ints:
    """Sums at which the average over N² servers changes, and their neighbours."""
    count, largest = task.servers**2, (1 << task.bits) - 1
    quotients = np.arange(largest + 1) if largest < MAX_QUOTIENTS else rng.integers(0, largest + 1, MAX_QUOTIENTS)
    powers = 4 ** np.arange(task.symbols, dtype=np.int64)
    quotients = np.unique(np.concatenate([quotients, powers - 1, powers, [0, largest]]))
    sums = (quotients[:, np.newaxis] * count + np.array([-1, 0, 1])).ravel()
    found: Ints = np.unique(sums[(sums >= 0) & (sums <= count * largest)])
    return found


def _even(sums: Ints, count: int) -> Ints:
    """(sums, count) words that differ by at most 1."""
    quotient, rest = np.divmod(sums, count)
    return np.asarray(quotient[:, np.newaxis] + (np.arange(count) < rest[:, np.newaxis]))


def _filled(sums: Ints, count: int, largest: int) -> Ints:
    """(sums, count) words of which all but one are 0 or the largest."""
    words: Ints = np.clip(sums[:, np.newaxis] - largest * np.arange(count), 0, largest)
    return words


def _random(sums: Ints, count: int, largest: int, rng: np.random.Generator) -> Ints:
    """(sums, count) random words with given sums, drawn one after another over the values that are still possible."""
    remaining = sums.copy()
    words = np.empty((len(sums), count), dtype=np.int64)
    for server in range(count):
        others = (count - 1 - server) * largest
        words[:, server] = rng.integers(np.maximum(remaining - others, 0), np.minimum(remaining, largest) + 1)
        remaining -= words[:, server]
    return rng.permuted(words, axis=1)
