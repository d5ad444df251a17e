"""Cascade of two levels of chips for N² servers: N units of level 1 feed one unit of level 2 (arXiv 2603.28290).

A unit of level 1 adds the fraction that truncation would lose to its last output. The levels are connected by light
without receivers: level 2 averages the units' fields with their errors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Ints
from optinc_pdk.averaging import Averaging, decide
from optinc_pdk.networks.network import AveragingNetwork


def cascade_tasks(bits: int, servers: int, groups: int) -> tuple[Averaging, Averaging]:
    """Returns the averaging tasks of the two levels of a cascade.

    Args:
        bits: Bits of a word.
        servers: Number of servers of one unit, N.
        groups: Number of inputs of a network.

    Returns:
        The task of level 1, whose last output includes the remainder, and the task of level 2, whose lowest input has
        steps of 1/N² instead of 1/N.
    """
    return (
        Averaging(bits, servers, groups, remainder=True),
        Averaging(bits, servers, groups, finer_input=True),
    )


@dataclass(frozen=True, eq=False)
class Cascade:
    """The two networks of a cascade: one for all N units of level 1, one for the unit of level 2.

    Attributes:
        first: Network of level 1; its task has a remainder.
        second: Network of level 2; its task has the finer input, see :func:`cascade_tasks`.

    Raises:
        ValueError: The tasks do not belong together.
    """

    first: AveragingNetwork
    second: AveragingNetwork

    def __post_init__(self) -> None:
        """Check that the tasks belong together."""
        first, second = self.first.task, self.second.task
        if not first.remainder or first.finer_input:
            raise ValueError(f"first has task {first}: level 1 of a cascade has remainder = true, finer_input = false")
        if not second.finer_input or second.remainder:
            raise ValueError(f"second has task {second}: level 2 of a cascade has finer_input = true and no remainder")
        if replace(first, remainder=False, finer_input=True) != second:
            raise ValueError(f"first averages {first}, second {second}: bits, servers and groups must be equal")

    def average(self, words: ArrayLike) -> Ints:
        """Computes the words that the receivers decode from the outputs of the cascade.

        Args:
            words: Ints 0 ... 2^bits - 1 of N² servers, shape (..., N, N), the servers of a unit on the last axis.

        Returns:
            Decoded words, integers of shape (...).
        """
        first, second = self.first.task, self.second.task
        between = self.first.forward(first.preprocess(first.encode(words)))
        outputs = self.second.forward(second.preprocess(between))
        return second.decode(decide(outputs).astype(np.int64))

    def ideal(self, words: ArrayLike) -> Ints:
        """Computes the average over all N² servers, rounded down, shape (...); words as for `average`."""
        task = self.first.task
        values = task.decode(task.encode(words))
        average: Ints = values.sum(axis=(-2, -1)) // task.servers**2
        return average

    def naive(self, words: ArrayLike) -> Ints:
        """Computes the result if both levels round down without a remainder, shape (...); words as for `average`."""
        task = Averaging(self.first.task.bits, self.first.task.servers, self.first.task.groups)
        return task.ideal(task.ideal(words))
