"""Errors of a chip, told by value and share, as Table II of arXiv 2603.28290 tells them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_fields


@dataclass(frozen=True)
class ErrorHistogram:
    """How often a word is read wrong, and by how much.

    Attributes:
        rate: Share of the words that are wrong, 0 ... 1.
        values: Errors, read minus ideal, none of them 0.
        shares: Share of the errors that have each value; they add up to 1.
        seed: Seed of the draws, so that all servers read the same.

    Raises:
        InputError: These are no shares, or a seed below 0.
    """

    rate: float
    values: tuple[int, ...]
    shares: tuple[float, ...]
    seed: int = 2603

    def __post_init__(self) -> None:
        """Refuse what is no histogram."""
        validate_fields(self)
        if not 0.0 <= self.rate <= 1.0:
            raise InputError(f"rate = {self.rate} of errors must lie within 0 ... 1")
        if len(self.values) != len(self.shares) or not self.values:
            raise InputError(f"{len(self.values)} values of errors and {len(self.shares)} shares: give one of each")
        if 0 in self.values:
            raise InputError("values of errors hold 0, which is none: leave it out")
        if min(self.shares) < 0.0 or abs(sum(self.shares) - 1.0) > 1e-6:
            raise InputError(f"shares of errors {self.shares} must be positive and add up to 1")
        if self.seed < 0:
            raise InputError(f"seed = {self.seed} of the draws must be at least 0")

    def draw(self, words: int, time: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which of a number of words are wrong, and by how much.

        Args:
            words: Number of words.
            time: Number of the draw: equal on all servers, and never used twice.

        Returns:
            Places, each once, and errors.
        """
        random = np.random.default_rng((self.seed, time))
        count = random.binomial(words, self.rate)
        where = random.choice(words, count, replace=False, shuffle=False)
        return where, random.choice(np.array(self.values, dtype=np.int64), count, p=self.shares)


def _both(value: int, percent: float) -> dict[int, float]:
    """An error that the table gives as ±value: either sign as often."""
    return {value: percent / 200, -value: percent / 200}


def _row(accuracy_percent: float, errors: dict[int, float]) -> ErrorHistogram:
    return ErrorHistogram(round(1 - accuracy_percent / 100, 9), tuple(errors), tuple(errors.values()))


TABLE_II = {
    "4-7": _row(99.99986, _both(1, 90) | {-64: 0.1}),
    "4-8": _row(99.99999, {1024: 1.0}),
    "3-6": _row(99.98891, _both(1, 99) | _both(1024, 0.9) | {-4: 0.001}),
    "3-7": _row(99.99936, _both(4, 79.5) | {-16: 0.17, 12: 0.035}),
}
"""Table II of arXiv 2603.28290, 16 bits and 4 servers, by the layers approximated; its row "4-6" has no errors.

The rate is what its accuracy lacks to 1. Of an error that it gives as ±, each sign is taken to be as frequent.
"""
