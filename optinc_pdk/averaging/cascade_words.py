"""Words of the N² servers of a cascade that a check sends: corner cases and random words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.averaging.task import Averaging

BATCH_WORDS = 1 << 17
"""Number of words in a batch, of all servers together."""
MAX_QUOTIENTS = 1 << 10
"""Largest number of averages whose neighbourhood the corner cases contain."""


def cascade_words(task: Averaging, random_sets: int, seed: int) -> Iterator[Ints]:
    """Yield word sets for the N² servers of a cascade in batches: all corner cases, then random sets.

    The corner cases are sums of q N² - 1, q N² and q N² + 1 for every average q (a sample of them for more than 10
    bits), where the average changes. Every sum occurs as words that are as equal as possible, as the largest word on
    as few servers as possible, and at random. They include zeros and the largest words of all servers. Half of the
    random sets are uniform; the other half have a uniform sum, so that large and small averages occur as well.

    Args:
        task: Averaging task of one unit, with N servers.
        random_sets: Number of random sets.
        seed: Seed of the random generator.

    Yields:
        Words, shape (B, N, N), the servers of a unit on the last axis; about 2^17 words in a batch.

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
